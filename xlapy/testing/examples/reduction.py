"""Worked examples and refusals of operations that combine elements with a computation."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB

_SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"

EXAMPLES = [
    Example(
        "reduce",
        f"""
        {_SUM}
        x = f32[2,3] {{{{1, 2, 3}}, {{4, 5, 6}}}}
        zero = f32[] 0
        rows = f32[2] reduce(x, zero), dimensions={{1}}, to_apply=sum
        all = f32[] reduce(x, zero), dimensions={{0,1}}, to_apply=sum
        both = (f32[2], f32[]) tuple(rows, all)
        => f32[2] {{6, 15}}
        => f32[] 21
        """,
    ),
    Example(
        "reduce",
        """
        argmax {
          best = f32[] parameter(0)
          place = s32[] parameter(1)
          x = f32[] parameter(2)
          i = s32[] parameter(3)
          better = pred[] compare(x, best), direction=GT
          value = f32[] select(better, x, best)
          index = s32[] select(better, i, place)
          ROOT both = (f32[], s32[]) tuple(value, index)
        }
        x = f32[4] {3, 9, 4, 1}
        i = s32[4] iota(), iota_dimension=0
        lowest = f32[] -inf
        none = s32[] -1
        both = (f32[], s32[]) reduce(x, i, lowest, none), dimensions={0}, to_apply=argmax
        => f32[] 9
        => s32[] 1
        """,
    ),
    Example(
        "reduce-window",
        f"""
        {_SUM}
        x = f32[5] {{1, 2, 3, 4, 5}}
        zero = f32[] 0
        sums = f32[4] reduce-window(x, zero), window={{size=2}}, to_apply=sum
        padded = f32[3] reduce-window(x, zero), window={{size=3 stride=2 pad=1_1}}, to_apply=sum
        both = (f32[4], f32[3]) tuple(sums, padded)
        => f32[4] {{3, 5, 7, 9}}
        => f32[3] {{3, 9, 9}}
        """,
    ),
    Example(
        "select-and-scatter",
        f"""
        ge {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }}
        {_SUM}
        x = f32[4,5] {{{{7, 2, 5, 3, 8}}, {{3, 8, 9, 3, 4}}, {{1, 5, 7, 5, 6}}, {{0, 6, 2, 10, 2}}}}
        s = f32[2,2] {{{{2, 6}}, {{3, 1}}}}
        zero = f32[] 0
        y = f32[4,5] select-and-scatter(x, s, zero), window={{size=2x3 stride=2x2}}, select=ge, scatter=sum
        => f32[4,5] {{{{0, 0, 0, 0, 0}}, {{0, 0, 8, 0, 0}}, {{0, 0, 3, 0, 0}}, {{0, 0, 0, 1, 0}}}}
        """,
    ),
    Example(
        "map",
        """
        f {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          p = f32[] multiply(a, b)
          one = f32[] constant(1)
          ROOT s = f32[] add(p, one)
        }
        x = f32[3] {1, 2, 3}
        y = f32[3] {10, 20, 30}
        z = f32[3] map(x, y), dimensions={0}, to_apply=f
        => f32[3] {11, 41, 91}
        """,
    ),
    Example(
        "scan",
        """
        body {
          x = f32[] parameter(0)
          total = f32[] parameter(1)
          next = f32[] add(x, total)
          ROOT both = (f32[], f32[]) tuple(next, next)
        }
        x = f32[4] {1, 2, 3, 4}
        start = f32[] 10
        both = (f32[4], f32[]) scan(x, start), dimensions={0}, num_carries=1, to_apply=body
        => f32[4] {11, 13, 16, 20}
        => f32[] 20
        """,
        xla_cpu=NEWER_THAN_JAXLIB,
    ),
]

_ADD = "to_apply=(f32[], f32[] -> f32[])"
_OF_TWO = "to_apply=(f32[], f32[], f32[], f32[] -> (f32[], f32[]))"
_GE = "select=(f32[], f32[] -> pred[])"
_SCATTER = "scatter=(f32[], f32[] -> f32[])"
_BODY = "to_apply=(f32[], f32[] -> (f32[], f32[]))"


def _scan(
    constraint: int, message: str, result: str, operands: str, body: str, dimensions: str = "0", carries: int = 1
) -> Refusal:
    text = f"{result} scan({operands}), dimensions={{{dimensions}}}, num_carries={carries}, to_apply=({body})"
    return Refusal("scan", constraint, text, message)


REFUSALS = [
    Refusal("reduce", 1, f"f32[] reduce(f32[3], token[]), dimensions={{0}}, {_ADD}", "reduce takes arrays, operand 1"),
    Refusal(
        "reduce",
        2,
        f"(f32[], f32[]) reduce(f32[3], f32[4], f32[], f32[]), dimensions={{0}}, {_OF_TWO}",
        "operand 1 is f32[4], operand 0 is f32[3]; dimensions must be equal",
    ),
    Refusal("reduce", 3, f"f32[3] reduce(f32[3], f32[]), dimensions={{1}}, {_ADD}", "dimension 1 is out of bounds"),
    Refusal("reduce", 3, f"f32[] reduce(f32[3], f32[]), dimensions={{0,0}}, {_ADD}", "repeat a dimension"),
    Refusal(
        "reduce", 4, "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[] -> f32[])", "takes 2 parameters"
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[], f32[] -> (f32[], f32[]))",
        "returns 1 scalars",
    ),
    Refusal(
        "reduce", 5, "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[2], f32[] -> f32[2])", "must be a"
    ),
    Refusal(
        "reduce", 5, "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(s32[], f32[] -> f32[])", "accumulator 0"
    ),
    Refusal(
        "reduce", 5, "f32[] reduce(f32[3], s32[]), dimensions={0}, to_apply=(f32[], f32[] -> f32[])", "initial value"
    ),
    Refusal(
        "reduce", 5, "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[], s32[] -> f32[])", "(value 0) is"
    ),
    Refusal("reduce", 6, f"f32[] reduce(s32[3], f32[]), dimensions={{0}}, {_ADD}", "operand 0 is s32[3]"),
    Refusal("reduce-window", 1, f"f32[2] reduce-window(f32[3], token[]), window={{size=2}}, {_ADD}", "takes arrays"),
    Refusal(
        "reduce-window",
        2,
        f"(f32[2], f32[3]) reduce-window(f32[3], f32[4], f32[], f32[]), window={{size=2}}, {_OF_TWO}",
        "dimensions must be equal",
    ),
    Refusal(
        "reduce-window", 3, f"f32[2] reduce-window(s32[3], f32[]), window={{size=2}}, {_ADD}", "operand 0 is s32[3]"
    ),
    Refusal(
        "reduce-window", 4, f"f32[2] reduce-window(f32[3], f32[]), window={{size=2x1}}, {_ADD}", "window has 2 dim"
    ),
    Refusal(
        "reduce-window", 5, f"f32[2] reduce-window(f32[3], f32[]), window={{size=0}}, {_ADD}", "non-positive size: 0"
    ),
    Refusal(
        "select-and-scatter",
        1,
        f"f32[4] select-and-scatter(f32[4], token[], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        "takes arrays, operand 1 is token[]",
    ),
    Refusal(
        "select-and-scatter",
        2,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=2}}, \
select=(s32[], f32[] -> pred[]), {_SCATTER}",
        "select takes two f32[]",
    ),
    Refusal(
        "select-and-scatter",
        2,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=2}}, \
select=(f32[], f32[] -> f32[]), {_SCATTER}",
        "select returns pred[]",
    ),
    Refusal(
        "select-and-scatter",
        3,
        f"f32[4] select-and-scatter(f32[4], s32[2], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        "operand 0 is s32[2]",
    ),
    Refusal(
        "select-and-scatter",
        4,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2x2}}, \
{_GE}, {_SCATTER}",
        "the window has 2 dimensions",
    ),
    Refusal(
        "select-and-scatter",
        6,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=0}}, \
{_GE}, {_SCATTER}",
        "non-positive stride: 0",
    ),
    Refusal(
        "select-and-scatter",
        5,
        f"f32[4] select-and-scatter(f32[4], f32[3], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        "the window has f32[2] positions over f32[4]",
    ),
    Refusal("map", 1, f"f32[2] map(f32[2], f32[3]), dimensions={{0}}, {_ADD}", "dimensions must be equal"),
    Refusal(
        "map", 2, f"f32[2,2] map(f32[2,2], f32[2,2]), dimensions={{1,0}}, {_ADD}", "dimensions must be 0 to rank-1"
    ),
    Refusal("map", 3, f"f32[2] map(f32[2]), dimensions={{0}}, {_ADD}", "map: 1 operands, the computation is"),
    Refusal(
        "map", 3, f"f32[2] map(f32[2], s32[2]), dimensions={{0}}, {_ADD}", "parameter 1 of the computation is f32[]"
    ),
    Refusal("map", 3, "f32[2] map(f32[2]), dimensions={0}, to_apply=(f32[] -> f32[2])", "must return a scalar"),
    _scan(1, "scan takes arrays", "(f32[4], f32[])", "token[], f32[]", "f32[], f32[] -> (f32[], f32[])"),
    _scan(2, "exactly one dimension", "(f32[4], f32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], f32[])", "0,0"),
    _scan(2, "dimension 1 is out of", "(f32[4], f32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], f32[])", "1"),
    _scan(2, "must have size 4", "(f32[3], f32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], f32[])"),
    _scan(3, "needs an input or an output", "f32[]", "f32[]", "f32[] -> f32[]"),
    _scan(
        3,
        "has 3 carries, but 2 operands",
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "f32[], f32[] -> (f32[], f32[])",
        carries=3,
    ),
    _scan(4, "its body is", "(f32[4], f32[])", "f32[4], f32[]", "f32[] -> (f32[], f32[])"),
    _scan(5, "operand 0 gives f32[]", "(f32[4], f32[])", "f32[4], f32[]", "s32[], f32[] -> (f32[], f32[])"),
    _scan(6, "result 0 of the body is s32[]", "(f32[4], f32[])", "f32[4], f32[]", "f32[], f32[] -> (s32[], f32[])"),
    _scan(6, "carry 0 enters the body as f32[]", "(f32[4], s32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], s32[])"),
]

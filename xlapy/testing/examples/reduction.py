"""Worked examples and refusals of operations that combine elements with a computation."""

from __future__ import annotations

from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.testing.examples.example import Example, Refusal, Violation
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
    constraint: int,
    violation: Violation,
    result: str,
    operands: str,
    body: str,
    dimensions: str = "0",
    carries: int = 1,
) -> Refusal:
    text = f"{result} scan({operands}), dimensions={{{dimensions}}}, num_carries={carries}, to_apply=({body})"
    return Refusal("scan", constraint, text, violation)


REFUSALS = [
    Refusal(
        "reduce", 1, f"f32[] reduce(f32[3], token[]), dimensions={{0}}, {_ADD}", (shared.ARRAY_OPERAND, "operand 1")
    ),
    Refusal(
        "reduce",
        2,
        f"(f32[], f32[]) reduce(f32[3], f32[4], f32[], f32[]), dimensions={{0}}, {_OF_TWO}",
        (shared.SAME_DIMENSIONS, "operand 1", "f32[4]", "operand 0", "f32[3]"),
    ),
    Refusal(
        "reduce", 3, f"f32[3] reduce(f32[3], f32[]), dimensions={{1}}, {_ADD}", (shared.DIMENSION_NUMBER, "dimension 1")
    ),
    Refusal(
        "reduce", 3, f"f32[] reduce(f32[3], f32[]), dimensions={{0,0}}, {_ADD}", (shared.DISTINCT_DIMENSIONS, "[0, 0]")
    ),
    Refusal(
        "reduce",
        4,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[] -> f32[])",
        (codes.REDUCER_COUNT, "2"),
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[], f32[] -> (f32[], f32[]))",
        (codes.REDUCER_COUNT, "(a0: f32[], a1: f32[]) -> (f32[], f32[])"),
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[2], f32[] -> f32[2])",
        (codes.REDUCER_SCALARS, "result 0", "f32[2]"),
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(s32[], f32[] -> f32[])",
        (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]"),
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], s32[]), dimensions={0}, to_apply=(f32[], f32[] -> f32[])",
        (codes.REDUCER_TYPES, "reducer's", "result 0", "f32[]"),
    ),
    Refusal(
        "reduce",
        5,
        "f32[] reduce(f32[3], f32[]), dimensions={0}, to_apply=(f32[], s32[] -> f32[])",
        (codes.REDUCER_TYPES, "value 0"),
    ),
    Refusal(
        "reduce",
        6,
        f"f32[] reduce(s32[3], f32[]), dimensions={{0}}, {_ADD}",
        (codes.REDUCER_TYPES, "operand 0", "s32[3]"),
    ),
    Refusal(
        "reduce-window",
        1,
        f"f32[2] reduce-window(f32[3], token[]), window={{size=2}}, {_ADD}",
        (shared.ARRAY_OPERAND, "operand 1", "token[]"),
    ),
    Refusal(
        "reduce-window",
        2,
        f"(f32[2], f32[3]) reduce-window(f32[3], f32[4], f32[], f32[]), window={{size=2}}, {_OF_TWO}",
        (shared.SAME_DIMENSIONS, "operand 1", "f32[4]", "operand 0"),
    ),
    Refusal(
        "reduce-window",
        3,
        f"f32[2] reduce-window(s32[3], f32[]), window={{size=2}}, {_ADD}",
        (codes.REDUCER_TYPES, "operand 0", "s32[3]"),
    ),
    Refusal(
        "reduce-window",
        4,
        f"f32[2] reduce-window(f32[3], f32[]), window={{size=2x1}}, {_ADD}",
        (shared.ENTRY_PER_DIMENSION, "2"),
    ),
    Refusal(
        "reduce-window",
        5,
        f"f32[2] reduce-window(f32[3], f32[]), window={{size=0}}, {_ADD}",
        (attributes_codes.WINDOW_POSITIVE, "window dimension 0"),
    ),
    Refusal(
        "select-and-scatter",
        1,
        f"f32[4] select-and-scatter(f32[4], token[], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        (shared.ARRAY_OPERAND, "operand 1", "token[]"),
    ),
    Refusal(
        "select-and-scatter",
        2,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=2}}, \
select=(s32[], f32[] -> pred[]), {_SCATTER}",
        (codes.SELECT_COMPUTATION, "f32[]"),
    ),
    Refusal(
        "select-and-scatter",
        2,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=2}}, \
select=(f32[], f32[] -> f32[]), {_SCATTER}",
        (codes.SELECT_COMPUTATION, "pred[]"),
    ),
    Refusal(
        "select-and-scatter",
        3,
        f"f32[4] select-and-scatter(f32[4], s32[2], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        (codes.REDUCER_TYPES, "operand 0", "s32[2]"),
    ),
    Refusal(
        "select-and-scatter",
        4,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2x2}}, \
{_GE}, {_SCATTER}",
        (shared.ENTRY_PER_DIMENSION, "2"),
    ),
    Refusal(
        "select-and-scatter",
        6,
        f"f32[4] select-and-scatter(f32[4], f32[2], f32[]), window={{size=2 stride=0}}, \
{_GE}, {_SCATTER}",
        (attributes_codes.WINDOW_POSITIVE, "window dimension 0"),
    ),
    Refusal(
        "select-and-scatter",
        5,
        f"f32[4] select-and-scatter(f32[4], f32[3], f32[]), window={{size=2 stride=2}}, \
{_GE}, {_SCATTER}",
        (codes.SOURCE_POSITIONS, "f32[2]", "f32[4]"),
    ),
    Refusal(
        "map",
        1,
        f"f32[2] map(f32[2], f32[3]), dimensions={{0}}, {_ADD}",
        (shared.SAME_DIMENSIONS, "operand 1", "f32[3]", "f32[2]"),
    ),
    Refusal(
        "map", 2, f"f32[2,2] map(f32[2,2], f32[2,2]), dimensions={{1,0}}, {_ADD}", (codes.MAP_DIMENSIONS, "rank-1")
    ),
    Refusal(
        "map",
        3,
        f"f32[2] map(f32[2]), dimensions={{0}}, {_ADD}",
        (codes.MAP_COMPUTATION, "(a0: f32[], a1: f32[]) -> f32[]"),
    ),
    Refusal(
        "map",
        3,
        f"f32[2] map(f32[2], s32[2]), dimensions={{0}}, {_ADD}",
        (codes.MAP_COMPUTATION, "parameter 1", "f32[]"),
    ),
    Refusal(
        "map",
        3,
        "f32[2] map(f32[2]), dimensions={0}, to_apply=(f32[] -> f32[2])",
        (codes.MAP_COMPUTATION, "(a0: f32[]) -> f32[2]"),
    ),
    _scan(
        1,
        (shared.ARRAY_OPERAND, "operand 0", "token[]"),
        "(f32[4], f32[])",
        "token[], f32[]",
        "f32[], f32[] -> (f32[], f32[])",
    ),
    _scan(
        2, (codes.SCAN_DIMENSION, "[0, 0]"), "(f32[4], f32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], f32[])", "0,0"
    ),
    _scan(
        2,
        (shared.DIMENSION_NUMBER, "dimension 1"),
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "f32[], f32[] -> (f32[], f32[])",
        "1",
    ),
    _scan(2, (codes.SCAN_SIZE, "size 4"), "(f32[3], f32[])", "f32[4], f32[]", "f32[], f32[] -> (f32[], f32[])"),
    _scan(3, (codes.SCAN_CARRIES,), "f32[]", "f32[]", "f32[] -> f32[]"),
    _scan(
        3,
        (codes.SCAN_CARRIES, "3"),
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "f32[], f32[] -> (f32[], f32[])",
        carries=3,
    ),
    _scan(
        4,
        (codes.SCAN_BODY_COUNTS, "(a0: f32[]) -> (f32[], f32[])"),
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "f32[] -> (f32[], f32[])",
    ),
    _scan(
        5,
        (codes.SCAN_BODY_SHAPES, "operand 0", "f32[]"),
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "s32[], f32[] -> (f32[], f32[])",
    ),
    _scan(
        6,
        (codes.SCAN_BODY_SHAPES, "result 0", "s32[]"),
        "(f32[4], f32[])",
        "f32[4], f32[]",
        "f32[], f32[] -> (s32[], f32[])",
    ),
    _scan(
        6,
        (codes.SCAN_BODY_SHAPES, "carry 0", "f32[]"),
        "(f32[4], s32[])",
        "f32[4], f32[]",
        "f32[], f32[] -> (f32[], s32[])",
    ),
]

"""Worked examples and refusals of operations that call computations or order other operations."""

from __future__ import annotations

from xlapy.base.error_codes.operations import control as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import Example, Refusal, Violation

_ASYNC_ON_CPU = "XLA:CPU does not run asynchronous calls"

_ASYNC = """
        twice { a = f32[2] parameter(0) ROOT b = f32[2] add(a, a) }
        x = f32[2] {1, 2}
        s = ((f32[2]), f32[2], u32[]) async-start(x), calls=twice
        u = ((f32[2]), f32[2], u32[]) async-update(s)
        y = f32[2] async-done(u)
        => f32[2] {2, 4}
        """

EXAMPLES = [
    Example(
        "call",
        """
        twice { a = f32[2] parameter(0) ROOT b = f32[2] add(a, a) }
        x = f32[2] {1, 2}
        y = f32[2] call(x), to_apply=twice
        => f32[2] {2, 4}
        """,
    ),
    Example(
        "while",
        """
        below_1000 {
          t = (s32[], f32[2]) parameter(0)
          i = s32[] get-tuple-element(t), index=0
          n = s32[] constant(1000)
          ROOT more = pred[] compare(i, n), direction=LT
        }
        step {
          t = (s32[], f32[2]) parameter(0)
          i = s32[] get-tuple-element(t), index=0
          v = f32[2] get-tuple-element(t), index=1
          one = s32[] constant(1)
          j = s32[] add(i, one)
          c = f32[2] constant({1, 0.5})
          w = f32[2] add(v, c)
          ROOT next = (s32[], f32[2]) tuple(j, w)
        }
        i = s32[] 0
        v = f32[2] {0, 0}
        init = (s32[], f32[2]) tuple(i, v)
        result = (s32[], f32[2]) while(init), condition=below_1000, body=step
        => s32[] 1000
        => f32[2] {1000, 500}
        """,
    ),
    Example(
        "conditional",
        """
        negated { a = f32[] parameter(0) ROOT b = f32[] negate(a) }
        twice { a = f32[] parameter(0) ROOT b = f32[] add(a, a) }
        p = pred[] false
        i = s32[] 7
        x = f32[] 5
        y = f32[] conditional(p, x, x), true_computation=negated, false_computation=twice
        z = f32[] conditional(i, x, x), branch_computations={twice, negated}
        both = (f32[], f32[]) tuple(y, z)
        => f32[] 10
        => f32[] -5
        """,
    ),
    Example(
        "fusion",
        """
        axpy {
          a = f32[] parameter(0)
          x = f32[3] parameter(1)
          y = f32[3] parameter(2)
          b = f32[3] broadcast(a), dimensions={}
          p = f32[3] multiply(b, x)
          ROOT s = f32[3] add(p, y)
        }
        a = f32[] 2
        x = f32[3] {1, 2, 3}
        y = f32[3] {10, 20, 30}
        z = f32[3] fusion(a, x, y), kind=kLoop, calls=axpy
        => f32[3] {12, 24, 36}
        """,
    ),
    Example(
        "opt-barrier",
        """
        x = f32[2] {1, 2}
        y = f32[2] opt-barrier(x)
        => f32[2] {1, 2}
        """,
    ),
    *(
        Example(
            op,
            """
            x = f32[2] {1, 2}
            a = token[] after-all()
            b = token[] after-all()
            both = token[] after-all(a, b)
            y = f32[2] add-dependency(x, both)
            => f32[2] {1, 2}
            """,
        )
        for op in ("after-all", "add-dependency")
    ),
    Example(
        "domain",
        """
        x = f32[2] {1, 2}
        y = f32[2] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}
        => f32[2] {1, 2}
        """,
    ),
    *(Example(op, _ASYNC, xla_cpu=_ASYNC_ON_CPU) for op in ("async-start", "async-update", "async-done")),
]

_ON_PRED = "true_computation=(f32[] -> f32[]), false_computation=(f32[] -> f32[])"
_PAIR = "((f32[2]), f32[2], u32[])"


def _while(
    constraint: int, violation: Violation, condition: str = "f32[] -> pred[]", body: str = "f32[] -> f32[]"
) -> Refusal:
    return Refusal("while", constraint, f"f32[] while(f32[]), condition=({condition}), body=({body})", violation)


REFUSALS = [
    Refusal("call", 1, "f32[] call(f32[]), to_apply=(f32[], f32[] -> f32[])", (codes.PARAMETER_COUNT, "1")),
    Refusal(
        "call", 2, "f32[] call(f32[2]), to_apply=(f32[] -> f32[])", (codes.PARAMETER_SHAPE, "parameter 0", "f32[]")
    ),
    _while(1, (codes.PARAMETER_COUNT, "(a0: f32[], a1: f32[]) -> pred[]"), condition="f32[], f32[] -> pred[]"),
    _while(1, (codes.PARAMETER_SHAPE, "body's", "s32[]", "f32[]"), body="s32[] -> f32[]"),
    _while(2, (codes.LOOP_CONDITION, "pred[]", "f32[]"), condition="f32[] -> f32[]"),
    _while(3, (codes.LOOP_VALUE, "s32[]", "f32[]"), body="f32[] -> s32[]"),
    Refusal(
        "conditional",
        1,
        "f32[] conditional(u32[], f32[]), branch_computations={(f32[] -> f32[])}",
        (codes.BRANCH_INDEX, "pred[]", "s32[]", "operand 0", "u32[]"),
    ),
    Refusal(
        "conditional",
        2,
        "f32[] conditional(s32[]), branch_computations={}",
        (shared.CALLED_COMPUTATIONS, "0"),
    ),
    Refusal("conditional", 3, f"f32[] conditional(pred[], f32[]), {_ON_PRED}", (codes.BRANCH_OPERANDS,)),
    Refusal(
        "conditional",
        4,
        "f32[] conditional(s32[], f32[]), branch_computations={(f32[], f32[] -> f32[])}",
        (codes.PARAMETER_COUNT, "branch 0"),
    ),
    Refusal(
        "conditional",
        4,
        f"f32[] conditional(pred[], f32[], s32[]), {_ON_PRED}",
        (codes.PARAMETER_SHAPE, "branch 1", "f32[]"),
    ),
    Refusal(
        "conditional",
        5,
        "f32[] conditional(s32[], f32[], f32[]), branch_computations={(f32[] -> f32[]), (f32[] -> s32[])}",
        (codes.BRANCH_RESULTS, "branch 1", "s32[]", "branch 0", "f32[]"),
    ),
    Refusal(
        "fusion", 1, "f32[] fusion(f32[2]), kind=kLoop, calls=(f32[] -> f32[])", (codes.PARAMETER_SHAPE, "parameter 0")
    ),
    Refusal(
        "fusion",
        2,
        "f32[] fusion(f32[]), kind=kLoop, output_to_operand_aliasing={{}: (1, {})}, calls=(f32[] -> f32[])",
        (codes.ALIAS_PLACE, "operand 1"),
    ),
    Refusal("add-dependency", 1, "f32[] add-dependency(f32[], f32[])", (shared.TOKEN_OPERAND, "operand 1", "f32[]")),
    Refusal("async-start", 1, "f32[2] async-start(f32[2]), calls=(f32[2] -> f32[2])", (codes.ASYNC_TUPLE, "f32[2]")),
    Refusal(
        "async-start", 2, f"{_PAIR} async-start(f32[3]), calls=(f32[3] -> f32[2])", (codes.ASYNC_OPERANDS, "(f32[2])")
    ),
    Refusal(
        "async-start",
        2,
        f"{_PAIR} async-start(f32[2]), calls=(s32[2] -> f32[2])",
        (codes.ASYNC_OPERANDS, "(f32[2])", "(s32[2])"),
    ),
    Refusal(
        "async-start",
        3,
        f"{_PAIR} async-start(f32[2]), calls=(f32[2] -> s32[2])",
        (codes.ASYNC_RESULT, "f32[2]", "s32[2]"),
    ),
    Refusal(
        "async-start",
        4,
        f"{_PAIR} async-start(f32[2]), output_to_operand_aliasing={{{{1}}: (1, {{}})}}, calls=(f32[2] -> f32[2])",
        (codes.ALIAS_PLACE, "operand 1"),
    ),
    Refusal("async-update", 1, "f32[2] async-update(f32[2])", (codes.ASYNC_TUPLE, "operand 0")),
    Refusal(
        "async-update",
        2,
        f"((f32[2]), s32[2], u32[]) async-update({_PAIR})",
        (codes.ASYNC_OPERANDS, "f32[2]", "operand 0"),
    ),
    Refusal("async-update", 3, f"{_PAIR} async-update({_PAIR}, f32[2])", (codes.ASYNC_OPERANDS, "(f32[2])")),
    Refusal("async-done", 1, "f32[2] async-done(f32[2])", (codes.ASYNC_TUPLE, "operand 0")),
    Refusal("async-done", 2, f"s32[2] async-done({_PAIR})", (codes.ASYNC_RESULT, "f32[2]", "s32[2]")),
]

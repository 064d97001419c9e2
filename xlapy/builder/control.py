"""Builder functions of control flow: calls, loops, conditionals, and ordering by tokens.

Responsible for the builder functions of `opcodes/control.py`. Does not depend on how they are evaluated.
Source: Call, CompositeCall, While, Conditional, OptimizationBarrier, AfterAll, AddDependency of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from xlapy.base.element_types import PRED, S32
from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.builder.core.builder import XlaBuilder, append, fail
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.control import ADD_DEPENDENCY, AFTER_ALL, CALL, CONDITIONAL, OPT_BARRIER, WHILE, CallAttributes


def call(builder: XlaBuilder, computation: XlaComputation, operands: Sequence[XlaOp]) -> XlaOp:
    """Applies `computation` to the operands, which have the shapes of its parameters."""
    return builder.append(CALL, operands, computations=(computation,))


def composite_call(
    builder: XlaBuilder,
    computation: XlaComputation,
    operands: Sequence[XlaOp],
    name: str,
    attributes: str | None = None,
    version: int | None = None,
) -> XlaOp:
    """Calls `computation`, which implements the composite operation `name`.

    `attributes` is the text of an MLIR dictionary (default `{}`), `version` the version of the operation (default 0).
    They and the name become the frontend attributes `composite.name`, `composite.attributes`, `composite.version`.
    """
    result = builder.append(CALL, operands, CallAttributes.make(is_composite=True), (computation,))
    result.instruction.frontend_attributes = {
        **(result.instruction.frontend_attributes or {}),
        "composite.attributes": "{}" if attributes is None else attributes,
        "composite.name": name,
        "composite.version": str(version or 0),
    }
    return result


def while_(condition: XlaComputation, body: XlaComputation, init: XlaOp) -> XlaOp:
    """A loop: starts with `init` and applies `body` as long as `condition` is true. Returns the last value.

    For a loop value of shape T, `condition` is T -> pred[] and `body` is T -> T; `init` and the result have shape T.
    Several values form a tuple. Raises BuilderError if the shapes do not fit.

    >>> b, state = xla.XlaBuilder("count"), xla.Shape.parse("s32[]")
    >>> condition, body = b.create_sub_builder("condition"), b.create_sub_builder("body")
    >>> less = condition.build(ops.lt(ops.parameter(condition, 0, state, "i"), ops.constant(condition, 10)))
    >>> more = body.build(ops.parameter(body, 0, state, "i") + 3)
    >>> loop = ops.while_(less, more, ops.constant(b, 0))
    >>> xla.Client().compile(b.build(loop))()
    Buffer(s32[], 12)
    """
    return append(WHILE, (init,), computations=(condition, body))


@overload
def conditional(
    predicate: XlaOp,
    true_operand: XlaOp,
    true_computation: XlaComputation,
    false_operand: XlaOp,
    false_computation: XlaComputation,
) -> XlaOp: ...
@overload
def conditional(
    branch_index: XlaOp, branch_computations: Sequence[XlaComputation], branch_operands: Sequence[XlaOp]
) -> XlaOp: ...
def conditional(*arguments: Any, **named: Any) -> XlaOp:
    """Calls one of several computations. Each has one parameter; all have the same result shape.

    With a scalar PRED `predicate`: `true_computation(true_operand)` or `false_computation(false_operand)`. With a
    scalar S32 `branch_index` i: `branch_computations[i](branch_operands[i])`; an index out of range selects the last
    branch. Only the selected computation runs. Raises BuilderError if the shapes do not fit.

    >>> b, f = xla.XlaBuilder("m"), xla.Shape.parse("f32[]")
    >>> same, negated = b.create_sub_builder("same"), b.create_sub_builder("negated")
    >>> branches = [same.build(ops.parameter(same, 0, f, "x")), negated.build(-ops.parameter(negated, 0, f, "x"))]
    >>> x = ops.parameter(b, 0, f, "x")
    >>> ops.conditional(ops.constant(b, 1), branches, [x, x])
    <XlaOp conditional = f32[] conditional>
    """
    if len(arguments) + len(named) == 5:
        return _conditional_on_predicate(*arguments, **named)
    return _conditional_on_index(*arguments, **named)


def _conditional_on_predicate(
    predicate: XlaOp,
    true_operand: XlaOp,
    true_computation: XlaComputation,
    false_operand: XlaOp,
    false_computation: XlaComputation,
) -> XlaOp:
    if not predicate.shape.is_scalar or predicate.element_type is not PRED:
        fail(
            "conditional",
            control_codes.BRANCH_INDEX,
            f"on a predicate takes a scalar pred, given {predicate.shape.to_text(layout=False)}",
        )
    operands = (predicate, true_operand, false_operand)
    return append(CONDITIONAL, operands, computations=(true_computation, false_computation))


def _conditional_on_index(
    branch_index: XlaOp, branch_computations: Sequence[XlaComputation], branch_operands: Sequence[XlaOp]
) -> XlaOp:
    if not branch_index.shape.is_scalar or branch_index.element_type is not S32:
        fail(
            "conditional",
            control_codes.BRANCH_INDEX,
            f"on a branch index takes a scalar s32, given {branch_index.shape.to_text(layout=False)}",
        )
    return append(CONDITIONAL, (branch_index, *branch_operands), computations=branch_computations)


def optimization_barrier(operand: XlaOp) -> XlaOp:
    """Returns the operand, an array or a tuple, unchanged. No optimization moves computation across the barrier."""
    return append(OPT_BARRIER, (operand,))


def after_all(builder: XlaBuilder, tokens: Sequence[XlaOp]) -> XlaOp:
    """A token that is ready when all the given tokens are. Raises BuilderError if an operand is not a token."""
    for number, token in enumerate(tokens):
        if not token.shape.is_token:
            fail(
                "after-all",
                shared.TOKEN_OPERAND,
                f"takes tokens, operand {number} is {token.shape.to_text(layout=False)}",
            )
    return builder.append(AFTER_ALL, tokens)


def create_token(builder: XlaBuilder) -> XlaOp:
    """A token without dependencies."""
    return builder.append(AFTER_ALL)


def add_dependency(operand: XlaOp, token: XlaOp) -> XlaOp:
    """Returns the operand, which becomes available only after the token."""
    return append(ADD_DEPENDENCY, (operand, token))

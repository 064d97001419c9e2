"""Definitions of the operations that call computations or order others.

Responsible for call, while, conditional, fusion, async-start / -update / -done, opt-barrier, after-all, add-dependency
and domain. Does not depend on the IR or on values.
Source: Call, CompositeCall, While, Conditional, OptimizationBarrier, AfterAll, AddDependency, AsyncStart, AsyncUpdate,
AsyncDone, Fusion, Domain of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from xlapy.base.element_types import PRED, S32
from xlapy.base.error_codes.operations import control as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.aliasing import OUTPUT_ALIASES, OutputAlias, check_aliases
from xlapy.opcodes.attributes.codecs import (
    BOOL,
    COMPUTATION_NAME,
    STRING,
    Attributes,
    EnumCodec,
    NoAttributes,
    attribute,
    attributes,
)
from xlapy.opcodes.attributes.domain import DomainCodec, DomainSides
from xlapy.opcodes.registry import (
    AsyncRole,
    CalledComputationSlot,
    Effect,
    OpDef,
    ProgramShapes,
    at_least,
    constraint,
    exactly,
)
from xlapy.opcodes.requirements import (
    compatible_ignoring_dynamic,
    dynamic_in_any,
    is_prefix,
    require_parameters,
    require_programs,
    require_token,
)

MAIN_THREAD = "main"
_PASSED = (codes.PARAMETER_COUNT, codes.PARAMETER_SHAPE)
_ALIASED = (codes.ALIAS_PLACE, codes.ALIAS_SHAPES)


# -- call, while, conditional


@attributes
class CallAttributes(Attributes):
    """`is_composite` marks a call whose frontend attributes name the operation that it implements."""

    is_composite: bool = attribute(BOOL, default=False, after_computations=True)


def _infer_call(operands: Sequence[Shape], _: CallAttributes, programs: ProgramShapes) -> Shape:
    require_programs("call", programs, 1)
    require_parameters("call", operands, programs[0])
    return programs[0].result


CALL = OpDef(
    name="call",
    family="control",
    summary="The result of a computation applied to the operands.",
    result="The result of the computation.",
    operands="operands*",
    constraints=(
        constraint("There is one operand per parameter of the computation.", codes.PARAMETER_COUNT),
        constraint("Each operand has the shape of its parameter.", codes.PARAMETER_SHAPE),
    ),
    arity=at_least(0),
    attributes=CallAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_call,
)


def _infer_while(operands: Sequence[Shape], _: Any, programs: ProgramShapes) -> Shape:
    require_programs("while", programs, 2)
    (init,) = operands
    condition, body = programs
    for key, program in (("condition", condition), ("body", body)):
        if len(program.parameters) != 1:
            raise ShapeError(
                codes.PARAMETER_COUNT, f"while: the {key} must take one parameter, given {program.to_text()}"
            )
        if not compatible_ignoring_dynamic(program.parameters[0], init):
            raise ShapeError(
                codes.PARAMETER_SHAPE,
                f"while: the {key}'s parameter is {program.parameters[0].to_text(layout=False)}, "
                f"the initial value {init.to_text(layout=False)}",
            )
    if not (condition.result.is_scalar and condition.result.element_type is PRED):
        raise ShapeError(
            codes.LOOP_CONDITION,
            f"while: the condition must return pred[], it returns {condition.result.to_text(layout=False)}",
        )
    if not compatible_ignoring_dynamic(body.result, init):
        raise ShapeError(
            codes.LOOP_VALUE,
            f"while: the body returns {body.result.to_text(layout=False)}, "
            f"the initial value is {init.to_text(layout=False)}",
        )
    return init


WHILE = OpDef(
    name="while",
    family="control",
    summary="Applies `body` to the value repeatedly while `condition` of the value is true.",
    result="The shape of the initial value.",
    operands="init",
    constraints=(
        constraint("`condition` and `body` take one parameter with the shape of the initial value.", *_PASSED),
        constraint("`condition` returns pred[].", codes.LOOP_CONDITION),
        constraint("`body` returns a value with the shape of the initial value.", codes.LOOP_VALUE),
    ),
    arity=exactly(1),
    computation_slots=(CalledComputationSlot("condition"), CalledComputationSlot("body")),
    infer=_infer_while,
    in_place_pairs=((0, ()),),
)

_BRANCHES = (CalledComputationSlot("branch_computations", variadic=True),)
_TRUE_FALSE = (CalledComputationSlot("true_computation"), CalledComputationSlot("false_computation"))


def _branch_slots(operands: Sequence[Shape]) -> tuple[CalledComputationSlot, ...]:
    return _TRUE_FALSE if operands and operands[0].element_type is PRED else _BRANCHES


def _infer_conditional(operands: Sequence[Shape], _: Any, programs: ProgramShapes) -> Shape:
    index = operands[0]
    if not index.is_scalar or index.element_type not in (PRED, S32):
        raise ShapeError(
            codes.BRANCH_INDEX,
            f"conditional: the branch index must be pred[] or s32[], operand 0 is {index.to_text(layout=False)}",
        )
    if index.element_type is PRED:
        require_programs("conditional on pred[]", programs, 2)
    elif not programs:
        raise ShapeError(
            codes.BRANCH_OPERANDS, "conditional on s32[] needs at least one branch computation, given none"
        )
    if len(operands) != len(programs) + 1:
        raise ShapeError(
            codes.BRANCH_OPERANDS,
            f"conditional takes one operand per branch: {len(programs)} branches, {len(operands) - 1} operands",
        )
    for number, program in enumerate(programs):
        _check_branch(number, operands[number + 1], program, programs[0].result)
    return dynamic_in_any([program.result for program in programs])


def _check_branch(number: int, operand: Shape, program: ProgramShape, result: Shape) -> None:
    if len(program.parameters) != 1:
        raise ShapeError(
            codes.PARAMETER_COUNT, f"conditional: branch {number} must take one parameter, given {program.to_text()}"
        )
    if not compatible_ignoring_dynamic(program.parameters[0], operand):
        raise ShapeError(
            codes.PARAMETER_SHAPE,
            f"conditional: the parameter of branch {number} is {program.parameters[0].to_text(layout=False)}, "
            f"operand {number + 1} is {operand.to_text(layout=False)}",
        )
    if not compatible_ignoring_dynamic(program.result, result):
        raise ShapeError(
            codes.BRANCH_RESULTS,
            f"conditional: branch {number} returns {program.result.to_text(layout=False)}, "
            f"branch 0 {result.to_text(layout=False)}",
        )


CONDITIONAL = OpDef(
    name="conditional",
    family="control",
    summary=(
        "Calls one of several computations with its operand. A pred index selects the first computation if "
        "it is true, else the second; an s32 index selects the computation with this number, and the last "
        "one if it is out of range."
    ),
    result="The result of the branches. A dimension that is dynamic in one of them is dynamic.",
    operands="branch_index branch_operands*",
    constraints=(
        constraint("The index has the shape pred[] or s32[].", codes.BRANCH_INDEX),
        constraint(
            "There are two branches for pred[], at least one for s32[].",
            shared.CALLED_COMPUTATIONS,
            codes.BRANCH_OPERANDS,
        ),
        constraint("There is one operand per branch.", codes.BRANCH_OPERANDS),
        constraint("A branch takes one parameter with the shape of its operand.", *_PASSED),
        constraint("All branches return values of the same shape.", codes.BRANCH_RESULTS),
    ),
    arity=at_least(1),
    computation_slots=_BRANCHES,
    computation_slots_rule=_branch_slots,
    infer=_infer_conditional,
)


# -- fusion


class FusionKind(Enum):
    """The strategy for generating a fusion: element by element (loop), from its inputs, from its output, or custom."""

    LOOP = "kLoop"
    INPUT = "kInput"
    OUTPUT = "kOutput"
    CUSTOM = "kCustom"


@attributes
class FusionAttributes(Attributes):
    kind: FusionKind = attribute(EnumCodec(FusionKind))
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attribute(OUTPUT_ALIASES, default=())


def _infer_fusion(operands: Sequence[Shape], attrs: FusionAttributes, programs: ProgramShapes) -> Shape:
    require_programs("fusion", programs, 1)
    require_parameters("fusion", operands, programs[0], spare=True)
    check_aliases("fusion", attrs.output_to_operand_aliasing, programs[0].result, operands)
    return programs[0].result


FUSION = OpDef(
    name="fusion",
    family="control",
    summary="The result of the fused computation, which a back end runs as one kernel.",
    result="The result of the computation.",
    operands="operands*",
    constraints=(
        constraint(
            "There is one operand per parameter of the computation, with its shape; additional operands are ignored.",
            *_PASSED,
        ),
        constraint("An alias pairs a subshape of the result with an equal subshape of an operand.", *_ALIASED),
    ),
    arity=at_least(0),
    attributes=FusionAttributes,
    computation_slots=(CalledComputationSlot("calls"),),
    infer=_infer_fusion,
)


# -- order


def _infer_same(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    return operands[0]


OPT_BARRIER = OpDef(
    name="opt-barrier",
    family="control",
    summary="Returns the operand; no optimization moves or propagates anything across it.",
    result="The shape of the operand.",
    operands="operand",
    arity=exactly(1),
    infer=_infer_same,
    effect=Effect.ORDERED,
    in_place_pairs=((0, ()),),
)


def _infer_after_all(_: Sequence[Shape], __: Any, ___: ProgramShapes) -> Shape:
    """Operands are tokens in the specification, but XLA's verifier accepts any shape."""
    return Shape.token()


def _canonicalize_after_all_shape(_: Shape, __: Sequence[Shape]) -> Shape:
    return Shape.token()


AFTER_ALL = OpDef(
    name="after-all",
    family="control",
    summary="Returns a token that is ordered after all operands.",
    result="`token[]`.",
    operands="operands*",
    arity=at_least(0),
    infer=_infer_after_all,
    canonicalize_shape=_canonicalize_after_all_shape,
    effect=Effect.ORDERED,
)


def _infer_add_dependency(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    require_token("add-dependency", operands, 1)
    return operands[0]


def _canonicalize_add_dependency_shape(_: Shape, operands: Sequence[Shape]) -> Shape:
    return operands[0]


ADD_DEPENDENCY = OpDef(
    name="add-dependency",
    family="control",
    summary="Returns the operand, ordered after the token.",
    result="The shape of operand 0.",
    operands="operand token",
    constraints=(constraint("Operand 1 is a token.", shared.TOKEN_OPERAND),),
    arity=exactly(2),
    infer=_infer_add_dependency,
    canonicalize_shape=_canonicalize_add_dependency_shape,
    effect=Effect.ORDERED,
    in_place_pairs=((0, ()),),
)


@attributes
class DomainAttributes(Attributes):
    domain: DomainSides = attribute(DomainCodec())


DOMAIN = OpDef(
    name="domain",
    family="control",
    summary="Returns the operand; marks the border between instructions with different shardings.",
    result="The shape of the operand.",
    operands="operand",
    arity=exactly(1),
    attributes=DomainAttributes,
    infer=_infer_same,
    in_place_pairs=((0, ()),),
)


# -- asynchronous execution


_INHERITED = {"calls": COMPUTATION_NAME, "async_execution_thread": STRING}
"""What async-update and async-done take over from async-start; older text repeats it."""


@attributes
class AsyncStartAttributes(Attributes):
    async_execution_thread: str = attribute(STRING, default=MAIN_THREAD)
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attribute(OUTPUT_ALIASES, default=())


def _require_async(name: str, what: str, shape: Shape) -> None:
    if not shape.is_tuple or len(shape.tuple_shapes) < 2 or not shape.tuple_shapes[0].is_tuple:
        raise ShapeError(
            codes.ASYNC_TUPLE,
            f"{name}: {what} must be ((operands...), result, context...), given {shape.to_text(layout=False)}",
        )


def _check_async_start(
    shape: Shape, operands: Sequence[Shape], attrs: AsyncStartAttributes, programs: ProgramShapes
) -> None:
    require_programs("async-start", programs, 1)
    _require_async("async-start", "the shape", shape)
    bound, result = shape.tuple_shapes[:2]
    if not compatible_ignoring_dynamic(Shape.tuple(operands), bound):
        raise ShapeError(
            codes.ASYNC_OPERANDS,
            f"async-start has operands {Shape.tuple(operands).to_text(layout=False)}, "
            f"its shape begins with {bound.to_text(layout=False)}",
        )
    parameters = Shape.tuple(programs[0].parameters)
    if not is_prefix(bound, parameters):
        raise ShapeError(
            codes.ASYNC_OPERANDS,
            f"async-start binds {bound.to_text(layout=False)}, the "
            f"called computation takes {parameters.to_text(layout=False)}",
        )
    if not is_prefix(result, programs[0].result):
        raise ShapeError(
            codes.ASYNC_RESULT,
            f"async-start has result {result.to_text(layout=False)}, the called "
            f"computation returns {programs[0].result.to_text(layout=False)}",
        )
    whole = Shape.tuple((parameters, programs[0].result, *shape.tuple_shapes[2:]))
    aliases = attrs.output_to_operand_aliasing
    check_aliases("async-start", aliases, whole, programs[0].parameters, buffers_are_arrays=True)


ASYNC_START = OpDef(
    name="async-start",
    family="control",
    summary=("Starts a computation on another thread of execution; the result is (operands, result, context...)."),
    result="`((operands...), result, context...)`, with the result of the computation or a prefix of its tuple.",
    operands="operands*",
    constraints=(
        constraint("The shape is ((operands...), result, context...).", codes.ASYNC_TUPLE),
        constraint(
            "The shape begins with the shapes of the operands, which are the first parameters of the computation.",
            codes.ASYNC_OPERANDS,
        ),
        constraint("The shape contains the result of the computation, or a prefix of its tuple.", codes.ASYNC_RESULT),
        constraint("An alias pairs a subshape of the shape with an equal subshape of an operand.", *_ALIASED),
    ),
    arity=at_least(0),
    attributes=AsyncStartAttributes,
    computation_slots=(CalledComputationSlot("calls"),),
    check=_check_async_start,
    effect=Effect.ORDERED,
    async_role=AsyncRole.START,
)


def _check_async_update(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    """Operands after the first are bound to further parameters of the computation that async-start calls."""
    before = operands[0]
    _require_async("async-update", "operand 0", before)
    _require_async("async-update", "the shape", shape)
    for place, what in enumerate(("operands", "result")):
        old, new = before.tuple_shapes[place], shape.tuple_shapes[place]
        if not is_prefix(old, new):
            raise ShapeError(
                codes.ASYNC_OPERANDS,
                f"async-update: the {what} {old.to_text(layout=False)} of operand "
                f"0 must be a prefix of the {what} {new.to_text(layout=False)} of the shape",
            )
    added = shape.tuple_shapes[0].tuple_shapes[len(before.tuple_shapes[0].tuple_shapes) :]
    if not compatible_ignoring_dynamic(Shape.tuple(operands[1:]), Shape.tuple(added)):
        raise ShapeError(
            codes.ASYNC_OPERANDS,
            f"async-update adds operands {Shape.tuple(operands[1:]).to_text(layout=False)}, "
            f"its shape {shape.to_text(layout=False)} binds {Shape.tuple(added).to_text(layout=False)}",
        )


ASYNC_UPDATE = OpDef(
    name="async-update",
    family="control",
    summary="Represents a running asynchronous computation, to which it may pass further operands.",
    result="The shape of operand 0, to whose operands the further operands are added.",
    operands="operand more_operands*",
    constraints=(
        constraint("Operand 0 and the result have the shape ((operands...), result, context...).", codes.ASYNC_TUPLE),
        constraint(
            "The operands and the result in operand 0 are a prefix of those in the result shape.", codes.ASYNC_OPERANDS
        ),
        constraint("The further operands are those that the result shape adds.", codes.ASYNC_OPERANDS),
    ),
    arity=at_least(1),
    check=_check_async_update,
    effect=Effect.ORDERED,
    ignored_attributes=_INHERITED,
    async_role=AsyncRole.UPDATE,
    in_place_pairs=((0, ()),),
)


def _infer_async_done(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    _require_async("async-done", "operand 0", operands[0])
    return operands[0].tuple_shapes[1]


def _check_async_done(shape: Shape, operands: Sequence[Shape], attrs: NoAttributes, programs: ProgramShapes) -> None:
    """An async instruction whose operands are not all bound yet may show less of the result."""
    result = _infer_async_done(operands, attrs, programs)
    if not is_prefix(result, shape):
        raise ShapeError(
            codes.ASYNC_RESULT,
            f"async-done: operand 0 {operands[0].to_text(layout=False)} has result "
            f"{result.to_text(layout=False)}, declared {shape.to_text(layout=False)}",
        )


ASYNC_DONE = OpDef(
    name="async-done",
    family="control",
    summary="Waits for an asynchronous computation and returns its result.",
    result="The result in the shape of operand 0.",
    operands="operand",
    constraints=(
        constraint("Operand 0 has the shape ((operands...), result, context...).", codes.ASYNC_TUPLE),
        constraint("The shape is that of the result in operand 0.", codes.ASYNC_RESULT),
    ),
    arity=exactly(1),
    infer=_infer_async_done,
    check=_check_async_done,
    effect=Effect.ORDERED,
    ignored_attributes=_INHERITED,
    async_role=AsyncRole.DONE,
)

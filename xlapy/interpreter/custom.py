"""The interpreter's rule for custom-call: calls a registered or built-in target.

Responsible for calls of Python targets and for the table of built-in targets. Does not depend on how native code is
called (`custom_calls/native.py`, `custom_calls/typed.py`).
Source: CustomCall of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, FailedTargetError, UnsupportedError, message_of
from xlapy.base.shape import Shape
from xlapy.base.value import actual_array, pad_value_to_bounds
from xlapy.custom_calls.context import CallContext
from xlapy.custom_calls.lapack import lapack_targets
from xlapy.custom_calls.native import call_native, check_layouts, copy_to_layout, operand_layout_shapes
from xlapy.custom_calls.registry import (
    NativeTarget,
    PythonTarget,
    Target,
    TypedTarget,
    find_target,
    unknown_target_message,
)
from xlapy.custom_calls.typed import call_attributes, call_typed, instantiate
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.builtin_targets.decompositions import DECOMPOSITIONS
from xlapy.interpreter.builtin_targets.dynamic import DYNAMIC_TARGETS
from xlapy.interpreter.builtin_targets.lapack import call_lapack, check_lapack
from xlapy.interpreter.builtin_targets.program import INTERPRET_TARGET, call_program, check_program
from xlapy.interpreter.builtin_targets.ragged import (
    RAGGED_SLICES_TARGET,
    call_ragged_slices,
    check_ragged_slices,
)
from xlapy.interpreter.builtin_targets.sparse import CSR_TARGET, call_csr_product, check_csr_product
from xlapy.interpreter.collectives import device_number
from xlapy.interpreter.core import (
    RULES,
    TOKEN,
    Array,
    Context,
    InterpreterRule,
    Value,
    evaluate_computation,
    is_dynamic,
)
from xlapy.interpreter.sorting import top_k_of_rows
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes
from xlapy.opcodes.requirements import compatible_ignoring_dynamic


@RULES.rule(opcodes.CUSTOM_CALL)
def custom_call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Calls the target once and returns its result."""
    return custom_call_rule(instruction, context.platform)(context, instruction, values)


def custom_call_rule(instruction: Instruction, platform: str = "interpreter") -> InterpreterRule:
    """Returns the rule that evaluates a custom call.

    Raises `UnsupportedError` if the target is unknown or does not accept the call, so that a compiler can check a
    program before it runs.
    """
    name = instruction.custom_call_target
    target = find_target(name, platform)
    if target is None:
        if name not in _BUILT_IN:
            raise UnsupportedError(
                codes.TARGET_REGISTERED,
                f"{describe_instruction(instruction)}: {unknown_target_message(name, tuple(_BUILT_IN), platform)}",
            )
        check, rule = _BUILT_IN[name]
        check(instruction)
        return rule
    _check_version(instruction, target)
    if is_dynamic(instruction):
        raise UnsupportedError(
            codes.DYNAMIC_CALL,
            f"{describe_instruction(instruction)}: target {name!r} does not accept dynamic dimensions; read their "
            f"sizes with "
            f"get-dimension-size and pass static arrays",
        )
    if isinstance(target, PythonTarget):
        return partial(_python, target)
    check_layouts(instruction)
    return partial(_typed, target) if isinstance(target, TypedTarget) else partial(_native, target)


def prepare_custom_call(instruction: Instruction, program_state: dict[Any, Any], platform: str = "interpreter") -> None:
    """Prepares a custom call before its program runs: checks it, and runs the stage INSTANTIATE of a typed target.

    Raises the errors of `custom_call_rule` and of the target.
    """
    custom_call_rule(instruction, platform)
    target = find_target(instruction.custom_call_target, platform)
    if isinstance(target, TypedTarget):
        instantiate(instruction, target, program_state)
    elif isinstance(target, PythonTarget) and _reads_attributes(target, instruction):
        call_attributes(instruction)


def _reads_attributes(target: PythonTarget, instruction: Instruction) -> bool:
    """Returns whether the target has a parameter `ffi_attributes`; otherwise `backend_config` may be any text."""
    named = target.keywords is not None and "ffi_attributes" in target.keywords
    return named and instruction.attributes_as(CustomCallAttributes).api_version is CustomCallApiVersion.TYPED_FFI


def _check_version(instruction: Instruction, target: Target) -> None:
    called = instruction.attributes_as(CustomCallAttributes).api_version
    if target.api_version not in (None, called):
        assert target.api_version is not None
        raise UnsupportedError(
            codes.CALL_VERSION,
            f"{describe_instruction(instruction)}: the call has {called.value}, its target "
            f"{instruction.custom_call_target!r} is "
            f"registered for {target.api_version.value}",
        )


def _native(target: NativeTarget, _: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return call_native(instruction, target, values)


def _typed(target: TypedTarget, context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return call_typed(call_context(context), instruction, target, values)


def call_context(context: Context) -> CallContext:
    """Returns what a custom-call target may know of an interpreter context."""
    return CallContext(
        context.run_id,
        device_number(context),
        context.canceled,
        context.program_state,
        context.run_state,
    )


# -- Python targets


class PreparedPythonCall:
    """A custom call of a Python target, with what the target is told besides its operands.

    where: the beginning of error messages.
    """

    def __init__(self, context: Context, instruction: Instruction, target: PythonTarget) -> None:
        self.where = f"{describe_instruction(instruction)}: target {instruction.custom_call_target!r}"
        self._function = target.function
        info = _keyword_arguments(context, instruction)
        if _reads_attributes(target, instruction):
            info["ffi_attributes"] = call_attributes(instruction)
        self._info = {key: value for key, value in info.items() if target.keywords is None or key in target.keywords}
        bind: Callable[..., Callable[..., Any]] | None = getattr(target.function, "bind", None)
        if bind is not None:
            self._function, self._info = bind(**self._info), {}
        self._copied = [key for key, value in self._info.items() if isinstance(value, dict)]

    def call(self, operands: Sequence[Any]) -> Any:
        """Calls the target; `ExecutionError` if it raises an exception. Each call gets dictionaries of its own."""
        info = self._info
        if self._copied:
            info = info | {key: dict(info[key]) for key in self._copied}
        try:
            return self._function(*operands, **info)
        except FailedTargetError as error:
            raise ExecutionError(error.code, f"{self.where} failed: {error.message}") from error
        except Exception as error:
            raise ExecutionError(
                codes.FAILED_TARGET, f"{self.where} raised {type(error).__name__}: {message_of(error)}"
            ) from error


def _python(target: PythonTarget, context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    prepared = PreparedPythonCall(context, instruction, target)
    returned = prepared.call(_to_target(tuple(values), operand_layout_shapes(instruction)))
    return value_from_target(returned, instruction.shape, f"{prepared.where} returned")


def _keyword_arguments(context: Context, instruction: Instruction) -> dict[str, Any]:
    """Returns the keyword arguments that a Python target can ask for; see `register_custom_call_target`."""
    return {
        "opaque": instruction.backend_config,
        "shape": instruction.shape,
        "attributes": instruction.attributes,
        "frontend_attributes": dict(instruction.frontend_attributes or {}),
        "instruction_name": instruction.name,
        "replica_id": context.replica_id,
        "partition_id": context.partition_id,
        "computations": tuple(_function(context, computation) for computation in instruction.computations),
    }


def _function(context: Context, computation: Computation) -> Callable[..., Any]:
    """Returns a called computation as a Python function of arrays."""
    shapes = [parameter.shape for parameter in computation.parameters]

    def call(*arguments: Any) -> Any:
        given = value_from_target(tuple(arguments), Shape.tuple(shapes), f"{computation.name} is given")
        return _to_target(evaluate_computation(context, computation, given))

    call.__name__ = computation.name
    return call


def _to_target(value: Value, shape: Shape | None = None) -> Any:
    """Converts a value for a Python target: read-only arrays in the layout of the shape, None for tokens."""
    if isinstance(value, tuple):
        shapes = [None] * len(value) if shape is None else shape.tuple_shapes
        return tuple(_to_target(element, part) for element, part in zip(value, shapes, strict=True))
    if not isinstance(value, np.ndarray):
        return None
    array: Array = value.view()
    layout = None if shape is None else shape.layout
    physical = array if layout is None else array.transpose(layout.minor_to_major[::-1])
    if not physical.flags.c_contiguous:
        array = copy_to_layout(array, layout)
    array.flags.writeable = False
    return array


def value_from_target(value: Any, shape: Shape, where: str) -> Value:
    """Copies a value that a Python target returns; raises an `ExecutionError` that begins with `where` on mismatch."""
    if shape.is_tuple:
        parts = () if value is None else value
        if not isinstance(parts, list | tuple) or len(parts) != len(shape.tuple_shapes):
            raise ExecutionError(
                codes.TARGET_RESULT,
                f"{where} {_described(value)}, but the declared shape is the tuple {shape.to_text(layout=False)}",
            )
        pairs = zip(parts, shape.tuple_shapes, strict=True)
        return tuple(
            value_from_target(part, element, f"{where} as element {i}") for i, (part, element) in enumerate(pairs)
        )
    if not shape.is_array:
        return TOKEN
    try:
        array = np.array(value, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExecutionError(
            codes.TARGET_RESULT, f"{where} {_described(value)}, which is not an array: {error}"
        ) from error
    if array.shape != shape.dimensions or array.dtype != shape.dtype:
        given = f"{array.dtype}[{','.join(map(str, array.shape))}]"
        hint = f"; convert it with .astype({shape.dtype.name!r})" if array.shape == shape.dimensions else ""
        raise ExecutionError(
            codes.TARGET_RESULT,
            f"{where} {given}, but the declared shape is {shape.to_text(layout=False)} ({shape.dtype.name}){hint}",
        )
    return array


def _described(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"


# -- built-in targets


def returned_operands(instruction: Instruction) -> Sequence[Instruction] | Instruction | None:
    """Returns the operand that an annotation returns, or the operands whose tuple it returns; None if the shapes do not
    match, because the annotation belongs to a program on several devices."""
    operands, shape = instruction.operands, instruction.shape
    if instruction.custom_call_target == SHARDING_GROUP_TARGET:
        return () if shape.is_tuple and not shape.tuple_shapes else None
    if len(operands) == 1 and compatible_ignoring_dynamic(operands[0].shape, shape):
        return operands[0]
    parts = shape.tuple_shapes if shape.is_tuple else ()
    if not operands or len(parts) != len(operands):
        return None
    matches = all(compatible_ignoring_dynamic(o.shape, part) for o, part in zip(operands, parts, strict=True))
    return operands if matches else None


def _check_identity(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    if returned_operands(instruction) is None:
        given = ", ".join(shape.to_text(layout=False) for shape in shapes)
        raise UnsupportedError(
            codes.BUILT_IN_CALL,
            f"{describe_instruction(instruction)}: {instruction.custom_call_target} of ({given}) to "
            f"{instruction.shape.to_text(layout=False)} "
            f"needs a partitioned program; with one partition both shapes are equal",
        )


def _identity(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    returned = returned_operands(instruction)
    return values[0] if isinstance(returned, Instruction) else tuple(values[: len(returned or ())])


def _check_top_k(instruction: Instruction) -> None:
    """(t[..., n]) -> (t[..., k], s32[..., k]) with k <= n."""
    operands, shape = instruction.operand_shapes, instruction.shape
    if len(operands) == 1 and _is_top_k(operands[0], shape):
        return
    given = ", ".join(operand.to_text(layout=False) for operand in operands)
    raise UnsupportedError(
        codes.BUILT_IN_CALL,
        f"{describe_instruction(instruction)}: TopK takes t[..., n] and returns (t[..., k], s32[..., k]) with k at "
        f"most "
        f"n, "
        f"given ({given}) and {shape.to_text(layout=False)}",
    )


def _is_top_k(operand: Shape, shape: Shape) -> bool:
    if not operand.is_array or not operand.rank or operand.element_type.is_complex or not shape.is_tuple:
        return False
    k = max((part.dimensions[-1] for part in shape.tuple_shapes if part.is_array and part.rank), default=0)
    first = operand.with_dimensions([*operand.dimensions[:-1], k])
    return k <= operand.dimensions[-1] and compatible_ignoring_dynamic(
        Shape.tuple([first, first.with_element_type(S32)]), shape
    )


def _top_k(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    rows, k = actual_array(values[0]), instruction.shape.tuple_shapes[0].dimensions[-1]
    return pad_value_to_bounds(top_k_of_rows(rows, min(k, rows.shape[-1]), largest=True), instruction.shape)


SHARDING_GROUP_TARGET = "xla.sdy.ShardingGroup"
"""An annotation without a result."""

IDENTITY_TARGETS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "PinToDevice",
    "PinToDeviceSram",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "xla.sdy.PropagationBarrier",
    SHARDING_GROUP_TARGET,
)
"""Annotations for the partitioner, for layouts and for memory spaces, which return their operand, or a tuple of several
operands."""

_BUILT_IN: dict[str, tuple[Callable[[Instruction], None], InterpreterRule]] = {
    **dict.fromkeys(IDENTITY_TARGETS, (_check_identity, _identity)),
    "TopK": (_check_top_k, _top_k),
    **DYNAMIC_TARGETS,
    CSR_TARGET: (check_csr_product, call_csr_product),
    INTERPRET_TARGET: (check_program, call_program),
    RAGGED_SLICES_TARGET: (check_ragged_slices, call_ragged_slices),
    **DECOMPOSITIONS,
    **dict.fromkeys(lapack_targets(), (check_lapack, call_lapack)),
}
"""Targets that XLA's passes and frameworks create: a check of the instruction and the rule that evaluates it."""

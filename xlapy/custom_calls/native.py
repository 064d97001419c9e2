"""Calls native code by XLA's C conventions for custom calls.

Responsible for buffers in the declared layouts, the pointers to them, and the status that a target may report. Does not
depend on the registry of targets. Source: XLA Custom Calls; CustomCallApiVersion in hlo.proto, custom_call_status.h.

Every buffer is aligned to 64 bytes and belongs to one call: operands are copied, results start as zeros. f32[2,3]{0,1}
is passed as six numbers, column by column. An element of fewer than 8 bits takes one byte.

A status object can be read only by the library whose functions write it. Native code gets the functions of
`custom_call_status_functions()` by address (a linker's or LLVM's symbol of that name, or an argument to a library's
set-up function). Functions of the same name from another library write an object that cannot be read here: such a
status is reported as a failure without its message.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.error_codes.code import ErrorCode, split_code
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.base.value import TOKEN, Value
from xlapy.custom_calls.registry import NativeTarget
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes

_ALIGNMENT = 64
STATUS_BYTES = 64
"""More than the size of an XlaCustomCallStatus, so that other libraries' functions do not write past its end."""

_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_SIGNATURES: dict[CustomCallApiVersion, Any] = {
    CustomCallApiVersion.ORIGINAL: ctypes.CFUNCTYPE(None, ctypes.c_void_p, _POINTERS),
    CustomCallApiVersion.STATUS_RETURNING: ctypes.CFUNCTYPE(None, ctypes.c_void_p, _POINTERS, ctypes.c_void_p),
    CustomCallApiVersion.STATUS_RETURNING_UNIFIED: ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, _POINTERS, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
    ),
}

# -- status

_failures: dict[int, str] = {}
"""The message of each status that is a failure, by the address of the status."""


def _set_success(status: int | None) -> None:
    if status and _failures.pop(status, None) is not None:
        ctypes.c_int64.from_address(status).value = 0


def _set_failure(status: int | None, message: int | None, length: int) -> None:
    if status:
        text = ctypes.string_at(message, length) if message else b""
        _failures[status] = text.partition(b"\0")[0].decode(errors="replace")
        ctypes.c_int64.from_address(status).value = 1


_STATUS_FUNCTIONS = {
    "XlaCustomCallStatusSetSuccess": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_set_success),
    "XlaCustomCallStatusSetFailure": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
        _set_failure
    ),
}


def custom_call_status_functions() -> dict[str, int]:
    """Returns the addresses of `XlaCustomCallStatusSetSuccess` and `XlaCustomCallStatusSetFailure` for native targets.

    Their C signatures are `void (XlaCustomCallStatus*)` and `void (XlaCustomCallStatus*, const char*, size_t)`.
    """
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in _STATUS_FUNCTIONS.items()}


def take_status_failure(status: ctypes.Array[ctypes.c_char]) -> str | None:
    """Returns and forgets the message of a failure; None for success, which is a status of all zeros."""
    message = _failures.pop(ctypes.addressof(status), None)
    if message is None and any(status.raw):
        return "it wrote its status with functions of another library, whose message cannot be read"
    return message


# -- buffers


def check_layouts(instruction: Instruction) -> None:
    """Raises `UnsupportedError` if a declared layout has tiles or packed elements."""
    for shape in (
        instruction.shape,
        *(instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()),
    ):
        for _, leaf in shape.leaves():
            layout = leaf.layout if leaf.is_array else None
            if layout is not None and (layout.tiles or layout.element_size_in_bits):
                raise UnsupportedError(
                    codes.CALL_LAYOUT,
                    f"{describe_instruction(instruction)}: native code cannot be given the layout of {leaf}: tiles "
                    "and packed elements are not executable",
                )


def operand_layout_shapes(instruction: Instruction) -> Shape | None:
    """Returns the tuple of the operands' shapes with the layouts that the target requires; None without constraints."""
    constraints = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints
    if constraints is None or len(constraints) != len(instruction.operands):
        return None
    return Shape.tuple(constraints)


def copy_to_layout(value: Array, layout: Layout | None) -> Array:
    """Copies an array so that its elements are in memory in the order of a layout, or row-major if it is None."""
    order = _major_to_minor(value.ndim, layout)
    moved = value.transpose(order)
    physical = _allocate_aligned(moved.shape, moved.dtype)
    physical[...] = moved
    return physical.transpose(np.argsort(order))


def _major_to_minor(rank: int, layout: Layout | None) -> tuple[int, ...]:
    """Returns the dimensions from major to minor."""
    return tuple(range(rank)) if layout is None else layout.minor_to_major[::-1]


def _allocate_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = prod(shape) * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


@dataclass(slots=True)
class Buffers:
    """The arrays of all operands, or of a result, by index path, in order; None for a token."""

    arrays: dict[tuple[int, ...], Array | None] = field(default_factory=dict[tuple[int, ...], "Array | None"])

    def pointers(self) -> Any:
        addresses = [None if array is None else array.ctypes.data for array in self.arrays.values()]
        return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _leaves(value: Value, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Value]]:
    if isinstance(value, tuple):
        for number, element in enumerate(value):
            yield from _leaves(element, (*path, number))
    else:
        yield path, value


def operand_buffers(instruction: Instruction, values: Sequence[Value]) -> Buffers:
    """Copies the operands to the layouts of the constraints; index paths begin with the operand's number."""
    buffers = Buffers()
    whole = operand_layout_shapes(instruction)
    for path, value in _leaves(tuple(values)):
        layout = None if whole is None else whole.subshape(path).layout
        buffers.arrays[path] = copy_to_layout(value, layout) if isinstance(value, np.ndarray) else None
    return buffers


def result_buffers(instruction: Instruction, operands: Buffers) -> Buffers:
    """Allocates zeros in the declared layouts; a result that is aliased with an operand shares its buffer."""
    buffers = Buffers()
    for path, leaf in instruction.shape.leaves():
        zeros = np.zeros((), leaf.dtype) if leaf.is_array else None
        filled = None if zeros is None else np.broadcast_to(zeros, leaf.dimensions)
        buffers.arrays[tuple(path)] = None if filled is None else copy_to_layout(filled, leaf.layout)
    for alias in instruction.attributes_as(CustomCallAttributes).output_to_operand_aliasing:
        operand_path = (alias.operand, *alias.operand_index)
        for path in buffers.arrays:
            if path[: len(alias.output_index)] == alias.output_index:
                _share_buffer(buffers, path, operands, (*operand_path, *path[len(alias.output_index) :]))
    return buffers


def _share_buffer(results: Buffers, path: tuple[int, ...], operands: Buffers, operand_path: tuple[int, ...]) -> None:
    """Copies the operand's elements to the result's buffer and uses that buffer for both."""
    result, operand = results.arrays[path], operands.arrays[operand_path]
    if result is not None and operand is not None:
        result[...] = operand
        operands.arrays[operand_path] = result


def result_value(shape: Shape, results: Buffers) -> Value:
    """Returns the value of a result from its buffers."""
    return _value(shape, results.arrays)


def _value(shape: Shape, arrays: Mapping[tuple[int, ...], Array | None], path: tuple[int, ...] = ()) -> Value:
    if shape.is_tuple:
        return tuple(_value(element, arrays, (*path, i)) for i, element in enumerate(shape.tuple_shapes))
    return TOKEN if arrays[path] is None else arrays[path]


# -- the call


def call_native(instruction: Instruction, target: NativeTarget, values: Sequence[Value]) -> Value:
    """Calls native code and returns the results that it wrote; raises `ExecutionError` if its status is a failure."""
    operands = operand_buffers(instruction, values)
    results = result_buffers(instruction, operands)
    pointers = results.pointers()
    out = pointers if instruction.shape.is_tuple else pointers[0]
    arguments: list[Any] = [ctypes.cast(out, ctypes.c_void_p), operands.pointers()]
    status = ctypes.create_string_buffer(STATUS_BYTES)
    if target.api_version is CustomCallApiVersion.STATUS_RETURNING_UNIFIED:
        opaque = instruction.backend_config.encode(errors="surrogateescape")
        arguments += [opaque, len(opaque)]
    if target.api_version is not CustomCallApiVersion.ORIGINAL:
        arguments.append(ctypes.addressof(status))
    _SIGNATURES[target.api_version](target.address)(*arguments)
    message = take_status_failure(status)
    if message is not None:
        raise target_error(instruction, split_code(message)[0])
    return result_value(instruction.shape, results)


def target_error(
    instruction: Instruction, message: str, where: str = "", code: ErrorCode = codes.FAILED_TARGET
) -> ExecutionError:
    """Returns the error for a target that failed."""
    return ExecutionError(
        code,
        f"{describe_instruction(instruction)}: target {instruction.custom_call_target!r} failed{where}: {message}",
    )

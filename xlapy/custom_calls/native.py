"""Calls native code with XLA's C conventions for custom calls.

Owns: buffers in the declared layouts, the pointers to them, the status that a target may report. Must not know: the
table of targets' names. Source: XLA Custom Calls; CustomCallApiVersion in hlo.proto, custom_call_status.h.

Every buffer is aligned to 64 bytes and belongs to one call: operands are copied, results begin as zeros. f32[2,3]{0,1}
is given to the code as six numbers, column by column. An element of fewer than 8 bits takes a byte.

A status belongs to the functions that write it. Native code reaches those of `custom_call_status_functions()` by their
addresses (a linker's or LLVM's symbol of that name, an argument to a library's set-up function); the functions of the
same name linked from another library write an object that cannot be read here: such a status is seen to have been
written, and reported as a failure, without its message.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.base.value import TOKEN, Value
from xlapy.custom_calls.registry import NativeTarget
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes

_ALIGNMENT = 64
STATUS_BYTES = 64
"""More than an XlaCustomCallStatus takes, so that other libraries' functions write into nothing else."""

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
"""The messages of the statuses, by address, that stand at failure."""


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
    """The addresses of `XlaCustomCallStatusSetSuccess` and `XlaCustomCallStatusSetFailure`, for native targets.

    Their C signatures are `void (XlaCustomCallStatus*)` and `void (XlaCustomCallStatus*, const char*, size_t)`.
    """
    return {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in _STATUS_FUNCTIONS.items()}


def take_status_failure(status: ctypes.Array[ctypes.c_char]) -> str | None:
    """The message of a failure; None for success. A status of success is all zeros, one of failure is not."""
    message = _failures.pop(ctypes.addressof(status), None)
    if message is None and any(status.raw):
        return "it wrote its status by functions of another library, whose message cannot be read"
    return message


# -- buffers


def check_layouts(instruction: Instruction) -> None:
    """`UnsupportedError` if a declared layout is more than an order of dimensions."""
    for shape in (
        instruction.shape,
        *(instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()),
    ):
        for _, leaf in shape.leaves():
            layout = leaf.layout if leaf.is_array else None
            if layout is not None and (layout.tiles or layout.element_size_in_bits):
                raise UnsupportedError(
                    f"{describe_instruction(instruction)}: native code cannot be given the layout of {leaf}: tiles "
                    f"and packed "
                    f"elements are not executable"
                )


def operand_layout_shapes(instruction: Instruction) -> Shape | None:
    """The tuple of the operands' shapes with the layouts that the target takes them in, None if it is not said."""
    constraints = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints
    if constraints is None or len(constraints) != len(instruction.operands):
        return None
    return Shape.tuple(constraints)


def copy_to_layout(value: Array, layout: Layout | None) -> Array:
    """A copy of an array whose elements lie in memory in the order of a layout, row-major if there is none."""
    order = _major_to_minor(value.ndim, layout)
    moved = value.transpose(order)
    lying = _allocate_aligned(moved.shape, moved.dtype)
    lying[...] = moved
    return lying.transpose(np.argsort(order))


def _major_to_minor(rank: int, layout: Layout | None) -> tuple[int, ...]:
    """The dimensions from major to minor."""
    return tuple(range(rank)) if layout is None else layout.minor_to_major[::-1]


def _allocate_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = prod(shape) * dtype.itemsize
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


@dataclass(slots=True)
class Buffers:
    """The arrays of operands or of a result, by their index paths, in order; None for a token."""

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
    """Operands in the layouts of the constraints; index paths begin with the operand's number."""
    buffers = Buffers()
    whole = operand_layout_shapes(instruction)
    for path, value in _leaves(tuple(values)):
        layout = None if whole is None else whole.subshape(path).layout
        buffers.arrays[path] = copy_to_layout(value, layout) if isinstance(value, np.ndarray) else None
    return buffers


def result_buffers(instruction: Instruction, operands: Buffers) -> Buffers:
    """Zeros in the declared layouts; where the result lives in the buffer of an operand, that buffer."""
    buffers = Buffers()
    for path, leaf in instruction.shape.leaves():
        zeros = np.zeros((), leaf.dtype) if leaf.is_array else None
        filled = None if zeros is None else np.broadcast_to(zeros, leaf.dimensions)
        buffers.arrays[tuple(path)] = None if filled is None else copy_to_layout(filled, leaf.layout)
    for alias in instruction.attributes_as(CustomCallAttributes).output_to_operand_aliasing:
        place = (alias.operand, *alias.operand_index)
        for path in buffers.arrays:
            if path[: len(alias.output_index)] == alias.output_index:
                _share_buffer(buffers, path, operands, (*place, *path[len(alias.output_index) :]))
    return buffers


def _share_buffer(results: Buffers, path: tuple[int, ...], operands: Buffers, place: tuple[int, ...]) -> None:
    """The result's buffer begins with the operand's elements and takes its place."""
    result, operand = results.arrays[path], operands.arrays[place]
    if result is not None and operand is not None:
        result[...] = operand
        operands.arrays[place] = result


def result_value(shape: Shape, results: Buffers) -> Value:
    """What the buffers of a result hold."""
    return _value(shape, results.arrays)


def _value(shape: Shape, arrays: Mapping[tuple[int, ...], Array | None], path: tuple[int, ...] = ()) -> Value:
    if shape.is_tuple:
        return tuple(_value(element, arrays, (*path, i)) for i, element in enumerate(shape.tuple_shapes))
    return TOKEN if arrays[path] is None else arrays[path]


# -- the call


def call_native(instruction: Instruction, target: NativeTarget, values: Sequence[Value]) -> Value:
    """What the code wrote; `ExecutionError` if its status is a failure."""
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
        raise target_error(instruction, message)
    return result_value(instruction.shape, results)


def target_error(instruction: Instruction, message: str, where: str = "") -> ExecutionError:
    """What a run ends with in which a target has failed."""
    return ExecutionError(
        f"{describe_instruction(instruction)}: target {instruction.custom_call_target!r} failed{where}: {message}"
    )

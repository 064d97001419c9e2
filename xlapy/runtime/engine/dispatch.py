"""Calls of programs with host callbacks on one device: from a user's arguments to a native call, and back to buffers.

What the program expects of each argument is prepared once, so that a call with a few buffers takes microseconds.

Responsible for which arguments need no conversion, and for donated memory. Does not depend on how programs are
compiled, or on the caller.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.interpreter import TOKEN
from xlapy.interpreter.kernels.random_state import RandomState
from xlapy.runtime.array_types import array_type
from xlapy.runtime.buffer import Buffer, LaunchToken, array_on_memory
from xlapy.runtime.engine import allocator
from xlapy.runtime.engine.allocator import ALIGNMENT
from xlapy.runtime.engine.arguments import check_argument, check_arguments, check_count
from xlapy.runtime.engine.calls import unflatten
from xlapy.runtime.engine.donation import DonatedLeaf, donated_buffers
from xlapy.runtime.engine.native_call import Host, NativeCall, array_address
from xlapy.runtime.values import Value

_byte = ctypes.c_char.from_buffer
_address_of = ctypes.addressof
_Array = np.ndarray


class Dispatch:
    """Calls a native program with a user's arguments; returns buffers.

    make_host: makes the host of a run, for programs whose callbacks are all custom calls.
    """

    def __init__(
        self,
        call: NativeCall,
        program: NativeProgram,
        shape: ProgramShape,
        donated: Sequence[DonatedLeaf],
        make_host: Callable[[], Host],
    ) -> None:
        self._call = call
        self._shape = shape
        self._takes_arrays_only = all(parameter.is_array for parameter in shape.parameters)
        leaves = (leaf for parameter in shape.parameters for _, leaf in parameter.leaves())
        self._expected = [array_type(leaf) for leaf in leaves if leaf.is_array]
        self._results = [array_type(slice_.shape) for slice_ in program.results]
        self._aliases = program.aliases
        self._implicit_arguments = program.implicit_arguments
        self._donated = [(leaf, leaf_index(shape, leaf)) for leaf in donated]
        self._make_host = make_host
        self._calls_targets = bool(program.host_calling_thunks)
        self._custom_call_arguments = custom_call_arguments(program)
        self._returns_array = shape.result.is_array
        self._returns_flat_tuple = shape.result.is_tuple and all(
            element.is_array for element in shape.result.tuple_shapes
        )

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Runs the program once; see `Executable.__call__`."""
        if self._takes_arrays_only:
            owners, addresses = self._owners_and_addresses(arguments)
        else:
            owners, addresses = arrays_and_addresses(check_arguments(self._shape, arguments))
        overwritable = self._overwritable_memory(arguments, owners, addresses) if self._donated else {}
        if self._implicit_arguments:
            implicit_arguments = per_device_values(self._implicit_arguments, 0, 0)
            owners += implicit_arguments
            addresses += map(array_address, implicit_arguments)
        memories, result_addresses = self._call.results()
        if self._calls_targets:
            align_arguments(owners, addresses, self._custom_call_arguments)
            self._call.refresh_targets()
            host = self._make_host() if self._call.needs_host else None
            self._call(*addresses, *result_addresses, host=host, memory=(owners, memories))
        else:
            self._call(*addresses, *result_addresses)
        if overwritable:
            for result, argument in self._aliases.items():
                memories[result], result_addresses[result] = overwritable[argument], addresses[argument]
        arrays = map(array_on_memory, self._results, memories, result_addresses)
        if self._returns_array:
            return Buffer(next(arrays))
        buffers = map(Buffer, arrays)
        return tuple(buffers) if self._returns_flat_tuple else unflatten(self._shape.result, buffers)

    def _owners_and_addresses(self, arguments: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Returns the owner and the address of each argument's memory. Buffers and arrays that match are used without a
        copy."""
        owners: list[Any] = []
        addresses: list[int] = []
        if len(arguments) != len(self._expected):
            check_count(self._shape, arguments)
        for argument, expected in zip(arguments, self._expected, strict=True):
            argument_class = argument.__class__
            if argument_class is Buffer:
                array = argument._array
                if array is not None and argument._type is expected:
                    owners.append(array)
                    addresses.append(array_address(array))
                    continue
            elif (
                argument_class is _Array and argument.dtype is expected.dtype and argument.shape == expected.dimensions
            ):
                try:
                    memory = _byte(argument)
                except (TypeError, ValueError, BufferError):  # not contiguous, read-only, empty, or an ml_dtypes type
                    memory = None
                if memory is not None and not _address_of(memory) & expected.alignment_mask:
                    owners.append(memory)
                    addresses.append(_address_of(memory))
                    continue
            value = check_argument(self._shape, len(owners), argument)
            owners.append(as_contiguous(value))
            addresses.append(array_address(owners[-1]))
        return owners, addresses

    def _overwritable_memory(self, arguments: Sequence[Any], owners: list[Any], addresses: list[int]) -> dict[int, Any]:
        """Returns the memory that the program may overwrite, by donated argument: copies. Deletes the donated
        buffers."""
        for leaf, buffer in donated_buffers([leaf for leaf, _ in self._donated], arguments):
            buffer.take(leaf.deletion_reason)
        overwritable: dict[int, Any] = {}
        for _, number in self._donated:
            overwritable[number] = memory = _copy_memory(addresses[number], self._expected[number].shape)
            addresses[number] = _address_of(memory)
            owners[number] = None
        return overwritable


class DispatchReady:
    """Calls a program in the thread of the caller, or queues the call if an argument is pending."""

    def __init__(self, dispatch: Dispatch, queue: Callable[[Sequence[Any]], Any]) -> None:
        self._dispatch, self._queue = dispatch, queue

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Runs the program once, or queues it; see `Executable.__call__`."""
        return (self._queue if any(map(_is_pending, arguments)) else self._dispatch)(arguments)


def _is_pending(argument: Any) -> bool:
    """Whether a launch that has not finished writes an argument or a part of it."""
    if isinstance(argument, tuple | list):
        return any(map(_is_pending, argument))
    if isinstance(argument, LaunchToken):
        return not argument.is_ready()
    if argument.__class__ is not Buffer or argument._array is not None:
        return False
    return not (argument.is_deleted() or argument.is_ready())


def per_device_values(names: Sequence[str], replica_id: int, partition_id: int) -> list[np.ndarray[Any, Any]]:
    """The implicit arguments of a program, which depend on its device and on the run, by the names in
    `NativeProgram`."""
    seed = int(flags.get("rng_seed"))
    values = {
        "replica-id": np.array(replica_id, np.uint32),
        "partition-id": np.array(partition_id, np.uint32),
        "rng-get-and-update-state": RandomState.initial(seed, replica_id, partition_id).words(),
    }
    return [values[name] for name in names]


def arrays_and_addresses(values: Sequence[Value]) -> tuple[list[Any], list[int]]:
    """Returns the arrays in values, with tuples flattened, in the form that native code takes, and their addresses."""
    arrays = [as_contiguous(leaf) for leaf in _leaves(values)]
    return arrays, [array_address(array) for array in arrays]


def _leaves(values: Sequence[Value]) -> Iterator[np.ndarray[Any, Any]]:
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        elif value is not TOKEN:
            yield value


def as_contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the array itself if it is contiguous and aligned, else a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def custom_call_arguments(program: NativeProgram) -> list[BufferSlice]:
    """The arguments that custom calls read in place."""
    operands = (slice_ for thunk in program.host_calling_thunks if thunk.reads_in_place for slice_ in thunk.operands)
    return list(dict.fromkeys(slice_ for slice_ in operands if slice_.storage is StorageClass.ARGUMENT))


def align_arguments(owners: list[Any], addresses: list[int], arguments: Sequence[BufferSlice]) -> None:
    """Replaces those of the arguments that are less aligned than custom calls are promised by copies."""
    for slice_ in arguments:
        if addresses[slice_.number] % ALIGNMENT:
            memory = _copy_memory(addresses[slice_.number], slice_.shape)
            owners[slice_.number] = np.ndarray(slice_.shape.dimensions, slice_.shape.dtype, memory)
            addresses[slice_.number] = _address_of(memory)


def leaf_index(shape: ProgramShape, leaf: DonatedLeaf) -> int:
    """The index of a leaf among the arrays of all parameters."""
    paths = [
        (number, path)
        for number, parameter in enumerate(shape.parameters)
        for path, element in parameter.leaves()
        if element.is_array
    ]
    return paths.index((leaf.parameter, leaf.path))


def _copy_memory(address: int, shape: Shape) -> Any:
    size = shape.size * shape.element_type.byte_size
    memory = allocator.allocate_ctypes(size)
    ctypes.memmove(memory, address, size)
    return memory

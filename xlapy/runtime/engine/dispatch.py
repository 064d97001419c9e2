"""From the arguments of a user to a native call and back: the short way of calls on one device.

What a program expects of each argument is prepared once, so that a call of a few buffers takes microseconds.

Owns: which arguments need no conversion, donated memory. Must not know: how programs are compiled, who calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.cpu.program.host_callbacks import Host
from xlapy.cpu.program.thunks import BufferSlice, CallbackThunk, NativeProgram, StorageClass
from xlapy.interpreter import TOKEN
from xlapy.interpreter.kernels.random_state import RandomState
from xlapy.runtime.buffer import Buffer, array_type, buffer_on_memory
from xlapy.runtime.engine import allocator
from xlapy.runtime.engine.allocator import ALIGNMENT
from xlapy.runtime.engine.arguments import check_argument, check_arguments, check_count
from xlapy.runtime.engine.donation import DonatedLeaf, donated_buffers
from xlapy.runtime.engine.native_call import NativeCall, array_address
from xlapy.runtime.values import Value

_byte = ctypes.c_char.from_buffer
_address_of = ctypes.addressof
_Array = np.ndarray


class Dispatch:
    """Calls a native program with what a user gives; results are buffers.

    make_host: gives the host of a run, for programs whose callbacks are all custom calls.
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
        self._plain = all(parameter.is_array for parameter in shape.parameters)
        leaves = (leaf for parameter in shape.parameters for _, leaf in parameter.leaves())
        self._expected = [array_type(leaf) for leaf in leaves if leaf.is_array]
        self._results = [array_type(slice_.shape) for slice_ in program.results]
        self._aliases = program.aliases
        self._ids = program.ids
        self._donated = [(leaf, leaf_index(shape, leaf)) for leaf in donated]
        self._make_host = make_host
        self._calls_targets = bool(program.callbacks)
        self._shown = custom_call_arguments(program)
        self._single = shape.result.is_array
        self._flat = shape.result.is_tuple and all(element.is_array for element in shape.result.tuple_shapes)

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The results of one run, as `Executable.__call__` says."""
        if self._plain:
            kept, addresses = self._taken(arguments)
        else:
            kept, addresses = arrays_and_addresses(check_arguments(self._shape, arguments))
        lent = self._lent(arguments, kept, addresses) if self._donated else {}
        if self._ids:
            numbers = per_device_values(self._ids, 0, 0)
            kept += numbers
            addresses += map(array_address, numbers)
        memories, places = self._call.results()
        if self._calls_targets:
            align_arguments(kept, addresses, self._shown)
            self._call.renew_targets()
            host = self._make_host() if self._call.needs_host else None
            self._call(*addresses, *places, host=host, memory=(kept, memories))
        else:
            self._call(*addresses, *places)
        if lent:
            for result, argument in self._aliases.items():
                memories[result], places[result] = lent[argument], addresses[argument]
        if self._single:
            return buffer_on_memory(self._results[0], memories[0], places[0])
        buffers = map(buffer_on_memory, self._results, memories, places)
        return tuple(buffers) if self._flat else packed(self._shape.result, buffers)

    def _taken(self, arguments: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """What keeps each argument, and its address: buffers and arrays that fit are taken as they are."""
        kept: list[Any] = []
        addresses: list[int] = []
        if len(arguments) != len(self._expected):
            check_count(self._shape, arguments)
        for argument, expected in zip(arguments, self._expected, strict=True):
            kind = argument.__class__
            if kind is Buffer:
                memory = argument._memory  # before the address: the other order of `Buffer.end`
                address = argument._address
                if address and argument._type is expected:
                    kept.append(memory)
                    addresses.append(address)
                    continue
            elif kind is _Array and argument.dtype is expected.dtype and argument.shape == expected.dimensions:
                try:
                    memory = _byte(argument)
                except (TypeError, ValueError, BufferError):  # not contiguous, read-only, empty, a type of ml_dtypes
                    memory = None
                if memory is not None and not _address_of(memory) & expected.alignment_mask:
                    kept.append(memory)
                    addresses.append(_address_of(memory))
                    continue
            value = check_argument(self._shape, len(kept), argument)
            kept.append(contiguous(value))
            addresses.append(array_address(kept[-1]))
        return kept, addresses

    def _lent(self, arguments: Sequence[Any], kept: list[Any], addresses: list[int]) -> dict[int, Any]:
        """Memory for donated arguments that the program may overwrite: their own, if nobody else has it, or a copy."""
        given = dict(donated_buffers([leaf for leaf, _ in self._donated], arguments))
        lent: dict[int, Any] = {}
        for leaf, number in self._donated:
            buffer, alone = given.get(leaf), False
            if buffer is not None:
                kept[number] = None
                kept[number], alone = buffer.donate(leaf.deletion_reason)
            if alone:
                lent[number] = kept[number]
            else:
                lent[number] = memory = _copied(addresses[number], self._expected[number].shape)
                addresses[number] = _address_of(memory)
        return lent


def per_device_values(names: Sequence[str], replica_id: int, partition_id: int) -> list[np.ndarray[Any, Any]]:
    """What a program asks of its device and of the run, by the names in `NativeProgram.ids`."""
    seed = int(flags.get("rng_seed"))
    known = {
        "replica-id": np.array(replica_id, np.uint32),
        "partition-id": np.array(partition_id, np.uint32),
        "rng-get-and-update-state": RandomState.of(seed, replica_id, partition_id).words(),
    }
    return [known[name] for name in names]


def arrays_and_addresses(values: Sequence[Value]) -> tuple[list[Any], list[int]]:
    """The arrays in values as native code wants them, tuples flattened, and their addresses."""
    arrays = [contiguous(leaf) for leaf in _leaves(values)]
    return arrays, [array_address(array) for array in arrays]


def _leaves(values: Sequence[Value]) -> Iterator[np.ndarray[Any, Any]]:
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        elif value is not TOKEN:
            yield value


def contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself where its elements lie as native code wants them, else a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def custom_call_arguments(program: NativeProgram) -> list[BufferSlice]:
    """The arguments that custom calls are given as they lie in memory."""
    shown = (slice_ for thunk in program.callbacks if isinstance(thunk, CallbackThunk) for slice_ in thunk.operands)
    return list(dict.fromkeys(slice_ for slice_ in shown if slice_.kind is StorageClass.ARGUMENT))


def align_arguments(kept: list[Any], addresses: list[int], arguments: Sequence[BufferSlice]) -> None:
    """Puts copies in the place of those arguments that do not lie as targets are promised."""
    for slice_ in arguments:
        if addresses[slice_.number] % ALIGNMENT:
            memory = _copied(addresses[slice_.number], slice_.shape)
            kept[slice_.number] = np.ndarray(slice_.shape.dimensions, slice_.shape.dtype, memory)
            addresses[slice_.number] = _address_of(memory)


def packed(shape: Shape, results: Iterator[Any]) -> Any:
    """Results in the structure of a shape; tokens have none."""
    if shape.is_tuple:
        return tuple(packed(element, results) for element in shape.tuple_shapes)
    return next(results) if shape.is_array else TOKEN


def leaf_index(shape: ProgramShape, leaf: DonatedLeaf) -> int:
    """The place of a leaf among the arrays of all parameters."""
    paths = [
        (number, path)
        for number, parameter in enumerate(shape.parameters)
        for path, element in parameter.leaves()
        if element.is_array
    ]
    return paths.index((leaf.parameter, leaf.path))


def _copied(address: int, shape: Shape) -> Any:
    size = shape.size * shape.element_type.byte_size
    memory = allocator.allocate_ctypes(size)
    ctypes.memmove(memory, address, size)
    return memory

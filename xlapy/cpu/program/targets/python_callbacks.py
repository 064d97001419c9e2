"""Custom calls of Python functions, made by native code without the interpreter's rules.

What is known before a call is prepared once: where the arrays lie, what the function is told, and how results are
checked. A call then copies its operands, calls the function and copies the results. The function sees what it sees on
the interpreter.

Responsible for programs whose only host callbacks are such calls, on one device. Does not depend on how programs are
launched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from threading import get_ident
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves, is_row_major
from xlapy.base.shape import Shape
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.targets.call_frames import HostCallBlocks
from xlapy.cpu.program.thunks import HostThunk
from xlapy.custom_calls.native import operand_layout_shapes
from xlapy.custom_calls.registry import PythonTarget, find_target, registry_generation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context
from xlapy.interpreter.custom import PreparedPythonCall, custom_call_rule, value_from_target

Array = np.ndarray[Any, Any]

_PLATFORM = "cpu"
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)

_MAX_BYTES_COPIED_TWICE = 1 << 12
"""Smaller results are converted to bytes first: a copy of 4 KiB takes less time than making an array for the target."""

_MIN_BYTES_OF_HUGE_PAGES = 1 << 25
"""The C library returns larger blocks to the system when they are freed. Arrays of at least this size are copied to new
arrays, for which NumPy asks for huge pages, instead of new bytes, whose pages take longer to get than to copy: 64 MiB
take 22 ms instead of 60 ms; below, both take the same time."""

_errors: dict[int, BaseException] = {}
"""The error of the last call in each thread that failed and whose error was not taken."""


def take_error() -> BaseException | None:
    """Returns and forgets the error of the call that ended a program in this thread."""
    return _errors.pop(get_ident(), None)


def calls_only_python(program: NativeProgram) -> bool:
    """Returns whether all host callbacks of a program are custom calls of Python functions, with row-major arrays."""
    thunks = program.host_calling_thunks
    is_single = program.replica_count * program.partition_count == 1
    return is_single and bool(thunks) and all(map(_calls_python, thunks))


def _calls_python(thunk: HostThunk) -> bool:
    if not thunk.is_plain_callback or thunk.instruction.op is not opcodes.CUSTOM_CALL:
        return False
    instruction: Instruction = thunk.instruction
    shapes = [*instruction.operand_shapes, instruction.shape]
    constraint = operand_layout_shapes(instruction)
    declared = () if constraint is None else constraint.tuple_shapes
    return (
        isinstance(find_target(instruction.custom_call_target, _PLATFORM), PythonTarget)
        and not any(shape.is_tuple for shape in instruction.operand_shapes)
        and not any(leaf.is_dynamic for shape in shapes for _, leaf in array_leaves(shape))
        and all(is_row_major(slice_.shape) for slice_ in (*thunk.operands, *thunk.results))
        and all(not shape.is_array or is_row_major(shape) for shape in declared)
    )


class PythonCallbacks:
    """The Python functions that a program calls, as a host callback for all of its launches.

    address: of the function that `PYTHON_CALLBACK` calls. fixed_addresses: further entries of the address table. Both
    are valid as long as this object lives. Several threads may run the program at the same time.
    """

    def __init__(self, program: NativeProgram) -> None:
        self._calls = [_Call(program, thunk) for thunk in program.host_calling_thunks]
        self._table = ctypes.c_uint64 * program.table_size
        self._status = program.python_index + 1
        self._blocks = HostCallBlocks(program)
        self._function = _FUNCTION(self._run)
        self.address = int(ctypes.cast(self._function, ctypes.c_void_p).value or 0)
        self.fixed_addresses = self._blocks.addresses

    def call(self, number: int, table: Sequence[Any]) -> None:
        """Makes a call. table: the address table of the launch."""
        self._calls[number](table)

    def _run(self, number: int, table: int) -> None:
        """Makes a call, and stores 0 as its status if it succeeds. table: the address of that of the launch."""
        try:
            entries: Any = self._table.from_address(table)
            self._calls[number](entries)
            entries[self._status] = 0
        except BaseException as error:  # no exception may pass through native code
            _errors[get_ident()] = error


class _ArrayPlace:
    """Where an array of a call lies, and its type. The methods take the address table of a launch."""

    __slots__ = ("dimensions", "dtype", "is_vector", "memory", "number", "offset", "size")

    def __init__(self, program: NativeProgram, slice_: BufferSlice, leaf: Shape) -> None:
        self.number, self.offset, self.size = program.table_index(slice_), max(0, slice_.offset), slice_.size
        self.dimensions, self.dtype = leaf.dimensions, leaf.dtype
        self.is_vector = leaf.rank == 1 and leaf.size > 0
        self.memory = ctypes.c_char * self.size

    def copy(self, table: Sequence[int]) -> Array:
        """Returns a copy of the array, which the function may keep and cannot change."""
        if self.size >= _MIN_BYTES_OF_HUGE_PAGES:
            array: Array = np.empty(self.dimensions, self.dtype)
            ctypes.memmove(array.ctypes.data, table[self.number] + self.offset, self.size)
            array.flags.writeable = False
            return array
        data = self.memory.from_address(table[self.number] + self.offset).raw
        if self.is_vector:
            return np.frombuffer(data, self.dtype)
        return np.ndarray(self.dimensions, self.dtype, data)

    def store(self, table: Sequence[int], array: Any) -> None:
        """Writes the array."""
        memory: Any = self.memory.from_address(table[self.number] + self.offset)
        if self.size <= _MAX_BYTES_COPIED_TWICE:
            memory.raw = array.tobytes()
        else:
            np.ndarray(self.dimensions, self.dtype, memory)[...] = array


class _Call:
    """A custom call of a Python function."""

    def __init__(self, program: NativeProgram, thunk: HostThunk) -> None:
        self._instruction: Instruction = thunk.instruction
        slices = iter(thunk.operands)
        self._operands = [
            _ArrayPlace(program, next(slices), shape) if shape.is_array else None
            for shape in self._instruction.operand_shapes
        ]
        leaves = [leaf for _, leaf in array_leaves(self._instruction.shape)]
        self._results = [_ArrayPlace(program, slice_, leaf) for slice_, leaf in zip(thunk.results, leaves, strict=True)]
        self._returned = _returned_places(self._instruction.shape, self._results)
        self._generation = -1
        self._prepared: PreparedPythonCall | None = None

    def __call__(self, table: Sequence[int]) -> None:
        if self._generation != registry_generation():
            self._prepare()
        given = [None if place is None else place.copy(table) for place in self._operands]
        if self._prepared is None:
            self._store(table, self._evaluated(given))
            return
        returned = self._prepared.call(given)
        arrays = self._arrays_of(returned)
        self._store(table, self._checked(returned) if arrays is None else arrays)

    def _prepare(self) -> None:
        """Finds the target that is registered now. One that is no longer a Python function is called by the rule."""
        self._generation = registry_generation()
        target = find_target(self._instruction.custom_call_target, _PLATFORM)
        self._prepared = (
            PreparedPythonCall(Context(platform=_PLATFORM), self._instruction, target)
            if isinstance(target, PythonTarget)
            else None
        )

    def _arrays_of(self, returned: Any) -> Sequence[Any] | None:
        """Returns the arrays that a function returned if they are exactly as declared, else None."""
        values = returned if self._instruction.shape.is_tuple else (returned,)
        if self._returned is None or not isinstance(values, tuple | list) or len(values) != len(self._returned):
            return None
        arrays: list[Any] = []
        for array, place in zip(values, self._returned, strict=True):
            if place is None:
                continue
            if type(array) is not np.ndarray or array.shape != place.dimensions or array.dtype != place.dtype:
                return None
            arrays.append(array)
        return arrays

    def _checked(self, returned: Any) -> list[Any]:
        """Converts a returned value to arrays; `ExecutionError` if it does not have the declared shape."""
        assert self._prepared is not None
        return self._leaves(value_from_target(returned, self._instruction.shape, f"{self._prepared.where} returned"))

    def _evaluated(self, given: Sequence[Any]) -> list[Any]:
        rule = custom_call_rule(self._instruction, _PLATFORM)
        return self._leaves(rule(Context(platform=_PLATFORM), self._instruction, given))

    def _leaves(self, value: Any) -> list[Any]:
        return [_leaf(value, index) for index, _ in array_leaves(self._instruction.shape)]

    def _store(self, table: Sequence[int], arrays: Sequence[Any]) -> None:
        for place, array in zip(self._results, arrays, strict=True):
            place.store(table, array)


def _returned_places(shape: Shape, results: Sequence[_ArrayPlace]) -> list[_ArrayPlace | None] | None:
    """Returns the place of each value that a function returns, None for tokens; None if there are nested tuples."""
    parts = shape.tuple_shapes if shape.is_tuple else (shape,)
    if any(part.is_tuple for part in parts):
        return None
    places = iter(results)
    return [next(places) if part.is_array else None for part in parts]


def _leaf(value: Any, index: Sequence[int]) -> Any:
    for position in index:
        value = value[position]
    return value

"""The CPU compiler as a platform.

Owns: the adapter between `Backend` and `xlapy.cpu`: where arguments and results lie, what is refused.
Must not know: how programs are compiled.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.llvm.program import table_size
from xlapy.cpu.steps import NativeProgram, Slot
from xlapy.hlo.module import Module
from xlapy.interpreter import TOKEN
from xlapy.runtime import allocator
from xlapy.runtime.backend import Observer, Value
from xlapy.runtime.device import Device
from xlapy.runtime.limits import check_limits
from xlapy.runtime.memory import available_bytes, readable
from xlapy.runtime.partitioning import check_partitioning

MAX_CALL_DEPTH = 100
"""How deep computations may call each other: what loops over loops become is nested as deep."""

_SMALL = 1 << 24
"""Bytes that are there without asking."""


class _Place(threading.local):
    """What a thread runs a program in: the arena, and the table of addresses, ready but for arguments and results."""

    def __init__(self, program: NativeProgram, constants: Sequence[np.ndarray[Any, Any]]) -> None:
        self.arena = allocator.results().allocate(max(1, program.arena_size))
        self.table = (ctypes.c_void_p * table_size(program))()
        self.address = ctypes.addressof(self.table)
        self.table[0] = _address(self.arena)
        first = 1 + len(program.arguments) + len(program.results)
        for number, constant in enumerate(constants):
            self.table[first + number] = _address(constant)


class CpuProgram:
    """A module as native code. Each thread that runs it has an arena of its own."""

    fresh_results = True

    def __init__(self, compiled: Compiled, partition_count: int = 1) -> None:
        self.compiled = compiled
        self._partition_count = partition_count
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compiled.entry)
        self._shape = compiled.module.entry_computation.program_shape.result
        program = compiled.program
        self._ids = program.ids
        self._results = program.results
        self._demand = program.arena_size + sum(slot.size for slot in program.results)
        self._constants = [_aligned(slot.data) for slot in program.constants if slot.data is not None]
        self._place: _Place | None = None

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program on new memory for its results."""
        if observer is not None:
            raise UnsupportedError("cpu runs whole programs: instructions are observed on the interpreter")
        return self._execute(arguments, {"replica-id": 0, "partition-id": 0})

    def _execute(self, arguments: Sequence[Value], ids: Mapping[str, int]) -> Value:
        if self._demand > _SMALL:
            self._make_room()
        place, number = self._own_place(), 1
        given = [_contiguous(leaf) for leaf in _leaves(arguments)]
        given += [np.array(ids[name], np.uint32) for name in self._ids]
        results = [_empty(slot) for slot in self._results]
        for array in (*given, *results):
            place.table[number] = _address(array)
            number += 1
        self._run(place.address)
        return _packed(self._shape, iter(results))

    def _own_place(self) -> _Place:
        """Made at the first run: a program that does not fit into memory compiles."""
        if self._place is None:
            self._place = _Place(self.compiled.program, self._constants)
        return self._place

    def _make_room(self) -> None:
        """Gives kept memory back where it is needed; `ExecutionError` if that is not enough."""
        if self._demand > available_bytes():
            allocator.results().trim()
        if self._demand > (available := available_bytes()):
            largest = sorted(self._results, key=lambda slot: -slot.size)[:3]
            shown = ", ".join(f"{slot.shape.brief} {readable(slot.size)}" for slot in largest)
            raise ExecutionError(
                f"out of memory: the program needs {readable(self._demand)} for temporaries and results "
                f"({shown}), {readable(available)} are available"
            )

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program once a device: one without collectives or transfers needs no others."""
        if observer is not None:
            raise UnsupportedError("cpu runs whole programs: instructions are observed on the interpreter")
        results: list[Value] = []
        for number, given in enumerate(arguments):
            replica, partition = divmod(number, self._partition_count)
            results.append(self._execute(given, {"replica-id": replica, "partition-id": partition}))
        return results

    def stages(self) -> Mapping[str, str]:
        return self.compiled.stages()


class CpuBackend:
    """Compiles programs to native code."""

    name = "cpu"

    def __init__(self) -> None:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            here = f"{platform.system()} on {platform.machine()}"
            raise UnsupportedError(f"cpu compiles for Linux on x86-64, this is {here}; use the platform interpreter")

    def compile(self, module: Module, replica_count: int = 1, partition_count: int = 1) -> CpuProgram:
        """`UnsupportedError` for what does not run on cpu yet."""
        check_partitioning(module, replica_count, partition_count)
        check_limits(module, "cpu", MAX_CALL_DEPTH)
        for instruction in module.instructions():
            if instruction.shape.is_dynamic:
                shape = f"{instruction.name} has the dynamic shape {instruction.shape.brief}"
                raise UnsupportedError(f"{shape}, which does not run on cpu yet")
        return CpuProgram(compile_module(module), partition_count)


def _leaves(values: Sequence[Value]) -> Iterator[np.ndarray[Any, Any]]:
    for value in values:
        if isinstance(value, tuple):
            yield from _leaves(value)
        elif value is not TOKEN:
            yield value


def _packed(shape: Shape, results: Iterator[np.ndarray[Any, Any]]) -> Value:
    if shape.is_tuple:
        return tuple(_packed(element, results) for element in shape.tuple_shapes)
    return next(results) if shape.is_array else TOKEN


def _contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself where its elements lie as native code wants them, else a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def _empty(slot: Slot) -> np.ndarray[Any, Any]:
    """New memory for a result."""
    return allocator.results().allocate(slot.size).view(slot.shape.dtype).reshape(slot.shape.dimensions)


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = allocator.results().allocate(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _address(array: np.ndarray[Any, Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address

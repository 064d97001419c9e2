"""The CPU compiler as a platform.

Owns: the adapter between `Backend` and `xlapy.cpu`: where arguments and results lie, what is refused.
Must not know: how programs are compiled.
"""

from __future__ import annotations

import platform
import sys
import weakref
from collections.abc import Mapping, Sequence

import numpy as np

from xlapy.base.errors import UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.hlo.module import Module
from xlapy.runtime import allocator
from xlapy.runtime.backend import Observer, Value
from xlapy.runtime.buffer import array_type, buffer_at
from xlapy.runtime.device import Device
from xlapy.runtime.dispatch import Dispatch, leaf_number, located
from xlapy.runtime.donation import Donated
from xlapy.runtime.dynamic_leaves import joined, static_leaves
from xlapy.runtime.limits import check_limits
from xlapy.runtime.memory import MemoryStats
from xlapy.runtime.native_call import NativeCall, array_address
from xlapy.runtime.partitioning import check_partitioning

MAX_CALL_DEPTH = 100
"""How deep computations may call each other: what loops over loops become is nested as deep."""


class CpuProgram:
    """A module as native code."""

    fresh_results = True

    def __init__(
        self, compiled: Compiled, shape: ProgramShape, donated: Sequence[Donated] = (), partition_count: int = 1
    ) -> None:
        self.compiled = compiled
        self.call = NativeCall(compiled)
        self.direct = None if is_dynamic(shape) else Dispatch(self.call, compiled.program, shape, donated)
        self._partition_count = partition_count
        self._shape = shape
        self._donated = [leaf_number(shape, leaf) for leaf in donated]

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program on new memory for its results."""
        if observer is not None:
            raise UnsupportedError("cpu runs whole programs: instructions are observed on the interpreter")
        return self._execute(arguments, {"replica-id": 0, "partition-id": 0})

    def _execute(self, arguments: Sequence[Value], ids: Mapping[str, int]) -> Value:
        program = self.compiled.program
        values = zip(arguments, self._shape.parameters, strict=True)
        arrays, addresses = located([leaf for value, shape in values for leaf in static_leaves(value, shape)])
        for number in self._donated:  # the values are others' still
            arrays[number] = arrays[number].copy()
            addresses[number] = array_address(arrays[number])
        numbers = [np.array(ids[name], np.uint32) for name in program.ids]
        memories, places = self.call.results()
        self.call(*addresses, *map(array_address, numbers), *places)
        results = [
            arrays[program.aliases[slot.number]]
            if slot.number in program.aliases
            else buffer_at(array_type(slot.shape), memory, place).array
            for slot, memory, place in zip(program.results, memories, places, strict=True)
        ]
        return joined(self._shape.result, iter(results))

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

    @property
    def optimised(self) -> Module:
        return self.compiled.module

    def memory(self) -> MemoryStats:
        """The arena is what is temporary."""
        program = self.compiled.program
        return MemoryStats(
            argument_size_in_bytes=sum(
                slot.size for slot in program.arguments[: len(program.arguments) - len(program.ids)]
            ),
            output_size_in_bytes=sum(slot.size for slot in program.results),
            alias_size_in_bytes=sum(program.results[number].size for number in program.aliases),
            temp_size_in_bytes=program.arena_size,
            generated_code_size_in_bytes=self.compiled.code.size,
        )

    def stages(self) -> Mapping[str, str]:
        return self.compiled.stages()


def is_dynamic(shape: ProgramShape) -> bool:
    """Whether values of dynamic dimensions go in or come out."""
    return shape.result.is_dynamic or any(parameter.is_dynamic for parameter in shape.parameters)


class CpuBackend:
    """Compiles programs to native code."""

    name = "cpu"

    def __init__(self) -> None:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            here = f"{platform.system()} on {platform.machine()}"
            raise UnsupportedError(f"cpu compiles for Linux on x86-64, this is {here}; use the platform interpreter")
        self._programs: weakref.WeakSet[CpuProgram] = weakref.WeakSet()

    def compile(
        self, module: Module, replica_count: int = 1, partition_count: int = 1, donated: Sequence[Donated] = ()
    ) -> CpuProgram:
        """`UnsupportedError` for what does not run on cpu yet."""
        check_partitioning(module, replica_count, partition_count)
        check_limits(module, "cpu", MAX_CALL_DEPTH)
        entry = module.entry_computation.program_shape
        lent = () if is_dynamic(entry) else donated  # memory of values that are copied anyway
        compiled = compile_module(module, [leaf_number(entry, leaf) for leaf in lent])
        program = CpuProgram(compiled, entry, lent, partition_count)
        self._programs.add(program)
        return program

    def trim(self) -> int:
        """Gives arenas that no call is using, and memory kept for results, back to the system."""
        for program in list(self._programs):
            program.call.trim()
        return allocator.results().trim()

"""The CPU compiler as a platform.

Owns: the adapter between `Backend` and `xlapy.cpu`: where arguments and results lie, what is refused.
Must not know: how programs are compiled.
"""

from __future__ import annotations

import platform
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.errors import UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.cpu.compiler import Compiled, Instrument, compile_module
from xlapy.cpu.program import host_queues
from xlapy.cpu.program.call_frames import check_custom_call_targets
from xlapy.cpu.program.host_callbacks import Host, run_ids
from xlapy.cpu.program.thunks import TransferThunk
from xlapy.cpu.program.wait_state import Wait, cancel, shared_memory
from xlapy.cpu.serialization.executable import LoadedProgram, image_of, load_image
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, Plan
from xlapy.interpreter.checks import NO_CHECKS, Checks
from xlapy.interpreter.custom import custom_call_rule
from xlapy.runtime.buffer import array_type, buffer_at
from xlapy.runtime.collectives.communicator import DeviceExchange
from xlapy.runtime.collectives.feeds import joined_feeds
from xlapy.runtime.collectives.launch import run_on_devices
from xlapy.runtime.collectives.rendezvous import ExternalWait
from xlapy.runtime.collectives.watchdog import external_wait
from xlapy.runtime.device import Device
from xlapy.runtime.engine import allocator
from xlapy.runtime.engine.dispatch import Dispatch, align, device_numbers, leaf_number, located, shown_arguments
from xlapy.runtime.engine.donation import Donated
from xlapy.runtime.engine.dynamic_leaves import joined, static_leaves
from xlapy.runtime.engine.memory import MemoryStats
from xlapy.runtime.engine.native_call import NativeCall, array_address
from xlapy.runtime.limits import check_limits
from xlapy.runtime.partitioning import check_partitioning
from xlapy.runtime.storage.compile_cache import compiled_before
from xlapy.runtime.storage.lazy_module import Unread
from xlapy.runtime.values import Observer, Value

MAX_CALL_DEPTH = 100
"""How deep computations may call each other: what loops over loops become is nested as deep."""


class CpuProgram:
    """A module as native code."""

    fresh_results = True

    def __init__(
        self,
        compiled: Compiled | LoadedProgram,
        shape: ProgramShape,
        donated: Sequence[Donated] = (),
        partition_count: int = 1,
        checks: Checks = NO_CHECKS,
    ) -> None:
        self._checks = checks
        self.compiled = compiled
        self._partition_count = partition_count
        self.shape = shape
        self.donated = donated
        self._donated = [leaf_number(shape, leaf) for leaf in donated]
        self._plans: dict[Computation, Plan] = {}
        self._kept: dict[Instruction, Any] = {}
        program = compiled.program
        check_custom_call_targets(program, self._kept)
        self.call = NativeCall(compiled, self._kept)
        self._shown = shown_arguments(program)
        direct = not is_dynamic(shape) and all(
            thunk.instruction.op is opcodes.CUSTOM_CALL for thunk in program.callbacks
        )
        self.direct = Dispatch(self.call, program, shape, donated, self._lone_host) if direct else None
        self._numbers: dict[tuple[int, int], list[np.ndarray[Any, Any]]] = {}

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program on new memory for its results."""
        if observer is not None:
            raise UnsupportedError("cpu runs whole programs: instructions are observed on the interpreter")
        if not self.compiled.program.callbacks:
            return self._execute(arguments, (0, 0))
        if device is None and any(isinstance(thunk, TransferThunk) for thunk in self.compiled.program.callbacks):
            device = Device(0, "cpu")
        if device is not None:
            return self.execute_sharded([arguments], [device])[0]
        return self._execute(arguments, (0, 0), self._lone_host())

    def _lone_host(self) -> Host:
        """The host of a run on one device that has nothing to do with others."""
        program = self.compiled.program
        return Host(program, self._context(Context()), 0, shared_memory(program), checks=self._checks)

    def _execute(self, arguments: Sequence[Value], ids: tuple[int, int], host: Host | None = None) -> Value:
        program = self.compiled.program
        values = zip(arguments, self.shape.parameters, strict=True)
        arrays, addresses = located([leaf for value, shape in values for leaf in static_leaves(value, shape)])
        for number in self._donated:  # the values are others' still
            arrays[number] = arrays[number].copy()
            addresses[number] = array_address(arrays[number])
        self.call.renew_targets()
        align(arrays, addresses, self._shown)
        numbers = device_numbers(program.ids, *ids)
        memories, places = self.call.results()
        if host is not None:
            host.memory = arrays, memories
        numbered = map(array_address, numbers)
        device = ids[0] * self._partition_count + ids[1]
        self.call(*addresses, *numbered, *places, host=host, memory=(arrays, memories), device=device)
        results = [
            arrays[program.aliases[slice_.number]]
            if slice_.number in program.aliases
            else buffer_at(array_type(slice_.shape), memory, place).array
            for slice_, memory, place in zip(program.results, memories, places, strict=True)
        ]
        return joined(self.shape.result, iter(results))

    def _context(self, context: Context) -> Context:
        """What callbacks know of their run."""
        context.platform, context.seed = "cpu", int(flags.get("rng_seed"))
        context.plans, context.program_state = self._plans, self._kept
        context.run_id = context.run_id or next(run_ids)
        return context

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program on every device at once, or one after the other if it asks for nothing outside of itself."""
        if observer is not None:
            raise UnsupportedError("cpu runs whole programs: instructions are observed on the interpreter")
        if self.compiled.program.callbacks:
            return self._execute_together(arguments, devices)
        results: list[Value] = []
        for number, given in enumerate(arguments):
            replica, partition = divmod(number, self._partition_count)
            results.append(self._execute(given, (replica, partition)))
        return results

    def _execute_together(self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device]) -> list[Value]:
        """A thread for each device, which may wait for the others; errors as of `run_on_devices`."""
        run_id = next(run_ids)
        program = self.compiled.program
        shared = shared_memory(program)
        hosts: list[Host] = []

        def body(exchange: DeviceExchange) -> Value:
            replica, partition = divmod(exchange.number, self._partition_count)
            cancelled = exchange.rendezvous.cancelled
            context = Context(replica, partition, communicator=exchange, cancelled=cancelled, run_id=run_id)
            host = Host(program, self._context(context), exchange.number, shared, _Overseer(exchange), self._checks)
            hosts.append(host)
            with joined_feeds(exchange.device, program, shared, exchange.number):
                return self._execute(arguments[exchange.number], (replica, partition), host)

        def end() -> list[tuple[int, str]]:
            return [
                (number, describe_instruction(thunk.instruction))
                for number, thunk in host_queues.take_all(program, shared)
            ]

        replicas = len(devices) // self._partition_count
        return run_on_devices(devices, replicas, self._partition_count, body, lambda: cancel(program, shared), end)

    def fixed_addresses(self, replica: int = 0, partition: int = 0) -> dict[int, int]:
        """What the table of addresses of every run on a device begins with: constants, numbers of the device."""
        program = self.compiled.program
        if (replica, partition) not in self._numbers:
            self._numbers[replica, partition] = device_numbers(program.ids, replica, partition)
        arrays = self._numbers[replica, partition]
        numbers = {program.implicit_arguments_index + place: array_address(array) for place, array in enumerate(arrays)}
        return numbers | self.call.constants()

    @property
    def has_checks(self) -> bool:
        """Whether the host looks at what each step gives."""
        return bool(self._checks)

    @property
    def optimised(self) -> Module:
        return self.compiled.module

    def memory(self) -> MemoryStats:
        """The arena is what is temporary."""
        program = self.compiled.program
        return MemoryStats(
            argument_size_in_bytes=sum(
                slice_.size for slice_ in program.arguments[: len(program.arguments) - len(program.ids)]
            ),
            output_size_in_bytes=sum(slice_.size for slice_ in program.results),
            alias_size_in_bytes=sum(program.results[number].size for number in program.aliases),
            temp_size_in_bytes=program.arena_size,
            generated_code_size_in_bytes=self.compiled.code.size,
        )

    def stages(self) -> Mapping[str, str]:
        return self.compiled.stages()

    def image(self) -> bytes:
        if self._checks:
            name = self.compiled.program.name
            raise UnsupportedError(f"{name} looks for NaN or infinities: such programs cannot be serialized")
        return image_of(self.compiled)


def is_dynamic(shape: ProgramShape) -> bool:
    """Whether values of dynamic dimensions go in or come out."""
    return shape.result.is_dynamic or any(parameter.is_dynamic for parameter in shape.parameters)


@dataclass(frozen=True, slots=True)
class _Overseer:
    """What devices that meet and wait in native code may do is for the run's rendezvous to say."""

    exchange: DeviceExchange

    def judge(self, look: Callable[[], Mapping[int, Wait]]) -> None:
        def waits() -> dict[int, ExternalWait]:
            return {number: external_wait(wait) for number, wait in look().items()}

        self.exchange.rendezvous.check_external_waits(self.exchange.number, waits)

    def claim(self, instruction: Instruction) -> None:
        self.exchange.claim(instruction)

    def wait_for_host(self, instruction: Instruction, times: int) -> None:
        self.exchange.wait_for_host(instruction, times)


def _lent(shape: ProgramShape, donated: Sequence[Donated]) -> Sequence[Donated]:
    """What a program may overwrite of what is donated: not the memory of values that are copied anyway."""
    return () if is_dynamic(shape) else donated


def _check(module: Module, replica_count: int, partition_count: int) -> None:
    """`UnsupportedError` for what does not run on cpu."""
    check_partitioning(module, replica_count, partition_count)
    check_limits(module, "cpu", MAX_CALL_DEPTH)
    for instruction in module.instructions():
        if instruction.op is opcodes.CUSTOM_CALL:
            custom_call_rule(instruction, "cpu")


class CpuBackend:
    """Compiles programs to native code."""

    name = "cpu"

    def __init__(self) -> None:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            here = f"{platform.system()} on {platform.machine()}"
            raise UnsupportedError(f"cpu compiles for Linux on x86-64, this is {here}; use the platform interpreter")
        self._programs: weakref.WeakSet[CpuProgram] = weakref.WeakSet()

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[Donated] = (),
        checks: Checks = NO_CHECKS,
    ) -> CpuProgram:
        """`UnsupportedError` for what does not run on cpu. What is watched is never out of the cache."""
        _check(module, replica_count, partition_count)
        shape = module.entry_computation.program_shape
        numbers = [leaf_number(shape, leaf) for leaf in _lent(shape, donated)]
        if checks:
            watched = compile_module(module, numbers, replica_count, partition_count, watched=True)
            return self._added(watched, shape, partition_count, donated, checks)
        choices = {"donated": numbers, "replicas": replica_count, "partitions": partition_count}
        compiled = compiled_before(
            module, choices, lambda: compile_module(module, numbers, replica_count, partition_count)
        )
        return self._added(compiled, shape, partition_count, donated)

    def compile_in_full(
        self, module: Module, replica_count: int = 1, partition_count: int = 1, donated: Sequence[Donated] = ()
    ) -> Compiled:
        """The same, never out of the cache: with all forms that the program had on the way to machine code."""
        _check(module, replica_count, partition_count)
        shape = module.entry_computation.program_shape
        numbers = [leaf_number(shape, leaf) for leaf in _lent(shape, donated)]
        return compile_module(module, numbers, replica_count, partition_count)

    def compile_instrumented(
        self, program: CpuProgram, module: Module, instrument: Instrument, devices: tuple[int, int] = (1, 1)
    ) -> CpuProgram:
        """A twin of the program of a module, which notes how long its steps take: `CpuProgram.call.counts` says.

        devices: replicas and partitions.
        """
        donated = program.donated
        numbers = [leaf_number(module.entry_computation.program_shape, leaf) for leaf in donated]
        compiled = compile_module(program.compiled.module, numbers, *devices, instrument, optimised=True)
        return self._added(compiled, program.shape, devices[1], donated)

    def load(
        self, image: bytes, source: Unread, partition_count: int = 1, donated: Sequence[Donated] = ()
    ) -> CpuProgram:
        """`InvalidArgumentError` or `UnsupportedError` for what this version or processor cannot run."""
        loaded = load_image(image, lambda: source.module)
        return self._added(loaded, source.program_shape, partition_count, donated)

    def _added(
        self,
        compiled: Compiled | LoadedProgram,
        shape: ProgramShape,
        partition_count: int,
        donated: Sequence[Donated],
        checks: Checks = NO_CHECKS,
    ) -> CpuProgram:
        program = CpuProgram(compiled, shape, _lent(shape, donated), partition_count, checks)
        self._programs.add(program)
        return program

    def trim(self) -> int:
        """Gives arenas that no call is using, and memory kept for results, back to the system."""
        for program in list(self._programs):
            program.call.trim()
        return allocator.results().trim()

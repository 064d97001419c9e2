"""The platform `cpu`: runs programs that `xlapy.cpu` has compiled.

Responsible for adapting `xlapy.cpu` to the `Backend` protocol: the memory of arguments and results, and what is not
supported. Does not depend on how programs are compiled.
"""

from __future__ import annotations

import platform
import sys
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.compilation import compiling as compiling_codes
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.codegen.tuning import TunedPlans
from xlapy.cpu.compiler import Compiled, Instrument, compile_module
from xlapy.cpu.program.communication.wait_state import cancel_run, shared_memory
from xlapy.cpu.program.host_callbacks import HostCallbackHandler, run_ids
from xlapy.cpu.program.targets.call_frames import check_custom_call_targets
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks, calls_only_python
from xlapy.cpu.serialization.executable import LoadedProgram, deserialize_program, serialize_program
from xlapy.cpu.tuned_plans import tuned_plans
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context
from xlapy.interpreter.checks import NO_CHECKS, Checks
from xlapy.interpreter.custom import custom_call_rule
from xlapy.runtime.array_types import array_type
from xlapy.runtime.backends.placed_programs import connect_alike, place_program
from xlapy.runtime.buffer import array_on_memory
from xlapy.runtime.collectives.communicator import DeviceCommunicator
from xlapy.runtime.collectives.host_launches import HostProgram, cancel_starving, note_canceled, run_host_launch
from xlapy.runtime.collectives.launch import run_on_devices
from xlapy.runtime.collectives.native_feeds import attached_feeds
from xlapy.runtime.collectives.process_group import ProcessGroup
from xlapy.runtime.collectives.remote_processes import (
    RemoteProcesses,
    await_exchanges,
    begin_remote_launch,
    set_launch_number,
)
from xlapy.runtime.device import Device
from xlapy.runtime.engine import allocator
from xlapy.runtime.engine.calls import EngineCall, free_retired
from xlapy.runtime.engine.deadlock_check import check_deadlocks
from xlapy.runtime.engine.device_programs import NativeSource, runs_natively, runs_on_host
from xlapy.runtime.engine.dispatch import (
    Dispatch,
    DispatchReady,
    align_arguments,
    arrays_and_addresses,
    custom_call_arguments,
    leaf_index,
    per_device_values,
)
from xlapy.runtime.engine.donation import DonatedLeaf
from xlapy.runtime.engine.dynamic_leaves import flat_shapes, flatten_dynamic, unflatten_dynamic
from xlapy.runtime.engine.memory import MemoryStats
from xlapy.runtime.engine.native_call import Host, NativeCall, array_address
from xlapy.runtime.engine.native_engine import callbacks, engine
from xlapy.runtime.engine.python_host import PythonHost
from xlapy.runtime.limits import check_supported
from xlapy.runtime.partitioning import check_partitioning
from xlapy.runtime.storage.compile_cache import compile_cached
from xlapy.runtime.storage.lazy_module import LazyModule
from xlapy.runtime.values import Observer, Value

MAX_CALL_DEPTH = 100
"""The longest supported chain of computations that call each other. Nested loops become equally nested native code."""


class CpuProgram:
    """A module compiled to native code."""

    fresh_results = True

    def __init__(
        self,
        compiled: Compiled | LoadedProgram,
        shape: ProgramShape,
        donated: Sequence[DonatedLeaf] = (),
        partition_count: int = 1,
        checks: Checks = NO_CHECKS,
        topology: ProcessTopology | None = None,
    ) -> None:
        """topology: the processes of the devices, if others run some of them."""
        self._checks = checks
        self.topology = topology
        self.compiled = compiled = place_program(compiled, topology)
        self._partition_count = partition_count
        self.shape = shape
        self.donated = donated
        self._donated = [leaf_index(shape, leaf) for leaf in donated]
        self._program_state: dict[Instruction, Any] = {}
        self._implicit_arrays: dict[tuple[int, int], list[np.ndarray[Any, Any]]] = {}
        program = compiled.program
        check_custom_call_targets(program, self._program_state)
        self.call = NativeCall(compiled, self._program_state)
        self._python_callbacks = PythonCallbacks(program) if calls_only_python(program) else None
        self._custom_call_arguments = custom_call_arguments(program)
        self._host = HostProgram(
            program, self.call, partition_count, checks, self._python_callbacks, self._program_state
        )
        self.engine_call = self._make_engine_call()
        self.sharded_fast_path = None if self.engine_call is None else self.engine_call.on_devices
        self.fast_path = self._make_fast_path()

    def bind(self, devices: Sequence[Device]) -> None:
        """Sets the devices whose streams and queues calls of the fast paths use."""
        self._host.bind(devices)
        if self.engine_call is not None and devices:
            self.engine_call.bind(devices[0].client_number)

    def placed(self, topology: ProcessTopology | None) -> CpuProgram:
        """Returns the same compiled program for another assignment of its devices to processes."""
        return CpuProgram(self.compiled, self.shape, self.donated, self._partition_count, self._checks, topology)

    def connect(self, group: ProcessGroup, device_ids: Sequence[int]) -> None:
        """Connects a program that spans processes, before its first launch. device_ids: the global id of each logical
        device."""
        placement = self.compiled.program.placement
        if placement is not None:
            program = self.compiled.program
            placement.connect(RemoteProcesses(group, placement.topology, device_ids, program.fingerprint, program.name))

    def _make_fast_path(self) -> EngineCall | Dispatch | DispatchReady | None:
        """Calls by the engine. Short programs that call the host for nothing but custom calls of native functions run
        in the threads of their callers, unless they take pending results."""
        program, queued = self.compiled.program, self.engine_call
        has_calls_only = not is_dynamic(self.shape) and all(
            thunk.instruction.op is opcodes.CUSTOM_CALL for thunk in program.host_calling_thunks
        )
        is_native = runs_natively(program, self._leaves())
        if queued is not None and (is_native or not has_calls_only or program.is_long_running or self.call.needs_host):
            return queued
        if not has_calls_only:
            return None
        dispatch = Dispatch(self.call, program, self.shape, self.donated, self._single_device_host)
        return dispatch if queued is None else DispatchReady(dispatch, queued)

    def _leaves(self) -> list[Shape]:
        """The shapes of the arrays and tokens of the parameters and of the result."""
        shapes = (*self.shape.parameters, self.shape.result)
        return [leaf for shape in shapes for _, leaf in shape.leaves()]

    def _make_engine_call(self) -> EngineCall | None:
        """Calls by the engine, if it can queue the program."""
        program, shape = self.compiled.program, self.shape
        parameters = [leaf for parameter in shape.parameters for _, leaf in parameter.leaves()]
        results = [leaf for _, leaf in shape.result.leaves()]
        is_native = runs_natively(program, self._leaves())
        calls_host = not is_native and bool(results) and not self._checks and runs_on_host(program, self._leaves())
        if not (is_native or calls_host) or program.counters is not None:
            return None
        source = NativeSource(
            program,
            self.compiled.entry,
            self.fixed_addresses,
            parameters,
            results,
            self._donated,
            (1, self._partition_count),
            program.is_long_running or calls_host,
            host=self._host if calls_host else None,
        )
        donated = list(zip(self.donated, self._donated, strict=True))
        used_by_launches = (self.call, self._implicit_arrays)  # not this program, which owns the calls
        return EngineCall(source, shape, donated, self.call.require_memory, used_by_launches)

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program with newly allocated results."""
        if observer is not None:
            raise UnsupportedError(
                codes.OBSERVED_PLATFORM, "cpu runs whole programs: instructions are observed on the interpreter"
            )
        if not self.compiled.program.host_calling_thunks:
            return self._execute(arguments, (0, 0))
        if device is None and any(thunk.needs_device for thunk in self.compiled.program.host_calling_thunks):
            device = Device(0, "cpu")
        if device is not None:
            return self.execute_sharded([arguments], [device])[0]
        return self._execute(arguments, (0, 0), self._single_device_host())

    def _single_device_host(self) -> Host:
        """The host of a run on one device that does not communicate with other devices."""
        program = self.compiled.program
        if self._python_callbacks is not None:
            return PythonHost(program, self._python_callbacks)
        return HostCallbackHandler(
            program, self._host.context(Context()), 0, shared_memory(program), checks=self._checks
        )

    def _execute(self, arguments: Sequence[Value], ids: tuple[int, int], host: Host | None = None) -> Value:
        program = self.compiled.program
        values = zip(arguments, self.shape.parameters, strict=True)
        arrays, addresses = arrays_and_addresses(
            [leaf for value, shape in values for leaf in flatten_dynamic(value, shape)]
        )
        for number in self._donated:  # the caller still owns the values
            arrays[number] = arrays[number].copy()
            addresses[number] = array_address(arrays[number])
        numbers = per_device_values(program.implicit_arguments, *ids)
        arrays += numbers
        addresses += map(array_address, numbers)
        self.call.refresh_targets()
        align_arguments(arrays, addresses, self._custom_call_arguments)
        memories, result_addresses = self.call.results()
        if isinstance(host, HostCallbackHandler):
            host.memory = arrays, memories
        device = ids[0] * self._partition_count + ids[1]
        self.call(*addresses, *result_addresses, host=host, memory=(arrays, memories), device=device)
        results = [
            arrays[program.aliases[slice_.number]]
            if slice_.number in program.aliases
            else array_on_memory(array_type(slice_.shape), memory, address)
            for slice_, memory, address in zip(program.results, memories, result_addresses, strict=True)
        ]
        return unflatten_dynamic(self.shape.result, iter(results))

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program on every device: concurrently if thunks may call the host, otherwise one after the other."""
        if observer is not None:
            raise UnsupportedError(
                codes.OBSERVED_PLATFORM, "cpu runs whole programs: instructions are observed on the interpreter"
            )
        if self._python_callbacks is not None:
            return [self._execute(row, (0, 0), self._single_device_host()) for row in arguments]
        if self.compiled.program.host_calling_thunks:
            return self._execute_concurrently(arguments, devices)
        results: list[Value] = []
        numbers = range(len(arguments)) if self.topology is None else self.topology.local_devices
        for number, device_arguments in zip(numbers, arguments, strict=True):
            replica, partition = divmod(number, self._partition_count)
            results.append(self._execute(device_arguments, (replica, partition)))
        return results

    def _execute_concurrently(self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device]) -> list[Value]:
        """Runs each device in a thread of its own, so that devices can wait for each other; errors as of
        `run_on_devices`."""
        run_id = next(run_ids)
        program = self.compiled.program
        remote = begin_remote_launch(program)
        shared = shared_memory(program)
        set_launch_number(shared, remote)
        hosts: list[HostCallbackHandler] = []

        def body(communicator: DeviceCommunicator) -> Value:
            ids = divmod(communicator.number, self._partition_count)
            host = self._host.handler(communicator, run_id, shared)
            hosts.append(host)
            with attached_feeds(communicator.device, program, shared, communicator.number):
                return self._execute(arguments[communicator.row], ids, host)

        def end() -> list[tuple[int, str]]:
            return self._host.unreceived(shared)

        count = len(devices) if remote is None else remote.topology.device_count
        replicas, cancel = count // self._partition_count, partial(cancel_run, program, shared)
        try:
            return run_on_devices(devices, replicas, self._partition_count, body, cancel, end, remote)
        finally:
            await_exchanges(program, shared)

    def fixed_addresses(self, replica: int = 0, partition: int = 0) -> dict[int, int]:
        """The entries of the address table that are the same in every run on a device: constants and the
        device's ids."""
        program = self.compiled.program
        arrays = self._implicit_arrays.get((replica, partition))
        if arrays is None:
            new = per_device_values(program.implicit_arguments, replica, partition)
            arrays = self._implicit_arrays.setdefault((replica, partition), new)  # native code keeps their addresses
        numbers = {program.implicit_arguments_index + index: array_address(array) for index, array in enumerate(arrays)}
        return numbers | self.call.constants()

    @property
    def has_checks(self) -> bool:
        """Whether the host checks the values of each thunk."""
        return bool(self._checks)

    @property
    def optimized_module(self) -> Module:
        return self.compiled.module

    def memory_stats(self) -> MemoryStats:
        """The memory of a run. The arena holds the temporaries."""
        program = self.compiled.program
        return MemoryStats(
            argument_size_in_bytes=sum(
                slice_.size for slice_ in program.arguments[: len(program.arguments) - len(program.implicit_arguments)]
            ),
            output_size_in_bytes=sum(slice_.size for slice_ in program.results),
            alias_size_in_bytes=sum(program.results[number].size for number in program.aliases),
            temp_size_in_bytes=program.arena_size,
            generated_code_size_in_bytes=self.compiled.code.size,
        )

    def stages(self) -> Mapping[str, str]:
        return self.compiled.stages()

    def serialize(self) -> bytes:
        if self._checks:
            name = self.compiled.program.name
            raise UnsupportedError(
                command_codes.SERIALIZABLE_PROGRAM,
                f"{name} checks for NaN or infinities: such programs cannot be serialized",
            )
        return serialize_program(self.compiled)


def is_dynamic(shape: ProgramShape) -> bool:
    """Whether a parameter or the result has dynamic dimensions."""
    return shape.result.is_dynamic or any(parameter.is_dynamic for parameter in shape.parameters)


def _reusable_leaves(shape: ProgramShape, donated: Sequence[DonatedLeaf]) -> Sequence[DonatedLeaf]:
    """The donated leaves whose memory the program may overwrite: none if shapes are dynamic, because such values are
    copied."""
    return () if is_dynamic(shape) else donated


def _check_module(module: Module, replica_count: int, partition_count: int) -> None:
    """`UnsupportedError` for what the platform does not support."""
    check_partitioning(module, replica_count, partition_count)
    check_supported(module, "cpu", MAX_CALL_DEPTH)
    for instruction in module.instructions():
        if instruction.op is opcodes.CUSTOM_CALL:
            custom_call_rule(instruction, "cpu")


class CpuBackend:
    """Compiles programs to native code."""

    name = "cpu"
    limits_memory = True
    spans_processes = True

    def __init__(self) -> None:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            here = f"{platform.system()} on {platform.machine()}"
            raise UnsupportedError(
                compiling_codes.HOST_MACHINE,
                f"cpu compiles for Linux on x86-64, this is {here}; use the platform interpreter",
            )
        callbacks.check_deadlocks, callbacks.run_host_launch = check_deadlocks, run_host_launch
        callbacks.cancel_starving, callbacks.note_canceled = cancel_starving, note_canceled
        self._programs: weakref.WeakSet[CpuProgram] = weakref.WeakSet()

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        checks: Checks = NO_CHECKS,
        tuning_file: str | None = None,
        memory_limit: int = 0,
        topology: ProcessTopology | None = None,
    ) -> CpuProgram:
        """Compiles a module, or takes it from the compile cache. Programs with checks are never cached, and need more
        memory than others, whatever the limit. topology: the processes of the devices, if others run some of them.
        `UnsupportedError` for what the platform does not support."""
        _check_module(module, replica_count, partition_count)
        shape = module.entry_computation.program_shape
        numbers = [leaf_index(shape, leaf) for leaf in _reusable_leaves(shape, donated)]
        tuned, spans = tuned_plans(tuning_file), topology is not None and topology.spans_processes
        if checks:
            checked = compile_module(
                module, numbers, replica_count, partition_count, checks_values=True, tuned=tuned, spans_processes=spans
            )
            return self._program_of(checked, shape, partition_count, donated, checks, topology)
        choices = {
            "donated": numbers,
            "replicas": replica_count,
            "partitions": partition_count,
            "tuned plans": tuned.digest,
            "memory limit": memory_limit,
        } | ({"spans processes": True} if spans else {})
        compiled = compile_cached(
            module,
            choices,
            lambda: compile_module(
                module,
                numbers,
                replica_count,
                partition_count,
                tuned=tuned,
                memory_limit=memory_limit,
                spans_processes=spans,
            ),
        )
        return self._program_of(compiled, shape, partition_count, donated, topology=topology)

    def compile_uncached(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        tuned: TunedPlans | None = None,
    ) -> Compiled:
        """Compiles a module without the compile cache and keeps all intermediate forms. tuned: by default the plans of
        the flag `tuning_file`."""
        _check_module(module, replica_count, partition_count)
        shape = module.entry_computation.program_shape
        numbers = [leaf_index(shape, leaf) for leaf in _reusable_leaves(shape, donated)]
        return compile_module(module, numbers, replica_count, partition_count, tuned=tuned)

    def compile_instrumented(
        self, program: CpuProgram, module: Module, instrument: Instrument, devices: tuple[int, int] = (1, 1)
    ) -> CpuProgram:
        """Compiles an instrumented copy of a program, which records the times of its thunks in
        `CpuProgram.call.counter_tables`.

        devices: numbers of replicas and of partitions.
        """
        donated = program.donated
        numbers = [leaf_index(module.entry_computation.program_shape, leaf) for leaf in donated]
        spans = program.topology is not None
        compiled = compile_module(
            program.compiled.module, numbers, *devices, instrument, optimized=True, spans_processes=spans
        )
        made = self._program_of(compiled, program.shape, devices[1], donated, topology=program.topology)
        connect_alike(made.compiled.program, program.compiled.program)
        return made

    def load(
        self,
        serialized: bytes,
        source: LazyModule,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        topology: ProcessTopology | None = None,
    ) -> CpuProgram:
        """Loads a serialized program. `InvalidArgumentError` or `UnsupportedError` if this version or processor cannot
        run it."""
        loaded = deserialize_program(serialized, source.read)  # users may modify the module that they see
        program, shape = loaded.program, source.program_shape
        arguments = program.arguments[: len(program.arguments) - len(program.implicit_arguments)]
        for what, slices, shapes in (
            ("parameters", arguments, shape.parameters),
            ("result", program.results, [shape.result]),
        ):
            declared = [part for declared in shapes for part in flat_shapes(declared)]
            if [slice_.shape.without_layout() for slice_ in slices] != declared:
                raise InvalidArgumentError(
                    command_codes.SERIALIZED_BYTES,
                    f"the machine code of {source.name} has other {what} than {shape.to_text()}",
                )
        return self._program_of(loaded, shape, partition_count, donated, topology=topology)

    def _program_of(
        self,
        compiled: Compiled | LoadedProgram,
        shape: ProgramShape,
        partition_count: int,
        donated: Sequence[DonatedLeaf],
        checks: Checks = NO_CHECKS,
        topology: ProcessTopology | None = None,
    ) -> CpuProgram:
        program = CpuProgram(compiled, shape, _reusable_leaves(shape, donated), partition_count, checks, topology)
        self._programs.add(program)
        return program

    def trim(self) -> int:
        """Returns cached memory to the system: arenas that no call uses, and free blocks for results."""
        free_retired()
        for program in list(self._programs):
            program.call.trim()
            if program.engine_call is not None:
                program.engine_call.trim()
        return allocator.result_allocator().trim() + int(engine().trim())

"""The platform `interpreter`: runs programs on the reference interpreter.

Responsible for adapting `xlapy.interpreter` to the `Backend` protocol, and for rejecting programs that exceed the
available memory. Does not depend on how devices exchange values, or on the forms of users' arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.analysis.fingerprint import module_fingerprint
from xlapy.base import flags
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError, UnsupportedError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, EvaluationPlan, ReplaceValue, evaluate_computation, make_plan
from xlapy.interpreter.checks import NO_CHECKS, Checks, ValueChecker
from xlapy.interpreter.custom import prepare_custom_call
from xlapy.interpreter.recursion import make_room_for_calls
from xlapy.runtime.collectives.communicator import DeviceCommunicator
from xlapy.runtime.collectives.launch import run_on_devices
from xlapy.runtime.collectives.process_group import ProcessGroup
from xlapy.runtime.collectives.remote_processes import RemoteProcesses
from xlapy.runtime.device import Device
from xlapy.runtime.engine.donation import DonatedLeaf
from xlapy.runtime.engine.memory import UNCHECKED_BYTES, MemoryStats, memory_demand, value_bytes
from xlapy.runtime.engine.observe import combine_observers
from xlapy.runtime.limits import call_depth, check_supported
from xlapy.runtime.partitioning import check_partitioning
from xlapy.runtime.storage.lazy_module import LazyModule
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.runtime.values import Observer, Value

MAX_CALL_DEPTH = 5_000
"""The longest supported chain of computations that call each other."""

_run_ids = itertools.count(1)


class InterpreterProgram:
    """A module with a plan for each of its computations, made once and shared by every run."""

    fresh_results = False
    fast_path = None
    sharded_fast_path = None
    platform = "interpreter"
    frames_per_call = 4
    """Python frames that a call of a computation takes."""

    def __init__(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        checks: Checks = NO_CHECKS,
        topology: ProcessTopology | None = None,
    ) -> None:
        self.module = module
        self.topology = topology if topology is not None and topology.spans_processes else None
        self._processes: RemoteProcesses | None = None
        self._checks = checks
        self._replica_count = replica_count
        self._partition_count = partition_count
        self._plans: dict[Computation, EvaluationPlan] = {}
        are_dynamic: dict[Instruction, bool] = {}
        for computation in module.computations:
            self._plans[computation] = make_plan(computation, are_dynamic)
        self._demand = memory_demand(module, self._plans)
        self._call_depth = call_depth(module)
        self._communicates = _communicates(module)
        self._kept: dict[Instruction, Any] = {}
        self.replace_value: ReplaceValue | None = None
        """Replaces the value of each instruction in every run from now on, see `Context`."""

    def connect(self, group: ProcessGroup, device_ids: Sequence[int]) -> None:
        """Connects a program that spans processes, before its first launch. device_ids: the global id of each logical
        device."""
        if self.topology is not None:
            fingerprint = module_fingerprint(self.module)
            self._processes = RemoteProcesses(group, self.topology, device_ids, fingerprint, self.module.name)

    def prepare_custom_calls(self) -> None:
        """Resolves and instantiates the targets of custom calls; `UnsupportedError` for an unknown target."""
        for instruction in self.module.instructions():
            if instruction.op is opcodes.CUSTOM_CALL:
                prepare_custom_call(instruction, self._kept)

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program; `ExecutionError` if it needs more memory than is available."""
        if device is not None and (self._communicates or self.topology is not None):
            return self.execute_sharded([arguments], [device], observer)[0]
        self._make_room(1)
        return self._evaluate(Context(observer=self._combined_observer(observer), run_id=next(_run_ids)), arguments)

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program on each device; raises the errors of `execute` and of `run_on_devices`."""
        self._make_room(len(devices))
        run_id = next(_run_ids)
        remote = None
        if self.topology is not None:
            if self._processes is None:
                raise InvalidArgumentError(
                    device_codes.RUN_DEVICES,
                    f"{self.module.name} runs on devices of processes {list(self.topology.processes)}, and is not "
                    "connected to them; call its method connect before the first launch",
                )
            remote = self._processes.start_launch()

        def body(communicator: DeviceCommunicator) -> Value:
            replica_id, partition_id = divmod(communicator.number, self._partition_count)
            canceled = communicator.rendezvous.canceled
            watched = self._combined_observer(observer)
            context = Context(
                replica_id,
                partition_id,
                communicator=communicator,
                observer=watched,
                canceled=canceled,
                run_id=run_id,
            )
            return self._evaluate(context, arguments[communicator.row])

        return run_on_devices(devices, self._replica_count, self._partition_count, body, remote=remote)

    def _combined_observer(self, observer: Observer | None) -> Observer | None:
        """The observer of one run on one device: the user's observer combined with the program's checks."""
        if not self._checks:
            return observer
        watch = ValueChecker(self._checks)
        return watch.observe if observer is None else combine_observers(observer, watch.observe)

    def _evaluate(self, context: Context, arguments: Sequence[Value]) -> Value:
        context.seed = int(flags.get("rng_seed"))
        context.replace_value = self.replace_value
        context.plans = self._plans
        context.program_state = self._kept
        return self.evaluate(context, arguments)

    def evaluate(self, context: Context, arguments: Sequence[Value]) -> Value:
        """Evaluates the entry computation on one device."""
        return evaluate_computation(context, self.module.entry_computation, arguments)

    @property
    def optimized_module(self) -> Module:
        return self.module

    def memory_stats(self) -> MemoryStats:
        """Estimates the memory of a run. Results are among the values that the estimate counts."""
        shape = self.module.entry_computation.program_shape
        output = value_bytes(shape.result)
        return MemoryStats(
            argument_size_in_bytes=sum(map(value_bytes, shape.parameters)),
            output_size_in_bytes=output,
            alias_size_in_bytes=0,
            temp_size_in_bytes=max(0, self._demand.size - output),
            generated_code_size_in_bytes=0,
        )

    def stages(self) -> Mapping[str, str]:
        """Returns no forms, because the interpreter runs the module as it is."""
        return {}

    def serialize(self) -> bytes:
        raise UnsupportedError(
            codes.SERIALIZABLE_PROGRAM,
            f"{self.module.name} runs on the {self.platform}, which compiles nothing: only programs of cpu are "
            "serialized; keep the module's text",
        )

    def _make_room(self, devices: int) -> None:
        """Checks the memory for values on every device, and extends the recursion limit."""
        needed = self._demand.size * devices
        if needed > UNCHECKED_BYTES and needed > (available := available_bytes()):
            each = f"each of {devices} devices" if devices > 1 else "the program"
            raise ExecutionError(
                running_codes.OUT_OF_MEMORY,
                f"out of memory: {each} needs {self._demand}, {format_bytes(available)} are available",
            )
        make_room_for_calls(self._call_depth, self.frames_per_call)


_LOCAL_OPCODES = frozenset({opcodes.COPY_START, opcodes.COPY_DONE, opcodes.REPLICA_ID, opcodes.PARTITION_ID})


def _communicates(module: Module) -> bool:
    """Whether the program exchanges values with other devices or with the host."""
    met = {i.op for i in module.instructions() if i.op.family in ("collectives", "transfer")}
    return bool(met - _LOCAL_OPCODES)


class InterpreterBackend:
    """Runs programs by the definitions of the operations, on NumPy arrays."""

    name = "interpreter"
    program_class = InterpreterProgram
    spans_processes = True

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        checks: Checks = NO_CHECKS,
        tuning_file: str | None = None,
        topology: ProcessTopology | None = None,
    ) -> InterpreterProgram:
        """topology: the processes of the devices, if others run some of them.

        `UnsupportedError` for operations without a rule, and for the limits of `check_supported`."""
        del tuning_file  # there are no kernels
        check_partitioning(module, replica_count, partition_count)
        check_supported(module, f"the {self.name}", MAX_CALL_DEPTH)
        program = self.program_class(module, replica_count, partition_count, checks, topology)
        program.prepare_custom_calls()
        return program

    def load(
        self,
        serialized: bytes,
        source: LazyModule,
        partition_count: int = 1,
        donated: Sequence[DonatedLeaf] = (),
        topology: ProcessTopology | None = None,
    ) -> InterpreterProgram:
        raise UnsupportedError(
            codes.SERIALIZED_PLATFORM, f"{source.name} was compiled for another platform; the {self.name} runs modules"
        )

    def trim(self) -> int:
        """Nothing is cached."""
        return 0

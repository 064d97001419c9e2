"""The reference interpreter as a platform.

Owns: the adapter between `Backend` and `xlapy.interpreter`, and the refusal of programs larger than the memory.
Must not know: how devices exchange values, arguments of users.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base import flags
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, Plan, evaluate_computation, make_plan
from xlapy.interpreter.checks import NO_CHECKS, Checks, ValueChecker
from xlapy.interpreter.custom import prepare_custom_call
from xlapy.runtime.collectives.communicator import DeviceExchange
from xlapy.runtime.collectives.launch import run_on_devices
from xlapy.runtime.device import Device
from xlapy.runtime.engine.donation import Donated
from xlapy.runtime.engine.memory import MemoryStats, available_bytes, demand, readable, value_bytes
from xlapy.runtime.engine.observe import both
from xlapy.runtime.limits import call_depth, check_limits, make_room_for_calls
from xlapy.runtime.partitioning import check_partitioning
from xlapy.runtime.storage.lazy_module import Unread
from xlapy.runtime.values import Observer, Value

MAX_CALL_DEPTH = 5_000
"""How deep computations may call each other."""

_run_ids = itertools.count(1)
_FRAMES_PER_CALL = 4
_SMALL = 1 << 24
"""Bytes that are there without asking."""


class InterpreterProgram:
    """A module with the plan of each of its computations, made once and shared by every run."""

    fresh_results = False
    direct = None

    def __init__(
        self, module: Module, replica_count: int = 1, partition_count: int = 1, checks: Checks = NO_CHECKS
    ) -> None:
        self.module = module
        self._checks = checks
        self._replica_count = replica_count
        self._partition_count = partition_count
        self._plans: dict[Computation, Plan] = {}
        for computation in module.computations:
            self._plans[computation] = make_plan(computation)
        self._demand = demand(module, self._plans)
        self._call_depth = call_depth(module)
        self._communicates = _communicates(module)
        self._kept: dict[Instruction, Any] = {}

    def make_custom_calls_ready(self) -> None:
        """Finds the targets of custom calls and instantiates them; `UnsupportedError` for one that is unknown."""
        for instruction in self.module.instructions():
            if instruction.op is opcodes.CUSTOM_CALL:
                prepare_custom_call(instruction, self._kept)

    def execute(
        self, arguments: Sequence[Value], observer: Observer | None = None, device: Device | None = None
    ) -> Value:
        """Runs the program; `ExecutionError` if the memory that it needs is not there."""
        if device is not None and self._communicates:
            return self.execute_sharded([arguments], [device], observer)[0]
        self._make_room(1)
        return self._evaluate(Context(observer=self._observed(observer), run_id=next(_run_ids)), arguments)

    def execute_sharded(
        self, arguments: Sequence[Sequence[Value]], devices: Sequence[Device], observer: Observer | None = None
    ) -> list[Value]:
        """Runs the program on each device; errors as of `execute` and of `run_on_devices`."""
        self._make_room(len(devices))
        run_id = next(_run_ids)

        def body(exchange: DeviceExchange) -> Value:
            replica_id, partition_id = divmod(exchange.number, self._partition_count)
            cancelled = exchange.rendezvous.cancelled
            watched = self._observed(observer)
            context = Context(
                replica_id, partition_id, communicator=exchange, observer=watched, cancelled=cancelled, run_id=run_id
            )
            return self._evaluate(context, arguments[exchange.number])

        return run_on_devices(devices, self._replica_count, self._partition_count, body)

    def _observed(self, observer: Observer | None) -> Observer | None:
        """The observer of one run on one device: the user's, and what the program is watched for."""
        if not self._checks:
            return observer
        watch = ValueChecker(self._checks)
        return watch.observe if observer is None else both(observer, watch.observe)

    def _evaluate(self, context: Context, arguments: Sequence[Value]) -> Value:
        context.seed = int(flags.get("rng_seed"))
        context.plans = self._plans
        context.program_state = self._kept
        return evaluate_computation(context, self.module.entry_computation, arguments)

    @property
    def optimised(self) -> Module:
        return self.module

    def memory(self) -> MemoryStats:
        """Results are among the values that the estimate counts."""
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
        """None: the interpreter runs the module as it is."""
        return {}

    def image(self) -> bytes:
        raise UnsupportedError(
            f"{self.module.name} runs on the interpreter, which compiles nothing: only programs of cpu are serialized; "
            "keep the module's text"
        )

    def _make_room(self, devices: int) -> None:
        """For values on every device, and for calls."""
        needed = self._demand.size * devices
        if needed > _SMALL and needed > (available := available_bytes()):
            each = f"each of {devices} devices" if devices > 1 else "the program"
            raise ExecutionError(f"out of memory: {each} needs {self._demand}, {readable(available)} are available")
        make_room_for_calls(self._call_depth, _FRAMES_PER_CALL)


_LONELY = frozenset({opcodes.COPY_START, opcodes.COPY_DONE, opcodes.REPLICA_ID, opcodes.PARTITION_ID})


def _communicates(module: Module) -> bool:
    """Whether the program exchanges anything with other devices or with the host."""
    met = {i.op for i in module.instructions() if i.op.family in ("collectives", "transfer")}
    return bool(met - _LONELY)


class InterpreterBackend:
    """Runs programs as the definitions of the operations say, on NumPy arrays."""

    name = "interpreter"

    def compile(
        self,
        module: Module,
        replica_count: int = 1,
        partition_count: int = 1,
        donated: Sequence[Donated] = (),
        checks: Checks = NO_CHECKS,
    ) -> InterpreterProgram:
        """`UnsupportedError` for operations without a rule and for what the module's docstring lists."""
        check_partitioning(module, replica_count, partition_count)
        check_limits(module, "the interpreter", MAX_CALL_DEPTH)
        program = InterpreterProgram(module, replica_count, partition_count, checks)
        program.make_custom_calls_ready()
        return program

    def load(
        self, image: bytes, source: Unread, partition_count: int = 1, donated: Sequence[Donated] = ()
    ) -> InterpreterProgram:
        raise UnsupportedError(f"{source.name} was compiled for another platform, the interpreter runs modules")

    def trim(self) -> int:
        """Nothing is kept."""
        return 0

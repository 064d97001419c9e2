"""Simulates one step of a module on one of the devices that all run it.

Kernels run one after the other in the order of the module. Collectives run one after the other, too: beside kernels
between their start and their done, or, if `Options.overlaps_all`, from when their operands are computed until their
result is needed. A loop is simulated for one iteration if no transfer is under way when it starts, else for two, and
the last one counts for the rest. Of a conditional, the branch that takes longest counts: the other devices wait for it.

Responsible for the order of events. Does not depend on how long one instruction takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from xlapy import opcodes
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.analysis.cost import Cost, array_bytes, instruction_costs
from xlapy.analysis.counted_loops import estimated_trip_count
from xlapy.analysis.simulation.communication import DONES, HALVES, STARTS, Communication, DeviceCounts
from xlapy.analysis.simulation.kernel_time import (
    attention_cost,
    computed_inside,
    copy_seconds,
    is_free,
    kernel_seconds,
    processor_share,
)
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.memory import memory_use
from xlapy.analysis.simulation.operation_time import arithmetic_seconds
from xlapy.analysis.simulation.outcome import Event, Outcome, Stream, Usage, add_critical, critical_path
from xlapy.analysis.simulation.topology import make_topology
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module

_UPDATES = frozenset({opcodes.SCATTER, opcodes.DYNAMIC_UPDATE_SLICE})
_NOTED_TRIP_COUNT = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})')


@dataclass(frozen=True)
class Options:
    """overlaps_all: whether every collective runs beside kernels, as far as its operands and users allow. trip_count:
    the iterations of loops whose number is not known. custom_calls: the seconds of custom calls by target. seconds: how
    long each instruction takes by its name, where the kernels of a program are known: instructions that are missing
    take no time, and neither the rates nor the links of the machine count. wakes: whether devices are woken although
    they exchange no data."""

    overlaps_all: bool = False
    trip_count: int | None = None
    custom_calls: Mapping[str, float] = field(default_factory=dict[str, float])
    seconds: Mapping[str, float] | None = None
    wakes: bool = False


def simulate(
    module: Module, machine: MachineDescription, counts: DeviceCounts, options: Options | None = None
) -> Outcome:
    """Returns what a step of a partitioned module takes. Raises `InvalidArgumentError` if the machine has no room for
    the devices, or groups of devices do not exist."""
    simulator = _Simulator(module, machine, counts, options or Options())
    simulator.run(module.entry_computation)
    if simulator.collectives or simulator.wakes:
        simulator.launch += machine.wake_up
    outcome = Outcome(
        simulator.launch + simulator.kernels_end,
        simulator.launch,
        counts.devices,
        simulator.events,
        simulator.usages,
        {one: simulator.communication.use(one) for one in simulator.collectives},
        memory_use(module),
        simulator.warnings(),
    )
    outcome.path = critical_path(outcome.events, simulator.kernels_last)
    add_critical(outcome.usages, outcome.path)
    return outcome


@dataclass(slots=True)
class _Ready:
    """When a value is complete, and the number of the event that computes it."""

    time: float
    event: int


class _Simulator:
    def __init__(self, module: Module, machine: MachineDescription, counts: DeviceCounts, options: Options) -> None:
        topology = make_topology(machine, counts.devices)
        self.communication = Communication(counts, topology)
        self.events: list[Event] = []
        self.usages: dict[Instruction, Usage] = {}
        self.collectives: dict[Instruction, None] = {}
        self.launch = machine.launch * topology.innermost_devices
        self._machine = machine
        self._topology = topology
        self._entry = module.entry_computation
        self._takes_arguments = bool(module.config.input_output_alias or module.config.buffer_donors)
        self._innermost_devices = topology.innermost_devices
        self._options = options
        self.wakes = options.wakes
        self._costs: dict[Instruction, Cost] = instruction_costs(module)
        self._orders: dict[Computation, Sequence[Instruction]] = {}
        self._all_distances: dict[Computation, dict[Instruction, Sequence[float]]] = {}
        self._seconds: dict[Instruction, float] = {}
        self._branches: dict[Instruction, Computation] = {}
        self._unknown_loops: dict[str, None] = {}
        self._unknown_calls: dict[str, None] = {}
        self.kernels_end = 0.0
        """When the last kernel, or the last wait for a transfer, ends."""
        self.kernels_last = -1
        """The event that ends then."""
        self._links_end = 0.0
        self._links_last = -1
        self._times = 1.0

    def warnings(self) -> list[str]:
        found: list[str] = []
        if self._unknown_loops:
            count = self._options.trip_count or 1
            found.append(
                f"the number of iterations of {', '.join(self._unknown_loops)} is unknown: {count} counted "
                "(--trip-count)"
            )
        if self._unknown_calls:
            found.append(
                f"custom calls {', '.join(self._unknown_calls)} count only the bytes of operands and results "
                "(--custom-call TARGET=SECONDS)"
            )
        return found

    # -- computations

    def run(self, computation: Computation) -> _Ready:
        """Runs a computation; returns when its result is complete."""
        order = self._order(computation)
        distances = self._all_distances.get(computation)
        if distances is None:
            distances = self._all_distances[computation] = self._distances(computation)
        ready: dict[Instruction, _Ready] = {}
        for instruction in order:
            ready[instruction] = self._run_one(instruction, ready, distances)
        found = ready[computation.root_instruction]
        self._wait(found)
        return found

    def _order(self, computation: Computation) -> Sequence[Instruction]:
        found = self._orders.get(computation)
        if found is None:
            found = self._orders[computation] = AliasAnalysis(computation).order
        return found

    def _run_one(
        self,
        instruction: Instruction,
        ready: Mapping[Instruction, _Ready],
        distances: Mapping[Instruction, Sequence[float]],
    ) -> _Ready:
        op = instruction.op
        latest = _latest([ready[operand] for operand in instruction.operands])
        if is_free(instruction) or op in HALVES:
            return latest
        collective = self.communication.find(instruction)
        if collective is not None:
            return self._run_collective(instruction, collective, latest)
        if op in DONES:
            return self._done(latest)
        self._wait(latest)
        if op is opcodes.WHILE:
            self._run_loop(instruction)
        elif op is opcodes.CONDITIONAL:
            self.run(self._longest_branch(instruction))
        elif op in (opcodes.CALL, opcodes.ASYNC_START):
            for called in instruction.computations:
                self.run(called)
        else:
            self._add_kernel(instruction, self._kernel_seconds(instruction, distances.get(instruction, ())))
        return _Ready(self.kernels_end, self.kernels_last)

    def _done(self, latest: _Ready) -> _Ready:
        if not self._options.overlaps_all:
            self._wait(latest)
        return latest

    # -- kernels

    def _add_kernel(self, instruction: Instruction, seconds: float) -> None:
        if not seconds:
            return
        start = self.kernels_end
        self.kernels_end = start + seconds
        self.kernels_last = self._add(Event(
            instruction, Stream.COMPUTATION, start, self.kernels_end, self.kernels_last, self._times
        ))  # fmt: skip
        usage = self._usage(instruction)
        usage.executions += self._times
        usage.busy += self._times * seconds
        usage.exposed += self._times * seconds

    def _kernel_seconds(self, instruction: Instruction, distances: Sequence[float]) -> float:
        found = self._seconds.get(instruction)
        if found is not None:
            return found
        known = self._options.seconds
        if known is not None and not self._is_given(instruction):
            return self._seconds.setdefault(instruction, known.get(instruction.name, 0.0))
        cost = self._costs[instruction]
        if instruction.op is opcodes.CUSTOM_CALL:
            target = instruction.custom_call_target
            if target in self._options.custom_calls:
                return self._seconds.setdefault(instruction, self._options.custom_calls[target])
            attention = attention_cost(instruction, cost)
            if attention is None and cost.bytes_accessed:
                self._unknown_calls.setdefault(target)
            cost = attention or cost
        seconds = 0.0
        if cost.bytes_accessed or cost.flops:
            share = processor_share(self._machine, self._innermost_devices)
            arithmetic = arithmetic_seconds(instruction, cost, self._costs, self._machine.rates, share)
            seconds = kernel_seconds(instruction, cost, distances, self._machine, self._innermost_devices, arithmetic)
            copied = self._copied_bytes(instruction)
            if copied:
                seconds += copy_seconds(copied, self._machine, self._innermost_devices)
        if instruction.op is opcodes.FUSION:
            loops = [one for one in computed_inside(instruction.computations) if one.op is opcodes.WHILE]
            seconds *= max([1.0, *(self._trip_count(loop) for loop in loops)])
        return self._seconds.setdefault(instruction, seconds)

    def _is_given(self, instruction: Instruction) -> bool:
        """Whether the user says how long a custom call takes."""
        is_call = instruction.op is opcodes.CUSTOM_CALL
        return is_call and instruction.custom_call_target in self._options.custom_calls

    def _copied_bytes(self, instruction: Instruction) -> int:
        """Returns the size of an argument that an instruction updates, in a copy because the caller keeps it."""
        updated = _updated(instruction)
        if updated is None or self._takes_arguments:
            return 0
        source = _source(updated)
        is_argument = source.op is opcodes.PARAMETER and source.parent is self._entry
        return array_bytes(updated.shape) if is_argument else 0

    def _distances(self, computation: Computation) -> dict[Instruction, Sequence[float]]:
        """Returns, for each instruction, the bytes that were accessed since the last access to each of its operands.

        What the computation does not access before was last accessed in the same place of the iteration before.
        """
        order = self._order(computation)
        total = sum(self._costs[one].bytes_accessed for one in order if not is_free(one))
        accessed, last = 0.0, dict[Instruction, float]()
        found: dict[Instruction, Sequence[float]] = {}
        for instruction in order:
            if is_free(instruction):
                continue
            cost = self._costs[instruction]
            sources = [_source(operand) for operand in instruction.operands]
            found[instruction] = [
                cost.bytes_accessed + (accessed - last[source] if source in last else total) for source in sources
            ]
            accessed += cost.bytes_accessed
            last.update(dict.fromkeys([*sources, instruction], accessed))
        return found

    # -- collectives

    def _run_collective(self, instruction: Instruction, collective: Instruction, latest: _Ready) -> _Ready:
        seconds = self._collective_seconds(instruction, collective)
        self.collectives.setdefault(collective)
        issued = latest
        if not self._options.overlaps_all:
            self._wait(latest)
            issued = _Ready(self.kernels_end, self.kernels_last)
        is_queued = self._links_end > issued.time
        start = self._links_end if is_queued else issued.time
        cause = self._links_last if is_queued else issued.event
        event = Event(collective, Stream.COMMUNICATION, start, start + seconds, cause, self._times)
        self._links_end, self._links_last = event.end, self._add(event)
        usage = self._usage(collective)
        usage.executions += self._times
        usage.busy += self._times * seconds
        done = _Ready(event.end, self._links_last)
        if instruction.op not in STARTS and not self._options.overlaps_all:
            self._wait(done)
        return done

    def _collective_seconds(self, instruction: Instruction, collective: Instruction) -> float:
        known = self._options.seconds
        if known is None or len(self._topology.levels) > 1:
            return self.communication.seconds(collective)
        return sum(known.get(name, 0.0) for name in {instruction.name, collective.name})

    def _wait(self, value: _Ready) -> None:
        """Lets the device wait for a value. The wait counts as exposed time of the collective that computes it."""
        if value.time <= self.kernels_end:
            return
        self._charge(value)
        self.kernels_end, self.kernels_last = value.time, value.event

    def _charge(self, value: _Ready) -> None:
        """Divides a wait among the transfers that the device waits for, from the last one backward."""
        end, number = value.time, value.event
        while end > self.kernels_end and number >= 0:
            event = self.events[number]
            begin = max(event.start, self.kernels_end)
            self._usage(event.instruction).exposed += self._times * (end - begin)
            end, number = begin, event.cause

    # -- control flow

    def _run_loop(self, loop: Instruction) -> None:
        trips = self._trip_count(loop)
        if trips <= 0:
            return
        number = self._add(Event(loop, Stream.LOOP, self.kernels_end, self.kernels_end, -1, self._times))
        outer, start = self._times, self.kernels_end
        if self._links_end > self.kernels_end and trips > 1:
            self._iterate(loop)
            trips -= 1
        self._times = outer * trips
        before = self.kernels_end
        self._iterate(loop)
        rest = (trips - 1) * (self.kernels_end - before)
        self.kernels_end += rest
        self._links_end += rest
        self._times = outer
        self.events[number].start, self.events[number].end = start, self.kernels_end

    def _iterate(self, loop: Instruction) -> None:
        for key in ("condition", "body"):
            self.run(loop.computation(key))

    def _trip_count(self, loop: Instruction) -> float:
        count = _noted_trip_count(loop) or estimated_trip_count(loop)
        if count != inf:
            return count
        self._unknown_loops.setdefault(loop.name)
        return float(1 if self._options.trip_count is None else self._options.trip_count)

    def _longest_branch(self, conditional: Instruction) -> Computation:
        found = self._branches.get(conditional)
        if found is None:
            branches = conditional.computations
            found = self._branches[conditional] = max(branches, key=self._seconds_alone)
        return found

    def _seconds_alone(self, computation: Computation) -> float:
        """Returns the time of a computation if nothing is under way when it starts; leaves no events."""
        saved = (
            self.events, self.usages, self.kernels_end, self.kernels_last, self._links_end, self._links_last,
            self._times,
        )  # fmt: skip
        self.events, self.usages = [], {}
        self.kernels_end = self._links_end = 0.0
        self.kernels_last = self._links_last = -1
        self.run(computation)
        seconds = self.kernels_end
        (
            self.events, self.usages, self.kernels_end, self.kernels_last, self._links_end, self._links_last,
            self._times,
        ) = saved  # fmt: skip
        return seconds

    # -- records

    def _add(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events) - 1

    def _usage(self, instruction: Instruction) -> Usage:
        found = self.usages.get(instruction)
        if found is None:
            found = self.usages[instruction] = Usage(instruction)
        return found


def _latest(values: Sequence[_Ready]) -> _Ready:
    return max(values, key=lambda value: value.time, default=_Ready(0.0, -1))


def _noted_trip_count(loop: Instruction) -> float:
    """Returns the trip count that XLA's compiler noted in an optimized module; 0 if there is none."""
    match = _NOTED_TRIP_COUNT.search(loop.backend_config)
    return float(match[1]) if match else 0.0


def _updated(instruction: Instruction) -> Instruction | None:
    """Returns the array of which an instruction changes a part; None for other instructions."""
    if instruction.op in _UPDATES:
        return instruction.operands[0]
    if instruction.op is not opcodes.FUSION:
        return None
    inside = instruction.computations[0].root_instruction
    if inside.op not in _UPDATES or inside.operands[0].op is not opcodes.PARAMETER:
        return None
    return instruction.operands[inside.operands[0].parameter_number]


def _source(operand: Instruction) -> Instruction:
    """Returns the instruction that defines an array, behind elements of tuples and bitcasts."""
    while operand.op in (opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST):
        inner = operand.operands[0]
        if operand.op is opcodes.GET_TUPLE_ELEMENT and inner.op is opcodes.PARAMETER:
            return operand
        if operand.op is opcodes.GET_TUPLE_ELEMENT and inner.op is opcodes.TUPLE:
            inner = inner.operands[operand.tuple_index]
        operand = inner
    return operand

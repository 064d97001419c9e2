"""The time of each instruction of a program on devices of one process, from the thunks that the CPU compiler makes.

The program is lowered without machine code. The level of memory in which a kernel finds its data follows from reuse
distances: the bytes that a core touches between two accesses to the same data, those of other devices on the same core
included.

Devices that exchange data, or whose launch is long, run at the same time and share the processors: a step takes the
work of all devices divided by the processors. Otherwise devices run one after the other, and all processors work on
the parallel loops of one device.

Responsible for that composition. Does not depend on how rates are measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from xlapy.analysis.cost import instruction_costs
from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, MIN_PARALLEL_CYCLES
from xlapy.analysis.simulation.communication import DeviceCounts
from xlapy.analysis.simulation.machine import CompiledRates
from xlapy.analysis.simulation.operation_time import index_elements
from xlapy.cpu.compiler import lower_optimized
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.thunks import HostThunk, Thunk
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.loops import Kernel
from xlapy.tools.profile.reuse import Access, Sharing, reuse_distances
from xlapy.tools.simulate.compiled.kernel_model import TRANSPOSE, KernelModel, class_of, length_of, shuffled

_OTHER_CORE_BYTES: Final = 1 << 22
"""The reuse distance of staging memory, where other cores have written: it comes from the cache that cores share."""

_AWAKE_SECONDS: Final = 1e-6
"""Seconds of work for each device between the meetings in a loop, up to which all threads stay awake: they meet again
and again. Elsewhere some of them sleep, and come late."""

_LINE_BYTES: Final = 64
"""The bytes of a cache line."""


@dataclass(frozen=True, slots=True)
class ThunkTime:
    """The time of one execution of a thunk on one device, in seconds of one thread.

    name: the instruction that it computes. kind: the class of its kernel. work: all of it, of which arithmetic and
    memory are parts that overlap. is_divided: whether threads share it. meetings: how often it meets other devices.
    """

    name: str
    kind: str
    work: float = 0.0
    is_divided: bool = False
    meetings: int = 0
    arithmetic: float = 0.0
    memory: float = 0.0


class ProgramTime:
    """The thunks of an optimized program for `counts` devices, of which `local` are in one process.

    at_once: whether the devices run at the same time. host_calls: the instructions that the host computes, whose time
    is unknown.
    """

    def __init__(self, module: Module, counts: DeviceCounts, rates: CompiledRates, local: int) -> None:
        program, self._plans = lower_optimized(module, counts.replicas, counts.partitions)
        self._devices, self._rates, self._model = local, rates, KernelModel(rates)
        self._instructions = {one.name: one for one in module.instructions()}
        self._costs = instruction_costs(module)
        self._copies = _copies_of_computations(module)
        self.at_once = bool(program.host_calling_thunks) or program.is_long_running
        others = max(0.0, (self._devices / rates.threads if self.at_once else self._devices) - 1)
        sharing = Sharing(others, others if self.at_once else 0.0, counts_parts=True)
        self._meetings: dict[Thunk, HostThunk] = {one: one for one in program.host_calling_thunks if one.is_collective}
        self._staged = {slice_ for one in self._meetings if not one.publishes for slice_ in one.writes}
        self._accesses = reuse_distances(program, self._moved_bytes, sharing, self._touched_bytes)
        self.host_calls = dict.fromkeys(one.op_name for one in program.host_calling_thunks if one.callback_reason)
        self.sequences = list(self._sequences(program.thunks, module.entry_computation.root_instruction.name))
        """The thunks that run one after the other: those of the entry, and of each body, condition and branch."""

    def seconds(self) -> dict[str, float]:
        """Returns, by the names of instructions, the seconds that one execution on all devices adds to a step."""
        found: dict[str, float] = {}
        for sequence in self.sequences:
            for time, seconds in zip(sequence, self.step_seconds(sequence), strict=True):
                found[time.name] = found.get(time.name, 0.0) + seconds
        return {name: seconds / self._copies_of(name) for name, seconds in found.items()}

    def step_seconds(self, sequence: Sequence[ThunkTime]) -> list[float]:
        """Returns the seconds that each thunk of a sequence adds to a step of all devices."""
        if not self.at_once:
            return [self._devices * self._seconds_on_all_threads(time) for time in sequence]
        segments = [(one, self._elapsed(one)) for one in _segments(sequence)]
        meeting = self._meeting_seconds(max(elapsed for _, elapsed in segments), sequence is not self.sequences[-1])
        found: list[float] = []
        for segment, elapsed in segments:
            total = sum(time.work for time in segment)
            found += [(time.work / total * elapsed if total else 0.0) + time.meetings * meeting for time in segment]
        return found

    def _meeting_seconds(self, elapsed: float, is_loop: bool) -> float:
        """Returns the seconds of a meeting in a sequence. elapsed: how long devices compute at most between two
        meetings. Threads that slept meanwhile come late, also to meetings that follow at once."""
        awake = self._devices * self._rates.meeting
        is_work = elapsed > self._devices * _AWAKE_SECONDS
        if is_loop and not is_work:
            return awake
        in_line = max(awake, 1 / self._rates.line.at(self._devices))
        return max(in_line, 1 / self._rates.waiting.at(self._devices)) if is_work else in_line

    def _elapsed(self, segment: Sequence[ThunkTime]) -> float:
        work = [(time.work, time.is_divided) for time in segment]
        return elapsed_seconds(work, self._devices, self._rates.threads)

    def _seconds_on_all_threads(self, time: ThunkTime) -> float:
        shared = time.work / self._rates.threads + self._rates.handover
        return shared if time.is_divided and shared < time.work else time.work

    def _copies_of(self, name: str) -> int:
        """Returns how many thunks there are for an instruction that is computed once in each call of a computation."""
        instruction = self._instructions.get(name)
        parent = None if instruction is None else instruction.parent
        return 1 if parent is None else max(1, self._copies.get(parent, 1))

    def _sequences(self, thunks: Sequence[Thunk], last: str) -> Iterator[list[ThunkTime]]:
        """Yields the times of thunks and of those inside. last: the instruction that copies belong to whose array has
        no instruction of its own."""
        own: list[ThunkTime] = []
        for thunk in thunks:
            name = thunk.subject if thunk.subject in self._instructions else last
            for nested in thunk.nested:
                inner, *others = self._sequences(nested, name)
                if thunk.function is not None:
                    own += inner
                else:
                    yield inner
                yield from others
            if not thunk.nested:
                own.append(self._time(thunk, name))
            last = name
        yield own

    def _time(self, thunk: Thunk, name: str) -> ThunkTime:
        accesses = self._accesses_of(thunk)
        memory = self._model.memory_seconds(accesses)
        kernel = thunk.own_kernel
        if kernel is not None:
            instruction = self._instructions.get(thunk.op_name)
            kind = class_of(self._plans.get(thunk.op_name), instruction)
            is_divided = _iterations(kernel) > 1 and thunk.cost >= MIN_PARALLEL_CYCLES
            if kind == TRANSPOSE:
                work = self._rates.pace * self._model.transpose_seconds(kernel, accesses)
                return ThunkTime(name, kind, work, is_divided, 0, work, memory)
            arithmetic = self._model.arithmetic_seconds(kernel, kind, length_of(instruction))
            work = self._rates.pace * self._model.combined_seconds(arithmetic, memory, accesses)
            return ThunkTime(name, kind, work, is_divided, 0, arithmetic, memory)
        if thunk.copies_bytes:
            is_divided = thunk.cost >= MIN_PARALLEL_CYCLES and thunk.reads[0].storage is not StorageClass.SHARED
            return ThunkTime(name, "copy", memory, is_divided, memory=memory)
        if thunk in self._meetings:
            return ThunkTime(name, "meeting", self._staging_seconds(self._meetings[thunk]), meetings=1)
        arithmetic = thunk.cost / CYCLES_PER_MICROSECOND * 1e-6
        return ThunkTime(name, type(thunk).__name__, max(arithmetic, memory), False, 0, arithmetic, memory)

    def _staging_seconds(self, thunk: HostThunk) -> float:
        """Returns the seconds in which a device copies its operands to the memory where devices meet."""
        if thunk.publishes:
            return 0.0
        size = float(sum(operand.size for operand in thunk.operands))
        target = Access(size, _OTHER_CORE_BYTES, is_written=True, is_update=False, is_partial=False)
        return self._model.memory_seconds([replace(target, is_written=False, distance=size), target])

    def _accesses_of(self, thunk: Thunk) -> list[Access]:
        """Returns what a thunk accesses, arrays of other devices included."""
        shared = [slice_ for slice_ in thunk.reads if slice_ in self._staged]
        own = self._with_whole_lines(thunk, self._accesses.get(thunk, []))
        if not shared:
            return own
        touched = self._touched_bytes(thunk)
        return [*own, *(Access(touched.get(s, s.size), _OTHER_CORE_BYTES, False, False, False) for s in shared)]

    def _touched_bytes(self, thunk: Thunk) -> Mapping[BufferSlice, float]:
        """Returns the bytes that a kernel or a copy accesses of each array."""
        if thunk.copies_bytes:
            return dict.fromkeys(thunk.accesses, float(min(slice_.size for slice_ in thunk.accesses)))
        kernel = thunk.own_kernel
        if kernel is None:
            return {}
        touched = self._model.cycles(kernel).touched_bytes
        buffers = sorted(kernel.buffers, key=lambda buffer: buffer.written)  # in the order of `accesses`
        return {slice_: touched.get(buffer, 0.0) for buffer, slice_ in zip(buffers, thunk.accesses, strict=True)}

    def _with_whole_lines(self, thunk: Thunk, accesses: list[Access]) -> list[Access]:
        """Counts whole cache lines where the elements that an index stands for are less than one."""
        instruction = self._instructions.get(thunk.op_name)
        scattered = shuffled(instruction)
        if scattered is None:
            return accesses
        size = index_elements(scattered) * scattered.operands[0].shape.element_type.byte_size
        lines = max(1.0, _LINE_BYTES / max(1, size))
        return [replace(one, touched=one.touched * lines) if one.is_partial else one for one in accesses]

    def _moved_bytes(self, thunk: Thunk) -> float | None:
        """Returns the bytes that an execution of a thunk reads and writes; None if that is unknown."""
        instruction = self._instructions.get(thunk.op_name)
        if instruction is None:
            return None
        return float(self._costs[instruction].bytes_accessed)


def _segments(sequence: Sequence[ThunkTime]) -> Iterator[list[ThunkTime]]:
    """Yields the parts of a sequence at whose ends devices meet."""
    segment: list[ThunkTime] = []
    for time in sequence:
        segment.append(time)
        if time.meetings:
            yield segment
            segment = []
    yield segment


def elapsed_seconds(work: Sequence[tuple[float, bool]], devices: int, threads: int) -> float:
    """Returns the seconds until all devices have done their work, which start at once and share the processors.

    work: seconds of one thread, and whether threads may share it. While one device uses the pool of threads, the
    others compute alone, and so does a device whose kernel began meanwhile until that kernel has ended.
    """
    items = [(seconds, is_divided) for seconds, is_divided in work if seconds > 0]
    position = [0] * devices
    left = [items[0][0] if items else 0.0] * devices
    owner: int | None = None
    running = list(range(devices)) if items else []
    if items and items[0][1]:
        owner = 0
    elapsed = 0.0
    while running:
        count = len(running) + (threads - 1 if owner is not None else 0)
        speed = min(1.0, threads / count)
        rates = {one: speed * (threads if one == owner else 1) for one in running}
        step = min(left[one] / rates[one] for one in running)
        elapsed += step
        for one in running:
            left[one] -= step * rates[one]
        for one in [one for one in running if left[one] <= _ROUNDING * step]:
            owner = None if owner == one else owner
            position[one] += 1
            if position[one] == len(items):
                running.remove(one)
                continue
            left[one], is_divided = items[position[one]]
            owner = one if is_divided and owner is None else owner
    return elapsed


_ROUNDING: Final = 1e-9


def _iterations(kernel: Kernel) -> int:
    """Returns the iterations that threads may share."""
    loop = kernel.parallel_loop
    return loop.extent if loop is not None and isinstance(loop.extent, int) else 1


def _copies_of_computations(module: Module) -> Mapping[Computation, int]:
    """Returns how many times the thunks of each computation exist: once for each place that calls it."""
    found: Counter[Computation] = Counter({module.entry_computation: 1})
    for computation in reversed(list(computation_post_order(module))):
        for instruction in computation:
            for called in _run_by(instruction):
                found[called] += found[computation]
    return found


def _run_by(instruction: Instruction) -> Sequence[Computation]:
    """Returns the computations whose instructions become thunks where an instruction stands."""
    return instruction.computations if instruction.op.family == "control" else ()

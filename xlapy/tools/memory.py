"""The memory of a compiled program: what a run needs, and which values are live when it needs the most.

Responsible for finding the instruction and the source line of each value. Does not depend on where buffers lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xlapy.cpu.compiler import Compiled
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.memory_report import memory_peak, position_names
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.text.describe import byte_text, contents_of, framework_name_of

LISTED_VALUES = 20
"""The largest number of arguments, and of other values, that are listed."""


@dataclass(frozen=True, slots=True)
class MemoryValue:
    """An array of a program in memory."""

    bytes: int
    storage: str
    """`argument 2`, `result 0` or `temporary`."""
    name: str
    """The instruction of the optimized module that computes it."""
    shape: str
    what: str
    """The opcode of that instruction, and the opcodes in a fusion."""
    source: str
    """The line of the user's program; "" if it is unknown."""
    framework: str
    """The framework's name of the instruction or the argument; "" if it is unknown."""
    first: str
    """The thunk that needs the value first; "" for arguments, which are there from the start."""
    last: str
    """The thunk that needs the value last; "" for results and arguments, which outlive the run."""

    def line(self, total: int) -> str:
        """The value on a line, with its share of `total` bytes."""
        where = [self.what, self.source or self.framework]
        if self.first:
            where.append(f"from {self.first}" + (f" to {self.last}" if self.last else " to the end"))
        size = f"{byte_text(self.bytes):>11} {self.bytes / max(total, 1):>6.1%}"
        return (
            f"{size}  {self.storage:<12} {self.name} {self.shape}  {', '.join(part for part in where if part)}".rstrip()
        )


@dataclass(frozen=True, slots=True)
class ProgramMemory:
    """The memory of a run on one device, in bytes."""

    arguments: int
    results: int
    aliased: int
    """Bytes of results in the memory of donated arguments."""
    temporaries: int
    peak: int
    """The bytes of results and temporaries that are live at once, at most."""
    peak_at: str
    """The thunk at which they are."""
    peak_source: str
    """The source line of that thunk; "" if it is unknown."""
    largest_arguments: Sequence[MemoryValue]
    live: Sequence[MemoryValue]
    """The results and temporaries that are live there, the largest first."""

    @property
    def total(self) -> int:
        return self.arguments + self.results - self.aliased + self.temporaries

    @property
    def summary(self) -> str:
        """What a run needs, on one line."""
        results = f"results {byte_text(self.results)}"
        if self.aliased:
            results += f", of which {byte_text(self.aliased)} in the memory of donated arguments"
        return (
            f"memory: {byte_text(self.total)} (arguments {byte_text(self.arguments)}, {results}, "
            f"temporaries {byte_text(self.temporaries)})"
        )

    @property
    def peak_text(self) -> str:
        """Where the most bytes are live, on one line."""
        where = f"{self.peak_at} at {self.peak_source}" if self.peak_source else self.peak_at
        return f"{byte_text(self.peak)} of results and temporaries are live at once, in {where or 'no thunk'}"


def program_memory(compiled: Compiled) -> ProgramMemory:
    """Returns the memory of a compiled program."""
    program, peak = compiled.program, memory_peak(compiled.program)
    found = _Values(compiled)
    arguments = program.arguments[: len(program.arguments) - len(program.implicit_arguments)]
    at = found.instructions.get(peak.label)
    return ProgramMemory(
        arguments=sum(argument.size for argument in arguments),
        results=sum(result.size for result in program.results),
        aliased=sum(program.results[number].size for number in program.aliases),
        temporaries=program.arena_size,
        peak=peak.bytes,
        peak_at=peak.label,
        peak_source="" if at is None else source_of(at),
        largest_arguments=found.of(sorted(arguments, key=lambda argument: -argument.size)),
        live=found.of(peak.live),
    )


def value_lines(values: Sequence[MemoryValue], total: int) -> Iterator[str]:
    """Returns the lines of the first `LISTED_VALUES` values, with their shares of `total` bytes."""
    for value in values[:LISTED_VALUES]:
        yield value.line(total)
    if rest := values[LISTED_VALUES:]:
        size = sum(value.bytes for value in rest)
        yield f"{byte_text(size):>11} {size / max(total, 1):>6.1%}  {len(rest)} smaller ones"


class _Values:
    """Describes the slices of a program."""

    def __init__(self, compiled: Compiled) -> None:
        self.instructions: dict[str, Instruction] = {i.name: i for i in compiled.module.instructions()}
        self._ranges = memory_peak(compiled.program).ranges
        self._names = position_names(self._ranges)

    def of(self, slices: Iterable[BufferSlice]) -> list[MemoryValue]:
        return [self._value(slice_) for slice_ in slices]

    def _value(self, slice_: BufferSlice) -> MemoryValue:
        instruction = self.instructions.get(slice_.name)
        is_temporary, is_argument = (slice_.storage is kind for kind in (StorageClass.TEMPORARY, StorageClass.ARGUMENT))
        first, last = (self._names.get(found.get(slice_, -1), "") for found in (self._ranges.first, self._ranges.last))
        contents = "" if instruction is None else contents_of(instruction)
        return MemoryValue(
            bytes=slice_.size,
            storage="temporary" if is_temporary else f"{slice_.storage.value} {slice_.number}",
            name=slice_.name,
            shape=slice_.shape.to_text(layout=False),
            what="" if instruction is None or is_argument else contents or instruction.op.name,
            source="" if instruction is None else source_of(instruction),
            framework="" if instruction is None else framework_name_of(instruction),
            first="" if is_argument else first,
            last=last if is_temporary else "",
        )

"""The rows of a profile: an instruction each, with its time, what it moves and computes, and its share of the limits.

Owns: the record, what follows from its figures. Must not know: how figures are measured, how rows are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.analysis.cost import Cost
from xlapy.codegen.element_cost import element_cost
from xlapy.hlo.instruction import Instruction
from xlapy.text.describe import framework_name_of, source_of

FAR_FROM_LIMITS = 0.2
"""Share of the machine's limits below which neither memory nor arithmetic is what takes the time."""


@dataclass(eq=False, slots=True)
class Row:
    """An instruction in one place: in the entry computation, a loop or a branch. All figures are those of one run."""

    name: str
    opcode: str
    instruction: Instruction | None = None
    """None for what no instruction stands for: copies of results, the call itself."""
    seconds: float = 0.0
    """What is inside of a loop or branch included."""
    executions: float = 0.0
    turns: float | None = None
    """Iterations of a loop, all executions together."""
    read: float = 0.0
    """Bytes."""
    written: float = 0.0
    flops: float = 0.0
    """As XLA counts them, transcendental functions included."""
    operations: dict[str, float] = field(default_factory=dict[str, float])
    """What its kernels compute, by the type of loop IR; empty where that is not known."""
    memory_seconds: float = 0.0
    """The least time to move the bytes on this machine."""
    arithmetic_seconds: float = 0.0
    """The least time to compute."""
    least_seconds: float = 0.0
    """The least time for both at once."""
    threads: float = 1.0
    """That work on it, in the mean."""
    is_parallel: bool = False
    """Whether they share its loop."""
    children: list[Row] = field(default_factory=list["Row"])

    @property
    def moved(self) -> float:
        return self.read + self.written

    @property
    def computed(self) -> float:
        """Arithmetic operations: those of the kernels, or, where they are not known, XLA's count."""
        return sum(self.operations.values()) if self.operations else self.flops

    @property
    def own_seconds(self) -> float:
        """Without what is inside."""
        return max(0.0, self.seconds - sum(child.seconds for child in self.children))

    @property
    def source(self) -> str:
        return "" if self.instruction is None else source_of(self.instruction)

    @property
    def framework(self) -> str:
        return "" if self.instruction is None else framework_name_of(self.instruction)

    @property
    def inside(self) -> str:
        """What a fusion computes, `exponential, add x2`, or a custom call calls; "" for what its opcode tells."""
        if self.instruction is None:
            return ""
        if self.instruction.op is opcodes.CUSTOM_CALL:
            return str(self.instruction.custom_call_target)
        if self.instruction.op is not opcodes.FUSION:
            return ""
        counts: dict[str, int] = {}
        for one in _computing(self.instruction):
            counts[one.op.name] = counts.get(one.op.name, 0) + 1
        return ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())

    def per_second(self, amount: float) -> float:
        return amount / self.seconds if self.seconds > 0 else 0.0

    @property
    def limit(self) -> float:
        """The share of what the machine could do: 1 is as fast as it goes."""
        return self.per_second(self.least_seconds)

    @property
    def bound(self) -> str:
        """What takes the time: `memory`, `compute`, or `overhead` where both are far from their limits."""
        if self.seconds <= 0 or self.limit < FAR_FROM_LIMITS:
            return "overhead"
        return "memory" if self.memory_seconds >= self.arithmetic_seconds else "compute"

    def add(self, other: Row) -> None:
        """Takes in the figures of another row of the same name; `turns` too."""
        before = self.seconds
        total = before + other.seconds
        self.threads = (self.threads * before + other.threads * other.seconds) / total if total else self.threads
        self.seconds = total
        self.is_parallel |= other.is_parallel
        for name in ("executions", "read", "written", "flops", "memory_seconds", "arithmetic_seconds", "least_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, count in other.operations.items():
            self.operations[name] = self.operations.get(name, 0.0) + count
        if other.turns is not None:
            self.turns = (self.turns or 0.0) + other.turns
        self.children = merged([*self.children, *other.children])

    def take_totals_of_children(self) -> None:
        """What a loop or branch moves and computes is what its steps do."""
        for child in self.children:
            for name in ("read", "written", "flops", "memory_seconds", "arithmetic_seconds", "least_seconds"):
                setattr(self, name, getattr(self, name) + getattr(child, name))
            for name, count in child.operations.items():
                self.operations[name] = self.operations.get(name, 0.0) + count


def merged(rows: Sequence[Row]) -> list[Row]:
    """One row for each name, the dearest first."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.name in found:
            found[row.name].add(row)
        else:
            found[row.name] = row
    return sorted(found.values(), key=lambda row: -row.seconds)


def all_rows(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    """Every row with its depth, those inside a loop or branch behind it."""
    stack = [(0, row) for row in reversed(rows)]
    while stack:
        depth, row = stack.pop()
        yield depth, row
        stack += [(depth + 1, child) for child in reversed(row.children)]


def rows_by_instruction(rows: Sequence[Row]) -> dict[str, Row]:
    """One row for each instruction, by its name: wherever it runs, and with the copies made for it."""
    found: dict[str, Row] = {}
    for _, row in all_rows(rows):
        if row.instruction is not None:
            found.setdefault(row.instruction.name, Row(row.instruction.name, row.opcode, row.instruction)).add(row)
    return found


# -- by source line, by opcode


@dataclass(slots=True)
class Share:
    """The time of everything that has something in common, such as its source line."""

    name: str
    seconds: float = 0.0
    rows: set[str] = field(default_factory=set[str])
    """The names of the rows that it is part of."""


def shares_by(rows: Sequence[Row], key: str, costs: dict[Instruction, Cost]) -> list[Share]:
    """The time by `source` or `opcode`, the dearest first. That of a fusion is divided by the work of its parts."""
    found: dict[str, Share] = {}
    for _, row in all_rows(rows):
        for name, part in _parts(row, key, costs).items():
            share = found.setdefault(name, Share(name))
            share.seconds += row.own_seconds * part
            share.rows.add(row.name)
    return sorted(found.values(), key=lambda share: -share.seconds)


def _parts(row: Row, key: str, costs: dict[Instruction, Cost]) -> dict[str, float]:
    """The shares of a row's time, by what they are counted under."""
    if row.instruction is None:
        return {"(no line)" if key == "source" else row.opcode: 1.0}
    inside = _computing(row.instruction) if row.instruction.op is opcodes.FUSION else [row.instruction]
    weights = [_work(one, costs) for one in inside]
    total = sum(weights)
    parts: dict[str, float] = {}
    for one, weight in zip(inside, weights, strict=True):
        name = one.op.name if key == "opcode" else source_of(one) or row.source or "(no line)"
        parts[name] = parts.get(name, 0.0) + (weight / total if total else 1 / len(inside))
    return parts


def _computing(fusion: Instruction) -> list[Instruction]:
    """The instructions of a fusion but for parameters, the constants and the tuple of results; at least its root."""
    (fused,) = fusion.computations
    left_out = (opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE)
    return [one for one in fused if one.op not in left_out] or [fused.root_instruction]


def _work(instruction: Instruction, costs: dict[Instruction, Cost]) -> float:
    """About how long an instruction takes beside others of its fusion, in additions."""
    counted = costs[instruction]
    computed = counted.flops + 16.0 * counted.transcendentals
    size = instruction.shape.size if instruction.shape.is_array else 1
    return computed or float(element_cost(instruction) * size)

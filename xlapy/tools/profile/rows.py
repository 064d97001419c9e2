"""The rows of a profile: one per instruction, with its time, memory traffic, arithmetic and fraction of the machine's
limits.

Responsible for the record and the figures derived from it. Does not depend on how figures are measured or rows are
shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xlapy.analysis.cost import TRANSCENDENTAL_COST, Cost, element_cost
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.text.describe import computing, contents_of, framework_name_of

FAR_FROM_LIMITS = 0.2
"""Fraction of the machine's limits below which neither memory nor arithmetic explains the time."""


@dataclass(eq=False, slots=True)
class Row:
    """An instruction at one position: in the entry computation, a loop or a branch. All figures are those of one
    run."""

    name: str
    opcode: str
    instruction: Instruction | None = None
    """None for work without an instruction: copies of results, the call itself."""
    seconds: float = 0.0
    """Includes the time inside a loop or branch."""
    executions: float = 0.0
    iterations: float | None = None
    """Iterations of a loop, over all its executions."""
    read: float = 0.0
    """Bytes read."""
    written: float = 0.0
    flops: float = 0.0
    """XLA's count of floating-point operations, transcendental functions included."""
    operations: dict[str, float] = field(default_factory=dict[str, float])
    """Operations that its kernels compute, by type of loop IR; empty if unknown."""
    memory_seconds: float = 0.0
    """Minimum time for the memory traffic on this machine."""
    level: str = ""
    """Where most of that time is spent: `L1`, `L2`, `L3` or `memory`; empty if it is unknown."""
    arithmetic_seconds: float = 0.0
    """Minimum time for the arithmetic."""
    minimum_seconds: float = 0.0
    """Minimum time for both, overlapped."""
    subtracted: float = 0.0
    """The estimated cost of reading the clock that `seconds` does not include."""
    threads: float = 1.0
    """Mean number of threads that run it."""
    is_parallel: bool = False
    """Whether several threads share its loop."""
    children: list[Row] = field(default_factory=list["Row"])

    @property
    def moved(self) -> float:
        return self.read + self.written

    @property
    def computed(self) -> float:
        """Arithmetic operations: those of the kernels or, if unknown, XLA's count."""
        return sum(self.operations.values()) if self.operations else self.flops

    @property
    def own_seconds(self) -> float:
        """The time without that of its children."""
        return max(0.0, self.seconds - sum(child.seconds for child in self.children))

    @property
    def source(self) -> str:
        return "" if self.instruction is None else source_of(self.instruction)

    @property
    def framework(self) -> str:
        return "" if self.instruction is None else framework_name_of(self.instruction)

    @property
    def inside(self) -> str:
        """The contents of a fusion, such as `exponential, add x2`, or the target of a custom call; otherwise ""."""
        return "" if self.instruction is None else contents_of(self.instruction)

    def per_second(self, amount: float) -> float:
        return amount / self.seconds if self.seconds > 0 else 0.0

    @property
    def limit(self) -> float:
        """The fraction of the machine's limit that it reaches; 1 is the fastest possible."""
        return self.per_second(self.minimum_seconds)

    @property
    def bound(self) -> str:
        """What bounds the time: `memory`, `compute`, or `overhead` if both are far from their limits."""
        if self.seconds <= 0 or self.limit < FAR_FROM_LIMITS:
            return "overhead"
        return "memory" if self.memory_seconds >= self.arithmetic_seconds else "compute"

    def add(self, other: Row) -> None:
        """Adds the figures of another row of the same name, `iterations` included."""
        before = self.seconds
        total = before + other.seconds
        self.threads = (self.threads * before + other.threads * other.seconds) / total if total else self.threads
        self.seconds = total
        self.is_parallel |= other.is_parallel
        self.level = self.level if self.memory_seconds >= other.memory_seconds else other.level
        for name in (
            "executions",
            "subtracted",
            "read",
            "written",
            "flops",
            "memory_seconds",
            "arithmetic_seconds",
            "minimum_seconds",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, count in other.operations.items():
            self.operations[name] = self.operations.get(name, 0.0) + count
        if other.iterations is not None:
            self.iterations = (self.iterations or 0.0) + other.iterations
        self.children = merged([*self.children, *other.children])

    def set_totals_of_children(self) -> None:
        """Sets the memory traffic and arithmetic of a loop or branch to the totals of its children."""
        for child in self.children:
            for name in ("read", "written", "flops", "memory_seconds", "arithmetic_seconds", "minimum_seconds"):
                setattr(self, name, getattr(self, name) + getattr(child, name))
            for name, count in child.operations.items():
                self.operations[name] = self.operations.get(name, 0.0) + count


@dataclass(frozen=True, slots=True)
class HostCallback:
    """An instruction that the host computes: how often in a run, for how long in total, and why native code does
    not."""

    name: str
    opcode: str
    reason: str
    executions: float
    seconds: float


def merged(rows: Sequence[Row]) -> list[Row]:
    """Merges rows with the same name; most expensive first."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.name in found:
            found[row.name].add(row)
        else:
            found[row.name] = row
    return sorted(found.values(), key=lambda row: -row.seconds)


def all_rows(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    """Yields every row with its depth; the rows inside a loop follow it."""
    stack = [(0, row) for row in reversed(rows)]
    while stack:
        depth, row = stack.pop()
        yield depth, row
        stack += [(depth + 1, child) for child in reversed(row.children)]


def rows_by_instruction(rows: Sequence[Row]) -> dict[str, Row]:
    """Returns one row per instruction name, which sums all positions and the copies made for the instruction."""
    found: dict[str, Row] = {}
    for _, row in all_rows(rows):
        if row.instruction is not None:
            found.setdefault(row.instruction.name, Row(row.instruction.name, row.opcode, row.instruction)).add(row)
    return found


# -- by source line, by opcode


@dataclass(slots=True)
class Share:
    """The time of all rows with the same source line or opcode."""

    name: str
    seconds: float = 0.0
    rows: set[str] = field(default_factory=set[str])
    """The names of the rows that contribute."""


def shares_by(rows: Sequence[Row], key: str, costs: dict[Instruction, Cost]) -> list[Share]:
    """Returns the time by `source` or `opcode`, most expensive first. The time of a fusion is divided by the work of
    its instructions.
    """
    found: dict[str, Share] = {}
    for _, row in all_rows(rows):
        for name, part in _parts(row, key, costs).items():
            share = found.setdefault(name, Share(name))
            share.seconds += row.own_seconds * part
            share.rows.add(row.name)
    return sorted(found.values(), key=lambda share: -share.seconds)


def _parts(row: Row, key: str, costs: dict[Instruction, Cost]) -> dict[str, float]:
    """Returns the parts of a row's time, with the key of each."""
    if row.instruction is None:
        return {"(no line)" if key == "source" else row.opcode: 1.0}
    inside = computing(row.instruction)
    weights = [_work(one, costs) for one in inside]
    total = sum(weights)
    parts: dict[str, float] = {}
    for one, weight in zip(inside, weights, strict=True):
        name = one.op.name if key == "opcode" else source_of(one) or row.source or "(no line)"
        parts[name] = parts.get(name, 0.0) + (weight / total if total else 1 / len(inside))
    return parts


def _work(instruction: Instruction, costs: dict[Instruction, Cost]) -> float:
    """Returns the approximate cost of an instruction relative to others of its fusion, in additions."""
    counted = costs[instruction]
    computed = counted.flops + float(TRANSCENDENTAL_COST) * counted.transcendentals
    size = instruction.shape.size if instruction.shape.is_array else 1
    return computed or float(element_cost(instruction) * size)

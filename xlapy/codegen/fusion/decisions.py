"""What fusion decides, as records: which instructions a decision is about, what it is, and the words for people.

Owns: the record. Must not know: who decides, who shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum


class DecisionKind(Enum):
    """What becomes of an instruction or, of the last two, of two kernels."""

    KERNEL = "kernel"
    """It gets a kernel of its own."""
    JOINED = "joined"
    """It is computed in the kernel of what needs it."""
    REPEATED = "repeated"
    """Several kernels compute it."""
    FREE = "free"
    """It costs nothing: whoever needs it computes it."""
    MERGED = "merged"
    """Two kernels become one."""
    APART = "apart"
    """Two kernels stay two."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision. subjects: the names of the instructions it is about. text: a sentence with the reason."""

    subjects: tuple[str, ...]
    kind: DecisionKind
    text: str

    def __str__(self) -> str:
        return self.text


Explain = Callable[[Decision], None]
"""Is told each decision."""


def silent(_: Decision) -> None:
    """For whoever does not ask why."""


def decisions_text(decisions: Iterable[Decision]) -> str:
    """A line each."""
    return "".join(f"{decision.text}\n" for decision in decisions)

"""Records of the decisions of fusion: the instructions, the kind of the decision, and a sentence for users.

Does not depend on how fusion decides, or on how tools show the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum


class DecisionKind(Enum):
    """The kinds of decisions about one instruction; the last five are about kernels."""

    KERNEL = "kernel"
    """The instruction gets a kernel of its own."""
    FUSED = "fused"
    """The instruction is computed in the kernel of its users."""
    DUPLICATED = "duplicated"
    """Several kernels compute the instruction, because that is cheaper than memory traffic."""
    ALWAYS_DUPLICATED = "always duplicated"
    """Every user computes the instruction, because computing an element is as cheap as loading it."""
    MULTI_OUTPUT = "multi-output"
    """Two kernels become one kernel, with the results of both."""
    ATTENTION = "attention"
    """Two dots and the row reductions between them become one kernel."""
    POOLING_GRADIENT = "pooling gradient"
    """A select-and-scatter, the pad before it and the slice after it become one kernel."""
    ELEMENTWISE_LOOP = "elementwise loop"
    """A loop becomes one kernel, which runs all iterations for some elements after the other."""
    SEPARATE = "separate"
    """Two kernels stay separate."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about the instructions named `subjects`."""

    subjects: tuple[str, ...]
    kind: DecisionKind
    text: str
    """A sentence with the decision and its reason."""

    def __str__(self) -> str:
        return self.text


Explain = Callable[[Decision], None]
"""Receives each decision when fusion makes it."""


def ignore_decision(_: Decision) -> None:
    """An `Explain` that drops decisions."""


def decisions_text(decisions: Iterable[Decision]) -> str:
    """The sentences of decisions, one per line."""
    return "".join(f"{decision.text}\n" for decision in decisions)

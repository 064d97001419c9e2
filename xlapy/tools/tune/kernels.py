"""The kernels of a program that can be tuned: those of static shapes that take time, with their parts of the run time.

Responsible for the choice and the description of kernels. Does not depend on other plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.codegen.extraction import kernel_fingerprint
from xlapy.codegen.strategies import Choice
from xlapy.hlo.instruction import Instruction
from xlapy.text.describe import computing
from xlapy.tools.profile.rows import Row, all_rows


@dataclass(slots=True)
class TunableKernel:
    """A kernel of an optimized module. Several instructions may be computed by the same kernel."""

    fingerprint: str
    instructions: list[Instruction]
    choice: Choice
    """The plan of the kernel as the program is compiled now, and the other strategies."""
    rows: list[Row] = field(default_factory=list[Row])

    @property
    def name(self) -> str:
        """The names of the instructions, the most expensive first; after three, their number."""
        shown = [instruction.name for instruction in self.instructions[:3]]
        more = len(self.instructions) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")

    @property
    def what(self) -> str:
        """The operations and the shapes, such as `dot, tanh f32[8,2048] f32[2048,2048] -> f32[8,2048]`."""
        instruction = self.instructions[0]
        names = ", ".join(dict.fromkeys(one.op.name for one in computing(instruction) if one.op not in _FREE))
        operands = " ".join(o.shape.to_text(layout=False) for o in instruction.operands if o.shape.rank)
        return f"{names or instruction.op.name} {operands} -> {instruction.shape.to_text(layout=False)}"

    @property
    def seconds(self) -> float:
        """The seconds of a run that the kernel takes in the program."""
        return sum(row.seconds for row in self.rows)

    @property
    def limit(self) -> float:
        """The share of the machine's limit that the kernel reaches in the program."""
        return sum(row.minimum_seconds for row in self.rows) / self.seconds if self.seconds else 0.0

    @property
    def is_in_memory(self) -> bool:
        """Whether the program finds the data of the kernel in memory rather than in a cache."""
        return bool(self.rows) and max(self.rows, key=lambda row: row.seconds).level == "memory"


_FREE = frozenset({opcodes.BROADCAST, opcodes.RESHAPE, opcodes.BITCAST})


def tunable_kernels(rows: Sequence[Row], plans: Mapping[str, Choice]) -> list[TunableKernel]:
    """Returns the kernels of a profile's rows, those that take the most time first.

    plans: of each instruction that kernels compute, by its name. Kernels with a plan that the module demands are left
    out, and so are those of dynamic shapes and those that read or write something else than arrays.
    """
    found: dict[str, TunableKernel] = {}
    for _, row in sorted(all_rows(rows), key=lambda pair: -pair[1].seconds):
        instruction = row.instruction
        choice = None if instruction is None else plans.get(instruction.name)
        if instruction is None or choice is None or choice.demanded or not _has_static_arrays(instruction):
            continue
        fingerprint = kernel_fingerprint(instruction)
        kernel = found.setdefault(fingerprint, TunableKernel(fingerprint, [], choice))
        kernel.rows.append(row)
        if instruction not in kernel.instructions:
            kernel.instructions.append(instruction)
    return sorted(found.values(), key=lambda kernel: -kernel.seconds)


def _has_static_arrays(instruction: Instruction) -> bool:
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    shapes: list[Shape] = [*(operand.shape for operand in instruction.operands), *leaves]
    return all(shape.is_array and not shape.is_dynamic for shape in shapes)

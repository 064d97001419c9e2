"""`Computation`: a function in HLO, an ordered list of instructions with parameters and one root.

Responsible for the data of a computation, which only `xlapy.hlo.edit` changes. Does not depend on text or evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from xlapy.base.arguments.checking import checked_class
from xlapy.base.arguments.copying import not_copied
from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import UnknownNameError, VerificationError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.control import MAIN_THREAD
from xlapy.opcodes.sources import PARAMETER

if TYPE_CHECKING:
    from xlapy.hlo.module import Module


@not_copied("it belongs to a module; copy the module, which copies its computations")
@checked_class
class Computation:
    """A list of instructions; in a verified computation every operand precedes its users.

    `callers` are the instructions of the module that call this computation.

    >>> entry = xla.parse_hlo("ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }").entry_computation
    >>> [instruction.name for instruction in entry]
    ['x', 'y']
    >>> entry.program_shape
    ProgramShape.parse('(x: f32[3]{0}) -> f32[3]{0}')
    """

    __slots__ = (
        "_called",
        "_callers",
        "_instructions",
        "_post_order",
        "_program_shape",
        "execution_thread",
        "module",
        "name",
        "parameters",
        "root",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.module: Module | None = None
        self.root: Instruction | None = None
        self.parameters: list[Instruction] = []
        self.execution_thread = MAIN_THREAD
        self._instructions: dict[Instruction, None] = {}
        self._callers: dict[Instruction, None] = {}
        self._program_shape: ProgramShape | None = None
        self._post_order: tuple[Instruction, ...] | None = None
        """The result of `traverse.post_order`, until an edit adds, removes or reorders instructions or edges."""
        self._called: tuple[Computation, ...] | None = None
        """The result of `traverse.called_computations`, until an edit changes the instructions or what they call."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(self._instructions)

    @property
    def last_instruction(self) -> Instruction:
        """The instruction that was appended last; raises VerificationError if there are none."""
        if not self._instructions:
            raise VerificationError(module_codes.ROOT, f"computation {self.name} has no instructions")
        return next(reversed(self._instructions))

    def last_instructions(self, count: int) -> list[Instruction]:
        """The `count` instructions that were appended last, in their order; takes time in proportion to `count`."""
        return list(islice(reversed(self._instructions), max(0, min(count, len(self._instructions)))))[::-1]

    @property
    def callers(self) -> tuple[Instruction, ...]:
        return tuple(self._callers)

    @property
    def is_entry(self) -> bool:
        return self.module is not None and self.module.entry is self

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes and names of the parameters in order, and the shape of the root."""
        if self._program_shape is None:
            root = self.root_instruction
            parameters = self.parameters
            self._program_shape = ProgramShape(
                tuple(p.shape for p in parameters), root.shape, tuple(p.name for p in parameters)
            )
        return self._program_shape

    @property
    def root_instruction(self) -> Instruction:
        """The root; raises VerificationError if the computation is being built and has no root yet."""
        if self.root is None:
            raise VerificationError(module_codes.ROOT, f"computation {self.name} has no root")
        return self.root

    def find(self, name: str) -> Instruction:
        """The instruction with this name; raises UnknownNameError if there is none."""
        for instruction in self._instructions:
            if instruction.name == name:
                return instruction
        raise UnknownNameError(codes.NAME_IN_MODULE, f"computation {self.name} has no instruction {name!r}")

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    def __contains__(self, instruction: object) -> bool:
        return isinstance(instruction, Instruction) and instruction in self._instructions

    def __repr__(self) -> str:
        return f"<Computation {self.name}: {len(self)} instructions>"


def is_parameter(instruction: Instruction) -> bool:
    return instruction.op is PARAMETER

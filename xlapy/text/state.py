"""The state that the parts of the HLO text parser share while they read one module.

Responsible for computations by name, references to computations that have not been read yet, and names for
instructions without one. Does not depend on the grammar.
"""

from __future__ import annotations

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.names import NameUniquer

MAX_DEPTH = 64
"""Limit on the nesting of instructions and computations that are written in place of a name."""


class Scope:
    """A computation that is being read.

    names: its instructions under their names in the text, before these are made unique. root: the instruction marked
    ROOT, if it was read. is_single_instruction: the text is one instruction without a computation around it; operands
    that are not defined become parameters.
    """

    __slots__ = ("computation", "is_single_instruction", "names", "root")

    def __init__(self, computation: Computation, is_single_instruction: bool = False) -> None:
        self.computation = computation
        self.names: dict[str, Instruction] = {}
        self.root: Instruction | None = None
        self.is_single_instruction = is_single_instruction


class ParserState:
    """The cursor and the computations of one module. `given_names` are the names of all instructions read so far."""

    __slots__ = (
        "_anonymous",
        "_registered",
        "computations",
        "computations_by_name",
        "cursor",
        "depth",
        "given_names",
        "undefined_computations",
    )

    def __init__(self, cursor: HloCursor) -> None:
        self.cursor = cursor
        self.computations: list[Computation] = []
        """Finished computations in the order of the module."""
        self.computations_by_name: dict[str, Computation] = {}
        self.undefined_computations: dict[str, int] = {}
        """Names of computations that were referenced but not read yet, with the position of the first reference."""
        self.depth = 0
        self.given_names: list[str] = []
        self._registered = 0
        self._anonymous = NameUniquer()

    def reference_computation(self, name: str, position: int) -> Computation:
        """The computation called `name`; an empty one if it has not been read yet. `position`: of the reference."""
        found = self.computations_by_name.get(name)
        if found is None:
            found = self.computations_by_name[name] = Computation(name)
            self.undefined_computations[name] = position
        return found

    def define_computation(self, name: str, position: int) -> Computation:
        """The computation that is about to be read under `name`. Raises ParseError if the name is taken."""
        if self.undefined_computations.pop(name, None) is not None:
            return self.computations_by_name[name]
        if name in self.computations_by_name:
            self.cursor.fail_at(position, module_codes.UNIQUE_NAMES, f"computation {name!r} is defined twice")
        found = self.computations_by_name[name] = Computation(name)
        return found

    def enter_nested(self) -> None:
        """Enters an instruction or computation that is written in place of a name. Raises ParseError if too deep."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.cursor.fail(
                text_codes.NESTING, f"instructions and computations are nested deeper than {MAX_DEPTH} levels"
            )

    def leave_nested(self) -> None:
        """Leaves the instruction or computation that `enter_nested` entered."""
        self.depth -= 1

    def anonymous_name(self, op: str) -> str:
        """A unique name for an instruction without one, such as `max` in `add(max(x, y), z)`."""
        for name in self.given_names[self._registered :]:
            self._anonymous.unique(name)
        self._registered = len(self.given_names)
        return self._anonymous.unique(f"{op}.anon")

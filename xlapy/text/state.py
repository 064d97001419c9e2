"""What the parts of the parser share while they read one module.

Owns: the pool of computations by name, computations used before they are read, names for nameless instructions.
Must not know: how anything is spelled.
"""

from __future__ import annotations

from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.names import NameUniquer

MAX_DEPTH = 64
"""How deep instructions and computations may be written inside each other."""


class Scope:
    """One computation that is being read: `names` are those of the text, before they are made unique.

    In the scope of a lone instruction (`is_lone`) operands that are not defined become parameters.
    """

    __slots__ = ("computation", "is_lone", "names", "root")

    def __init__(self, computation: Computation, is_lone: bool = False) -> None:
        self.computation = computation
        self.names: dict[str, Instruction] = {}
        self.root: Instruction | None = None
        self.is_lone = is_lone


class ParserState:
    """The reader and the computations of one module."""

    __slots__ = ("_anonymous", "_registered", "computations", "depth", "given_names", "pool", "reader", "undefined")

    def __init__(self, reader: HloCursor) -> None:
        self.reader = reader
        self.computations: list[Computation] = []
        """In the order in which they were finished, which is the order of the module."""
        self.pool: dict[str, Computation] = {}
        self.undefined: dict[str, int] = {}
        """Computations that were used but not read yet, and where they were used first."""
        self.depth = 0
        self.given_names: list[str] = []
        self._registered = 0
        self._anonymous = NameUniquer()

    def use(self, name: str, position: int) -> Computation:
        """The computation of a name; one that has not been read yet starts out empty."""
        found = self.pool.get(name)
        if found is None:
            found = self.pool[name] = Computation(name)
            self.undefined[name] = position
        return found

    def define(self, name: str, position: int) -> Computation:
        """The computation that is about to be read under a name."""
        if self.undefined.pop(name, None) is not None:
            return self.pool[name]
        if name in self.pool:
            self.reader.fail_at(position, f"computation {name!r} is defined twice")
        found = self.pool[name] = Computation(name)
        return found

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.reader.fail(f"instructions and computations are nested deeper than {MAX_DEPTH} levels")

    def leave(self) -> None:
        self.depth -= 1

    def anonymous_name(self, op: str) -> str:
        """A name for an instruction written without one, such as the inner one of `add(max(x, y), z)`."""
        for name in self.given_names[self._registered :]:
            self._anonymous.unique(name)
        self._registered = len(self.given_names)
        return self._anonymous.unique(f"{op}.anon")

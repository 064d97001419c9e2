"""`ProgramShape`: the shapes of a computation's parameters and result.

Source: xla_data.proto (ProgramShapeProto); the text is that of XLA's printer. Does not depend on computations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xlapy.base.arguments.checking import checked_class
from xlapy.base.cursor import Cursor
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape, read_shape

_NAME = re.compile(r"\(unknown\)|[^\s:,()]+")


@checked_class
class ProgramShape:
    """The shapes and names of parameters and the shape of the result; compared by value.

    An unknown name is ""; without `parameter_names` all are unknown. Raises ShapeError if the number of names is not
    the number of parameters.

    >>> shape = xla.ProgramShape.parse("(x: f32[2], y: f32[]) -> f32[2]")
    >>> shape.parameter_names, shape.result.dimensions
    (('x', 'y'), (2,))
    """

    __slots__ = ("parameter_names", "parameters", "result")

    def __init__(self, parameters: Iterable[Shape], result: Shape, parameter_names: Iterable[str] = ()) -> None:
        self.parameters: tuple[Shape, ...] = tuple(parameters)
        self.result: Shape = result
        self.parameter_names: tuple[str, ...] = tuple(parameter_names) or ("",) * len(self.parameters)
        if len(self.parameter_names) != len(self.parameters):
            raise ShapeError(
                value_codes.PARAMETER_NAMES,
                f"a program shape of {len(self.parameters)} parameters cannot have "
                f"{len(self.parameter_names)} parameter names",
            )

    @classmethod
    def parse(cls, text: str) -> ProgramShape:
        """Parses `(x: f32[2], y: f32[]) -> f32[2]`. Raises ParseError."""
        cursor = Cursor(text)
        program = read_program_shape(cursor)
        cursor.expect_end("program shape")
        return program

    def to_text(self, layout: bool = False) -> str:
        """XLA's text `(x: f32[2], y: f32[]) -> f32[2]`; an unknown name prints as `(unknown)`."""
        pairs = zip(self.parameter_names, self.parameters, strict=True)
        parameters = ", ".join(f"{name or '(unknown)'}: {shape.to_text(layout)}" for name, shape in pairs)
        return f"({parameters}) -> {self.result.to_text(layout)}"

    def compatible(self, other: ProgramShape) -> bool:
        """Whether parameters and result are equal apart from layouts. Names are not compared."""
        if len(self.parameters) != len(other.parameters) or not self.result.compatible(other.result):
            return False
        return all(a.compatible(b) for a, b in zip(self.parameters, other.parameters, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProgramShape):
            return NotImplemented
        return (
            self.parameters == other.parameters
            and self.result == other.result
            and self.parameter_names == other.parameter_names
        )

    def __hash__(self) -> int:
        return hash((self.parameters, self.result, self.parameter_names))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"ProgramShape.parse({self.to_text(layout=True)!r})"


def read_program_shape(cursor: Cursor) -> ProgramShape:
    """Reads a program shape at the cursor. A `%` before the name of a parameter is dropped."""
    names: list[str] = []
    shapes: list[Shape] = []
    cursor.expect("(", "to start the parameters")
    while not cursor.accept(")"):
        if names:
            cursor.expect(",", "or ')' after a parameter")
        name = cursor.consume(_NAME)
        if name is None:
            cursor.fail(text_codes.TOKEN, f"expected a parameter name, found {cursor.describe_next()}")
        cursor.expect(":", "after the parameter name")
        names.append("" if name == "(unknown)" else name.lstrip("%"))
        shapes.append(read_shape(cursor))
    cursor.expect("->", "before the result shape")
    return ProgramShape(shapes, read_shape(cursor), names)

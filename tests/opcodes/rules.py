"""Helpers for testing shape rules in one line: shapes and program shapes as text, attributes as keywords.

`inferred(op, "f32[2]", k=3)` returns the text of the inferred shape; `refused` checks the code and values of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.raising import Wanted, raises
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import Attributes, Field
from xlapy.opcodes.registry import OpDef


def shapes(texts: Sequence[str]) -> list[Shape]:
    return [Shape.parse(text) for text in texts]


def programs(texts: Sequence[str]) -> list[ProgramShape]:
    return [ProgramShape.parse(text) for text in texts]


def inferred(op: OpDef, *operands: str, calls: Sequence[str] = (), **attributes: Any) -> str:
    """Returns the text, without layouts, of the shape that the op infers."""
    return op.result_shape(shapes(operands), op.attributes.make(**attributes), programs(calls)).to_text(layout=False)


def accepts(op: OpDef, shape: str, *operands: str, calls: Sequence[str] = (), **attributes: Any) -> bool:
    """Checks a declared shape; raises ShapeError if the op rejects it."""
    op.verify(Shape.parse(shape), shapes(operands), op.attributes.make(**attributes), programs(calls))
    return True


def refused(
    wanted: Wanted, op: OpDef, shape: str | None, *operands: str, calls: Sequence[str] = (), **attributes: Any
) -> None:
    """Checks that inference (`shape` is None) or the check of the declared shape raises the wanted error."""
    with raises(ShapeError, *wanted):
        if shape is None:
            inferred(op, *operands, calls=calls, **attributes)
        else:
            accepts(op, shape, *operands, calls=calls, **attributes)


def field(op: OpDef, key: str) -> Field:
    return op.attributes.by_key[key]


def read(op: OpDef, key: str, text: str) -> Any:
    """Parses an attribute from `text` and checks that all of it is consumed."""
    cursor = HloCursor(text)
    value = field(op, key).codec.read(cursor)
    assert cursor.at_end(), f"{text!r} is not read to its end: {cursor.text[cursor.position :]!r} is left"
    return value


def rewritten(op: OpDef, key: str, text: str) -> str:
    """Returns the printed form of an attribute that is parsed from `text`."""
    return field(op, key).codec.write(read(op, key, text))


def written(op: OpDef, attributes: Attributes) -> list[str]:
    """Returns the keys of the printed attributes, in order."""
    return [f.key for f in op.attributes.fields if f.is_printed(getattr(attributes, f.name))]

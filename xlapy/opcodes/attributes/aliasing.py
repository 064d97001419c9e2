"""Output aliases: parts of a result that share the buffer of a part of an operand, in fusions, custom calls, async ops.

Responsible for `OutputAlias`, its codec and its check against shapes. Does not depend on the IR or on memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import control as codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import (
    INTEGERS,
    AttributeCodec,
    BracedListCodec,
    int64_from_text,
    integers_from_text,
)
from xlapy.opcodes.requirements import compatible_ignoring_dynamic


@checked_class
@dataclass(frozen=True, slots=True)
class OutputAlias:
    """The subshape of the result at `output_index` shares the buffer of operand `operand` at `operand_index`."""

    output_index: tuple[int, ...]
    operand: int
    operand_index: tuple[int, ...] = ()


_INDEX = r"\{\s*((?:\d+(?:\s*,\s*\d+)*)?)\s*\}"
_ALIAS = re.compile(_INDEX + r"\s*:\s*\(\s*(-?\d+)\s*,\s*" + _INDEX + r"\s*\)")


class OutputAliasCodec(AttributeCodec[OutputAlias]):
    """`{1}: (0, {})`"""

    def read(self, cursor: HloCursor) -> OutputAlias:
        match = cursor.match(_ALIAS)
        if match is None:
            cursor.fail(
                attributes_codes.ATTRIBUTE_FORM,
                "expected an alias such as {1}: (0, {}): output index, operand number, operand index",
            )
        return OutputAlias(integers_from_text(match[1]), int64_from_text(match[2]), integers_from_text(match[3]))

    def write(self, value: OutputAlias) -> str:
        return f"{INTEGERS.write(value.output_index)}: ({value.operand}, {INTEGERS.write(value.operand_index)})"


OUTPUT_ALIASES = BracedListCodec(OutputAliasCodec(), ", ")


def check_aliases(
    name: str,
    aliases: Sequence[OutputAlias],
    result: Shape,
    operands: Sequence[Shape],
    buffers_are_arrays: bool = False,
) -> None:
    """Raises `ShapeError` unless each alias pairs existing subshapes of the result and an operand that are compatible.

    If `buffers_are_arrays`, `b(f32[2])` and `f32[2]` are compatible.
    """
    for alias in aliases:
        text = OUTPUT_ALIASES.item.write(alias)
        if not 0 <= alias.operand < len(operands):
            raise ShapeError(
                codes.ALIAS_PLACE,
                f"{name}: alias {text} names operand {alias.operand}, but there are {len(operands)} operands",
            )
        output = _subshape(name, text, result, alias.output_index)
        operand = _subshape(name, text, operands[alias.operand], alias.operand_index)
        if buffers_are_arrays:
            output, operand = _without_buffers(output), _without_buffers(operand)
        if not compatible_ignoring_dynamic(output, operand):
            raise ShapeError(
                codes.ALIAS_SHAPES,
                f"{name}: alias {text} pairs output {output.to_text(layout=False)} "
                f"with operand {operand.to_text(layout=False)}",
            )


def _without_buffers(shape: Shape) -> Shape:
    if shape.is_tuple:
        return Shape.tuple(map(_without_buffers, shape.tuple_shapes))
    return shape.buffer_shape or shape


def _subshape(name: str, text: str, shape: Shape, index: tuple[int, ...]) -> Shape:
    try:
        return shape.subshape(index)
    except ShapeError as error:
        raise ShapeError(codes.ALIAS_PLACE, f"{name}: alias {text}: {error.message}") from error

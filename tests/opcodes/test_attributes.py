"""Errors in the text of attributes point at the value that is wrong, not at what follows it."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import field
from xlapy import opcodes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.error_codes.operations import convolution as convolution_codes
from xlapy.base.errors import ParseError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.opcodes.registry import OpDef


@pytest.mark.parametrize(
    ("op", "key", "text", "code", "column"),
    [
        (opcodes.COMPARE, "direction", " ABOVE, type=FLOAT", codes.ATTRIBUTE_WORD, 2),
        (opcodes.SORT, "is_stable", "/* order */ yes, to_apply=f", codes.ATTRIBUTE_WORD, 13),
        (opcodes.CONVOLUTION, "dim_labels", " bf1_oi1->bf1, window={}", convolution_codes.LABEL_TEXT, 2),
    ],
)
def test_the_caret_is_below_the_word(op: OpDef, key: str, text: str, code: ErrorCode, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        field(op, key).codec.read(HloCursor(text))
    assert (caught.value.code, caught.value.column) == (code, column)

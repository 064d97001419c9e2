"""Shape rules of tuple and get-tuple-element."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, refused, written
from xlapy import opcodes
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.opcodes.registry import Effect


@pytest.mark.parametrize(
    ("elements", "shape"),
    [
        ([], "()"),
        (["f32[2]"], "(f32[2])"),
        (["f32[<=2]", "token[]", "(s32[], opaque[])"], "(f32[<=2], token[], (s32[], opaque[]))"),
        (["b(f32[2])"], "(b(f32[2]))"),
    ],
)
def test_tuple(elements: list[str], shape: str) -> None:
    assert inferred(opcodes.TUPLE, *elements) == shape
    assert accepts(opcodes.TUPLE, shape, *elements)
    assert opcodes.TUPLE.effect is Effect.PURE


@pytest.mark.parametrize(("index", "shape"), [(0, "f32[2]"), (1, "(s32[], token[])"), (2, "f32[<=3]")])
def test_get_tuple_element(index: int, shape: str) -> None:
    assert inferred(opcodes.GET_TUPLE_ELEMENT, "(f32[2], (s32[], token[]), f32[<=3])", index=index) == shape


def test_refusals() -> None:
    refused((shared.RESULT_SHAPE, "(f32[2])", "(f32[3])"), opcodes.TUPLE, "(f32[3])", "f32[2]")
    refused((shared.RESULT_SHAPE, "(f32[2])", "f32[2]"), opcodes.TUPLE, "f32[2]", "f32[2]")
    element = opcodes.GET_TUPLE_ELEMENT
    refused((codes.TUPLE_OPERAND, "f32[2]"), element, None, "f32[2]", index=0)
    for index in (2, -1):
        refused(
            (values_codes.TUPLE_INDEX, f"{index}", "(f32[2], s32[])"), element, None, "(f32[2], s32[])", index=index
        )
    refused((shared.RESULT_SHAPE, "((f32[2]))", "f32[2]", "s32[]"), element, "s32[]", "(f32[2])", index=0)
    refused((shared.OPERAND_COUNT, "1", "2"), element, None, "()", "()", index=0)


def test_the_index_is_always_written() -> None:
    assert written(opcodes.GET_TUPLE_ELEMENT, opcodes.GET_TUPLE_ELEMENT.attributes.make(index=0)) == ["index"]

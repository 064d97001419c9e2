"""Shape rules of tuple and get-tuple-element."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, refusal, written
from xlapy import opcodes
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
    assert refusal(opcodes.TUPLE, "(f32[3])", "f32[2]") == "tuple of (f32[2]) has shape (f32[2]), declared (f32[3])"
    assert refusal(opcodes.TUPLE, "f32[2]", "f32[2]") == "tuple of (f32[2]) has shape (f32[2]), declared f32[2]"
    element = opcodes.GET_TUPLE_ELEMENT
    assert refusal(element, None, "f32[2]", index=0) == "get-tuple-element takes a tuple, operand is f32[2]"
    for index in (2, -1):
        assert refusal(element, None, "(f32[2], s32[])", index=index) == (
            f"get-tuple-element: index {index} is out of bounds for (f32[2], s32[]) of 2 elements"
        )
    assert refusal(element, "s32[]", "(f32[2])", index=0) == (
        "get-tuple-element of ((f32[2])) has shape f32[2], declared s32[]"
    )
    assert refusal(element, None, "()", "()", index=0) == "get-tuple-element takes 1 operand, given 2"


def test_the_index_is_always_written() -> None:
    assert written(opcodes.GET_TUPLE_ELEMENT, opcodes.GET_TUPLE_ELEMENT.attributes.make(index=0)) == ["index"]

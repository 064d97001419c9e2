"""Program shapes."""

import pytest
from jax._src.lib import hlo

from tests.raising import raises
from xlapy.base.element_types import F32
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape

X, Y = Shape.parse("f32[2]"), Shape.parse("(s32[], f32[2,3]{0,1})")


def test_text():
    assert ProgramShape([X, Y], X, ["x", "y.1"]).to_text() == "(x: f32[2], y.1: (s32[], f32[2,3])) -> f32[2]"
    assert str(ProgramShape([X], Y)) == "((unknown): f32[2]) -> (s32[], f32[2,3])"
    assert str(ProgramShape([], X)) == "() -> f32[2]"
    assert ProgramShape([X], Y, ["x"]).to_text(layout=True) == "(x: f32[2]{0}) -> (s32[], f32[2,3]{0,1})"


def test_text_is_that_of_xla():
    text = (
        "HloModule m\nENTRY e { x = f32[2] parameter(0) y = s32[] parameter(1) ROOT t = (f32[2], s32[]) tuple(x, y) }"
    )
    module = hlo.hlo_module_from_text(text)
    xla = str(hlo.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape())
    assert xla == "(p0: f32[2], p1: s32[]) -> (f32[2], s32[])"
    assert ProgramShape.parse(xla).to_text() == xla
    assert ProgramShape.parse(xla) == ProgramShape(
        [X, Shape.parse("s32[]")], Shape.tuple([X, Shape.parse("s32[]")]), ["p0", "p1"]
    )


@pytest.mark.parametrize(
    "text", ["() -> f32[]", "(x: f32[2], %y.1: (s32[], token[])) -> ()", "((unknown): b(f32[2])) -> f32[]"]
)
def test_round_trip(text):
    shape = ProgramShape.parse(text)
    assert shape.to_text() == text.replace("%", "")
    assert ProgramShape.parse(shape.to_text(layout=True)) == shape
    assert hash(ProgramShape.parse(text)) == hash(shape)


def test_comparison():
    one = ProgramShape([Y], X, ["a"])
    assert one != ProgramShape([Y], X, ["b"])
    assert one.compatible(ProgramShape([Y.with_default_layout()], X, ["b"]))
    assert one != ProgramShape([Y.with_default_layout()], X, ["a"])
    assert not one.compatible(ProgramShape([Y, Y], X))
    assert not one.compatible(ProgramShape([Y], Shape.scalar(F32)))


def test_errors():
    with raises(ShapeError, value_codes.PARAMETER_NAMES, "2 parameters", "1"):
        ProgramShape([X, X], X, ["x"])
    for text, expected in [
        ("x: f32[]) -> f32[]", (text_codes.TOKEN, "'('")),
        ("(x f32[]) -> f32[]", (text_codes.TOKEN, "':'")),
        ("(x: f32[] y: f32[]) -> f32[]", (text_codes.TOKEN, "','", "')'")),
        ("(: f32[]) -> f32[]", (text_codes.TOKEN, "a parameter name")),
        ("(x: f32[])", (text_codes.TOKEN, "'->'")),
        ("() -> f32[] x", (text_codes.TOKEN, "'x'")),
    ]:
        with raises(ParseError, *expected):
            ProgramShape.parse(text)

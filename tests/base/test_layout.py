"""Layouts: text compared with XLA, checks, immutability."""

import pickle

import pytest
from jax._src.lib import hlo

from tests.raising import raises
from xlapy.base.element_types import F32, U8, U32
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import InvalidArgumentError, ParseError, ShapeError
from xlapy.base.layout import COMBINE_DIMENSION, Layout
from xlapy.base.shape import Shape

TEXTS = [
    "{1,0}",
    "{0,1}",
    "{1,0:T(8,128)}",
    "{1,0:T(8,128)(2,1)L(4)#(u8)*(u32)E(4)S(1)SC(1:200)M(5)}",
    "{1,0:T(*,128)}",
    "{1,0:T()}",
    "{1,0:SC(0:1)(1:2,3)}",
    "{1,0:S(-3)}",
    "{1,0:E(4)S(5)}",
    "{1,0:#(u8)}",
    "{1,0:*(u32)M(64)}",
]


def xla_text(layout: str) -> str:
    module = hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{ ROOT c = f32[2,3]{layout} parameter(0) }}")
    text = module.to_string(hlo.HloPrintOptions.short_parsable())
    return text[text.rindex("f32[2,3]") + len("f32[2,3]") : text.index(" parameter(0)")]


@pytest.mark.parametrize("text", [*TEXTS, "{1,0:}", "{1,0:D(D,C)}", "{ 1 , 0 : T( 8 ) /*x*/ S(1) }", "{1,0:E(0)M(-1)}"])
def test_reads_and_prints_as_xla(text):
    assert Layout.parse(text).to_text() == xla_text(text)


@pytest.mark.parametrize("text", [*TEXTS, "{}", "{:T(8)}", "{0}", "{2,0,1}"])
def test_round_trip(text):
    layout = Layout.parse(text)
    assert layout.to_text() == str(layout) == text
    assert Layout.parse(text) == layout
    assert hash(Layout.parse(text)) == hash(layout)
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_fields():
    layout = Layout.parse("{1,0:T(8,*)(2,1)L(4)#(u8)*(u32)E(4)S(1)SC(1:200)M(5)}")
    assert layout.minor_to_major == (1, 0)
    assert layout.tiles == ((8, COMBINE_DIMENSION), (2, 1))
    assert layout.tail_padding_alignment_in_elements == 4
    assert (layout.index_primitive_type, layout.pointer_primitive_type) == (U8, U32)
    assert (layout.element_size_in_bits, layout.memory_space) == (4, 1)
    assert layout.split_configs == ((1, (200,)),)
    assert layout.dynamic_shape_metadata_prefix_bytes == 5
    assert layout.rank == 2


def test_default():
    assert Layout.default(3) == Layout((2, 1, 0))
    assert Layout.default(3) is Layout.default(3)
    assert Layout.default(0).to_text() == "{}"
    assert Layout.default(2).is_default
    assert not Layout((0, 1)).is_default
    assert not Layout((1, 0), memory_space=1).is_default


def test_a_physical_shape_and_non_integer_types_print():
    layout = Layout((0,), physical_shape=Shape.array(F32, (4,)), index_primitive_type=F32)
    assert layout.to_text() == "{0:#(invalid)P(f32[4]{0})}"


@pytest.mark.parametrize(
    "change",
    [
        {"minor_to_major": (0, 1)},
        {"tiles": ((8,),)},
        {"tail_padding_alignment_in_elements": 2},
        {"index_primitive_type": U8},
        {"pointer_primitive_type": U8},
        {"element_size_in_bits": 4},
        {"memory_space": 2},
        {"split_configs": ((0, (1,)),)},
        {"dynamic_shape_metadata_prefix_bytes": 8},
    ],
    ids=str,
)
def test_every_field_counts_in_equality(change):
    assert Layout.default(2).replace(**change) != Layout.default(2)
    assert Layout.default(2).replace(**change) == Layout.default(2).replace(**change)


def test_immutable_and_replace_checks_names():
    with pytest.raises(AttributeError, match="immutable"):
        Layout.default(2).memory_space = 3
    with raises(InvalidArgumentError, call_codes.CALL_SIGNATURE, "'color'"):
        Layout.default(2).replace(color=1)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Layout((1, 1)), (value_codes.LAYOUT_ORDER, "0..1", "(1, 1)")),
        (lambda: Layout((1, 2)), (value_codes.LAYOUT_ORDER,)),
        (lambda: Layout((0,), ((-1,),)), (value_codes.LAYOUT_NUMBER, "0", "-1")),
        (lambda: Layout((0,), tail_padding_alignment_in_elements=0), (value_codes.LAYOUT_NUMBER, "1", "0")),
        (lambda: Layout((0,), element_size_in_bits=-4), (value_codes.LAYOUT_NUMBER, "element_size_in_bits", "0", "-4")),
        (
            lambda: Layout((0,), dynamic_shape_metadata_prefix_bytes=-4),
            (value_codes.LAYOUT_NUMBER, "prefix_bytes", "0", "-4"),
        ),
    ],
)
def test_impossible_layouts(make, expected):
    with raises(ShapeError, *expected):
        make()


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("1,0", 1, (text_codes.TOKEN, "'{'", "'1'")),
        ("{1,0", 5, (text_codes.TOKEN, "'}'")),
        ("{1,}", 4, (text_codes.TOKEN, "minor_to_major")),
        ("{1,1}", 1, (value_codes.LAYOUT_ORDER,)),
        ("{0:S(1)T(8)}", 8, (text_codes.TOKEN, "'}'", "'T'")),
        ("{0:T}", 5, (text_codes.TOKEN, "'('")),
        ("{0:S(99999999999999999999)}", 6, (text_codes.INTEGER_RANGE, "64")),
        ("{0:#(f32)}", 6, (value_codes.LAYOUT_INDEX_TYPE,)),
        ("{0:*(x)}", 6, (value_codes.LAYOUT_INDEX_TYPE, "'x'")),
        ("{0:L(0)}", 1, (value_codes.LAYOUT_NUMBER, "1", "0")),
        ("{0:P(f32[2])}", 4, (value_codes.DENSE_LAYOUT,)),
        ("{0:D(Q)}", 6, (text_codes.TOKEN, "(D, C, S or H)")),
        ("{0} x", 5, (text_codes.TOKEN, "'x'")),
    ],
)
def test_errors_have_a_position(text, column, expected):
    with raises(ParseError, *expected) as caught:
        Layout.parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)

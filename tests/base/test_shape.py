"""Shapes: text compared with XLA, constructors, comparison, errors, caching."""

import copy
import pickle
import re

import numpy as np
import pytest
from jax._src.lib import hlo

from tests.raising import raises
from xlapy.base.cursor import Cursor
from xlapy.base.element_types import BF16, F32, PRED, S4, S32, TOKEN, U8
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import InvalidArgumentError, ParseError, ShapeError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape, parse_shape, read_shape
from xlapy.base.shape_fields import MAX_TUPLE_DEPTH, MAX_TUPLE_NODES, UNBOUNDED
from xlapy.base.shape_syntax import SHAPE_PATTERN
from xlapy.testing.samples.sample import JAXLIB_TYPES

TEXTS = [
    "f32[]",
    "f32[]{:S(1)}",
    "f32[]{:T(8)}",
    "pred[2]",
    "f32[2,3]{0,1}",
    "f32[2,<=3]",
    "f32[?,2]",
    "f32[<=0]",
    "f32[0,7]",
    "token[]",
    "opaque[]",
    "b(f32[2])",
    "((f32[2]{0}), b(f32[4]{0}))",
    "(f32[2],(),s32[])",
    "()",
    "(f32[2],f32[2],f32[2],f32[2],f32[2],f32[2],f32[2])",
    "(f32[],f32[],f32[],f32[],f32[],/*index=5*/f32[],f32[],f32[],f32[],f32[],/*index=10*/(f32[]))",
    "f32[2,3]{1,0:T(8,128)(2,1)L(4)#(u8)*(u32)E(4)S(1)SC(1:200)M(5)}",
    "f32 [ 2 , 3 ] { 0 , 1 }",
    "f32[2]/*a*/{0}",
    "f32[2]{0:}",
    "u4[2]{0:E(4)}",
    "(token[], opaque[], b(s8[2,2]{0,1}))",
]


def xla_text(shape: str) -> str:
    module = hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{ ROOT c = {shape} parameter(0) }}")
    text = module.to_string(hlo.HloPrintOptions.short_parsable())
    return text[text.index("ROOT c = ") + len("ROOT c = ") : text.index(" parameter(0)")]


@pytest.mark.parametrize("text", TEXTS)
def test_reads_and_prints_as_xla(text):
    shape = Shape.parse(text)
    assert shape.to_text() == str(shape) == xla_text(text)
    assert Shape.parse(str(shape)) == shape
    assert shape.compatible(Shape.parse(shape.to_text(layout=False)))


@pytest.mark.parametrize("type_", JAXLIB_TYPES, ids=str)
def test_every_element_type_as_xla(type_):
    shape = Shape.array(type_, (2, 3))
    assert shape.to_text() == xla_text(shape.to_text(layout=False)) == f"{type_}[2,3]{{1,0}}"


def test_array_fields():
    shape = Shape.array(F32, [2, np.int64(3)], [False, True])
    assert shape.dimensions == (2, 3)
    assert all(type(size) is int for size in shape.dimensions)
    assert shape.dynamic_dimensions == (False, True)
    assert shape.layout == Layout.default(2)
    assert (shape.rank, shape.size, shape.byte_size) == (2, 6, 24)
    assert shape.is_array and shape.is_dynamic and not shape.is_static and not shape.is_scalar
    assert shape.dtype == np.float32
    assert shape.to_text(layout=False) == "f32[2,<=3]"
    assert Shape.array(F32, (2,), layout=None).to_text() == "f32[2]"


def test_tuples_tokens_opaque_objects_and_buffers():
    array = Shape.array(BF16, (4,))
    kinds = [array, Shape.tuple([array]), Shape.token(), Shape.opaque(), Shape.buffer(array)]
    flags = ["is_array", "is_tuple", "is_token", "is_opaque", "is_buffer"]
    assert [[getattr(kind, flag) for flag in flags] for kind in kinds] == np.eye(5, dtype=bool).tolist()
    assert [kind.rank for kind in kinds] == [1, 0, 0, 0, 0]
    assert [kind.byte_size for kind in kinds] == [8, 8, 0, 0, 8]
    assert Shape.tuple([array]).tuple_shapes == (array,)
    assert Shape.buffer(array).buffer_shape == array
    assert Shape.scalar(PRED).is_scalar
    assert not Shape.token().is_scalar


def test_of_numpy():
    assert Shape.of(np.zeros((2, 3), np.int32)) == Shape.parse("s32[2,3]{1,0}")
    assert Shape.of(np.float32(1)) == Shape.parse("f32[]")
    assert Shape.of(np.zeros(2, ">f4")).element_type is F32


def test_byte_size_uses_the_element_size_of_the_layout():
    assert Shape.array(S4, (5,)).byte_size == 5
    assert Shape.array(S4, (5,), layout=Layout((0,), element_size_in_bits=4)).byte_size == 3


def test_equality_and_compatibility():
    row, column = Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[2,3]{0,1}")
    assert row != column
    assert row.compatible(column)
    assert row == Shape.parse("f32[2,3]")
    assert hash(row) == hash(Shape.array(F32, (2, 3)))
    assert row != "f32[2,3]{1,0}"
    for other in ["f32[2,<=3]", "f32[3,2]", "s32[2,3]", "f32[6]", "(f32[2,3])", "b(f32[2,3])", "token[]"]:
        assert not row.compatible(Shape.parse(other))
    nested = Shape.parse("(f32[2,3]{1,0}, (s32[2]{0}))")
    assert nested.compatible(Shape.parse("(f32[2,3]{0,1}, (s32[2]{0:S(1)}))"))
    assert not nested.compatible(Shape.parse("(f32[2,3], (s32[3]))"))
    assert not nested.compatible(Shape.parse("(f32[2,3])"))
    assert not Shape.parse("b(f32[2])").compatible(Shape.parse("b(f32[3])"))


def test_compatible_ignoring_element_type():
    shape = Shape.parse("(f32[2,3], token[])")
    assert shape.compatible_ignoring_element_type(Shape.parse("(s8[2,3]{0,1}, token[])"))
    assert not shape.compatible_ignoring_element_type(Shape.parse("(s8[3,3], token[])"))
    assert not shape.compatible_ignoring_element_type(Shape.parse("(s8[2,3], f32[])"))
    assert not Shape.parse("f32[]").compatible_ignoring_element_type(Shape.token())


def test_changed_copies():
    shape = Shape.parse("f32[2,<=3]{0,1:S(1)}")
    assert str(shape.with_element_type(U8)) == "u8[2,<=3]{0,1:S(1)}"
    assert str(shape.with_dimensions((5,))) == "f32[5]{0}"
    assert str(shape.with_dimensions((5,), (True,))) == "f32[<=5]{0}"
    assert str(shape.with_layout(Layout((1, 0)))) == "f32[2,<=3]{1,0}"
    assert str(shape.without_layout()) == "f32[2,<=3]"
    assert str(shape.with_default_layout()) == "f32[2,<=3]{1,0}"
    nested = Shape.parse("(f32[2,3]{0,1}, (b(s32[2]{0:S(1)}), token[]))")
    assert str(nested.without_layout()) == "(f32[2,3], (b(s32[2]), token[]))"
    assert str(nested.with_default_layout()) == "(f32[2,3]{1,0}, (b(s32[2]{0}), token[]))"
    with raises(ShapeError, value_codes.ARRAY_SHAPE, "token[]"):
        Shape.token().with_layout(None)


def test_leaves_and_subshapes():
    shape = Shape.parse("(f32[2], ((s32[]), token[]), ())")
    assert [(path, leaf.to_text(layout=False)) for path, leaf in shape.leaves()] == [
        ((0,), "f32[2]"),
        ((1, 0, 0), "s32[]"),
        ((1, 1), "token[]"),
    ]
    assert list(Shape.scalar(F32).leaves()) == [((), Shape.scalar(F32))]
    assert shape.subshape(()) is shape
    assert shape.subshape((1, 0, 0)) == Shape.scalar(S32)
    for path in [(3,), (-1,), (0, 0)]:
        with raises(ShapeError, value_codes.TUPLE_INDEX, "(f32[2], ((s32[]), token[]), ())"):
            shape.subshape(path)


def test_immutable_copyable_picklable():
    shape = Shape.parse("(f32[<=2,?]{0,1:S(1)}, b(s32[2]))")
    assert copy.copy(shape) is copy.deepcopy(shape) is shape
    again = pickle.loads(pickle.dumps(shape))
    assert again == shape and hash(again) == hash(shape)
    assert pickle.loads(pickle.dumps(Shape.array(F32, (2, 3)))).size == 6
    with pytest.raises(AttributeError, match="immutable"):
        shape.dimensions = ()
    with raises(InvalidArgumentError, call_codes.CONSTRUCTION):
        Shape()


def test_unbounded_sizes():
    shape = Shape.array(F32, (UNBOUNDED, 2), (True, False))
    assert shape.to_text(layout=False) == "f32[?,2]"
    with raises(ShapeError, value_codes.BOUNDED_DIMENSIONS, "f32[?,2]"):
        _ = shape.size
    with raises(ShapeError, value_codes.ARRAY_SHAPE, "token[]", "element count"):
        _ = Shape.token().size
    with raises(ShapeError, value_codes.ARRAY_SHAPE, "token[]", "dtype"):
        _ = Shape.token().dtype


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Shape.array(F32, (2, -1)), (value_codes.DIMENSION_SIZE, "f32[2, -1]", "dimension 1", "size -1")),
        (lambda: Shape.array(F32, (2**63,)), (value_codes.DIMENSION_SIZE, "dimension 0", "size 9223372036854775808")),
        (lambda: Shape.array(F32, (2**62,)), (value_codes.ARRAY_BYTES, "64-bit")),
        (lambda: Shape.array(U8, (2**32, 2**32)), (value_codes.ARRAY_BYTES, "64-bit")),
        (
            lambda: Shape.array(F32, (UNBOUNDED,)),
            (value_codes.DIMENSION_SIZE, "dimension 0", "size -9223372036854775808"),
        ),
        (lambda: Shape.array(F32, (2.5,)), (value_codes.DIMENSION_SIZE, "f32[2.5]")),
        (lambda: Shape.array(TOKEN, ()), (value_codes.ARRAY_ELEMENT_TYPE, "token")),
        (lambda: Shape.array(F32, (2,), (True, False)), (value_codes.DYNAMIC_FLAGS, "1 dimensions", "2")),
        (lambda: Shape.array(F32, (2, 3), layout=Layout((0,))), (value_codes.LAYOUT_RANK, "2", "{0}", "orders 1")),
        (lambda: Shape.buffer(Shape.token()), (value_codes.BUFFER_SHAPE, "token[]")),
    ],
)
def test_impossible_shapes(make, expected):
    with raises(ShapeError, *expected):
        make()


def test_zero_elements_may_have_huge_dimensions():
    assert Shape.array(F32, (0, 2**62, 9)).size == 0


def test_tuple_depth_is_bounded():
    shape = Shape.scalar(F32)
    for _ in range(MAX_TUPLE_DEPTH):
        shape = Shape.tuple([shape])
    assert Shape.parse(shape.to_text()) == shape
    with raises(ShapeError, value_codes.SHAPE_DEPTH, "nest 65", "64"):
        Shape.tuple([shape])
    for text in ["(" * 65 + ")" * 65, "(" * 100000, "b(" * 100000]:
        with raises(ParseError, value_codes.SHAPE_DEPTH, "64"):
            Shape.parse(text)


def test_tuples_that_share_elements_are_bounded():
    shape = Shape.scalar(F32)
    for level in range(16):
        assert shape.node_count == 2 ** (level + 1) - 1
        shape = Shape.tuple([shape, shape]) if level < 15 else shape
    assert shape.byte_size == 4 << 15
    with raises(ShapeError, value_codes.TUPLE_NODES, "holds 131071", "65536"):
        Shape.tuple([shape, Shape.tuple([shape])])
    with raises(ShapeError, value_codes.TUPLE_NODES, "holds 65537"):
        Shape.tuple([Shape.token()] * (MAX_TUPLE_NODES + 1))
    assert Shape.tuple([Shape.token()] * MAX_TUPLE_NODES).node_count == MAX_TUPLE_NODES + 1


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 1, (text_codes.TOKEN, "a shape")),
        ("f99[2]", 1, (text_codes.TOKEN, "a shape")),
        ("f32.1[2]", 1, (text_codes.TOKEN, "a shape")),
        ("tuple[]", 1, (text_codes.TOKEN, "a shape")),
        ("f32", 4, (text_codes.TOKEN, "'['")),
        ("f32[2", 6, (text_codes.TOKEN, "','", "']'")),
        ("f32[2,]", 7, (text_codes.TOKEN, "an integer for a dimension size")),
        ("f32[-1]", 5, (value_codes.DIMENSION_SIZE, "0", "-1")),
        ("f32[<=?]", 7, (text_codes.TOKEN, "an integer for a dimension size")),
        ("f32[99999999999999999999]", 5, (text_codes.INTEGER_RANGE, "64")),
        ("f32[9223372036854775807]", 1, (value_codes.ARRAY_BYTES, "64-bit")),
        ("f32[" + "9" * 5000 + "]", 5, (text_codes.INTEGER_RANGE, "64")),
        ("f32[2,3]{1}", 9, (value_codes.LAYOUT_RANK, "2", "orders 1")),
        ("f32[2,3]{1,1}", 9, (value_codes.LAYOUT_ORDER, "{1,1}")),
        ("opaque[2]", 1, (value_codes.ARRAY_SHAPE, "opaque")),
        ("token[2]", 1, (value_codes.ARRAY_SHAPE, "token")),
        ("token[]{0}", 8, (text_codes.TOKEN, "'{'")),
        ("(f32[2]", 8, (text_codes.TOKEN, "','", "')'")),
        ("(f32[2],)", 9, (text_codes.TOKEN, "a shape")),
        ("b(token[])", 1, (value_codes.BUFFER_SHAPE, "token[]")),
        ("b(b(f32[2]))", 1, (value_codes.BUFFER_SHAPE, "b(f32[2])")),
        ("f32[2] x", 8, (text_codes.TOKEN, "'x'")),
    ],
)
def test_errors_have_a_position(text, column, expected):
    with raises(ParseError, *expected) as caught:
        Shape.parse(text)
    assert caught.value.column == column


def test_a_body_after_the_result_shape_is_not_a_layout():
    cursor = Cursor("f32[2] { a = f32[2]{0} parameter(0) }")
    assert read_shape(cursor) == Shape.array(F32, (2,))
    assert cursor.accept("{")
    cursor = Cursor("(f32[2], s32[] {:S(1)}), rest", 0)
    assert str(read_shape(cursor)) == "(f32[2]{0}, s32[]{:S(1)})"
    assert cursor.accept(", rest")


def test_the_pattern_matches_one_shape():
    pattern = re.compile(SHAPE_PATTERN)
    for text in ["f32[2,<=3]{1,0:T(8)}", "token[]", "f8e4m3fn[]", "s4[?]{0}", "f32[]{:S(1)}", "bf16[2]{0:SC(0:1)}"]:
        assert pattern.match(text + " rest").group() == text
        assert parse_shape(text).to_text()
    assert pattern.match("f32[2] { a = f32[] }").group() == "f32[2]"
    assert pattern.match("f32[2]{ROOT").group() == "f32[2]"
    assert pattern.match("tuple[]") is None


def test_equal_array_shapes_are_one_object():
    assert Shape.array(F32, (7, 8)) is Shape.array(F32, [7, 8])
    assert Shape.parse("f32[7,8]{1,0}") is Shape.parse("f32[7,8]{1,0}")

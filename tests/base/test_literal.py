"""Literals: making them, comparing them, and their bytes against XLA's protos."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from jax._src.lib import hlo

from tests.raising import raises
from xlapy.base.element_types import ARRAY_TYPES, BF16, C64, F32, F64, PRED, S4, S8, S32, S64, TUPLE, U8, U64
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.layout import Layout
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal
from xlapy.base.shape import Shape
from xlapy.testing.samples.sample import JAXLIB_TYPES

RAW_IN_PROTO = [
    t for t in JAXLIB_TYPES if t.name in ("PRED", "F16", "BF16") or (t.bits <= 8 and not t.name.startswith("F6"))
]


def literal(shape: str, text: str) -> Literal:
    return parse_literal(text, Shape.parse(shape))


def random_literal(element_type, dimensions, seed=0, layout=None) -> Literal:
    """Random bits of every kind the type has."""
    shape = Shape.array(element_type, dimensions, layout=layout or Layout.default(len(dimensions)))
    raw = np.random.default_rng(seed).integers(0, 256, shape.size * element_type.byte_size, dtype=np.uint8)
    if element_type is PRED:
        raw &= 1
    elif element_type.bits < 8:
        raw &= (1 << element_type.bits) - 1
    return Literal.from_bytes(shape, raw.tobytes())


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (1, "s32[]"),
        (True, "pred[]"),
        (1.5, "f32[]"),
        (2j, "c64[]"),
        ([1, 2], "s32[2]"),
        ([[1.0], [2.0]], "f32[2,1]"),
        ([], "f32[0]"),
        (np.float64(1), "f64[]"),
        (np.zeros((2, 0), np.int8), "s8[2,0]"),
        ((1, (2.0, [True])), "(s32[], (f32[], pred[1]))"),
        ((), "()"),
        (np.zeros(2, ml_dtypes.bfloat16), "bf16[2]"),
        (np.array([1], ">i4"), "s32[1]"),
    ],
    ids=str,
)
def test_of_python_and_numpy_values(value, shape):
    assert Literal.of(value).shape == Shape.parse(shape)


def test_of_with_an_element_type():
    assert Literal.of([1, 2], BF16).array.tolist() == [1.0, 2.0]
    assert Literal.of(-8, S4).to_text() == "-8"
    assert Literal.of(2**64 - 1, U64).to_text() == "18446744073709551615"
    assert Literal.of(2.0, S32).to_text() == "2"
    assert Literal.of(1.5, C64).to_text() == "(1.5, 0)"
    assert Literal.of((1, 2), F64).shape.to_text(layout=False) == "(f64[], f64[])"
    made = Literal.of(3)
    assert Literal.of(made) is made


@pytest.mark.parametrize(
    ("value", "element_type", "expected"),
    [
        (300, S8, (value_codes.VALUE_RANGE, "value 300")),
        (-1, U8, (value_codes.VALUE_RANGE, "value -1")),
        (-1, U64, (value_codes.VALUE_RANGE, "value -1")),
        (2**63, S64, (value_codes.VALUE_RANGE, "value 9223372036854775808")),
        (8, S4, (value_codes.VALUE_RANGE, "value 8")),
        ([1, 2**31], None, (value_codes.VALUE_RANGE, "value 2147483648")),
        (1.5, S32, (value_codes.VALUE_RANGE, "value 1.5")),
        (float("nan"), S32, (value_codes.VALUE_RANGE,)),
        (1j, F32, (value_codes.VALUE_RANGE,)),
        (1, TUPLE, (value_codes.ARRAY_ELEMENT_TYPE,)),
        (2**70, None, (value_codes.ARRAY_VALUE,)),
        ([[1], [1, 2]], None, (value_codes.ARRAY_VALUE,)),
        ("text", None, (value_codes.ARRAY_VALUE,)),
        ("3", S32, (value_codes.ARRAY_VALUE,)),
    ],
)
def test_of_refuses(value, element_type, expected):
    with raises(InvalidArgumentError, *expected):
        Literal.of(value, element_type)


def test_arrays_are_read_only_copies():
    array = np.array([1.0, 2.0], np.float32)
    made = Literal.array_of(array)
    array[0] = 9
    assert made.array.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        made.array[0] = 3
    with pytest.raises(AttributeError, match="immutable"):
        made.shape = None
    transposed = Literal.array_of(np.arange(6).reshape(2, 3).T)
    assert transposed.array.flags.c_contiguous
    assert transposed.array.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_array_of_checks_the_shape():
    assert Literal.array_of(np.zeros(3, np.int32), Shape.parse("s32[<=3]")).shape.is_dynamic
    for shape in ["s32[2]", "f32[3]", "(s32[3])", "token[]"]:
        with raises(InvalidArgumentError, value_codes.LITERAL_SHAPE):
            Literal.array_of(np.zeros(3, np.int32), Shape.parse(shape))
    with raises(InvalidArgumentError, value_codes.ARRAY_SHAPE):
        _ = Literal.tuple().array
    with raises(InvalidArgumentError, call_codes.CONSTRUCTION):
        Literal()


def test_equality_is_bitwise():
    assert literal("f32[]", "nan") == literal("f32[]", "nan")
    assert literal("f32[]", "nan") != literal("f32[]", "-nan")
    assert literal("f32[]", "nan(0x1)") != literal("f32[]", "nan")
    assert literal("f32[]", "0.0") != literal("f32[]", "-0.0")
    assert literal("s32[2]", "{1,2}") != literal("s32[1,2]", "{{1,2}}")
    assert literal("s32[1]", "{1}") != literal("u32[1]", "{1}")
    assert literal("s32[1]", "{1}") != literal("s32[<=1]", "{1}")
    assert literal("s32[2,2]{0,1}", "{{1,2},{3,4}}") == literal("s32[2,2]{1,0}", "{{1,2},{3,4}}")
    assert literal("(s32[], f32[1])", "(1, {2})") == Literal.tuple([Literal.of(1), Literal.of([2.0])])
    assert literal("(s32[])", "(1)") != literal("(s32[])", "(2)")
    assert Literal.token() == Literal.token()
    assert Literal.of(1) != 1


def test_hashes_follow_equality():
    for one, other in [
        (literal("f32[2]", "{nan, -0.0}"), literal("f32[2]", "{nan, -0.0}")),
        (literal("s32[2,2]{0,1}", "{{1,2},{3,4}}"), Literal.of([[1, 2], [3, 4]])),
        (Literal.tuple([Literal.of(1)]), Literal.of((1,))),
    ]:
        assert hash(one) == hash(other)
    assert len({Literal.of(i) for i in range(100)}) == 100


def test_elided_literals_equal_only_themselves():
    one, other = literal("f32[4]", "{...}"), literal("f32[4]", "{...}")
    assert one.is_elided
    assert one.array.tolist() == [0, 0, 0, 0]
    assert one == one and one != other
    assert one != Literal.zeros(one.shape)
    assert len({one, other}) == 2


@pytest.mark.parametrize("element_type", ARRAY_TYPES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_round_trip(element_type, packed):
    for dimensions in [(), (0,), (5,), (2, 3, 3)]:
        made = random_literal(element_type, dimensions)
        assert Literal.from_bytes(made.shape, made.to_bytes(packed), packed) == made


def test_bytes_of_narrow_types():
    made = literal("s4[3]", "{1, 2, -3}")
    assert made.to_bytes() == b"\x01\x02\x0d"
    assert made.to_bytes(packed=True) == b"\x21\x0d"
    assert literal("u1[9]", "{1,0,0,1,0,0,0,0,1}").to_bytes(packed=True) == b"\x09\x01"
    assert literal("u2[5]", "{1,2,3,0,1}").to_bytes(packed=True) == b"\x39\x01"
    assert Literal.from_bytes(Shape.parse("s4[1]"), b"\xfd").to_text() == "{-3}"
    assert Literal.from_bytes(Shape.parse("pred[2]"), b"\x02\x00").to_text() == "{1, 0}"


def test_bytes_follow_the_layout():
    made = literal("s16[2,3]{0,1}", "{{1,2,3},{4,5,6}}")
    assert np.frombuffer(made.to_bytes(), "<i2").tolist() == made.flat().tolist() == [1, 4, 2, 5, 3, 6]
    assert Literal.from_bytes(made.shape, made.to_bytes()) == made
    cube = Shape.parse("s32[2,3,4]{0,2,1}")
    made = Literal.array_of(np.arange(24, dtype=np.int32).reshape(2, 3, 4), cube)
    assert Literal.from_flat(cube, made.flat()) == made
    assert made.flat()[:3].tolist() == [0, 12, 1]


@pytest.mark.parametrize("element_type", RAW_IN_PROTO, ids=str)
def test_bytes_are_those_of_xlas_proto(element_type):
    """These types are raw bytes in LiteralProto; a permuted layout shows the order."""
    made = random_literal(element_type, (3, 5), layout=Layout((0, 1)))
    values = made.to_text().replace("-0 ", "-0.0 ").replace("-0,", "-0.0,")  # XLA reads -0 as an integer
    text = f"HloModule m\nENTRY e {{ ROOT c = {made.shape} constant({values}) }}"
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    assert made.to_bytes() in proto


def test_wrong_length_of_bytes():
    with raises(InvalidArgumentError, value_codes.LITERAL_SHAPE, "f32[2]", "takes 8", "7"):
        Literal.from_bytes(Shape.parse("f32[2]"), b"1234567")
    with raises(InvalidArgumentError, value_codes.LITERAL_SHAPE, "s4[3]", "takes 2"):
        Literal.from_bytes(Shape.parse("s4[3]"), b"123", packed=True)
    with raises(InvalidArgumentError, value_codes.LITERAL_SHAPE, "3 elements", "f32[2]"):
        Literal.from_flat(Shape.parse("f32[2]"), np.zeros(3, np.float32))


def test_with_shape():
    made = literal("(s32[2,2], f32[])", "({{1,2},{3,4}}, 5)")
    again = made.with_shape(Shape.parse("(s32[2,2]{0,1}, f32[])"))
    assert str(again.shape) == "(s32[2,2]{0,1}, f32[])"
    assert again == made
    with raises(InvalidArgumentError, value_codes.LITERAL_SHAPE):
        made.with_shape(Shape.parse("(s32[4], f32[])"))


def test_numpy_protocol_and_pickle():
    made = literal("s4[2]", "{1,-2}")
    assert np.asarray(made).tolist() == [1, -2]
    assert np.array(made, dtype=np.int32).dtype == np.int32
    nested = Literal.tuple([made, Literal.token(), literal("bf16[]", "nan(0x1)")])
    assert pickle.loads(pickle.dumps(nested)) == copy.deepcopy(nested) == nested
    assert repr(nested) == "Literal((s4[2], token[], bf16[]) ( {1, -2}, token, nan(0x1) ))"
    assert repr(Literal.zeros(Shape.parse("f32[1000]"))) == "Literal(f32[1000] {...})"


def test_elided_literals_take_no_memory():
    shape = Shape.parse("f32[1000000,1000000,100]")
    elided = Literal.elided(shape)
    assert (elided.shape, elided.array.shape, elided.is_elided) == (shape, shape.dimensions, True)
    again = pickle.loads(pickle.dumps(elided))
    assert (again.shape, again.is_elided) == (shape, True)
    assert copy.deepcopy(elided) is elided
    pair = Literal.elided(Shape.parse("(f32[1000000,1000000,100], (token[]))"))
    assert pair.elements[0].is_elided and pair.elements[1].elements == (Literal.token(),)
    with raises(ShapeError, value_codes.ARRAY_RANK, "most 64"):
        Literal.elided(Shape.parse(f"f32[{','.join('1' * 65)}]"))

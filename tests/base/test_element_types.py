"""Element types: one table, checked against NumPy and ml_dtypes."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from xlapy.base import element_types
from xlapy.base.element_types import ALL_TYPES, ARRAY_TYPES, C64, C128, F32, F64, PRED, S4, U8, PrimitiveType
from xlapy.base.errors import InvalidArgumentError

NUMBERS = {
    "PRIMITIVE_TYPE_INVALID": 0,
    "TUPLE": 13,
    "OPAQUE_TYPE": 14,
    "TOKEN": 17,
    "BUFFER": 34,
    "PRED": 1,
    "S1": 30,
    "S2": 26,
    "S4": 21,
    "S8": 2,
    "S16": 3,
    "S32": 4,
    "S64": 5,
    "U1": 31,
    "U2": 27,
    "U4": 22,
    "U8": 6,
    "U16": 7,
    "U32": 8,
    "U64": 9,
    "F16": 10,
    "BF16": 16,
    "F32": 11,
    "F64": 12,
    "F8E5M2": 19,
    "F8E4M3": 28,
    "F8E4M3FN": 20,
    "F8E4M3B11FNUZ": 23,
    "F8E3M4": 29,
    "F8E5M2FNUZ": 24,
    "F8E4M3FNUZ": 25,
    "F8E8M0FNU": 33,
    "F4E2M1FN": 32,
    "F6E3M2FN": 35,
    "F6E2M3FN": 36,
    "C64": 15,
    "C128": 18,
}


def test_names_and_proto_numbers():
    assert {t.name: t.number for t in ALL_TYPES} == NUMBERS


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_each_type_is_found_by_all_its_keys(type_):
    assert PrimitiveType.from_name(type_.name) is type_
    assert PrimitiveType.from_text(type_.text) is type_
    assert PrimitiveType.from_number(type_.number) is type_
    assert getattr(PrimitiveType, type_.name) is type_
    assert getattr(element_types, type_.name) is type_
    assert str(type_) == type_.text
    assert repr(type_) == type_.name


@pytest.mark.parametrize("type_", ARRAY_TYPES, ids=str)
def test_dtype_and_width_agree(type_):
    assert PrimitiveType.from_dtype(type_.dtype) is type_
    assert type_.dtype.itemsize == type_.byte_size
    digits = "".join(c if c.isdigit() else " " for c in type_.text).split()
    assert type_.bits == (8 if type_ is PRED else int(digits[0]))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_each_type_is_of_exactly_one_kind(type_):
    kinds = [type_.is_floating, type_.is_complex, type_.is_signed, type_.is_unsigned, type_ is PRED]
    assert sum(kinds) == type_.is_array
    assert type_.is_integral == (type_.is_signed or type_.is_unsigned)
    assert type_.is_array == (type_.dtype is not None)


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_copies_and_pickles_are_the_same_object(type_):
    assert copy.copy(type_) is type_
    assert copy.deepcopy([type_])[0] is type_
    assert pickle.loads(pickle.dumps(type_)) is type_


def test_component_types():
    assert C64.component_type is F32
    assert C128.component_type is F64
    assert U8.component_type is U8


def test_complex_types():
    pairs = {t: t.complex_type for t in ALL_TYPES if t.complex_type is not None}
    assert pairs == {PrimitiveType.F32: PrimitiveType.C64, PrimitiveType.F64: PrimitiveType.C128}
    assert all(complex_type.component_type is t for t, complex_type in pairs.items())


def test_from_dtype_accepts_everything_that_numpy_accepts():
    assert PrimitiveType.from_dtype("float32") is F32
    assert PrimitiveType.from_dtype(">f8") is F64
    assert PrimitiveType.from_dtype(bool) is PRED
    assert PrimitiveType.from_dtype(ml_dtypes.int4) is S4
    assert PrimitiveType.from_dtype(np.longlong) is PrimitiveType.S64


@pytest.mark.parametrize(
    ("find", "key", "message"),
    [
        (PrimitiveType.from_text, "f99", "no element type has the spelling 'f99'"),
        (PrimitiveType.from_number, 99, "no element type has the number 99"),
        (PrimitiveType.from_name, "f32", "no element type has the name 'f32'"),
        (PrimitiveType.from_dtype, "U5", "no element type has the dtype"),
        (PrimitiveType.from_dtype, "nonsense", "'nonsense' is not a NumPy dtype"),
    ],
)
def test_unknown_types(find, key, message):
    with pytest.raises(InvalidArgumentError, match=message):
        find(key)

"""Element types: one table, checked against NumPy and ml_dtypes."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from tests.raising import raises
from xlapy.base import element_types
from xlapy.base.element_types import (
    ALL_TYPES,
    ARRAY_TYPES,
    C64,
    C128,
    F32,
    F64,
    PRED,
    S1,
    S4,
    U1,
    U8,
    PrimitiveType,
    ProtocolNumbers,
)
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import InvalidArgumentError

NUMBERS: dict[str, tuple[int | None, ...]] = {
    # PrimitiveType, LiteralProto, PJRT_Buffer_Type, VHLO, builtin
    "PRIMITIVE_TYPE_INVALID": (0, None, 0, None, None),
    "TUPLE": (13, None, None, None, None),
    "OPAQUE_TYPE": (14, None, None, None, None),
    "TOKEN": (17, None, 23, None, None),
    "BUFFER": (34, None, None, None, None),
    "PRED": (1, 2, 1, 0, None),
    "S1": (30, 30, 30, None, None),
    "S2": (26, 26, 24, 31, None),
    "S4": (21, 21, 21, 10, None),
    "S8": (2, 15, 2, 11, None),
    "S16": (3, 17, 3, 12, None),
    "S32": (4, 4, 4, 13, None),
    "S64": (5, 5, 5, 14, None),
    "U1": (31, 31, 31, None, None),
    "U2": (27, 27, 25, 32, None),
    "U4": (22, 22, 22, 15, None),
    "U8": (6, 3, 6, 16, None),
    "U16": (7, 16, 7, 17, None),
    "U32": (8, 6, 8, 18, None),
    "U64": (9, 7, 9, 19, None),
    "F16": (10, 11, 10, 3, 4),
    "BF16": (16, 13, 13, 2, 3),
    "F32": (11, 8, 11, 4, 5),
    "F64": (12, 9, 12, 5, 6),
    "F8E5M2": (19, 19, 16, 7, 22),
    "F8E4M3": (28, 28, 26, 35, 23),
    "F8E4M3FN": (20, 20, 17, 6, 24),
    "F8E4M3B11FNUZ": (23, 23, 18, 29, 27),
    "F8E3M4": (29, 29, 27, 36, 28),
    "F8E5M2FNUZ": (24, 24, 19, 28, 25),
    "F8E4M3FNUZ": (25, 25, 20, 27, 26),
    "F8E8M0FNU": (33, 33, 28, 40, 32),
    "F4E2M1FN": (32, 32, 29, 37, 29),
    "F6E3M2FN": (35, 35, 33, 39, 31),
    "F6E2M3FN": (36, 36, 32, 38, 30),
    "C64": (15, 12, 14, None, None),
    "C128": (18, 18, 15, None, None),
}
"""The numbers as the sources of XLA, StableHLO and MLIR have them: what is written must not change."""


def test_names_and_numbers():
    assert {t.name: (t.number, *t.protocol_numbers) for t in ALL_TYPES} == NUMBERS


@pytest.mark.parametrize("protocol", ProtocolNumbers._fields)
def test_a_number_belongs_to_one_type(protocol):
    numbers = [getattr(t.protocol_numbers, protocol) for t in ALL_TYPES]
    used = [number for number in numbers if number is not None]
    assert len(used) == len(set(used))


def test_only_the_composed_and_1_bit_types_lack_numbers():
    """Bytecode encodes a complex type as the type of its parts; the builtin dialect encodes an integer as its width."""
    composed = {C64, C128}
    assert {t for t in ARRAY_TYPES if t.protocol_numbers.literal is None} == set()
    assert {t for t in ARRAY_TYPES if t.protocol_numbers.pjrt is None} == set()
    assert {t for t in ARRAY_TYPES if t.protocol_numbers.vhlo is None} == composed | {S1, U1}
    assert {t for t in ARRAY_TYPES if t.protocol_numbers.builtin is not None} == {
        t for t in ARRAY_TYPES if t.is_floating
    }


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
    ("find", "key", "expected"),
    [
        (PrimitiveType.from_text, "f99", (codes.ELEMENT_TYPE, "'f99'")),
        (PrimitiveType.from_number, 99, (codes.ELEMENT_TYPE, "number 99")),
        (PrimitiveType.from_name, "f32", (codes.ELEMENT_TYPE, "'f32'")),
        (PrimitiveType.from_dtype, "U5", (codes.ELEMENT_TYPE,)),
        (PrimitiveType.from_dtype, "nonsense", (codes.ELEMENT_TYPE, "'nonsense'")),
    ],
)
def test_unknown_types(find, key, expected):
    with raises(InvalidArgumentError, *expected):
        find(key)

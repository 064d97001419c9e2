"""Protocols take element types from the table of `xlapy.base.element_types`, and cover all of it."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import xlapy
from xlapy.base import element_types
from xlapy.base.element_types import ALL_TYPES, ARRAY_TYPES, S1, PrimitiveType
from xlapy.base.errors import UnsupportedError
from xlapy.base.literal import Literal
from xlapy.pjrt.c_api.types import element_sizes, number_of, type_of
from xlapy.proto.messages import message_class
from xlapy.proto.values import read_literal, write_literal
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import builtin, vhlo
from xlapy.stablehlo.text.print_types import type_text
from xlapy.stablehlo.text.types import ELEMENTS
from xlapy.testing.samples import samples_of

PACKAGE = Path(xlapy.__file__).parent


def decode(read_type, code):
    """The type with this code in bytecode; the reader of a type without fields reads nothing but the code."""
    return read_type(SimpleNamespace(varint=lambda: code, position=0))


def test_protobuf_enumeration():
    values = message_class("ShapeProto").DESCRIPTOR.fields_by_name["element_type"].enum_type.values
    assert {value.name: value.number for value in values} == {t.name: t.number for t in ALL_TYPES}


def test_protobuf_literal_fields():
    fields = {field.name: field.number for field in message_class("LiteralProto").DESCRIPTOR.fields}
    others = {"shape", "tuple_literals", "sparse_indices", "dynamic_sizes"}
    expected = {f"{t.text}s": t.protocol_numbers.literal for t in ARRAY_TYPES}
    assert {name: number for name, number in fields.items() if name not in others} == expected


@pytest.mark.parametrize("type_", ARRAY_TYPES, ids=str)
def test_literals_use_the_field_of_their_type(type_):
    message = message_class("LiteralProto")()
    literal = Literal.array_of(np.ones(2, type_.dtype))
    write_literal(message, literal)
    assert [field.number for field, _ in message.ListFields()] == sorted([1, type_.protocol_numbers.literal])
    assert read_literal(message) == literal


def test_pjrt():
    assert {t: number_of(t) for t in ARRAY_TYPES} == {t: t.protocol_numbers.pjrt for t in ARRAY_TYPES}
    assert [type_of(number_of(t)) for t in ARRAY_TYPES] == list(ARRAY_TYPES)
    assert element_sizes() == {number_of(t): t.dtype.itemsize for t in ARRAY_TYPES}
    with pytest.raises(UnsupportedError, match="PJRT's element type 23 are not known"):
        type_of(number_of(element_types.TOKEN))


@pytest.mark.parametrize("type_", ARRAY_TYPES, ids=str)
def test_bytecode(type_):
    """The codes that the readers decode without reading fields are those of the table."""
    numbers = type_.protocol_numbers
    if numbers.vhlo is not None:
        assert decode(vhlo.read_type, numbers.vhlo) == ir.ScalarType(type_)
    if numbers.builtin is not None:
        assert decode(builtin.read_type, numbers.builtin) == ir.ScalarType(type_)


def test_mlir_text():
    """`i1` is PRED, so S1 can be read as `si1` but not printed; complex types are spelled by their parts."""
    assert set(ELEMENTS.values()) == {t for t in ARRAY_TYPES if not t.is_complex}
    printed = set(ELEMENTS.values()) - {S1}
    assert {ELEMENTS[type_text(ir.ScalarType(t))] for t in printed} == printed


@pytest.mark.parametrize("type_", ARRAY_TYPES, ids=str)
def test_samples(type_):
    assert any(re.search(rf"\b{type_.text}\[", sample.text) for sample in samples_of("elementwise"))


@pytest.mark.parametrize(
    "type_", [PrimitiveType.F8E3M4, PrimitiveType.F8E5M2FNUZ, PrimitiveType.F8E4M3B11FNUZ], ids=str
)
def test_only_the_table_names_a_type_without_special_rules(type_):
    word = re.compile(rf"\b{type_.name}s?\b", re.IGNORECASE)
    naming = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if word.search(path.read_text())]
    assert naming == [Path("base", "element_types.py")]

"""A program gives the same objects when read from text, from a portable artifact, from bytecode, and after it was
written.
"""

from __future__ import annotations

import random
import re

import pytest

from tests.raising import raises
from tests.stablehlo.bytecode.artifacts import artifact, native, text_of
from tests.stablehlo.text.comparison import same
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError, XlaError
from xlapy.stablehlo.bytecode import read_bytecode, write_bytecode
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo.forms import FORMS

FLAG = re.compile(r"\bx\.\w(?=[,}])")
"""A unit attribute, which artifacts cannot hold."""

OTHERS = re.compile(r"\b(chlo|check|interpreter|sdy|arith|tensor|shape)\.|\"x\.y\"")
"""Operations of other dialects, which artifacts cannot hold."""

STABLE = sorted(name for name, text in FORMS.items() if not OTHERS.search(text))


@pytest.mark.parametrize("name", STABLE)
def test_text_and_bytecode_give_the_same_objects(name: str) -> None:
    data = artifact(FLAG.sub(r"\g<0> = true", FORMS[name]))
    read = read_bytecode(data)
    assert same(parse_text(text_of(data)), read) == ""
    assert same(read_bytecode(write_bytecode(read)), read) == ""


VERSIONS = (0, 3, 4, 5, 6)
"""Versions of the bytecode format: before and after use lists, elided locations, native properties, segment sizes."""

AROUND = """
sdy.mesh @mesh = <["a"=4]>
func.func @main(%x: tensor<4x3xf32>, %y: tensor<?x3xf32>, %n: index, %s: f32, %i: i32) -> tensor<2x?xf32> {
  %0 = "tensor.extract_slice"(%x, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>,
    static_offsets = array<i64: -9223372036854775808, 1>, static_sizes = array<i64: 2, -9223372036854775808>,
    static_strides = array<i64: 1, 1>}> : (tensor<4x3xf32>, index, index) -> tensor<2x?xf32>
  %1 = "tensor.collapse_shape"(%x) <{reassociation = [[0, 1]]}> : (tensor<4x3xf32>) -> tensor<12xf32>
  %2 = "shape.shape_of"(%y) : (tensor<?x3xf32>) -> tensor<2xindex>
  %3 = "shape.const_shape"() <{shape = dense<[4, 3]> : tensor<2xindex>}> : () -> tensor<2xindex>
  %4 = "shape.broadcast"(%2, %3) <{error = "no"}> : (tensor<2xindex>, tensor<2xindex>) -> tensor<2xindex>
  %5 = "arith.addi"(%n, %n) <{overflowFlags = #arith.overflow<nsw>}> : (index, index) -> index
  %6 = "arith.cmpi"(%n, %5) <{predicate = 6 : i64}> : (index, index) -> i1
  "cf.assert"(%6) <{msg = "small"}> : (i1) -> ()
  %7 = "math.exp"(%s) <{fastmath = #arith.fastmath<contract>}> : (f32) -> f32
  %8 = "stablehlo.custom_call"(%x) <{call_target_name = "f", api_version = 4 : i32,
    backend_config = {a = 1 : i32, b = "c"}, output_operand_aliases = [#stablehlo.output_operand_alias<
    output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %9 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<
    handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [
    #stablehlo.axis_ref<name = "a", sub_axis_info = (1)2>]>, use_global_device_ids}>
    : (tensor<4x3xf32>) -> tensor<8x3xf32>
  %10 = "stablehlo.exponential"(%x) <{result_accuracy = #stablehlo.result_accuracy<
    atol = 0.5, ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<2x?xf32>
}
"""


@pytest.mark.parametrize("name", [*sorted(FORMS), "around"])
def test_bytecode_of_the_stablehlo_dialect(name: str) -> None:
    text = FORMS.get(name, AROUND)
    read = parse_text(text)
    for version in VERSIONS:
        assert same(read, read_bytecode(native(text, version))) == "", version


def test_narrow_and_unusual_types() -> None:
    names = [*NARROW, "tf32", "index", "none", "tuple<f32, tensor<2xi1>>", "!shape.shape", "!stablehlo.token"]
    names += ["tensor<2x?xf32, #stablehlo.bounds<?, 4>>", "!stablehlo.future<tensor<2xf32>>", "memref<2xf32>"]
    text = f"module attributes {{x.y = [{', '.join(names)}]}} {{}}"
    assert same(parse_text(text), read_bytecode(native(text))) == ""


NARROW = (
    *("i1", "i2", "ui4", "i8", "bf16", "f8E5M2", "f8E4M3", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3B11FNUZ"),
    *("f8E3M4", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E8M0FNU"),
)


def test_properties_of_unsupported_operations_are_rejected() -> None:
    text = """func.func @main(%p: memref<4xf32>, %i: index) -> f32 {
      %0 = memref.load %p[%i] {nontemporal = true} : memref<4xf32>
      return %0 : f32
    }"""
    with raises(UnsupportedError, codes.BYTECODE_ENCODING, "memref.load"):
        read_bytecode(native(text))


def test_damaged_bytecode_raises_only_xla_errors() -> None:
    data = native(AROUND)
    failures = 0
    random_ = random.Random(5)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[random_.randrange(4, len(data))] = random_.randrange(256)
        try:
            read_bytecode(bytes(damaged))
        except XlaError:
            failures += 1
    assert failures > 100

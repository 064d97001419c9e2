"""Programs that XLA cannot express or execute compute the values of the StableHLO specification."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import run
from xlapy.base.error_codes.formats import stablehlo_operations as codes
from xlapy.testing.stablehlo.programs import function

QUANTIZED = "tensor<4x!quant.uniform<i8:f32, 0.5:-20>>"
PER_AXIS = "tensor<2x2x!quant.uniform<i8:f32:1, {0.5:1, 0.25:-1}>>"


def test_quantization_clamps_and_rounds_to_even() -> None:
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4xi8>, tensor<4xf32>",
        f"""%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {QUANTIZED}
        %1 = stablehlo.bitcast_convert %0 : ({QUANTIZED}) -> tensor<4xi8>
        %2 = stablehlo.uniform_dequantize %0 : ({QUANTIZED}) -> tensor<4xf32>
        return %1, %2 : tensor<4xi8>, tensor<4xf32>""",
    )
    stored, numbers = run(text, np.array([1.25, 1.75, 1000.0, -1000.0], np.float32))
    np.testing.assert_array_equal(stored, np.array([-18, -16, 127, -128], np.int8))
    np.testing.assert_array_equal(numbers, np.array([1.0, 2.0, 73.5, -54.0], np.float32))


def test_operations_compute_on_expressed_values() -> None:
    text = function(
        "%x: tensor<4xi8>, %y: tensor<4xi8>",
        "tensor<4xi8>",
        f"""%0 = stablehlo.bitcast_convert %x : (tensor<4xi8>) -> {QUANTIZED}
        %1 = stablehlo.bitcast_convert %y : (tensor<4xi8>) -> {QUANTIZED}
        %2 = stablehlo.add %0, %1 : {QUANTIZED}
        %3 = stablehlo.reverse %2, dims = [0] : {QUANTIZED}
        %4 = stablehlo.bitcast_convert %3 : ({QUANTIZED}) -> tensor<4xi8>
        return %4 : tensor<4xi8>""",
    )
    # (-10 + 20) / 2 + (0 + 20) / 2 = 15, whose storage value is 15 / 0.5 - 20.
    result = run(text, np.array([-10, -128, 127, 0], np.int8), np.array([0, -128, 127, -20], np.int8))
    np.testing.assert_array_equal(result, np.array([0, 127, -128, 10], np.int8))


def test_per_axis_and_sub_channel_scales() -> None:
    blocks = "tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0, 2.0}, {4.0, 8.0}}>>"
    text = function(
        "%x: tensor<2x2xi8>, %y: tensor<2x4xi8>",
        "tensor<2x2xf32>, tensor<2x4xf32>",
        f"""%0 = stablehlo.bitcast_convert %x : (tensor<2x2xi8>) -> {PER_AXIS}
        %1 = stablehlo.uniform_dequantize %0 : ({PER_AXIS}) -> tensor<2x2xf32>
        %2 = stablehlo.bitcast_convert %y : (tensor<2x4xi8>) -> {blocks}
        %3 = stablehlo.uniform_dequantize %2 : ({blocks}) -> tensor<2x4xf32>
        return %1, %3 : tensor<2x2xf32>, tensor<2x4xf32>""",
    )
    by_axis, by_block = run(text, np.array([[1, 3], [5, 7]], np.int8), np.ones((2, 4), np.int8))
    np.testing.assert_array_equal(by_axis, np.array([[0, 1], [2, 2]], np.float32))
    np.testing.assert_array_equal(by_block, np.array([[1, 1, 2, 2], [4, 4, 8, 8]], np.float32))


def test_a_reducer_in_a_wider_type() -> None:
    text = function(
        "%x: tensor<300xbf16>, %z: tensor<bf16>",
        "tensor<f32>",
        """%0 = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<300xbf16>, tensor<bf16>) -> tensor<f32>
        reducer(%a: tensor<f32>, %c: tensor<f32>) {
          %p = stablehlo.add %a, %c : tensor<f32>
          stablehlo.return %p : tensor<f32>
        }
        return %0 : tensor<f32>""",
    )
    ones = np.ones(300, xlapy.PrimitiveType.BF16.dtype)
    assert run(text, ones, ones[0] * 0) == 300


def test_maximum_of_complex_numbers() -> None:
    text = function(
        "%x: tensor<3xcomplex<f32>>, %y: tensor<3xcomplex<f32>>",
        "tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>",
        """%0 = stablehlo.maximum %x, %y : tensor<3xcomplex<f32>>
        %1 = stablehlo.minimum %x, %y : tensor<3xcomplex<f32>>
        %2 = stablehlo.cbrt %x : tensor<3xcomplex<f32>>
        return %0, %1, %2 : tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>""",
    )
    x, y = np.array([1 + 2j, 2 - 1j, 3], np.complex64), np.array([1 + 3j, 1 + 9j, 3], np.complex64)
    greater, lesser, roots = run(text, x, y)
    np.testing.assert_array_equal(greater, np.array([1 + 3j, 2 - 1j, 3], np.complex64))
    np.testing.assert_array_equal(lesser, np.array([1 + 2j, 1 + 9j, 3], np.complex64))
    np.testing.assert_allclose(roots**3, x, rtol=1e-6)


def test_unary_einsum_and_square() -> None:
    text = function(
        "%x: tensor<2x3xf32>, %z: tensor<1xcomplex<f32>>",
        "tensor<3xf32>, tensor<1xcomplex<f32>>",
        """%0 = "stablehlo.unary_einsum"(%x) <{einsum_config = "ij->j"}> : (tensor<2x3xf32>) -> tensor<3xf32>
        %1 = chlo.square %z : tensor<1xcomplex<f32>> -> tensor<1xcomplex<f32>>
        return %0, %1 : tensor<3xf32>, tensor<1xcomplex<f32>>""",
    )
    sums, square = run(text, np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1 + 2j], np.complex64))
    np.testing.assert_array_equal(sums, np.array([3, 5, 7], np.float32))
    np.testing.assert_array_equal(square, np.array([-3 + 4j], np.complex64))


def test_einsum_with_an_ellipsis() -> None:
    text = function(
        "%x: tensor<5x2x3xf32>, %y: tensor<5x3x4xf32>",
        "tensor<5x2x4xf32>",
        """%0 = stablehlo.einsum %x, %y, config = "...ij,...jk->...ik" :
          (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
        return %0 : tensor<5x2x4xf32>""",
    )
    generator = np.random.default_rng(0)
    x, y = generator.random((5, 2, 3), np.float32), generator.random((5, 3, 4), np.float32)
    np.testing.assert_allclose(run(text, x, y), x @ y, rtol=1e-6)


def test_scan_and_ragged_dot() -> None:
    text = function(
        "%x: tensor<4xf32>, %z: tensor<f32>, %a: tensor<3x2xf32>, %b: tensor<2x2x2xf32>, %g: tensor<2xi32>",
        "tensor<4xf32>, tensor<f32>, tensor<3x2xf32>",
        """%0, %1 = chlo.scan(%x) inits(%z) dimension=0 {
        ^bb0(%i: tensor<f32>, %c: tensor<f32>):
          %s = stablehlo.add %i, %c : tensor<f32>
          stablehlo.return %s, %s : tensor<f32>, tensor<f32>
        } : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
        %2 = "chlo.ragged_dot"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
          lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
          rhs_group_dimensions = [0]>}> : (tensor<3x2xf32>, tensor<2x2x2xf32>, tensor<2xi32>) -> tensor<3x2xf32>
        return %0, %1, %2 : tensor<4xf32>, tensor<f32>, tensor<3x2xf32>""",
    )
    a, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    x = np.array([1, 2, 3, 4], np.float32)
    sums, last, product = run(text, x, np.float32(10), a, b, np.array([1, 2], np.int32))
    np.testing.assert_array_equal(sums, [11, 13, 16, 20])
    assert last == 20
    np.testing.assert_array_equal(product, [a[0] @ b[0], a[1] @ b[1], a[2] @ b[1]])


def test_a_ragged_dot_of_a_portable_artifact() -> None:
    """A composite, whose attributes list the dimension numbers in order."""
    numbers = ", ".join(["dense<> : tensor<0xi64>"] * 2 + [f"dense<{n}> : tensor<1xi64>" for n in (1, 2, 0, 1)])
    text = function(
        "%a: tensor<3x2xf32>, %b: tensor<4x2x2xf32>, %g: tensor<2xi32>",
        "tensor<3x4xf32>",
        f"""%0 = stablehlo.composite "chlo.ragged_dot" %a, %b, %g {{composite_attributes = {{
          precision_config = ["HIGHEST", "DEFAULT"], ragged_dot_dimension_numbers = [{numbers}]}},
          decomposition = @chlo.ragged_dot.impl, version = 1 : i32}}
          : (tensor<3x2xf32>, tensor<4x2x2xf32>, tensor<2xi32>) -> tensor<3x4xf32>
        return %0 : tensor<3x4xf32>""",
    )
    a, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(16, dtype=np.float32).reshape(4, 2, 2)
    result = run(text, a, b, np.array([1, 2], np.int32))
    np.testing.assert_array_equal(result, [a[0] @ b[:, 0].T, a[1] @ b[:, 1].T, a[2] @ b[:, 1].T])


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan"])
def test_elementwise_custom_call_targets(name: str) -> None:
    call = f"stablehlo.custom_call @mhlo.{name}(%x) : (tensor<2xf32>) -> tensor<2xf32>"
    text = function("%x: tensor<2xf32>", "tensor<2xf32>", f"%0 = {call}\nreturn %0 : tensor<2xf32>")
    module = xlapy.parse_stablehlo(text)
    assert module.entry_computation.root_instruction.op.name == name


def test_top_k_custom_call_target() -> None:
    text = function(
        "%x: tensor<5xf32>",
        "tensor<2xf32>, tensor<2xi32>",
        """%0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = false},
          mhlo.version = 1 : i64} : (tensor<5xf32>) -> (tensor<2xf32>, tensor<2xi32>)
        return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>""",
    )
    values, places = run(text, np.array([5, 1, 4, 0, 2], np.float32))
    np.testing.assert_array_equal(values, [0, 1])
    np.testing.assert_array_equal(places, [3, 1])


def test_composites() -> None:
    text = """
        func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
          %0 = stablehlo.composite "my.double" %x {composite_attributes = {n = 2 : i64, name = "a"},
            decomposition = @double, version = 3 : i32} : (tensor<3xf32>) -> tensor<3xf32>
          %1 = stablehlo.composite "chlo.erf" %x {decomposition = @double} : (tensor<3xf32>) -> tensor<3xf32>
          return %0, %1 : tensor<3xf32>, tensor<3xf32>
        }
        func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> {
          %0 = stablehlo.add %x, %x : tensor<3xf32>
          return %0 : tensor<3xf32>
        }"""
    call, erf = xlapy.parse_stablehlo(text).entry_computation.root_instruction.operands
    assert call.attributes.is_composite
    assert call.frontend_attributes == {
        "composite.attributes": '{n = 2 : i64, name = "a"}',
        "composite.name": "my.double",
        "composite.version": "3",
    }
    assert erf.op.name == "erf"
    np.testing.assert_array_equal(run(text, np.ones(3, np.float32))[0], 2 * np.ones(3))


@pytest.mark.parametrize("config", ["ii->i", "ii->", "iij->ji", "jii->j", "iii->i"])
def test_einsum_of_repeated_letters(config: str) -> None:
    rank = config.index("-")
    x = (np.arange(3**rank, dtype=np.float32) - 5).reshape((3,) * rank)
    x.flat[1] = np.nan  # This element is on no diagonal.
    expected = np.einsum(config, x)
    type_ = f"tensor<{''.join('3x' * x.ndim)}f32>"
    result = f"tensor<{''.join('3x' * expected.ndim)}f32>"
    text = function(
        f"%x: {type_}",
        result,
        f'%0 = "stablehlo.unary_einsum"(%x) <{{einsum_config = "{config}"}}> : ({type_}) -> {result}\n'
        f"return %0 : {result}",
    )
    for platform in ("interpreter", "cpu"):
        np.testing.assert_array_equal(run(text, x, platform=platform), expected)


def test_einsum_of_a_diagonal_keeps_signs_and_refuses_other_sizes() -> None:
    line = '%0 = "stablehlo.unary_einsum"(%x) <{{einsum_config = "ii->i"}}> : ({0}) -> tensor<2xf32>'
    body = line + "\nreturn %0 : tensor<2xf32>"
    square = function("%x: tensor<2x2xf32>", "tensor<2xf32>", body.format("tensor<2x2xf32>"))
    found = run(square, np.array([[-0.0, 1], [1, 2]], np.float32))
    assert np.signbit(found).tolist() == [True, False]
    oblong = function("%x: tensor<2x3xf32>", "tensor<2xf32>", body.format("tensor<2x3xf32>"))
    with raises(xlapy.errors.ParseError, codes.EINSUM_LABELS, "'i'", "f32[2,3]"):
        xlapy.parse_stablehlo(oblong)


@pytest.mark.parametrize(
    ("mlir", "dtype"), [("i64", np.int64), ("ui8", np.uint8), ("f32", np.float32), ("i16", np.int16)]
)
def test_bitcasts_between_numbers_and_booleans(mlir: str, dtype: type) -> None:
    bits = np.dtype(dtype).itemsize * 8
    numbers, booleans = f"tensor<3x{mlir}>", f"tensor<3x{bits}xi1>"
    text = function(
        f"%x: {numbers}",
        f"{booleans}, {numbers}",
        f"""%0 = stablehlo.bitcast_convert %x : ({numbers}) -> {booleans}
        %1 = stablehlo.bitcast_convert %0 : ({booleans}) -> {numbers}
        return %0, %1 : {booleans}, {numbers}""",
    )
    x = np.random.default_rng(0).integers(0, 256, 3 * bits // 8).astype(np.uint8).view(dtype)
    expected = np.unpackbits(x.view(np.uint8), bitorder="little").reshape(3, bits).astype(bool)
    for platform in ("interpreter", "cpu"):
        unpacked, packed = run(text, x, platform=platform)
        np.testing.assert_array_equal(unpacked, expected)
        assert packed.tobytes() == x.tobytes()


def test_bitcasts_of_the_wrong_number_of_booleans() -> None:
    text = function(
        "%x: tensor<7xi1>",
        "tensor<ui8>",
        "%0 = stablehlo.bitcast_convert %x : (tensor<7xi1>) -> tensor<ui8>\nreturn %0 : tensor<ui8>",
    )
    with raises(xlapy.errors.ParseError, codes.BITCAST_SIZES, "pred[7]", "8 bits"):
        xlapy.parse_stablehlo(text)

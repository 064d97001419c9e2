"""Operations of MLIR's dialects arith, math, cf, shape and tensor, which programs with unknown sizes use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import run
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.shape import Shape
from xlapy.testing.stablehlo.programs import function

INTEGERS = np.array([0, 1, -1, 7, -7, 100, 2**31 - 1, -(2**31), 6], np.int32)
OTHERS = np.array([1, 3, 3, -2, 2, -7, 2**31 - 1, 3, -3], np.int32)
FLOATS = np.array([0.0, -0.0, 1.5, np.nan, np.inf, np.nan, -2.0, 1.0], np.float32)
OTHER_FLOATS = np.array([-0.0, 1.0, 1.5, 1.0, -np.inf, np.nan, np.nan, -3.0], np.float32)


def _binary(name: str, lhs: Any, rhs: Any, element: str, result: str | None = None) -> Any:
    type_ = f"tensor<{len(lhs)}x{element}>"
    given = f"tensor<{len(lhs)}x{result or element}>"
    body = f"%0 = {name} %a, %b : {type_}\nreturn %0 : {given}"
    return run(function(f"%a: {type_}, %b: {type_}", given, body), lhs, rhs)


def _unsigned(function_: Any) -> Any:
    return lambda a, b: function_(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("addi", np.add),
        ("muli", np.multiply),
        ("divsi", lambda a, b: np.trunc(a / b.astype(float)).astype(np.int32)),
        ("remsi", np.fmod),
        ("floordivsi", np.floor_divide),
        ("ceildivsi", lambda a, b: -(-a.astype(np.int64) // b)),
        ("divui", _unsigned(np.floor_divide)),
        ("remui", _unsigned(np.remainder)),
        ("maxui", _unsigned(np.maximum)),
        ("minui", _unsigned(np.minimum)),
        ("minsi", np.minimum),
    ],
)
def test_integers(name: str, expected: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = expected(INTEGERS, OTHERS).astype(np.int64).astype(np.int32)
    np.testing.assert_array_equal(_binary(f"arith.{name}", INTEGERS, OTHERS, "i32"), wanted)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("eq", np.equal),
        ("ne", np.not_equal),
        ("slt", np.less),
        ("sge", np.greater_equal),
        ("ult", _unsigned(np.less)),
        ("uge", _unsigned(np.greater_equal)),
    ],
)
def test_integer_predicates(order: str, expected: Any) -> None:
    found = _binary(f"arith.cmpi {order},", INTEGERS, OTHERS, "i32", "i1")
    np.testing.assert_array_equal(found, expected(INTEGERS, OTHERS))


def test_true_is_minus_one_as_a_signed_bit() -> None:
    a, b = np.array([True, True, False]), np.array([False, True, True])
    np.testing.assert_array_equal(_binary("arith.cmpi slt,", a, b, "i1"), [True, False, False])
    np.testing.assert_array_equal(_binary("arith.cmpi ult,", a, b, "i1"), [False, False, True])
    text = function(
        "%a: tensor<3xi1>, %n: tensor<3xi32>",
        "tensor<3xi32>, tensor<3xi32>, tensor<3xi1>",
        """%0 = arith.extsi %a : tensor<3xi1> to tensor<3xi32>
        %1 = arith.extui %a : tensor<3xi1> to tensor<3xi32>
        %2 = arith.trunci %n : tensor<3xi32> to tensor<3xi1>
        return %0, %1, %2 : tensor<3xi32>, tensor<3xi32>, tensor<3xi1>""",
    )
    signed, unsigned, bits = run(text, a, np.array([2, 3, -1], np.int32))
    np.testing.assert_array_equal(signed, [-1, -1, 0])
    np.testing.assert_array_equal(unsigned, [1, 1, 0])
    np.testing.assert_array_equal(bits, [False, True, True])


ORDERED = {"eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}


@pytest.mark.parametrize(
    "order", ["false", "true", "ord", "uno", "one", "une", *(f"{u}{o}" for u in "ou" for o in ORDERED)]
)
def test_float_predicates(order: str) -> None:
    a, b = FLOATS, OTHER_FLOATS
    is_nan = np.isnan(a) | np.isnan(b)
    plain = {"false": is_nan & False, "true": is_nan | True, "ord": ~is_nan, "uno": is_nan, "one": (a != b) & ~is_nan}
    if order in plain:
        expected = plain[order]
    elif order == "une":
        expected = a != b
    else:
        expected = ORDERED[order[1:]](a, b) | (is_nan if order[0] == "u" else False)
    np.testing.assert_array_equal(_binary(f"arith.cmpf {order},", a, b, "f32", "i1"), expected)


def test_maxnumf_ignores_nan() -> None:
    np.testing.assert_array_equal(_binary("arith.maxnumf", FLOATS, OTHER_FLOATS, "f32"), np.fmax(FLOATS, OTHER_FLOATS))
    np.testing.assert_array_equal(
        _binary("arith.maximumf", FLOATS, OTHER_FLOATS, "f32"), np.maximum(FLOATS, OTHER_FLOATS)
    )


def test_unsigned_conversions() -> None:
    text = function(
        "%n: tensor<2xi32>, %x: tensor<2xf32>",
        "tensor<2xi64>, tensor<2xf32>, tensor<2xi8>, tensor<2xi32>, tensor<2xi32>",
        """%0 = arith.extui %n : tensor<2xi32> to tensor<2xi64>
        %1 = arith.uitofp %n : tensor<2xi32> to tensor<2xf32>
        %2 = arith.trunci %n : tensor<2xi32> to tensor<2xi8>
        %3 = arith.fptoui %x : tensor<2xf32> to tensor<2xi32>
        %4 = arith.bitcast %x : tensor<2xf32> to tensor<2xi32>
        return %0, %1, %2, %3, %4 : tensor<2xi64>, tensor<2xf32>, tensor<2xi8>, tensor<2xi32>, tensor<2xi32>""",
    )
    wide, real, narrow, whole, bits = run(text, np.array([-1, 513], np.int32), np.array([3e9, 1.0], np.float32))
    np.testing.assert_array_equal(wide, [2**32 - 1, 513])
    np.testing.assert_array_equal(real, np.array([2**32, 513], np.float32))
    np.testing.assert_array_equal(narrow, [-1, 1])
    np.testing.assert_array_equal(whole.view(np.uint32), [3_000_000_000, 1])
    np.testing.assert_array_equal(bits, np.array([3e9, 1.0], np.float32).view(np.int32))


BROADCAST = function(
    "%x: tensor<?x3xf32>, %y: tensor<3xf32>",
    "tensor<?x?xf32>",
    """
    %0 = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
    %1 = shape.shape_of %y : tensor<3xf32> -> tensor<1xindex>
    %2 = shape.cstr_broadcastable %0, %1 : tensor<2xindex>, tensor<1xindex>
    %3 = shape.assuming %2 -> (tensor<?x?xf32>) {
      %4 = shape.broadcast %0, %1 : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>
      %5 = stablehlo.dynamic_broadcast_in_dim %x, %4, dims = [0, 1]
        : (tensor<?x3xf32>, tensor<2xindex>) -> tensor<?x?xf32>
      %6 = stablehlo.dynamic_broadcast_in_dim %y, %4, dims = [1]
        : (tensor<3xf32>, tensor<2xindex>) -> tensor<?x?xf32>
      %7 = stablehlo.add %5, %6 : tensor<?x?xf32>
      shape.assuming_yield %7 : tensor<?x?xf32>
    }
    return %3 : tensor<?x?xf32>""",
)


def test_broadcasts_over_computed_shapes() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(run(BROADCAST, x, y, argument_shapes=[Shape.of(x), None]), x + y)


def test_conditions_that_do_not_hold() -> None:
    text = BROADCAST.replace("%y: tensor<3xf32>", "%y: tensor<2xf32>").replace("tensor<3xf32>", "tensor<2xf32>")
    with raises(xlapy.errors.ParseError, codes.ASSERTION, "shape.assuming"):
        xlapy.parse_stablehlo(text, [Shape.parse("f32[2,3]"), None])
    text = function("%n: tensor<i32>", "tensor<i32>", 'cf.assert %p, "p"\nreturn %n : tensor<i32>')
    known = text.replace("cf.assert", "%p = arith.constant false\ncf.assert")
    with raises(xlapy.errors.ParseError, codes.ASSERTION, "cf.assert"):
        xlapy.parse_stablehlo(known)
    unknown = text.replace(
        "cf.assert", "%m = tensor.extract %n[] : tensor<i32>\n%p = arith.cmpi eq, %m, %m : i32\ncf.assert"
    )
    with raises(xlapy.errors.UnsupportedError, codes.ASSERTION, "cf.assert", "'p'"):
        xlapy.parse_stablehlo(unknown)


SIZES = function(
    "%x: tensor<?x4xf32>, %i: tensor<i32>",
    "tensor<?xf32>, tensor<3xindex>, tensor<f32>, tensor<12xf32>",
    """
    %zero = arith.constant 0 : index
    %two = arith.constant 2 : index
    %rows = tensor.dim %x, %zero : tensor<?x4xf32>
    %0 = shape.shape_of %x : tensor<?x4xf32> -> !shape.shape
    %1 = shape.num_elements %0 : !shape.shape -> !shape.size
    %2 = shape.size_to_index %1 : !shape.size
    %half = arith.floordivsi %2, %two : index
    %3 = tensor.from_elements %2 : tensor<1xindex>
    %4 = tensor.reshape %x(%3) : (tensor<?x4xf32>, tensor<1xindex>) -> tensor<?xf32>
    %5 = shape.from_extents %rows, %half, %1 : index, index, !shape.size
    %6 = shape.to_extent_tensor %5 : !shape.shape -> tensor<3xindex>
    %7 = tensor.extract %i[] : tensor<i32>
    %8 = arith.index_cast %7 : i32 to index
    %9 = tensor.extract %x[%8, %two] : tensor<?x4xf32>
    %10 = tensor.splat %9 : tensor<f32>
    %11 = tensor.cast %x : tensor<?x4xf32> to tensor<3x4xf32>
    %12 = tensor.collapse_shape %11 [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
    return %4, %6, %10, %12 : tensor<?xf32>, tensor<3xindex>, tensor<f32>, tensor<12xf32>""",
)


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_sizes_are_computed(platform: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    flat, sizes, one, same = run(SIZES, x, np.int32(1), platform=platform, argument_shapes=[Shape.of(x), None])
    np.testing.assert_array_equal(flat, x.ravel())
    np.testing.assert_array_equal(sizes, [3, 6, 12])
    assert one == x[1, 2]
    np.testing.assert_array_equal(same, x.ravel())


def test_bounded_sizes_are_read_at_run_time() -> None:
    bounded = "tensor<?x4xf32, #stablehlo.bounds<5, ?>>"
    text = function(
        f"%x: {bounded}",
        "tensor<2xindex>, index",
        f"""%zero = arith.constant 0 : index
        %0 = shape.shape_of %x : {bounded} -> tensor<2xindex>
        %1 = tensor.dim %x, %zero : {bounded}
        return %0, %1 : tensor<2xindex>, index""",
    )
    sizes, rows = run(text, np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(sizes, [3, 4])
    assert rows == 3


def test_splitting_shapes() -> None:
    text = function(
        "",
        "tensor<1xindex>, tensor<2xindex>, index, tensor<3xindex>, i1",
        """%i = arith.constant -2 : index
        %one = arith.constant 1 : index
        %0 = shape.const_shape [4, 5, 6] : tensor<3xindex>
        %1:2 = "shape.split_at"(%0, %i) : (tensor<3xindex>, index) -> (tensor<1xindex>, tensor<2xindex>)
        %2 = shape.get_extent %0, %one : tensor<3xindex>, index -> index
        %3 = shape.concat %1#1, %1#0 : tensor<2xindex>, tensor<1xindex> -> tensor<3xindex>
        %4 = shape.shape_eq %0, %3 : tensor<3xindex>, tensor<3xindex>
        return %1#0, %1#1, %2, %3, %4 : tensor<1xindex>, tensor<2xindex>, index, tensor<3xindex>, i1""",
    )
    head, tail, extent, turned, equal = run(text)
    np.testing.assert_array_equal(head, [4])
    np.testing.assert_array_equal(tail, [5, 6])
    assert extent == 5
    np.testing.assert_array_equal(turned, [5, 6, 4])
    assert not equal

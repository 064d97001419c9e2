"""Sizes that are operands: evaluated from the shapes of the arguments, bounded at run time, or rejected."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import run
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.shape import Shape
from xlapy.testing.stablehlo.programs import function


def _exported(signature: str, body: object) -> str:
    """Returns a JAX function lowered for arguments with symbolic sizes."""
    argument = jax.ShapeDtypeStruct(export.symbolic_shape(signature), np.float32)
    return export.export(jax.jit(body))(argument).mlir_module()


@pytest.mark.parametrize(
    ("signature", "body", "sizes"),
    [
        ("a, b", lambda x: jnp.ones(x.shape) + x.sum(axis=0), (3, 4)),
        ("a, b", lambda x: jnp.reshape(x, (-1,))[: x.shape[0]], (3, 4)),
        ("a, 4", lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 2))), (3, 4)),
        ("a", lambda x: jnp.arange(x.shape[0] * 2 - 1) + x[0], (4,)),
        ("a, b", lambda x: jnp.concatenate([x, x], axis=0) @ x.T, (2, 3)),
        ("a, 3", lambda x: jax.lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(3)), (4, 3)),
        ("a", lambda x: jnp.flip(jnp.cumsum(x))[x.shape[0] // 2 :], (5,)),
    ],
)
def test_jax_programs_of_symbolic_shapes(signature: str, body: object, sizes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(sizes).astype(np.float32)
    ours = run(_exported(signature, body), x, argument_shapes=[Shape.of(x)])
    np.testing.assert_allclose(ours, jax.jit(body)(x), rtol=1e-6)  # type: ignore[call-overload]


def test_assertions_on_shapes_are_checked() -> None:
    argument = jax.ShapeDtypeStruct(export.symbolic_shape("2*a"), np.float32)
    text = export.export(jax.jit(lambda x: x + 1))(argument).mlir_module()
    assert xlapy.parse_stablehlo(text, [Shape.parse("f32[4]")]).entry_computation.program_shape.result.dimensions == (
        4,
    )
    with raises(xlapy.errors.ParseError, codes.ASSERTION):
        xlapy.parse_stablehlo(text, [Shape.parse("f32[3]")])


DYNAMIC = function(
    "%x: tensor<?xf32>, %n: tensor<1xi32>",
    "tensor<?xf32>",
    """%0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>""",
)


def test_unknown_sizes_are_rejected() -> None:
    with raises(xlapy.errors.UnsupportedError, codes.KNOWN_SIZES, "argument 0", "tensor<?xf32>"):
        xlapy.parse_stablehlo(DYNAMIC)
    with raises(xlapy.errors.UnsupportedError, codes.KNOWN_SIZES):
        xlapy.parse_stablehlo(DYNAMIC, [Shape.parse("f32[1]")])


def test_argument_shapes_must_fit() -> None:
    with raises(
        xlapy.errors.ParseError, codes.ARGUMENT_SHAPES, "argument 0", "tensor<?xf32>", "argument_shapes", "f32[2,2]"
    ):
        xlapy.parse_stablehlo(DYNAMIC, {0: Shape.parse("f32[2,2]")})
    with raises(xlapy.errors.ParseError, codes.ARGUMENT_SHAPES, "argument 7", "takes 2"):
        xlapy.parse_stablehlo(DYNAMIC, {7: Shape.parse("f32[2]")})


BOUNDED = "tensor<?xf32, #stablehlo.bounds<4>>"


def test_bounded_sizes_are_dynamic_dimensions() -> None:
    text = function(
        "%x: tensor<4xf32>, %n: tensor<i32>, %m: tensor<1xi32>, %s: tensor<f32>",
        f"{BOUNDED}, tensor<i32>, {BOUNDED}",
        f"""%0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> {BOUNDED}
        %1 = stablehlo.get_dimension_size %0, dim = 0 : ({BOUNDED}) -> tensor<i32>
        %2 = stablehlo.dynamic_broadcast_in_dim %s, %m, dims = [] : (tensor<f32>, tensor<1xi32>) -> {BOUNDED}
        return %0, %1, %2 : {BOUNDED}, tensor<i32>, {BOUNDED}""",
    )
    x = np.arange(4, dtype=np.float32)
    cut, size, repeated = run(text, x, np.int32(3), np.array([2], np.int32), np.float32(7))
    np.testing.assert_array_equal(cut, [0, 1, 2])
    assert size == 3
    np.testing.assert_array_equal(repeated, [7, 7])


def test_a_slice_of_known_size_at_unknown_start_indices() -> None:
    text = function(
        "%x: tensor<6xf32>, %i: tensor<1xi32>",
        "tensor<?xf32>",
        """%two = stablehlo.constant dense<2> : tensor<1xi32>
        %one = stablehlo.constant dense<1> : tensor<1xi32>
        %end = stablehlo.add %i, %two : tensor<1xi32>
        %0 = stablehlo.real_dynamic_slice %x, %i, %end, %one :
          (tensor<6xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>""",
    )
    np.testing.assert_array_equal(run(text, np.arange(6, dtype=np.float32), np.array([3], np.int32)), [3, 4])


def test_dynamic_gather_and_convolution() -> None:
    text = function(
        "%x: tensor<3x4xf32>, %i: tensor<2xi32>, %l: tensor<1x4x1xf32>, %k: tensor<2x1x1xf32>",
        "tensor<?x?xf32>, tensor<1x?x1xf32>",
        """%sizes = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
        %pad = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
        %0 = "stablehlo.dynamic_gather"(%x, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
          collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> :
          (tensor<3x4xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
        %1 = "stablehlo.dynamic_conv"(%l, %k, %pad) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64,
          dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}> :
          (tensor<1x4x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
        return %0, %1 : tensor<?x?xf32>, tensor<1x?x1xf32>""",
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    row = np.arange(1, 5, dtype=np.float32).reshape(1, 4, 1)
    gathered, convolved = run(text, x, np.array([2, 0], np.int32), row, np.array([1, 10], np.float32).reshape(2, 1, 1))
    np.testing.assert_array_equal(gathered, x[[2, 0], :3])
    np.testing.assert_array_equal(convolved.ravel(), [10, 21, 32, 43])

"""Programs of the corpus about arrays: data movement, convolution, windows, indexing, sorting, control flow."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from program import bf16, f32, f64, program, s32, spec, u32

Array = Any
IMAGE = f32(2, 9, 9, 4)


def conv(x: Array, kernel: Array, labels: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC"), **options: Any) -> Array:
    options = {"window_strides": (1,) * (x.ndim - 2), "padding": "SAME"} | options
    return lax.conv_general_dilated(x, kernel, dimension_numbers=labels, **options)


@program("elementwise functions of f32", f32(40), f32(40))
def elementwise_f32(x: Array, y: Array) -> Any:
    unary = (
        lax.abs,
        lax.neg,
        lax.sign,
        lax.floor,
        lax.ceil,
        lax.round,
        lax.exp,
        lax.exp2,
        lax.expm1,
        lax.sin,
        lax.cos,
        lax.tan,
        lax.tanh,
        lax.logistic,
        lax.erf,
        lax.erfc,
        lax.cbrt,
        lax.is_finite,
        lax.sinh,
        lax.cosh,
        lax.asinh,
        lax.atan,
    )
    positive = (lax.log, lax.log1p, lax.sqrt, lax.rsqrt, lax.acosh, lax.lgamma, lax.digamma)
    binary = (
        lax.add,
        lax.sub,
        lax.mul,
        lax.div,
        lax.rem,
        lax.max,
        lax.min,
        lax.atan2,
        lax.nextafter,
        lax.eq,
        lax.lt,
    )
    return (
        tuple(function(x) for function in unary),
        tuple(function(1 + lax.abs(x)) for function in positive),
        tuple(function(x, y) for function in binary),
        lax.pow(lax.abs(x), y),
        lax.integer_pow(x, 3),
        lax.clamp(-0.5, x, 0.5),
        lax.select(x < y, x, y),
        lax.asin(lax.sin(x)),
        lax.acos(lax.cos(x)),
        lax.atanh(lax.sin(x)),
    )


@program("elementwise functions of f64", f64(20), f64(20), x64=True)
def elementwise_f64(x: Array, y: Array) -> Any:
    functions = (
        jnp.sin,
        jnp.cos,
        jnp.tanh,
        jnp.exp,
        jnp.expm1,
        jnp.cbrt,
        jnp.floor,
        lax.erf,
        lax.logistic,
        jnp.sinh,
        jnp.arctan,
    )
    return (
        tuple(f(x) for f in functions),
        jnp.hypot(x, y),
        jnp.logaddexp(x, y),
        jnp.fmod(x, y),
        jnp.copysign(x, y),
    )


@program("elementwise functions of complex64", spec("complex64", 12), spec("complex64", 12))
def elementwise_complex64(x: Array, y: Array) -> Any:
    functions = (
        jnp.exp,
        jnp.log,
        jnp.sqrt,
        jnp.sin,
        jnp.cos,
        jnp.tanh,
        jnp.abs,
        jnp.conj,
        jnp.real,
        jnp.imag,
        jnp.angle,
    )
    return (
        tuple(f(x) for f in functions),
        x + y,
        x * y,
        x / y,
        x == y,
        lax.complex(x.real, y.imag),
        jnp.square(x),
    )


@program("integer arithmetic of s32: division, remainder, powers, shifts, bit counts", s32(16), s32(16))
def integers_s32(x: Array, y: Array) -> Any:
    amount = y & 31
    return (
        lax.div(x, y | 1),
        lax.rem(x, y | 1),
        x // (y | 1),
        x % (y | 1),
        lax.shift_left(x, amount),
        x ^ y,
        ~x,
        lax.shift_right_arithmetic(x, amount),
        lax.shift_right_logical(x, amount),
        lax.population_count(x),
        lax.clz(x),
        jnp.abs(x),
        jnp.sign(x),
        lax.integer_pow(x, 5),
        x.astype(jnp.int8),
        x.astype(jnp.float32),
        jnp.gcd(x, y),
        x.astype(jnp.uint16),
        lax.bitcast_convert_type(x, jnp.float32),
        lax.bitcast_convert_type(x, jnp.uint8),
    )


@program("a hash of 32-bit words (wrapping multiplication, rotations)", u32(32))
def hash_u32(x: Array) -> Array:
    def rotate(v: Array, n: int) -> Array:
        return (v << n) | (v >> (32 - n))

    def mix(h: Array, word: Array) -> Any:
        h = h ^ (rotate(word * jnp.uint32(0xCC9E2D51), 15) * jnp.uint32(0x1B873593))
        return rotate(h, 13) * jnp.uint32(5) + jnp.uint32(0xE6546B64), None

    h = lax.scan(mix, jnp.uint32(42), x)[0]
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


@program("conversions between narrow floats and integers", f32(24))
def narrow_types(x: Array) -> Any:
    eights = tuple(
        x.astype(t).astype(jnp.float32) for t in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3b11fnuz)
    )
    fours = x.astype(jnp.int4).astype(jnp.int32), jnp.abs(x).astype(jnp.uint4).astype(jnp.int8)
    return (
        eights,
        fours,
        x.astype(jnp.float16),
        x.astype(jnp.bfloat16),
        x.astype(jnp.int8),
        lax.reduce_precision(x, 5, 7),
    )


@program("half precision polynomial and softmax", spec("float16", 6, 8), spec("float16", 8, 5))
def float16_program(x: Array, weights: Array) -> Any:
    y = ((x * 0.5 + 1) * x - 0.25) * x
    return (
        jax.nn.softmax(y @ weights),
        jnp.sum(y, axis=0),
        jnp.max(y, axis=1),
        jnp.exp(y),
        jnp.where(y > 0, y, -y),
    )


@program("bfloat16 sums, products and comparisons", bf16(5, 7), bf16(5, 7))
def bfloat16_program(x: Array, y: Array) -> Any:
    return (
        x + y * x - y,
        jnp.tanh(x),
        (x @ y.T),
        x.sum(),
        jnp.prod(y, axis=0),
        jnp.maximum(x, y),
        x < y,
        jnp.sort(x, axis=1),
    )


@program("roll, pad, flip, tile, repeat, rot90, stack", f32(4, 6), optimized=True)
def movement(x: Array) -> Any:
    return (
        jnp.roll(x, (1, -2), (0, 1)),
        jnp.pad(x, ((1, 2), (0, 3)), constant_values=7),
        jnp.flip(x, 0),
        jnp.tile(x, (2, 3)),
        jnp.repeat(x, 2, axis=1),
        jnp.rot90(x),
        jnp.pad(x, 2, mode="reflect"),
        jnp.pad(x, 1, mode="edge"),
        jnp.pad(x, 1, mode="wrap"),
        jnp.stack([x, x + 1], axis=1),
        jnp.split(x, 3, axis=1),
        x[::-2, 1::2],
        lax.pad(x, 0.0, ((1, -1, 2), (-2, 0, 1))),
        jnp.moveaxis(x.reshape(2, 2, 6), 0, -1),
        jnp.diagonal(x),
        jnp.tril(x, -1),
        jnp.concatenate([x, x[:, :2]], axis=1),
        jnp.kron(x[:2, :2], x[:2, :3]),
        jnp.trace(x),
        jnp.triu(x, 2),
    )


@program(
    "einsums: batch, outer, diagonal, contraction of several",
    f32(3, 4, 5),
    f32(5, 6),
    f32(3, 6, 4),
    f32(4, 4),
)
def einsums(a: Array, b: Array, c: Array, d: Array) -> Any:
    return (
        jnp.einsum("ijk,kl->ijl", a, b),
        jnp.einsum("ijk,ilj->ikl", a, c),
        jnp.einsum("ijk,kl,ilj->i", a, b, c),
        jnp.einsum("ii->i", d),
        jnp.einsum("ij,kl->ikjl", b, d),
        jnp.einsum("ijk->kji", a),
        jnp.einsum("ijk->j", a),
        jnp.einsum("ij,ij->", d, d),
        jnp.einsum("bjk,jl->bkl", a, d),
        jnp.tensordot(a, c, ((0, 1), (0, 2))),
    )


@program(
    "products of vectors and matrices of many types",
    f32(4),
    f32(4, 5),
    spec("complex64", 4, 3),
    s32(4, 6),
    f32(2, 1, 4, 5),
)
def dots(v: Array, m: Array, z: Array, i: Array, batch: Array) -> Any:
    return (
        v @ v,
        v @ m,
        m.T @ v,
        z.conj().T @ z,
        i.T @ i,
        jnp.outer(v, v),
        batch @ m.T,
        jnp.vdot(z, z),
        jnp.dot(m, 2),
    )


@program("convolutions with strides, explicit and negative padding, dilations", IMAGE, f32(3, 3, 4, 6))
def convolution_windows(x: Array, k: Array) -> Any:
    return (
        conv(x, k),
        conv(x, k, window_strides=(2, 3)),
        conv(x, k, padding="VALID"),
        conv(x, k, padding=((2, 0), (-1, 3))),
        conv(x, k, rhs_dilation=(2, 2)),
        conv(x, k, lhs_dilation=(2, 1), padding=((1, 2), (0, 0))),
        lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    )


@program(
    "grouped and depthwise convolutions, batch groups",
    IMAGE,
    f32(3, 3, 2, 6),
    f32(3, 3, 1, 8),
    f32(3, 3, 4, 4),
)
def convolution_groups(x: Array, grouped: Array, depthwise: Array, batched: Array) -> Any:
    return (
        conv(x, grouped, feature_group_count=2),
        conv(x, depthwise, feature_group_count=4),
        conv(x, batched, batch_group_count=2),
    )


@program(
    "convolutions of one and three dimensions, other orders, no window",
    f32(2, 3, 10),
    f32(5, 3, 4),
    f32(1, 2, 4, 4, 4),
    f32(3, 2, 2, 2, 2),
    f32(4, 3),
    f32(3, 5),
)
def convolution_ranks(line: Array, kernel1: Array, volume: Array, kernel3: Array, flat: Array, kernel0: Array) -> Any:
    return (
        conv(line, kernel1, ("NCW", "OIW", "NCW")),
        conv(volume, kernel3, ("NCDHW", "OIDHW", "NDHWC"), padding="VALID"),
        lax.conv_general_dilated(flat, kernel0, (), (), dimension_numbers=("NC", "IO", "NC")),
    )


@program("gradients of strided, dilated and grouped convolutions", f32(1, 8, 8, 4), f32(3, 3, 2, 4), optimized=True)
def convolution_gradients(x: Array, k: Array) -> Any:
    def loss(x: Array, k: Array) -> Array:
        y = conv(x, k, window_strides=(2, 2), rhs_dilation=(1, 2), feature_group_count=2)
        return (y**2).sum()

    return jax.grad(loss, argnums=(0, 1))(x, k)


@program("reductions: sum, product, extremes, all, any, arg extremes, moments", f32(4, 5, 6))
def reductions(x: Array) -> Any:
    flags = x > 0
    return (
        x.sum(),
        x.sum(1),
        x.prod((0, 2)),
        x.max(0),
        x.min((1, 2)),
        jnp.argmax(x, 1),
        jnp.argmin(x),
        flags.all(0),
        flags.any(2),
        x.mean(1),
        x.std(0),
        x.var((0, 1)),
        jax.scipy.special.logsumexp(x, axis=2),
        jnp.linalg.norm(x, axis=0),
        jnp.ptp(x, 1),
        lax.reduce(x.astype(jnp.int32), 0, lax.bitwise_xor, (0, 1)),
        jnp.count_nonzero(flags),
        jnp.nansum(x, 0),
    )


@program("variadic reduction: value, index and sum at once", f32(6, 7), s32(6, 7))
def variadic_reduce(x: Array, index: Array) -> Any:
    def merge(left: Any, right: Any) -> Any:
        take = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] < right[1]))
        return jnp.where(take, left[0], right[0]), jnp.where(take, left[1], right[1]), left[2] + right[2]

    return lax.reduce((x, index, x), (-jnp.inf, 2**31 - 1, 0.0), merge, (1,))


@program("pooling: max, average, minimum, overlapping, dilated", IMAGE, optimized=True)
def pooling(x: Array) -> Any:
    def window(init: float, function: Any, size: int, stride: int, padding: Any = "VALID", **options: Any) -> Array:
        return lax.reduce_window(x, init, function, (1, size, size, 1), (1, stride, stride, 1), padding, **options)

    return (
        window(-jnp.inf, lax.max, 2, 2),
        window(0.0, lax.add, 3, 2, "SAME") / 9,
        window(jnp.inf, lax.min, 3, 1),
        window(0.0, lax.add, 2, 1, ((0, 0), (1, 2), (0, 1), (0, 0))),
        window(-jnp.inf, lax.max, 2, 1, window_dilation=(1, 3, 2, 1)),
        window(0.0, lax.add, 2, 1, base_dilation=(1, 2, 1, 1)),
    )


@program("gradient of max pooling (select-and-scatter) and average pooling", f32(1, 8, 8, 2))
def pooling_gradient(x: Array) -> Any:
    def maximum(x: Array) -> Array:
        y = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return (y * jnp.arange(y.size).reshape(y.shape)).sum()

    def average(x: Array) -> Array:
        return (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()

    return jax.grad(maximum)(x), jax.grad(average)(x)


@program("cumulative sum, product, extremes, log-sum-exp, forward and reverse", f32(5, 12), s32(12))
def cumulative(x: Array, i: Array) -> Any:
    return (
        lax.cumsum(x, 1),
        lax.cumprod(x, 0),
        lax.cummax(x, 1, reverse=True),
        lax.cummin(x, 0),
        lax.cumlogsumexp(x, 1),
        lax.cumsum(i, reverse=True),
        lax.cummax(i),
    )


@program("indexing: slices, integer arrays, booleans by where, out of bounds modes", f32(5, 6, 4), s32(3), s32(3))
def gathers(x: Array, rows: Array, columns: Array) -> Any:
    return (
        x[rows],
        x[:, columns],
        x[rows, columns],
        x[rows[:, None], :, columns],
        x[1, ..., ::2],
        jnp.take(x, rows, axis=2, mode="clip"),
        x.at[rows + 2, columns].get(mode="fill", fill_value=-1),
        jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        x[-1, rows[0]],
        jnp.where(x > 0, x, x[::-1]),
        jnp.choose(rows % 2, [rows, columns], mode="wrap"),
    )


@program("scatters: set, add, multiply, extremes, windows, out of bounds", f32(6, 5), s32(4), f32(4, 5), f32(4))
def scatters(x: Array, rows: Array, updates: Array, values: Array) -> Any:
    where = x.at[rows]
    return (
        where.add(updates),
        where.multiply(updates),
        where.max(updates),
        where.min(updates),
        x.at[rows, rows % 5].add(values),
        x.at[:, 1:3].set(0.5),
        x.at[rows + 3].add(updates, mode="drop"),
        x.at[rows[0]].set(updates[0]),
        jnp.zeros(6, jnp.int32).at[rows].add(1),
        x.at[jnp.arange(4)].set(updates, unique_indices=True, indices_are_sorted=True),
    )


@program("dynamic slices and updates, in and out of range", f32(8, 6), s32(2), f32(2, 3))
def dynamic_slices(x: Array, start: Array, update: Array) -> Any:
    piece = lax.dynamic_slice(x, (start[0], start[1]), (3, 4))
    updated = lax.dynamic_update_slice(x, update, (start[1], start[0] + 5))
    return (
        piece,
        updated,
        lax.dynamic_index_in_dim(x, start[0], 0),
        lax.dynamic_update_index_in_dim(x, update[0, :1], start[1], 1),
    )


@program(
    "sorting: values, arguments, several keys, descending, top-k",
    f32(4, 16),
    s32(16),
    f32(16),
    optimized=True,
)
def sorts(x: Array, keys: Array, values: Array) -> Any:
    return (
        jnp.sort(x, axis=0),
        jnp.argsort(x, axis=1),
        jnp.argsort(x, axis=1, descending=True),
        jnp.lexsort((values, keys)),
        lax.sort((keys, values, jnp.arange(16)), num_keys=2),
        lax.top_k(x, 5),
        jnp.partition(x, 3, axis=1),
        lax.sort(x, dimension=0, is_stable=False),
    )


@program("median, quantiles, percentiles, unique, searchsorted", f32(9, 5), f32(15), s32(12))
def order_statistics(x: Array, points: Array, integers: Array) -> Any:
    return (
        jnp.median(x, axis=0),
        jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=0),
        jnp.percentile(x, 30.0),
        jnp.searchsorted(jnp.sort(points), points + 0.1),
        jnp.unique(integers, size=8, fill_value=-1),
        jnp.nanmedian(x),
    )


@program("cond and switch with captured values", s32(), f32(4), f32(4))
def conditionals(index: Array, x: Array, y: Array) -> Any:
    picked = lax.switch(index, [lambda a: a + y, lambda a: a * y, lambda a: jnp.sin(a), lambda a: a[::-1]], x)
    branch = lax.cond(x.sum() > 0, lambda a, b: (a, b), lambda a, b: (b, a * 2), x, y)
    nested = lax.cond(index > 1, lambda a: lax.cond(a[0] > 0, jnp.exp, jnp.cos, a), jnp.tan, x)
    return picked, branch, nested


@program("gradient through cond, while-free", f32(), f32(5))
def conditional_gradient(threshold: Array, x: Array) -> Any:
    def loss(t: Array, x: Array) -> Array:
        return lax.cond(t > 0, lambda v: (v**2).sum() * t, lambda v: jnp.sin(v).sum() - t, x)

    return jax.grad(loss, argnums=(0, 1))(threshold, x)


@program("nested while loops with a data-dependent count", s32(), f32(3))
def nested_loops(count: Array, x: Array) -> Any:
    def outer(state: Any) -> Any:
        i, x = state
        x = lax.fori_loop(0, i + 1, lambda j, v: v * 0.9 + j, x)
        return i + 1, x

    return lax.while_loop(lambda s: (s[0] < count) & (s[1].sum() < 1e6), outer, (0, x))


@program("lax.map and vmap of a loop", f32(5, 4), s32(5), optimized=True)
def mapped_loops(x: Array, counts: Array) -> Any:
    power = jax.vmap(lambda v, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + 1), (0, v)))
    return lax.map(lambda v: jnp.cumsum(v) / jnp.linalg.norm(v), x), power(x, counts)


@program("vmap over dot, indexing, convolution and sort", f32(3, 6, 4), f32(3, 4), s32(3), f32(3, 5))
def batched(x: Array, v: Array, index: Array, kernel: Array) -> Any:
    return (
        jax.vmap(jnp.dot)(x, v),
        jax.vmap(lambda a, i: a[i])(x, index),
        jax.vmap(lambda a, i: a.at[i].add(1.0))(x, index),
        jax.vmap(lambda a, k: jnp.convolve(a[:, 0], k, mode="same"))(x, kernel),
        jax.vmap(jnp.sort)(v),
        jax.vmap(lambda a, i: lax.dynamic_slice(a, (i, 0), (2, 4)))(x, index),
        jax.vmap(jax.vmap(jnp.vdot, (None, 0)), (0, None))(v, v),
    )


@program("associative scan of an affine recurrence", f32(13, 3), f32(13, 3))
def associative_scan(a: Array, b: Array) -> Any:
    return lax.associative_scan(lambda left, right: (left[0] * right[0], left[1] * right[0] + right[1]), (a, b))


@program("segment sums, products, extremes and means", f32(20, 3), s32(20))
def segments(x: Array, ids: Array) -> Any:
    total = jax.ops.segment_sum(x, ids, 6)
    return (
        total,
        jax.ops.segment_prod(x, ids, 6),
        jax.ops.segment_max(x, ids, 6),
        jax.ops.segment_min(x[:, 0], ids, 6),
    )


@program("histogram, bincount, digitize, interpolation", f32(50), s32(30), f32(10))
def histograms(x: Array, labels: Array, knots: Array) -> Any:
    counts, edges = jnp.histogram(x, bins=8, range=(-2.0, 2.0))
    grid = jnp.linspace(-3, 3, 10)
    return counts, edges, jnp.bincount(labels, length=10), jnp.digitize(x, grid), jnp.interp(x, grid, knots)

"""Machine code of kernels agrees with their scalar evaluation."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np
import pytest

from tests.cpu.kernel_runner import module_text, run_kernel
from xlapy.base.shape import Shape
from xlapy.loops import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Affine,
    AxisKind,
    Builder,
    Kernel,
    Location,
    Value,
    evaluate,
    print_kernel,
)
from xlapy.loops.types import ScalarType
from xlapy.runtime import Client

SIZES = (1, 5, 16, 17, 64, 100, 131)


def assert_same(kernel: Kernel, seed: int = 0) -> None:
    """Checks that machine code and evaluation leave the same bits in all buffers, which start with random contents."""
    rng = np.random.default_rng(seed)
    arrays = [random_array(rng, buffer.type, buffer.size) for buffer in kernel.buffers]
    expected = {buffer.name: array.copy() for buffer, array in zip(kernel.buffers, arrays, strict=True)}
    evaluate(kernel, expected)
    run_kernel(kernel, arrays)
    for buffer, array in zip(kernel.buffers, arrays, strict=True):
        np.testing.assert_array_equal(array, expected[buffer.name], err_msg=buffer.name)


def random_array(rng: np.random.Generator, type: ScalarType, size: int) -> np.ndarray:
    if type.is_float:
        return rng.integers(-50, 50, size).astype(type.dtype) / 4
    low, high = (-100, 100) if type.bits > 1 else (0, 2)
    return rng.integers(low, high, size).astype(type.dtype)


def elementwise(type: ScalarType, size: int, width: int, body: Callable[[Builder, Value, Value], Value]) -> Kernel:
    b = Builder("elementwise")
    x, y = b.buffer("x", type, size), b.buffer("y", type, size)
    with b.loop(size, AxisKind.VECTOR, width=width) as i:
        result = body(b, b.load(x, i), b.load(y, i))
        out = b.buffer("out", result.type if result.type is not I1 else I8, size, written=True)
        b.store(out, i, b.convert("zext", result, I8) if result.type is I1 else result)
    return b.kernel


FLOAT_OPS = ("add", "sub", "mul", "min", "max", "copysign", "div")
INTEGER_OPS = ("add", "sub", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")


@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("op", FLOAT_OPS)
@pytest.mark.parametrize("type", [F32, F64], ids=str)
def test_float_operations(type, op, width):
    def body(b, x, y):
        safe = b.select(b.compare("oeq", y, b.zero(type)), b.constant(type, 0.5), y)
        return b.binary(op, x, safe)

    assert_same(elementwise(type, 37, width, body))


@pytest.mark.parametrize("op", INTEGER_OPS)
@pytest.mark.parametrize("type", [I8, I16, I32, I64], ids=str)
def test_integer_operations(type, op):
    assert_same(elementwise(type, 37, 8, lambda b, x, y: b.binary(op, x, y)))


@pytest.mark.parametrize("op", ["sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"])
@pytest.mark.parametrize("type", [I8, I32, I64], ids=str)
def test_integer_operations_with_limited_operands(type, op):
    def body(b, x, y):
        small = b.binary("and", y, b.constant(type, 7))
        return b.binary(op, x, b.add(small, b.constant(type, 1)) if op[1:] in ("div", "rem") else small)

    assert_same(elementwise(type, 37, 8, body))


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_integer_comparisons(predicate):
    assert_same(elementwise(I32, 37, 16, lambda b, x, y: b.compare(predicate, x, y)))


@pytest.mark.parametrize("predicate", ["oeq", "une", "olt", "ole", "ogt", "oge", "ord", "uno"])
def test_float_comparisons(predicate):
    assert_same(elementwise(F32, 37, 16, lambda b, x, y: b.compare(predicate, x, b.unary("sqrt", y))))


@pytest.mark.parametrize("op", ["neg", "abs", "sqrt", "floor", "ceil", "rint", "trunc"])
def test_unary_operations_on_floats(op):
    assert_same(elementwise(F64, 37, 8, lambda b, x, y: b.unary(op, x)))


@pytest.mark.parametrize("op", ["neg", "ctlz", "ctpop"])
def test_unary_operations_on_integers(op):
    assert_same(elementwise(I16, 37, 8, lambda b, x, y: b.unary(op, x)))


@pytest.mark.parametrize(
    ("source", "how", "target"),
    [
        (I8, "sext", I32), (I8, "zext", I64), (I64, "trunc", I16), (F32, "fpext", F64), (F64, "fptrunc", F32),
        (I32, "sitofp", F64), (I32, "uitofp", F64), (F64, "fptosi", I8), (F32, "fptoui", I32), (F32, "bitcast", I32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("width", [1, 8])
def test_conversions(source, how, target, width):
    assert_same(elementwise(source, 37, width, lambda b, x, y: b.convert(how, x, target)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("accumulators", [1, 3])
def test_a_sum_in_lanes_takes_every_element_once(size, accumulators):
    """Sums integers, because the order of their additions does not matter."""
    b = Builder("sum")
    x, out = b.buffer("x", F64, 3 * size), b.buffer("out", F64, 3, written=True)
    with b.loop(3, AxisKind.PARALLEL) as row:
        (total,) = b.reduce(
            size,
            [b.constant(F64, 0.25)],
            lambda i, carried: [b.add(carried[0], b.load(x, row * size + i))],
            kind=AxisKind.VECTOR,
            width=8,
            accumulators=accumulators,
            identities=[b.constant(F64, -0.0)],
            combine=lambda left, right: [b.add(left[0], right[0])],
        )
        b.store(out, row, total)
    assert_same(b.kernel)


def test_a_vector_axis_around_a_sum():
    """Sums columns: the vector runs over results, and the sum is a loop inside."""
    b = Builder("columns")
    x, out = b.buffer("x", F32, 9 * 37), b.buffer("out", F32, 37, written=True)
    with b.loop(37, AxisKind.VECTOR, width=16) as column:
        (total,) = b.reduce(9, [b.zero(F32)], lambda i, c: [b.add(c[0], b.load(x, i * 37 + column))])
        b.store(out, column, total)
    assert_same(b.kernel)


@pytest.mark.parametrize("size", SIZES)
def test_strides_and_reversed_runs(size):
    b = Builder("strides")
    x, out = b.buffer("x", I32, 3 * size), b.buffer("out", I32, 2 * size, written=True)
    with b.loop(size, AxisKind.VECTOR, width=16) as i:
        value = b.add(b.load(x, i * 3), b.load(x, i * -1 + (size - 1)))
        b.store(out, i * 2, value)
        b.store(out, i * 2 + 1, b.load(x, Affine()))
    assert_same(b.kernel)


@pytest.mark.parametrize("width", [1, 8])
def test_masked_lanes_leave_memory_unchanged(width):
    """Masked lanes are neither read nor written."""
    b = Builder("mask")
    x, out = b.buffer("x", F32, 10), b.buffer("out", F32, 10, written=True)
    with b.loop(20, AxisKind.VECTOR, width=width) as i:
        place = i - 6
        inside = b.binary(
            "and",
            b.compare("sge", b.value_of(place), b.constant(I64, 0)),
            b.compare("slt", b.value_of(place), b.constant(I64, 10)),
        )
        value = b.load(x, place, inside, b.constant(F32, 3))
        b.store(out, place, b.add(value, value), inside)
    assert_same(b.kernel)


def test_one_element_is_broadcast_to_active_lanes():
    b = Builder("conditional")
    x, flags, out = b.buffer("x", F32, 1), b.buffer("flags", I8, 20), b.buffer("out", F32, 20, written=True)
    with b.loop(20, AxisKind.VECTOR, width=16) as i:
        wanted = b.compare("sgt", b.load(flags, i), b.zero(I8))
        b.store(out, i, b.load(x, Affine(), wanted))
    assert_same(b.kernel)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 40])
def test_a_vector_axis_as_long_as_the_run_wants(size):
    b = Builder("dynamic")
    x, count, out = b.buffer("x", I32, 64), b.buffer("count", I64, 1), b.buffer("out", I32, 64, written=True)
    with b.loop(b.load(count, Affine()), AxisKind.VECTOR, width=16) as i:
        b.store(out, i, b.load(x, i))
    arrays = [np.arange(64, dtype=np.int32), np.array([size]), np.full(64, -1, np.int32)]
    run_kernel(b.kernel, arrays)
    assert arrays[2].tolist() == [*range(size), *[-1] * (64 - size)]


def test_gathers_by_computed_positions():
    b = Builder("gather")
    x, index, out = b.buffer("x", F64, 201), b.buffer("index", I32, 50), b.buffer("out", F64, 50, written=True)
    with b.loop(50, AxisKind.VECTOR, width=8) as i:
        place = b.clamped(b.convert("sext", b.add(b.load(index, i), b.constant(I32, 100)), I64), 200)
        b.store(out, i, b.load(x, place))
    assert_same(b.kernel)


def test_unrolled_loops_carry_values():
    b = Builder("unrolled")
    x, out = b.buffer("x", I64, 6), b.buffer("out", I64, 1, written=True)
    (total,) = b.reduce(
        6, [b.constant(I64, 1)], lambda i, c: [b.add(b.mul(c[0], b.constant(I64, 3)), b.load(x, i))],
        kind=AxisKind.UNROLL,
    )  # fmt: skip
    b.store(out, Affine(), total)
    assert_same(b.kernel)


def test_loops_of_unknown_length_and_branches():
    b = Builder("mixed")
    x, out = b.buffer("x", I32, 20), b.buffer("out", I64, 20, written=True)
    with b.loop(20) as i:
        start = b.binary("and", b.convert("zext", b.load(x, i), I64), b.constant(I64, 31))
        one = b.constant(I64, 1)

        def step(values, one=one):
            return [b.binary("lshr", values[0], one), b.add(values[1], one)]

        _, bits = b.while_loop([start, b.zero(I64)], lambda v: b.compare("ne", v[0], b.zero(I64)), step)
        with b.branch(b.compare("ugt", bits, one)):
            b.store(out, i, bits)
    assert_same(b.kernel)


@pytest.mark.parametrize("width", [1, 4])
def test_a_loop_of_one_iteration_or_none_is_a_branch(width: int):
    """A load in such a loop is not moved before it: here it would be far outside of its buffer."""
    size = 12
    b = Builder("optional")
    x, y = b.buffer("x", I64, size), b.buffer("y", I64, 4)
    out = b.buffer("out", I64, size, written=True)
    with b.loop(3) as row:
        is_first = b.select(
            b.compare("slt", b.value_of(row), b.constant(I64, 1)), b.constant(I64, 1), b.constant(I64, 0)
        )
        is_first.range = (0, 1)
        with b.loop(4, AxisKind.VECTOR, width=width) as i:
            total = b.load(x, row * 4 + i)
            (total,) = b.reduce(is_first, [total], lambda n, c: [b.add(c[0], b.load(y, row * (1 << 40) + i))])
            b.store(out, row * 4 + i, total)
    assert "once" in module_text(b.kernel)
    assert_same(b.kernel)


@pytest.mark.parametrize("columns", [5, 16, 37])
def test_scratch_memory_holds_a_row(columns):
    rows = 6
    b = Builder("normalized")
    x, out = b.buffer("x", F32, rows * columns), b.buffer("out", F32, rows * columns, written=True)
    doubled = b.scratch("doubled", F32, columns)
    with b.loop(rows, AxisKind.PARALLEL) as row:
        with b.loop(columns, AxisKind.VECTOR, width=16) as i:
            value = b.load(x, row * columns + i)
            b.store(doubled, i, b.add(value, value))
        with b.loop(columns, AxisKind.VECTOR, width=16) as i:
            b.store(out, row * columns + i, b.add(b.load(doubled, Affine((), columns - 1)), b.load(doubled, i)))
    assert f"scratch doubled: f32[{columns}]" in print_kernel(b.kernel)
    assert_same(b.kernel)


def test_scratch_memory_is_bounded():
    b = Builder("large")
    with pytest.raises(AssertionError, match="large"):
        b.scratch("s", F64, 1 << 20)


@pytest.mark.parametrize("type", [I8, F32, F64])
@pytest.mark.parametrize("apart", [-17, -16, -3, -2, -1, 1, 2, 3, 7, 16, 17])
def test_strided_loads_do_not_read_past_the_last_element(type: ScalarType, apart: int):
    lanes = 16
    size = (3 * lanes - 1) * abs(apart) + 1
    builder = Builder("apart")
    source = builder.buffer("in", type, size)
    target = builder.buffer("out", type, 3 * lanes, written=True)
    with builder.loop(3 * lanes, AxisKind.VECTOR, width=lanes) as position:
        builder.store(target, position, builder.load(source, position * apart + (size - 1 if apart < 0 else 0)))
    memory = np.frombuffer(mmap.mmap(-1, 5 * mmap.PAGESIZE), np.uint8)
    end = 4 * mmap.PAGESIZE
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + end), mmap.PAGESIZE, 0)
    x = memory[end - size * type.byte_size : end].view(type.dtype)
    x[:] = np.arange(size) % 100
    out = np.zeros(3 * lanes, type.dtype)
    run_kernel(builder.kernel, [x, out])
    np.testing.assert_array_equal(out, x[::apart])


@pytest.mark.parametrize("apart", [2, 3, 4, 6, 16])
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("backward", [False, True])
def test_interleaved_elements_are_loaded_and_stored_as_vectors(apart: int, order: int, backward: bool):
    """Vectors and a tail; one kernel interleaves arrays, another deinterleaves them. backward: groups of interleaved
    elements are in the opposite order."""
    size = 53
    for together in (True, False):
        b = Builder("between")
        source, target = b.buffer("in", F32, size * apart), b.buffer("out", F32, size * apart, written=True)
        with b.loop(size, AxisKind.VECTOR, width=16) as i:
            group = i * -1 + (size - 1) if backward else i
            places = [(group * apart + n, i + n * size) for n in range(apart)]
            pairs = [(near, far) if together else (far, near) for near, far in places]
            values = [b.load(source, read) for _, read in pairs]
            for (written, _), value in list(zip(pairs, values, strict=True))[::order]:
                b.store(target, written, value)
        assert_same(b.kernel)


@pytest.mark.parametrize("apart", [-16, -2, 2, 16])
def test_whole_vectors_of_interleaved_elements_are_shuffled(apart: int):
    count, begin = abs(apart), max(0, 47 * -apart)
    b = Builder("between")
    source, target = b.buffer("in", F32, 48 * count), b.buffer("out", F32, 48 * count, written=True)
    with b.loop(48, AxisKind.VECTOR, width=16) as i:
        values = [b.load(source, i * apart + (begin + n)) for n in range(count)]
        for n, value in enumerate(values):
            b.store(target, i * apart + (begin + n), b.add(value, value))
    text = module_text(b.kernel)
    assert "masked.gather" not in text and "masked.scatter" not in text
    assert_same(b.kernel)


def test_partial_stores_leave_other_elements_unchanged():
    b = Builder("some")
    source, target = b.buffer("in", F32, 64), b.buffer("out", F32, 192, written=True)
    with b.loop(64, AxisKind.VECTOR, width=16) as i:
        value = b.load(source, i)
        b.store(target, i * 3, value)
        b.store(target, i * 3 + 2, b.add(value, value))
    assert_same(b.kernel)


def test_stores_between_which_memory_is_read_keep_their_order():
    b = Builder("order")
    memory = b.buffer("memory", F32, 128, written=True)
    with b.loop(64, AxisKind.VECTOR, width=16) as i:
        b.store(memory, i * 2, b.constant(F32, 7.0))
        b.store(memory, i * 2 + 1, b.add(b.load(memory, i * 2), b.constant(F32, 1.0)))
    assert_same(b.kernel)


@pytest.mark.parametrize("type", [I8, F32, F64])
@pytest.mark.parametrize("count", [2, 3, 10, 16])
@pytest.mark.parametrize("size", [32, 37])
def test_interleaved_stores_keep_the_elements_around_them(type: ScalarType, count: int, size: int):
    """Each of `count` stores writes every `count`-th element; one element before and one after all of them stay
    unchanged.
    """
    builder = Builder("neighbors")
    source = builder.buffer("in", type, size)
    target = builder.buffer("out", type, size * count + 2, written=True)
    with builder.loop(size, AxisKind.VECTOR, width=16) as position:
        value = builder.load(source, position)
        values = [value if n % 2 else builder.add(value, builder.constant(type, n)) for n in range(count)]
        for n, stored in enumerate(values):
            builder.store(target, position * count + (n + 1), stored)
    x = (np.arange(size) % 50).astype(type.dtype)
    out = np.full(size * count + 2, 77, type.dtype)
    run_kernel(builder.kernel, [x, out])
    expected = x[:, None] + np.where(np.arange(count) % 2, 0, np.arange(count)).astype(type.dtype)
    np.testing.assert_array_equal(out[1:-1].reshape(size, count), expected)
    assert out[0] == out[-1] == 77


@pytest.mark.parametrize("count", [2, 10, 18, 19, 34])
@pytest.mark.parametrize(
    ("source", "target"), [("s64", "f64"), ("s64", "f16"), ("f64", "s64"), ("u64", "f32"), ("s16", "f64")]
)
def test_conversions_of_the_last_elements(source: str, target: str, count: int):
    """The remaining elements do not fill a vector. LLVM has miscompiled a remainder of two."""
    text = f"HloModule m\nENTRY e {{ x = {source}[{count}] parameter(0) ROOT r = {target}[{count}] convert(x) }}"
    x = np.arange(3, count + 3).astype(Shape.parse(f"{source}[]").dtype)
    assert np.asarray(Client("cpu").compile(text)(x)).tolist() == x.tolist()


@pytest.mark.parametrize("t", ["f8e4m3", "f8e4m3fn", "f8e5m2", "s8", "bf16", "f16"])
@pytest.mark.parametrize("count", [1, 9, 17, 33, 65])
def test_a_tail_of_one_element_does_not_overwrite_what_follows(t: str, count: int):
    """LLVM has also stored the bytes that a number had before it was narrowed."""
    text = f"""HloModule m
ENTRY e {{
  x = {t}[{count + 7}] parameter(0)
  y = {t}[{count}] parameter(1)
  zero = s32[] constant(0)
  z = {t}[{count}] add(y, y)
  ROOT r = {t}[{count + 7}] dynamic-update-slice(x, z, zero)
}}"""
    dtype = Shape.parse(f"{t}[]").dtype
    x, y = np.full(count + 7, 3, dtype), (np.arange(count) % 4).astype(dtype)
    expected = [*(2 * y.astype(np.float32)).tolist(), *[3.0] * 7]
    assert np.asarray(Client("cpu").compile(text)(x, y)).astype(np.float32).tolist() == expected


@pytest.mark.parametrize(("for_write", "operands"), [(False, "i32 0, i32 2, i32 1"), (True, "i32 1, i32 3, i32 1")])
def test_a_prefetch_is_for_reading_or_writing(for_write: bool, operands: str) -> None:
    b = Builder("prefetch")
    out = b.buffer("out", F32, 100, written=True)
    with b.loop(100) as i:
        b.prefetch(Location(out, i), for_write=for_write)
        b.store(out, i, b.zero(F32))
    (call,) = [line for line in module_text(b.kernel).splitlines() if "call void @llvm.prefetch" in line]
    assert operands in call


def test_a_prefetch_changes_no_value() -> None:
    b = Builder("k")
    source, target = b.buffer("in", F32, 100), b.buffer("out", F32, 100, written=True)
    with b.loop(100, AxisKind.PARALLEL) as i:
        b.prefetch(Location(source, b.clamped(b.value_of(i + 32), 99)))
        b.store(target, i, b.load(source, i))
    assert "prefetch in[" in print_kernel(b.kernel)
    assert "llvm.prefetch" in module_text(b.kernel)
    assert_same(b.kernel)

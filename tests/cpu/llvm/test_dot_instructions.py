"""Dot instructions as machine code: the instructions that each processor has, and their results, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.instruction_sets import stages_for
from tests.cpu.kernel_runner import run_kernel
from xlapy.base import flags
from xlapy.cpu import target
from xlapy.cpu.llvm import processor
from xlapy.cpu.llvm.dot_instructions import dot_instructions
from xlapy.loops import I8, I16, I32, Affine, AxisKind, Builder, Location, evaluate
from xlapy.loops.dot_instructions import BF16_PAIRS, S16_PAIRS, U8_S8_QUADS, DotInstruction

RNG = np.random.default_rng(5)
AVAILABLE = sorted(dot_instructions(processor.host_processor()), key=str)
SPECIAL = np.array([0, 0x8000, 1, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0x7F7F, 0xFF7F, 0x0080], np.uint16)


def dots(instruction: DotInstruction, size: int, width: int) -> Builder:
    builder = Builder("k")
    left, right = builder.buffer("left", I32, size), builder.buffer("right", I32, size)
    total, out = (
        builder.buffer("total", instruction.sum, size),
        builder.buffer("out", instruction.sum, size, written=True),
    )
    with builder.loop(size, AxisKind.VECTOR, width=width) as lane:
        args = [builder.load(buffer, lane) for buffer in (left, right, total)]
        builder.store(out, lane, builder.op("dot", instruction.sum, *args, attribute=instruction))
    return builder


def groups(instruction: DotInstruction, size: int) -> np.ndarray:
    if instruction is BF16_PAIRS:
        bits = (RNG.standard_normal(2 * size) * 2.0 ** RNG.integers(-6, 6, 2 * size)).astype(np.float32).view(np.uint32)
        halves = (bits >> 16).astype(np.uint16)
        where = RNG.random(2 * size) < 0.1
        halves[where] = RNG.choice(SPECIAL, int(where.sum()))
        return halves.view(np.int32)
    return RNG.integers(-(2**31), 2**31, size).astype(np.int32)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("instruction", AVAILABLE, ids=str)
def test_results_equal_the_definition(instruction, width):
    if width * 4 > processor.vector_bytes():
        width = processor.vector_bytes() // 4
    size = 240
    total = RNG.standard_normal(size).astype(np.float32) if instruction.sum.is_float else groups(instruction, size)
    memory = {"left": groups(instruction, size), "right": groups(instruction, size), "total": total}
    kernel = dots(instruction, size, width).kernel
    results = [np.zeros(size, instruction.sum.dtype) for _ in range(2)]
    evaluate(kernel, {**memory, "out": results[0]})
    run_kernel(kernel, [*memory.values(), results[1]])
    np.testing.assert_array_equal(results[1], results[0])


@pytest.mark.parametrize("type", [I8, I16])
@pytest.mark.parametrize("rows, columns", [(1, 37), (5, 16), (3, 4)])
def test_wide_loads_at_any_alignment(type, rows, columns):
    """Each row begins at an odd element; the last groups are loaded under a mask."""
    count = 4 // type.byte_size
    pitch = count * columns + 1
    builder = Builder("k")
    source = builder.buffer("a", type, rows * pitch)
    out = builder.buffer("out", I32, rows * columns, written=True)
    row_sums = builder.buffer("firsts", I32, rows, written=True)
    with builder.loop(rows) as row:
        with builder.loop(columns, AxisKind.VECTOR, width=8) as column:
            builder.store(
                out,
                row * columns + column,
                builder.load_wide(I32, Location(source, row * pitch + column * count), None),
            )
        builder.store(row_sums, row, builder.load_wide(I32, Location(source, row * pitch + 1), None))
    data = RNG.integers(0, 256, rows * pitch * type.byte_size).astype(np.uint8).view(type.dtype)
    results = [np.zeros(rows * columns, np.int32), np.zeros(rows, np.int32)]
    run_kernel(builder.kernel, [data, *results])
    table = data.reshape(rows, pitch)
    np.testing.assert_array_equal(results[0].reshape(rows, columns), table[:, :-1].copy().view(np.int32))
    np.testing.assert_array_equal(results[1], table[:, 1 : 1 + count].copy().view(np.int32)[:, 0])


def test_a_scalar_wide_load_under_a_mask():
    builder = Builder("k")
    source, out = builder.buffer("a", I16, 3), builder.buffer("out", I32, 2, written=True)
    with builder.loop(2) as position:
        ends = builder.value_of(position * 2 + 1)
        is_inside = builder.compare("slt", ends, builder.constant(ends.type, 3))
        last = builder.convert("zext", builder.load(source, Affine((), 2)), I32)
        builder.store(out, position, builder.load_wide(I32, Location(source, position * 2), is_inside, last))
    result = np.zeros(2, np.int32)
    run_kernel(builder.kernel, [np.array([1, 2, 3], np.int16), result])
    assert result.tolist() == [2 << 16 | 1, 3]


@pytest.mark.parametrize(
    "level, expected",
    [
        ("SSE4_2", {S16_PAIRS}),
        ("AVX2", {S16_PAIRS}),
        ("AVX512", {S16_PAIRS}),
        ("AVX512_VNNI", {S16_PAIRS, U8_S8_QUADS}),
        ("AVX512_BF16", {S16_PAIRS, U8_S8_QUADS, BF16_PAIRS}),
    ],
)
def test_dot_instructions_of_each_level(level, expected):
    assert dot_instructions(processor.LEVELS[level]) == expected


def test_avx_vnni_without_avx512():
    alder_lake = processor.Processor("alderlake", processor.LEVELS["AVX2"].features | {"avxvnni"})
    assert dot_instructions(alder_lake) == {S16_PAIRS, U8_S8_QUADS}


def test_a_processor_of_another_architecture_has_none():
    assert dot_instructions(processor.Processor("generic", frozenset({"neon"}))) == frozenset()


@pytest.mark.parametrize(
    "level, types, instruction",
    [
        ("AVX512_BF16", ("bf16", "f32"), "vdpbf16ps"),
        ("AVX512_BF16", ("s8", "s32"), "vpdpbusd"),
        ("AVX512_VNNI", ("u8", "s32"), "vpdpbusd"),
        ("AVX2", ("s8", "s32"), "vpmaddwd"),
        ("SSE4_2", ("s16", "s32"), "pmaddwd"),
    ],
)
def test_code_for_each_level(level, types, instruction):
    operand, result = types
    text = f"""HloModule m
ENTRY e {{
  a = {operand}[64,64] parameter(0)
  b = {operand}[64,64] parameter(1)
  ROOT r = {result}[64,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    assert instruction in stages_for(level, text)["s"]


def test_flags_restrict_the_instructions(monkeypatch):
    monkeypatch.setattr(processor, "_limited", lambda _: processor.LEVELS["AVX512_BF16"])

    def instructions(**changes: str | bool) -> frozenset[DotInstruction]:
        values = flags.Flags().replace(**changes)
        monkeypatch.setattr(flags, "current", lambda: values)
        return target.host_target().dot_instructions

    assert instructions() == {S16_PAIRS, U8_S8_QUADS, BF16_PAIRS}
    assert instructions(denormals="keep") == {S16_PAIRS, U8_S8_QUADS}
    assert instructions(dot_instructions=False) == frozenset()

"""The meaning of matrix products of tiles in loop IR, and their machine code, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.instruction_sets import limited_to, processor_of
from tests.cpu.kernel_runner import run_kernel
from xlapy.cpu.llvm import processor
from xlapy.cpu.llvm.jit import listings
from xlapy.cpu.llvm.vectors.matrix_products import TILED, emit_matrix_product, tile_instructions
from xlapy.loops import F32, I1, I32, Affine, Builder, Kernel, Location, MatrixProduct, evaluate, print_kernel
from xlapy.loops.cost import KernelCost
from xlapy.loops.dot_instructions import BF16_PAIRS, S8_QUADS, TILE_SIDE, DotInstruction
from xlapy.loops.operations import kernel_operations

RNG = np.random.default_rng(21)
SPECIAL = np.array([0, 0x8000, 1, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0x7F7F, 0xFF7F, 0x0080], np.uint16)
LEFT_PITCH, SUMS_PITCH = 80, 48


def product(
    instruction: DotInstruction, rows: int, columns: int, groups: int, *, accumulates: bool = True
) -> tuple[Kernel, tuple[int, int, int]]:
    """A kernel with one matrix product, and the sizes of its operands and sums."""
    builder = Builder("k")
    sizes = rows * LEFT_PITCH, groups * columns, rows * SUMS_PITCH
    left, right = builder.buffer("left", I32, sizes[0]), builder.buffer("right", I32, sizes[1])
    sums = builder.buffer("sums", instruction.sum, sizes[2], written=True)
    places = [Location(buffer, Affine()) for buffer in (left, right, sums)]
    builder.matrix_product(
        MatrixProduct(
            instruction,
            places[0],
            LEFT_PITCH,
            places[1],
            columns,
            places[2],
            SUMS_PITCH,
            rows,
            columns,
            groups,
            builder.constant(I1, int(accumulates)),
        )
    )
    return builder.kernel, sizes


def factors(instruction: DotInstruction, size: int) -> np.ndarray:
    if instruction is not BF16_PAIRS:
        return RNG.integers(-(2**31), 2**31, size).astype(np.int32)
    bits = (RNG.standard_normal(2 * size) * 2.0 ** RNG.integers(-6, 6, 2 * size)).astype(np.float32).view(np.uint32)
    halves = (bits >> 16).astype(np.uint16)
    where = RNG.random(2 * size) < 0.01
    halves[where] = RNG.choice(SPECIAL, int(where.sum()))
    return halves.view(np.int32)


def first_sums(instruction: DotInstruction, size: int) -> np.ndarray:
    return RNG.standard_normal(size).astype(np.float32) if instruction.sum is F32 else factors(instruction, size)


@pytest.mark.parametrize("instruction", TILED.values(), ids=str)
def test_products_of_integers_and_small_floats_are_exact(instruction: DotInstruction):
    kernel, (left_size, right_size, sums_size) = product(instruction, 16, 32, 32)
    if instruction is BF16_PAIRS:
        terms = [RNG.integers(-8, 9, 2 * size).astype(np.float32) for size in (left_size, right_size)]
        left, right = ((numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.int32) for numbers in terms)
        before = RNG.integers(-9, 9, sums_size).astype(np.float32)
    else:
        signs = instruction.left_signed, instruction.right_signed
        terms = [
            RNG.integers(-128 if sign else 0, 128 if sign else 256, 4 * size).astype(np.int8 if sign else np.uint8)
            for sign, size in zip(signs, (left_size, right_size), strict=True)
        ]
        left, right = (numbers.view(np.int32) for numbers in terms)
        before = RNG.integers(-(2**20), 2**20, sums_size).astype(np.int32)
    sums = before.copy()
    evaluate(kernel, {"left": left, "right": right, "sums": sums})
    size = instruction.terms
    rows = terms[0].reshape(16, LEFT_PITCH, size)[:, :32].astype(np.int64)
    columns = terms[1].reshape(32, 32, size).astype(np.int64)
    expected = before.reshape(16, SUMS_PITCH).astype(np.int64)
    expected[:, :32] += np.einsum("rgt,gct->rc", rows, columns)
    np.testing.assert_array_equal(sums.reshape(16, SUMS_PITCH), expected)


def test_sums_of_bytes_wrap():
    kernel, (left_size, right_size, sums_size) = product(S8_QUADS, 16, 16, 16)
    left, right = (np.full(4 * size, -128, np.int8).view(np.int32) for size in (left_size, right_size))
    sums = np.full(sums_size, 2**31 - 1, np.int32)
    evaluate(kernel, {"left": left, "right": right, "sums": sums})
    assert sums[0] == 2**31 - 1 + 64 * 128 * 128 - 2**32


def test_first_and_second_terms_are_added_apart():
    """2^30 and -2^30 are first terms, whose sum is 0; the second terms are ones."""
    kernel, (_, right_size, sums_size) = product(BF16_PAIRS, 16, 16, 16, accumulates=False)
    pairs = np.zeros((16, LEFT_PITCH, 2), np.float32)
    pairs[:, :2] = [[2.0**30, 1.0], [-(2.0**30), 1.0]]
    ones = np.ones((right_size, 2), np.float32)
    left, right = ((n.view(np.uint32) >> 16).astype(np.uint16).reshape(-1).view(np.int32) for n in (pairs, ones))
    sums = np.full(sums_size, np.nan, np.float32)
    evaluate(kernel, {"left": left, "right": right, "sums": sums})
    assert sums.reshape(16, SUMS_PITCH)[:, :16].tolist() == [[2.0] * 16] * 16


def test_the_text_names_the_factors():
    kernel, _ = product(S8_QUADS, 32, 16, 48)
    assert "matrix product s8 32 x 16 x 48 of left[0] pitch 80, right[0] pitch 16 to sums[0] pitch 48" in print_kernel(
        kernel
    )


def test_operations_and_cost_count_each_product():
    kernel, _ = product(S8_QUADS, 32, 16, 48)
    assert kernel_operations(kernel).counts == {"tile s8": 2 * 32 * 16 * 48 * 4}
    assert KernelCost(kernel).cycles >= 32 * 16 * 48 / 256


@pytest.mark.parametrize("accumulates", [True, False])
@pytest.mark.parametrize(
    "rows, columns, groups", [(16, 16, 16), (32, 32, 48), (48, 32, 64), (48, 16, 32), (80, 32, 16)]
)
@pytest.mark.parametrize("instruction", sorted(tile_instructions(processor.host_processor()), key=str), ids=str)
def test_machine_code_computes_the_definition(instruction, rows, columns, groups, accumulates):
    """On processors with tile instructions."""
    kernel, sizes = product(instruction, rows, columns, groups, accumulates=accumulates)
    given = [factors(instruction, size) for size in sizes[:2]]
    results = [first_sums(instruction, sizes[2])] * 2
    results = [array.copy() for array in results]
    evaluate(kernel, {"left": given[0], "right": given[1], "sums": results[0]})
    run_kernel(kernel, [*given, results[1]])
    np.testing.assert_array_equal(results[1], results[0])


def test_every_machine_generates_the_code():
    for name, instruction in TILED.items():
        text, declarations = emit_matrix_product(instruction)
        with processor_of("AMX"):
            _, assembly = listings("\n".join([*sorted(declarations), text, "attributes #0 = { nounwind }"]))
        multiply = {"bf16": "tdpbf16ps", "s8": "tdpbssd", "s8u8": "tdpbsud", "u8s8": "tdpbusd", "u8": "tdpbuud"}[name]
        assert (
            assembly.count(f"{multiply}\t") == 4 + 2 + 2 + 1 and "ldtilecfg" in assembly and "tilerelease" in assembly
        )


def test_without_the_permission_of_the_system_there_are_no_tile_instructions(monkeypatch):
    monkeypatch.setattr(processor, "permit_tiles", lambda: False)
    monkeypatch.setattr(processor, "_known_features", lambda: {"amx-tile": True, "amx-bf16": True, "avx2": True})
    found = vars(processor.host_processor)["__wrapped__"]()
    assert found.features == {"avx2"}
    assert tile_instructions(found) == frozenset()


def test_older_instruction_sets_have_none():
    with limited_to("AVX512_BF16"):
        assert tile_instructions(processor.target_processor()) == frozenset()
    assert tile_instructions(processor.LEVELS["AMX"]) == frozenset(TILED.values())
    assert TILE_SIDE == 16

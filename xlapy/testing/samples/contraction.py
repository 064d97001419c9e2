"""Samples of contractions: dot, ragged-dot and scaled-dot."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample

MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHED = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
INNER = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
OUTER = "lhs_contracting_dims={}, rhs_contracting_dims={}"


def _sample(name: str, operands: Sequence[str], instruction: str, note: str = "") -> Sample:
    """Returns a module of one instruction on parameters a, b, c, d with the given shapes."""
    parameters = [f"  {x} = {shape} parameter({n})" for n, (x, shape) in enumerate(zip("abcd", operands, strict=False))]
    lines = [f"HloModule {name}", "", "ENTRY main {", *parameters, f"  ROOT r = {instruction}", "}", ""]
    return Sample(name, "\n".join(lines), note)


_OF_EVERY_TYPE = [
    _sample(f"dot_{t}", (f"{t}[3,5]{{1,0}}", f"{t}[5,2]{{1,0}}"), f"{t}[3,2]{{1,0}} dot(a, b), {MATMUL}")
    for t in ELEMENT_TYPES
]

_PREFERRED = [
    _sample(
        f"dot_{lhs}_{rhs}_to_{result}",
        (f"{lhs}[3,5]{{1,0}}", f"{rhs}[5,2]{{1,0}}"),
        f"{result}[3,2]{{1,0}} dot(a, b), {MATMUL}",
    )
    for lhs, rhs, result in (
        ("s8", "s8", "s32"),
        ("u8", "s8", "s32"),
        ("s32", "s32", "s8"),
        ("bf16", "bf16", "f32"),
        ("bf16", "f32", "f32"),
        ("f32", "f32", "bf16"),
        ("f8e4m3fn", "f8e5m2", "f32"),
        ("f32", "f32", "f64"),
        ("c64", "f32", "c64"),
        ("pred", "pred", "s32"),
        ("s32", "f32", "f32"),
        ("f32", "f32", "s32"),
    )
]

_DIMENSIONS = [
    _sample("dot_vectors", ("f32[7]{0}", "f32[7]{0}"), f"f32[] dot(a, b), {INNER}"),
    _sample("dot_scalars", ("f32[]", "f32[]"), f"f32[] dot(a, b), {OUTER}"),
    _sample("dot_outer", ("f32[3]{0}", "f32[4]{0}"), f"f32[3,4]{{1,0}} dot(a, b), {OUTER}"),
    _sample("dot_outer_without_attributes", ("f32[3]{0}", "f32[4]{0}"), "f32[3,4]{1,0} dot(a, b)"),
    _sample("dot_matrix_vector", ("f32[3,4]{1,0}", "f32[4]{0}"), f"f32[3]{{0}} dot(a, b), {MATMUL}"),
    _sample(
        "dot_transposed",
        ("f32[4,3]{1,0}", "f32[5,4]{1,0}"),
        "f32[3,5]{1,0} dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
    ),
    _sample("dot_column_major", ("f32[3,4]{0,1}", "f32[4,5]{0,1}"), f"f32[3,5]{{0,1}} dot(a, b), {MATMUL}"),
    _sample("dot_batched", ("f32[6,3,4]{2,1,0}", "f32[6,4,5]{2,1,0}"), f"f32[6,3,5]{{2,1,0}} dot(a, b), {BATCHED}"),
    _sample(
        "dot_batches_only",
        ("f32[6]{0}", "f32[6]{0}"),
        "f32[6]{0} dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={}, rhs_batch_dims={0}, rhs_contracting_dims={}",
    ),
    _sample(
        "dot_two_contractions_of_nothing",
        ("f32[5,2,2,0]{3,2,1,0}", "f32[5,2,5,3,0,2]{5,4,3,2,1,0}"),
        "f64[5,2,5,3]{3,2,1,0} dot(a, b), lhs_batch_dims={0,2}, lhs_contracting_dims={1,3}, rhs_batch_dims={2,1}, "
        "rhs_contracting_dims={5,4}, operand_precision={default,highest}",
    ),
    _sample(
        "dot_two_contractions",
        ("f32[2,3,4]{2,1,0}", "f32[4,3,5]{2,1,0}"),
        "f32[2,5]{1,0} dot(a, b), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}",
    ),
    _sample(
        "dot_scattered_dimensions",
        ("f32[2,5,3,7]{3,2,1,0}", "f32[7,4,5,2]{3,2,1,0}"),
        "f32[5,2,3,4]{3,2,1,0} dot(a, b), lhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_batch_dims={2,3}, "
        "rhs_contracting_dims={0}",
    ),
    _sample(
        "dot_of_itself",
        ("f32[3,4]{1,0}",),
        "f32[3,3]{1,0} dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    _sample("dot_of_nothing", ("f32[3,0]{1,0}", "f32[0,2]{1,0}"), f"f32[3,2]{{1,0}} dot(a, b), {MATMUL}"),
    _sample("dot_to_nothing", ("f32[0,3]{1,0}", "f32[3,2]{1,0}"), f"f32[0,2]{{1,0}} dot(a, b), {MATMUL}"),
    _sample("dot_dynamic", ("f32[<=3,4]{1,0}", "f32[4,<=2]{1,0}"), f"f32[<=3,<=2]{{1,0}} dot(a, b), {MATMUL}"),
]

_ATTRIBUTES = [
    _sample(f"dot_{name}", ("f32[3,4]{1,0}", "f32[4,2]{1,0}"), f"f32[3,2]{{1,0}} dot(a, b), {MATMUL}, {more}")
    for name, more in (
        ("precision", "operand_precision={high,default}"),
        ("highest_precision", "operand_precision={highest,highest}"),
        ("default_precision", "operand_precision={default,default}"),
        ("algorithm", "algorithm=dot_bf16_bf16_f32_x3"),
        ("precision_and_algorithm", "operand_precision={high,high}, algorithm=dot_tf32_tf32_f32"),
        ("unset_algorithm", "algorithm=unset"),
    )
]

_NOT_ON_THE_PEER = "XLA:CPU does not compile it"

_SCALED = [
    _sample(
        "scaled_dot_f8",
        ("f8e4m3fn[4,32]{1,0}", "f8e4m3fn[32,5]{1,0}", "f8e8m0fnu[4,1]{1,0}", "f8e8m0fnu[1,5]{1,0}"),
        f"f32[4,5]{{1,0}} scaled-dot(a, b, c, d), {MATMUL}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "scaled_dot_blocks",
        ("f8e5m2[4,32]{1,0}", "f8e5m2[32,6]{1,0}", "f8e8m0fnu[2,4]{1,0}", "f8e8m0fnu[8,3]{1,0}"),
        f"bf16[4,6]{{1,0}} scaled-dot(a, b, c, d), {MATMUL}, operand_precision={{high,default}}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "scaled_dot_one_side",
        ("bf16[4,32]{1,0}", "f4e2m1fn[32,5]{1,0}", "bf16[1,1]{1,0}", "f8e8m0fnu[2,5]{1,0}"),
        f"f32[4,5]{{1,0}} scaled-dot(a, b, c, d), {MATMUL}, algorithm=dot_any_f8_any_f8_f32_fast_accum",
        _NOT_ON_THE_PEER,
    ),
]

_RAGGED = [
    _sample(
        "ragged_dot_free",
        ("f32[6,3]{1,0}", "f32[2,3,4]{2,1,0}", "s32[2]{0}"),
        "f32[6,4]{1,0} ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "ragged_dot_free_batched",
        ("bf16[5,6,3]{2,1,0}", "bf16[2,5,3,4]{3,2,1,0}", "s64[5,2]{1,0}"),
        "f32[5,6,4]{2,1,0} ragged-dot(a, b, c), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, "
        "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}, operand_precision={high,high}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "ragged_dot_contracting",
        ("s8[3,6]{1,0}", "s8[6,4]{1,0}", "s32[2]{0}"),
        f"s32[2,3,4]{{2,1,0}} ragged-dot(a, b, c), {MATMUL}, lhs_ragged_dims={{1}}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "ragged_dot_f8e4m3_f8e4m3fnuz_to_f64",
        ("f8e4m3[3,2]{1,0}", "f8e4m3fnuz[2,1]{1,0}", "s32[2]{0}"),
        f"f64[2,3,1]{{2,1,0}} ragged-dot(a, b, c), {MATMUL}, lhs_ragged_dims={{1}}",
        _NOT_ON_THE_PEER,
    ),
    _sample(
        "ragged_dot_batch",
        ("f32[5,2,3]{2,1,0}", "f32[5,3,4]{2,1,0}", "s32[2]{0}"),
        f"f32[5,2,4]{{2,1,0}} ragged-dot(a, b, c), {BATCHED}, lhs_ragged_dims={{0}}",
        _NOT_ON_THE_PEER,
    ),
]

SAMPLES = [*_OF_EVERY_TYPE, *_PREFERRED, *_DIMENSIONS, *_ATTRIBUTES, *_SCALED, *_RAGGED]

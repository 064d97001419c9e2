"""Samples of convolution."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, NEWER_THAN_JAXLIB, Sample


def _sample(name: str, lhs: str, rhs: str, result: str, attributes: str, note: str = "") -> Sample:
    """Returns a module of one convolution of two parameters."""
    return Sample(
        name,
        f"HloModule {name}\n\nENTRY main {{\n"
        f"  lhs = {lhs} parameter(0)\n"
        f"  rhs = {rhs} parameter(1)\n"
        f"  ROOT r = {result} convolution(lhs, rhs), {attributes}\n}}\n",
        note,
    )


_OF_EVERY_TYPE = [
    _sample(
        f"convolution_{t}",
        f"{t}[2,6,3]{{2,1,0}}",
        f"{t}[3,3,4]{{2,1,0}}",
        f"{t}[2,6,4]{{2,1,0}}",
        "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
    )
    for t in ELEMENT_TYPES
]

_PREFERRED = [
    _sample(
        f"convolution_{operand}_to_{result}",
        f"{operand}[2,6,3]{{2,1,0}}",
        f"{operand}[3,3,4]{{2,1,0}}",
        f"{result}[2,4,4]{{2,1,0}}",
        "window={size=3}, dim_labels=b0f_0io->b0f",
    )
    for operand, result in (
        ("s8", "s32"),
        ("s32", "s8"),
        ("bf16", "f32"),
        ("f32", "bf16"),
        ("f8e4m3fn", "f32"),
        ("f32", "f64"),
        ("c64", "c128"),
        ("pred", "s32"),
    )
]

_MIXED = [
    _sample(
        f"convolution_{lhs}_{rhs}",
        f"{lhs}[2,6,3]{{2,1,0}}",
        f"{rhs}[3,3,4]{{2,1,0}}",
        f"{result}[2,4,4]{{2,1,0}}",
        "window={size=3}, dim_labels=b0f_0io->b0f",
        "the road to XLA:CPU through MLIR takes one operand type only",
    )
    for lhs, rhs, result in (("bf16", "f32", "f32"), ("u8", "s8", "s32"), ("f8e4m3fn", "f8e5m2", "f32"))
]

_WINDOWS = [
    _sample(
        f"convolution_{name}",
        "f32[2,3,8]{2,1,0}",
        "f32[4,3,3]{2,1,0}",
        f"f32[2,4,{size}]{{2,1,0}}",
        f"window={{size=3{window}}}, dim_labels=bf0_oi0->bf0",
    )
    for name, window, size in (
        ("valid", "", 6),
        ("padded", " pad=1_1", 8),
        ("padded_low", " pad=2_0", 8),
        ("cropped", " pad=-2_-1", 3),
        ("cropped_and_padded", " pad=-3_2", 5),
        ("strided", " stride=3", 2),
        ("input_dilated", " lhs_dilate=2", 13),
        ("kernel_dilated", " rhs_dilate=2", 4),
        ("reversed", " rhs_reversal=1", 6),
        ("too_large", " rhs_dilate=4", 0),
        ("everything", " stride=2 pad=3_-1 lhs_dilate=3 rhs_dilate=2 rhs_reversal=1", 10),
    )
]

_LABELS = [
    _sample("convolution_without_space", "f32[2,3]{1,0}", "f32[4,3]{1,0}", "f32[2,4]{1,0}", "dim_labels=bf_oi->bf"),
    _sample(
        "convolution_empty_window", "f32[2,3]{1,0}", "f32[3,4]{1,0}", "f32[4,2]{1,0}", "window={}, dim_labels=bf_io->fb"
    ),
    _sample(
        "convolution_2d",
        "f32[2,7,8,3]{3,2,1,0}",
        "f32[3,2,3,4]{3,2,1,0}",
        "f32[2,4,8,4]{3,2,1,0}",
        "window={size=3x2 stride=2x1 pad=1_1x0_1}, dim_labels=b01f_01io->b01f",
    ),
    _sample(
        "convolution_scattered_labels",
        "f32[8,7,3,2]{3,2,1,0}",
        "f32[4,2,3,3]{3,2,1,0}",
        "f32[5,2,7,4]{3,2,1,0}",
        "window={size=3x2}, dim_labels=10fb_o1i0->0b1f",
    ),
    _sample(
        "convolution_3d",
        "f32[2,5,6,7,3]{4,3,2,1,0}",
        "f32[2,3,4,3,9]{4,3,2,1,0}",
        "f32[2,4,4,4,9]{4,3,2,1,0}",
        "window={size=2x3x4}, dim_labels=b012f_012io->b012f",
    ),
    _sample(
        "convolution_layouts",
        "f32[2,3,8]{0,1,2}",
        "f32[4,3,3]{1,2,0}",
        "f32[2,4,6]{1,0,2}",
        "window={size=3}, dim_labels=bf0_oi0->bf0",
    ),
    _sample(
        "convolution_dynamic_batch",
        "f32[<=2,3,8]{2,1,0}",
        "f32[4,3,3]{2,1,0}",
        "f32[<=2,4,6]{2,1,0}",
        "window={size=3}, dim_labels=bf0_oi0->bf0",
    ),
    _sample(
        "convolution_of_nothing",
        "f32[2,0,8]{2,1,0}",
        "f32[4,0,3]{2,1,0}",
        "f32[2,4,6]{2,1,0}",
        "window={size=3}, dim_labels=bf0_oi0->bf0",
    ),
    _sample(
        "convolution_of_padding_only",
        "f32[2,3,0]{2,1,0}",
        "f32[4,3,3]{2,1,0}",
        "f32[2,4,2]{2,1,0}",
        "window={size=3 pad=2_2}, dim_labels=bf0_oi0->bf0",
    ),
]

_GROUPS = [
    _sample(
        "convolution_feature_groups",
        "f32[2,8,6]{2,1,0}",
        "f32[3,3,4]{2,1,0}",
        "f32[2,8,4]{2,1,0}",
        "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=2",
    ),
    _sample(
        "convolution_depthwise",
        "s32[2,8,6]{2,1,0}",
        "s32[3,1,12]{2,1,0}",
        "s32[2,6,12]{2,1,0}",
        "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=6",
    ),
    _sample(
        "convolution_batch_groups",
        "f32[4,8,3]{2,1,0}",
        "f32[3,3,6]{2,1,0}",
        "f32[2,6,6]{2,1,0}",
        "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2",
    ),
    _sample(
        "convolution_as_many_groups_as_batches",
        "bf16[4,8,3]{2,1,0}",
        "bf16[3,3,4]{2,1,0}",
        "bf16[1,6,4]{2,1,0}",
        "window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=4",
    ),
]

_ATTRIBUTES = [
    _sample(
        f"convolution_{name}", "f32[2,3]{1,0}", "f32[4,3]{1,0}", "f32[2,4]{1,0}", f"dim_labels=bf_oi->bf, {more}", note
    )
    for name, more, note in (
        ("precision", "operand_precision={highest,default}", ""),
        ("default_precision", "operand_precision={default,default}", ""),
        ("explicit_counts", "feature_group_count=1, batch_group_count=1", ""),
        ("forward", "convolution_kind=fprop", ""),
        ("unset_kind", "convolution_kind=unset", ""),
        ("algorithm", "algorithm=dot_f32_f32_f32", NEWER_THAN_JAXLIB),
    )
]

SAMPLES = [*_OF_EVERY_TYPE, *_PREFERRED, *_MIXED, *_WINDOWS, *_LABELS, *_GROUPS, *_ATTRIBUTES]

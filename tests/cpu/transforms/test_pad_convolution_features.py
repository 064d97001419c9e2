"""Input features of narrow convolutions are padded to whole groups where that saves time, and results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import stages_for
from xlapy.cpu.transforms.pad_convolution_features import PadConvolutionFeatures

RNG = np.random.default_rng(4)


def module(kind: str, inputs: int, result: str, labels: str = "b01f_01io->b01f", groups: int = 1) -> str:
    shapes = {"b01f_01io->b01f": f"[2,12,13,{inputs}]", "bf01_01io->b01f": f"[2,{inputs},12,13]"}
    numbers = f"dim_labels={labels}, feature_group_count={groups}"
    return f"""HloModule m
ENTRY e {{
  x = {kind}{shapes[labels]} parameter(0)
  k = {kind}[5,5,{inputs // groups},24] parameter(1)
  ROOT c = {result}[2,12,13,24] convolution(x, k), window={{size=5x5 pad=2_2x2_2}}, {numbers}
}}"""


def arguments_of(text: str, special: float) -> list[np.ndarray]:
    shapes = [p.shape for p in xla.parse_hlo(text).entry_computation.parameters]
    arrays = [RNG.integers(-4, 5, shape.dimensions).astype(shape.element_type.dtype) for shape in shapes]
    if shapes[0].element_type.is_floating:
        arrays[0].flat[0] = special
    return arrays


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
@pytest.mark.parametrize(
    "kind, group, inputs, result", [("bf16", 2, 3, "f32"), ("bf16", 2, 7, "f32"), ("s8", 4, 6, "s32")]
)
def test_padded_features(kind, group, inputs, result, special):
    text = module(kind, inputs, result)
    given, arguments = xla.parse_hlo(text), arguments_of(text, special)
    wanted = np.asarray(xla.Client("interpreter").compile(text)(*arguments))
    assert PadConvolutionFeatures(lambda _: group).run(given)
    assert f"{kind}[5,5,{inputs + -inputs % group},24]" in given.to_text()
    assert not PadConvolutionFeatures(lambda _: group).run(given)
    for program, platform in ((given, "interpreter"), (xla.parse_hlo(text), "cpu")):
        np.testing.assert_array_equal(np.asarray(xla.Client(platform).compile(program)(*arguments)), wanted)


SMALL_WINDOW = module("bf16", 3, "f32").replace("size=5x5 pad=2_2x2_2", "size=1x1").replace("[5,5,", "[1,1,")
PLAN = ', backend_config={"kernel_plan":{"strategy":"direct-convolution"}}'
PLANNED = module("bf16", 3, "f32").replace("feature_group_count=1", f"feature_group_count=1{PLAN}")


@pytest.mark.parametrize(
    "text, group",
    [
        (module("bf16", 4, "f32"), 2),  # whole groups
        (module("f32", 3, "f32"), 1),  # no dot instruction
        (module("s8", 5, "s32"), 4),  # three zeros for five features
        (module("bf16", 1, "f32"), 2),  # one zero for one feature
        (module("s8", 6, "s32", groups=2), 4),  # several groups
        (module("bf16", 3, "f32", "bf01_01io->b01f"), 2),  # features that are not contiguous
        (SMALL_WINDOW, 2),  # few products
        (module("bf16", 3, "f32").replace(",24]", ",0]"), 2),  # no results
        (PLANNED, 2),  # a kernel plan, which is for the features as they are
    ],
)
def test_features_that_stay(text, group):
    assert not PadConvolutionFeatures(lambda _: group).run(xla.parse_hlo(text))


@pytest.mark.parametrize(
    "level, kind, result, is_padded",
    [
        ("AVX512_BF16", "bf16", "f32", True),
        ("AVX512", "bf16", "f32", False),
        ("AVX512_VNNI", "s8", "s32", True),
        ("AVX2", "s8", "s32", False),
    ],
)
def test_machines(level, kind, result, is_padded):
    stages = stages_for(level, module(kind, 3, result))
    assert (f"{kind}[5,5,4,24]" in stages["after_optimizations.txt"]) == is_padded
    assert ("dot " in stages["loops.txt"]) == is_padded

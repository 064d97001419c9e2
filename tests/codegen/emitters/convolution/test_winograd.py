"""Convolutions by Winograd's algorithm: results, rounding errors, results that are not finite, and when they apply."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.emitters.convolution.winograd_blocks import PRODUCTS, WinogradBlocks, preferred_blocks
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import Choice, choose_plan
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module
from xlapy.loops.builder import MAX_SCRATCH_BYTES

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(11)
Array = np.ndarray

_CASES = """
    tiles as wide as the image: f32[1,2,2,16] f32[3,3,16,16] f32[1,2,2,16] pad=1_1x1_1
    odd sizes: f32[3,7,11,5] f32[3,3,5,7] f32[3,7,11,7] pad=1_1x1_1
    several panels and blocks: f32[2,9,13,33] f32[3,3,33,70] f32[2,9,13,70] pad=1_1x1_1
    whole panels: f32[2,8,12,32] f32[3,3,32,64] f32[2,8,12,64] pad=1_1x1_1
    one result: f32[1,3,3,20] f32[3,3,20,3] f32[1,1,1,3] pad=0_0x0_0
    one row: f32[2,1,9,20] f32[3,3,20,33] f32[2,1,9,33] pad=1_1x1_1
    no padding: f32[2,9,8,6] f32[3,3,6,33] f32[2,7,6,33] pad=0_0x0_0
    uneven padding: f32[2,5,6,6] f32[3,3,6,33] f32[2,5,9,33] pad=2_0x0_5
    negative padding: f32[2,9,8,6] f32[3,3,6,33] f32[2,6,4,33] pad=-1_0x-2_0
    windows entirely in the padding: f32[1,3,2,6] f32[3,3,6,20] f32[1,11,10,20] pad=5_5x5_5
    reversed filter: f32[2,6,7,6] f32[3,3,6,33] f32[2,6,7,33] pad=1_1x1_1 rhs_reversal=1x0
"""
CASES = dict(re.findall(r"(\S.*?): (.*)\n", _CASES))


def convolution(
    shapes: str, window: str, strategy: str = "winograd", labels: str = "b01f_01io->b01f", **parameters: int
) -> str:
    """The text of a module with a convolution by a strategy."""
    lhs, rhs, result = shapes.split()
    given = "".join(f',"{name}":{value}' for name, value in parameters.items())
    plan = f', backend_config={{"kernel_plan":{{"strategy":"{strategy}"{given}}}}}' if strategy else ""
    return (
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), window={{size=3x3 {window}}}, dim_labels={labels}{plan} }}"
    )


def case(name: str, strategy: str = "winograd", **parameters: int) -> str:
    *shapes, window = CASES[name].split(" ", 3)
    return convolution(" ".join(shapes), window, strategy, **parameters)


def small_integers(text: str) -> list[Array]:
    """Arguments of which all transforms, products and sums are exact."""
    shapes = [p.shape for p in xla.parse_hlo(text).entry_computation.parameters]
    return [RNG.integers(-3, 4, shape.dimensions).astype(np.float32) for shape in shapes]


def result(text: str, arguments: Sequence[Array]) -> Array:
    return np.asarray(CPU.compile(text)(*arguments))


def assert_same_as_interpreter(text: str) -> None:
    arguments = small_integers(text)
    np.testing.assert_array_equal(result(text, arguments), np.asarray(INTERPRETER.compile(text)(*arguments)))


# -- results


@pytest.mark.parametrize("name", CASES)
def test_results(name: str):
    text = case(name)
    assert "scratch inputs" in compile_module(xla.parse_hlo(text)).loops()
    assert_same_as_interpreter(text)


@pytest.mark.parametrize("tile_rows, tile_vectors, block_tiles, panels_per_task", [
    (1, 1, 1, 1), (3, 2, 7, 1), (14, 2, 14, 2), (5, 3, 100, 1), (4, 1, 9, 3),
])  # fmt: skip
def test_sizes_of_blocks_do_not_change_the_bits(
    tile_rows: int, tile_vectors: int, block_tiles: int, panels_per_task: int
):
    name = "several panels and blocks"
    arguments = [RNG.standard_normal(a.shape).astype(np.float32) for a in small_integers(case(name))]
    text = case(
        name,
        tile_rows=tile_rows,
        tile_vectors=tile_vectors,
        block_tiles=block_tiles,
        panels_per_task=panels_per_task,
    )
    np.testing.assert_array_equal(result(text, arguments), result(case(name), arguments))


@pytest.mark.parametrize("labels, filter, window", [
    ("b01f_oi01->b01f", "48,40,3,3", "pad=1_1x1_1"),
    ("b01f_01oi->b01f", "3,3,48,40", "pad=1_1x1_1 rhs_reversal=1x1"),
])  # fmt: skip
def test_filters_in_other_orders(labels: str, filter: str, window: str):
    """Those of other frameworks, and those of gradients with respect to the input."""
    text = convolution(f"f32[1,29,35,40] f32[{filter}] f32[1,29,35,48]", window, "", labels)
    assert '"strategy":"winograd"' in compile_module(xla.parse_hlo(text)).module.to_text()
    assert_same_as_interpreter(text)


def fused(activation: str) -> str:
    text = case("several panels and blocks", "").replace("ROOT r", "c").replace(" }", "")
    shape = "f32[2,9,13,70]"
    return f"""{text}
      bias = f32[70] parameter(2)
      residual = {shape} parameter(3)
      wide = {shape} broadcast(bias), dimensions={{3}}
      biased = {shape} add(c, wide)
      added = {shape} add(biased, residual)
      {activation}
    }}"""


RELU = """zero = f32[] constant(0)
      zeros = f32[2,9,13,70] broadcast(zero), dimensions={}
      ROOT r = f32[2,9,13,70] maximum(added, zeros)"""
STEPS = [f"t{n + 1} = f32[2,9,13,70] {('add', 'maximum')[n % 2]}(t{n}, added)" for n in range(80)]
LONG = "\n".join(["t0 = f32[2,9,13,70] abs(added)", *STEPS, "ROOT r = f32[2,9,13,70] negate(t80)"])


@pytest.mark.parametrize("activation", [RELU, LONG], ids=["short", "long"])
def test_epilogues_are_computed_before_the_results_are_stored(activation: str):
    text = fused(activation)
    optimized = compile_module(xla.parse_hlo(text)).module
    (root,) = [i for i in optimized.entry_computation if i.op is xla.opcodes.FUSION]
    planned = re.sub(r'"kernel_plan":\{.*?\}', '"kernel_plan":{"strategy":"winograd"}', optimized.to_text())
    assert root is optimized.entry_computation.root_instruction
    assert ("scratch results" in compile_module(xla.parse_hlo(planned)).loops()) == (activation is LONG)
    arguments = small_integers(text)
    np.testing.assert_array_equal(result(planned, arguments), np.asarray(INTERPRETER.compile(text)(*arguments)))


# -- results that are not finite


@pytest.mark.parametrize("name", ["odd sizes", "several panels and blocks", "windows entirely in the padding"])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("operand", [0, 1])
def test_infinities_and_nans_reach_the_results_of_their_windows_only(name: str, special: float, operand: int):
    text = case(name)
    arguments = small_integers(text)
    arguments[operand].flat[arguments[operand].size // 2] = special
    expected = np.asarray(INTERPRETER.compile(text)(*arguments))
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    np.testing.assert_array_equal(result(text, arguments), expected)


def test_infinities_of_both_signs():
    text = case("several panels and blocks")
    image, filter = small_integers(text)
    image[0, 4, 4, :2] = np.inf, -np.inf
    image[1, 0, 0, 0] = np.inf
    expected = result(case("several panels and blocks", "direct-convolution"), [image, filter])
    assert np.isnan(expected).any() and np.isposinf(expected).any() and np.isneginf(expected).any()
    np.testing.assert_array_equal(result(text, [image, filter]), expected)


@pytest.mark.parametrize("operand", [0, 1])
def test_transforms_that_overflow(operand: int):
    """The sums are finite, but a sum of two elements of the operand is not."""
    name = "several panels and blocks"
    arguments = [np.zeros_like(a) for a in small_integers(case(name))]
    arguments[operand][...] = 3e38
    arguments[1 - operand][..., 0] = 0.25  # of the filter: of feature 0; of the input: of channel 0
    arguments[0][..., 1:] = 0
    if operand == 1:
        arguments[0][:, ::3, ::3, 0] = 0.25
        arguments[0][:, 1::3, :, 0] = arguments[0][:, 2::3, :, 0] = 0
        arguments[0][:, :, 1::3, 0] = arguments[0][:, :, 2::3, 0] = 0
    else:
        arguments[1][...] = 0
        arguments[1][1, 1, 0] = 0.5
    expected = result(case(name, "direct-convolution"), arguments)
    assert np.isfinite(expected).all() and np.abs(expected).max() > 1e37
    np.testing.assert_allclose(result(case(name), arguments), expected, rtol=1e-6)


# -- rounding errors


@pytest.mark.parametrize("data", ["normal", "positive", "offset", "large pixel"])
def test_errors_are_near_those_of_a_direct_convolution(data: str):
    """Root mean squares of the errors, relative to f64: 0.4 to 0.9 of those of a direct sum, 1.7 for a large pixel."""
    shapes, window = "f32[1,14,14,32] f32[3,3,32,32] f32[1,14,14,32]", "pad=1_1x1_1"
    image, filter = (RNG.standard_normal(size).astype(np.float32) for size in ((1, 14, 14, 32), (3, 3, 32, 32)))
    if data == "positive":
        image = np.maximum(image, 0)
    if data == "offset":
        image += np.float32(1000)
    if data == "large pixel":
        image = np.ones_like(image)
        image[0, 7, 7] = 1e8
    wide = convolution(shapes, window, "").replace("f32", "f64")
    exact = np.asarray(CPU.compile(wide)(image.astype(np.float64), filter.astype(np.float64)))

    def error(strategy: str) -> float:
        found = result(convolution(shapes, window, strategy), [image, filter])
        return float(np.sqrt(np.mean((found - exact) ** 2)))

    assert error("winograd") < 2.5 * error("direct-convolution")


def test_windows_of_zeros_have_results_of_zero():
    """A result depends on the elements under its own window only, although its tile has others."""
    text = case("several panels and blocks")
    image, filter = (RNG.standard_normal(a.shape).astype(np.float32) for a in small_integers(text))
    image[:, :, 5:] = 0
    found = result(text, [image, filter])
    assert not found[:, :, 6:].any() and found[:, :, :6].all()


# -- the choice


def choice(shapes: str, window: str = "pad=1_1x1_1", labels: str = "b01f_01io->b01f", more: str = "") -> Choice:
    text = convolution(shapes, window, "", labels).replace(" }", f"{more} }}")
    (root,) = [i for i in xla.parse_hlo(text).instructions() if i.op is xla.opcodes.CONVOLUTION]
    return choose_plan(region_of(root, Target(64, 32)))


def resnet(batch: int, size: int, channels: int) -> str:
    data = f"f32[{batch},{size},{size},{channels}]"
    return f"{data} f32[3,3,{channels},{channels}] {data}"


@pytest.mark.parametrize("size, channels", [(56, 64), (28, 128), (14, 256)])
@pytest.mark.parametrize("batch", [1, 8])
def test_convolutions_of_networks(batch: int, size: int, channels: int):
    assert choice(resnet(batch, size, channels)).plan.strategy == "winograd"


@pytest.mark.parametrize("arguments, reason", [
    ((resnet(1, 7, 512),), "of the time of a direct convolution, more than 85%"),
    ((resnet(8, 56, 16),), "16 input features are fewer than 32"),
    ((resnet(1, 14, 64),), "of the time of a direct convolution, more than 85%"),
    ((resnet(8, 28, 768),), "its transformed filter takes 37748736 bytes, more than 33554432"),
    ((resnet(8, 56, 64).replace("f32", "f64"),), "it is not f32 throughout"),
    ((resnet(8, 56, 64).replace("f32", "bf16"),), "it is not f32 throughout"),
    ((resnet(8, 56, 64), "pad=1_1x1_1", "b01f_01io->b01f", ", operand_precision={default,highest}"),
     "an operand has a higher precision than the default"),
    ((resnet(8, 56, 64), "pad=1_1x1_1", "b01f_01io->b01f", ", operand_precision={high,high}"),
     "an operand has a higher precision than the default"),
    (("f32[8,56,56,64] f32[3,3,64,64] f32[8,28,28,64]", "pad=1_1x1_1 stride=2x2"), "its window is not 3 x 3"),
    ((resnet(8, 56, 64), "pad=2_2x2_2 rhs_dilate=2x2"), "its window is not 3 x 3"),
    (("f32[8,56,56,64] f32[3,3,64,64] f32[8,111,111,64]", "pad=1_1x1_1 lhs_dilate=2x2"), "its window is not 3 x 3"),
    (("f32[8,56,56,64] f32[3,3,32,64] f32[8,56,56,64]", "pad=1_1x1_1", "b01f_01io->b01f", ", feature_group_count=2"),
     "it has several groups"),
    (("f32[8,64,56,56] f32[3,3,64,64] f32[8,56,56,64]", "pad=1_1x1_1", "bf01_01io->b01f"),
     "its features are not the last dimension"),
])  # fmt: skip
def test_rejections(arguments: tuple[str, ...], reason: str):
    found = choice(*arguments)
    assert reason in dict(found.rejections)["winograd"]
    assert found.plan.strategy != "winograd"


def test_the_default_precision_is_accepted():
    assert choice(resnet(8, 56, 64), more=", operand_precision={default,default}").plan.strategy == "winograd"


@pytest.mark.parametrize("parameter, value", [("tile_rows", 33), ("block_tiles", 10000)])
def test_impossible_parameters(parameter: str, value: int):
    with raises(xla.XlaError, codes.KERNEL_PLAN, parameter):
        compile_module(xla.parse_hlo(case("several panels and blocks", **{parameter: value})))


# -- blocks


def blocks_of(shapes: str, **fields: int) -> WinogradBlocks:
    text = convolution(shapes, "pad=1_1x1_1", "")
    (root,) = [i for i in xla.parse_hlo(text).instructions() if i.op is xla.opcodes.CONVOLUTION]
    return preferred_blocks(dataclasses.replace(Target(64, 32), **fields), ConvolutionGeometry(root))


@pytest.mark.parametrize("shapes", [resnet(8, 56, 64), resnet(1, 14, 256), resnet(2, 7, 2048), resnet(1, 3, 5)])
@pytest.mark.parametrize("l2_bytes", [1 << 17, 1 << 20, 1 << 22])
@pytest.mark.parametrize("processors", [1, 2, 64])
@pytest.mark.parametrize("vector_bytes, vector_registers", [(64, 32), (32, 16), (16, 16)])
def test_blocks_fit(shapes: str, l2_bytes: int, processors: int, vector_bytes: int, vector_registers: int):
    blocks = blocks_of(
        shapes,
        l2_bytes=l2_bytes,
        processors=processors,
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
    )
    assert blocks.tile_rows * blocks.tile_vectors + blocks.tile_vectors + 1 <= vector_registers
    assert blocks.scratch_bytes <= MAX_SCRATCH_BYTES
    assert blocks.block_tiles <= blocks.tiles and blocks.panels_per_task <= blocks.panels
    assert blocks.filter_size >= PRODUCTS * blocks.inputs * blocks.outputs


@pytest.mark.parametrize("size, channels", [(56, 64), (28, 128), (14, 256)])
def test_an_image_has_tasks_for_every_processor(size: int, channels: int):
    assert blocks_of(resnet(1, size, channels), processors=4).tasks >= 4


@pytest.mark.parametrize("features, vectors", [(16, 1), (32, 2), (40, 3), (48, 3), (64, 2), (72, 2)])
def test_three_vectors_of_features_are_one_panel(features: int, vectors: int):
    assert blocks_of(resnet(1, 30, features)).tile_vectors == vectors

"""Dots that are computed piece by piece, while their operand or their result is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.sharded_runs import local_array
from xlapy.base import flags
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.spmd import partition

DEVICES = 4
ROWS, COLUMNS, WHOLE = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{replicated}"
PAIRED_ROWS = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
PAIRED_COLUMNS = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
DIMENSIONS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def partitioned(text: str, min_bytes: int | None) -> tuple[Module, Any]:
    module = xla.parse_hlo(text)
    shardings = partition(module, DEVICES, windowed_dot_min_bytes=min_bytes)
    verify(module)
    return module, shardings


def collectives(module: Module) -> str:
    return " ".join(sorted(i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands))


def run(module: Module, given: list[Any], shardings: Any, platform: str) -> list[Any]:
    parts = [[_part(array, str(sharding), device) for array, sharding in zip(given, shardings.parameters, strict=True)]
             for device in range(DEVICES)]  # fmt: skip
    results = xla.Client(platform, devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    return [np.asarray(result) for result in results]


def _part(array: Any, sharding: str, device: int) -> Any:
    if sharding == WHOLE:
        return array
    axis = 0 if sharding in (ROWS, PAIRED_ROWS) else array.ndim - 1
    count, index = (2, device % 2) if sharding in (PAIRED_ROWS, PAIRED_COLUMNS) else (4, device)
    return np.split(array, count, axis)[index]


PRODUCTS = {
    "left operand gathered": (ROWS, COLUMNS, COLUMNS, "all-gather"),
    "left operand gathered in groups of two": (PAIRED_ROWS, WHOLE, WHOLE, "all-gather"),
    "right operand gathered": (ROWS, COLUMNS, ROWS, "all-gather"),
    "result scattered along rows": (COLUMNS, ROWS, ROWS, "reduce-scatter"),
    "result scattered along columns": (COLUMNS, ROWS, COLUMNS, "reduce-scatter"),
    "result scattered in groups of two": (PAIRED_COLUMNS, PAIRED_ROWS, PAIRED_ROWS, "reduce-scatter"),
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_pieces(name: str, platform: str) -> None:
    """Integers are multiplied exactly in any order."""
    left, right, wanted, collective = PRODUCTS[name]
    text = f"""HloModule m
      ENTRY e {{ x = s32[128,256] parameter(0), sharding={left}
        w = s32[256,256] parameter(1), sharding={right}
        y = s32[128,256] dot(x, w), {DIMENSIONS}, sharding={wanted}
        ROOT r = s32[128,256] abs(y), sharding={wanted} }}"""
    if name == "left operand gathered in groups of two":  # the gathered operand is requested, or rows would stay split
        request = f'z = s32[128,256] custom-call(x), custom_call_target="Sharding", sharding={WHOLE}'
        text = text.replace("y = s32[128,256] dot(x, w)", f"{request}\n y = s32[128,256] dot(z, w)")
    plain, _ = partitioned(text, None)
    assert collectives(plain) == collective
    module, shardings = partitioned(text, 0)
    assert collectives(module) == "collective-permute"
    (loop,) = [i for i in module.instructions() if i.op.name == "while"]
    assert {"dot", "collective-permute"} <= {i.op.name for i in loop.computations[1]}
    chance = np.random.default_rng(0)
    x, w = (chance.integers(-99, 99, sizes).astype(np.int32) for sizes in ((128, 256), (256, 256)))
    for device, result in enumerate(run(module, [x, w], shardings, platform)):
        np.testing.assert_array_equal(result, _part(abs(x @ w), wanted, device))


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_products_of_batches_in_pieces(platform: str) -> None:
    """The columns of the right operand lie behind the batch and the rows in the result."""
    cut = "{devices=[1,1,4]<=[4]}"
    text = f"""HloModule m
      ENTRY e {{ x = s32[2,128,128] parameter(0), sharding={{devices=[1,4,1]<=[4]}}
        w = s32[2,128,128] parameter(1), sharding={cut}
        y = s32[2,128,128] dot(x, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
          rhs_contracting_dims={{1}}, sharding={{devices=[1,4,1]<=[4]}}
        ROOT r = s32[2,128,128] negate(y), sharding={{devices=[1,4,1]<=[4]}} }}"""
    module, _ = partitioned(text, 0)
    assert collectives(module) == "collective-permute"
    chance = np.random.default_rng(0)
    x, w = (chance.integers(-99, 99, sizes).astype(np.int32) for sizes in ((2, 128, 128), (2, 128, 128)))
    parts = [[np.split(x, 4, 1)[device], np.split(w, 4, 2)[device]] for device in range(DEVICES)]
    results = xla.Client(platform, devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    np.testing.assert_array_equal(np.concatenate(list(map(np.asarray, results)), 1), -(x @ w))


ALONG = {
    # splits of the operands and of the result; what gathers or scatters
    "contracted dimension of the left operand": ("1,1,4", "", "", "all-gather"),
    "contracted dimension of the right operand": ("", "1,4,1", "", "all-gather"),
    "batch of the left operand": ("4,1,1", "", "", "all-gather"),
    "batch of the result": ("1,1,4", "1,4,1", "4,1,1", "reduce-scatter"),
}


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", ALONG)
def test_pieces_along_contracted_and_batch_dimensions(name: str, platform: str) -> None:
    """Operands that are gathered are requested whole, or the product would be split as they are."""
    *given, collective = ALONG[name]
    left, right, wanted = (f"{{devices=[{cut}]<=[4]}}" if cut else WHOLE for cut in given)
    request = 'custom-call(x), custom_call_target="Sharding", sharding={replicated}'
    asked = request if collective == "all-gather" else "negate(x)"
    text = f"""HloModule m
      ENTRY e {{ a = s32[8,64,128] parameter(0), sharding={left}
        b = s32[8,128,64] parameter(1), sharding={right}
        x = s32[8,64,128] {asked.replace("(x)", "(a)")}
        w = s32[8,128,64] {asked.replace("(x)", "(b)")}
        y = s32[8,64,64] dot(x, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
          rhs_contracting_dims={{1}}, sharding={wanted}
        ROOT r = s32[8,64,64] abs(y), sharding={wanted} }}"""
    plain, _ = partitioned(text, None)
    assert collectives(plain) == collective
    module, shardings = partitioned(text, 0)
    assert collectives(module) == "collective-permute"
    chance = np.random.default_rng(0)
    x, w = (chance.integers(-99, 99, sizes).astype(np.int32) for sizes in ((8, 64, 128), (8, 128, 64)))
    parts = [
        [local_array(*each, device, DEVICES) for each in zip((x, w), shapes(text), shardings.parameters, strict=True)]
        for device in range(DEVICES)
    ]
    results = xla.Client(platform, devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    whole = xla.Shape.parse("s32[8,64,64]")
    for device, result in enumerate(results):
        expected = local_array(abs(x @ w), whole, shardings.results[0], device, DEVICES)
        np.testing.assert_array_equal(np.asarray(result), expected)


def shapes(text: str) -> list[Any]:
    return [parameter.shape for parameter in xla.parse_hlo(text).entry_computation.parameters]


def test_pieces_of_contracted_dimensions_are_not_added_in_few_bits() -> None:
    """A sum of bf16 would be rounded once for each piece."""
    text = f"""HloModule m
      ENTRY e {{ a = KIND[1024,1024] parameter(0), sharding={COLUMNS}
        b = KIND[1024,512] parameter(1)
        x = KIND[1024,1024] custom-call(a), custom_call_target="Sharding", sharding={WHOLE}
        y = KIND[1024,512] dot(x, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={WHOLE}
        ROOT r = KIND[1024,512] abs(y), sharding={WHOLE} }}"""
    found = [collectives(partitioned(text.replace("KIND", kind), 0)[0]) for kind in ("f32", "bf16")]
    assert found == ["collective-permute", "all-gather"]


SMALL = f"""HloModule m
  ENTRY e {{ x = f32[SIZE,SIZE] parameter(0), sharding={ROWS}
    w = f32[SIZE,SIZE] parameter(1), sharding={COLUMNS}
    y = f32[SIZE,SIZE] dot(x, w), {DIMENSIONS}, sharding={COLUMNS}
    ROOT r = f32[SIZE,SIZE] negate(y), sharding={COLUMNS} }}"""


@pytest.mark.parametrize(("size", "min_bytes", "is_windowed"), [
    (8, 0, False), (256, 0, True), (256, 1 << 18, True), (256, (1 << 18) + 1, False), (256, None, False),
])  # fmt: skip
def test_dots_are_computed_in_pieces_only_if_that_is_faster(
    size: int, min_bytes: int | None, is_windowed: bool
) -> None:
    """Eight rows take less time than to meet four times; by default, no array of usual size is sent in pieces."""
    module, _ = partitioned(SMALL.replace("SIZE", str(size)), min_bytes)
    assert (collectives(module) == "collective-permute") == is_windowed


def test_the_flag_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"windowed_dot_min_size": 0}))
    assert collectives(partitioned(SMALL.replace("SIZE", "256"), None)[0]) == "collective-permute"
    of_xla = flags.Flags.from_environment({"XLA_FLAGS": "--xla_gpu_threshold_for_windowed_einsum_mib=3"})
    assert of_xla.get("windowed_dot_min_size") == 3

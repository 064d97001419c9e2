"""Partial sums: which operations keep values unreduced, where they are added up, and by which collectives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.verify import verify
from xlapy.spmd import EntryShardings, partition
from xlapy.spmd.array_sharding import ArraySharding, array_sharding_of, hlo_sharding_of, tile_count
from xlapy.spmd.resharding_plan import plan_resharding
from xlapy.spmd.tiling import Tiling
from xlapy.spmd.time_model import BANDWIDTH, RATES, START_SECONDS, resharding_seconds

HALVES = Tiling(4, ((2, 2),))
MESH = "mesh['x'=2,'y'=2]"
HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def sharding(splits: str, unreduced: str = "") -> str:
    rest = f", unreduced={{{unreduced}}}" if unreduced else ""
    return f"{{{MESH}, [{splits}]{rest}}}"


SUMS_X, SUMS_Y, SUMS = (sharding("{}, {}", axes) for axes in ("'x'", "'y'", "'x', 'y'"))
ROWS_X, ROWS_Y, COLUMNS_X, TILES, WHOLE = (
    sharding(splits) for splits in ("{'x'}, {}", "{'y'}, {}", "{}, {'x'}", "{'x'}, {'y'}", "{}, {}")
)
ROWS_X_SUMS_Y = sharding("{'x'}, {}", "'y'")


def collectives(module: Module) -> list[str]:
    return sorted(i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands)


def local_arrays(array: Any, array_sharding: ArraySharding) -> list[Any]:
    """Splits an array over four devices. Partial sums are the whole array times different numbers with the sum one."""
    count = tile_count(array_sharding.partial_sums)
    shares = [2.0 ** -(number + 1) for number in range(count - 1)]
    shares.append(1 - sum(shares))
    found = []
    for device in range(4):
        part = array * (shares[array_sharding.partial_sums.tile_of(device)] if array_sharding.partial_sums else 1)
        for dimension, tiling in enumerate(array_sharding.tilings):
            if tiling is not None:
                part = np.split(part, tile_count(tiling), dimension)[tiling.tile_of(device)]
        found.append(part)
    return found


def assembled(results: list[Any], array_sharding: ArraySharding, dimensions: tuple[int, ...]) -> Any:
    """Returns the array that the devices' results are tiles and partial sums of; copies of one tile must agree."""
    total: dict[Any, Any] = {}
    for device, result in enumerate(results):
        tile = tuple(tiling.tile_of(device) if tiling else 0 for tiling in array_sharding.tilings)
        label = array_sharding.partial_sums.tile_of(device) if array_sharding.partial_sums else 0
        np.testing.assert_array_equal(total.setdefault((tile, label), result), result)
    whole = np.zeros(dimensions, results[0].dtype)
    for (tile, _), part in total.items():
        at = [slice(index * size, (index + 1) * size) for index, size in zip(tile, part.shape, strict=True)]
        whole[tuple(at)] += part
    return whole


def check(text: str, expected_collectives: str, result_sharding: str = "") -> EntryShardings:
    """Checks that the partitioned program computes the same as the whole one, with these collectives only."""
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    found = partition(module, 4)
    verify(module)
    assert " ".join(collectives(module)) == expected_collectives
    generator = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    given = [generator.integers(-8, 8, shape.dimensions).astype(shape.dtype) for shape in shapes]
    expected = np.asarray(xla.Client("interpreter").compile(whole)(*given))
    placements = [array_sharding_of(s, shape, 4) for s, shape in zip(found.parameters, shapes, strict=True)]
    rows = zip(*[local_arrays(*each) for each in zip(given, placements, strict=True)], strict=True)
    per_device = [list(row) for row in rows] or [[] for _ in range(4)]
    executable = xla.Client("interpreter", devices=4).compile(module, 1, 4)
    results = [np.asarray(result) for result in executable.execute_sharded(per_device)]
    root = whole.entry_computation.root_instruction.shape
    assert str(array_sharding_of(found.results[0], root, 4)) == str(
        array_sharding_of(Sharding.parse(result_sharding or WHOLE), root, 4)
    )
    array_sharding = array_sharding_of(found.results[0], root, 4)
    np.testing.assert_allclose(assembled(results, array_sharding, root.dimensions), expected, rtol=1e-5, atol=1e-5)
    return found


RESHARDINGS = {
    "same sharding": (SUMS_X, SUMS_X, ""),
    "all partial sums added": (SUMS_X, WHOLE, "all-reduce"),
    "some partial sums added": (SUMS, SUMS_Y, "all-reduce"),
    "added and split along the same axis": (SUMS_X, ROWS_X, "reduce-scatter"),
    "added and split along another axis": (SUMS_X, ROWS_Y, "all-reduce"),
    "added along one axis of a tiled array": (ROWS_X_SUMS_Y, TILES, "reduce-scatter"),
    "replicated to partial sums": (WHOLE, SUMS_X, ""),
    "more partial sums": (SUMS_X, SUMS, ""),
    "partial sums of another axis": (SUMS_X, SUMS_Y, "all-reduce"),
    "tiles to partial sums": (ROWS_X, SUMS_X, ""),
    "tiles of both dimensions to partial sums": (TILES, SUMS, ""),
    "tiles to partial sums of more devices": (ROWS_X, SUMS, ""),
    "tiles of the other axis to partial sums": (ROWS_Y, SUMS_X, "all-gather"),
    "tiles exchanged between dimensions": (COLUMNS_X, ROWS_X_SUMS_Y, "all-to-all"),
}


@pytest.mark.parametrize("name", RESHARDINGS)
def test_resharding_of_partial_sums(name: str) -> None:
    given, wanted, collectives = RESHARDINGS[name]
    mark = f'custom-call(x), custom_call_target="Sharding", sharding={wanted}'
    check(
        f"{HEAD}ENTRY e {{ x = f32[8,8] parameter(0), sharding={given}\nROOT r = f32[8,8] {mark} }}",
        collectives,
        wanted,
    )


OPERATIONS = {
    "add of two partial sums": (SUMS_X, "ROOT r = f32[8,8] add(x, x), sharding={s}", SUMS_X, ""),
    "add of a partial sum and a whole array":
        (SUMS_X, "z = f32[] constant(1)\ny = f32[8,8] broadcast(z), dimensions={}\n"
                            "ROOT r = f32[8,8] add(x, y), sharding={s}", SUMS_X, "all-reduce"),
    "multiply by a whole array":
        (SUMS_X, "z = f32[] constant(3)\ny = f32[8,8] broadcast(z), dimensions={}, sharding={w}\n"
                   "ROOT r = f32[8,8] multiply(y, x), sharding={s}", SUMS_X, ""),
    "multiply of two partial sums": (SUMS_X, "ROOT r = f32[8,8] multiply(x, x), sharding={s}", SUMS_X, "all-reduce"),
    "sine": (SUMS_X, "ROOT r = f32[8,8] sine(x), sharding={s}", ROWS_X, "reduce-scatter"),
    "dot": (TILES, "y = f32[8,8] constant({...})\nROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}, sharding={s}", ROWS_X_SUMS_Y, ""),
    "transpose, reshape and negate deferred":
        (SUMS_X, "y = f32[8,8] transpose(x), dimensions={1,0}\nz = f32[64] reshape(y)\n"
              "v = f32[8,8] reshape(z)\nu = f32[8,8] negate(v)\nROOT r = f32[8,8] sine(u), sharding={s}", WHOLE,
              "all-reduce"),
    "pad with zeros": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\nz = f32[] constant(0)\n"
               "ROOT r = f32[8,8] pad(y, z), padding=4_0x0_0, sharding={s}", SUMS_X, ""),
    "pad with ones": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\nz = f32[] constant(1)\n"
                         "ROOT r = f32[8,8] pad(y, z), padding=4_0x0_0, sharding={s}", SUMS_X, "all-reduce"),
    "concatenate": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\n"
               "ROOT r = f32[8,8] concatenate(y, y), dimensions={0}, sharding={s}", SUMS_X, ""),
    "one user of two partial sums":
        (ROWS_X, "y = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                             "z = f32[8,8] transpose(y), dimensions={1,0}\nROOT r = f32[8,8] add(z, z), sharding={s}",
                             WHOLE, "all-reduce"),
    "partial sums with two users":
        (ROWS_X, "y = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                      "u = f32[8,8] sine(y)\nv = f32[8,8] cosine(y)\nROOT r = f32[8,8] add(u, v), sharding={s}",
                      WHOLE, "all-reduce"),
    "scatter": (ROWS_X, "z = f32[] constant(2)\nt = f32[8,8] broadcast(z), dimensions={}\n"
                  "i = s32[8,1] constant({{3},{1},{4},{1},{5},{2},{6},{0}})\n"
                  "ROOT r = f32[8,8] scatter(t, i, x), update_window_dims={1}, inserted_window_dims={0}, "
                  "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={s}", SUMS_X, ""),
    "convert of integers that wrap around":
        (ROWS_X, "y = s8[8,8] convert(x)\nd = s8[8,8] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                 "ROOT r = f32[8,8] convert(d), sharding={s}", SUMS_X, "all-reduce"),
    "convert of integers to fewer bits":
        (ROWS_X, "y = s32[8,8] convert(x)\nd = s32[8,8] dot(y, y), lhs_contracting_dims={0}, "
                 "rhs_contracting_dims={0}\nROOT r = s8[8,8] convert(d), sharding={s}", SUMS_X, ""),
    "convert to integers":
        (SUMS_X, "y = s32[8,8] convert(x)\nROOT r = f32[8,8] convert(y), sharding={s}", WHOLE, "all-reduce"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_partial_sums(name: str) -> None:
    given, body, wanted, collectives = OPERATIONS[name]
    rows = ",".join("{" + ",".join(str((3 * i + j) % 7) for j in range(8)) + "}" for i in range(8))
    body = body.replace("{s}", wanted).replace("{w}", WHOLE).replace("{...}", f"{{{rows}}}")
    check(f"{HEAD}ENTRY e {{ x = f32[8,8] parameter(0), sharding={given}\n{body} }}", collectives, wanted)


def test_loop_state_stays_unreduced_and_is_added_after_the_loop() -> None:
    text = f"""{HEAD}
      body {{ s = (f32[8,8], s32[], f32[8,8]) parameter(0)
        x = f32[8,8] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1
        a = f32[8,8] get-tuple-element(s), index=2
        one = s32[] constant(1)
        j = s32[] add(i, one)
        d = f32[8,8] dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, sharding={SUMS_X}
        b = f32[8,8] add(a, d), sharding={SUMS_X}
        ROOT t = (f32[8,8], s32[], f32[8,8]) tuple(x, j, b) }}
      condition {{ s = (f32[8,8], s32[], f32[8,8]) parameter(0)
        i = s32[] get-tuple-element(s), index=1
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS_X}
        i = s32[] constant(0)
        z = f32[] constant(1)
        v = f32[8,8] broadcast(z), dimensions={{}}
        t = (f32[8,8], s32[], f32[8,8]) tuple(x, i, v)
        w = (f32[8,8], s32[], f32[8,8]) while(t), body=body, condition=condition,
          sharding={{{ROWS_X}, {{replicated}}, {SUMS_X}}}
        u = f32[8,8] get-tuple-element(w), index=2
        ROOT r = f32[8,8] sine(u), sharding={WHOLE} }}"""
    check(text, "all-reduce")
    module = xla.parse_hlo(text)
    partition(module, 4)
    inside = next(i for i in module.instructions() if i.op.name == "while").computations[1]
    assert [i.name for i in inside if i.op.name == "all-reduce"] == []


def test_independent_all_reduces_are_combined() -> None:
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS_X}
        z = f32[] constant(0)
        a = f32[8] reduce(x, z), dimensions={{0}}, to_apply=sum
        s = f32[8,8] sine(x)
        b = f32[8] reduce(s, z), dimensions={{0}}, to_apply=sum
        c = f32[8] multiply(a, b)
        d = f32[8,8] broadcast(c), dimensions={{1}}, sharding={ROWS_X}
        f = f32[8,8] multiply(d, x)
        g = f32[8] reduce(f, z), dimensions={{0}}, to_apply=sum
        ROOT r = f32[8] cosine(g), sharding={{replicated}} }}"""
    check(text, "all-reduce all-reduce", "{replicated}")
    module = xla.parse_hlo(text)
    partition(module, 4)
    assert sorted(len(i.operands) for i in module.instructions() if i.op.name == "all-reduce") == [1, 2]


def test_manual_regions_take_and_return_partial_sums() -> None:
    """Inside the region an array is the local one; outside it is a partial sum."""
    inside = f"{{{MESH}, [{{}}, {{}}], manual={{'x'}}}}"
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={SUMS_X}
        p = f32[8,8] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={inside}
        q = f32[8,8] sine(p), sharding={inside}
        m = f32[8,8] custom-call(q), custom_call_target="Sharding", sharding={inside}
        ROOT r = f32[8,8] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={SUMS_X} }}"""
    module = xla.parse_hlo(text)
    found = partition(module, 4)
    verify(module)
    assert collectives(module) == []
    assert [i.op.name for i in module.instructions()] == ["parameter", "sine"]
    assert array_sharding_of(found.results[0], xla.Shape.parse("f32[8,8]"), 4).partial_sums == HALVES


def test_only_sums_may_be_unreduced() -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[8] parameter(0), sharding={{{MESH}, [{{}}], unreduced=max{{'x'}}}}
        ROOT r = f32[8] negate(x) }}"""
    with raises(UnsupportedError, codes.UNREDUCED_SUMS, "unreduced=max", "whose max"):
        partition(xla.parse_hlo(text), 4)


def test_partial_sums_survive_translation_to_hlo_shardings() -> None:
    shape = xla.Shape.parse("f32[8,8]")
    for text in (SUMS_X, SUMS_Y, SUMS, ROWS_X_SUMS_Y, TILES, WHOLE, "{unreduced}"):
        array_sharding = array_sharding_of(Sharding.parse(text), shape, 4)
        translated = hlo_sharding_of(array_sharding, 4)
        translated.check(shape)
        assert array_sharding_of(translated, shape, 4) == array_sharding
    assert str(hlo_sharding_of(ArraySharding((None, HALVES), Tiling(4, ((1, 2),))), 4)) == (
        "{devices=[1,2,2]<=[4] last_tile_dims={unreduced}}"
    )


def test_time_of_resharding() -> None:
    """Less data takes less time, a collective takes some time however small, and equal shardings take none."""
    large, small = xla.Shape.parse("f32[8192,8192]"), xla.Shape.parse("f32[8,8]")
    sums, rows, columns = (
        ArraySharding((None, None), HALVES),
        ArraySharding((HALVES, None)),
        ArraySharding((None, HALVES)),
    )
    whole = ArraySharding((None, None))
    assert [type(step).__name__ for step in plan_resharding(sums, rows)] == ["ReduceScatter"]
    seconds = [
        resharding_seconds(large, *pair) for pair in ((rows, columns), (rows, whole), (sums, rows), (sums, whole))
    ]
    assert seconds == sorted(seconds)
    assert resharding_seconds(large, sums, whole) == pytest.approx(
        START_SECONDS + large.byte_size / BANDWIDTH + 2 * large.byte_size / RATES.bytes_accessed * 1e-6
    )
    assert START_SECONDS < resharding_seconds(small, rows, columns) < 1.1 * START_SECONDS
    assert resharding_seconds(large, rows, rows) == 0

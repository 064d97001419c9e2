"""Values whose devices hold what is still to be added up: what each device has, and where it is added up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.verify import verify
from xlapy.spmd import Partitioned, partition
from xlapy.spmd.routes import bytes_sent, route
from xlapy.spmd.splits import Placement, placement_of, sharding_of, tiles_of

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


def parts(array: Any, placement: Placement) -> list[Any]:
    """What each of four devices has: addends are the whole, multiplied by different numbers that add up to one."""
    count = tiles_of(placement.addends)
    shares = [2.0 ** -(number + 1) for number in range(count - 1)]
    shares.append(1 - sum(shares))
    found = []
    for device in range(4):
        part = array * (shares[placement.addends[device]] if placement.addends else 1)
        for dimension, split in enumerate(placement.splits):
            if split is not None:
                part = np.split(part, tiles_of(split), dimension)[split[device]]
        found.append(part)
    return found


def added_up(results: list[Any], placement: Placement, dimensions: tuple[int, ...]) -> Any:
    """The array that the devices' results are parts and addends of; those that have the same must agree."""
    total: dict[Any, Any] = {}
    for device, result in enumerate(results):
        place = tuple(split[device] if split else 0 for split in placement.splits)
        label = placement.addends[device] if placement.addends else 0
        np.testing.assert_array_equal(total.setdefault((place, label), result), result)
    whole = np.zeros(dimensions, results[0].dtype)
    for (place, _), part in total.items():
        at = [slice(tile * size, (tile + 1) * size) for tile, size in zip(place, part.shape, strict=True)]
        whole[tuple(at)] += part
    return whole


def check(text: str, sent: str, told: str = "") -> Partitioned:
    """Added up, the results are those of the whole program; this is what is sent."""
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    found = partition(module, 4)
    verify(module)
    assert " ".join(collectives(module)) == sent
    generator = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    given = [generator.integers(-8, 8, shape.dimensions).astype(shape.dtype) for shape in shapes]
    expected = np.asarray(xla.Client("interpreter").compile(whole)(*given))
    placements = [placement_of(s, shape, 4) for s, shape in zip(found.parameters, shapes, strict=True)]
    rows = zip(*[parts(*each) for each in zip(given, placements, strict=True)], strict=True)
    per_device = [list(row) for row in rows] or [[] for _ in range(4)]
    executable = xla.Client("interpreter", devices=4).compile(module, 1, 4)
    results = [np.asarray(result) for result in executable.execute_sharded(per_device)]
    root = whole.entry_computation.root_instruction.shape
    assert str(placement_of(found.results[0], root, 4)) == str(placement_of(Sharding.parse(told or WHOLE), root, 4))
    lies = placement_of(found.results[0], root, 4)
    np.testing.assert_allclose(added_up(results, lies, root.dimensions), expected, rtol=1e-5, atol=1e-5)
    return found


MOVES = {
    "the same": (SUMS_X, SUMS_X, ""),
    "added up": (SUMS_X, WHOLE, "all-reduce"),
    "some of them": (SUMS, SUMS_Y, "all-reduce"),
    "and cut along the same axis": (SUMS_X, ROWS_X, "reduce-scatter"),
    "and cut along another one": (SUMS_X, ROWS_Y, "all-reduce"),
    "one axis of two that are cut": (ROWS_X_SUMS_Y, TILES, "reduce-scatter"),
    "kept by one device": (WHOLE, SUMS_X, ""),
    "more of them": (SUMS_X, SUMS, ""),
    "other ones": (SUMS_X, SUMS_Y, "all-reduce"),
    "tiles among zeros": (ROWS_X, SUMS_X, ""),
    "tiles of both dimensions": (TILES, SUMS, ""),
    "tiles, and kept": (ROWS_X, SUMS, ""),
    "tiles of the other axis": (ROWS_Y, SUMS_X, "all-gather"),
    "from one dimension to the other": (COLUMNS_X, ROWS_X_SUMS_Y, "all-to-all"),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    given, wanted, sent = MOVES[name]
    mark = f'custom-call(x), custom_call_target="Sharding", sharding={wanted}'
    check(f"{HEAD}ENTRY e {{ x = f32[8,8] parameter(0), sharding={given}\nROOT r = f32[8,8] {mark} }}", sent, wanted)


OPERATIONS = {
    "added": (SUMS_X, "ROOT r = f32[8,8] add(x, x), sharding={s}", SUMS_X, ""),
    "of one that is none": (SUMS_X, "z = f32[] constant(1)\ny = f32[8,8] broadcast(z), dimensions={}\n"
                            "ROOT r = f32[8,8] add(x, y), sharding={s}", SUMS_X, "all-reduce"),
    "multiplied": (SUMS_X, "z = f32[] constant(3)\ny = f32[8,8] broadcast(z), dimensions={}, sharding={w}\n"
                   "ROOT r = f32[8,8] multiply(y, x), sharding={s}", SUMS_X, ""),
    "squared": (SUMS_X, "ROOT r = f32[8,8] multiply(x, x), sharding={s}", SUMS_X, "all-reduce"),
    "sine": (SUMS_X, "ROOT r = f32[8,8] sine(x), sharding={s}", ROWS_X, "reduce-scatter"),
    "product": (TILES, "y = f32[8,8] constant({...})\nROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}, sharding={s}", ROWS_X_SUMS_Y, ""),
    "moved": (SUMS_X, "y = f32[8,8] transpose(x), dimensions={1,0}\nz = f32[64] reshape(y)\n"
              "v = f32[8,8] reshape(z)\nu = f32[8,8] negate(v)\nROOT r = f32[8,8] sine(u), sharding={s}", WHOLE,
              "all-reduce"),
    "padded": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\nz = f32[] constant(0)\n"
               "ROOT r = f32[8,8] pad(y, z), padding=4_0x0_0, sharding={s}", SUMS_X, ""),
    "padded with ones": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\nz = f32[] constant(1)\n"
                         "ROOT r = f32[8,8] pad(y, z), padding=4_0x0_0, sharding={s}", SUMS_X, "all-reduce"),
    "joined": (SUMS_X, "y = f32[4,8] slice(x), slice={[2:6],[0:8]}, sharding={s}\n"
               "ROOT r = f32[8,8] concatenate(y, y), dimensions={0}, sharding={s}", SUMS_X, ""),
    "two sums of one user": (ROWS_X, "y = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                             "z = f32[8,8] transpose(y), dimensions={1,0}\nROOT r = f32[8,8] add(z, z), sharding={s}",
                             WHOLE, "all-reduce"),
    "a sum for two": (ROWS_X, "y = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                      "u = f32[8,8] sine(y)\nv = f32[8,8] cosine(y)\nROOT r = f32[8,8] add(u, v), sharding={s}",
                      WHOLE, "all-reduce"),
    "scattered": (ROWS_X, "z = f32[] constant(2)\nt = f32[8,8] broadcast(z), dimensions={}\n"
                  "i = s32[8,1] constant({{3},{1},{4},{1},{5},{2},{6},{0}})\n"
                  "ROOT r = f32[8,8] scatter(t, i, x), update_window_dims={1}, inserted_window_dims={0}, "
                  "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={s}", SUMS_X, ""),
    "converted": (SUMS_X, "y = s32[8,8] convert(x)\nROOT r = f32[8,8] convert(y), sharding={s}", WHOLE, "all-reduce"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    given, body, wanted, sent = OPERATIONS[name]
    rows = ",".join("{" + ",".join(str((3 * i + j) % 7) for j in range(8)) + "}" for i in range(8))
    body = body.replace("{s}", wanted).replace("{w}", WHOLE).replace("{...}", f"{{{rows}}}")
    check(f"{HEAD}ENTRY e {{ x = f32[8,8] parameter(0), sharding={given}\n{body} }}", sent, wanted)


def test_loops_add_up_behind_them() -> None:
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


def test_all_reduces_that_do_not_wait_for_each_other_are_one() -> None:
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


def test_regions_by_hand_take_and_give_addends() -> None:
    """Inside they are what a device has; outside that is a part of a sum."""
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
    assert placement_of(found.results[0], xla.Shape.parse("f32[8,8]"), 4).addends == (0, 0, 1, 1)


def test_only_sums_are_left() -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[8] parameter(0), sharding={{{MESH}, [{{}}], unreduced=max{{'x'}}}}
        ROOT r = f32[8] negate(x) }}"""
    with pytest.raises(UnsupportedError, match=r"unreduced=max.*values whose max is still to be taken; only sums"):
        partition(xla.parse_hlo(text), 4)


def test_shardings_say_addends() -> None:
    shape = xla.Shape.parse("f32[8,8]")
    for text in (SUMS_X, SUMS_Y, SUMS, ROWS_X_SUMS_Y, TILES, WHOLE, "{unreduced}"):
        placement = placement_of(Sharding.parse(text), shape, 4)
        told = sharding_of(placement, 4)
        told.check(shape)
        assert placement_of(told, shape, 4) == placement
    assert str(sharding_of(Placement((None, (0, 0, 1, 1)), (0, 1, 0, 1)), 4)) == (
        "{devices=[1,2,2]<=[4] last_tile_dims={unreduced}}"
    )


def test_what_is_sent_on_the_way() -> None:
    shape = xla.Shape.parse("f32[8,8]")
    sums, rows = Placement((None, None), (0, 0, 1, 1)), Placement(((0, 0, 1, 1), None))
    assert [type(step).__name__ for step in route(sums, rows)] == ["AddUpTiles"]
    assert bytes_sent(shape, sums, rows) == 128  # half of 256 bytes
    assert bytes_sent(shape, sums, Placement((None, None))) == 256
    assert bytes_sent(shape, rows, Placement((None, None))) == 128
    assert bytes_sent(shape, rows, Placement((None, (0, 0, 1, 1)))) == 64
    assert bytes_sent(shape, rows, rows) == 0

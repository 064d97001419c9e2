"""The results of all devices together are the result of the unpartitioned program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from tests.raising import raises
from tests.spmd.sharded_runs import local_array
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.spmd import partition

DEVICES = 4
ROWS, COLUMNS, BOTH, WHOLE = (
    "{devices=[4,1]<=[4]}",
    "{devices=[1,4]<=[4]}",
    "{devices=[2,2]<=[4]}",
    "{replicated}",
)
HALF_ROWS = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""


def arguments(module: Module) -> list[Any]:
    generator = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    return [(generator.integers(-9, 9, shape.dimensions) * 0.5).astype(shape.dtype) for shape in shapes]


def check(text: str, collectives: str) -> None:
    """Checks that the local results are tiles of the whole result, and which collectives the program has."""
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    given = arguments(whole)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    leaves = [leaf for _, leaf in whole.entry_computation.root_instruction.shape.leaves()]
    expected = xla.Client("interpreter").compile(whole)(*given)
    expected = list(expected) if len(leaves) > 1 else [expected]
    shardings = partition(module, DEVICES)
    verify(module)
    sent = sorted({i.op.name for i in module.instructions() if i.op.family == "collectives"} - {"partition-id"})
    assert " ".join(sent) == collectives
    parts = [
        [local_array(*each, device, DEVICES) for each in zip(given, shapes, shardings.parameters, strict=True)]
        for device in range(DEVICES)
    ]
    results = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    for device, result in enumerate(results):
        found = list(result) if len(leaves) > 1 else [result]
        for got, want, leaf, sharding in zip(found, expected, leaves, shardings.results, strict=True):
            want_part = local_array(np.asarray(want), leaf, sharding, device, DEVICES)
            np.testing.assert_allclose(np.asarray(got), want_part, rtol=1e-5, atol=1e-5)


OPERATIONS = {
    "same tiles": (BOTH, "ROOT r = f32[8,8] add(x, x), sharding={s}", BOTH, ""),
    "gathered": (ROWS, "ROOT r = f32[8,8] negate(x), sharding={s}", WHOLE, "all-gather"),
    "split": (WHOLE, "ROOT r = f32[8,8] negate(x), sharding={s}", BOTH, ""),
    "split along another dimension": (ROWS, "ROOT r = f32[8,8] negate(x), sharding={s}", COLUMNS, "all-to-all"),
    "split over half the devices": (HALF_ROWS, "ROOT r = f32[8,8] negate(x), sharding={s}", ROWS, "collective-permute"),
    "transposed": (ROWS, "ROOT r = f32[8,8] transpose(x), dimensions={1,0}, sharding={s}", COLUMNS, ""),
    "reshaped": (ROWS, "y = f32[4,2,8] reshape(x)\nROOT r = f32[8,8] reshape(y), sharding={s}", ROWS, ""),
    "reshape that splits rows over two dimensions":
        (ROWS, "y = f32[2,4,8] reshape(x)\nROOT r = f32[8,8] reshape(y), sharding={s}", ROWS, ""),
    "broadcast of a scalar": (WHOLE, "c = f32[] constant(3)\ny = f32[8,8] broadcast(c), dimensions={}, sharding={s}\n"
                 "ROOT r = f32[8,8] add(x, y), sharding={s}", BOTH, ""),
    "iota": (WHOLE, "y = f32[8,8] iota(), iota_dimension=0, sharding={s}\n"
                "ROOT r = f32[8,8] add(x, y), sharding={s}", BOTH, ""),
    "broadcast of a constant":
        (ROWS, "c = f32[8] constant({1,2,3,4,5,6,7,8})\ny = f32[8,8] broadcast(c), dimensions={0}\n"
                 "ROOT r = f32[8,8] add(x, y), sharding={s}", ROWS, ""),
    "dot over columns": (ROWS, "y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                        "ROOT r = f32[8,8] negate(y), sharding={s}", ROWS, "all-gather"),
    "dot over rows": (ROWS, "ROOT r = f32[8,8] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                        "sharding={s}", WHOLE, "all-reduce"),
    "dot of tiles": (BOTH, "ROOT r = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                        "sharding={s}", BOTH, "all-gather"),
    "copy and bitcast-convert":
        (BOTH, "y = u32[8,8] bitcast-convert(x)\nz = u32[8,8] copy(y)\nv = u16[8,8,2] bitcast-convert(z)\n"
               "w = u32[8,8] bitcast-convert(v)\nROOT r = f32[8,8] bitcast-convert(w), sharding={s}", BOTH, ""),
    "sum": (ROWS, "z = f32[] constant(0)\ny = f32[8] reduce(x, z), dimensions={0}, to_apply=sum\n"
            "ROOT r = f32[8,8] broadcast(y), dimensions={0}, sharding={s}", WHOLE, "all-reduce"),
    "sum with another initial value":
        (ROWS, "z = f32[] constant(5)\ny = f32[8] reduce(x, z), dimensions={0}, to_apply=sum\n"
                           "ROOT r = f32[8,8] broadcast(y), dimensions={0}, sharding={s}", WHOLE, "all-gather"),
    "maximum": (BOTH, "z = f32[] constant(5)\ny = f32[8] reduce(x, z), dimensions={0}, to_apply=most\n"
                 "ROOT r = f32[8,8] broadcast(y), dimensions={1}, sharding={s}", COLUMNS,
                 "all-reduce collective-permute"),
    "sort": (ROWS, "ROOT r = f32[8,8] sort(x), dimensions={1}, to_apply=less, sharding={s}", ROWS, ""),
    "sort of the split dimension":
        (ROWS, "ROOT r = f32[8,8] sort(x), dimensions={0}, to_apply=less, sharding={s}", ROWS,
                      "all-to-all"),
    "slice and pad": (ROWS, "y = f32[8,3] slice(x), slice={[0:8],[1:6:2]}\n"
               "z = f32[] constant(1)\nROOT r = f32[8,8] pad(y, z), padding=0_0x2_3, sharding={s}", ROWS, ""),
    "slice and pad of the split dimension": (ROWS, "y = f32[3,8] slice(x), slice={[1:4],[0:8]}\nz = f32[] constant(1)\n"
                      "ROOT r = f32[8,8] pad(y, z), padding=0_5x0_0, sharding={s}", ROWS, "collective-permute"),
    "reverse": (ROWS, "ROOT r = f32[8,8] reverse(x), dimensions={1}, sharding={s}", ROWS, ""),
    "concatenate": (COLUMNS, "y = f32[4,8] slice(x), slice={[0:4],[0:8]}\n"
               "ROOT r = f32[8,8] concatenate(y, y), dimensions={0}, sharding={s}", COLUMNS, ""),
    "dynamic-update-slice":
        (COLUMNS, "i = s32[] constant(3)\nj = s32[] constant(0)\ny = f32[2,8] slice(x), slice={[0:2],[0:8]}\n"
                "ROOT r = f32[8,8] dynamic-update-slice(x, y, i, j), sharding={s}", COLUMNS, ""),
    "dynamic-slice": (COLUMNS, "i = s32[] constant(3)\nj = s32[] constant(0)\n"
               "y = f32[2,8] dynamic-slice(x, i, j), dynamic_slice_sizes={2,8}\nz = f32[] constant(1)\n"
               "ROOT r = f32[8,8] pad(y, z), padding=0_6x0_0, sharding={s}", COLUMNS, ""),
    "gather": (COLUMNS, "i = s32[8,1] constant({{3},{1},{4},{1},{5},{2},{6},{0}})\n"
               "ROOT r = f32[8,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
               "index_vector_dim=1, slice_sizes={1,8}, sharding={s}", COLUMNS, ""),
    "gather of rows": (WHOLE, "i = s32[8,1] constant({{3},{1},{4},{1},{5},{2},{6},{0}})\n"
                       "ROOT r = f32[8,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
                       "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, sharding={s}", ROWS, ""),
    "scatter": (COLUMNS, "i = s32[2,1] constant({{3},{1}})\ny = f32[2,8] slice(x), slice={[0:2],[0:8]}\n"
                "ROOT r = f32[8,8] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0}, "
                "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={s}", COLUMNS, ""),
    "gather from split rows": (ROWS, "i = s32[8,1] constant({{3},{1},{-4},{1},{5},{2},{6},{90}})\n"
                      "ROOT r = f32[8,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                      "index_vector_dim=1, slice_sizes={1,8}, sharding={s}", WHOLE, "all-reduce"),
    "gather from split rows to rows": (ROWS, "i = u8[8] constant({3,1,255,1,5,2,6,7})\n"
                              "ROOT r = f32[8,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
                              "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, sharding={s}", ROWS,
                              "reduce-scatter"),
    "gather of elements": (BOTH, "i = s64[8,8,2] constant({...})\n"
                           "ROOT r = f32[8,8] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
                           "start_index_map={1,0}, index_vector_dim=2, slice_sizes={1,1}, sharding={s}", WHOLE,
                           "all-reduce"),
    "scatter into split rows":
        (ROWS, "i = s32[4,1] constant({{3},{1},{-1},{8}})\ny = f32[4,8] slice(x), slice={[0:4],[0:8]}, "
                       "sharding={replicated}\nROOT r = f32[8,8] scatter(x, i, y), update_window_dims={1}, "
                       "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, "
                       "sharding={s}", ROWS, "all-gather collective-permute"),
    "scatter of elements": (BOTH, "i = u64[3,2] constant({{3,0},{9223372036854775808,1},{7,7}})\n"
                            "y = f32[3] constant({1,2,3})\nROOT r = f32[8,8] scatter(x, i, y), "
                            "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, "
                            "index_vector_dim=1, to_apply=sum, sharding={s}", BOTH, ""),
    "scatter at extreme indices": (ROWS, "i = s32[3] constant({-2147483648,2147483647,7})\n"
                            "z = f32[] constant(1)\ny = f32[3,8] broadcast(z), dimensions={}\n"
                            "ROOT r = f32[8,8] scatter(x, i, y), update_window_dims={1}, inserted_window_dims={0}, "
                            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum, sharding={s}", ROWS,
                            ""),
    "dynamic-update-slice of split rows":
        (ROWS, "i = s32[] constant(5)\nj = s32[] constant(-3)\nc = f32[] constant(9)\n"
                       "y = f32[1,8] broadcast(c), dimensions={}\n"
                       "ROOT r = f32[8,8] dynamic-update-slice(x, y, i, j), sharding={s}", ROWS, ""),
    "dynamic-update-slice out of bounds": (BOTH, "i = u8[] constant(200)\nj = u8[] constant(2)\nc = f32[] constant(9)\n"
                               "y = f32[1,1] broadcast(c), dimensions={}\n"
                               "ROOT r = f32[8,8] dynamic-update-slice(x, y, i, j), sharding={s}", BOTH, ""),
    "dynamic-slice of split rows": (ROWS, "i = s32[] constant(6)\nj = s32[] constant(0)\n"
                      "y = f32[1,8] dynamic-slice(x, i, j), dynamic_slice_sizes={1,8}\nz = f32[8] reshape(y)\n"
                      "ROOT r = f32[8,8] broadcast(z), dimensions={1}, sharding={s}", WHOLE, "all-reduce"),
    "reduce-window": (COLUMNS, "z = f32[] constant(0)\nROOT r = f32[8,8] reduce-window(x, z), "
                "window={size=3x1 pad=1_1x0_0}, to_apply=sum, sharding={s}", COLUMNS, ""),
    "reduce-window along the split dimension": (ROWS, "z = f32[] constant(0)\nROOT r = f32[8,8] reduce-window(x, z), "
                       "window={size=3x1 pad=1_1x0_0}, to_apply=sum, sharding={s}", ROWS, "collective-permute"),
    "slice of uneven size": (ROWS, "y = f32[3,8] slice(x), slice={[0:3],[0:8]}, sharding={s}\nz = f32[] constant(1)\n"
               "ROOT r = f32[8,8] pad(y, z), padding=0_5x0_0, sharding={s}", ROWS, "collective-permute"),
    "sharding constraint":
        (ROWS, 'ROOT r = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={s}', COLUMNS,
                   "all-to-all"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    given, body, wanted, collectives = OPERATIONS[name]
    places = ",".join("{" + ",".join(f"{{{(3 * i) % 8},{(i + 5 * j) % 8}}}" for j in range(8)) + "}" for i in range(8))
    body = body.replace("{s}", wanted).replace("{...}", f"{{{places}}}")
    check(f"{HEAD}ENTRY e {{ x = f32[8,8] parameter(0), sharding={given}\n{body} }}", collectives)


def test_dot_of_many_dimensions() -> None:
    text = """HloModule m
      ENTRY e { a = f32[4,6,8] parameter(0), sharding={devices=[2,1,2]<=[4]}
        b = f32[4,8,2] parameter(1), sharding={devices=[2,2,1]<=[4]}
        ROOT r = f32[4,6,2] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
          rhs_contracting_dims={1}, sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate} }"""
    check(text, "all-reduce")


def test_a_dot_keeps_neither_all_that_is_requested_nor_all_that_is_given() -> None:
    """The contracted dimension stays split as it is, the columns are split as requested, and rows are gathered.

    Then less is sent than if the operands were gathered along the contracted dimension, or kept as they are.
    """
    text = """HloModule m
      ENTRY e { a = f32[16,16] parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}
        b = f32[16,16] parameter(1), sharding={devices=[2,2]<=[2,2]T(1,0)}
        ROOT r = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1},
          sharding={devices=[2,2]<=[4]} }"""
    check(text, "all-gather reduce-scatter")


@pytest.mark.parametrize(("padding", "padded", "rows", "columns", "sent_rows"), [
    ("1_0x0_0", "9,8", "0:8", "0:8", 1), ("0_3x1_2", "11,11", "3:11", "1:9", 2), ("2_1_1x0_0", "18,8", "0:8", "0:8", 2),
])  # fmt: skip
def test_a_slice_of_a_pad_sends_what_a_shift_needs(
    padding: str, padded: str, rows: str, columns: str, sent_rows: int
) -> None:
    """The tiles of the padded array would be of another size, so that a device would send four to five rows."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        z = f32[] constant(7)
        p = f32[{padded}] pad(x, z), padding={padding}
        ROOT r = f32[8,8] slice(p), slice={{[{rows}],[{columns}]}}, sharding={ROWS} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    sent = [i.operands[0].shape.size for i in module.instructions() if i.op.name == "collective-permute"]
    assert sum(sent) == 8 * sent_rows
    check(text, "collective-permute")


def test_equal_operations_send_once() -> None:
    """A program that reads the same neighbors twice, as differences of slices do."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        a = f32[8,8] sine(x), sharding={ROWS}
        b = f32[8,8] reverse(a), dimensions={{0}}, sharding={ROWS}
        c = f32[8,8] reverse(a), dimensions={{0}}, sharding={ROWS}
        d = f32[8,8] reverse(a), dimensions={{1}}, sharding={ROWS}
        e = f32[8,8] add(b, c), sharding={ROWS}
        ROOT r = f32[8,8] add(d, e), sharding={ROWS} }}"""
    check(text, "collective-permute")
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    assert [i.op.name for i in module.instructions()].count("collective-permute") == 1


def test_convolutions_are_split_along_batch_and_features() -> None:
    text = """HloModule m
      ENTRY e { x = f32[2,8,3] parameter(0), sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate}
        k = f32[4,3,3] parameter(1)
        ROOT r = f32[2,8,4] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_o0i->b0f,
          sharding={devices=[2,1,2]<=[4]} }"""
    check(text, "")


def test_kernel_gradients_are_summed_over_the_batch() -> None:
    text = """HloModule m
      ENTRY e { x = f32[4,8,4] parameter(0), sharding={devices=[4,1,1]<=[4]}
        g = f32[4,8,2] parameter(1), sharding={devices=[4,1,1]<=[4]}
        ROOT r = f32[4,3,2] convolution(x, g), window={size=8 pad=1_1}, dim_labels=f0b_i0o->b0f,
          sharding={replicated} }"""
    check(text, "all-reduce")


def test_sort_of_several_arrays() -> None:
    text = f"""{HEAD}
      order {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        c = f32[] parameter(2)
        d = f32[] parameter(3)
        ROOT e = pred[] compare(a, b), direction=LT }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] iota(), iota_dimension=1
        ROOT r = (f32[8,8], f32[8,8]) sort(x, y), dimensions={{1}}, is_stable=true, to_apply=order,
          sharding={{{ROWS}, {WHOLE}}} }}"""
    check(text, "all-gather")


def test_loop_state_has_the_placements_of_the_loop_sharding() -> None:
    text = f"""{HEAD}
      body {{ s = (f32[8,8], s32[], f32[8]) parameter(0)
        x = f32[8,8] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        z = f32[] constant(0)
        v = f32[8] reduce(x, z), dimensions={{0}}, to_apply=sum
        half = f32[] constant(0.25)
        h = f32[8,8] broadcast(half), dimensions={{}}
        y = f32[8,8] multiply(x, h), sharding={ROWS}
        ROOT t = (f32[8,8], s32[], f32[8]) tuple(y, j, v) }}
      condition {{ s = (f32[8,8], s32[], f32[8]) parameter(0)
        i = s32[] get-tuple-element(s), index=1
        three = s32[] constant(3)
        ROOT p = pred[] compare(i, three), direction=LT }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        i = s32[] constant(0)
        v = f32[8] parameter(1)
        t = (f32[8,8], s32[], f32[8]) tuple(x, i, v)
        w = (f32[8,8], s32[], f32[8]) while(t), body=body, condition=condition,
          sharding={{{ROWS}, {WHOLE}, {{devices=[4]<=[4]}}}}
        y = f32[8,8] get-tuple-element(w), index=0
        u = f32[8] get-tuple-element(w), index=2
        ROOT r = (f32[8,8], f32[8]) tuple(y, u), sharding={{{ROWS}, {{devices=[4]<=[4]}}}} }}"""
    check(text, "reduce-scatter")


@pytest.mark.parametrize("wanted", [ROWS, WHOLE])
def test_branches_take_local_arrays(wanted: str) -> None:
    text = f"""HloModule m
      twice {{ a = f32[8,8] parameter(0)
        ROOT b = f32[8,8] add(a, a) }}
      turned {{ a = f32[8,8] parameter(0)
        ROOT b = f32[8,8] transpose(a), dimensions={{1,0}} }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8] parameter(1), sharding={{devices=[4]<=[4]}}
        e = f32[1] slice(y), slice={{[5:6]}}
        s = f32[] reshape(e)
        z = f32[] constant(0)
        p = pred[] compare(s, z), direction=LT
        ROOT r = f32[8,8] conditional(p, x, x), true_computation=twice, false_computation=turned,
          sharding={wanted} }}"""
    check(text, "all-gather all-to-all collective-permute" if wanted == ROWS else "all-gather collective-permute")


def test_calls_are_inlined_and_side_effects_stay() -> None:
    text = f"""HloModule m
      twice {{ a = f32[8,8] parameter(0)
        ROOT b = f32[8,8] add(a, a) }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] call(x), to_apply=twice
        ROOT r = f32[8,8] opt-barrier(y), sharding={ROWS} }}"""
    check(text, "")


# -- manual regions


def test_a_manual_region_is_left_as_it_is() -> None:
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={COLUMNS}
        a = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={ROWS}
        p = f32[2,8] custom-call(a), custom_call_target="SPMDFullToShardShape", sharding={{manual}}
        s = f32[2,8] all-reduce(p), channel_id=3, replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true,
          to_apply=sum
        i = u32[] partition-id()
        f = f32[] convert(i)
        g = f32[2,8] broadcast(f), dimensions={{}}
        q = f32[2,8] add(s, g)
        m = f32[2,8] custom-call(q), custom_call_target="Sharding", sharding={{manual}}
        ROOT r = f32[8,8] custom-call(m), custom_call_target="SPMDShardToFullShape", sharding={ROWS} }}"""
    module = xla.parse_hlo(text)
    shardings = partition(module, DEVICES)
    verify(module)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    parts = [
        [local_array(x, Shape.parse("f32[8,8]"), shardings.parameters[0], device, DEVICES)] for device in range(DEVICES)
    ]
    results = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    for device, result in enumerate(results):
        expected = x.reshape(4, 2, 8).sum(0) + device
        np.testing.assert_array_equal(np.asarray(result), expected)


# -- maximal shardings and per-device calls


def test_an_instruction_with_a_maximal_sharding_runs_on_one_device() -> None:
    seen: list[Any] = []

    def target(x: Any) -> Any:
        seen.append(x.copy())
        return x[:2] + 1

    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[2,8] custom-call(x), custom_call_target="target", sharding={{maximal device=2}}
        ROOT r = f32[2,8] negate(y) }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    verify(module)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    parts = [[rows] for rows in np.split(x, DEVICES)]
    with registered(target):
        for result in xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts):
            np.testing.assert_array_equal(np.asarray(result), -(x[:2] + 1))
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], x)


def test_per_device_calls_take_local_operands() -> None:
    seen: list[Any] = []

    def target(x: Any) -> tuple[Any, ...]:
        seen.append(x.tolist())
        return ()

    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = () custom-call(x), custom_call_target="target", custom_call_has_side_effect=true
        ROOT r = f32[8,8] negate(x), sharding={ROWS} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES, frozenset({"target"}))
    verify(module)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    parts = [[rows] for rows in np.split(x, DEVICES)]
    with registered(target):
        xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    assert sorted(seen) == [rows.tolist() for (rows,) in parts]


def test_a_manual_region_along_one_axis_of_two() -> None:
    """A second region inside of it is manual along the other axis."""
    mesh = "mesh['x'=2,'y'=2]"
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={BOTH}
        a = f32[8,8] custom-call(x), custom_call_target="Sharding", sharding={{{mesh}, [{{'x'}}, {{'y'}}]}}
        p = f32[4,8] custom-call(a), custom_call_target="SPMDFullToShardShape",
          sharding={{{mesh}, [{{}}, {{'y'}}], manual={{'x'}}}}
        s = f32[4,8] all-reduce(p), channel_id=3, replica_groups={{{{0,2}},{{1,3}}}}, use_global_device_ids=true,
          to_apply=sum
        b = f32[4,8] custom-call(s), custom_call_target="Sharding", sharding={{{mesh}, [{{}}, {{'y'}}]}}
        q = f32[4,4] custom-call(b), custom_call_target="SPMDFullToShardShape",
          sharding={{{mesh}, [{{}}, {{}}], manual={{'y'}}}}
        i = u32[] partition-id()
        f = f32[] convert(i)
        g = f32[4,4] broadcast(f), dimensions={{}}
        h = f32[4,4] add(q, g)
        c = f32[4,4] custom-call(h), custom_call_target="Sharding", sharding={{{mesh}, [{{}}, {{}}], manual={{'y'}}}}
        t = f32[4,8] custom-call(c), custom_call_target="SPMDShardToFullShape", sharding={{{mesh}, [{{}}, {{'y'}}]}}
        m = f32[4,8] custom-call(t), custom_call_target="Sharding", sharding={{{mesh}, [{{}}, {{'y'}}], manual={{'x'}}}}
        ROOT r = f32[8,8] custom-call(m), custom_call_target="SPMDShardToFullShape",
          sharding={{{mesh}, [{{'x'}}, {{'y'}}]}} }}"""
    module = xla.parse_hlo(text)
    shardings = partition(module, DEVICES)
    verify(module)
    x, shape = np.arange(64, dtype=np.float32).reshape(8, 8), Shape.parse("f32[8,8]")
    parts = [[local_array(x, shape, shardings.parameters[0], device, DEVICES)] for device in range(DEVICES)]
    results = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    whole = np.tile(x[:4] + x[4:], (2, 1)) + np.kron(np.arange(4).reshape(2, 2), np.ones((4, 4)))
    for device, result in enumerate(results):
        np.testing.assert_array_equal(
            np.asarray(result), local_array(whole, shape, shardings.results[0], device, DEVICES)
        )


def test_transfers_are_unsupported() -> None:
    text = """HloModule m
      ENTRY e { t = token[] after-all()
        i = (f32[4], token[]) infeed(t)
        ROOT r = f32[4] get-tuple-element(i), index=0 }"""
    with raises(UnsupportedError, codes.PARTITIONED_OPERATION, "i (infeed)"):
        partition(xla.parse_hlo(text), DEVICES)


def test_donors_without_a_result_of_equal_size_are_dropped() -> None:
    text = f"""HloModule m, buffer_donor={{ (0, {{}}), (1, {{}}) }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] parameter(1)
        ROOT r = f32[8,8] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={ROWS} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    assert [donor.parameter_number for donor in module.config.buffer_donors] == [0]


def test_aliases_of_buffers_of_equal_size_are_kept() -> None:
    text = f"""HloModule m, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{1}}: (1, {{}}, may-alias) }}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] parameter(1), sharding={ROWS}
        a = f32[8,8] negate(x)
        b = f32[8,8] negate(y)
        ROOT r = (f32[8,8], f32[8,8]) tuple(a, b), sharding={{{ROWS}, {WHOLE}}} }}"""
    module = xla.parse_hlo(text)
    partition(module, DEVICES)
    assert [alias.parameter_number for alias in module.config.input_output_alias] == [0]


def test_inspect_sharding_is_called() -> None:
    text = f"""HloModule m
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] transpose(x), dimensions={{1,0}}
        i = f32[8,8] custom-call(y), custom_call_target="InspectSharding", custom_call_has_side_effect=true
        ROOT r = f32[8,8] negate(y), sharding={COLUMNS} }}"""
    module = xla.parse_hlo(text)
    inspected: list[tuple[str, str]] = []
    partition(module, DEVICES, inspect=lambda call, sharding: inspected.append((call.name, str(sharding))))
    assert inspected == [("i", COLUMNS)]
    assert [i.op.name for i in module.instructions()] == ["parameter", "transpose", "negate"]


def test_a_tile_of_one_element_is_reduced_with_an_initial_value_that_is_not_the_identity() -> None:
    text = f"""{HEAD}
      ENTRY e {{ x = f32[4,3] parameter(0), sharding={ROWS}
        least = f32[] constant(100)
        ROOT r = f32[3] reduce(x, least), dimensions={{0}}, to_apply=most, sharding={WHOLE} }}"""
    check(text, "all-reduce")

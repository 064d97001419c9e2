"""Gathers and scatters split along their indices: indices that count, and reducers other than sums."""

from __future__ import annotations

import numpy as np
import pytest

from tests.spmd.along_dimension.partitioned import check_partitioned, collectives

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
last { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
"""

COUNTING = """
  i = s32[{rows}] iota(), iota_dimension=0
  zero = s32[] constant(0)
  zeros = s32[{rows}] broadcast(zero), dimensions={{}}
  size = s32[] constant({rows})
  sizes = s32[{rows}] broadcast(size), dimensions={{}}
  negative = pred[{rows}] compare(i, zeros), direction=LT
  wrapped = s32[{rows}] add(i, sizes)
  counted = s32[{rows}] select(negative, wrapped, i)
  first = s32[{rows},1] reshape(counted)
  second = s32[{rows},1] reshape(labels)
  at = s32[{rows},2] concatenate({order}), dimensions={{1}}
"""
"""JAX's indices of `x[arange(rows), labels]`, with the wrapping of negative indices."""


def split(devices: int, dimension: int, rank: int) -> str:
    return f"{{devices=[{','.join(str(devices) if d == dimension else '1' for d in range(rank))}]<=[{devices}]}}"


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("order", ["first, second", "second, first"])
def test_gather_with_indices_that_count(devices: int, order: str) -> None:
    """The counting component is the index of dimension 0, or, with the other order, of dimension 1."""
    rows, columns, dimension = 16, 24, 0 if order == "first, second" else 1
    sizes = (rows, columns) if dimension == 0 else (columns, rows)
    text = f"""{HEAD}
      ENTRY e {{ x = f32[{sizes[0]},{sizes[1]}] parameter(0), sharding={split(devices, dimension, 2)}
        labels = s32[{rows}] parameter(1), sharding={split(devices, 0, 1)} {COUNTING.format(rows=rows, order=order)}
        ROOT r = f32[{rows}] gather(x, at), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}},
          index_vector_dim=1, slice_sizes={{1,1}}, sharding={split(devices, 0, 1)} }}"""
    generator = np.random.default_rng(devices)
    given = [generator.standard_normal(sizes).astype(np.float32), generator.integers(-3, 30, rows).astype(np.int32)]
    assert collectives(check_partitioned(text, devices, given)) == []


@pytest.mark.parametrize("reducer", ["sum", "last"])
@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_scatter_with_indices_that_count(reducer: str, platform: str) -> None:
    rows, columns, devices = 16, 6, 4
    text = f"""{HEAD}
      ENTRY e {{ x = f32[{rows},{columns}] parameter(0), sharding={split(devices, 0, 2)}
        labels = s32[{rows}] parameter(1), sharding={split(devices, 0, 1)}
        u = f32[{rows}] parameter(2), sharding={split(devices, 0, 1)}
        {COUNTING.format(rows=rows, order="first, second")}
        ROOT r = f32[{rows},{columns}] scatter(x, at, u), update_window_dims={{}}, inserted_window_dims={{0,1}},
          scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply={reducer},
          sharding={split(devices, 0, 2)} }}"""
    generator = np.random.default_rng(0)
    given = [
        generator.integers(-9, 9, (rows, columns)).astype(np.float32),
        generator.integers(-1, 8, rows).astype(np.int32),
        generator.integers(-9, 9, rows).astype(np.float32),
    ]
    assert collectives(check_partitioned(text, devices, given, platform)) == []


def test_indices_that_count_only_almost_are_read_everywhere() -> None:
    """Row 3 of the indices reads row 2 of the array, which is on another device."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[4,2] parameter(0), sharding={split(4, 0, 2)}
        labels = s32[4,1] parameter(1)
        first = s32[4,1] constant({{{{0}},{{1}},{{2}},{{2}}}})
        at = s32[4,2] concatenate(first, labels), dimensions={{1}}
        ROOT r = f32[4] gather(x, at), offset_dims={{}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}},
          index_vector_dim=1, slice_sizes={{1,1}}, sharding={split(4, 0, 1)} }}"""
    given = [np.arange(8, dtype=np.float32).reshape(4, 2), np.array([[0], [1], [1], [0]], np.int32)]
    assert collectives(check_partitioned(text, 4, given)) != []


@pytest.mark.parametrize("devices", [2, 8])
@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_maxima_of_split_updates_are_combined(devices: int, platform: str) -> None:
    """Each device scatters its updates; the all-reduce of the maxima is smaller than the updates."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[3,4] parameter(0)
        i = s32[64] parameter(1), sharding={split(devices, 0, 1)}
        u = f32[64,4] parameter(2), sharding={split(devices, 0, 2)}
        ROOT r = f32[3,4] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=most, sharding={{replicated}} }}"""
    generator = np.random.default_rng(0)
    given = [
        generator.standard_normal((3, 4)).astype(np.float32),
        generator.integers(-1, 4, 64).astype(np.int32),
        generator.standard_normal((64, 4)).astype(np.float32),
    ]
    assert collectives(check_partitioned(text, devices, given, platform)) == ["all-reduce"]


def test_updates_that_overwrite_are_gathered() -> None:
    """The last update of an element counts, wherever it is."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[3] parameter(0)
        i = s32[64] parameter(1), sharding={split(8, 0, 1)}
        u = f32[64] parameter(2), sharding={split(8, 0, 1)}
        ROOT r = f32[3] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=last, sharding={{replicated}} }}"""
    generator = np.random.default_rng(0)
    given = [np.zeros(3, np.float32), generator.integers(0, 3, 64).astype(np.int32), np.arange(64, dtype=np.float32)]
    assert collectives(check_partitioned(text, 8, given)) == ["all-gather"]

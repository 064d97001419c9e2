"""The blocks of a packed GEMM follow from the caches and the processors of the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xlapy.codegen.emitters.matmul.blocking import MAX_LEFT_BYTES, Blocking, choose_blocking
from xlapy.codegen.emitters.matmul.micro_kernel import Tile
from xlapy.codegen.target import Target
from xlapy.cpu.target import cache_bytes
from xlapy.loops.builder import MAX_SCRATCH_BYTES

TARGET = Target(vector_bytes=64, vector_registers=32, l2_bytes=1 << 20, processors=2)
TILE = Tile(rows=8, vectors=2, lanes=16)


def blocking(rows: int, columns: int, target: Target = TARGET, *, in_scratch: bool = False) -> Blocking:
    return choose_blocking(target, TILE, 4, (1, rows, columns), 1024, in_scratch=in_scratch)


def test_example_of_the_documentation() -> None:
    assert blocking(1024, 1024) == Blocking(mc_tiles=64, nc_tiles=4, column_blocks=4)


@pytest.mark.parametrize("l2_bytes", [1 << 16, 1 << 18, 1 << 20, 1 << 24])
def test_packed_rows_take_at_most_half_of_the_level_2_cache_and_of_scratch_memory(l2_bytes: int) -> None:
    chosen = blocking(4096, 4096, replace(TARGET, l2_bytes=l2_bytes))
    assert chosen.mc_tiles * TILE.rows * 1024 <= min(l2_bytes // 2, MAX_LEFT_BYTES)


@pytest.mark.parametrize("processors", [1, 2, 16, 64])
def test_there_are_tasks_for_all_processors(processors: int) -> None:
    chosen = blocking(1024, 1024, replace(TARGET, processors=processors))
    columns = chosen.nc_tiles * TILE.columns * chosen.column_blocks
    assert -(-1024 // (chosen.mc_tiles * TILE.rows)) * -(-1024 // columns) >= processors


def test_sums_in_scratch_memory_are_those_of_one_block_of_columns() -> None:
    chosen = blocking(1024, 1024, in_scratch=True)
    assert chosen == Blocking(mc_tiles=32, nc_tiles=8, column_blocks=1)
    narrow = blocking(1024, 1024, replace(TARGET, l2_bytes=1 << 19), in_scratch=True)
    assert narrow == Blocking(mc_tiles=32, nc_tiles=4, column_blocks=1)


@pytest.mark.parametrize("element_bytes", [4, 8, 16])
@pytest.mark.parametrize("l2_bytes", [1 << 18, 1 << 20, 1 << 24])
def test_both_packed_blocks_and_sums_fit_into_scratch_memory(element_bytes: int, l2_bytes: int) -> None:
    tile, terms = replace(TILE, lanes=64 // element_bytes), 256
    target, row_bytes = replace(TARGET, l2_bytes=l2_bytes), terms * element_bytes + 64
    chosen = choose_blocking(target, tile, element_bytes, (1, 4096, 4096), row_bytes, in_scratch=True)
    rows, columns = chosen.mc_tiles * tile.rows, chosen.nc_tiles * tile.columns
    assert rows * row_bytes + (terms + rows) * columns * element_bytes <= MAX_SCRATCH_BYTES * 31 // 32


def test_cache_sizes_are_those_of_data_and_unified_caches(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"), ("3", "Unified", "?")]
    ):
        cache = tmp_path / f"index{number}"
        cache.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (cache / name).write_text(text + "\n")
    (tmp_path / "index4").mkdir()
    assert cache_bytes(tmp_path) == {1: 48 << 10, 2: 1 << 20}
    assert cache_bytes(tmp_path / "missing") == {}

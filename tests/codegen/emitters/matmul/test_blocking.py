"""The blocks of a packed GEMM follow from the caches and the processors of the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xlapy.codegen.emitters.matmul.blocking import MAX_LEFT_BYTES, Blocking, choose_blocking
from xlapy.codegen.emitters.matmul.micro_kernel import Tile
from xlapy.codegen.target import Target
from xlapy.cpu.target import cache_bytes

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
    assert chosen.column_blocks == 1 and chosen.mc_tiles * TILE.rows <= 128


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

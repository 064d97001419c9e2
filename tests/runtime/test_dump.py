"""The flag `dump_to`: the text of every compiled module is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from xlapy.base import flags

TEXT = """HloModule twelve

ENTRY main {
  ROOT c = s32[12] constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
}
"""


@pytest.fixture
def set_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Sets an environment variable and reads the flags again, which a process normally reads once."""

    def set_variable(name: str, value: str) -> None:
        monkeypatch.setenv(name, value)
        flags.current.cache_clear()

    yield set_variable
    monkeypatch.undo()
    flags.current.cache_clear()


def test_compiled_modules_are_written_and_can_be_run(tmp_path: Path, set_flags: Callable[[str, str], None]) -> None:
    folder = tmp_path / "new" / "dump"
    set_flags("XLA_FLAGS", f"--xla_dump_to={folder}")
    client = xla.Client("interpreter")
    client.compile(TEXT)
    client.compile(TEXT)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"module_000{i}.twelve.before_optimizations.txt" for i in range(2)]
    set_flags("XLA_FLAGS", "")
    again = client.compile((folder / names[1]).read_text())
    assert np.asarray(again()).tolist() == list(range(12))


def test_nothing_is_overwritten(tmp_path: Path, set_flags: Callable[[str, str], None]) -> None:
    kept = tmp_path / "module_0001.twelve.before_optimizations.txt"
    kept.write_text("mine")
    set_flags("XLAPY_FLAGS", f"--dump_to={tmp_path}")
    xla.Client("interpreter").compile(TEXT)
    assert kept.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_without_the_flag_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    xla.Client("interpreter").compile(TEXT)
    assert list(tmp_path.iterdir()) == []

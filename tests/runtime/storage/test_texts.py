"""Texts that were compiled before: their programs are loaded without parsing them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime import client as client_module
from xlapy.runtime.storage.compile_cache import named_cache

TEXT = """HloModule known, replica_count=1
ENTRY main { x = f32[8] parameter(0)  y = f32[8] parameter(1)  ROOT s = (f32[8], f32[8]) tuple(y, x) }"""
ADD = """HloModule adding
ENTRY main { x = f32[8] parameter(0)  y = f32[8] parameter(1)  ROOT s = f32[8] add(x, y) }"""
X, Y = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path / "cache")
    return tmp_path / "cache"


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, **values: flags.Value) -> None:
    chosen = flags.Flags({"cache_dir": str(folder), **values})
    monkeypatch.setattr(flags, "current", lambda: chosen)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    found: list[str] = []
    original = client_module.parse_hlo

    def parse_hlo(text, **options):
        found.append(text)
        return original(text, **options)

    monkeypatch.setattr(client_module, "parse_hlo", parse_hlo)
    return found


def test_a_text_is_parsed_only_when_its_module_is_wanted(folder, parsed):
    first = xla.Client("cpu").compile(ADD)
    assert parsed == [ADD]
    second = xla.Client("cpu").compile(ADD)
    np.testing.assert_array_equal(second(X, Y), X + Y)
    assert (second.name, second.program_shape) == (first.name, first.program_shape)
    assert parsed == [ADD]
    assert second.module.to_text() == first.module.to_text()
    assert second.as_hlo_text(optimized=True) == first.as_hlo_text(optimized=True)
    assert second.serialize() == first.serialize()
    assert len(parsed) > 1


def test_a_module_that_a_user_changed_does_not_change_how_it_was_optimized(folder):
    expected = xla.Client("cpu").compile(ADD).as_hlo_text(optimized=True)
    loaded = xla.Client("cpu").compile(ADD)
    loaded.module.name = "changed"
    assert loaded.as_hlo_text(optimized=True) == expected


def test_requests_with_integers_of_numpy(folder, parsed):
    for _ in range(2):
        donating = xla.Client("cpu").compile(ADD, np.int64(1), np.int32(1), donate=[np.int64(1)])
        assert [leaf.parameter for leaf in donating.donated] == [1]
    assert parsed == [ADD]
    assert xla.Client("cpu").deserialize(donating.serialize()).donated == donating.donated


@pytest.mark.parametrize("form", ["proto", "stablehlo"])
def test_other_forms_of_programs(folder, form, monkeypatch):
    module = xla.parse_hlo(ADD)
    program = module.to_proto() if form == "proto" else module.to_stablehlo()
    xla.Client("cpu").compile(program)
    monkeypatch.setattr(client_module, "_to_module", lambda _: pytest.fail("it is read"))
    np.testing.assert_array_equal(xla.Client("cpu").compile(program)(X, Y), X + Y)


def test_another_text_of_the_module_has_the_same_program(folder, parsed):
    xla.Client("cpu").compile(ADD)
    commented = ADD + "\n// the same\n"
    for _ in range(2):
        np.testing.assert_array_equal(xla.Client("cpu").compile(commented)(X, Y), X + Y)
    assert parsed == [ADD, commented]
    assert len(list(folder.glob("*.xla"))) == 1
    assert len(list(folder.glob("*.text"))) == 2


def test_donation_and_devices_are_part_of_the_request(folder):
    kept = xla.Client("cpu").compile(ADD)
    for _ in range(2):
        donating = xla.Client("cpu").compile(ADD, donate=iter([1]))
        assert [leaf.parameter for leaf in donating.donated] == [1]
        assert kept.donated == xla.Client("cpu").compile(ADD).donated == ()
        replicated = xla.Client("cpu", devices=2).compile(ADD, num_replicas=2)
        assert (replicated.num_replicas, len(replicated.devices)) == (2, 2)
        with raises(InvalidArgumentError, codes.RUN_DEVICES, "2 devices"):
            xla.Client("cpu").compile(ADD, num_replicas=2)
        with raises(InvalidArgumentError, calls_codes.DONATED_PARAMETER, "parameter 2", "has 2"):
            xla.Client("cpu").compile(ADD, donate=[2])


def test_flags_that_change_code_are_part_of_the_key(folder, parsed, monkeypatch):
    xla.Client("cpu").compile(ADD)
    use(monkeypatch, folder, denormals="keep")
    xla.Client("cpu").compile(ADD)
    assert parsed == [ADD, ADD]


@pytest.mark.parametrize("ending", [".text", ".xla"])
@pytest.mark.parametrize("damage", ["deleted", "damaged", "of another key"])
def test_files_that_cannot_be_used(folder, parsed, ending, damage):
    xla.Client("cpu").compile(TEXT)
    xla.Client("cpu").compile(ADD)
    files = sorted(folder.glob(f"*{ending}"))
    contents = [file.read_bytes() for file in files]
    for file, other in zip(files, reversed(contents), strict=True):
        if damage == "deleted":
            file.unlink()
        else:
            file.write_bytes(other if damage == "of another key" else other[:-1] + bytes([other[-1] ^ 1]))
    parsed.clear()
    np.testing.assert_array_equal(xla.Client("cpu").compile(ADD)(X, Y), X + Y)
    assert parsed == [ADD]
    np.testing.assert_array_equal(xla.Client("cpu").compile(ADD)(X, Y), X + Y)
    assert parsed == [ADD]


def test_programs_that_check_values_are_compiled(folder, parsed):
    for _ in range(2):
        xla.Client("cpu").compile(ADD, check_nans=True)
    assert len(parsed) == 2
    assert not list(folder.glob("*.text"))


def test_programs_that_call_the_host_are_parsed(folder, parsed):
    text = """HloModule feeding
    ENTRY main {
      t = token[] after-all()
      i = (f32[8], token[]) infeed(t)
      ROOT x = f32[8] get-tuple-element(i), index=0
    }"""
    for _ in range(2):
        xla.Client("cpu").compile(text)
    assert len(parsed) == 2


def test_files_of_texts_are_deleted_with_programs(folder):
    xla.Client("cpu").compile(ADD)
    cache = named_cache(str(folder))
    assert cache.clear() == 1
    assert not list(folder.glob("*.text")) + list(folder.glob("*.xla"))
    xla.Client("cpu").compile(ADD)
    (kept,) = cache.entries()
    cache.put(kept.key, "another", b"")
    assert list(folder.glob("*.text"))
    cache.limit = kept.path.stat().st_size
    cache.put(kept.key, "another", b"")
    assert list(folder.glob("*.xla"))
    assert not list(folder.glob("*.text"))


def test_the_interpreter_parses_each_text(folder, parsed):
    for _ in range(2):
        xla.Client("interpreter").compile(ADD)
    assert len(parsed) == 2

"""Flags: the table and the two environment variables."""

import numpy as np
import pytest

from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.interfaces import files as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.flags import TABLE, Flags


def read(**environment: str) -> Flags:
    return Flags.from_environment(environment)


def test_defaults():
    for flag in TABLE:
        assert read().get(flag.name) == flag.default
        assert type(flag.default) is flag.type
        assert flag.help.endswith(".")
    assert len({flag.name for flag in TABLE}) == len(TABLE)


def test_xlapy_flags():
    values = read(XLAPY_FLAGS="--dump_to='/a b' --check_nans --failure_dir=f")
    assert (values.get("dump_to"), values.get("check_nans"), values.get("failure_dir")) == ("/a b", True, "f")
    for text, expected in [("true", True), ("1", True), ("FALSE", False), ("no", False)]:
        assert read(XLAPY_FLAGS=f"--check_nans={text}").get("check_nans") is expected


def test_xla_flags_use_the_names_of_xla_and_have_lower_precedence():
    assert read(XLA_FLAGS="--xla_dump_to=/d --xla_cpu_something=3 junk").get("dump_to") == "/d"
    assert read(XLA_FLAGS="--xla_dump_to=/d", XLAPY_FLAGS="--dump_to=/e").get("dump_to") == "/e"
    assert read(XLAPY_FLAGS="--xla_dump_to=/d").get("dump_to") == "/d"
    assert read(XLA_FLAGS="--dump_to=/d --check_nans 'open").get("dump_to") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--dump_too=x", (codes.FLAG_NAME, "--dump_too")),
        ("--zzz", (codes.FLAG_NAME, "--zzz", "check_nans", "dump_to", "cache_limit")),
        ("dump_to=x", (codes.FLAG_SYNTAX, "--name", "'dump_to=x'")),
        ("--dump_to", (codes.FLAG_VALUE, "--dump_to")),
        ("--check_nans=maybe", (codes.FLAG_VALUE, "--check_nans", "'maybe'")),
        ("--dump_to='x", (codes.FLAG_SYNTAX,)),
    ],
)
def test_errors(text, expected):
    with raises(InvalidArgumentError, *expected):
        read(XLAPY_FLAGS=text)


def test_replace_checks_names_and_types():
    values = Flags().replace(check_nans=True)
    assert values.get("check_nans") is True
    assert Flags().get("check_nans") is False
    assert values != Flags() and values == Flags({"check_nans": True})
    assert hash(values) == hash(Flags({"check_nans": True}))
    assert repr(values) == "Flags({'check_nans': True})"
    with raises(InvalidArgumentError, codes.FLAG_VALUE, "1"):
        Flags({"check_nans": 1})
    with raises(InvalidArgumentError, codes.FLAG_NAME, "--nothing"):
        values.get("nothing")


def test_the_process_reads_its_environment_once(monkeypatch):
    flags.current.cache_clear()
    monkeypatch.setenv("XLAPY_FLAGS", "--failure_dir=here")
    assert flags.get("failure_dir") == "here"
    monkeypatch.setenv("XLAPY_FLAGS", "--failure_dir=there")
    assert flags.get("failure_dir") == "here"
    flags.current.cache_clear()


def test_integers_read_in_any_base():
    flag = flags.Flag("seed", int, 0, "A number.")
    assert (flag.read("7"), flag.read("0x10"), flag.read("-1")) == (7, 16, -1)
    with raises(InvalidArgumentError, codes.FLAG_VALUE, "'x'"):
        flag.read("x")


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("800", 800 << 20),
        ("12GB", 12 * 10**9),
        ("1.5 GiB", 3 << 29),
        ("64kB", 64_000),
        ("7B", 7),
        (7, 7),
        (np.int64(10**9), 10**9),
        ("", 0),
        (0, 0),
    ],
)
def test_limits_of_memory_have_units(value: object, size: int):
    assert flags.memory_limit(value) == size


@pytest.mark.parametrize("value", ["12 apples", "-1", "1e9", -1, "GB", 1e9, True, b"12GB", "9" * 400, "\u0661GB"])
def test_other_limits_of_memory_are_refused(value: object):
    with raises(InvalidArgumentError, codes.MEMORY_SIZE, "memory_limit"):
        flags.memory_limit(value)


def test_the_limit_of_memory_is_the_flag_by_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flags, "get", lambda name: {"memory_limit": "2GiB"}[name])
    assert flags.memory_limit() == 2 << 30

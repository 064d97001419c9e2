"""The platform cpu: the machines that it supports, and its flags."""

from __future__ import annotations

import platform

import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.error_codes.interfaces import commands as commands_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError


def test_an_unsupported_machine_is_rejected_with_an_alternative(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with raises(UnsupportedError, codes.HOST_MACHINE, "riscv64"):
        xla.Client("cpu")


def test_denormals_are_flushed_or_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"denormals": "sometimes"}))
    with raises(InvalidArgumentError, commands_codes.FLAG_CHOICE, "'sometimes'"):
        xla.Client("cpu").compile("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }")

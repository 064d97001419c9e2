"""Registers custom-call targets for a test, and runs modules that call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import xlapy as xla
from tests.interpreter.runners.replica import make_client


@contextmanager
def registered(target: Any, name: str = "target", **options: Any) -> Iterator[None]:
    xla.register_custom_call_target(name, target, **options)
    try:
        yield
    finally:
        xla.unregister_custom_call_target(name)


def entry(lines: str, computations: str = "") -> str:
    return f"HloModule m\n{computations}\nENTRY e {{\n{lines}\n}}\n"


def run(text: str, *arguments: Any) -> Any:
    return plain(make_client().compile(text)(*arguments))


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value)

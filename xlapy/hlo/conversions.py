"""The table of functions behind `Module.to_text`, `to_proto`, `from_proto`, `to_stablehlo`, its copies and its HTML.

Responsible for finding the function that copies a module or converts it to or from another format. The packages that
implement the formats are layers above `xlapy.hlo`, so this package does not import them. The top-level package `xlapy`
registers where each function is; its module is imported when the conversion is first used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

_LOCATIONS: dict[str, tuple[str, str]] = {}


def register_conversion(name: str, module: str, function: str) -> None:
    """Registers that the conversion `name` (a method of `Module`) is done by `function` of the named module."""
    _LOCATIONS[name] = (module, function)


@functools.cache
def find_conversion(name: str) -> Callable[..., Any]:
    """The function of a registered conversion; imports its module on first use."""
    module, function = _LOCATIONS[name]
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found

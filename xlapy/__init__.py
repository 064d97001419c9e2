"""XLA in Python: build, read, check, print and run HLO programs.

The names below load on first use, so that `import xlapy` costs little more than NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlapy import ops
    from xlapy.base import errors
    from xlapy.base.element_types import PrimitiveType
    from xlapy.base.layout import Layout
    from xlapy.base.literal import Literal
    from xlapy.base.program_shape import ProgramShape
    from xlapy.base.shape import Shape
    from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
    from xlapy.hlo.module import Module
    from xlapy.runtime import Client
    from xlapy.text import parse_hlo

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Layout",
    "Literal",
    "Module",
    "PrimitiveType",
    "ProgramShape",
    "Shape",
    "XlaBuilder",
    "XlaComputation",
    "XlaOp",
    "errors",
    "ops",
    "parse_hlo",
]

_HOMES = {
    "Client": "xlapy.runtime",
    "Layout": "xlapy.base.layout",
    "Literal": "xlapy.base.literal",
    "Module": "xlapy.hlo.module",
    "PrimitiveType": "xlapy.base.element_types",
    "ProgramShape": "xlapy.base.program_shape",
    "Shape": "xlapy.base.shape",
    "XlaBuilder": "xlapy.builder",
    "XlaComputation": "xlapy.builder",
    "XlaOp": "xlapy.builder",
    "parse_hlo": "xlapy.text",
}
"""The module that each lazy name is read from."""

_MODULES = {"errors": "xlapy.base.errors", "ops": "xlapy.ops"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

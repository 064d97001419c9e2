"""What follows after a module was read: what a reader accepts, the rest of xlapy must stand.

Does not depend on formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from xlapy.base.errors import XlaError
from xlapy.hlo.module import Module
from xlapy.runtime.backend import load_backend
from xlapy.stablehlo.export import to_stablehlo

_MOST_INSTRUCTIONS = 2_000
"""Instructions of a module that is compiled. Larger ones take time in proportion, which is no fault of the reader."""


def use_module(module: Module) -> None:
    """Prints, exports and compiles a module that was read. Errors of xlapy are allowed."""
    steps: Sequence[Callable[[], object]] = (
        module.to_text,
        module.to_proto,
        lambda: to_stablehlo(module),
        lambda: load_backend("interpreter").compile(module),
    )
    for step in steps if module.instruction_count <= _MOST_INSTRUCTIONS else steps[:-1]:
        with suppress(XlaError):
            step()

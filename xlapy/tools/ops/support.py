"""The operations that a platform runs, and the reasons why it does not run the others."""

from __future__ import annotations

from collections.abc import Callable

from xlapy.cpu.compiler import native_opcodes
from xlapy.interpreter import RULES
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.passes.expand import EXPANSIONS
from xlapy.passes.resolve_dynamic_dimensions import SIZE_OPS
from xlapy.reference.core import SOURCES


def _interpreter(op: OpDef) -> str:
    return "" if op in RULES else RULES.refusals.get(op, "no rule")


def _cpu(op: OpDef) -> str:
    done = REGISTRY.get(f"{op.name.rpartition('-')[0]}-done")  # expanding async-done expands its whole chain
    expanded = op in EXPANSIONS or op in SIZE_OPS or (done is not None and done in EXPANSIONS)
    return "" if expanded or op in native_opcodes() else "no native form yet"


def _reference(op: OpDef) -> str:
    return "" if op in SOURCES else "no definition"


TABLES: dict[str, Callable[[OpDef], str]] = {"cpu": _cpu, "interpreter": _interpreter, "reference": _reference}
"""For each platform, a function that returns why it does not run an op; "" if it does."""


def refusal_of(platform: str, op: OpDef) -> str:
    """Returns why a platform does not run an op; "" if it does."""
    return TABLES[platform](op)

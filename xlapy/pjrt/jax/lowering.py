"""What JAX has to know of the platform before it lowers programs for it.

JAX keeps by platform what an operation becomes, whether buffers may be donated, and how Python is called back; for a
platform that it does not know there is no way in but these tables. The rules of its CPU are ours, and what programs do
for `cpu` (platform_dependent, exported functions), they do here, unless they name xlapy too.

Owns: changes to JAX's tables. Must not know: handles, native code.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import jax.interpreters.mlir
from jax._src import callback, debugging
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax._src.lax.control_flow import conditionals
from jaxlib import xla_client

from xlapy.pjrt.compile.inspect_sharding import inspecting
from xlapy.pjrt.compile.targets import register_target, register_type
from xlapy.pjrt.jax.callbacks import make_callable
from xlapy.pjrt.platform_name import PLATFORM_NAME

Platforms = tuple[str, ...]


def prepare_jax() -> None:
    """Enters the platform into JAX's tables."""
    rules = mlir._platform_specific_lowerings
    # A view: rules that come later, of JAX's own modules or of users, count too.
    rules[PLATFORM_NAME] = ChainMap(_changed_rules(), rules["cpu"])
    mlir._platforms_with_donation.append(PLATFORM_NAME)
    emit = make_callable(callback.emit_python_callback)
    callback.emit_python_callback = emit
    jax.interpreters.mlir.emit_python_callback = emit
    xla_client.register_custom_call_handler(PLATFORM_NAME, register_target)
    xla_client.register_custom_type_handler(PLATFORM_NAME, register_type)


def _changed_rules() -> dict[Any, mlir.LoweringRuleEntry]:
    """JAX's own rules of what asks for the platform, given lists of platforms where `cpu` means this one as well; and
    of what asks for shardings."""
    parts: dict[Any, dict[str, Callable[[Any], Any]]] = {
        conditionals.platform_index_p: {"platforms": _branches},
        conditionals.cond_p: {"branches_platforms": _branches},
        _export.call_exported_p: {"exported": _exported},
    }
    rules = {primitive: _with_changed(mlir._lowerings[primitive], changes) for primitive, changes in parts.items()}
    entry = mlir._lowerings[debugging.inspect_sharding_p]
    return {**rules, debugging.inspect_sharding_p: dataclasses.replace(entry, rule=inspecting(entry.rule))}


def _with_changed(entry: mlir.LoweringRuleEntry, changes: dict[str, Callable[[Any], Any]]) -> mlir.LoweringRuleEntry:
    def lowered(ctx: mlir.LoweringRuleContext, *operands: Any, **parameters: Any) -> Any:
        changed = {name: change(parameters[name]) for name, change in changes.items() if name in parameters}
        return entry.rule(ctx, *operands, **parameters | changed)

    return dataclasses.replace(entry, rule=lowered)


def _branches(branches: Sequence[Platforms | None] | None) -> Sequence[Platforms | None] | None:
    """Of platform_dependent: the platforms of each branch, None for all others."""
    if branches is None or any(PLATFORM_NAME in platforms for platforms in branches if platforms):
        return branches
    return tuple(
        platforms and (*platforms, *[PLATFORM_NAME for name in platforms if name == "cpu"]) for platforms in branches
    )


def _exported(exported: Any) -> Any:
    """An exported function: the code for `cpu` is the one for this platform."""
    if PLATFORM_NAME in exported.platforms:
        return exported
    platforms = tuple(PLATFORM_NAME if platform == "cpu" else platform for platform in exported.platforms)
    return dataclasses.replace(exported, platforms=platforms)

"""Registers the platform with JAX's lowering.

JAX keeps tables by platform: lowering rules, donation support, callbacks. For an unknown platform, these tables are the
only way in. The rules of JAX's CPU apply here, and so does what programs define for `cpu` (platform_dependent, exported
functions), unless they name xlapy as well.

Responsible for the changes to JAX's tables. Does not depend on handles or native code.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import jax.interpreters.mlir
from jax._src import buffer_callback, callback, debugging
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lax.control_flow import conditionals
from jax._src.sharding_impls import ShardingContext
from jaxlib import xla_client

from xlapy.pjrt.compile.inspect_sharding import lowering_with_number
from xlapy.pjrt.compile.targets import register_target, register_type
from xlapy.pjrt.jax.buffer_callbacks import lower_buffer_callback, register_buffer_callbacks
from xlapy.pjrt.jax.callbacks import lower_callbacks
from xlapy.pjrt.platform_name import PLATFORM_NAME

Platforms = tuple[str, ...]


def register_lowering() -> None:
    """Adds the platform to JAX's tables."""
    rules = mlir._platform_specific_lowerings
    # A view, so that rules that JAX's modules or users register later apply too.
    rules[PLATFORM_NAME] = ChainMap(_patched_rules(), rules["cpu"])
    mlir._platforms_with_donation.append(PLATFORM_NAME)
    register_buffer_callbacks()
    emit = lower_callbacks(callback.emit_python_callback)
    callback.emit_python_callback = emit
    jax.interpreters.mlir.emit_python_callback = emit
    xla_client.register_custom_call_handler(PLATFORM_NAME, register_target)
    xla_client.register_custom_type_handler(PLATFORM_NAME, register_type)


def _patched_rules() -> dict[Any, mlir.LoweringRuleEntry]:
    """JAX's rules of primitives that depend on the platform, changed so that `cpu` includes this platform, and the
    rules of ragged dots, for inspecting shardings and for callbacks on buffers."""
    parts: dict[Any, dict[str, Callable[[Any], Any]]] = {
        conditionals.platform_index_p: {"platforms": _branch_platforms},
        conditionals.cond_p: {"branches_platforms": _branch_platforms},
        _export.call_exported_p: {"exported": _exported_for_platform},
    }
    rules = {
        primitive: _with_changed_parameters(mlir._lowerings[primitive], changes) for primitive, changes in parts.items()
    }
    entry = mlir._lowerings[debugging.inspect_sharding_p]
    rules[debugging.inspect_sharding_p] = dataclasses.replace(entry, rule=lowering_with_number(entry.rule))
    entry = mlir._lowerings[buffer_callback.buffer_callback_p]
    rules[buffer_callback.buffer_callback_p] = dataclasses.replace(entry, rule=lower_buffer_callback)
    entry = mlir._lowerings[lax.ragged_dot_general_p]
    rules[lax.ragged_dot_general_p] = dataclasses.replace(entry, rule=_lowering_of_ragged_dot(entry.rule))
    return rules


def _lowering_of_ragged_dot(expand: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the rule of ragged dots: one instruction, as on TPU.

    expand: JAX's rule for CPU, which masks both operands of a dot. It remains for programs of several devices, because
    the partitioner divides masked dots, but not ragged dots; for groups of a batch dimension, which have no influence
    on what JAX computes; and where jaxlib takes a ragged dot for one of another mode, which ends with an error or a
    crash.
    """

    def lower(ctx: mlir.LoweringRuleContext, *operands: Any, **parameters: Any) -> Any:
        around = ctx.module_context.axis_context
        is_partitioned = isinstance(around, ShardingContext) and around.num_devices > 1
        mode = lax._ragged_dot_mode(ctx.avals_in[0].ndim, parameters["ragged_dot_dimension_numbers"])
        if is_partitioned or mode is lax.RaggedDotMode.RAGGED_BATCH or mode is not _mode_by_ranks(ctx):
            return expand(ctx, *operands, **parameters)
        return lax._ragged_dot_general_lower(ctx, *operands, **parameters, platform="cpu")

    return lower


def _mode_by_ranks(ctx: mlir.LoweringRuleContext) -> lax.RaggedDotMode:
    """The mode that jaxlib 0.10.2 infers of a ragged dot, for the shape of its result: only ranks count."""
    lhs, rhs, result = (aval.ndim for aval in (*ctx.avals_in[:2], *ctx.avals_out))
    if rhs > lhs:
        return lax.RaggedDotMode.RAGGED_NONCONTRACTING
    return lax.RaggedDotMode.RAGGED_CONTRACTING if result > lhs else lax.RaggedDotMode.RAGGED_BATCH


def _with_changed_parameters(
    entry: mlir.LoweringRuleEntry, changes: dict[str, Callable[[Any], Any]]
) -> mlir.LoweringRuleEntry:
    def lowered(ctx: mlir.LoweringRuleContext, *operands: Any, **parameters: Any) -> Any:
        changed = {name: change(parameters[name]) for name, change in changes.items() if name in parameters}
        return entry.rule(ctx, *operands, **parameters | changed)

    return dataclasses.replace(entry, rule=lowered)


def _branch_platforms(branches: Sequence[Platforms | None] | None) -> Sequence[Platforms | None] | None:
    """The platforms of each branch of platform_dependent, None for the default branch."""
    if branches is None or any(PLATFORM_NAME in platforms for platforms in branches if platforms):
        return branches
    return tuple(
        platforms and (*platforms, *[PLATFORM_NAME for name in platforms if name == "cpu"]) for platforms in branches
    )


def _exported_for_platform(exported: Any) -> Any:
    """Makes an exported function's code for `cpu` its code for this platform."""
    if PLATFORM_NAME in exported.platforms:
        return exported
    platforms = tuple(PLATFORM_NAME if platform == "cpu" else platform for platform in exported.platforms)
    return dataclasses.replace(exported, platforms=platforms)

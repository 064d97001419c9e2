"""`jax.debug.inspect_array_sharding` inside of jit: reports shardings to Python while a program is compiled.

JAX writes the address of the handler into the program. xlapy replaces it by a number, so that a program from another
source cannot call arbitrary addresses.

Responsible for the handlers by number. Does not depend on how programs are partitioned.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding
from xlapy.pjrt.compile.shardings import to_jax_sharding

TARGET = "InspectSharding"

_handlers: WeakValueDictionary[int, Callable[[Any], Any]] = WeakValueDictionary()
_numbers = itertools.count(1)


def lowering_with_number(original: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    """Wraps JAX's lowering rule of the primitive: writes a number instead of the address. The handler lives as long as
    the program."""

    def lowered(ctx: mlir.LoweringRuleContext, value: Any, *, callback: Any) -> Sequence[Any]:
        known = len(ctx.module_context.keepalives)
        results: Sequence[Any] = original(ctx, value, callback=callback)
        for handler in ctx.module_context.keepalives[known:]:  # empty for one device: JAX has called the handler
            call = next(use.owner for use in value.uses if _has_address(use.owner))
            number = next(_numbers)
            _handlers[number] = handler
            call.attributes["backend_config"] = ir.StringAttr.get(str(number))
        return results

    return lowered


def _has_address(user: Any) -> bool:
    """Whether an operation is such a custom call that still holds an address."""
    attributes = user.attributes
    if "call_target_name" not in attributes or ir.StringAttr(attributes["call_target_name"]).value != TARGET:
        return False
    return not ir.StringAttr(attributes["backend_config"]).value_bytes.isdigit()


def inspect(call: Instruction, sharding: Sharding) -> None:
    """Reports the sharding of a custom call's operand to its handler; does nothing if the program is of another
    process."""
    handler = _handlers.get(int(call.backend_config)) if call.backend_config.isdecimal() else None
    if handler is None:
        return
    jax_sharding = to_jax_sharding(sharding)
    try:
        handler(jax_sharding)
    except Exception as error:
        raise ExecutionError(codes.SHARDING_CALLBACK, f"Error calling inspect_sharding: {error}") from error

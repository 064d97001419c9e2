"""Shardings that a program asks for while it is compiled: jax.debug.inspect_array_sharding inside of jit.

JAX writes the address of what is to be called into the program. Here that is a number, so that a program that comes
from somewhere else cannot call anything.

Owns: what is called by number. Must not know: how programs are cut up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from jax._src.interpreters import mlir
from jaxlib import xla_client
from jaxlib.mlir import ir

from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding
from xlapy.proto.meshes import write_sharding
from xlapy.proto.messages import encode, message_class

TARGET = "InspectSharding"

_handlers: WeakValueDictionary[int, Callable[[Any], Any]] = WeakValueDictionary()
_numbers = itertools.count(1)


def inspecting(original: Callable[..., Any]) -> Callable[..., Sequence[Any]]:
    """JAX's rule of the primitive, with a number for the address. What it has to call lives as long as the program."""

    def lowered(ctx: mlir.LoweringRuleContext, value: Any, *, callback: Any) -> Sequence[Any]:
        known = len(ctx.module_context.keepalives)
        results: Sequence[Any] = original(ctx, value, callback=callback)
        for handler in ctx.module_context.keepalives[known:]:  # none if there is one device: it has been called
            call = next(use.owner for use in value.uses if _is_fresh(use.owner))
            number = next(_numbers)
            _handlers[number] = handler
            call.attributes["backend_config"] = ir.StringAttr.get(str(number))
        return results

    return lowered


def _is_fresh(user: Any) -> bool:
    """Whether an operation is such a call, with an address as yet."""
    attributes = user.attributes
    if "call_target_name" not in attributes or ir.StringAttr(attributes["call_target_name"]).value != TARGET:
        return False
    return not ir.StringAttr(attributes["backend_config"]).value_bytes.isdigit()


def inspect(call: Instruction, sharding: Sharding) -> None:
    """Tells JAX the sharding of what a custom call is given; nothing if the program is of another process."""
    handler = _handlers.get(int(call.backend_config)) if call.backend_config.isdecimal() else None
    if handler is None:
        return
    message = message_class("OpSharding")()
    write_sharding(message, sharding)
    told = xla_client.OpSharding()
    told.ParseFromString(encode(message))
    try:
        handler(xla_client.HloSharding.from_proto(told))
    except Exception as error:
        raise ExecutionError(f"Error calling inspect_sharding: {error}") from error

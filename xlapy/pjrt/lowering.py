"""What JAX has to know of the platform before it lowers programs for it.

JAX keeps by platform what an operation becomes, whether buffers may be donated, and how Python is called back; for a
platform that it does not know there is no way in but these tables. The rules of its CPU are ours.

Owns: changes to JAX's tables. Must not know: handles, native code.
"""

from __future__ import annotations

from collections import ChainMap

import jax.interpreters.mlir
from jax._src import callback
from jax._src.interpreters import mlir
from jaxlib import xla_client

from xlapy.pjrt.callbacks import make_callable
from xlapy.pjrt.plugin import NAME
from xlapy.pjrt.targets import register_target, register_type


def prepare_jax() -> None:
    """Enters the platform into JAX's tables."""
    rules = mlir._platform_specific_lowerings
    # A view: rules that come later, of JAX's own modules or of users, count too.
    rules[NAME] = ChainMap({}, rules["cpu"])
    mlir._platforms_with_donation.append(NAME)
    emit = make_callable(callback.emit_python_callback)
    callback.emit_python_callback = emit
    jax.interpreters.mlir.emit_python_callback = emit
    xla_client.register_custom_call_handler(NAME, register_target)
    xla_client.register_custom_type_handler(NAME, register_type)

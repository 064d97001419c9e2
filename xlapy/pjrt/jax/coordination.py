"""The client of a program that called `jax.distributed.initialize`.

jaxlib watches the states of all processes for a client that it gives the coordination service to. It does so until the
last array is gone, in most programs after the end of the service: warnings appear, and the program ends seconds later.
xlapy takes no part in that, because its processes notice the end of others themselves. Therefore the client is made
without the service, as JAX's CPU client is, and reaches its key-value store through Python.

Responsible for what JAX passes to the client. Does not depend on what the client does with it.
"""

from __future__ import annotations

from typing import Any

from jax._src import distributed
from jaxlib import xla_client

from xlapy.pjrt.objects.processes import provide_store
from xlapy.pjrt.platform_name import PLATFORM_NAME

_KEY_PREFIX = f"{PLATFORM_NAME}:"
"""First characters of all keys, because users share the store."""


class CoordinationStore:
    """The key-value store of JAX's coordination service. client: that of this process."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key that has none."""
        self._client.key_value_set_bytes(_KEY_PREFIX + key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """Waits for a key, for `timeout` seconds."""
        value: bytes = self._client.blocking_key_value_get_bytes(_KEY_PREFIX + key, max(1, int(timeout * 1e3)))
        return value


def make_client() -> Any:
    """Makes the client of the plugin, for the processes of `jax.distributed.initialize`."""
    if not xla_client.pjrt_plugin_initialized(PLATFORM_NAME):
        xla_client.initialize_pjrt_plugin(PLATFORM_NAME)
    state = distributed.global_state
    if state.client is None:
        return xla_client.make_c_api_client(PLATFORM_NAME, {}, None)
    provide_store(CoordinationStore(state.client))
    options = {"node_id": state.process_id, "num_nodes": state.num_processes}
    return xla_client.make_c_api_client(PLATFORM_NAME, options, None)

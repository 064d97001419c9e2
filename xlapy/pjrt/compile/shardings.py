"""Converts shardings between xlapy's form and the objects of jaxlib.

Responsible for that conversion. Does not depend on what the shardings are used for.
"""

from __future__ import annotations

from typing import Any

from jaxlib import xla_client

from xlapy.hlo.sharding import Sharding
from xlapy.proto.meshes import read_sharding, write_sharding
from xlapy.proto.messages import decode, encode, message_class


def to_jax_sharding(sharding: Sharding) -> Any:
    """Returns jaxlib's HloSharding of a sharding."""
    message = message_class("OpSharding")()
    write_sharding(message, sharding)
    jax_message = xla_client.OpSharding()
    jax_message.ParseFromString(encode(message))
    return xla_client.HloSharding.from_proto(jax_message)


def from_jax_sharding(sharding: Any) -> Sharding:
    """Returns the sharding of jaxlib's HloSharding."""
    return read_sharding(decode("OpSharding", sharding.to_proto().SerializeToString()))

"""Channels: what pairs the two ends of a transfer, or the instances of a collective in several programs.

Owns: `ChannelHandle` and the reading of what functions take for one. Must not know: which functions take one.
Source: ChannelHandle of xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from xlapy.base.errors import InvalidArgumentError


class ChannelType(Enum):
    """Which ends a channel joins."""

    DEVICE_TO_DEVICE = "device-to-device"
    DEVICE_TO_HOST = "device-to-host"
    HOST_TO_DEVICE = "host-to-device"


@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """A channel: its number, at least 1 and unique in the program, and the ends it joins."""

    handle: int
    type: ChannelType = ChannelType.DEVICE_TO_DEVICE


Channel: TypeAlias = ChannelHandle | int
"""A handle, or only its number: then the type is what the function needs."""


def channel_number(channel: Channel | None) -> int | None:
    """The number of a channel, None without one. Raises InvalidArgumentError below 1, which proto reads as none."""
    if channel is None:
        return None
    return _checked(channel.handle if isinstance(channel, ChannelHandle) else channel)


def _checked(number: int) -> int:
    if number < 1:
        raise InvalidArgumentError(f"channel numbers count from 1, given {number}")
    return number


def transfer_number(channel: Channel, needed: ChannelType) -> int:
    """The number of the channel of a transfer. Raises InvalidArgumentError if it joins other ends than `needed`."""
    handle = channel if isinstance(channel, ChannelHandle) else ChannelHandle(channel, needed)
    if handle.type is not needed:
        raise InvalidArgumentError(f"takes a {needed.value} channel, channel {handle.handle} is {handle.type.value}")
    return _checked(handle.handle)

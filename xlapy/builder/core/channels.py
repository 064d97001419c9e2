"""Channels: they connect the two ends of a transfer, or the instances of a collective in several programs.

Responsible for `ChannelHandle` and for reading the channel arguments of functions. Does not depend on which functions
accept one. Source: ChannelHandle of xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.errors import InvalidArgumentError


class ChannelType(Enum):
    """The kinds of ends that a channel connects."""

    DEVICE_TO_DEVICE = "device-to-device"
    DEVICE_TO_HOST = "device-to-host"
    HOST_TO_DEVICE = "host-to-device"


@checked_class
@dataclass(frozen=True, slots=True)
class ChannelHandle:
    """A channel: its number, which is at least 1 and unique in the program, and the kinds of its ends."""

    handle: int
    type: ChannelType = ChannelType.DEVICE_TO_DEVICE


Channel: TypeAlias = ChannelHandle | int
"""A handle, or its number only; the function then determines the type."""


def channel_number(channel: Channel | None) -> int | None:
    """Returns the number of a channel; None without a channel. Raises InvalidArgumentError below 1, because protos read
    0 as none.
    """
    if channel is None:
        return None
    return _checked(channel.handle if isinstance(channel, ChannelHandle) else channel)


def _checked(number: int) -> int:
    if number < 1:
        raise InvalidArgumentError(codes.CHANNEL_HANDLE, f"channel numbers count from 1, given {number}")
    return number


def transfer_number(channel: Channel, needed: ChannelType) -> int:
    """Returns the number of the channel of a transfer. Raises InvalidArgumentError if the channel is not of the type
    `needed`.
    """
    handle = channel if isinstance(channel, ChannelHandle) else ChannelHandle(channel, needed)
    if handle.type is not needed:
        raise InvalidArgumentError(
            codes.CHANNEL_HANDLE, f"takes a {needed.value} channel, channel {handle.handle} is {handle.type.value}"
        )
    return _checked(handle.handle)

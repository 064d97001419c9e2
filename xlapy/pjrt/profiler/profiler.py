"""The entries of PJRT's profiler extension: profiler sessions, each of which takes one trace after the other.

Responsible for the entries and for session handles. Does not depend on what a trace records or how profiles are
encoded.
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.logging import logger
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import read_bytes
from xlapy.pjrt.profiler import tracing
from xlapy.pjrt.profiler.xspace import serialized_xspace
from xlapy.proto.messages import decode


@dataclass(eq=False)
class _Session:
    """A profiler session. device_level: 0 if devices are not traced. has_modules: whether the profile contains the HLO
    of the programs."""

    device_level: int
    has_modules: bool
    trace: tracing.LaunchTrace | None = None
    is_running: bool = False
    profile: Any = None
    """The serialized profile. The caller reads it in place, until the session ends or starts again."""


_sessions: dict[int, _Session] = {}
_numbers = itertools.count(1)


def _session_of(handle: int) -> _Session:
    if handle not in _sessions:
        raise InvalidArgumentError(codes.HANDLE, f"there is no profiler {handle:#x}")
    return _sessions[handle]


@entry("Profiler_Create")
def profiler_create(args: Any) -> None:
    options = decode("ProfileOptions", read_bytes(args.options, args.options_size))
    # Options without a version come from old callers, which leave the other fields unset.
    level = options.device_tracer_level if options.version else 1
    handle = next(_numbers)
    _sessions[handle] = _Session(level, options.enable_hlo_proto)
    args.profiler = handle


@entry("Profiler_Start")
def profiler_start(args: Any) -> None:
    session = _session_of(args.profiler)
    if session.is_running:
        raise InvalidArgumentError(codes.PROFILER_STATE, "the profiler has been started already")
    session.trace = tracing.start() if session.device_level else None
    session.is_running, session.profile = True, None


@entry("Profiler_Stop")
def profiler_stop(args: Any) -> None:
    session = _session_of(args.profiler)
    if not session.is_running:
        raise InvalidArgumentError(codes.PROFILER_STATE, "the profiler has not been started")
    _stop(session)


@entry("Profiler_CollectData")
def profiler_collect_data(args: Any) -> None:
    """Returns the profile: in the session's memory, or copied to a buffer of the size that an earlier call returned."""
    session = _session_of(args.profiler)
    if session.is_running:
        raise InvalidArgumentError(codes.PROFILER_STATE, "the profiler must be stopped before its data is collected")
    if session.profile is None:
        session.profile = ctypes.create_string_buffer(_profile(session))
    size = len(session.profile) - 1
    if args.buffer:
        ctypes.memmove(args.buffer, session.profile, size)
    else:
        args.buffer = ctypes.addressof(session.profile)
    args.buffer_size_in_bytes = size


@entry("Profiler_Destroy")
def profiler_destroy(args: Any) -> None:
    session = _sessions.pop(args.profiler, None)
    if session is not None and session.is_running:
        _stop(session)


def _stop(session: _Session) -> None:
    session.is_running = False
    if session.trace is not None:
        tracing.stop()


def _profile(session: _Session) -> bytes:
    trace = session.trace
    if trace is None:
        return b""
    if dropped := trace.dropped():
        logger.warning("the trace has no room for %s", ", ".join(dropped))
    return serialized_xspace(trace, len(platform().addressable_devices), has_modules=session.has_modules)

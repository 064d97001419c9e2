"""`CallContext`: what calling a custom-call target needs to know about the run and its device.

Does not depend on the engine that runs the program: the interpreter and the native runtime each provide one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from xlapy.hlo.instruction import Instruction


@dataclass(slots=True)
class CallContext:
    """The run and the device for which a target is called."""

    run_id: int
    """Identifies the run: equal on all its devices, different in every run."""
    device_ordinal: int
    """replica * partition_count + partition"""
    canceled: threading.Event
    """Set when the run ends early; calls that wait for a future then stop waiting."""
    program_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State of each call that lives as long as the program and is shared by all devices."""
    run_state: dict[Instruction, Any] = field(default_factory=dict[Instruction, Any])
    """State of each call that lives as long as this run on this device."""

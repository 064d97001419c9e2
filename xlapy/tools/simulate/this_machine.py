"""Describes this machine without measuring programs: from its roofline, and typical costs of collectives in a process.

Responsible for that description. Does not depend on programs; `calibration` measures some.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.simulation.machine import Algorithm, Curve, DeviceRates, Level, Link, MachineDescription
from xlapy.runtime.machine import Machine

PRODUCT_SHARE: Final = 0.8
"""The part of the peak that large matrix products reach (benchmarks/cpu.py)."""

ELEMENTWISE_SHARE: Final = 0.5
"""The part of the peak that kernels of single operations reach, which load their operands."""

TRANSCENDENTAL_OPERATIONS: Final = 20
"""The operations of a transcendental function."""

KERNEL_SECONDS: Final = 1e-6
"""Starting a kernel, and threads that find each other."""

MEETING_SECONDS: Final = 8e-6
"""What each device of a process adds to a collective: waking its thread."""

MAX_PROCESS_DEVICES: Final = 1024
"""The devices of a process."""

NETWORK: Final = Link(2e-5, Curve.constant(1.25e9))
"""Ethernet of 10 Gb/s between processes on different machines."""


def uncalibrated_machine(measured: Machine) -> MachineDescription:
    """Returns a description of the machine of a roofline: devices in one process share its processors and memory."""
    one, threads = measured.one, measured.all.threads
    f32 = one.operations["f32"]
    products = {"default": Curve.constant(PRODUCT_SHARE * f32)}
    if "f64" in one.operations:
        products["f64"] = Curve.constant(PRODUCT_SHARE * one.operations["f64"])
    bandwidth = Curve(tuple((float(b.size), b.copy or b.read) for b in measured.all.bandwidths))
    per_thread = Curve(tuple((size, rate / threads) for size, rate in bandwidth.points))
    rates = DeviceRates(products, ELEMENTWISE_SHARE * f32, f32 / TRANSCENDENTAL_OPERATIONS, per_thread, KERNEL_SECONDS)
    shared = Link(MEETING_SECONDS, Curve.constant(bandwidth.points[-1][1] / 2))
    return MachineDescription(
        measured.processor,
        rates,
        (Level("process", MAX_PROCESS_DEVICES, shared, Algorithm.SHARED_MEMORY), Level("network", 0, NETWORK)),
        processors=threads,
    )

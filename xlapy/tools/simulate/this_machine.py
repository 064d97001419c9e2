"""Describes this machine without measuring programs: from its roofline, and typical speeds of kernels and collectives.

Responsible for that description. Does not depend on programs; `calibration` measures some.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.simulation.machine import (
    Algorithm,
    CompiledRates,
    Curve,
    DeviceRates,
    Level,
    Link,
    MachineDescription,
)
from xlapy.runtime.machine import Bandwidth, Machine
from xlapy.tools.simulate.compiled.kernel_cycles import Core

PRODUCT_SHARE: Final = 0.8
"""The part of the peak that large matrix products reach (benchmarks/cpu.py)."""

ELEMENTWISE_SHARE: Final = 0.5
"""The part of the peak that kernels of single operations reach, which load their operands."""

TRANSCENDENTAL_OPERATIONS: Final = 20
"""The operations of a transcendental function."""

KERNEL_SECONDS: Final = 1e-6
"""Starting a kernel, and threads that find each other."""

MEETING_SECONDS: Final = 1.2e-6
"""What each device of a process adds when devices meet."""

WAITING_SECONDS: Final = 3e-5
"""The time in which devices meet that have computed before, so that some threads sleep."""

LINE_SECONDS: Final = 2e-5
"""The time in which devices meet that have just met."""

WINDOW: Final = 500.0
"""The instructions that a processor has under way at once."""

OVERLAP: Final = 0.3
"""The part of the shorter of arithmetic and memory that runs beside the longer one."""

SPEEDS: Final = {
    "loops": 1.6, "transpose": 1.2, "scan": 1.1, "pooling": 1.0, "sort": 3.0, "sort-pairs": 2.5, "gather": 1.0,
    "scatter": 1.0, "packed-gemm": 0.75, "direct-gemm": 0.75, "inner-products": 0.3, "tile-gemm": 0.5,
    "winograd": 0.7, "direct-convolution": 0.7, "grouped-convolution": 0.5, "fft": 0.14, "attention": 1.2,
}  # fmt: skip
"""Speeds of classes of kernels, as `--calibrate` measures them on a processor of 3.4 GHz with AVX-512."""

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
        compiled=compiled_rates(measured),
    )


def compiled_rates(measured: Machine) -> CompiledRates:
    """Returns the rates of kernels that a roofline and typical speeds yield."""
    core = Core()
    return CompiledRates(
        processor=measured.processor,
        threads=measured.all.threads,
        operations=measured.all.operations,
        memory=tuple(map(_memory_row, measured.all.bandwidths)),
        division=core.division,
        square_root=core.square_root,
        window=WINDOW,
        overlap=OVERLAP,
        speeds={name: Curve.constant(speed) for name, speed in SPEEDS.items()},
        pace=1.0,
        handover=KERNEL_SECONDS,
        meeting=MEETING_SECONDS,
        waiting=Curve.constant(1 / WAITING_SECONDS),
        line=Curve.constant(1 / LINE_SECONDS),
    )


def _memory_row(one: Bandwidth) -> tuple[float, ...]:
    copied = one.copy or 2 / (1 / one.read + 1 / one.write)
    added = one.add or 3 / (2 / one.read + 1 / one.write)
    return (float(one.size), one.read, one.write, copied, added, one.update or copied, one.accumulate or added)

"""Descriptions of machines that are known by name.

The figures are fractions of those that vendors publish, as large programs reach them: 60 % for matrix products, 80 %
for memory, 75 % for links. They are rough; describe your own machine in a file for better ones.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.simulation.machine import Curve, DeviceRates, Level, Link, MachineDescription

_H100_PRODUCTS: Final = {"bf16": 989e12, "f16": 989e12, "f8e4m3fn": 1979e12, "f8e5m2": 1979e12, "s8": 1979e12}
"""Peak operations per second without sparsity, from NVIDIA's data sheet of the H100 SXM: 989.4e12 for BF16, 1978.9e12
for FP8, 494.7e12 for TF32 (f32), 66.9e12 for FP64 in tensor cores; memory with 3.35 TB/s, NVLink with 900 GB/s in both
directions together (https://glennklockwood.com/garden/processors/h100 has them side by side)."""

_H100_F32: Final = 67e12
"""Operations of f32 per second outside of tensor cores, where a fused multiply-add counts as two."""

_H100_FUNCTION_SHARE: Final = 8
"""Instructions of f32 that a multiprocessor does in the time of one special function (Ampere and later:
https://forums.developer.nvidia.com/t/parallelism-in-sfus/170635)."""

H100: Final = MachineDescription(
    "h100",
    DeviceRates(
        {"default": Curve.constant(0.6 * 495e12), "f64": Curve.constant(0.6 * 67e12)}
        | {name: Curve.constant(0.6 * rate) for name, rate in _H100_PRODUCTS.items()},
        elementwise=0.5 * _H100_F32,
        transcendentals=0.5 * _H100_F32 / _H100_FUNCTION_SHARE,
        bandwidth=Curve.constant(0.8 * 3.35e12),
        kernel_overhead=2e-6,
    ),
    (
        Level("node", 8, Link(2e-6, Curve.constant(0.75 * 450e9))),
        Level("rack", 4, Link(6e-6, Curve.constant(0.75 * 50e9))),
        Level("cluster", 0, Link(10e-6, Curve.constant(0.75 * 50e9))),
    ),
    memory=80 * 10**9,
)
"""Nodes of eight H100 SXM: NVLink within a node (450 GB/s in each direction), 400 Gb/s InfiniBand per device between
nodes, one more switch between racks."""

PRESETS: Final = {H100.name: H100}

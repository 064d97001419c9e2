"""Descriptions of machines that are known by name.

The figures are fractions of those that vendors publish, as large programs reach them: 60 % for matrix products, 80 %
for memory, 75 % for links. They are rough; describe your own machine in a file for better ones.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.simulation.machine import Curve, DeviceRates, Level, Link, MachineDescription

_H100_PRODUCTS: Final = {"bf16": 989e12, "f16": 989e12, "f8e4m3fn": 1979e12, "f8e5m2": 1979e12, "s8": 1979e12}
"""Peak operations per second without sparsity, from the data sheet of the H100 SXM; for f32, 495e12 as TF32."""

H100: Final = MachineDescription(
    "h100",
    DeviceRates(
        {"default": Curve.constant(0.6 * 495e12), "f64": Curve.constant(0.6 * 67e12)}
        | {name: Curve.constant(0.6 * rate) for name, rate in _H100_PRODUCTS.items()},
        elementwise=0.5 * 67e12,
        transcendentals=0.5 * 67e12 / 8,
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

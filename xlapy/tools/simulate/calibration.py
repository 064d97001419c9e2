"""Measures this machine for simulations: kernels, and collectives of devices in one process.

Programs run on as many devices as there are processors, so that rates are those of a processor whose neighbors are
busy, too. A loop in the program repeats what is measured, so that launches count little.

Responsible for the programs and their times. Does not depend on files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from xlapy.analysis.simulation.collective_time import CollectiveKind
from xlapy.analysis.simulation.machine import Curve, DeviceRates, Link, MachineDescription
from xlapy.runtime.machine import machine_roofline
from xlapy.tools.simulate.operations import (
    chain_rates,
    elementwise_rate,
    function_rates,
    operation_rates,
    transform_points,
)
from xlapy.tools.simulate.running import iteration_seconds, step_seconds
from xlapy.tools.simulate.this_machine import uncalibrated_machine

_DOT_SIZES: Final = (32, 128, 512)
_DOT_TYPES: Final = ("f32", "bf16", "f64")
_CONVOLUTION_BATCHES: Final = (1, 4)
_COLLECTIVE_BYTES: Final = (1 << 10, 1 << 16, 1 << 19, 1 << 22, 1 << 24)
_SMALL_RUNS: Final = 3
_COLLECTIVE_DEVICES: Final = (2, 4, 8)
_LOOP_ROWS: Final = (4, 32, 128)
_CALL_ROWS: Final = (512, 1024, 2048, 4096)
"""Numbers of rows of 4 KiB: sizes of the arrays for which the bandwidth is measured."""

Say = Callable[[str], None]


def calibrated_machine(say: Say) -> MachineDescription:
    """Returns a description of this machine from measurements. say: is called with a line for each."""
    machine = uncalibrated_machine(machine_roofline(anew=True))
    processors = machine.processors
    launch = float(np.median([_launch_seconds(count) for count in _COLLECTIVE_DEVICES]))
    say(f"launch: {launch * 1e6:.4g} us per device")
    before = _measured_rates(processors, launch)
    links: dict[str, Link] = {}
    for kind in _COLLECTIVES:
        links[kind.value] = link = _measured_link(kind)
        last = link.bandwidth.points[-1][1]
        say(f"{kind.value}: {link.latency * 1e6:.4g} us per device, {last / 1e9:.4g} GB/s")
    rates = _faster(before, _measured_rates(processors, launch))
    wake_up = _wake_up_seconds(links[CollectiveKind.ALL_REDUCE.value].latency)
    say(f"waking devices that exchange data: {wake_up * 1e6:.4g} us")
    for name in (*_DOT_TYPES, "convolution-f32", "fft-c64"):
        say(f"products, {name}: {rates.products[name].points[-1][1] / 1e9:.4g} billion operations per second")
    caches, memory = rates.bandwidth.points[0][1], rates.bandwidth.points[-1][1]
    say(f"memory: {caches / 1e9:.4g} GB/s in caches, {memory / 1e9:.4g} GB/s beyond")
    say(f"transcendental functions: {rates.transcendentals / 1e9:.4g} billion per second")
    for name, curve in rates.elements.items():
        say(f"{name}: {', '.join(f'{rate / 1e9:.4g}' for _, rate in curve.points)} billion elements per second")
    say(f"kernel: {rates.kernel_overhead * 1e6:.4g} us")
    process = replace(machine.levels[0], link=links[CollectiveKind.ALL_REDUCE.value], collectives=links)
    return replace(machine, rates=rates, levels=(process, *machine.levels[1:]), launch=launch, wake_up=wake_up)


# -- kernels


def _measured_rates(devices: int, launch: float) -> DeviceRates:
    products = {name: Curve(tuple(_dot_point(name, size, devices) for size in _DOT_SIZES)) for name in _DOT_TYPES}
    products["default"] = products["f32"]
    products["convolution-f32"] = Curve(tuple(_convolution_point(batch, devices) for batch in _CONVOLUTION_BATCHES))
    products["fft-c64"] = Curve(tuple(transform_points(devices, launch)))
    functions = function_rates(devices)
    bandwidth = Curve(tuple(_bandwidth_points(devices, launch)))
    elements = {name: Curve.constant(rate) for name, rate in functions.items()}
    return DeviceRates(
        products,
        elementwise_rate(devices),
        functions["exponential"],
        bandwidth,
        _kernel_overhead(devices),
        elements | operation_rates(devices, launch, bandwidth),
        chain_rates(devices),
    )


def _faster(one: DeviceRates, other: DeviceRates) -> DeviceRates:
    """Returns the better of two measurements of each rate: other processes, or the clock, may have disturbed one."""

    def best(a: Curve, b: Curve) -> Curve:
        return Curve(tuple((size, max(x, y)) for (size, x), (_, y) in zip(a.points, b.points, strict=True)))

    return DeviceRates(
        {name: best(curve, other.products[name]) for name, curve in one.products.items()},
        max(one.elementwise, other.elementwise),
        max(one.transcendentals, other.transcendentals),
        best(one.bandwidth, other.bandwidth),
        min(one.kernel_overhead, other.kernel_overhead),
        {name: best(curve, other.elements[name]) for name, curve in one.elements.items()},
        best(one.chains, other.chains),
    )


def _dot_point(name: str, size: int, devices: int) -> tuple[float, float]:
    """Returns the operations of a matrix product, and how many a processor does in a second."""
    body = f"""
  w = {name}[{size},{size}] get-tuple-element(s), index=2
  y = {name}[{size},{size}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    shape = f"{name}[{size},{size}]"
    operations = 2.0 * size**3
    return operations, operations / iteration_seconds(shape, body, devices, operations / 2e10)


def _convolution_point(batch: int, devices: int) -> tuple[float, float]:
    text = f"""HloModule calibration, replica_count={devices}
ENTRY main {{
  x = f32[{batch},56,56,64] parameter(0)
  k = f32[3,3,64,64] parameter(1)
  ROOT y = f32[{batch},56,56,64] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
}}
"""
    operations = 2.0 * batch * 56 * 56 * 64 * 64 * 9
    return operations, operations / step_seconds(text, devices)


def _bandwidth_points(devices: int, launch: float) -> Iterator[tuple[float, float]]:
    """Yields numbers of bytes and the bytes per second of sums of two arrays: in a loop, whose arrays stay in caches,
    then in single calls, which also make the memory of their results."""
    for rows in _LOOP_ROWS:
        shape = f"f32[{rows},1024]"
        body = f"""
  w = {shape} get-tuple-element(s), index=2
  r = {shape} reverse(x), dimensions={{0}}
  a = {shape} add(r, w)
  b = {shape} opt-barrier(a)
  q = {shape} reverse(b), dimensions={{0}}
  y = {shape} add(q, w)"""
        moved = 3.0 * rows * 4096  # of each of two kernels, the second of which writes to the memory of x
        yield moved, 2 * moved / iteration_seconds(shape, body, devices, moved / 2e10)
    for rows in _CALL_ROWS:
        shape = f"f32[{rows},1024]"
        text = f"""HloModule calibration, replica_count={devices}
ENTRY main {{
  x = {shape} parameter(0)
  w = {shape} parameter(1)
  ROOT y = {shape} add(x, w)
}}
"""
        moved = 3.0 * rows * 4096
        yield moved, moved / max(step_seconds(text, devices) - devices * launch, moved / 1e12)


def _kernel_overhead(devices: int) -> float:
    """Returns the seconds of a kernel that computes next to nothing."""
    body = """
  w = f32[8,8] get-tuple-element(s), index=2
  r = f32[8,8] reverse(x), dimensions={0,1}
  y = f32[8,8] add(r, w)"""
    return iteration_seconds("f32[8,8]", body, devices, 1e-7)


# -- collectives

_COLLECTIVES: Final = {
    CollectiveKind.ALL_REDUCE: "f32[{n}] all-reduce(x), replica_groups={{}}, to_apply=sum",
    CollectiveKind.ALL_GATHER: "f32[{n}] all-gather(x), replica_groups={{}}, dimensions={{0}}",
    CollectiveKind.REDUCE_SCATTER: "f32[{m}] reduce-scatter(x), replica_groups={{}}, dimensions={{0}}, to_apply=sum",
    CollectiveKind.ALL_TO_ALL: "f32[{n}] all-to-all(x), replica_groups={groups}, dimensions={{0}}",
    CollectiveKind.PERMUTE: "f32[{n}] collective-permute(x), source_target_pairs={pairs}",
}
_SUM: Final = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def _measured_link(kind: CollectiveKind) -> Link:
    """Fits a latency, and a bandwidth over the bytes of all devices, to times of several sizes on several numbers of
    devices."""
    small = [
        min(_collective_seconds(kind, _COLLECTIVE_BYTES[0], count) for _ in range(_SMALL_RUNS)) / count
        for count in _COLLECTIVE_DEVICES
    ]
    latency = float(np.median(small))
    found: dict[float, list[float]] = {}
    for size in _COLLECTIVE_BYTES[1:]:
        for count in _COLLECTIVE_DEVICES:
            seconds = _collective_seconds(kind, size, count) / count - latency
            found.setdefault(float(count * size), []).append(size / max(seconds, latency / 10))
    return Link(latency, _smoothed({total: float(max(rates)) for total, rates in found.items()}))


def _smoothed(points: dict[float, float]) -> Curve:
    """Returns a curve with, at each point, the median of it and its neighbors."""
    sizes = sorted(points)
    rates = [points[size] for size in sizes]
    medians = [float(np.median(rates[max(0, n - 1) : n + 2])) for n in range(len(rates))]
    return Curve(tuple(zip(sizes, medians, strict=True)))


def _collective_seconds(kind: CollectiveKind, size: int, devices: int) -> float:
    """Returns the seconds of a collective of `size` bytes per device. The next one depends on it by one element."""
    count = size // 4
    shard = count // devices
    groups = "{{" + ",".join(map(str, range(devices))) + "}}"
    pairs = "{" + ",".join(f"{{{d},{(d + 1) % devices}}}" for d in range(devices)) + "}"
    collective = _COLLECTIVES[kind].format(n=count, m=shard, groups=groups, pairs=pairs)
    shape = f"f32[{shard if kind is CollectiveKind.ALL_GATHER else count}]"
    body = f"""
  q = {collective}
  first = f32[1] slice(q), slice={{[0:1]}}
  start = s32[] constant(0)
  y = {shape} dynamic-update-slice(x, first, start)"""
    return iteration_seconds(shape, body, devices, devices * (1e-5 + size / 1e10), before=_SUM)


def _wake_up_seconds(latency: float) -> float:
    """Returns the seconds until devices run that exchange data. latency: the seconds of a device in an all-reduce."""
    found: list[float] = []
    for count in _COLLECTIVE_DEVICES:
        text = f"""HloModule calibration, replica_count={count}
{_SUM}ENTRY main {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] all-reduce(x), replica_groups={{}}, to_apply=sum
}}
"""
        found.append(step_seconds(text, count) - count * (_launch_seconds(count) + latency))
    return max(0.0, float(np.median(found)))


_launches: dict[int, float] = {}


def _launch_seconds(devices: int) -> float:
    """Returns the seconds that each device adds to a call of a program that computes next to nothing."""
    if devices not in _launches:
        text = f"""HloModule calibration, replica_count={devices}
ENTRY main {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] negate(x)
}}
"""
        _launches[devices] = step_seconds(text, devices) / devices
    return _launches[devices]

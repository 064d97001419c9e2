"""Measures this machine for simulations: kernels, and collectives of devices in one process.

Programs run on as many devices as there are processors, so that rates are those of a processor whose neighbors are
busy, too. A loop in the program repeats what is measured, so that launches count little.

Responsible for the programs and their times. Does not depend on files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from xlapy.analysis.simulation.collective_time import CollectiveKind
from xlapy.analysis.simulation.machine import Curve, DeviceRates, Link, MachineDescription
from xlapy.base.shape import Shape
from xlapy.runtime import Client
from xlapy.runtime.buffer import block_until_ready
from xlapy.runtime.machine import machine_roofline
from xlapy.text import parse_hlo
from xlapy.tools.simulate.this_machine import uncalibrated_machine

_RUNS: Final = 5
_SECONDS: Final = 0.04
"""The time of one run: loops have as many iterations as take about that long."""

_DOT_SIZES: Final = (32, 128, 512)
_DOT_TYPES: Final = ("f32", "bf16", "f64")
_CONVOLUTION_BATCHES: Final = (1, 4)
_COLLECTIVE_BYTES: Final = (1 << 10, 1 << 16, 1 << 19, 1 << 22, 1 << 24)
_COLLECTIVE_DEVICES: Final = (2, 4, 8)
_LOOP_ROWS: Final = (4, 32, 256)
_CALL_ROWS: Final = (1024, 4096)
"""Numbers of rows of 4 KiB: sizes of the arrays for which the bandwidth is measured."""

_TRANSCENDENTAL_ELEMENTS: Final = 1 << 12

Say = Callable[[str], None]


def calibrated_machine(say: Say) -> MachineDescription:
    """Returns a description of this machine from measurements. say: is called with a line for each."""
    machine = uncalibrated_machine(machine_roofline(anew=True))
    processors = machine.processors
    launch = _launch_seconds(processors)
    say(f"launch: {launch * 1e6:.4g} us per device")
    before = _measured_rates(machine.rates, processors, launch)
    links: dict[str, Link] = {}
    for kind in _COLLECTIVES:
        links[kind.value] = link = _measured_link(kind)
        last = link.bandwidth.points[-1][1]
        say(f"{kind.value}: {link.latency * 1e6:.4g} us per device, {last / 1e9:.4g} GB/s")
    rates = _faster(before, _measured_rates(machine.rates, processors, launch))
    for name in (*_DOT_TYPES, "convolution-f32"):
        say(f"products, {name}: {rates.products[name].points[-1][1] / 1e9:.4g} billion operations per second")
    caches, memory = rates.bandwidth.points[0][1], rates.bandwidth.points[-1][1]
    say(f"memory: {caches / 1e9:.4g} GB/s in caches, {memory / 1e9:.4g} GB/s beyond")
    say(f"transcendental functions: {rates.transcendentals / 1e9:.4g} billion per second")
    say(f"kernel: {rates.kernel_overhead * 1e6:.4g} us")
    process = replace(machine.levels[0], link=links[CollectiveKind.ALL_REDUCE.value], collectives=links)
    return replace(machine, rates=rates, levels=(process, *machine.levels[1:]), launch=launch)


# -- kernels


def _measured_rates(described: DeviceRates, devices: int, launch: float) -> DeviceRates:
    products = {name: Curve(tuple(_dot_point(name, size, devices) for size in _DOT_SIZES)) for name in _DOT_TYPES}
    products["default"] = products["f32"]
    products["convolution-f32"] = Curve(tuple(_convolution_point(batch, devices) for batch in _CONVOLUTION_BATCHES))
    return DeviceRates(
        products,
        described.elementwise,
        _transcendental_rate(devices),
        Curve(tuple(_bandwidth_points(devices, launch))),
        _kernel_overhead(devices),
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
    )


def _dot_point(name: str, size: int, devices: int) -> tuple[float, float]:
    """Returns the operations of a matrix product, and how many a processor does in a second."""
    body = f"""
  w = {name}[{size},{size}] get-tuple-element(s), index=2
  y = {name}[{size},{size}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    shape = f"{name}[{size},{size}]"
    operations = 2.0 * size**3
    return operations, operations / _iteration_seconds(shape, body, devices, operations / 2e10)


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
        yield moved, 2 * moved / _iteration_seconds(shape, body, devices, moved / 2e10)
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
    return _iteration_seconds("f32[8,8]", body, devices, 1e-7)


def _transcendental_rate(devices: int) -> float:
    count = _TRANSCENDENTAL_ELEMENTS
    body = f"""
  r = f32[{count}] reverse(x), dimensions={{0}}
  n = f32[{count}] negate(r)
  y = f32[{count}] exponential(n)"""
    return count / _iteration_seconds(f"f32[{count}]", body, devices, count / 1e9)


def _iteration_seconds(shape: str, body: str, devices: int, expected: float) -> float:
    """Returns the seconds of an iteration of a loop that computes y of x, both of a shape, and of a third value w."""
    trips = max(4, round(_SECONDS / expected))
    text = f"""HloModule calibration, replica_count={devices}

condition {{
  s = (s32[], {shape}, {shape}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}

body {{
  s = (s32[], {shape}, {shape}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = {shape} get-tuple-element(s), index=1
  third = {shape} get-tuple-element(s), index=2{body}
  ROOT t = (s32[], {shape}, {shape}) tuple(j, y, third)
}}

ENTRY main {{
  zero = s32[] constant(0)
  x = {shape} parameter(0)
  w = {shape} parameter(1)
  s = (s32[], {shape}, {shape}) tuple(zero, x, w)
  loop = (s32[], {shape}, {shape}) while(s), condition=condition, body=body
  ROOT y = {shape} get-tuple-element(loop), index=1
}}
"""
    return step_seconds(text, devices) / trips


# -- collectives

_COLLECTIVES: Final = {
    CollectiveKind.ALL_REDUCE: "y = f32[{n}] all-reduce(x), replica_groups={{}}, to_apply=sum",
    CollectiveKind.ALL_GATHER: "y = f32[{n}] all-gather(x), replica_groups={{}}, dimensions={{0}}",
    CollectiveKind.REDUCE_SCATTER: (
        "y = f32[{m}] reduce-scatter(x), replica_groups={{}}, dimensions={{0}}, to_apply=sum"
    ),
    CollectiveKind.ALL_TO_ALL: "y = f32[{n}] all-to-all(x), replica_groups={groups}, dimensions={{0}}",
    CollectiveKind.PERMUTE: "y = f32[{n}] collective-permute(x), source_target_pairs={pairs}",
}


def _measured_link(kind: CollectiveKind) -> Link:
    """Fits latency and bandwidth to times of several sizes on several numbers of devices."""
    small = [_collective_seconds(kind, _COLLECTIVE_BYTES[0], count) / count for count in _COLLECTIVE_DEVICES]
    latency = float(np.median(small))
    points: list[tuple[float, float]] = []
    for size in _COLLECTIVE_BYTES[1:]:
        found = [_collective_seconds(kind, size, count) / count - latency for count in _COLLECTIVE_DEVICES]
        points.append((float(size), size / max(float(np.median(found)), latency / 10)))
    return Link(latency, Curve(tuple(points)))


def _collective_seconds(kind: CollectiveKind, size: int, devices: int) -> float:
    """Returns the seconds of a collective of `size` bytes per device; eight of them run in a row."""
    count, repeats = size // 4, 8
    shard = count // devices
    groups = "{{" + ",".join(map(str, range(devices))) + "}}"
    pairs = "{" + ",".join(f"{{{d},{(d + 1) % devices}}}" for d in range(devices)) + "}"
    operand = shard if kind is CollectiveKind.ALL_GATHER else count
    result = shard if kind is CollectiveKind.REDUCE_SCATTER else count
    lines = [f"x0 = f32[{operand}] parameter(0)"]
    for number in range(repeats):
        line = _COLLECTIVES[kind].format(n=count, m=shard, groups=groups, pairs=pairs)
        line = line.replace("y =", f"y{number} =").replace("(x)", f"(x{number})")
        # The next one depends on this one, but on one element only.
        follow = (
            f"p{number} = f32[1] slice(y{number}), slice={{[0:1]}}\n  z{number} = s32[] constant(0)\n"
            f"  x{number + 1} = f32[{operand}] dynamic-update-slice(x{number}, p{number}, z{number})"
        )
        lines += [line, follow]
    body = "\n  ".join(lines)
    text = f"""HloModule calibration, replica_count={devices}

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  {body}
  ROOT r = f32[{result}] copy(y{repeats - 1})
}}
"""
    return max(0.0, step_seconds(text, devices) - devices * _launch_seconds(devices)) / repeats


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


# -- running


def step_seconds(text: str, devices: int) -> float:
    """Returns the least time of several calls of a program on that many devices of this process. Arguments are ones."""
    module = parse_hlo(text)
    client = Client("cpu", devices=devices)
    executable = client.compile(module)
    parameters = [parameter.shape for parameter in module.entry_computation.parameters]
    arguments = [[client.device_put(_ones(shape)) for shape in parameters] for _ in range(devices)]
    found: list[float] = []
    for _ in range(_RUNS + 1):
        begin = time.perf_counter()
        block_until_ready(executable.execute_sharded(arguments))
        found.append(time.perf_counter() - begin)
    return min(found[1:])


def _ones(shape: Shape) -> Any:
    return np.ones(shape.dimensions, shape.element_type.dtype)

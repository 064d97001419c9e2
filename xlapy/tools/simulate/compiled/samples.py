"""Measures how fast kernels of each class are on this machine, compared to their estimates.

Each sample is a small program whose data stay in the level-2 cache. Its kernels are timed by counters in the program:
the seconds that threads spend in them, of the fastest tenth of the runs, so that other processes disturb little.

Responsible for the samples and for the speeds that follow. Does not depend on collectives or on files.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np

from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, OPERATION_CYCLES
from xlapy.analysis.simulation.machine import CompiledRates, Curve
from xlapy.base.element_types import F32
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.hlo.module import Module
from xlapy.loops.ir import For, Kernel
from xlapy.runtime import Client
from xlapy.runtime.buffer import block_until_ready
from xlapy.runtime.executable import Executable
from xlapy.text import parse_hlo
from xlapy.tools.profile.measuring import Measured, measure
from xlapy.tools.profile.reuse import Access
from xlapy.tools.simulate.compiled.kernel_cycles import ArithmeticCycles, Core
from xlapy.tools.simulate.compiled.kernel_model import KernelModel, class_of, length_of

Say = Callable[[str], None]

_RUNS: Final = 60
_ROUNDS: Final = 3
"""How often a program is compiled and measured; the median counts."""

_LEAST_SECONDS: Final = 5e-7
"""A shorter kernel says nothing about its class: reading the clock takes part of its time."""

_ELEMENTS: Final = 1 << 16
_FUNCTIONS: Final = ("exponential", "tanh", "log", "logistic", "sine", "erf")
_CHAINS: Final = (2, 4, 8)

_ADD: Final = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
_LESS: Final = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }\n"
_PAIRS: Final = (
    "less { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)  "
    "ROOT l = pred[] compare(a, b), direction=LT }\n"
)


@dataclass(frozen=True, slots=True)
class KernelSample:
    """A kernel that was measured: `seconds` of threads in one execution. length: the size on which its speed depends;
    0 for its cycles."""

    kind: str
    length: float
    kernel: Kernel
    seconds: float


def measured_kernels(text: str) -> list[KernelSample]:
    """Runs an entry computation, and returns its kernels."""
    module = parse_hlo(f"HloModule sample\n{text}")
    client = Client("cpu", devices=1)
    executable = client.compile(module)
    arguments = [client.device_put(array) for array in _random_arguments(module)]

    def run(one: Executable) -> None:
        block_until_ready(one.execute_sharded([arguments]))

    measured = measure(executable, run, _RUNS)
    counters = measured.compiled.program.counters
    assert counters is not None, "the program is instrumented"
    return [sample for counter in counters.all for sample in _samples_of(counter, measured)]


def _samples_of(counter: ProfilingCounter, measured: Measured) -> Iterator[KernelSample]:
    seconds, executions, busy = measured.figures[counter.number].tolist()
    if len(counter.thunks) != 1 or counter.nested or not executions:
        return
    (thunk,) = counter.thunks
    once = (busy or seconds - executions * measured.clock_reading_seconds) / executions
    kernel = thunk.own_kernel
    if kernel is None or once < _LEAST_SECONDS:
        return
    module = measured.compiled.module
    instruction = next((one for one in module.instructions() if one.name == thunk.op_name), None)
    kind = class_of(measured.compiled.record.plans.get(thunk.op_name), instruction)
    yield KernelSample(kind, length_of(instruction), kernel, once)


def _random_arguments(module: Module) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    return [
        generator.integers(0, _ROWS, shape.dimensions).astype(shape.element_type.dtype)
        if shape.element_type.is_integral
        else generator.normal(size=shape.dimensions).astype(shape.element_type.dtype)
        for shape in shapes
    ]


_ROWS: Final = 4096
"""The rows of tables from which samples gather."""


# -- samples


def _unary(name: str, elements: int = _ELEMENTS, times: int = 1) -> str:
    shape = f"f32[{elements}]"
    lines = [f"a{n + 1} = {shape} {name}(a{n})" for n in range(times)]
    return f"ENTRY e {{ a0 = {shape} parameter(0)  {'  '.join(lines)}  ROOT y = {shape} negate(a{times}) }}"


def _binary(name: str) -> str:
    shape = f"f32[{_ELEMENTS}]"
    return f"ENTRY e {{ x = {shape} parameter(0)  w = {shape} parameter(1)  ROOT y = {shape} {name}(x, w) }}"


def _dot(element: str, rows: int, terms: int, columns: int) -> str:
    return (
        f"ENTRY e {{ x = {element}[{rows},{terms}] parameter(0)  w = {element}[{terms},{columns}] parameter(1)  "
        f"ROOT y = {'f32' if element == 'bf16' else element}[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0} }"
    )


def _batch_dot(batch: int, size: int) -> str:
    shape = f"f32[{batch},{size},{size}]"
    return (
        f"ENTRY e {{ x = {shape} parameter(0)  w = {shape} parameter(1)  ROOT y = {shape} dot(x, w), "
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1} }"
    )


def _convolution(size: int, channels: int, window: int, features: int, groups: int = 1) -> str:
    pad = window // 2
    return (
        f"ENTRY e {{ x = f32[1,{size},{size},{channels}] parameter(0)  "
        f"k = f32[{window},{window},{channels // groups},{features}] parameter(1)  "
        f"ROOT y = f32[1,{size},{size},{features}] convolution(x, k), "
        f"window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f, "
        f"feature_group_count={groups} }}"
    )


def _transform(rows: int, length: int) -> str:
    shape = f"c64[{rows},{length}]"
    return f"ENTRY e {{ x = {shape} parameter(0)  ROOT y = {shape} fft(x), fft_type=FFT, fft_length={{{length}}} }}"


def _sort(rows: int, length: int) -> str:
    shape = f"f32[{rows},{length}]"
    return _LESS + f"ENTRY e {{ x = {shape} parameter(0)  ROOT y = {shape} sort(x), dimensions={{1}}, to_apply=less }}"


def _sort_pairs(rows: int, length: int) -> str:
    keys, values = f"f32[{rows},{length}]", f"s32[{rows},{length}]"
    return _PAIRS + (
        f"ENTRY e {{ k = {keys} parameter(0)  v = {values} parameter(1)  "
        f"ROOT y = ({keys}, {values}) sort(k, v), dimensions={{1}}, to_apply=less }}"
    )


def _running_sum(rows: int, length: int) -> str:
    shape = f"f32[{rows},{length}]"
    return _ADD + (
        f"ENTRY e {{ x = {shape} parameter(0)  z = f32[] constant(0)  ROOT y = {shape} reduce-window(x, z), "
        f"window={{size=1x{length} pad=0_0x{length - 1}_0}}, to_apply=add }}"
    )


def _pooling(size: int, channels: int) -> str:
    return _ADD + (
        f"ENTRY e {{ x = f32[2,{size},{size},{channels}] parameter(0)  z = f32[] constant(0)  "
        f"ROOT y = f32[2,{size // 2},{size // 2},{channels}] reduce-window(x, z), "
        "window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add }"
    )


def _sums(dimension: int) -> str:
    result = 512 if dimension == 0 else 256
    return _ADD + (
        f"ENTRY e {{ x = f32[256,512] parameter(0)  z = f32[] constant(0)  "
        f"ROOT y = f32[{result}] reduce(x, z), dimensions={{{dimension}}}, to_apply=add }}"
    )


def _transpose(size: int) -> str:
    return (
        f"ENTRY e {{ x = f32[{size},{size}] parameter(0)  "
        f"ROOT y = f32[{size},{size}] transpose(x), dimensions={{1,0}} }}"
    )


def _gather(window: int) -> str:
    count = (1 << 16) // window
    return (
        f"ENTRY e {{ t = f32[{_ROWS},{window}] parameter(0)  i = s32[{count},1] parameter(1)  "
        f"ROOT y = f32[{count},{window}] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{window}}} }}"
    )


def _scatter(window: int) -> str:
    count = (1 << 16) // window
    return _ADD + (
        f"ENTRY e {{ t = f32[{_ROWS},{window}] parameter(0)  i = s32[{count},1] parameter(1)  "
        f"u = f32[{count},{window}] parameter(2)  ROOT y = f32[{_ROWS},{window}] scatter(t, i, u), "
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add }"
    )


def _attention(element: str, length: int) -> str:
    shape, result, scores = f"{element}[4,{length},64]", f"f32[4,{length},64]", f"f32[4,{length},{length}]"
    return (
        _ADD
        + "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }\n"
        + f"""ENTRY e {{
  q = {shape} parameter(0)
  k = {shape} parameter(1)
  v = {shape} parameter(2)
  s = {scores} dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{2}}
  i = f32[] constant(-inf)
  z = f32[] constant(0)
  m = f32[4,{length}] reduce(s, i), dimensions={{2}}, to_apply=max
  b = {scores} broadcast(m), dimensions={{0,1}}
  d = {scores} subtract(s, b)
  x = {scores} exponential(d)
  t = f32[4,{length}] reduce(x, z), dimensions={{2}}, to_apply=add
  c = {scores} broadcast(t), dimensions={{0,1}}
  p = {scores} divide(x, c)
  h = {element}[4,{length},{length}] convert(p)
  ROOT o = {result} dot(h, v), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{1}}
}}"""
    )


_SAMPLES: Final = (
    *(_unary(name) for name in _FUNCTIONS), _binary("multiply"), _binary("power"), _binary("atan2"), _sums(0), _sums(1),
    *(_dot("f32", size, size, size) for size in (64, 128, 256, 384)), _dot("f32", 32, 512, 256),
    *(_dot("bf16", size, size, size) for size in (128, 384)), _dot("f64", 192, 192, 192), _dot("f32", 256, 256, 1),
    _batch_dot(64, 32), _batch_dot(16, 64), _convolution(56, 64, 3, 64), _convolution(28, 32, 3, 32),
    _convolution(32, 16, 5, 32), _convolution(28, 64, 1, 64), _convolution(32, 64, 3, 64, 64),
    _transform(64, 1024), _transform(16, 256), _attention("f32", 128), _attention("f32", 256),
    _attention("bf16", 128), _attention("bf16", 256),
    *(_sort((1 << 16) // n, n) for n in (16, 64, 256, 2048, 1 << 16)), _sort_pairs(256, 256), _sort_pairs(1, 1 << 16),
    _running_sum(64, 1024), _running_sum(1024, 64), _pooling(64, 16),
    *(_transpose(size) for size in (128, 320, 512, 1024, 2048)),
    _gather(1), _gather(8), _gather(64), _scatter(1), _scatter(8), _scatter(64),
)  # fmt: skip
"""Programs whose kernels have each strategy that is common. Several of one class are a curve or a mean."""


# -- rates


def measured_core() -> Core:
    """Returns the cycles of divisions and square roots, and the window of instructions."""
    plain = Core()
    division, root = (_busiest(text).seconds for text in (_binary("divide"), _unary("sqrt")))
    vectors = _ELEMENTS / 16
    core = Core(*(seconds * 1e6 * CYCLES_PER_MICROSECOND / vectors for seconds in (division, root)))
    unit = _busiest(_unary("tanh"))
    speed = ArithmeticCycles(unit.kernel, replace(core, window=0.0)).arithmetic_cycles / _cycles(unit)
    windows = [window for times in _CHAINS if (window := _window(_busiest(_unary("tanh", times=times)), core, speed))]
    return replace(core, window=statistics.median(windows)) if windows else replace(core, window=plain.window)


def _cycles(sample: KernelSample) -> float:
    return sample.seconds * 1e6 * CYCLES_PER_MICROSECOND


def _window(sample: KernelSample, core: Core, speed: float) -> float:
    """Returns the window with which the estimate is as long as the measurement; 0 if any window is too small."""
    counted = ArithmeticCycles(sample.kernel, replace(core, window=0.0))
    loop = next(one for one in counted.loops if isinstance(one, For) and one.width > 1)
    waiting = (_cycles(sample) * speed / counted.arithmetic_cycles) ** 2 - 1
    if waiting <= 0:
        return 0.0
    return counted.latency(loop) / OPERATION_CYCLES / sqrt(waiting)


def _busiest(text: str) -> KernelSample:
    return max(measured_kernels(text), key=lambda sample: sample.seconds)


def measured_speeds(rates: CompiledRates, say: Say) -> dict[str, Curve]:
    """Returns the speeds of all classes. rates: those of the machine, whose speeds do not count."""
    model = KernelModel(rates)
    found: dict[str, list[tuple[float, float]]] = {}
    for text in _SAMPLES:
        sample = sorted((_busiest(text) for _ in range(_ROUNDS)), key=lambda one: one.seconds)[_ROUNDS // 2]
        estimate = model.estimated_seconds(sample.kernel, sample.kind)
        size = sample.length or estimate * 1e6 * CYCLES_PER_MICROSECOND
        found.setdefault(sample.kind, []).append((size, estimate / sample.seconds))
    curves = {kind: _curve(kind, points) for kind, points in found.items()}
    for kind, curve in sorted(curves.items()):
        say(f"kernels, {kind}: {', '.join(f'{speed:.3g}' for _, speed in curve.points)} of the estimated speed")
    return curves


def measured_overlap(rates: CompiledRates) -> float:
    """Returns the part of the shorter of arithmetic and memory that runs beside the longer one."""
    model, found = KernelModel(rates), list[float]()
    size = float(_LARGE * F32.byte_size)
    accesses = [Access(size, 2 * size, is_written, is_update=False, is_partial=False) for is_written in (False, True)]
    memory = model.memory_seconds(accesses)
    for name in _FUNCTIONS:
        arithmetic = _busiest(_unary(name)).seconds * _LARGE / _ELEMENTS
        seconds = _busiest(_unary(name, _LARGE)).seconds
        found.append((arithmetic + memory - seconds) / min(arithmetic, memory))
    return min(1.0, max(0.0, statistics.median(found)))


_LARGE: Final = 1 << 21
"""Elements of arrays that are far larger than a level-2 cache."""

_BY_SIZE: Final = frozenset({"sort", "sort-pairs", "gather", "scatter", "packed-gemm", "tile-gemm", "fft", "transpose"})
"""Classes whose speed depends on a size. That of others is the median of their samples."""


def _curve(kind: str, points: list[tuple[float, float]]) -> Curve:
    if kind not in _BY_SIZE:
        return Curve.constant(statistics.median(speed for _, speed in points))
    by_size: dict[float, list[float]] = {}
    for size, speed in points:
        by_size.setdefault(size, []).append(speed)
    return Curve(tuple((size, statistics.median(speeds)) for size, speeds in sorted(by_size.items())))

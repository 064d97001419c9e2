"""Measures the rates of single operations on this machine: functions, sorts, gathers, scatters, transforms.

Functions of elements run in a loop, so that arrays stay in caches. Their time is that of a loop with the function less
that of the same loop without. Other operations are programs of their own, with random arguments.

Responsible for the programs and their rates. Does not depend on collectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from xlapy.analysis.simulation.machine import Curve
from xlapy.base.element_types import F32
from xlapy.text import parse_hlo
from xlapy.tools.simulate.running import iteration_seconds, step_seconds

FUNCTIONS: Final = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "sine", "cosine", "tan", "erf",
    "sqrt", "rsqrt", "cbrt", "power", "atan2", "divide", "remainder",
)  # fmt: skip
_BINARY: Final = frozenset({"power", "atan2", "divide", "remainder"})
_ELEMENTS: Final = 1 << 12
_CHAIN: Final = 16
"""Operations in a row that measure the rate of simple arithmetic."""

_CHAINS: Final = (1, 2, 4, 8)
_LEAST_SHARE: Final = 0.1
"""A function takes at least this part of the time of its loop: less cannot be told from noise."""

_SORTED: Final = 1 << 17
_SORT_LENGTHS: Final = (64, 1 << 11, 1 << 17)
_TRANSFORMED_ROWS: Final = (32, 256, 1024)
_WINDOWS: Final = (1, 64)
_TABLE: Final = 1 << 20
_MOVED: Final = 1 << 18


def elementwise_rate(devices: int) -> float:
    """Returns how many additions, multiplications and comparisons a processor does in a second."""
    names = ("multiply", "add", "maximum", "subtract")
    lines = [f"  a{n + 1} = f32[{_ELEMENTS}] {names[n % 4]}(a{n}, third)" for n in range(_CHAIN)]
    body = "\n".join([*_start(), *lines, f"  y = f32[{_ELEMENTS}] negate(a{_CHAIN})"])
    seconds = _seconds(body, devices) - _baseline(devices)
    return _CHAIN * _ELEMENTS / max(seconds, _CHAIN * _ELEMENTS / 1e12)


def function_rates(devices: int) -> dict[str, float]:
    """Returns the elements of f32 per second of functions."""
    baseline, found = _baseline(devices), dict[str, float]()
    for name in FUNCTIONS:
        operands = "a0, third" if name in _BINARY else "a0"
        body = "\n".join([*_start(), f"  y = f32[{_ELEMENTS}] {name}({operands})"])
        whole = _seconds(body, devices)
        found[name] = _ELEMENTS / max(whole - baseline, _LEAST_SHARE * whole)
    return found


def chain_rates(devices: int) -> Curve:
    """Returns the part of the rate of a function that chains of it reach, by their length."""
    baseline, found = _baseline(devices), list[tuple[float, float]]()
    for length in _CHAINS:
        lines = [f"  a{n + 1} = f32[{_ELEMENTS}] tanh(a{n})" for n in range(length)]
        body = "\n".join([*_start(), *lines, f"  y = f32[{_ELEMENTS}] negate(a{length})"])
        found.append((float(length), length / max(_seconds(body, devices) - baseline, 1e-9)))
    return Curve(tuple((length, min(1.0, rate / found[0][1])) for length, rate in found))


def _start() -> list[str]:
    """Lines whose last value is near one, and that read the values of the iteration before in another order."""
    shape = f"f32[{_ELEMENTS}]"
    return [
        f"\n  r = {shape} reverse(x), dimensions={{0}}",
        "  small = f32[] constant(1e-6)",
        f"  smalls = {shape} broadcast(small), dimensions={{}}",
        f"  m = {shape} multiply(r, smalls)",
        f"  a0 = {shape} add(m, third)",
    ]


def _seconds(body: str, devices: int) -> float:
    return iteration_seconds(f"f32[{_ELEMENTS}]", body, devices, 2e-6)


def _baseline(devices: int) -> float:
    return _seconds("\n".join([*_start(), f"  y = f32[{_ELEMENTS}] negate(a0)"]), devices)


# -- operations that are programs of their own


def operation_rates(devices: int, launch: float, memory: Curve) -> dict[str, Curve]:
    """Returns the rates of sorts, gathers and other operations that move elements.

    launch: the seconds that each device adds to a call. memory: bytes per second, for the copy of a scatter's operand.
    """
    processor = _Processor(devices, launch)
    return {
        "sort": Curve(tuple((float(length), processor.sort(length)) for length in _SORT_LENGTHS)),
        "gather": Curve(tuple((float(window), processor.gather(window)) for window in _WINDOWS)),
        "scatter": Curve(tuple((float(window), processor.scatter(window, memory)) for window in _WINDOWS)),
        "transpose": Curve(tuple((float(n * n), processor.transpose(n)) for n in (128, 512, 2048))),
        "reduce-window": Curve.constant(processor.cumulative()),
        "rng-bit-generator": Curve.constant(processor.random_bits()),
    }


def transform_points(devices: int, launch: float) -> Iterator[tuple[float, float]]:
    """Yields numbers of operations of Fourier transforms, as the cost analysis counts them, and how many a processor
    does in a second."""
    length = 1024
    for rows in _TRANSFORMED_ROWS:
        seconds = _Processor(devices, launch).seconds(
            f"x = c64[{rows},{length}] parameter(0)",
            f"ROOT y = c64[{rows},{length}] fft(x), fft_type=FFT, fft_length={{{length}}}",
        )
        operations = 8.0 * rows * length * float(np.log2(length))
        yield operations, operations / seconds


class _Processor:
    """Runs programs on as many devices as there are processors."""

    def __init__(self, devices: int, launch: float) -> None:
        self._devices, self._launch = devices, launch

    def seconds(self, *lines: str, before: str = "", indices: int = 2) -> float:
        """Returns the seconds of an entry computation without its launch. Integers are random and below `indices`."""
        body = "\n  ".join(lines)
        text = f"HloModule calibration, replica_count={self._devices}\n{before}ENTRY main {{\n  {body}\n}}\n"
        generator = np.random.default_rng(0)
        given = [
            generator.normal(size=shape.dimensions).astype(shape.element_type.dtype)
            if not shape.element_type.is_integral
            else generator.integers(0, indices, shape.dimensions).astype(shape.element_type.dtype)
            for shape in (p.shape for p in parse_hlo(text).entry_computation.parameters)
        ]
        whole = step_seconds(text, self._devices, given)
        return max(whole - self._devices * self._launch, 0.1 * whole)

    def sort(self, length: int) -> float:
        shape = f"f32[{_SORTED // length},{length}]"
        seconds = self.seconds(
            f"x = {shape} parameter(0)",
            f"ROOT y = {shape} sort(x), dimensions={{1}}, to_apply=less",
            before="less { a = f32[] parameter(0)  b = f32[] parameter(1)  "
            "ROOT c = pred[] compare(a, b), direction=LT }\n",
        )
        return _SORTED / seconds

    def gather(self, window: int) -> float:
        rows, count = _TABLE // window, _MOVED // window
        seconds = self.seconds(
            f"t = f32[{rows},{window}] parameter(0)",
            f"i = s32[{count},1] parameter(1)",
            f"ROOT y = f32[{count},{window}] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
            f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{window}}}",
            indices=rows,
        )
        return _MOVED / seconds

    def scatter(self, window: int, memory: Curve) -> float:
        rows, count = _TABLE // window, _MOVED // window
        seconds = self.seconds(
            f"t = f32[{rows},{window}] parameter(0)",
            f"i = s32[{count},1] parameter(1)",
            f"u = f32[{count},{window}] parameter(2)",
            f"ROOT y = f32[{rows},{window}] scatter(t, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
            before="sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n",
            indices=rows,
        )
        copied = 2.0 * _TABLE * F32.byte_size
        return _MOVED / max(seconds - copied / memory.at(copied * self._devices), 0.1 * seconds)

    def transpose(self, size: int) -> float:
        seconds = self.seconds(
            f"x = f32[{size},{size}] parameter(0)", f"ROOT y = f32[{size},{size}] transpose(x), dimensions={{1,0}}"
        )
        return size * size / seconds

    def cumulative(self) -> float:
        rows, length = 256, 4096
        seconds = self.seconds(
            f"x = f32[{rows},{length}] parameter(0)",
            "z = f32[] constant(0)",
            f"ROOT y = f32[{rows},{length}] reduce-window(x, z), window={{size=1x{length} pad=0_0x{length - 1}_0}}, "
            "to_apply=sum",
            before="sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n",
        )
        return rows * length / seconds

    def random_bits(self) -> float:
        seconds = self.seconds(
            "s = u64[2] parameter(0)",
            f"r = (u64[2], u32[{_MOVED}]) rng-bit-generator(s), algorithm=rng_three_fry",
            f"ROOT y = u32[{_MOVED}] get-tuple-element(r), index=1",
        )
        return _MOVED / seconds

"""Runs programs on devices of this process, and takes their times.

Responsible for compiling, arguments and the clock. Does not depend on what programs compute.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.runtime import Client
from xlapy.runtime.buffer import block_until_ready
from xlapy.text import parse_hlo

_LEAST_RUNS: Final = 3
_MOST_RUNS: Final = 100
_RUN_SECONDS: Final = 0.1
"""Calls repeat until they have taken this long altogether, within these numbers of calls."""

_LOOP_SECONDS: Final = 0.01
"""The time of one run of a loop: it has as many iterations as take about that long."""


def iteration_seconds(shape: str, body: str, devices: int, expected: float, before: str = "") -> float:
    """Returns the seconds of an iteration of a loop that computes y of x, both of a shape, and of a third value.

    expected: about how many seconds that takes. before: computations that the body calls.
    """
    trips = max(4, round(_LOOP_SECONDS / expected))
    text = f"""HloModule calibration, replica_count={devices}

{before}condition {{
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


def step_seconds(text: str, devices: int, given: Sequence[np.ndarray] | None = None) -> float:
    """Returns the median time of several calls of a program on that many devices of this process. given: the arguments
    of each device; by default ones."""
    return module_seconds(parse_hlo(text), devices, given)


def module_seconds(module: Module, devices: int, given: Sequence[np.ndarray] | None = None) -> float:
    """Returns the median time of several calls of a program, as above."""
    client = Client("cpu", devices=devices)
    executable = client.compile(module)
    arrays = given or [_ones(parameter.shape) for parameter in module.entry_computation.parameters]
    arguments = [[client.device_put(array) for array in arrays] for _ in range(devices)]
    block_until_ready(executable.execute_sharded(arguments))
    found: list[float] = []
    while len(found) < _LEAST_RUNS or (sum(found) < _RUN_SECONDS and len(found) < _MOST_RUNS):
        begin = time.perf_counter()
        block_until_ready(executable.execute_sharded(arguments))
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _ones(shape: Shape) -> Any:
    return np.ones(shape.dimensions, shape.element_type.dtype)

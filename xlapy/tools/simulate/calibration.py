"""Measures this machine for simulations: its roofline, kernels of each class, launches, and devices that meet.

Times are medians of several medians, as users measure programs, too. `Disturbance` says how much of the processors
other processes used meanwhile.

Responsible for what is measured, in which order, and for what is said about it. Does not depend on files.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import Final

from xlapy.analysis.simulation.machine import CompiledRates, Curve, Link, MachineDescription
from xlapy.analysis.simulation.simulator import Options
from xlapy.runtime.machine import Machine, machine_roofline
from xlapy.text import parse_hlo
from xlapy.tools.simulate.compiled.samples import measured_core, measured_overlap, measured_speeds
from xlapy.tools.simulate.prediction import predicted
from xlapy.tools.simulate.programs import prepared
from xlapy.tools.simulate.running import iteration_seconds, module_seconds, step_seconds
from xlapy.tools.simulate.this_machine import compiled_rates, uncalibrated_machine

_DEVICES: Final = (2, 4, 8)
_REPEATS: Final = 5

_DISTURBED_SHARE: Final = 0.05
"""The share of the processors that other processes may use without a warning."""

Say = Callable[[str], None]


def calibrated_machine(say: Say) -> MachineDescription:
    """Returns a description of this machine from measurements. say: is called with a line for each."""
    disturbance = Disturbance()
    say("measuring the memory and the arithmetic of this machine")
    measured = machine_roofline(anew=True)
    machine = uncalibrated_machine(measured)
    _say_roofline(measured, say)
    launch = _median(_launch_seconds_of_a_device)
    say(f"launch: {launch * 1e6:.3g} us per device")
    meeting = _median(_meeting_seconds_of_a_device)
    say(f"devices that meet: {meeting * 1e6:.3g} us per device")
    work = _work_seconds(1)
    waiting = {count: _waiting_seconds(count, work) for count in _DEVICES}
    say(f"devices that meet after work: {', '.join(f'{one * 1e6:.3g}' for one in waiting.values())} us for 2, 4 and 8")
    line = {count: max(_LEAST_MEETING, _median(partial(_line_seconds, count))) for count in _DEVICES}
    say(f"devices that meet in a row: {', '.join(f'{one * 1e6:.3g}' for one in line.values())} us for 2, 4 and 8")
    wake_up = _median(partial(_wake_up_seconds, launch, work, waiting))
    say(f"waking devices that exchange data: {wake_up * 1e6:.3g} us")
    meetings = replace(
        compiled_rates(measured),
        meeting=meeting,
        waiting=_meetings_per_second(waiting),
        line=_meetings_per_second(line),
    )
    rates = _measured_kernels(meetings, say)
    rates = replace(rates, pace=_pace(replace(machine, launch=launch, compiled=rates)))
    say(f"kernels in a step: {rates.pace:.3g} times as long as by themselves")
    process = replace(machine.levels[0], link=Link(meeting, machine.levels[0].link.bandwidth))
    if warning := disturbance.warning():
        say(warning)
    return replace(machine, levels=(process, *machine.levels[1:]), launch=launch, wake_up=wake_up, compiled=rates)


def _say_roofline(measured: Machine, say: Say) -> None:
    peaks = ", ".join(f"{name} {rate / 1e9:.4g}" for name, rate in measured.all.operations.items())
    say(f"peaks of {measured.processor}, {measured.all.threads} threads, billion operations per second: {peaks}")
    for level, one in measured.levels(measured.all):
        say(f"{level}: reads {one.read / 1e9:.4g}, writes {one.write / 1e9:.4g}, copies {one.copy / 1e9:.4g} GB/s")


def _measured_kernels(rates: CompiledRates, say: Say) -> CompiledRates:
    core = measured_core()
    say(
        f"a vector register: division {core.division:.3g} cycles of 0.4 ns, square root {core.square_root:.3g}; "
        f"{core.window:.0f} instructions under way"
    )
    named = dict(zip(("division", "square_root", "window"), astuple(core), strict=True))
    rates = replace(rates, **named)
    rates = replace(rates, speeds=measured_speeds(rates, say))
    rates = replace(rates, overlap=measured_overlap(rates))
    say(f"overlap of arithmetic and memory: {rates.overlap:.0%}")
    handover = _median(_handover_seconds)
    say(f"threads that share a loop: {handover * 1e6:.3g} us")
    return replace(rates, handover=handover)


def _median(measure: Callable[[], float]) -> float:
    return max(0.0, statistics.median(measure() for _ in range(_REPEATS)))


# -- steps


_DOT: Final = "a = SHAPE dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  "
_STEPS: Final = (
    ("f32[256,256]", _DOT + "b = SHAPE multiply(a, w)  ROOT y = SHAPE negate(b)"),
    ("f32[384,384]", _DOT + "ROOT y = SHAPE tanh(a)"),
    ("f32[256,512]", "a = SHAPE exponential(x)  b = SHAPE multiply(a, w)  ROOT y = SHAPE tanh(b)"),
    ("f32[512,512]", "a = SHAPE transpose(x), dimensions={1,0}  ROOT y = SHAPE add(a, w)"),
    ("f32[1024,1024]", "a = SHAPE add(x, w)  r = SHAPE reverse(a), dimensions={0}  ROOT y = SHAPE multiply(r, w)"),
)
"""Shapes, and the steps that devices compute of two arrays x and w of that shape, each by itself."""


def _pace(machine: MachineDescription) -> float:
    """Returns how many times as long steps take as kernels by themselves say. machine: its launches and kernels."""
    return statistics.median(_step_pace(machine, count, *step) for count in _DEVICES for step in _STEPS)


def _step_pace(machine: MachineDescription, devices: int, shape: str, body: str) -> float:
    module = parse_hlo(
        f"HloModule calibration, replica_count={devices}\nENTRY main {{\n  x = {shape} parameter(0)\n"
        f"  w = {shape} parameter(1)\n  {body.replace('SHAPE', shape)}\n}}"
    )
    measured = _median(partial(module_seconds, module, devices))
    optimized, counts = prepared(module, None, None)
    return measured / predicted(optimized, machine, counts, Options()).seconds


# -- launches


def _launch_seconds_of_a_device() -> float:
    """Returns what each device adds to a call of a program that computes next to nothing."""
    text = "HloModule calibration, replica_count={n}\n" + _NEGATE
    return statistics.median(step_seconds(text.replace("{n}", str(count)), count) / count for count in _DEVICES)


_NEGATE: Final = "ENTRY main { x = f32[8] parameter(0)  ROOT y = f32[8] negate(x) }"
_SUM: Final = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def _meeting_seconds_of_a_device() -> float:
    """Returns what each device adds to an all-reduce of some bytes in a loop."""
    body = "\n  y = f32[8] all-reduce(x), replica_groups={}, to_apply=sum"
    return statistics.median(
        iteration_seconds("f32[8]", body, count, count * 1e-6, before=_SUM) / count for count in _DEVICES
    )


def _work_seconds(devices: int) -> float:
    """Returns the seconds of an iteration of a loop in which each device computes for some 20 microseconds, and meets
    the others if there are any."""
    shape = f"f32[{_WORK_ELEMENTS}]"
    return _median(lambda: iteration_seconds(shape, _WORK, devices, devices * 2e-5, before=_SUM))


def _waiting_seconds(devices: int, work: float) -> float:
    """Returns the seconds of a meeting of devices that have computed since the last one: those of an iteration, less
    those of each device by itself on all threads. work: the seconds of one device."""
    return max(_LEAST_MEETING, _work_seconds(devices) - devices * work)


def _line_seconds(devices: int) -> float:
    """Returns the seconds of a meeting in a program with several of them and without work."""

    def seconds(meetings: int) -> float:
        lines = [f"  a{n + 1} = f32[8] all-reduce(a{n}), replica_groups={{}}, to_apply=sum" for n in range(meetings)]
        return step_seconds(
            f"HloModule calibration, replica_count={devices}\n{_SUM}ENTRY main {{\n  a0 = f32[8] parameter(0)\n"
            + "\n".join([*lines, f"  ROOT y = f32[8] negate(a{meetings})\n}}"]),
            devices,
        )

    return (seconds(5) - seconds(1)) / 4


def _meetings_per_second(waiting: Mapping[int, float]) -> Curve:
    return Curve(tuple((float(count), 1 / seconds) for count, seconds in waiting.items()))


_WORK_ELEMENTS: Final = 1 << 16
_LEAST_MEETING: Final = 1e-7
"""A shorter time of a meeting cannot be told from noise."""


def _wake_up_seconds(launch: float, work: float, waiting: Mapping[int, float]) -> float:
    """Returns the seconds until two devices run that compute and then exchange data, and until the caller has the
    result: what a launch takes longer than its work. With two, the meeting itself is short."""
    count, meeting = next(iter(waiting.items()))
    text = f"""HloModule calibration, replica_count={count}
{_SUM}ENTRY main {{
  x = f32[{_WORK_ELEMENTS}] parameter(0){_WORK.replace("  y =", "  ROOT y =")}
}}"""
    return step_seconds(text, count) - count * (launch + work) - meeting


def _handover_seconds() -> float:
    """Returns the seconds that a loop of two chunks loses when threads share it: the time of a kernel on all threads
    less its part of the time on one, which a kernel of half the size takes."""
    times = [
        iteration_seconds(f"f32[{size}]", _CHAIN.format(n=size), 1, 1e-5) for size in (_SMALL_LOOP, 2 * _SMALL_LOOP)
    ]
    return times[1] - times[0]


_SMALL_LOOP: Final = 6144
"""Elements of a kernel that is too short for several threads; that of twice as many is divided among two."""

_CHAIN: Final = """
  r = f32[{n}] reverse(x), dimensions={{0}}
  h = f32[{n}] tanh(r)
  y = f32[{n}] exponential(h)"""


_WORK: Final = (
    _CHAIN.format(n=_WORK_ELEMENTS).replace("  y =", "  e =")
    + f"""
  part = f32[8] slice(e), slice={{[0:8]}}
  sum = f32[8] all-reduce(part), replica_groups={{}}, to_apply=sum
  start = s32[] constant(0)
  y = f32[{_WORK_ELEMENTS}] dynamic-update-slice(e, sum, start)"""
)


class Disturbance:
    """How much of the processors other processes use from now on."""

    def __init__(self) -> None:
        self._begin, self._own, self._all = _clock(), _own_seconds(), _busy_seconds()

    def warning(self) -> str:
        """Returns a line if others used more than a little of the processors; the empty string if not, or unknown."""
        if self._all is None or (busy := _busy_seconds()) is None:
            return ""
        available = (_clock() - self._begin) * len(os.sched_getaffinity(0))
        share = (busy - self._all - (_own_seconds() - self._own)) / available
        if share < _DISTURBED_SHARE:
            return ""
        return f"warning: other processes used {share:.0%} of the processors; measure again when nothing else runs"


_clock = time.perf_counter


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _busy_seconds() -> float | None:
    """Returns the seconds in which the processors were busy since the machine started; None where it does not say."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system = map(int, fields[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")

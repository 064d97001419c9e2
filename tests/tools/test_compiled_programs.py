"""Times that `xlapy simulate` computes from kernels of the CPU compiler, on a made-up machine.

One thread of two does 100 operations of f32 per second; memory of all threads moves 400 bytes per second in caches of
1 kB, and 40 beyond.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import hypot

import pytest

from tests.raising import raises
from xlapy.analysis.simulation.communication import DeviceCounts
from xlapy.analysis.simulation.description import machine_from_tables, tables_of_machine
from xlapy.analysis.simulation.machine import (
    Algorithm,
    CompiledRates,
    Curve,
    DeviceRates,
    Level,
    Link,
    MachineDescription,
)
from xlapy.analysis.simulation.simulator import Options
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.llvm.processor import host_processor
from xlapy.loops import F32, I32, AxisKind, Builder
from xlapy.text import parse_hlo
from xlapy.tools.simulate.compiled.kernel_cycles import ArithmeticCycles, Core
from xlapy.tools.simulate.compiled.program_time import ProgramTime, elapsed_seconds
from xlapy.tools.simulate.prediction import predicted
from xlapy.tools.simulate.programs import prepared

RATES = CompiledRates(
    pace=1.0,
    processor=host_processor().name,
    threads=2,
    operations={"f32": 200.0},
    memory=((1000.0, *(400.0,) * 6), (4000.0, *(40.0,) * 6)),
    division=5.0,
    square_root=6.0,
    window=0.0,
    overlap=1.0,
    speeds={"loops": Curve.constant(1e9)},
    handover=0.5,
    meeting=0.25,
    line=Curve.constant(1 / 3),
    waiting=Curve.constant(1 / 7),
)
MACHINE = MachineDescription(
    "m",
    DeviceRates({"default": Curve.constant(1.0)}, 1.0, 1.0, Curve.constant(1.0)),
    (Level("process", 64, Link(0.0, Curve.constant(1.0)), Algorithm.SHARED_MEMORY),),
    processors=2,
    launch=0.125,
    wake_up=1.0,
    compiled=RATES,
)
SUM = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def _time(text: str, rates: CompiledRates = RATES, devices: int = 1) -> ProgramTime:
    module, counts = prepared(parse_hlo(f"HloModule m, replica_count={devices}\n{text}"), None, None)
    return ProgramTime(module, counts, rates, devices)


def _negate(size: int) -> str:
    return f"ENTRY e {{ x = f32[{size}] parameter(0)  ROOT y = f32[{size}] negate(x) }}"


# -- devices that share processors


@pytest.mark.parametrize(
    ("work", "devices", "seconds"),
    [
        ([(3.0, False)], 1, 3.0),
        ([(3.0, True)], 1, 1.5),
        ([(3.0, False)], 2, 3.0),
        ([(3.0, False)], 4, 6.0),
        # Three threads on two processors: the owner of the pool has done its 3 s after 2.25 s; the other one, which has
        # half its rate, does the rest alone.
        ([(3.0, True)], 2, 3.75),
        ([(3.0, True)], 4, 6.0),
        ([(0.0, True)], 3, 0.0),
        ([], 3, 0.0),
        # After 0.75 s, the first one leaves the pool, and nobody takes it in the middle of a kernel.
        ([(1.0, True), (1.0, False)], 2, 2.25),
    ],
)
def test_devices_at_once(work: list[tuple[float, bool]], devices: int, seconds: float) -> None:
    assert elapsed_seconds(work, devices, 2) == pytest.approx(seconds)


# -- memory and arithmetic of a program


def test_a_kernel_takes_the_longer_of_arithmetic_and_memory() -> None:
    """An operation reads and writes 400 bytes; its data were touched 800 bytes ago, which fit the cache."""
    time = _time(_negate(100))
    assert time.seconds() == {"y": pytest.approx(800 / 200)}
    slow = replace(RATES, speeds={"loops": Curve.constant(1e-9)})
    ((row,),) = _time(_negate(100), slow).sequences
    assert row.work == row.arithmetic > 4


def test_kernels_take_longer_in_a_step_by_the_pace() -> None:
    """Also transposes, whose time is not composed of arithmetic and memory."""
    transpose = "ENTRY e { x = f32[64,64] parameter(0)  ROOT y = f32[64,64] transpose(x), dimensions={1,0} }"
    for text in (_negate(100), transpose):
        (alone,), (paced,) = (_time(text, replace(RATES, pace=pace)).seconds().values() for pace in (1.0, 1.5))
        assert paced == pytest.approx(1.5 * alone)


def test_other_devices_push_data_out_of_the_caches() -> None:
    """Eight devices in turn touch 6400 bytes between two accesses of one: 20 bytes per second of a thread."""
    assert _time(_negate(100), devices=8).seconds() == {"y": pytest.approx(8 * 800 / 20)}


def test_arithmetic_and_far_memory_add_up_as_far_as_they_do_not_overlap() -> None:
    """256 kB are beyond every level-2 cache that a test machine may have if it has at most 64 kB."""
    rates = replace(RATES, overlap=0.25, speeds={"loops": Curve.constant(1e-9)})
    ((row,),) = _time(_negate(1 << 22), rates).sequences
    assert row.work == pytest.approx(max(row.arithmetic, row.memory) + 0.75 * min(row.arithmetic, row.memory))


# -- meetings


def _reductions(count: int) -> str:
    lines = [f"a{n + 1} = f32[8] all-reduce(a{n}), replica_groups={{}}, to_apply=add" for n in range(count)]
    return SUM + f"ENTRY e {{ a0 = f32[8] parameter(0)  {'  '.join(lines)}  ROOT y = f32[8] negate(a{count}) }}"


def test_meetings_in_a_row() -> None:
    """Memory is so fast that devices do no work between meetings: 3 s each, and 0.25 s a device in a loop."""
    fast = replace(RATES, memory=((1000.0, *(1e12,) * 6),))
    one, three = (sum(_time(_reductions(count), fast, 4).seconds().values()) for count in (1, 3))
    assert three - one == pytest.approx(2 * 3, rel=1e-3)
    assert _time(_reductions(1), fast, 4).seconds()["a1"] == pytest.approx(3, rel=1e-3)


def test_meetings_after_work() -> None:
    """At 40 bytes per second, copying 32 bytes to the place where devices meet is work."""
    time = _time(_reductions(1), devices=4)
    first = time.sequences[-1][0]
    assert first.meetings == 1 and time.seconds()["a1"] > 7
    assert time.step_seconds(time.sequences[-1])[0] == pytest.approx(7 + 2 * first.work)


def test_the_whole_step_has_launch_and_wake_up() -> None:
    module, counts = prepared(parse_hlo(f"HloModule m, replica_count=4\n{_reductions(1)}"), None, None)
    outcome = predicted(module, MACHINE, counts, Options())
    assert outcome.launch == pytest.approx(4 * 0.125 + 1.0)
    time = ProgramTime(module, DeviceCounts(4, 1), RATES, 4)
    assert outcome.seconds == pytest.approx(outcome.launch + sum(time.seconds().values()))


def test_a_loop_counts_its_kernels_once_for_each_iteration() -> None:
    text = """condition { s = (s32[], f32[100]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)  ROOT go = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[100]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  x = f32[100] get-tuple-element(s), index=1  c = f32[100] cosine(x)
  y = f32[100] reverse(c), dimensions={0}  ROOT t = (s32[], f32[100]) tuple(j, y) }
ENTRY e { z = s32[] constant(0)  x = f32[100] parameter(0)  s = (s32[], f32[100]) tuple(z, x)
  ROOT w = (s32[], f32[100]) while(s), condition=condition, body=body }"""
    module, counts = prepared(parse_hlo(f"HloModule m\n{text}"), None, None)
    outcome = predicted(module, MACHINE, counts, Options())
    kernel = next(usage for one, usage in outcome.usages.items() if "reverse" in one.name or "y" in one.name)
    assert kernel.executions == 6 and kernel.busy > 6 * 800 / 200 - 1e-6


def test_a_description_of_another_processor_counts_by_rates_with_a_warning() -> None:
    other = replace(MACHINE, compiled=replace(RATES, processor="other"))
    module, counts = prepared(parse_hlo(f"HloModule m\n{_negate(8)}"), None, None)
    outcome = predicted(module, other, counts, Options())
    assert "rates of operations" in outcome.warnings[0] and "other" in outcome.warnings[0]
    assert outcome.seconds == pytest.approx(0.125 + 64 / 2)  # 64 bytes at 1 per second on each of two processors


# -- cycles


def _cycles(operations: int, core: Core) -> float:
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 16), builder.buffer("b", F32, 16, written=True)
    with builder.loop(16, AxisKind.VECTOR, width=16) as i:
        value = builder.load(source, i)
        for _ in range(operations):
            value = builder.mul(value, value)
        builder.store(target, i, value)
    return ArithmeticCycles(builder.kernel, core).arithmetic_cycles


def test_a_chain_waits_for_its_results_if_the_window_is_small() -> None:
    """100 multiplications, a load and a store: 51.5 cycles; 6 + 100 * 4 cycles from the load to the last result."""
    busy = _cycles(100, Core()) - 1.0  # the end of the loop's iteration
    assert busy == pytest.approx(0.5 + 50 + 1)
    waiting = 406 * (busy / 0.5) / 200
    assert _cycles(100, Core(window=200)) == pytest.approx(hypot(busy, waiting) + 1.0)


def test_a_rotation_is_one_operation() -> None:
    builder = Builder("k")
    source, target = builder.buffer("a", I32, 16), builder.buffer("b", I32, 16, written=True)
    with builder.loop(16, AxisKind.VECTOR, width=16) as i:
        x = builder.load(source, i)
        left, right = (builder.binary(op, x, builder.constant(I32, by)) for op, by in (("shl", 5), ("lshr", 27)))
        builder.store(target, i, builder.binary("or", left, right))
    assert ArithmeticCycles(builder.kernel, Core()).arithmetic_cycles == pytest.approx(0.5 + 0.5 + 1 + 1)


# -- descriptions


def test_a_description_with_kernels_survives_a_file() -> None:
    assert machine_from_tables(json.loads(json.dumps(tables_of_machine(MACHINE))), "m") == MACHINE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operations": {}}, "compiled.operations.f32 is missing"),
        ({"memory": []}, "at least one working set"),
        ({"memory": [[1, 2]]}, "6 rates"),
        ({"memory": [[2, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]}, "ascend"),
        ({"window": -1}, "compiled.window"),
        ({"speed": 1}, "no field speed"),
    ],
)
def test_malformed_rates_of_kernels(changes: dict[str, object], words: str) -> None:
    tables = tables_of_machine(MACHINE)
    tables["compiled"] |= changes
    with raises(InvalidArgumentError, codes.MACHINE_DESCRIPTION, words):
        machine_from_tables(tables, "m")

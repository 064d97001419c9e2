"""Simulated steps whose times are computed by hand.

The machine: 100 bytes of memory and 10 operations per second, no overhead; links of 40 bytes per second in a ring.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.raising import raises
from xlapy.analysis.simulation.communication import DeviceCounts, device_counts
from xlapy.analysis.simulation.machine import Algorithm, Curve, DeviceRates, Level, Link, MachineDescription
from xlapy.analysis.simulation.outcome import Outcome, Stream
from xlapy.analysis.simulation.simulator import Options, simulate
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.error_codes.operations import collectives as collective_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.text import parse_hlo

RATES = DeviceRates({"default": Curve.constant(1000.0)}, 10.0, 1.0, Curve.constant(100.0))
MACHINE = MachineDescription("m", RATES, (Level("node", 0, Link(1.0, Curve.constant(40.0)), Algorithm.RING),))

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"


def _simulate(
    text: str, machine: MachineDescription = MACHINE, devices: int | None = None, **options: object
) -> Outcome:
    module = parse_hlo(text)
    return simulate(module, machine, device_counts(module, devices), Options(**options))  # type: ignore[arg-type]


def _times(outcome: Outcome) -> dict[str, tuple[float, float]]:
    return {event.instruction.name: (event.start, event.end) for event in outcome.events}


TWO_KERNELS = f"""HloModule m, num_partitions=2
{ADD}
ENTRY e {{
  x = f32[20] parameter(0)
  y = f32[20] negate(x)
  r = f32[20] all-reduce(y), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add
  ROOT z = f32[20] add(r, y)
}}"""


def test_two_kernels_and_an_all_reduce() -> None:
    """20 operations take 2 s, longer than 160 or 240 bytes of memory. The all-reduce of 80 bytes on two devices takes 2
    steps of 1 s and 40 bytes at 40 bytes per second."""
    outcome = _simulate(TWO_KERNELS)
    assert _times(outcome) == {"y": (0, 2), "r": (2, 6), "z": (6, pytest.approx(8.4))}
    assert outcome.seconds == pytest.approx(8.4)
    assert outcome.exposed_seconds == outcome.communication_seconds == pytest.approx(4)
    assert [event.instruction.name for event in outcome.path] == ["y", "r", "z"]
    assert outcome.by(lambda one: one.op.name) == [
        ("all-reduce", pytest.approx(4)), ("add", pytest.approx(2.4)), ("negate", pytest.approx(2)),
    ]  # fmt: skip


OVERLAP = f"""HloModule m, num_partitions=2, is_scheduled=true
{ADD}
ENTRY e {{
  x = f32[20] parameter(0)
  y = f32[20] negate(x)
  s = f32[20] all-reduce-start(y), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add
  u = f32[SIZE] parameter(1)
  v = f32[SIZE] negate(u)
  d = f32[20] all-reduce-done(s)
  ROOT t = (f32[20], f32[SIZE]) tuple(d, v)
}}"""


def test_a_transfer_runs_beside_a_short_kernel() -> None:
    outcome = _simulate(OVERLAP.replace("SIZE", "10"))
    assert _times(outcome) == {"y": (0, 2), "s": (2, 6), "v": (2, 3)}
    assert (outcome.seconds, outcome.exposed_seconds, outcome.communication_seconds) == (6, 3, 4)
    assert [event.instruction.name for event in outcome.path] == ["y", "s"]


def test_a_long_kernel_hides_a_transfer() -> None:
    outcome = _simulate(OVERLAP.replace("SIZE", "50"))
    assert _times(outcome) == {"y": (0, 2), "s": (2, 6), "v": (2, 7)}
    assert (outcome.seconds, outcome.exposed_seconds) == (7, 0)
    assert [event.instruction.name for event in outcome.path] == ["y", "v"]


def test_all_collectives_can_run_beside_kernels() -> None:
    """The all-gather of the argument w starts at once, although kernels precede it in the program."""
    text = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[20] parameter(0)
  w = f32[10] parameter(1)
  y = f32[20] negate(x)
  g = f32[20] all-gather(w), channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  ROOT z = f32[20] add(g, y)
}"""
    assert _simulate(text).seconds == pytest.approx(2 + 2 + 2.4)
    outcome = _simulate(text, overlaps_all=True)
    assert _times(outcome)["g"] == (0, 2)
    assert outcome.seconds == pytest.approx(2 + 2.4)


def test_two_transfers_take_turns() -> None:
    text = OVERLAP.replace("SIZE", "10").replace(
        "  d = ", "  s_2 = f32[20] all-reduce-start(y), channel_id=2, replica_groups={{0,1}}, "
        "use_global_device_ids=true, to_apply=add\n  d_2 = f32[20] all-reduce-done(s_2)\n  d = "
    )  # fmt: skip
    outcome = _simulate(text.replace("ROOT t = (f32[20], f32[10]) tuple(d, v)",
                                     "ROOT t = (f32[20], f32[10], f32[20]) tuple(d, v, d_2)"))  # fmt: skip
    assert _times(outcome)["s_2"] == (6, 10)
    # The device waits from 3 to 6 for the first, then for the second one.
    exposed = {one.name: usage.exposed for one, usage in outcome.usages.items()}
    assert exposed == {"y": 2, "s": 3, "v": 1, "s_2": 4} and outcome.seconds == 10


LOOP = f"""HloModule m, num_partitions=2, is_scheduled=true
{ADD}
condition {{
  s = (s32[], f32[20]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[20]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[20] get-tuple-element(s), index=1
  r = f32[20] all-reduce(x), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add
  ROOT t = (s32[], f32[20]) tuple(j, r)
}}
ENTRY e {{
  zero = s32[] constant(0)
  x = f32[20] parameter(0)
  s = (s32[], f32[20]) tuple(zero, x)
  ROOT w = (s32[], f32[20]) while(s), condition=condition, body=body
}}"""


def test_the_time_of_a_loop_is_that_of_an_iteration_times_its_number() -> None:
    """An iteration takes 4 s for the all-reduce, and 0.12 s and 0.1 s for 12 bytes of the counter and 1 comparison."""
    outcome = _simulate(LOOP)
    iteration = 4 + 0.12 + 0.1
    assert outcome.seconds == pytest.approx(5 * iteration)
    reduction = next(usage for one, usage in outcome.usages.items() if one.name == "r")
    assert (reduction.executions, reduction.busy) == (5, pytest.approx(20))
    assert sum(usage.critical for usage in outcome.usages.values()) == pytest.approx(outcome.seconds)
    loop = next(event for event in outcome.events if event.stream is Stream.LOOP)
    assert (loop.start, loop.end) == (0, pytest.approx(5 * iteration))


def test_a_loop_without_known_number_of_iterations_takes_an_option() -> None:
    text = LOOP.replace("n = s32[] constant(5)", "n = s32[] get-tuple-element(s), index=0")
    outcome = _simulate(text)
    assert outcome.seconds == pytest.approx(4.22, rel=0.02)
    (warning,) = outcome.warnings
    assert "of w is unknown: 1 counted" in warning
    assert _simulate(text, trip_count=3).seconds == pytest.approx(3 * outcome.seconds)


def test_a_noted_trip_count_is_used() -> None:
    text = LOOP.replace("n = s32[] constant(5)", "n = s32[] get-tuple-element(s), index=0").replace(
        "body=body", 'body=body, backend_config={"known_trip_count":{"n":"7"}}'
    )
    outcome = _simulate(text)
    assert outcome.warnings == [] and outcome.seconds == pytest.approx(7 * 4.22, rel=0.02)


def test_the_longest_branch_counts() -> None:
    outcome = _simulate("""HloModule m, is_scheduled=true
short { p = f32[20] parameter(0)  ROOT n = f32[20] negate(p) }
long { p = f32[20] parameter(0)  n = f32[20] negate(p)  ROOT m = f32[20] negate(n) }
ENTRY e {
  c = pred[] parameter(0)
  x = f32[20] parameter(1)
  ROOT r = f32[20] conditional(c, x, x), true_computation=short, false_computation=long
}""")
    assert outcome.seconds == pytest.approx(4)
    assert [event.instruction.parent.name for event in outcome.events if event.instruction.parent] == ["long", "long"]


def test_matrix_products_have_rates_by_type_and_size() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e {
  x = f32[10,10] parameter(0)
  ROOT y = f32[10,10] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    rates = replace(RATES, products={"default": Curve.constant(1.0), "f32": Curve(((1000, 50.0), (4000, 100.0)))})
    # 2000 operations at 1 / (1/50 + 1/100) * 2 per second
    assert _simulate(text, replace(MACHINE, rates=rates)).seconds == pytest.approx(2000 * (0.5 / 50 + 0.5 / 100))
    assert _simulate(text.replace("f32", "f64"), replace(MACHINE, rates=rates)).seconds == pytest.approx(2000)


def test_arrays_that_were_accessed_lately_come_from_a_cache() -> None:
    """y is read again after 160 bytes, x was read a step ago: 320 bytes in all."""
    rates = replace(RATES, elementwise=1e9, bandwidth=Curve(((350, 80.0), (500, 8.0))))
    outcome = _simulate("""HloModule m, is_scheduled=true
ENTRY e {
  x = f32[20] parameter(0)
  y = f32[20] negate(x)
  ROOT z = f32[20] negate(y)
}""", replace(MACHINE, rates=rates))  # fmt: skip
    first, second = (end - start for start, end in _times(outcome).values())
    assert second == pytest.approx(2) and first > 2 + 5  # x at the rate of 480 bytes


def test_devices_of_a_process_share_processors() -> None:
    """Four devices on two processors: kernels take twice as long. One launch takes half a second per device."""
    machine = replace(MACHINE, processors=2, launch=0.5)
    text = "HloModule m, is_scheduled=true ENTRY e { x = f32[20] parameter(0)  ROOT y = f32[20] negate(x) }"
    outcome = _simulate(text, machine, devices=4)
    assert (outcome.launch, outcome.seconds) == (2, pytest.approx(2 + 4))
    assert _simulate(text, machine).seconds == pytest.approx(0.5 + 1)  # one device on both


# -- custom calls


def test_attention_is_counted() -> None:
    """2 products of 2 * batch * heads * length * length * size operations; 5 for the gradient."""
    text = """HloModule m, is_scheduled=true
ENTRY e {
  q = f32[2,10,4,5] parameter(0)
  ROOT y = f32[2,10,4,5] custom-call(q, q, q), custom_call_target="te_fused_attn_forward_ffi"
}"""
    machine = replace(MACHINE, rates=replace(RATES, bandwidth=Curve.constant(1e9)))
    forward = _simulate(text, machine)
    assert forward.seconds == pytest.approx(2 * 2 * (2 * 4 * 10 * 10 * 5) / 1000) and not forward.warnings
    assert _simulate(text.replace("forward", "backward"), machine).seconds == pytest.approx(2.5 * forward.seconds)


def test_other_custom_calls_warn_or_take_the_time_that_is_given() -> None:
    text = """HloModule m, is_scheduled=true
ENTRY e { x = f32[20] parameter(0)  ROOT y = f32[20] custom-call(x), custom_call_target="mine" }"""
    outcome = _simulate(text)
    assert outcome.seconds == pytest.approx(1.6) and "mine" in outcome.warnings[0]
    given = _simulate(text, custom_calls={"mine": 0.25})
    assert given.seconds == pytest.approx(0.25) and not given.warnings


# -- memory


def test_the_peak_of_memory() -> None:
    """While z is computed, y (4000 bytes, 4032 with alignment) and z are live beside the argument."""
    outcome = _simulate("""HloModule m, is_scheduled=true
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] negate(x)
  z = f32[500] slice(y), slice={[0:500]}
  ROOT w = f32[500] negate(z)
}""")
    assert outcome.memory.arguments == 4000 and outcome.memory.results == 2000
    assert outcome.memory.peak == 4000 + 4032 + 2048
    assert outcome.memory.peak_at is not None and outcome.memory.peak_at.name == "z"


def test_results_in_donated_arguments_need_no_memory() -> None:
    text = "HloModule m, is_scheduled=true ENTRY e { x = f32[1024] parameter(0)  ROOT y = f32[1024] negate(x) }"
    assert _simulate(text).memory.peak == 2 * 4096
    donated = text.replace("is_scheduled=true", "is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }")
    assert _simulate(donated).memory.peak == 4096


# -- devices

GATHER = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[8] all-gather(x), channel_id=1, replica_groups=[2,4]<=[8], dimensions={0}, use_global_device_ids=true
}"""


def test_devices_are_those_that_collectives_name() -> None:
    module = parse_hlo(GATHER)
    assert device_counts(module, None) == device_counts(module, 8) == DeviceCounts(1, 8)
    with raises(InvalidArgumentError, codes.DEVICE_COUNT, "8 devices", "16"):
        device_counts(module, 16)
    declared = GATHER.replace("HloModule m", "HloModule m, replica_count=2, num_partitions=4")
    assert device_counts(parse_hlo(declared), None) == DeviceCounts(2, 4)


def test_a_program_without_groups_runs_on_any_number() -> None:
    module = parse_hlo(
        f"HloModule m {ADD} ENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] all-reduce(x), replica_groups={{}}, "
        "to_apply=add }"
    )
    assert device_counts(module, 6) == DeviceCounts(6, 1)
    assert simulate(module, MACHINE, device_counts(module, 6)).seconds > 10


def test_pairs_name_devices() -> None:
    module = parse_hlo(
        "HloModule m ENTRY e { x = f32[2] parameter(0) "
        "ROOT y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,5},{5,0}} }"
    )
    assert device_counts(module, None) == DeviceCounts(1, 6)
    assert simulate(module, MACHINE, DeviceCounts(1, 6)).seconds == pytest.approx(1 + 8 / 40)


def test_groups_of_devices_that_do_not_exist_are_refused() -> None:
    with raises(InvalidArgumentError, collective_codes.PARTICIPANTS, "y (all-gather)", "id 7", "4 devices"):
        simulate(parse_hlo(GATHER), MACHINE, DeviceCounts(1, 4))

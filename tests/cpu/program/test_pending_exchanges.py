"""Programs with asynchronous collectives: what lies between start and done, and what the buffer verifier refuses there.

Tests of the verifier take a program that it accepts, break one rule, and check the reason of the refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import VerificationError
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.communication.process_plans import plan_processes
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    CollectiveThunk,
    ConcurrentThunk,
    CopyThunk,
    OutlinedThunk,
    RendezvousPart,
    Thunk,
    WhileThunk,
    walk_thunks,
)
from xlapy.cpu.program.verification.buffer_verifier import verify_buffers

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
LARGE = "f32[150000]"
"""The type of operands that members read in place."""

GATHER = "all-gather-start({}), dimensions={{0}}, replica_groups={{}}"
REDUCED = f"""HloModule reduced, replica_count=2
{SUM}
ENTRY e {{ x = {LARGE} parameter(0) y = {LARGE} parameter(1) q = {LARGE} multiply(x, x)
 s = {LARGE} all-reduce-start(q), replica_groups={{}}, to_apply=sum
 w = {LARGE} exponential(y) d = {LARGE} all-reduce-done(s)
 ROOT r = ({LARGE}, {LARGE}) tuple(d, w) }}"""


@pytest.fixture(autouse=True)
def verifying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))


def compiled(text: str, replicas: int = 2, **options: Any) -> NativeProgram:
    module = xla.parse_hlo(text, verify=True)
    return compile_module(module, replica_count=replicas, spans_processes=True, **options).program


def sequence_with(thunks: list[Thunk], number: int) -> list[Thunk]:
    """The sequence that contains the rendezvous of a number."""
    for thunk in (OutlinedThunk(thunks), *walk_thunks(thunks)):
        for nested in thunk.nested:
            if any(isinstance(inner, CollectiveThunk) and inner.number == number for inner in nested):
                return nested
    raise AssertionError(f"no thunk has number {number}")


def steps(program: NativeProgram) -> list[str]:
    """The first word of each thunk's title, and the name of its instruction."""
    leaves = [thunk for thunk in walk_thunks(program.thunks) if not thunk.nested]
    return [f"{thunk.title.split()[0]} {thunk.op_name}" for thunk in leaves]


def meetings(program: NativeProgram) -> list[str]:
    """The same for thunks in which devices meet."""
    return [step for step in steps(program) if step.split()[0] in ("start", "await", "rendezvous")]


# --- what lies between start and done


def test_kernels_that_can_run_in_between_do() -> None:
    """`w` is neither fused into `q`, although both could be one kernel, nor run after the done."""
    found = steps(compiled(REDUCED.replace("exponential(y)", "exponential(x)")))
    assert found[:4] == ["kernel q", "start s", "kernel w", "await d"]


def test_a_kernel_for_a_user_of_the_done_runs_in_between() -> None:
    text = REDUCED.replace(f"ROOT r = ({LARGE}, {LARGE}) tuple(d, w)", f"ROOT r = {LARGE} add(d, w)")
    assert steps(compiled(text))[:4] == ["kernel q", "start s", "kernel w", "await d"]


def test_a_later_reader_does_not_overwrite_an_operand() -> None:
    """`w` is the last kernel that reads `q`, but other devices read it until the done."""
    text = REDUCED.replace(f"ROOT r = ({LARGE}, {LARGE}) tuple(d, w)", f"ROOT r = {LARGE} subtract(d, w)")
    program = compiled(text.replace("exponential(y)", "exponential(q)"))
    kernel = next(thunk for thunk in walk_thunks(program.thunks) if thunk.op_name == "w")
    assert kernel.reads[0] is not kernel.writes[0]


SEVERAL = f"""HloModule several, replica_count=2
ENTRY e {{ x = {LARGE} parameter(0) a = {LARGE} sine(x) b = {LARGE} cosine(x)
 s = ({LARGE}, f32[300000]) {GATHER.format("a")} t = ({LARGE}, f32[300000]) {GATHER.format("b")}
 d = f32[300000] all-gather-done(s) e = f32[300000] all-gather-done(t)
 u = ({LARGE}, f32[300000]) {GATHER.format("f")} g = f32[300000] all-gather-done(u)
 ROOT r = (f32[300000], f32[300000], f32[300000]) tuple(d, e, g) }}"""
SEVERAL = SEVERAL.replace(" u = ", f" h = f32[300000] add(d, e) f = {LARGE} slice(h), slice={{[0:150000]}}\n u = ")


def test_several_are_pending_and_their_memory_is_used_again() -> None:
    """The first two are pending at once, the third after them: it receives where the first one did."""
    program = compiled(SEVERAL)
    both, third = ["start s", "start t", "await d", "rendezvous d", "await e", "rendezvous e"], ["start u", "await g"]
    assert meetings(program) == [*both, *third, "rendezvous g"]
    plans = plan_processes(program, ProcessTopology(0, (0, 1)))
    transfers = [transfer for group in plans.groups for transfer in group.transfers if transfer.is_receive]
    assert [transfer.block.offset for transfer in transfers] == [0, 600_000, 0]
    assert plans.received_size == 2 * 600_000
    # the done of each waits for the exchange of its start
    by_thunk = plans.by_device()
    for thunk in program.host_calling_thunks:
        if isinstance(thunk, CollectiveThunk) and thunk.part is RendezvousPart.DONE:
            assert by_thunk[thunk.number, 0] is by_thunk[thunk.start, 0]


LOOP = f"""HloModule looped, replica_count=2
{SUM}
less {{ s = (s32[], {LARGE}) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = (s32[], {LARGE}) parameter(0) i = s32[] get-tuple-element(s), index=0
 x = {LARGE} get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
 t = {LARGE} all-reduce-start(x), replica_groups={{}}, to_apply=sum
 w = {LARGE} sine(x) d = {LARGE} all-reduce-done(t) y = {LARGE} subtract(d, w)
 ROOT r = (s32[], {LARGE}) tuple(j, y) }}
ENTRY e {{ x = {LARGE} parameter(0) z = s32[] constant(0) s = (s32[], {LARGE}) tuple(z, x)
 w = (s32[], {LARGE}) while(s), condition=less, body=step ROOT r = {LARGE} get-tuple-element(w), index=1 }}"""


def test_an_operand_with_later_readers_is_not_overwritten_in_a_loop() -> None:
    """The state is the operand of the start, is read in between, and is overwritten after the done."""
    rows = [[np.linspace(0, device + 1, 150_000, dtype=np.float32)] for device in range(2)]
    found = [
        [np.asarray(row) for row in xla.Client(name, devices=2).compile(LOOP).execute_sharded(rows)]
        for name in ("cpu", "interpreter")
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


SHARED = f"""HloModule shared_channel, replica_count=2
{SUM}
one {{ x = {LARGE} parameter(0) s = {LARGE} all-reduce-start(x), replica_groups={{}}, channel_id=1, to_apply=sum
 ROOT d = {LARGE} all-reduce-done(s) }}
two {{ x = {LARGE} parameter(0) s = {LARGE} all-reduce-start(x), replica_groups={{}}, channel_id=1, to_apply=sum
 d = {LARGE} all-reduce-done(s) ROOT n = {LARGE} negate(d) }}
ENTRY e {{ p = pred[] parameter(0) x = {LARGE} parameter(1)
 ROOT r = {LARGE} conditional(p, x, x), true_computation=one, false_computation=two }}"""


def test_starts_in_branches_that_share_a_channel_meet() -> None:
    """One device takes the first branch, the other one the second: their starts are whole rendezvous."""
    assert meetings(compiled(SHARED)) == ["rendezvous s"] * 3 + ["rendezvous s.1"] * 3
    rows = [[np.bool_(device == 0), np.full(150_000, 10.0**device, np.float32)] for device in range(2)]
    results = xla.Client("cpu", devices=2).compile(SHARED).execute_sharded(rows)
    assert [np.asarray(result)[[0, -1]].tolist() for result in results] == [[11, 11], [-11, -11]]


def test_starts_of_one_computation_that_share_a_channel_stay_pending() -> None:
    text = SEVERAL.replace("replica_groups={}", "replica_groups={}, channel_id=1")
    assert meetings(compiled(text))[:2] == ["start s", "start t"]


# --- what the verifier refuses


def refused(program: NativeProgram, *reasons: str) -> None:
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT, *reasons):
        verify_buffers(program)


def write_operand(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    start = thunks[started]
    assert isinstance(start, CollectiveThunk)
    source = BufferSlice(start.operands[0].shape, StorageClass.ARGUMENT, 1)
    thunks.insert(started + 1, CopyThunk(source, start.operands[0]))


def write_operand_in_a_task(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    write_operand(program, thunks, started)
    thunks[started + 1] = ConcurrentThunk([OutlinedThunk([thunks[started + 1]])], [()])


def reuse_operand(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    """A temporary of another kernel lies where the operand does."""
    start, kernel = thunks[started], thunks[started + 1]
    assert isinstance(start, CollectiveThunk)
    operand = start.operands[0]
    other = BufferSlice(operand.shape, operand.storage, operand.number, operand.offset, name="other")
    kernel.replace({kernel.writes[0]: other})


def write_result(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    done = next(thunk for thunk in thunks[started:] if thunk.begins is None and thunk.completes is not None)
    source = BufferSlice(program.results[0].shape, StorageClass.ARGUMENT, 1)
    thunks.insert(thunks.index(done), CopyThunk(source, program.results[0]))


def read_received(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    """The kernel of the done runs before the done."""
    done = next(n for n, thunk in enumerate(thunks) if n > started and thunk.completes is not None)
    thunks[done], thunks[done + 1] = thunks[done + 1], thunks[done]


def omit_done(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    done = next(n for n, thunk in enumerate(thunks) if n > started and thunk.completes is not None)
    del thunks[done:]


def omit_start(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    del thunks[started]


def start_again(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    thunks.insert(started, thunks[started])


def meet_in_a_task(program: NativeProgram, thunks: list[Thunk], started: int) -> None:
    thunks[started] = ConcurrentThunk([OutlinedThunk([thunks[started]])], [()])


Change = Callable[[NativeProgram, list[Thunk], int], None]

CHANGES: dict[Change, str] = {
    write_operand: "while other devices may read that since [start rendezvous",
    write_operand_in_a_task: "while other devices may read that since [start rendezvous",
    reuse_operand: "while other devices may read that since [start rendezvous",
    read_received: "before the rendezvous that receives it is complete",
    omit_done: "begins a rendezvous that nothing completes",
    omit_start: "ends a rendezvous that has not begun",
    start_again: "is pending at the same place",
    meet_in_a_task: "meets other devices in a task that runs at the same time as others",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_breaks_a_pending_exchange_is_refused(change: Change) -> None:
    program = compiled(REDUCED)
    verify_buffers(program)
    thunks = sequence_with(program.thunks, 0)
    started = next(n for n, thunk in enumerate(thunks) if thunk.completes is None and thunk.begins is not None)
    change(program, thunks, started)
    refused(program, CHANGES[change])


def test_a_result_that_others_write_to_is_reserved_from_the_start() -> None:
    """More than two members write their blocks of an all-reduce to each other's results."""
    program = compiled(REDUCED.replace("replica_count=2", "replica_count=4"), replicas=4)
    thunks = sequence_with(program.thunks, 0)
    write_result(program, thunks, next(n for n, thunk in enumerate(thunks) if thunk.begins is not None))
    refused(program, "which overlaps result0", "since [start rendezvous")


def test_a_start_whose_done_follows_the_loop_is_refused() -> None:
    program = compiled(LOOP)
    loop = next(thunk for thunk in walk_thunks(program.thunks) if isinstance(thunk, WhileThunk))
    body = sequence_with(loop.body, 0)
    del body[next(n for n, thunk in enumerate(body) if thunk.begins is None and thunk.completes is not None) :]
    refused(program, "begins a rendezvous that nothing completes")

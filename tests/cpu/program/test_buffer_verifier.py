"""The flag `verify_buffers`: each way of giving memory away too early is found before the program can run.

Every test breaks one rule of the assignment of buffers, and compiles a program that depends on the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

import xlapy as xla
from tests.cpu.program.test_buffer_assignment import UPDATE
from tests.cpu.test_loop_conditions import IN_CONDITION, effect, long_condition, with_effects
from tests.cpu.test_loops import PROGRAMS, ROTATE, SWAP_AND_ADD, counting, three
from tests.interpreter.runners.custom import registered
from tests.raising import raises
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.base import flags
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import VerificationError
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.program import buffer_assignment, control_flow_thunks, outlining
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.builder import LoweringContext
from xlapy.cpu.program.communication import direct_collectives
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, Thunk, WhileThunk, walk_thunks
from xlapy.cpu.program.verification import buffer_verifier
from xlapy.cpu.program.verification.buffer_verifier import verify_buffers

Break = Callable[[pytest.MonkeyPatch], None]

TRANSPOSES = """HloModule transposes
ENTRY main { x = f32[64,64] parameter(0)  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] transpose(a), dimensions={1,0}  ROOT c = f32[64,64] add(a, b) }"""

PRODUCT = "f32[40,40] dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
MANY_PRODUCTS = f"""HloModule many_products
ENTRY main {{ x = f32[40,40] parameter(0)  a = {PRODUCT.format("x", "x")}  b = {PRODUCT.format("a", "x")}
  c = {PRODUCT.format("b", "a")}  d = {PRODUCT.format("c", "b")}  e = {PRODUCT.format("d", "a")}
  f = {PRODUCT.format("e", "x")}  ROOT g = {PRODUCT.format("f", "c")} }}"""

SQUARES = f"""HloModule squares
ENTRY main {{ x = f32[40,40] parameter(0)  a = {PRODUCT.format("x", "x")}  ROOT b = {PRODUCT.format("a", "x")} }}"""

INVARIANT = counting(
    "(s32[], f32[40,40], f32[40,40])",
    f"""v = f32[40,40] get-tuple-element(s), index=1  w = f32[40,40] get-tuple-element(s), index=2
  a = {PRODUCT.format("w", "v")}  b = {PRODUCT.format("a", "a")}  c = {PRODUCT.format("b", "a")}
  d = {PRODUCT.format("c", "b")}  ROOT r = (s32[], f32[40,40], f32[40,40]) tuple(j, d, w)""",
    f"""x = f32[40,40] parameter(0)  y = {PRODUCT.format("x", "x")}  zero = s32[] constant(0)
  t = (s32[], f32[40,40], f32[40,40]) tuple(zero, x, y)
  u = (s32[], f32[40,40], f32[40,40]) while(t), condition=below, body=next
  ROOT z = f32[40,40] get-tuple-element(u), index=1""",
)

USED_TWICE = """HloModule used_twice
ENTRY main { x = f32[900] parameter(0)  u = f32[1] parameter(1)  i = s32[] constant(2)
  a = f32[900] sort(x), dimensions={0}, to_apply=less  b = f32[900] dynamic-update-slice(a, u, i)
  c = f32[900] sort(b), dimensions={0}, to_apply=less  ROOT r = (f32[900], f32[900]) tuple(c, b) }
"""

LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }\nENTRY"


@pytest.fixture(autouse=True)
def verifying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))


def compiled(text: str, donated: tuple[int, ...] = ()) -> Compiled:
    with registered(effect, name="effect"):
        return compile_module(xla.parse_hlo(text, verify=True), donated)


def read_predicates_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop's predicate is used at the start of the loop, and not after its condition."""

    def visit(self: Any, loop: WhileThunk) -> None:
        outer, self._around = self._around, (*self._around, loop)
        self._use_all(loop.accesses)
        self.sequence(loop.condition)
        self.sequence(loop.body)
        self._around = outer
        self._position += 1
        self.decisions[loop] = self._position
        for slice_ in self._live_through.pop(loop, []):
            self.last[slice_] = self._position

    monkeypatch.setattr(LiveRanges, "loop", visit)


def end_lives_within_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written before a loop is not kept for the next iteration."""

    def use(self: Any, slice_: BufferSlice) -> None:
        self.first.setdefault(slice_, self._position)
        self._loops.setdefault(slice_, self._around)
        self.last[slice_] = self._position

    monkeypatch.setattr(LiveRanges, "_use", use)


def overwrite_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AliasAnalysis, "is_last_use", lambda *_: True)

    def try_reuse(self: LoweringContext, value: Any, user: Any) -> BufferSlice | None:
        return self.slices[value] if self.slices[value] in self.reusable else None

    monkeypatch.setattr(LoweringContext, "try_reuse", try_reuse)


def copy_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies of a loop's next state overwrite what later ones read."""

    def append(thunks: list[Thunk], copies: Sequence[tuple[BufferSlice, BufferSlice]]) -> None:
        thunks += [CopyThunk(source, target) for source, target in copies]

    monkeypatch.setattr(control_flow_thunks, "_append_copies_in_order", append)


def overwrite_what_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels write to memory of any operand, in whatever order they read it."""
    monkeypatch.setattr(KernelThunk, "may_compute_in", lambda *_: True)
    monkeypatch.setattr(LoweringContext, "try_reuse", lambda *_: None)


def store_no_stack_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    add = outlining._add_stack_slot

    def without_stores(function: Any, slice_: BufferSlice, ranges: LiveRanges, *, is_written: bool) -> None:
        add(function, slice_, ranges, is_written=is_written)
        function.loaded += function.stored
        function.stored.clear()

    monkeypatch.setattr(outlining, "_add_stack_slot", without_stores)


def load_no_stack_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    add = outlining._add_stack_slot

    def without_loads(function: Any, slice_: BufferSlice, ranges: LiveRanges, *, is_written: bool) -> None:
        add(function, slice_, ranges, is_written=is_written)
        function.stored += function.loaded
        function.loaded.clear()

    monkeypatch.setattr(outlining, "_add_stack_slot", without_loads)


def keep_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporaries lie in the memory of results even after those are computed."""
    monkeypatch.setattr(buffer_assignment._FreeList, "is_free_until", lambda *_: True)


def share_results_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporaries lie in the memory of a result although the loop before has written it already."""
    monkeypatch.setattr(LiveRanges, "begins_outside_loops", lambda *_: True)
    first = buffer_assignment._reusable_results

    def late(program: Any, ranges: LiveRanges) -> Any:
        return [replace(result, until=result.until + (1 << 20)) for result in first(program, ranges)]

    monkeypatch.setattr(buffer_assignment, "_reusable_results", late)


CASES: dict[str, tuple[Break, str]] = {
    "a long condition": (read_predicates_early, long_condition(7, 14)),
    "effects after the root": (read_predicates_early, with_effects(IN_CONDITION, 9, 2)),
    "a matrix that each iteration reads": (end_lives_within_loops, INVARIANT),
    "an update of what is a result": (overwrite_what_is_needed, USED_TWICE.replace("ENTRY", LESS)),
    "calls that share arrays": (overwrite_what_is_needed, PROGRAMS["calls that share arrays"]),
    "a rotation of arrays": (copy_one_after_the_other, three(ROTATE, "f32[12]")),
    "a swap of scalars": (copy_one_after_the_other, three(SWAP_AND_ADD, "f32[]")),
    "a matrix product in place": (overwrite_what_is_read_again, SQUARES),
    "a transpose in place": (overwrite_what_is_read_again, TRANSPOSES),
    "a predicate that is not stored": (store_no_stack_slots, long_condition(7, 14)),
    "a state that is not loaded": (load_no_stack_slots, PROGRAMS["leaves early"]),
    "memory of a result": (keep_no_results, MANY_PRODUCTS),
    "memory of the state of a loop": (share_results_of_loops, INVARIANT),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_rule_is_found(case: str, monkeypatch: pytest.MonkeyPatch):
    break_rule, text = CASES[case]
    compiled(text)
    break_rule(monkeypatch)
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT):
        compiled(text)


def test_the_error_names_the_reader_and_what_it_finds(monkeypatch: pytest.MonkeyPatch):
    read_predicates_early(monkeypatch)
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT, "[while temporary+0:pred[] (w)]", "r.fusion (value"):
        compiled(long_condition(6, 24))


def test_arguments_are_overwritten_only_if_they_are_donated():
    program = compiled(UPDATE, donated=(0,)).program
    assert program.values is not None
    verify_buffers(program)
    program.values.donated = frozenset()
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT, "argument0"):
        verify_buffers(program)


LARGE = "f32[600,600]"
REDUCES_TO_ROOT = f"""HloModule reduces_to_root, replica_count=2
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{ x = {LARGE} parameter(0)  y = {LARGE} parameter(1)  a = {LARGE} sine(x)  b = {LARGE} cosine(y)
  r = ({LARGE}, {LARGE}) collective-reduce(a, b), replica_groups={{}}, to_apply=add
  c = {LARGE} get-tuple-element(r), index=0  d = {LARGE} get-tuple-element(r), index=1
  ROOT t = ({LARGE}, {LARGE}) tuple(d, c) }}"""


def test_what_a_device_reads_of_its_own_arrays_stays(monkeypatch: pytest.MonkeyPatch):
    """A received slice may be the device's own array."""
    module = xla.parse_hlo(REDUCES_TO_ROOT, verify=True)
    compile_module(module, replica_count=2)

    def use_only_the_slices(self: Any, slices: Sequence[BufferSlice]) -> None:
        for slice_ in slices:
            self._use(slice_)

    monkeypatch.setattr(LiveRanges, "_use_all", use_only_the_slices)
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT, "[copy", "result0", "temporary@result1"):
        compile_module(module, replica_count=2)


def test_what_other_devices_read_stays_until_they_meet_again(monkeypatch: pytest.MonkeyPatch):
    """Without the rendezvous after a reduction, its operands could be overwritten while other devices read them."""
    text = REDUCES_TO_ROOT.replace("collective-reduce(a, b), replica_groups={}", "all-reduce(a, b), replica_groups={}")
    module = xla.parse_hlo(text, verify=True)
    compile_module(module, replica_count=2)
    monkeypatch.setattr(direct_collectives, "append_rendezvous", lambda collective, exchange: exchange.received)
    with raises(VerificationError, codes.BUFFER_ASSIGNMENT):
        compile_module(module, replica_count=2)


def nested_loops(depth: int) -> str:
    """Returns loops of three iterations, each of which is the body of another."""
    state = "(s32[], f32[40])"
    bodies = ["w = f32[40] sine(v)"]
    bodies += [
        f"z = s32[] constant(0)  t = {state} tuple(z, v)  l = {state} while(t), condition=below, body=body{n}\n"
        "  w = f32[40] get-tuple-element(l), index=1"
        for n in range(depth - 1)
    ]
    lines = [
        f"body{n} {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)\n"
        f"  v = f32[40] get-tuple-element(s), index=1  j = s32[] add(i, one)  {body}  ROOT r = {state} tuple(j, w) }}"
        for n, body in enumerate(bodies)
    ]
    return f"""HloModule nested_loops
below {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }}
{chr(10).join(lines)}
ENTRY main {{ x = f32[40] parameter(0)  z = s32[] constant(0)  t = {state} tuple(z, x)
  ROOT w = {state} while(t), condition=below, body=body{depth - 1} }}"""


def test_nested_loops_are_followed_once(monkeypatch: pytest.MonkeyPatch):
    """The time does not grow with a power of the depth."""
    visits: list[Thunk] = []
    visit = buffer_verifier._Verifier.leaf

    def counted(self: Any, thunk: Thunk) -> None:
        visits.append(thunk)
        visit(self, thunk)

    monkeypatch.setattr(buffer_verifier._Verifier, "leaf", counted)
    compiled(nested_loops(12))
    assert len(visits) == len(set(visits)) > 24


def test_memory_may_be_shared_exactly_if_live_ranges_do_not_overlap():
    """In a program without branches: moves each temporary to the offset of each other one."""
    program = compiled(MANY_PRODUCTS).program
    ranges = LiveRanges(program.thunks)
    arena = [s for s in ranges.first if s.storage is StorageClass.TEMPORARY and s.number < 0]
    assert len(arena) >= 3
    for one, other in combinations(arena, 2):
        before = one.offset
        one.offset = other.offset
        if any(s is not one and s.offset == one.offset and _overlap(ranges, one, s) for s in arena):
            with raises(VerificationError, codes.BUFFER_ASSIGNMENT):
                verify_buffers(program)
        else:
            verify_buffers(program)
        one.offset = before
    verify_buffers(program)


def _overlap(ranges: LiveRanges, one: BufferSlice, other: BufferSlice) -> bool:
    return ranges.first[one] <= ranges.last[other] and ranges.first[other] <= ranges.last[one]


UNCHANGED = {
    "sort": "ROOT r = f32[4,1] sort(y), dimensions={1}, to_apply=lt",
    "dynamic-update-slice": "u = f32[4,0] parameter(1)\n i = s32[] constant(0)\n"
    "ROOT r = f32[4,1] dynamic-update-slice(y, u, i, i)",
    "scatter": "i = s32[0,1] parameter(1)\n u = f32[0,1] parameter(2)\n ROOT r = f32[4,1] scatter(y, i, u), "
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
    "to_apply=add",
}


@pytest.mark.parametrize("body", UNCHANGED.values(), ids=UNCHANGED)
def test_a_result_that_no_kernel_changes_is_the_operand(body: str):
    """The simplifications replace such instructions by their operands, but later passes may write some."""
    text = f"""
    lt {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=LT }}
    add {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }}
    ENTRY e {{ x = f32[4,1] parameter(0)\n y = f32[4,1] add(x, x)\n {body} }}"""
    program = compile_module(xla.parse_hlo(text), optimized=True).program
    assert [thunk.label for thunk in walk_thunks(program.thunks) if thunk.own_kernel is not None] == ["y"]

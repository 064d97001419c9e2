"""The pipeline: order, groups of passes, checks of reported changes, statistics, scheduled modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tests.passes.runner import program
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import PassError, VerificationError
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.passes import Fixpoint, PassEvent, Pipeline, parse_passes
from xlapy.text import parse_hlo

TEXT = program("x = f32[2] parameter(0)", "dead = f32[2] negate(x)", "ROOT r = f32[2] abs(x)")


@dataclass(frozen=True)
class Rename:
    """A pass that renames the root `count` times and then changes nothing."""

    name: ClassVar[str] = "rename"
    count: int = 1
    says: bool | None = None
    done: list[int] = field(default_factory=list)

    def run(self, module: Module) -> bool:
        if len(self.done) == self.count:
            return False if self.says is None else self.says
        self.done.append(1)
        root = module.entry_computation.root_instruction
        root.name = f"r{len(self.done)}"
        return True if self.says is None else self.says


class Break:
    name: ClassVar[str] = "break"

    def run(self, module: Module) -> bool:
        edit.set_shape(module.entry_computation.root_instruction, module.entry_computation.parameters[0].shape.token())
        return True


def checked(*passes) -> Pipeline:
    return Pipeline(passes, verify_each=True, check_changes=True)


def test_passes_run_in_order_and_are_counted():
    events: list[PassEvent] = []
    pipeline = Pipeline(parse_passes("verify,dce,dce"), on_pass=events.append)
    assert pipeline.run(parse_hlo(TEXT))
    assert [(e.number, e.pass_.name, e.changed) for e in events] == [
        (0, "verify-module", False),
        (1, "remove-dead-code", True),
        (2, "remove-dead-code", False),
    ]
    found = pipeline.statistics["remove-dead-code"]
    assert (found.runs, found.changes) == (2, 1)
    assert found.seconds >= 0
    assert not pipeline.run(events[0].module)


def test_a_group_runs_until_nothing_changes():
    rename = Rename(count=3)
    pipeline = checked(Fixpoint(passes=(*parse_passes("verify"), rename)))
    assert pipeline.run(parse_hlo(TEXT))
    assert len(rename.done) == 3
    assert pipeline.statistics["verify-module"].runs == 4


def test_runs_report_the_iteration_of_their_group():
    started: list[tuple[int, str, int]] = []
    ended: list[tuple[int, int]] = []
    group = Fixpoint(passes=(Rename(count=1), Fixpoint(passes=tuple(parse_passes("cse")))))
    pipeline = Pipeline(
        [*parse_passes("dce"), group],
        on_start=lambda number, pass_, round_: started.append((number, pass_.name, round_)),
        on_pass=lambda event: ended.append((event.number, event.iteration)),
    )
    pipeline.run(parse_hlo(TEXT))
    cse = "merge-common-subexpressions"
    assert started == [(0, "remove-dead-code", 0), (1, "rename", 1), (2, cse, 1), (3, "rename", 2)]
    assert ended == [(number, round_) for number, _, round_ in started]


def test_a_group_that_never_converges_is_stopped():
    module = parse_hlo(TEXT)
    group = Fixpoint(limit=5, passes=(Rename(count=100),))
    assert group.run(module)
    assert module.entry_computation.root_instruction.name == "r5"
    with raises(PassError, codes.PASSES_END, "rename", "5 iterations"):
        checked(group).run(module)


def test_an_untold_change_is_found():
    values = "rename", "line 6", "was 'ROOT %r = f32[2]{0} abs", "is 'ROOT %r1 = f32[2]{0} abs(%x)'"
    with raises(PassError, codes.REPORTED_CHANGE, *values):
        checked(Rename(says=False)).run(parse_hlo(TEXT))


def test_a_change_that_was_none_is_found():
    with raises(PassError, codes.REPORTED_CHANGE, "rename", "same as before"):
        checked(Rename(count=0, says=True)).run(parse_hlo(TEXT))


def test_a_broken_module_names_the_pass():
    rule = f"rule {shared.RESULT_SHAPE}"
    with raises(PassError, codes.VALID_RESULT, "pass break", rule, "r (abs)", "declared token"):
        checked(Break()).run(parse_hlo(TEXT))


def test_an_invalid_module_is_not_blamed_on_a_pass():
    module = parse_hlo(TEXT)
    Break().run(module)
    with raises(VerificationError, shared.RESULT_SHAPE, "r (abs)"):
        checked().run(module)
    assert not Pipeline([]).run(module)


def test_a_scheduled_module_stays_in_order():
    text = program(
        "x = f32[2] parameter(0)",
        "y = f32[2] parameter(1)",
        "late = f32[2] negate(y)",
        "l = f32[2] logistic(x)",
        "ROOT r = f32[2] add(l, late)",
    ).replace("HloModule m", "HloModule m, is_scheduled=true")
    module = parse_hlo(text)
    assert checked(*parse_passes("expand{ops=logistic}")).run(module)
    order = [i.op for i in module.entry_computation]
    assert order[:3] == [opcodes.PARAMETER, opcodes.PARAMETER, opcodes.NEGATE]
    assert order[-2:] == [opcodes.DIVIDE, opcodes.ADD]

"""Hostile input runs in other processes: each kind of fault is found, named, saved, reduced and run again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from xlapy.base.error_codes.interfaces.commands import SERIALIZED_BYTES
from xlapy.base.errors import BytecodeError, InvalidArgumentError
from xlapy.debugging.hostile import examiner, formats
from xlapy.debugging.hostile.campaign import Campaign, HostileReport, batches
from xlapy.debugging.hostile.examiner import Outcome, Verdict, examine
from xlapy.debugging.hostile.formats import HostileFormat, find_format, format_names, input_of
from xlapy.debugging.hostile.mutations import BYTE_MUTATIONS, MAX_BYTES, TEXT_MUTATIONS, bracketed, mutated, nest
from xlapy.debugging.hostile.reduction import shortest
from xlapy.tools.command_line import invoke


def outcome_of(consume: Callable[[bytes], object]) -> Outcome:
    return examine(HostileFormat("test", lambda: [b"x"], lambda rng, corpus: b"x", consume), b"x")


def raise_error(error: BaseException) -> None:
    raise error


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class TestVerdicts:
    def test_input_that_is_read_or_rejected_is_no_fault(self) -> None:
        assert outcome_of(lambda data: None).verdict is Verdict.ACCEPTED
        rejected = outcome_of(lambda data: raise_error(BytecodeError(SERIALIZED_BYTES, "byte 3: no")))
        assert rejected.verdict is Verdict.REJECTED
        assert rejected.message == f"BytecodeError: byte 3: no [{SERIALIZED_BYTES}]"
        assert not rejected.verdict.is_fault

    @pytest.mark.parametrize(
        "error", [KeyError("a"), IndexError(), TypeError(), MemoryError(), AssertionError(), SystemExit(1)]
    )
    def test_any_other_error_is_a_fault_that_is_known_by_its_class(self, error: BaseException) -> None:
        outcome = outcome_of(lambda data: raise_error(error))
        assert outcome.verdict is Verdict.RAW_ERROR
        assert outcome.cause.startswith(type(error).__name__)

    def test_an_endless_recursion_is_one_fault_wherever_it_ends(self) -> None:
        def recurse(depth: int) -> int:
            return recurse(depth + 1)

        assert outcome_of(lambda data: recurse(0)).cause == "RecursionError recursion"

    def test_slow_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(examiner, "SECONDS", 0.05)
        outcome = outcome_of(lambda data: spin(0.06))
        assert outcome.verdict is Verdict.SLOW
        assert outcome.seconds > 0.05

    def test_what_is_slow_once_is_not_slow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(examiner, "SECONDS", 0.05)
        durations = iter([0.06, 0.0])
        assert outcome_of(lambda data: spin(next(durations))).verdict is Verdict.ACCEPTED

    def test_a_hang_is_given_up_even_if_the_reader_takes_every_exception(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(examiner, "HANG_SECONDS", 0.05)

        def swallow(data: bytes) -> None:
            try:
                spin(5)
            except Exception:
                spin(5)

        assert outcome_of(swallow).verdict is Verdict.HANG

    def test_large_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(examiner, "MEMORY", 16 << 20)
        outcome = outcome_of(lambda data: len(b"x" * (64 << 20)))
        assert outcome.verdict is Verdict.LARGE
        assert 60 << 20 < outcome.memory < 80 << 20


class TestCampaign:
    def test_a_death_is_counted_for_its_seed_and_the_rest_of_the_batch_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "dying_format.py").write_text(DYING)
        (tmp_path / "sitecustomize.py").write_text("import dying_format\n")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        faults = []
        campaign = Campaign(1, lambda report, fault: faults.append(fault) if fault else None)
        report = campaign.run(iter([("dying", 0, 5)]))
        assert report.count("dying", Verdict.ACCEPTED) == 3
        assert [(fault.seed, fault.outcome.verdict) for fault in faults] == [(1, Verdict.DIED), (3, Verdict.DIED)]
        assert "died by SIGABRT" in faults[0].outcome.message

    def test_equal_causes_are_one_distinct_fault(self) -> None:
        report = HostileReport()
        for seed, cause in enumerate(("KeyError a", "KeyError b", "KeyError a")):
            report.add("f", seed, Outcome(Verdict.RAW_ERROR, cause=cause))
        assert [fault.seed for fault in report.distinct_faults()] == [0, 1]
        assert (report.inputs, len(report.faults)) == (3, 3)

    def test_ranges_are_split_into_batches(self) -> None:
        assert [*batches("f", 10, 450)] == [("f", 10, 200), ("f", 210, 200), ("f", 410, 50)]


DYING = """
import os, sys
from importlib.abc import MetaPathFinder

def consume(data):
    if data in (b"1", b"3"):
        os.abort()

class AddFormat(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "xlapy.debugging.hostile.examiner":
            from xlapy.debugging.hostile import formats
            made = formats.HostileFormat("dying", lambda: [b"x"], None, consume)
            formats.find_format = lambda name: made
            formats.input_of = lambda name, seed: str(seed).encode()
        return None

sys.meta_path.insert(0, AddFormat())
"""


class TestInputs:
    def test_equal_seeds_give_equal_inputs(self) -> None:
        for name in format_names():
            inputs = [input_of(name, seed) for seed in range(20)]
            assert inputs == [input_of(name, seed) for seed in range(20)]
            assert len(set(inputs)) > 15

    def test_an_unknown_format_is_rejected(self) -> None:
        with pytest.raises(InvalidArgumentError, match="no format 'x'; there are stablehlo-text"):
            find_format("x")

    @pytest.mark.parametrize("mutation", [*dict.fromkeys([*BYTE_MUTATIONS, *TEXT_MUTATIONS])])
    def test_mutations_stand_any_input(self, mutation: Callable[..., bytes]) -> None:
        rng = random.Random(1)
        corpus = [b"", b"a", b"f(x<1, 2>) -> [3]", bytes(range(256))]
        for data in corpus:
            for _ in range(20):
                assert isinstance(mutation(data, rng, corpus), bytes)

    def test_mutated_inputs_are_bounded(self) -> None:
        rng, corpus = random.Random(1), [b"f(tuple<1, tuple<2, 3>>)\n" * 20]
        assert max(len(mutated(corpus[0], rng, corpus, TEXT_MUTATIONS)) for _ in range(200)) <= MAX_BYTES

    def test_brackets(self) -> None:
        assert bracketed(b"(a[b] -> {c})") == [(2, 5), (9, 12), (0, 13)]

    def test_nesting(self) -> None:
        rng = random.Random(1)
        nested = {nest(b"t<t<a>, b>", rng, []) for _ in range(200)}
        assert b"t<t<t<t<a>, b>, b>, b>" in nested


class TestReduction:
    def test_only_what_is_needed_remains(self) -> None:
        data = b"".join(b"line %d\n" % i for i in range(200))
        assert shortest(data, lambda one: b"17" in one and b"5" in one, 30.0) in (b"175", b"517", b"1517", b"157")

    def test_the_time_is_limited(self) -> None:
        assert shortest(b"abc" * 100, lambda one: True, 0.0) == b"abc" * 100


def test_the_command_saves_a_fault_and_runs_it_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "dying_format.py").write_text(DYING)
    (tmp_path / "modules" / "sitecustomize.py").write_text("import dying_format\n")
    path = os.pathsep.join([str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr("xlapy.tools.fuzz.hostile.input_of", lambda name, seed: str(seed).encode())
    name = formats.format_names()[0]
    assert invoke(["fuzz", "--hostile", name, "--seeds", "0-2", "--output", str(tmp_path / "out")]) == 1
    assert f"3 inputs of {name}: 2 accepted, 1 died" in capsys.readouterr().out
    folder = tmp_path / "out" / f"{name}-seed1-died"
    assert (folder / "input").read_bytes() == (folder / "reduced").read_bytes() == b"1"
    assert "died by SIGABRT" in (folder / "README.md").read_text()
    assert invoke(["fuzz", "--hostile", name, "--replay", str(folder)]) == 1
    (folder / "input").write_bytes(b"2")
    (folder / "reduced").write_bytes(b"2")
    assert invoke(["fuzz", "--hostile", name, "--replay", str(folder)]) == 0

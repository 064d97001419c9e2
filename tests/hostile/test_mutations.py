"""Mutated programs run or are rejected with an error of xlapy; no other exception is raised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from xlapy.base.errors import VerificationError
from xlapy.debugging.fuzzing.mutations import Mutator, both_forms, sample_texts, texts_in, undeclared
from xlapy.debugging.fuzzing.survival import outcome
from xlapy.text import parse_hlo

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    samples, programs = sample_texts(), texts_in(PROGRAMS)
    assert len(samples) > 500
    assert len(programs) > 20
    return both_forms(samples + programs)


@pytest.mark.parametrize("seed", range(5))
def test_only_errors_of_xlapy_are_raised(corpus: list[str], seed: int):
    mutator = Mutator(corpus, seed)
    counts: Counter[str] = Counter()
    for _ in range(120):
        text = mutator.next()
        try:
            counts[outcome(text)] += 1
        except BaseException as error:
            error.add_note(text)
            raise
    assert counts["refused"] > 50
    assert counts["ran"] > 3


def test_mutations_reach_the_verifier(corpus: list[str]):
    mutator = Mutator(corpus, seed=99)
    broken = 0
    for _ in range(200):
        try:
            parse_hlo(mutator.next())
        except VerificationError:
            broken += 1
        except Exception:
            continue
    assert broken > 5


def test_texts_without_declared_shapes_give_the_same_modules(corpus: list[str]):
    text = "HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\n" + (
        "ENTRY e {\n  a = f32[2]{0} parameter(0)\n  ROOT b = f32[2]{0} negate(a)\n}\n"
    )
    short = undeclared(text)
    assert "ROOT b = negate(a)" in short
    assert parse_hlo(short).to_text() == parse_hlo(text).to_text()

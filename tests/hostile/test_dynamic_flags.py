"""Programs whose dimensions become dynamic, static, larger or smaller at random run or raise an error of xlapy."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from xlapy.debugging.fuzzing.survival import outcome
from xlapy.testing.random_modules.dynamic import random_dynamic_module
from xlapy.testing.samples import all_samples

_ARRAY = re.compile(r"\b([a-z]+\d*)\[([^\]]+)\]")


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    samples = [sample.text for sample in all_samples() if "<=" in sample.text]
    assert len(samples) > 20
    return samples + [random_dynamic_module(seed).to_text(print_large_constants=True) for seed in range(len(samples))]


def changed(text: str, rng: random.Random) -> str:
    """Returns the text with one dimension of one array shape changed, at one occurrence or at all."""
    match = rng.choice(list(_ARRAY.finditer(text)))
    sizes = match[2].split(",")
    place = rng.randrange(len(sizes))
    size, mark = sizes[place].removeprefix("<="), "<=" if sizes[place].startswith("<=") else ""
    if rng.random() < 0.7:
        mark = "" if mark else "<="
    elif size.isdigit():
        size = str(max(0, int(size) + rng.choice((-1, 1))))
    sizes[place] = mark + size
    shape = f"{match[1]}[{','.join(sizes)}]"
    if rng.random() < 0.3:
        return text.replace(match[0], shape)
    return text[: match.start()] + shape + text[match.end() :]


@pytest.mark.parametrize("seed", range(2))
def test_only_errors_of_xlapy_are_raised(corpus: list[str], seed: int):
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    for _ in range(200):
        text = rng.choice(corpus)
        for _ in range(rng.randint(1, 3)):
            text = changed(text, rng)
        try:
            counts[outcome(text)] += 1
        except BaseException as error:
            error.add_note(text)
            raise
    assert counts["refused"] > 50
    assert counts["ran"] > 50

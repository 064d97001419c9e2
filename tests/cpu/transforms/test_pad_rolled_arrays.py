"""Rolls of an array: which are slices of an array with borders, and that results are the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.pad_rolled_arrays import PadRolledArrays
from xlapy.hlo.verify import verify

CPU = xla.Client("cpu")


def program(shape: tuple[int, ...], shifts: list[tuple[int, ...]], kind: str = "f32") -> str:
    """The rolls of an array, each by several shifts, one for each dimension, toward lower indices."""
    array = f"{kind}[{','.join(map(str, shape))}]"
    lines, results = [], []
    for number, shift in enumerate(shifts):
        name = "x"
        for dimension, (size, by) in enumerate(zip(shape, shift, strict=True)):
            if not by % size:
                continue
            parts = []
            for label, begin, end in (("a", by % size, size), ("b", 0, by % size)):
                ranges = [f"[{begin}:{end}]" if d == dimension else f"[0:{s}]" for d, s in enumerate(shape)]
                sizes = [end - begin if d == dimension else s for d, s in enumerate(shape)]
                parts.append(f"{label}{number}.{dimension}")
                lines.append(
                    f"{parts[-1]} = {kind}[{','.join(map(str, sizes))}] slice({name}), slice={{{','.join(ranges)}}}"
                )
            name = f"r{number}.{dimension}"
            lines.append(f"{name} = {array} concatenate({', '.join(parts)}), dimensions={{{dimension}}}")
        results.append(name)
    return f"""HloModule m
ENTRY e {{ x = {array} parameter(0) {" ".join(lines)}
  ROOT t = ({", ".join([array] * len(shifts))}) tuple({", ".join(results)}) }}"""


CASES = {
    "two rolls": ((64,), [(1,), (-1,)]),
    "far apart": ((64,), [(9,), (-17,)]),
    "neighbors in two dimensions": ((9, 13), [s for s in itertools.product((-1, 0, 1), repeat=2) if any(s)]),
    "three dimensions": ((15, 16, 17), [(1, 0, 0), (0, -1, 0), (0, 0, 2), (1, 1, -1)]),
    "one direction": ((8, 8), [(1, 0), (2, 0)]),
    "equal rolls": ((40,), [(1,), (1,), (-1,)]),
}


@pytest.mark.parametrize("kind", ["f32", "s8", "f64", "pred", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_rolls_are_slices(case: str, kind: str) -> None:
    shape, shifts = CASES[case]
    text = program(shape, shifts, kind)
    given = np.random.default_rng(0).integers(0, 2 if kind == "pred" else 100, shape)
    given = given.astype(xla.Shape.parse(f"{kind}[]").dtype)
    module = xla.parse_hlo(text)
    assert PadRolledArrays().run(module)
    verify(module)
    for found in (xla.Client("interpreter").compile(module)(given), CPU.compile(text)(given)):
        for result, shift in zip(found, shifts, strict=True):
            wanted = np.roll(given, [-s for s in shift], range(len(shape)))
            np.testing.assert_array_equal(np.asarray(result), wanted)
    assert not PadRolledArrays().run(module)


@pytest.mark.parametrize(
    ("shape", "shifts"),
    [
        ((64,), [(1,)]),  # one roll is one copy
        ((64,), [(1,), (1,)]),
        ((64,), [(20,), (-20,)]),  # borders as large as the array
        ((4, 4), [(1, 1), (-1, -1)]),
    ],
)
def test_others_stay(shape: tuple[int, ...], shifts: list[tuple[int, ...]]) -> None:
    assert not PadRolledArrays().run(xla.parse_hlo(program(shape, shifts)))


def test_concatenations_of_other_slices_stay() -> None:
    text = program((64,), [(1,), (-1,)]).replace("[1:64]", "[0:63]")
    assert not PadRolledArrays().run(xla.parse_hlo(text))


def test_arrays_without_elements_stay() -> None:
    roll = "concatenate(slice{0}, slice{0}), dimensions={{0}}"
    parts = "slice0 = f32[0] slice(x), slice={[0:0]} slice1 = f32[0] slice(x), slice={[0:0]}"
    text = f"""HloModule m
ENTRY e {{ x = f32[0] parameter(0) {parts} a = f32[0] {roll.format(0)} b = f32[0] {roll.format(1)}
  ROOT t = (f32[0], f32[0]) tuple(a, b) }}"""
    assert not PadRolledArrays().run(xla.parse_hlo(text))

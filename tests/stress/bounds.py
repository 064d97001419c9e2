"""Programs whose kernels check every access to memory: nothing is out of bounds, and results have the same bits.

The first units are the programs of `tests/programs`, in an order by the seed; the others are the random modules of
`modules`. Each is compiled with the flag `check_bounds`, and run in a process that may die.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import xlapy as xla
from tests.programs import inputs
from tests.programs.test_programs import FOLDER, NAMES
from tests.stress import modules
from tests.stress.harness import Amount, Run, Stress
from xlapy.base import flags
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError

SECONDS = 120.0
UNITS_PER_PROCESS = 200

_UNCHECKED = flags.current()
_CHECKED = _UNCHECKED.replace(check_bounds=True)


# -- in the child process


def examine(unit: str | int) -> list[str]:
    """Returns the differences of a program of the corpus by its name, or of a random module by its seed."""
    if isinstance(unit, str):
        return corpus_program(unit)
    _set(_CHECKED)
    return modules.examine(unit)


def corpus_program(name: str) -> list[str]:
    """Compares the results with and without checks."""
    text = (FOLDER / f"{name}.hlo").read_text()
    shapes = xla.parse_hlo(text).entry_computation.program_shape.parameters
    arguments = inputs.arguments(name, [(shape.dimensions, shape.dtype) for shape in shapes])
    checked, unchecked = (_results(text, arguments, values) for values in (_CHECKED, _UNCHECKED))
    return [
        f"result {number} has other bits than without checks"
        for number, (left, right) in enumerate(zip(checked, unchecked, strict=True))
        if left.tobytes() != right.tobytes()
    ]


def _results(text: str, arguments: Sequence[Any], values: flags.Flags) -> list[np.ndarray[Any, Any]]:
    _set(values)
    return modules.leaves(xla.Client("cpu").compile(text)(*arguments))


def _set(values: flags.Flags) -> None:
    flags.current = lambda: values  # type: ignore[assignment]


# -- the process that hands out programs


def units(seed: int, most: int | None) -> Iterator[str | int]:
    """Yields programs of the corpus, at most half of `most` units, and then random modules."""
    programs = random.Random(seed).sample(NAMES, len(NAMES))
    yield from programs if most is None else programs[: most // 2]
    yield from range(seed * 1_000_000, (seed + 1) * 1_000_000)


def run(run: Run) -> None:
    with Worker(f"{__name__}:examine", seconds=SECONDS) as worker:
        for unit in units(run.seed, run.amount.count):
            if not run.goes_on:
                break
            if run.done % UNITS_PER_PROCESS == UNITS_PER_PROCESS - 1:
                worker.close()
            _one(run, worker, unit)


def _one(run: Run, worker: Worker, unit: str | int) -> None:
    try:
        faults = worker.call(unit)
    except (WorkerError, WorkerDied) as error:
        faults = [str(error)]
    for fault in faults:
        run.fault(f"{unit}: {fault[:2000]}")
    run.count("programs" if isinstance(unit, str) else "random modules")
    run.advance()


STRESS = Stress("programs whose kernels check each access to memory", Amount(16), Amount(3000), run)

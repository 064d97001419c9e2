"""Native functions with one place broken: the explorations of the suite must notice every break.

A unit is a mutant: a copy of the package in which one atomic access has a weaker ordering, or one call is missing. The
tests of schedules that explore its function run, the quickest first, until one fails. Also:

    python -m tests.stress mutations [--seed N] [--count N | --all] [--files PATH ...]

A mutant that survives is a fault unless `EQUIVALENT` says why nobody can notice it. `reorderings` does the same with
statements in another order and changed conditions.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.stress.equivalent_mutants import EQUIVALENT, UNEXPLORED
from tests.stress.harness import ROOT, Amount, Run, Stress
from tests.stress.mutants import ACCESSES, Mutant, mutants

_SECONDS = 150.0
"""The time for the tests of a mutant. What exceeds it is counted apart: no broken rule was found."""

_TIMED_OUT = -1
"""The code of tests that exceed their time; pytest has no such code."""

_SHORT_FILE = "xlapy/cpu/llvm/instrumentation/bounds.py"


# --- tests


def source_files() -> list[str]:
    """The files with native functions that tests of schedules import."""
    known = {path for test in _test_files() for path in _imported(test) if ROOT / "xlapy" in path.parents}
    names = sorted(str(path.relative_to(ROOT)) for path in known)
    return [name for name in names if any(one.is_native for one in mutants(name))]


@cache
def _test_files() -> tuple[Path, ...]:
    """The files with tests of schedules."""
    return (*sorted(ROOT.glob("tests/**/test_*_schedules.py")), ROOT / "tests/native/test_locks.py")


@cache
def _imported(path: Path) -> frozenset[Path]:
    """The files of the package and its tests that a file imports, also through others."""
    found, pending = set[Path](), [path]
    while pending:
        for file in _directly_imported(pending.pop()) - found:
            found.add(file)
            pending.append(file)
    return frozenset(found)


@cache
def _directly_imported(path: Path) -> frozenset[Path]:
    files = set[Path]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("xlapy", "tests")):
            folder = ROOT / node.module.replace(".", "/")
            files |= {folder.with_suffix(".py"), *(folder / f"{one.name}.py" for one in node.names)}
    return frozenset(file for file in files if file.is_file())


@dataclass(frozen=True, slots=True)
class _Tests:
    """The tests that may notice mutants. seconds: of each. functions: what each explores."""

    seconds: Mapping[str, float]
    functions: Mapping[str, frozenset[str]]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that explore the function of a mutant, the quickest first."""
        chosen = [
            test
            for test, known in self.functions.items()
            if mutant.function in known or (known and not mutant.is_native)
        ]
        return sorted(chosen, key=lambda test: self.seconds[test])


def _run_tests(package: Path, tests: Sequence[str], *options: str, **environment: str) -> tuple[int, str]:
    """Runs tests with the copy of the package in a folder; returns pytest's exit code, or `_TIMED_OUT`, and output."""
    # Without the settings of the suite, which import the package from the tree.
    settings = ["-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *settings, "--rootdir", str(ROOT)]
    paths = os.pathsep.join(map(str, (package, ROOT)))
    try:
        made = subprocess.run(
            [*command, *options, *(str(ROOT / test) for test in tests)],
            cwd=package,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "", **environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS * (1 if tests else 4),
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT, ""
    return made.returncode, made.stdout + made.stderr


def _explored_by(package: Path, files: Sequence[str]) -> _Tests:
    """Runs the tests that import one of the files, and notes what they explore. They must pass."""
    wanted = {ROOT / file for file in files}
    tests = [str(test.relative_to(ROOT)) for test in _test_files() if wanted & _imported(test)]
    notes = package / "explored.json"
    code, output = _run_tests(package, tests, "-p", "tests.stress.explored", EXPLORED=str(notes))
    if code:
        raise ValueError(f"the tests fail without a mutation:\n{output[-4000:]}")
    read = json.loads(notes.read_text())
    return _Tests(
        {test: seconds for test, (seconds, _) in read.items()},
        {test: frozenset(functions) for test, (_, functions) in read.items()},
    )


# --- the stress test


def perform(run: Run, kinds: Sequence[str], survivors_are_faults: bool) -> None:
    """Judges mutants of some kinds."""
    files = [str(Path(file).resolve().relative_to(ROOT)) for file in run.files] or source_files()
    if run.short:
        files = [_SHORT_FILE]
    chosen = [one for file in files for one in mutants(file, kinds)]
    random.Random(run.seed).shuffle(chosen)
    run.figures |= {"mutants": len(chosen), "found": 0, "timed out": 0, "equivalent": 0, "not explored": 0}
    run.figures["survived"] = 0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        shutil.copytree(ROOT / "xlapy", package / "xlapy", ignore=shutil.ignore_patterns("__pycache__"))
        tests = _explored_by(package, files)
        for mutant in chosen:
            if not run.goes_on:
                break
            _judge(run, package, tests, mutant, survivors_are_faults)
            run.advance()


def _judge(run: Run, package: Path, tests: _Tests, mutant: Mutant, survivors_are_faults: bool) -> None:
    """Runs the tests of a mutant, and says what became of it."""
    say_survivor = run.fault if survivors_are_faults else run.say
    if mutant.name in EQUIVALENT or mutant.file in UNEXPLORED:
        kind = "equivalent" if mutant.name in EQUIVALENT else "not explored"
        run.count(kind)
        run.say(f"{kind}: {mutant.name}: {EQUIVALENT.get(mutant.name) or UNEXPLORED[mutant.file]}")
        return
    named = tests.of(mutant)
    if not named:
        run.count("survived")
        say_survivor(f"no test explores the function of line {mutant.line}: {mutant.name}")
        return
    mutated = package / mutant.file
    mutated.write_text(mutant.text)
    # Python takes a file of the same size and second for the one that it compiled before.
    os.utime(mutated, (run.done + 1, run.done + 1))
    try:
        code, output = _run_tests(package, named)
    finally:
        shutil.copy2(ROOT / mutant.file, mutated)
    if code == _TIMED_OUT:
        run.count("timed out")
        run.say(f"timed out: {mutant.name}: its tests take more than {_SECONDS:g} seconds")
    elif code:
        why = next((line[1:].strip() for line in output.splitlines() if line.startswith("E  ")), output[-200:])
        run.count("found")
        run.say(f"found: {mutant.name}: {why.partition('ScheduleError: ')[2] or why}")
    else:
        run.count("survived")
        say_survivor(f"survives {len(named)} tests, line {mutant.line}: {mutant.name}")


def _run(run: Run) -> None:
    perform(run, ACCESSES, survivors_are_faults=True)


STRESS = Stress(
    "native functions with one place broken: a test of schedules notices each",
    Amount(count=1),
    Amount(count=40),
    _run,
)

"""`xlapy fuzz`: runs random modules on the interpreter and another implementation, or mutated texts on the interpreter.

Responsible for the command, its worker processes and its output. Does not depend on how modules are generated, compared
or reduced.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.debugging.fuzzing.campaign import Fault, Report, Settings
from xlapy.debugging.fuzzing.differential import Verdict
from xlapy.debugging.fuzzing.implementations import XLA, find_implementation
from xlapy.debugging.fuzzing.mutations import Mutator, both_forms, sample_texts, texts_in
from xlapy.debugging.fuzzing.survival import Survival, try_texts
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError
from xlapy.debugging.hostile.formats import format_names
from xlapy.testing.random_modules.module import FAMILIES
from xlapy.tools.fuzz.folder import read_finding, write_finding
from xlapy.tools.fuzz.hostile import replay_hostile, run_hostile

T = TypeVar("T")

_CAMPAIGN = "xlapy.debugging.fuzzing.campaign"
_SURVIVAL = "xlapy.debugging.fuzzing.survival:outcomes"
_SECONDS = 60.0
_BATCH = 20
"""Mutated texts per call of a worker."""
_MOST_REDUCED = 10
"""Faults that are reduced; further faults are only reported."""


class _Seeds(click.ParamType[range]):
    name = "A-B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, dash, last = str(value).partition("-")
        if not (first.isdigit() and dash and last.isdigit() and int(first) <= int(last)):
            self.fail(f"{value!r} is not a range of seeds such as 0-99", param, ctx)
        return range(int(first), int(last) + 1)


class _Names(click.ParamType[tuple[object, ...]]):
    """An option that is a comma-separated list of names."""

    name = "NAME,..."

    def __init__(self, make: Callable[[str], object]) -> None:
        self.make = make

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[object, ...]:
        try:
            return tuple(self.make(name.strip()) for name in str(value).split(","))
        except InvalidArgumentError as error:
            self.fail(error.message, param, ctx)


def _family(name: str) -> str:
    if name not in FAMILIES:
        raise InvalidArgumentError(codes.CHOICE, f"no family {name!r}; there are {', '.join(FAMILIES)}")
    return name


def _type(name: str) -> PrimitiveType:
    found = PrimitiveType.from_text(name)
    if not found.is_array:
        raise InvalidArgumentError(codes.CHOICE, f"{name} is not a type of array elements")
    return found


@click.command()
@click.option("--seeds", type=_Seeds(), help="Seeds of the modules (or batches of mutations).")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of one module, or the first seed with --time.")
@click.option("--time", "seconds", type=click.FloatRange(min=0), help="Seconds to run.", metavar="SECONDS")
@click.option("--against", default=XLA, show_default=True, help="What to compare with: xla, or a platform of xlapy.")
@click.option(
    "--size", default=20, show_default=True, type=click.IntRange(min=1), help="Random instructions per module."
)
@click.option("--families", type=_Names(_family), help=f"Families of instructions: {', '.join(FAMILIES)}.")
@click.option("--types", type=_Names(_type), help="Element types, such as f32,s8.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 256), help="Number of processes.")
@click.option(
    "--output",
    default="xlapy-fuzz",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder for differences.",
)
@click.option(
    "--mutate",
    is_flag=True,
    help="Run mutated texts on the interpreter or the given platform, instead of random modules.",
)
@click.option(
    "--corpus",
    multiple=True,
    type=click.Path(exists=True),
    help="More texts to mutate besides the samples: .hlo, .cc, or a folder.",
)
@click.option(
    "--hostile",
    type=click.Choice(format_names()),
    metavar="FORMAT",
    help=f"Read damaged inputs of a format instead: {', '.join(format_names())}.",
)
@click.option("--replay", type=click.Path(exists=True, file_okay=False), help="Run what is in a folder again.")
def fuzz(
    seeds: range | None,
    seed: int | None,
    seconds: float | None,
    against: str,
    size: int,
    families: tuple[str, ...] | None,
    types: tuple[PrimitiveType, ...] | None,
    jobs: int,
    output: str,
    mutate: bool,
    corpus: tuple[str, ...],
    hostile: str | None,
    replay: str | None,
) -> int:
    """Compare the interpreter with XLA (or another platform) on random modules.

    With --hostile, reads damaged inputs of a format, each of which must be read, or rejected with an error of xlapy,
    within a second and 200 MB.

    Every difference is reduced to a minimal module and saved in a folder with a script that reproduces it. Without
    --seeds, --seed or --time, runs for a minute from a new seed. Exit code 1 if a difference is found.
    """
    if seeds is not None and (seed is not None or seconds is not None):
        raise click.UsageError("give --seeds, or --seed and --time")
    if hostile is not None:
        if replay is not None:
            return replay_hostile(hostile, Path(replay))
        if seed is not None and seconds is None:
            seeds = range(seed, seed + 1)
        first = int(time.time()) if seed is None else seed
        return run_hostile(hostile, seeds, first, _SECONDS if seconds is None else seconds, jobs, Path(output))
    if replay is not None:
        return _replay(Path(replay), against)
    numbers = _numbers(seeds, seed, seconds)
    if mutate:
        texts = [*sample_texts(), *(text for place in corpus for text in texts_in(Path(place)))]
        return _mutate(numbers, both_forms(texts), jobs, Path(output), "interpreter" if against == XLA else against)
    find_implementation(against)
    settings = Settings(against, size)
    if families:
        settings = Settings(against, size, families, settings.types)
    if types:
        settings = Settings(against, size, settings.families, types)
    return _campaign(numbers, settings, jobs, Path(output))


def _numbers(seeds: range | None, seed: int | None, seconds: float | None) -> Iterator[int]:
    """Yields the requested seeds, or all seeds from the first until the time is over."""
    if seeds is not None:
        yield from seeds
        return
    if seed is not None and seconds is None:
        yield seed
        return
    end = time.monotonic() + (_SECONDS if seconds is None else seconds)
    for number in itertools.count(int(time.time()) if seed is None else seed):
        if time.monotonic() >= end:
            return
        yield number


# -- worker processes


class _Pool:
    """Worker processes for one function; each is used by one thread at a time."""

    def __init__(self, function: str, jobs: int) -> None:
        self.workers = [Worker(function) for _ in range(jobs)]
        self.free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self.workers:
            self.free.put(worker)

    def map(self, call: Callable[[int, Worker], T], numbers: Iterator[int]) -> Iterator[T]:
        """Yields results in the order of completion; a seed is taken when a worker is free."""
        with ThreadPoolExecutor(len(self.workers)) as threads:
            running: set[Future[T]] = set()
            for number in numbers:
                running.add(threads.submit(self._call, call, number))
                if len(running) >= len(self.workers):
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in running)

    def _call(self, call: Callable[[int, Worker], T], number: int) -> T:
        worker = self.free.get()
        try:
            return call(number, worker)
        finally:
            self.free.put(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


# -- random modules


def _campaign(numbers: Iterator[int], settings: Settings, jobs: int, output: Path) -> int:
    console = Console()
    total = Report()
    pool = _Pool(f"{_CAMPAIGN}:examine", jobs)
    try:
        with _progress(console) as progress:
            task = progress.add_task("starting", total=None)
            for report in pool.map(lambda number, worker: _examined(number, worker, settings), numbers):
                total.add(report)
                for fault in report.faults:
                    progress.console.print(f"seed {fault.seed}: {fault.message}", markup=False, highlight=False)
                progress.update(task, description=f"{total.modules} modules, {len(total.faults)} faults")
    except KeyboardInterrupt:
        console.print("interrupted")
    finally:
        pool.close()
    _show(total, settings, console)
    _reduce(total.faults, settings, output, console)
    return 1 if total.faults else 0


def _examined(seed: int, worker: Worker, settings: Settings) -> Report:
    """Returns a report, also if the process that examined the module died."""
    try:
        report: Report = worker.call(seed, settings)
    except (WorkerDied, WorkerError) as error:
        report = Report(modules=1, faults=[Fault(seed, Verdict.FAILED, "", f"the interpreter's process {error}")])
        report.verdicts["", Verdict.FAILED] += 1
    return report


def _reduce(faults: Sequence[Fault], settings: Settings, output: Path, console: Console) -> None:
    """Writes one folder per kind of fault: a verdict and an op."""
    kinds: dict[tuple[Verdict, str], Fault] = {}
    for fault in faults:
        kinds.setdefault((fault.verdict, fault.op), fault)
    with Worker(f"{_CAMPAIGN}:reduce_fault", seconds=600.0) as worker:
        for fault in list(kinds.values())[:_MOST_REDUCED]:
            with console.status(f"reducing seed {fault.seed}: {fault.verdict.value} {fault.op}"):
                try:
                    finding = worker.call(fault, settings)
                except (WorkerDied, WorkerError) as error:
                    console.print(f"seed {fault.seed} could not be reduced: {error}", markup=False, highlight=False)
                    continue
            folder = write_finding(output, finding, settings)
            console.print(f"seed {fault.seed}: reduced to {folder}", markup=False, highlight=False, soft_wrap=True)


def _show(total: Report, settings: Settings, console: Console) -> None:
    columns = [
        verdict for verdict in Verdict if verdict in (Verdict.AGREES, Verdict.KNOWN_DIVERGENCE) or total.count(verdict)
    ]
    table = Table("operation", *(verdict.value for verdict in columns), box=None)
    for op in sorted({op for op, _ in total.verdicts}):
        table.add_row(op or "(module)", *(str(total.verdicts[op, verdict] or "") for verdict in columns))
    console.print(table)
    if total.known_divergences:
        reasons = Table("excused because", "times", box=None)
        for reason, count in total.known_divergences.most_common():
            reasons.add_row(reason, str(count))
        console.print(reasons)
    counts = ", ".join(f"{total.count(verdict)} {verdict.value}" for verdict in columns)
    console.print(f"{total.modules} modules against {settings.against}: {counts}", highlight=False)


def _replay(folder: Path, against: str) -> int:
    text, arguments = read_finding(folder)
    with Worker(f"{_CAMPAIGN}:replay") as worker:
        answers = worker.call(text, arguments, against)
    for _, message in answers:
        click.echo(message)
    return 0 if all(verdict in (Verdict.AGREES, Verdict.KNOWN_DIVERGENCE) for verdict, _ in answers) else 1


# -- mutated texts


def _mutate(numbers: Iterator[int], corpus: Sequence[str], jobs: int, output: Path, platform: str) -> int:
    console = Console()
    total = Survival()

    def tried(number: int, worker: Worker) -> Survival:
        mutator = Mutator(corpus, number)
        return try_texts([mutator.next() for _ in range(_BATCH)], worker, platform)

    pool = _Pool(_SURVIVAL, jobs)
    try:
        with _progress(console) as progress:
            task = progress.add_task("starting", total=None)
            for survival in pool.map(tried, numbers):
                total.counts += survival.counts
                total.faults += survival.faults
                progress.update(task, description=f"{total.tried} texts, {len(total.faults)} faults")
    except KeyboardInterrupt:
        console.print("interrupted")
    finally:
        pool.close()
    for number, (text, trouble) in enumerate(total.faults):
        output.mkdir(parents=True, exist_ok=True)
        path = output / f"mutation{number}.hlo"
        path.write_text(text, errors="surrogateescape")
        console.print(f"{path}: {trouble}", markup=False, highlight=False)
    ends = ", ".join(f"{count} {end}" for end, count in total.counts.most_common())
    console.print(
        f"{total.tried} mutated texts of {len(corpus)}: {ends or 'none'}, {len(total.faults)} faults", highlight=False
    )
    return 1 if total.faults else 0

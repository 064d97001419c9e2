"""`xlapy bench`: times programs on cpu and on XLA:CPU, alternating in one process.

Responsible for the command, the measurement and the output. Does not depend on how programs are compiled or run.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from xlapy.base import flags
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.runtime import Client, Executable, block_until_ready
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import check_writable, parse_program, read_arguments, read_bytes, write_file

SAMPLE_SECONDS = 5e-3
"""Minimum seconds per sample; shorter programs run several times per sample."""

_XLA = "xlapy.testing.xla_cpu"
"""The module that runs XLA:CPU. It is loaded in child processes only, because XLA may end its process."""

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """Median times of one program in seconds; XLA's are None without XLA. `bytes`: the bytes that the program accesses.
    live_bytes: the bytes of its temporaries and results.

    xla_refusal: the reason why XLA does not run the program, if XLA was requested.
    """

    file: str
    compile_seconds: float
    run_seconds: float
    xla_compile_seconds: float | None
    xla_run_seconds: float | None
    bytes: float
    live_bytes: int
    xla_live_bytes: int | None
    xla_refusal: str | None


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE", help="Arguments: .npy (one) or .npz; random by default."
)
@click.option(
    "--random", "seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of random arguments."
)
@click.option(
    "--runs", default=5, show_default=True, type=click.IntRange(min=1), help="Number of runs; the median counts."
)
@click.option(
    "--against",
    type=click.Choice(["xla", "nothing"]),
    help="What to compare with; by default XLA:CPU if jaxlib is installed.",
)
@click.option("--json", "output", type=click.Path(dir_okay=False), help="Write the figures, in seconds, to this file.")
@elided_constants_option
def bench(
    files: tuple[str, ...],
    inputs: tuple[str, ...],
    seed: int,
    runs: int,
    against: str | None,
    output: str | None,
    elided_constants: str,
) -> None:
    """Time FILES (programs; - for standard input) on cpu and on XLA:CPU.

    Both use all processors. Arguments are on the device before timing starts; the cache of compiled programs is not
    used. A ratio above 1 means that xlapy is faster. Run nothing else meanwhile.
    """
    if flags.get("cache_dir"):
        raise InvalidArgumentError(
            codes.COMPILED_FOR_TIMING, "programs would come from the cache: unset the flag cache_dir"
        )
    if output is not None:
        check_writable(output)
    with_xla = _has_xla(against)
    measured = []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("")
        for file in files:
            progress.update(task, description=file)
            measured.append(measure_apart(file, inputs, seed, runs, with_xla, elided_constants))
    Console().print(_table(measured, with_xla))
    if output is not None:
        text = json.dumps([asdict(found) for found in measured], indent=2) + "\n"
        write_file(output, lambda sink: sink.write(text.encode()))


def _has_xla(against: str | None) -> bool:
    """Whether to compare with XLA:CPU. Raises `UnsupportedError` if it is requested but not installed."""
    if against == "nothing":
        return False
    if importlib.util.find_spec("jaxlib") is not None:
        return True
    if against is None:
        return False
    raise UnsupportedError(codes.OPTIONAL_PACKAGE, "XLA:CPU needs jax and jaxlib: pip install 'xlapy[xla]'")


def measure_apart(
    file: str, inputs: Sequence[str], seed: int, runs: int, with_xla: bool, elided_constants: str
) -> Measured:
    """Measures a program in a child process, because XLA ends its process on some; then measures again without XLA.

    seed: of random arguments, if there are no inputs. Raises `UnsupportedError` for a program on several devices, and
    `InvalidArgumentError` for one that does not fit in memory.
    """
    job = partial(_measure, file, read_bytes(file), inputs, seed, runs, elided_constants)
    try:
        found = _apart(partial(job, with_xla))
    except BrokenProcessPool:
        if not with_xla:
            raise
        found = replace(_apart(partial(job, False)), xla_refusal="it ended its process")
    if found.xla_refusal is not None:
        click.echo(f"{file}: XLA:CPU does not run it: {found.xla_refusal}", err=True)
    return found


def _apart(job: Callable[[], Measured]) -> Measured:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(job).result()


def _measure(
    file: str, data: bytes, inputs: Sequence[str], seed: int, runs: int, elided_constants: str, with_xla: bool
) -> Measured:
    module = parse_program(file, data)
    provide_elided_constants(module, elided_constants)
    count = module.config.replica_count * module.config.num_partitions
    if count > 1:
        raise UnsupportedError(codes.SINGLE_DEVICE, f"{file} runs on {count} devices; programs on one device are timed")
    program = module.entry_computation.program_shape
    _check_memory(file, [*program.parameters, *program.parameters, program.result])
    client = Client("cpu")
    compile_times, executable = _compiled(lambda: client.compile(module), runs)
    live = executable.memory_analysis()
    _check_memory(file, [*program.parameters, *program.parameters], live.temp_size_in_bytes + live.output_size_in_bytes)
    arguments = read_arguments(inputs, program) if inputs else random_arguments(program.parameters, seed)
    donates = bool(executable.donated)
    contestants = {"xlapy": Contestant(lambda: bound_call(client, executable, arguments), donates)}
    xla_times: list[float] = []
    xla_live = refusal = None
    if with_xla:
        xla = importlib.import_module(_XLA)
        try:
            xla_times, compiled = _compiled(lambda: _compile_with(xla, module), runs)
            xla_live = compiled.live_bytes()
            contestants["XLA"] = Contestant(lambda: compiled.bind_arguments(arguments), donates)
        except xla.XlaCpuError as error:
            refusal = str(error).splitlines()[0]
    times = _alternate(contestants, runs)
    return Measured(
        file,
        statistics.median(compile_times),
        times["xlapy"],
        statistics.median(xla_times) if xla_times else None,
        times.get("XLA"),
        executable.cost_analysis()["bytes accessed"],
        live.temp_size_in_bytes + live.output_size_in_bytes,
        xla_live,
        refusal,
    )


def _check_memory(file: str, shapes: Sequence[Shape], further: int = 0) -> None:
    """Raises `InvalidArgumentError` if arrays of these shapes (the arguments, and copies on the device) and so many
    further bytes do not fit in memory."""
    needed = sum(shape.byte_size for shape in shapes) + further
    available = available_bytes()
    if needed > available:
        raise InvalidArgumentError(
            running_codes.OUT_OF_MEMORY,
            f"{file} takes at least {format_bytes(needed)} of memory with arguments and copies, "
            f"{format_bytes(available)} are available",
        )


def _compile_with(xla: Any, module: Module) -> Any:
    """Compiles the program with XLA, without cache and with XLA's default precision."""
    return xla.compile_hlo.__wrapped__(module.to_text(), xla_allow_excess_precision=True)


def _compiled(make: Callable[[], Any], runs: int) -> tuple[list[float], Any]:
    """Returns the seconds of up to three compilations, and the result of the last."""
    times, made = [], None
    for _ in range(min(runs, 3)):
        start = time.perf_counter()
        made = make()
        times.append(time.perf_counter() - start)
    return times, made


def _on_device(client: Client, argument: Any) -> Any:
    if isinstance(argument, tuple):
        return tuple([_on_device(client, part) for part in argument])
    return client.device_put(argument) if isinstance(argument, np.ndarray) else argument


def bound_call(client: Client, executable: Executable, arguments: Sequence[Any]) -> Call:
    """Copies the arguments to the device. Returns a function that runs the program and waits for its results."""
    buffers = [_on_device(client, argument) for argument in arguments]
    return lambda: block_until_ready(executable(*buffers))


class Contestant:
    """A compiled program that is timed. bind: copies the arguments to the device, and returns a call on them. donates:
    whether a call uses them up; then every call gets new copies, made before its time starts.
    """

    def __init__(self, bind: Callable[[], Call], donates: bool) -> None:
        self._bind = bind
        self._bound = None if donates else bind()

    def seconds(self, count: int) -> float:
        """The mean time of some calls, one after the other."""
        return statistics.fmean(self._seconds_of_call() for _ in range(count))

    def _seconds_of_call(self) -> float:
        call = self._bound or self._bind()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def _alternate(contestants: dict[str, Contestant], runs: int) -> dict[str, float]:
    """Returns the median time of each contestant; they alternate in every run."""
    counts = {}
    for name, contestant in contestants.items():
        contestant.seconds(1)
        counts[name] = max(1, round(SAMPLE_SECONDS / max(contestant.seconds(1), 1e-7)))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, contestant in contestants.items():
            found[name].append(contestant.seconds(counts[name]))
    return {name: statistics.median(values) for name, values in found.items()}


def _table(measured: Sequence[Measured], with_xla: bool) -> Table:
    table = Table(box=None)
    table.add_column("program")
    for title in ("compile", "run", "GB/s") + (("XLA compile", "XLA run", "XLA / xlapy") if with_xla else ()):
        table.add_column(title, justify="right")
    for found in measured:
        row = [found.file, _time(found.compile_seconds), _time(found.run_seconds), _rate(found)]
        if found.xla_run_seconds is not None and found.xla_compile_seconds is not None:
            ratio = found.xla_run_seconds / found.run_seconds
            row += [_time(found.xla_compile_seconds), _time(found.xla_run_seconds), f"{ratio:.2f}"]
        elif with_xla:
            row += ["-", "-", "-"]
        table.add_row(*row)
    return table


def _rate(found: Measured) -> str:
    return f"{found.bytes / found.run_seconds / 1e9:.3g}"


def _time(seconds: float) -> str:
    """Formats a time with three digits in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

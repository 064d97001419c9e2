"""`xlapy run`: runs a program in any format, or a compiled one.

Responsible for the command's options and output. Does not depend on how programs run.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click
import numpy as np

from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime import Executable, platform_names
from xlapy.runtime.engine.arguments import leaves, shape_of
from xlapy.runtime.engine.memory import value_bytes
from xlapy.runtime.engine.observe import trace
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.runtime.values import Observer
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.elided_constants import elided_constants_option
from xlapy.tools.files import check_writable, read_arguments, save_arrays
from xlapy.tools.loading import load_option
from xlapy.tools.run.comparing import compare_platforms
from xlapy.tools.run.devices import (
    executable_of,
    files_of_devices,
    infeed_values,
    logical_numbers,
    name_of,
    with_feeds,
)
from xlapy.tools.run.processes import RunProcesses, is_silent, join_processes, printed
from xlapy.tools.run.single_process import compare_with_single_process


class _RunCommand(click.Command):
    """`--trace` without a value means every instruction. It must not take the following word, the file, as its value.
    Of several processes, one reports wrong usage."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if is_silent():
                raise SystemExit(error.exit_code) from error
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--trace=" if word == "--trace" else word for word in args])


@click.command(cls=_RunCommand)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[DEVICE=]FILE",
    help="Arguments of all devices or of one: .npy (one array) or .npz.",
)
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    help="Seed of random arguments, which differ between devices.",
    metavar="SEED",
)
@click.option(
    "--infeed", "infeeds", multiple=True, metavar="[DEVICE=]FILE", help="Infeed values, in order: .npy or .npz."
)
@click.option(
    "--num-replicas", "--num_replicas", type=click.IntRange(min=1), help="Number of replicas; by default the program's."
)
@click.option(
    "--num-partitions",
    "--num_partitions",
    type=click.IntRange(min=1),
    help="Number of partitions; by default the program's.",
)
@click.option(
    "--platform",
    help=f"Platform: {', '.join(platform_names())}. By default cpu, or the interpreter with --trace or if cpu does "
    "not support FILE.",
)
@load_option("platforms and targets of custom calls")
@click.option("--print", "print_values", is_flag=True, help="Print the values in full.")
@click.option("--save", type=click.Path(dir_okay=False), help="Save the results as .npz (result0, result1 ...).")
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of runs; with several, print the times.",
)
@click.option(
    "--trace", "traced", metavar="[=NAME]", help="Print each instruction's value, or those whose name matches NAME."
)
@click.option(
    "--compare",
    "compared",
    type=click.Choice(["interpreter", "single"]),
    help="interpreter: show the first instruction whose value differs there. single: compare the results of several "
    "processes with those of one, bit for bit. Exit code 1 if something differs.",
)
@click.option("--check-nans", "nans", is_flag=True, help="Stop at the first instruction that produces a NaN.")
@click.option("--check-infs", "infs", is_flag=True, help="Stop at the first instruction that produces an infinity.")
@elided_constants_option
def run(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    infeeds: tuple[str, ...],
    num_replicas: int | None,
    num_partitions: int | None,
    platform: str | None,
    print_values: bool,
    save: str | None,
    repeat: int,
    traced: str | None,
    compared: str | None,
    nans: bool,
    infs: bool,
    elided_constants: str,
) -> int | None:
    """Run FILE (HLO, StableHLO, or a file of `xlapy compile`; - for standard input) and show the results.

    `mpirun -n 4 xlapy run FILE` runs it on devices of 4 processes, the same number in each.
    """
    processes = join_processes()
    observer = processes.together(
        "checking the options",
        lambda: _check_options(processes, inputs, seed, platform, compared, save, traced, infeeds, nans, infs, repeat),
    )
    if platform is None and (observer is not None or compared is not None):
        platform = "interpreter" if compared is None else "cpu"
    executable = executable_of(
        platform,
        file,
        num_replicas,
        num_partitions,
        elided_constants,
        check_nans=nans or None,
        check_infs=infs or None,
        processes=processes,
    )
    numbers = logical_numbers(executable)
    arguments = processes.together("reading the arguments", lambda: arguments_of(executable, inputs, seed, numbers))
    if compared == "interpreter":
        return compare_platforms(executable, arguments[0], in_full=print_values)
    files = files_of_devices("--infeed", infeeds, len(executable.devices))
    fed = processes.together(
        "reading the infeeds", lambda: infeed_values(executable.module, [files[number] for number in numbers])
    )
    outfed: list[list[Any]] = []
    shown = (print_values or save is None) and compared is None
    if seed is not None and shown:
        show_arguments = partial(_show_arguments, executable, in_full=print_values)
        processes.print_by_device(
            {n: printed(partial(show_arguments, n, row)) for n, row in zip(numbers, arguments, strict=True)}
        )
    results, times = processes.together(
        "the run", lambda: _timed(lambda: _execute(executable, arguments, fed, outfed, observer), repeat)
    )
    if processes.prints:
        _show_times(times)
    arrays = {number: leaves(_plain(result)) for number, result in zip(numbers, results, strict=True)}
    if compared == "single":
        return compare_with_single_process(
            processes, executable, arrays, lambda alone: _results_alone(alone, inputs, seed)
        )
    if save is not None:
        _save(processes, save, arrays)
    if shown:
        show = partial(_show_device, executable, in_full=print_values)
        processes.print_by_device(
            {n: printed(partial(show, n, values, arrays[n])) for n, values in zip(numbers, outfed, strict=True)}
        )
    return None


def _check_options(
    processes: RunProcesses,
    inputs: Sequence[str],
    seed: int | None,
    platform: str | None,
    compared: str | None,
    save: str | None,
    traced: str | None,
    infeeds: Sequence[str],
    nans: bool,
    infs: bool,
    repeat: int,
) -> Observer | None:
    """Refuses options that exclude each other. Returns the observer of instructions, if there is to be one."""
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if compared is not None:
        _check_compared(compared, platform, [save, traced, infeeds, nans, infs, repeat > 1])
    if processes.count > 1 and traced is not None:
        raise click.UsageError("--trace runs in one process: start xlapy without mpirun")
    if processes.count > 1 and compared == "interpreter":
        raise click.UsageError("--compare interpreter runs in one process: start xlapy without mpirun")
    if save is not None and processes.prints:
        check_writable(save)
    return _observer(traced)


def _results_alone(executable: Executable, inputs: tuple[str, ...], seed: int | None) -> list[list[Any]]:
    """Returns the arrays of each device of a program in this process."""
    arguments = arguments_of(executable, inputs, seed, range(len(executable.devices)))
    return [leaves(_plain(result)) for result in _execute(executable, arguments, [[]] * len(arguments), [], None)]


def _check_compared(compared: str, platform: str | None, others: Sequence[object]) -> None:
    if platform == "interpreter" and compared == "interpreter":
        raise click.UsageError("--compare interpreter compares another platform with it: give --platform")
    if any(others):
        raise click.UsageError("--compare goes with arguments, --platform and --print only")


def _execute(
    executable: Executable,
    arguments: Sequence[Sequence[Any]],
    fed: Sequence[Sequence[Any]],
    outfed: list[list[Any]],
    observer: Observer | None,
) -> list[Any]:
    """Returns the result of each device."""

    def execute() -> list[Any]:
        if len(executable.devices) == 1:
            return [executable(*arguments[0], observer=observer)]
        return executable.execute_sharded(arguments, observer=observer)

    return with_feeds(executable.addressable_devices, fed, execute, outfed)


def _save(processes: RunProcesses, path: str, arrays: Mapping[int, Sequence[np.ndarray[Any, Any]]]) -> None:
    """Saves the results as result0, result1 ...; with several devices as device0_result0 ..."""
    gathered = {number: row for one in processes.gather(arrays, "the results to save") for number, row in one.items()}
    named = {
        f"device{number}_result{i}" if len(gathered) > 1 else f"result{i}": _with_own_type(array)
        for number, row in sorted(gathered.items())
        for i, array in enumerate(row)
    }
    processes.together("saving the results", lambda: save_arrays(path, named) if processes.prints else None)
    if processes.prints:
        click.echo(f"saved {_count(len(named), 'array')} to {path}")


def _with_own_type(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of another process with NumPy's own object for its type, which `save_arrays` looks for."""
    return array.view(np.dtype(array.dtype.type))


def arguments_of(
    executable: Executable, inputs: tuple[str, ...], seed: int | None, numbers: Sequence[int] | None = None
) -> list[list[Any]]:
    """Returns the arguments of each device. numbers: of the devices among those of the program, by default all."""
    program, count = executable.program_shape, len(executable.devices)
    numbers = range(count) if numbers is None else numbers
    files = [files_of_devices("--input", inputs, count)[number] for number in numbers]
    if all(files):
        read = {paths: read_arguments(paths, program) for paths in set(map(tuple, files))}
        return [read[tuple(paths)] for paths in files]
    if any(files):
        missing = next(number for number, paths in zip(numbers, files, strict=True) if not paths)
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"{name_of(executable, missing)} has no input; --input FILE is for all without their own"
        )
    if seed is not None:
        _check_memory(program.parameters * len(numbers))
        return [random_arguments(program.parameters, seed + number) for number in numbers]
    if program.parameters:
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"the program takes arguments, give --input FILE or --random SEED: {program.to_text()}"
        )
    return [[] for _ in numbers]


def _check_memory(parameters: Sequence[Shape]) -> None:
    """Raises an error if random arguments would not fit in memory."""
    size, available = sum(map(value_bytes, parameters)), available_bytes()
    if size > available:
        raise InvalidArgumentError(
            running_codes.OUT_OF_MEMORY,
            f"out of memory: random arguments of {format_bytes(size)}, {format_bytes(available)} are available",
        )


def _observer(traced: str | None) -> Observer | None:
    if traced is None:
        return None
    try:
        return trace(_echo_with_device, traced)
    except InvalidArgumentError as error:
        raise click.BadParameter(error.message, param_hint="--trace") from error


def _echo_with_device(line: str) -> None:
    """Prints the device's name on the thread of a device, if there are several."""
    thread = threading.current_thread()
    click.echo(line if thread is threading.main_thread() else f"{thread.name}: {line}")


def _timed(execute: Callable[[], Any], repeat: int) -> tuple[Any, list[float]]:
    """Runs `repeat` times; returns the last result, and the times in milliseconds."""
    times: list[float] = []
    result = None
    for _ in range(repeat):
        start = time.perf_counter()
        result = execute()
        times.append((time.perf_counter() - start) * 1e3)
    return result, times


def _show_times(times: Sequence[float]) -> None:
    """Prints the times of several runs."""
    if len(times) > 1:
        spread = f"best {min(times):.3f} ms, worst {max(times):.3f} ms"
        click.echo(f"{len(times)} runs: median {statistics.median(times):.3f} ms, {spread}")


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else getattr(value, "array", value)


# -- showing values


def _where(executable: Executable, number: int) -> str:
    """Returns the prefix of a value that names its device; empty for a single device."""
    return f"{name_of(executable, number)}: " if len(executable.devices) > 1 else ""


def _show_arguments(executable: Executable, number: int, arguments: Sequence[Any], *, in_full: bool) -> None:
    program = executable.program_shape
    where = _where(executable, number)
    for i, (shape, argument) in enumerate(zip(program.parameters, arguments, strict=True)):
        _show_leaves(f"{where}parameter {i} ({program.parameter_names[i]})", shape, argument, in_full)


def _show_leaves(name: str, shape: Shape, value: Any, in_full: bool) -> None:
    shapes = [leaf for _, leaf in shape.leaves() if leaf.is_array]
    for i, (array, leaf) in enumerate(zip(leaves(value), shapes, strict=True)):
        place = f" leaf {i}" if shape.is_tuple else ""
        _show(f"{name}{place}: ", leaf, array, in_full)


def _show_device(
    executable: Executable, number: int, outfed: Sequence[Any], arrays: Sequence[Any], *, in_full: bool
) -> None:
    """Prints what a device has fed out, and its results."""
    _show_outfeed(executable, number, outfed, in_full=in_full)
    _show_results(executable, number, arrays, in_full=in_full)


def _show_outfeed(executable: Executable, number: int, values: Sequence[Any], *, in_full: bool) -> None:
    where = _where(executable, number)
    for i, value in enumerate(map(_plain, values)):
        _show_leaves(f"{where}outfeed {i}", shape_of(value), value, in_full)


def _show_results(executable: Executable, number: int, arrays: Sequence[Any], *, in_full: bool) -> None:
    where = _where(executable, number)
    shapes = [leaf for _, leaf in executable.program_shape.result.leaves() if leaf.is_array]
    for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        _show(f"{where}result {i}: " if len(arrays) > 1 else f"{where}result: ", shape, array, in_full)
    if not arrays:
        click.echo(
            f"{where}the result, of shape {executable.program_shape.result.to_text(layout=False)}, holds no array"
        )


def _show(name: str, shape: Shape, array: np.ndarray[Any, Any], in_full: bool) -> None:
    with np.printoptions(threshold=2**31 if in_full else 20, linewidth=120):
        text = np.array2string(array, separator=", ")
    separator = "\n" if "\n" in text else " "
    sizes = f" of [{','.join(map(str, array.shape))}]" if shape.is_dynamic else ""
    click.echo(f"{name}{shape.to_text(layout=False)}{sizes}{separator}{text}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

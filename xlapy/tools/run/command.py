"""`xlapy run`: runs a program in any format, or a compiled one.

Responsible for the command's options and output. Does not depend on how programs run.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
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
from xlapy.tools.run.devices import executable_of, files_of_devices, infeed_values, name_of, with_feeds


class _TraceTakesItsNameWithEquals(click.Command):
    """`--trace` without a value means every instruction. It must not take the following word, the file, as its
    value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--trace=" if word == "--trace" else word for word in args])


@click.command(cls=_TraceTakesItsNameWithEquals)
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
    type=click.Choice(["interpreter"]),
    help="Also run on this platform and show the first instruction whose value differs; exit code 1 if there is one.",
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
    """Run FILE (HLO, StableHLO, or a file of `xlapy compile`; - for standard input) and show the results."""
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if compared is not None:
        _check_compared(platform, [save, traced, infeeds, nans, infs, repeat > 1])
    observer = _observer(traced)
    if save is not None:
        check_writable(save)
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
    )
    count = len(executable.devices)
    arguments = arguments_of(executable, inputs, seed)
    if compared is not None:
        return compare_platforms(executable, arguments[0], in_full=print_values)
    fed = infeed_values(executable.module, files_of_devices("--infeed", infeeds, count))
    shown = print_values or save is None
    if seed is not None and shown:
        for number in range(count):
            _show_arguments(executable, number, arguments[number], in_full=print_values)
    outfed: list[list[Any]] = []
    results = _timed(lambda: _execute(executable, arguments, fed, outfed, observer), repeat)
    arrays = [leaves(_plain(result)) for result in results]
    if save is not None:
        _save(save, arrays)
    if shown:
        for number in range(count):
            _show_outfeed(executable, number, outfed[number], in_full=print_values)
            _show_results(executable, number, arrays[number], in_full=print_values)
    return None


def _check_compared(platform: str | None, others: Sequence[object]) -> None:
    if platform == "interpreter":
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
        if len(arguments) == 1:
            return [executable(*arguments[0], observer=observer)]
        return executable.execute_sharded(arguments, observer=observer)

    return with_feeds(executable.devices, fed, execute, outfed)


def _save(path: str, arrays: Sequence[Sequence[np.ndarray[Any, Any]]]) -> None:
    """Saves the results as result0, result1 ...; with several devices as device0_result0 ..."""
    named = {
        f"device{number}_result{i}" if len(arrays) > 1 else f"result{i}": array
        for number, row in enumerate(arrays)
        for i, array in enumerate(row)
    }
    save_arrays(path, named)
    click.echo(f"saved {_count(len(named), 'array')} to {path}")


def arguments_of(executable: Executable, inputs: tuple[str, ...], seed: int | None) -> list[list[Any]]:
    """Returns the arguments of each device."""
    program, count = executable.program_shape, len(executable.devices)
    files = files_of_devices("--input", inputs, count)
    if all(files):
        read = {paths: read_arguments(paths, program) for paths in set(map(tuple, files))}
        return [read[tuple(paths)] for paths in files]
    if any(files):
        missing = next(number for number, paths in enumerate(files) if not paths)
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"{name_of(executable, missing)} has no input; --input FILE is for all without their own"
        )
    if seed is not None:
        _check_memory(program.parameters * count)
        return [random_arguments(program.parameters, seed + number) for number in range(count)]
    if program.parameters:
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"the program takes arguments, give --input FILE or --random SEED: {program.to_text()}"
        )
    return [[] for _ in range(count)]


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


def _timed(execute: Callable[[], Any], repeat: int) -> Any:
    """Runs `repeat` times; with more than one run, prints the times in milliseconds."""
    times: list[float] = []
    result = None
    for _ in range(repeat):
        start = time.perf_counter()
        result = execute()
        times.append((time.perf_counter() - start) * 1e3)
    if repeat > 1:
        spread = f"best {min(times):.3f} ms, worst {max(times):.3f} ms"
        click.echo(f"{repeat} runs: median {statistics.median(times):.3f} ms, {spread}")
    return result


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

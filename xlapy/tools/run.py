"""`xlapy run`: runs a program of HLO text.

Owns: the command's options and what it prints. Must not know: how programs run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np

from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime import Client, Executable, platform_names
from xlapy.runtime.arguments import leaves
from xlapy.runtime.backend import Observer
from xlapy.runtime.memory import available_bytes, readable, value_bytes
from xlapy.runtime.observe import both, check_nans, trace
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.files import check_writable, read_arguments, read_program, save_arrays


class _TraceTakesItsNameWithEquals(click.Command):
    """`--trace` alone means every instruction: it must not take the word behind it, which is the file, for a name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--trace=" if word == "--trace" else word for word in args])


@click.command(cls=_TraceTakesItsNameWithEquals)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, type=click.Path(dir_okay=False), help="Arguments: .npy (one) or .npz."
)
@click.option("--random", "seed", type=click.IntRange(min=0), help="Random arguments from this seed.", metavar="SEED")
@click.option(
    "--platform", default="interpreter", show_default=True, help="Where to run: " + ", ".join(platform_names()) + "."
)
@click.option("--print", "print_values", is_flag=True, help="Print the values in full.")
@click.option("--save", type=click.Path(dir_okay=False), help="Save the results as .npz (result0, result1 ...).")
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Run several times and print the times."
)
@click.option(
    "--trace", "traced", metavar="[=NAME]", help="Print each instruction's value, or those whose name matches NAME."
)
@click.option("--check-nans", "nans", is_flag=True, help="Stop at the first instruction that makes a NaN.")
def run(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    platform: str,
    print_values: bool,
    save: str | None,
    repeat: int,
    traced: str | None,
    nans: bool,
) -> None:
    """Run FILE (HLO text; - for standard input) and show the results."""
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    observer = _observer(traced, nans or bool(flags.get("check_nans")))
    if save is not None:
        check_writable(save)
    executable = Client(platform).compile(read_program(file))
    arguments = _arguments(executable, inputs, seed)
    if seed is not None and (print_values or save is None):
        _show_arguments(executable, arguments, in_full=print_values)
    result = _timed(lambda: executable(*arguments, observer=observer), repeat)
    arrays = leaves(_plain(result))
    if save is not None:
        save_arrays(save, {f"result{i}": array for i, array in enumerate(arrays)})
        click.echo(f"saved {_count(len(arrays), 'array')} to {save}")
    if print_values or save is None:
        _show_results(executable, arrays, in_full=print_values)


def _arguments(executable: Executable, inputs: tuple[str, ...], seed: int | None) -> list[Any]:
    program = executable.program_shape
    if inputs:
        return read_arguments(inputs, program)
    if seed is not None:
        _check_memory(program.parameters)
        return random_arguments(program.parameters, seed)
    if program.parameters:
        raise InvalidArgumentError(
            f"the program takes arguments, give --input FILE or --random SEED: {program.to_text()}"
        )
    return []


def _check_memory(parameters: Sequence[Shape]) -> None:
    """Random arguments are not worth an exhausted machine."""
    size, available = sum(map(value_bytes, parameters)), available_bytes()
    if size > available:
        raise InvalidArgumentError(
            f"out of memory: random arguments of {readable(size)}, {readable(available)} are available"
        )


def _observer(traced: str | None, nans: bool) -> Observer | None:
    observers: list[Observer] = []
    if traced is not None:
        try:
            observers.append(trace(click.echo, traced))
        except InvalidArgumentError as error:
            raise click.BadParameter(str(error), param_hint="--trace") from error
    if nans:
        observers.append(check_nans)
    return both(*observers) if observers else None


def _timed(execute: Callable[[], Any], repeat: int) -> Any:
    """Runs `repeat` times; with more than one, prints the times in milliseconds."""
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


def _show_arguments(executable: Executable, arguments: list[Any], *, in_full: bool) -> None:
    program = executable.program_shape
    for number, (shape, argument) in enumerate(zip(program.parameters, arguments, strict=True)):
        arrays = leaves(argument)
        shapes = [leaf for _, leaf in shape.leaves() if leaf.is_array]
        for i, (array, leaf) in enumerate(zip(arrays, shapes, strict=True)):
            place = f" leaf {i}" if shape.is_tuple else ""
            _show(f"parameter {number} ({program.parameter_names[number]}){place}: ", leaf, array, in_full)


def _show_results(executable: Executable, arrays: list[np.ndarray[Any, Any]], *, in_full: bool) -> None:
    shapes = [leaf for _, leaf in executable.program_shape.result.leaves() if leaf.is_array]
    for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        _show(f"result {i}: " if len(arrays) > 1 else "result: ", shape, array, in_full)
    if not arrays:
        click.echo(f"the result, of shape {executable.program_shape.result.brief}, holds no array")


def _show(title: str, shape: Shape, array: np.ndarray[Any, Any], in_full: bool) -> None:
    with np.printoptions(threshold=2**31 if in_full else 20, linewidth=120):
        text = np.array2string(array, separator=", ")
    separator = "\n" if "\n" in text else " "
    click.echo(f"{title}{shape.brief}{separator}{text}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

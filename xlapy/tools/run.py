"""`xlapy run`: runs a program of HLO text.

Owns: the command's options and what it prints. Must not know: how programs run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime import Client, Executable, platform_names
from xlapy.runtime.arguments import leaves
from xlapy.runtime.backend import Observer
from xlapy.runtime.observe import both, check_nans, trace
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.files import read_arguments, read_program, save_arrays


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, type=click.Path(dir_okay=False), help="Arguments: .npy (one) or .npz."
)
@click.option("--random", "seed", type=int, help="Random arguments from this seed.")
@click.option(
    "--platform", default="interpreter", show_default=True, help="Where to run: " + ", ".join(platform_names()) + "."
)
@click.option("--print", "print_values", is_flag=True, help="Print the results in full.")
@click.option("--save", type=click.Path(dir_okay=False), help="Save the results as .npz (result0, result1 ...).")
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Run several times and print the times."
)
@click.option(
    "--trace", "traced", is_flag=False, flag_value="", help="Print each instruction's value, or those matching NAME."
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
    executable = Client(platform).compile(read_program(file))
    arguments = _arguments(executable, inputs, seed)
    observer = _observer(traced, nans or bool(flags.get("check_nans")))
    result = _timed(lambda: executable(*arguments, observer=observer), repeat)
    arrays = leaves(_plain(result))
    if save is not None:
        save_arrays(save, {f"result{i}": array for i, array in enumerate(arrays)})
        click.echo(f"saved {len(arrays)} arrays to {save}")
    if print_values or save is None:
        _show(executable, arrays, in_full=print_values)


def _arguments(executable: Executable, inputs: tuple[str, ...], seed: int | None) -> list[Any]:
    program = executable.program_shape
    if inputs:
        return read_arguments(inputs, program)
    if seed is not None:
        return random_arguments(program.parameters, seed)
    if program.parameters:
        raise InvalidArgumentError(
            f"the program takes arguments, give --input FILE or --random SEED: {program.to_text()}"
        )
    return []


def _observer(traced: str | None, nans: bool) -> Observer | None:
    observers: list[Observer] = []
    if traced is not None:
        observers.append(trace(click.echo, traced))
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
        click.echo(
            f"{repeat} runs: median {statistics.median(times):.3f} ms, best {min(times):.3f} ms, worst {max(times):.3f} ms"
        )
    return result


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else getattr(value, "array", value)


def _show(executable: Executable, arrays: list[np.ndarray[Any, Any]], *, in_full: bool) -> None:
    shapes = [leaf for _, leaf in executable.program_shape.result.leaves() if leaf.is_array]
    many = len(arrays) > 1
    for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        with np.printoptions(threshold=2**31 if in_full else 20, linewidth=120):
            text = np.array2string(array, separator=", ")
        separator = "\n" if "\n" in text else " "
        click.echo(f"{f'result {i}: ' if many else ''}{shape.brief}{separator}{text}")

"""What `xlapy run` prints: arguments, results, what devices have fed out, and times.

Responsible for this text. Does not depend on how programs run.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from xlapy.base.shape import Shape
from xlapy.runtime.engine.arguments import leaves, places_of_parameters, shape_of
from xlapy.tools.run.interface import ProgramInterface


def show_arguments(interface: ProgramInterface, place: int, arguments: Sequence[Any], *, in_full: bool) -> None:
    """Prints the arguments at a place of a program."""
    program = interface.program_shape
    for name, shape, argument in zip(places_of_parameters(program), program.parameters, arguments, strict=True):
        _show_leaves(f"{interface.label(place)}{name}", shape, argument, in_full)


def show_results(
    interface: ProgramInterface, place: int, outfed: Sequence[Any], arrays: Sequence[Any], *, in_full: bool
) -> None:
    """Prints the values that a device has fed out, and the arrays of the result at a place of a program."""
    where, shapes = interface.label(place), interface.result_shapes
    for i, value in enumerate(outfed):
        _show_leaves(f"{where}outfeed {i}", shape_of(value), value, in_full)
    for i, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        _show(f"{where}result {i}: " if len(arrays) > 1 else f"{where}result: ", shape, array, in_full)
    if not arrays:
        shape_text = interface.program_shape.result.to_text(layout=False)
        click.echo(f"{where}the result, of shape {shape_text}, holds no array")


def show_times(times: Sequence[float]) -> None:
    """Prints the times of several runs, which are in milliseconds."""
    if len(times) > 1:
        spread = f"best {min(times):.3f} ms, worst {max(times):.3f} ms"
        click.echo(f"{len(times)} runs: median {statistics.median(times):.3f} ms, {spread}")


def count_text(number: int, noun: str) -> str:
    """`1 array` or `2 arrays`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _show_leaves(name: str, shape: Shape, value: Any, in_full: bool) -> None:
    shapes = [leaf for _, leaf in shape.leaves() if leaf.is_array]
    for i, (array, leaf) in enumerate(zip(leaves(value), shapes, strict=True)):
        place = f" leaf {i}" if shape.is_tuple else ""
        _show(f"{name}{place}: ", leaf, array, in_full)


def _show(name: str, shape: Shape, array: np.ndarray[Any, Any], in_full: bool) -> None:
    with np.printoptions(threshold=2**31 if in_full else 20, linewidth=120):
        text = np.array2string(array, separator=", ")
    separator = "\n" if "\n" in text else " "
    sizes = f" of [{','.join(map(str, array.shape))}]" if shape.is_dynamic else ""
    click.echo(f"{name}{shape.to_text(layout=False)}{sizes}{separator}{text}")

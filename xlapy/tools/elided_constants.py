"""Values for constants that a text shows as `{...}`, and the option `--elided-constants` of commands that compile.

Printed modules leave out the elements of large constants. XLA's tools run such modules with made-up elements, which is
enough to measure or inspect them. Responsible for these elements and for the warning. Does not depend on how programs
run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.literal import Literal
from xlapy.hlo.module import Module
from xlapy.runtime.limits import check_constants
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.testing.random_values import random_array

FILL, REFUSE = "fill", "refuse"
_SHOWN_NAMES = 3
_STREAM = 1
"""Separates the random numbers from those of random arguments, which have the same seeds."""

elided_constants_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--elided-constants",
    "--elided_constants",
    type=click.Choice([FILL, REFUSE]),
    default=FILL,
    show_default=True,
    help="What to do with constants written {...}: fill in made-up values, or refuse the program.",
)


def provide_elided_constants(module: Module, choice: str) -> None:
    """Replaces the literals of elided constants in `module` if `choice` is `FILL`, and warns on standard error.

    The n-th elided constant of a module always gets the same elements: those that `random_array` draws for n, without
    special values. Floating-point numbers come from the normal distribution, integers are within [-100, 100] and the
    range of their type. With `REFUSE`, raises `UnsupportedError` for the first elided constant. Raises
    `InvalidArgumentError` if the elements do not fit in memory.
    """
    if choice == REFUSE:
        check_constants(module)
    elided = [
        instruction
        for instruction in module.instructions()
        if instruction.op is opcodes.CONSTANT and not has_all_elements(instruction.literal)
    ]
    if not elided:
        return
    size, available = sum(instruction.shape.byte_size for instruction in elided), available_bytes()
    if size > available:
        raise InvalidArgumentError(
            codes.OUT_OF_MEMORY,
            f"out of memory: the elided constants of {module.name} take {format_bytes(size)}, "
            f"{format_bytes(available)} are available",
        )
    for seed, instruction in enumerate(elided):
        literal = _filled(instruction.literal, np.random.default_rng([seed, _STREAM]))
        instruction.attributes = instruction.attributes.replace(literal=literal)
    names = ", ".join(instruction.name for instruction in elided[:_SHOWN_NAMES])
    more = f" and {len(elided) - _SHOWN_NAMES} more" if len(elided) > _SHOWN_NAMES else ""
    click.echo(
        f"xlapy: warning: constants written {{...}} get made-up values, so results are meaningless: {names}{more}; "
        "--elided-constants=refuse refuses them",
        err=True,
    )


def _filled(literal: Literal, rng: np.random.Generator) -> Literal:
    if literal.shape.is_tuple:
        return Literal.tuple(_filled(element, rng) for element in literal.elements).with_shape(literal.shape)
    if not literal.is_elided:
        return literal
    shape = literal.shape
    return Literal.array_of(random_array(shape.dimensions, shape.dtype, rng, special=False), shape)

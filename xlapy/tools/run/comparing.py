"""`xlapy run --compare interpreter`: finds the first instruction whose value differs between two platforms.

Responsible for the output. Does not depend on how the difference is found.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.debugging.first_difference import Comparison, Difference, compare_with_interpreter
from xlapy.debugging.fuzzing.implementations import find_implementation, plain
from xlapy.hlo.instruction import describe_instruction
from xlapy.hlo.module import Module
from xlapy.runtime import Client, Executable
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.instruction_by_instruction import Unfinished


def compare_platforms(executable: Executable, arguments: Sequence[Any], *, in_full: bool) -> int:
    """Runs the program on both platforms and prints whether and where they differ. Returns the exit code: 1 if they
    differ.

    Raises `UnsupportedError` for programs for several devices or with dynamic dimensions.
    """
    _check_comparable(executable)
    client = Client(executable.platform)

    def run(program: Module | str, given: Sequence[Any]) -> Any:
        compiled = executable if program is executable.module else client.compile(program)
        return plain(compiled(*given))

    values = check_arguments(executable.program_shape, arguments)
    found = compare_with_interpreter(executable.module, values, run, find_implementation(executable.platform))
    _show(found, executable.platform, in_full)
    return 0 if found.agrees else 1


def _check_comparable(executable: Executable) -> None:
    if len(executable.devices) > 1:
        raise UnsupportedError(
            codes.SINGLE_DEVICE,
            f"{executable.name} runs on {len(executable.devices)} devices; programs on one device can be compared",
        )
    for instruction in executable.module.instructions():
        if instruction.shape.is_dynamic:
            raise UnsupportedError(
                codes.STATIC_SHAPES,
                f"{describe_instruction(instruction)} has the dynamic shape "
                f"{instruction.shape.to_text(layout=False)}: such programs cannot be compared",
            )


def _show(found: Comparison, platform: str, in_full: bool) -> None:
    for line in found.refused:
        click.echo(f"not compared, {platform} does not run it alone: {line}")
    for line in found.known_divergences:
        click.echo(f"not compared: {line}")
    if found.agrees:
        click.echo(
            f"{platform} and the interpreter agree: all results, and {found.agreeing_count} instructions one by one"
        )
        return
    if found.result_difference:
        click.echo(f"the results differ: {found.result_difference}")
    else:
        click.echo("the results agree, but an instruction alone does not:")
    if found.difference is None:
        click.echo("no instruction differs alone, nor does the program truncated after any instruction")
    else:
        _show_difference(found.difference, platform, in_full)


def _show_difference(difference: Difference, platform: str, in_full: bool) -> None:
    how = "compiled alone" if difference.compiled_alone else "compiled with all instructions before it; alone it agrees"
    click.echo(f"the first instruction that differs, {how}:")
    instruction = difference.step.instruction
    operands = ", ".join(operand.name for operand in instruction.operands)
    click.echo(f"  {instruction.name} = {instruction.shape.to_text(layout=False)} {instruction.op.name}({operands})")
    click.echo(textwrap.indent(difference.message, "  "))
    for number, (operand, value) in enumerate(zip(instruction.operands, difference.step.operands, strict=True)):
        _show_value(f"operand {number} ({operand.name})", value, in_full)
    _show_value(platform, difference.actual, in_full)
    _show_value("interpreter", difference.step.value, in_full)


def _show_value(name: str, value: Any, in_full: bool) -> None:
    if isinstance(value, Unfinished):
        value = value.value
    if isinstance(value, tuple):
        for number, element in enumerate(value):
            _show_value(f"{name} [{number}]", element, in_full)
        return
    if isinstance(value, np.ndarray):
        with np.printoptions(threshold=2**31 if in_full else 20, linewidth=110):
            click.echo(textwrap.indent(f"{name}: {np.array2string(value, separator=', ')}", "  "))

"""`xlapy bisect`: finds the pass or kernel that makes a program wrong.

Responsible for the command's options, for reading arguments and for the output. Does not depend on the search.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from xlapy.base.error_codes.building import python_calls as python_codes
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.debugging.bisecting import BisectResult, BisectSettings
from xlapy.debugging.bisecting import bisect as search
from xlapy.hlo.module import Module
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo
from xlapy.tools.bisect.folder import write_folder
from xlapy.tools.diff import difference_lines
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import read_arguments, read_program

LINES = 40
"""Lines printed in the terminal of the changes that a pass made."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE", help="Arguments: .npy (one) or .npz; the same on all devices."
)
@click.option(
    "--random", "seed", type=click.IntRange(min=0), metavar="SEED", help="Seed of random arguments; default 0."
)
@click.option("--passes", metavar="PASSES", help="Check these passes, as for `xlapy opt`, instead of those of cpu.")
@click.option("--only", metavar="POSITION", help="Check only the pass at this position, as printed in a report.")
@click.option("--optimized", is_flag=True, help="FILE is optimized already: check only code generation.")
@click.option(
    "--against",
    type=click.Choice(["interpreter", "xla"]),
    default="interpreter",
    show_default=True,
    help="The reference: the interpreter on FILE, or XLA:CPU (jaxlib).",
)
@click.option(
    "--load", "loads", multiple=True, metavar="FILE.py|MODULE", help="Python that registers passes or custom calls."
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="Maximum seconds of a pass or run.",
)
@click.option(
    "--reduce",
    "reducing",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Maximum seconds for reducing.",
)
@click.option("-o", "--output", type=click.Path(file_okay=False), help="Output folder; default xlapy-bisect-NAME.")
@elided_constants_option
def bisect(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    passes: str | None,
    only: str | None,
    optimized: bool,
    against: str,
    loads: tuple[str, ...],
    timeout: float,
    reducing: float,
    output: str | None,
    elided_constants: str,
) -> int:
    """Find the first pass or kernel that makes FILE (HLO or StableHLO; - for standard input) wrong.

    A pass is wrong if it changes the result, raises an error, ends the process, hangs, or leaves an invalid module. If
    all passes are right, the machine code is run and the first wrong kernel is named. Everything runs in a child
    process. Exit code 1 if a fault is found; a folder then holds the module before and after the pass, a reduced
    module, the arguments, and the command that reproduces the fault.
    """
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if optimized and (passes is not None or only is not None):
        raise click.UsageError("--optimized runs no passes: it goes without --passes and --only")
    module = read_program(file)
    provide_elided_constants(module, elided_constants)
    arguments = _arguments(module, inputs, seed or 0)
    settings = BisectSettings(passes, only, optimized, against, tuple(map(_absolute, loads)), timeout, reducing)
    console = Console(stderr=True)
    with console.status("bisecting") as status:
        found = search(module, arguments, settings, lambda what: status.update(what))
    for line in report_lines(found, settings, LINES):
        click.echo(line)
    if found.fault is None:
        return 0
    if found.agrees_before_passes:
        folder = Path(output or f"xlapy-bisect-{module.name}")
        write_folder(folder, found, settings, arguments, list(report_lines(found, settings, None)))
        click.echo(f"written to {folder}: {folder / 'run.sh'} shows it again")
    return 1


def _absolute(load: str) -> str:
    """Returns absolute paths, so that the files are found from any folder."""
    if load.endswith(".py") and not Path(load).is_file():
        raise InvalidArgumentError(python_codes.USER_CODE, f"there is no file {load} to load")
    return str(Path(load).resolve()) if load.endswith(".py") else load


def _arguments(module: Module, inputs: Sequence[str], seed: int) -> list[list[Any]]:
    """Returns the arguments of each device of the program."""
    shape, count = module.entry_computation.program_shape, module.config.replica_count * module.config.num_partitions
    if inputs:
        return [read_arguments(inputs, shape)] * count
    return [random_arguments(shape.parameters, seed + number) for number in range(count)]


def report_lines(found: BisectResult, settings: BisectSettings, most: int | None) -> Iterator[str]:
    """Returns the report as lines, with the first `most` lines of the pass's changes."""
    runs = f"{found.pass_runs} runs of passes, {found.changing_runs} of which changed the program"
    if found.fault is None:
        yield f"nothing is wrong: {runs}" + (", and its machine code" if settings.generates_code else "")
    elif not found.agrees_before_passes:
        yield "no pass is faulty: the interpreter differs from XLA on the original program"
        yield _indented(found.fault.message)
        yield (
            "`xlapy fuzz` compares the two instruction by instruction; "
            "docs/explanation/differences.md lists intended differences"
        )
    elif found.position is not None:
        yield f"{found.position}"
        yield f"  {found.fault.kind.value}"
        yield _indented(found.fault.message)
        yield from _changed(found, most)
    else:
        yield from _generation(found)
    if found.reduced is not None:
        small = parse_hlo(found.reduced.text)
        yield f"reduced from {parse_hlo(found.before).instruction_count} to {small.instruction_count} instructions:"
        yield _indented(small.to_text().rstrip())
    yield from (f"note: {note}" for note in found.notes)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _changed(found: BisectResult, most: int | None) -> Iterator[str]:
    """Returns what the pass changed, computation by computation."""
    if found.after is None:
        return
    if found.first_change:
        was, now, *how = found.first_change
        yield "the first instruction whose value differs:"
        yield from (f"  {line}" for line in (f"- {was}", f"+ {now}", *how))
    lines = _differences(found.before, found.after)
    yield "what the pass changed:"
    yield from (f"  {line}" for line in lines[:most])
    if most is not None and len(lines) > most:
        yield f"  ... and {len(lines) - most} more lines"


def _differences(before: str, after: str) -> list[str]:
    """Compares by structure, or by lines if the module after the pass is too broken to be parsed."""
    try:
        return list(difference_lines(parse_hlo(before), parse_hlo(after)))
    except XlaError:
        return list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]


def _generation(found: BisectResult) -> Iterator[str]:
    assert found.fault is not None
    yield f"no pass is faulty ({found.pass_runs} runs, {found.changing_runs} changes): the fault is in code generation"
    yield f"  the optimized program {_WORDS[found.fault.kind.name]}"
    yield _indented(found.fault.message)
    kernel = found.kernel
    if kernel is None:
        yield "no instruction shows this alone, nor does the program truncated after any instruction"
        return
    how = "compiled alone" if kernel.compiled_alone else "compiled with all instructions before it; alone it is correct"
    yield f"the first instruction whose code is wrong, {how}:"
    yield f"  {kernel.instruction} in {kernel.computation}"
    yield _indented(kernel.message)
    if kernel.fused_instruction:
        yield f"  the code is wrong as soon as the fusion computes {kernel.fused_instruction}"


_WORDS = {
    "RAISES": "raises an error as machine code",
    "DIES": "ends the process as machine code",
    "HANGS": "hangs as machine code",
    "CHANGES": "gives another result as machine code",
    "REFUSED": "is refused by the code generator",
}

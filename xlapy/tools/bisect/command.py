"""`xlapy bisect`: which pass of the compiler makes a program wrong, or which kernel.

Owns: the command's options, where arguments come from, what is printed. Must not know: how the search goes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.debugging.bisecting import Finding, Settings
from xlapy.debugging.bisecting import bisect as search
from xlapy.hlo.module import Module
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo
from xlapy.tools.bisect.folder import write_folder
from xlapy.tools.diff import difference_lines
from xlapy.tools.files import read_arguments, read_program

LINES = 40
"""Of what a pass changed, in the terminal."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE", help="Arguments: .npy (one) or .npz; the same on all devices."
)
@click.option(
    "--random", "seed", type=click.IntRange(min=0), metavar="SEED", help="Random arguments from this seed; default 0."
)
@click.option("--passes", metavar="PASSES", help="These passes, as for `xlapy opt`, instead of all that cpu does.")
@click.option("--only", metavar="PLACE", help="Only the pass at this place of the pipeline, as a report tells it.")
@click.option("--optimised", is_flag=True, help="FILE has the passes of cpu behind it: only code generation.")
@click.option(
    "--against",
    type=click.Choice(["interpreter", "xla"]),
    default="interpreter",
    show_default=True,
    help="Whose result is right: the interpreter's on FILE, or that of XLA:CPU (jaxlib).",
)
@click.option(
    "--load", "loads", multiple=True, metavar="FILE.py|MODULE", help="Python that registers passes or custom calls."
)
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="Seconds a pass or run may take.",
)
@click.option(
    "--reduce", "reducing", default=60.0, show_default=True, type=click.FloatRange(min=0), help="Seconds for reducing."
)
@click.option("-o", "--output", type=click.Path(file_okay=False), help="Folder to write; default xlapy-bisect-NAME.")
def bisect(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    passes: str | None,
    only: str | None,
    optimised: bool,
    against: str,
    loads: tuple[str, ...],
    timeout: float,
    reducing: float,
    output: str | None,
) -> int:
    """Find the first pass that makes FILE (HLO or StableHLO; - for standard input) wrong, or the first kernel.

    A pass is wrong if it changes what the interpreter computes, raises, ends the process, hangs, or leaves a module
    that is not sound. If all are right, the machine code is run, and the first kernel that is wrong is named. All of
    that happens in a process of its own. Exit code 1 if something is found; then a folder holds the module before and
    after the pass, a reduced one, the arguments, and the command that shows it again.
    """
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if optimised and (passes is not None or only is not None):
        raise click.UsageError("--optimised runs no passes: it goes without --passes and --only")
    module = read_program(file)
    arguments = _arguments(module, inputs, seed or 0)
    settings = Settings(passes, only, optimised, against, tuple(map(_absolute, loads)), timeout, reducing)
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
    """Files by their whole path: what is loaded is found from any folder."""
    if load.endswith(".py") and not Path(load).is_file():
        raise InvalidArgumentError(f"there is no file {load} to load")
    return str(Path(load).resolve()) if load.endswith(".py") else load


def _arguments(module: Module, inputs: Sequence[str], seed: int) -> list[list[Any]]:
    """Those of each device that the program is for."""
    shape, count = module.entry_computation.program_shape, module.config.replica_count * module.config.num_partitions
    if inputs:
        return [read_arguments(inputs, shape)] * count
    return [random_arguments(shape.parameters, seed + number) for number in range(count)]


def report_lines(found: Finding, settings: Settings, most: int | None) -> Iterator[str]:
    """What was found; of what a pass changed, the first `most` lines."""
    runs = f"{found.runs} runs of passes, {found.changes} of which changed the program"
    if found.fault is None:
        yield f"nothing is wrong: {runs}" + (", and its machine code" if settings.generates else "")
    elif not found.agrees_before_passes:
        yield "no pass is to blame: on the program as it is given, the interpreter differs from XLA"
        yield _indented(found.fault.message)
        yield "`xlapy fuzz` compares the two instruction by instruction; docs/differences.md lists what is meant"
    elif found.place is not None:
        yield f"{found.place}"
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


def _changed(found: Finding, most: int | None) -> Iterator[str]:
    """What the pass did to the module, computation by computation."""
    if found.after is None:
        return
    if found.first:
        was, now, *how = found.first
        yield "the first instruction whose value is another:"
        yield from (f"  {line}" for line in (f"- {was}", f"+ {now}", *how))
    lines = _differences(found.before, found.after)
    yield "what it changed:"
    yield from (f"  {line}" for line in lines[:most])
    if most is not None and len(lines) > most:
        yield f"  ... and {len(lines) - most} lines more"


def _differences(before: str, after: str) -> list[str]:
    """By structure; by lines where the module behind the pass is not sound enough to be read."""
    try:
        return list(difference_lines(parse_hlo(before), parse_hlo(after)))
    except XlaError:
        return list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]


def _generation(found: Finding) -> Iterator[str]:
    assert found.fault is not None
    yield f"no pass is to blame ({found.runs} runs, {found.changes} changes): the fault is in code generation"
    yield f"  the program behind the passes {_WORDS[found.fault.kind.name]}"
    yield _indented(found.fault.message)
    kernel = found.kernel
    if kernel is None:
        yield "no instruction shows this by itself, nor does any beginning of the program"
        return
    how = "compiled by itself" if kernel.alone else "with all that comes before it; by itself it is right"
    yield f"the first instruction whose code is wrong, {how}:"
    yield f"  {kernel.instruction} in {kernel.computation}"
    yield _indented(kernel.message)
    if kernel.inside:
        yield f"  the code is wrong as soon as the fusion computes {kernel.inside}"


_WORDS = {
    "RAISES": "raises an error as machine code",
    "DIES": "ends the process as machine code",
    "HANGS": "does not come to an end as machine code",
    "CHANGES": "gives another result as machine code",
    "REFUSED": "is refused by the code generator",
}

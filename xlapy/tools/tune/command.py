"""`xlapy tune`: the command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from xlapy.codegen.tuning import TunedKernel, merged_kernels, tuning_text
from xlapy.cpu.tuned_plans import read_tuning
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import check_writable, read_arguments, read_program, write_file
from xlapy.tools.formats import STABLEHLO_FORMATS, Format, format_of_name, write_module
from xlapy.tools.loading import load_option
from xlapy.tools.tune.annotation import module_with_plans
from xlapy.tools.tune.report import print_report, report_json
from xlapy.tools.tune.search import Settings
from xlapy.tools.tune.tuner import TunedProgram, TuningInterrupted, tune_module

WIDTH = 160
"""Characters per line if the output is not a terminal."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE", help="Arguments: .npy (one) or .npz; random by default."
)
@click.option(
    "--random", "seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of random arguments."
)
@click.option(
    "--tuning-file",
    "--tuning_file",
    type=click.Path(dir_okay=False),
    help="Add the plans to this tuning file, which the flag tuning_file names when programs are compiled.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write the program with its plans; the name tells the form."
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=1), help="Number of kernels to tune.")
@click.option(
    "--time-limit",
    "--time_limit",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for the search.",
)
@click.option(
    "--runs", default=5, show_default=True, type=click.IntRange(min=1), help="Samples of each plan that is tried."
)
@click.option(
    "--min-gain",
    "--min_gain",
    default=0.03,
    show_default=True,
    type=click.FloatRange(min=0, max=1),
    help="The least part of a kernel's time that another plan must save.",
)
@click.option("--json", "report", type=click.Path(dir_okay=False), help="Write all trials and times to this file.")
@load_option("targets of custom calls")
@elided_constants_option
def tune(
    file: str,
    inputs: tuple[str, ...],
    seed: int,
    tuning_file: str | None,
    output: str | None,
    top: int,
    time_limit: float,
    runs: int,
    min_gain: float,
    report: str | None,
    elided_constants: str,
) -> None:
    """Tune FILE (a program; - for standard input): measure other plans of its most expensive kernels on this machine,
    and keep those that make it faster.

    A plan whose results differ from what the operations mean is never kept. Without --tuning-file and --output, only
    shows what tuning gains. Ctrl-C ends the search; the plans found until then are written to the tuning file. Run
    nothing else meanwhile.
    """
    for path in (tuning_file, output, report):
        if path is not None:
            check_writable(path)
    form = None if output is None else format_of_name(output)
    if output is not None and (form is None or form in STABLEHLO_FORMATS):
        raise click.UsageError(f"the name {output} must end as that of an HLO program: StableHLO has no kernel plans")
    names = [str(Path(path).resolve()) for path in (tuning_file, output, report) if path is not None]
    if len(set(names)) < len(names):
        raise click.UsageError("--tuning-file, --output and --json must name different files")
    if math.isnan(time_limit) or math.isnan(min_gain):
        raise click.UsageError("--time-limit and --min-gain must be numbers, not nan")
    if tuning_file is not None:
        _known_kernels(tuning_file)  # fails before the search
    module = read_program(file)
    provide_elided_constants(module, elided_constants)
    shape = module.entry_computation.program_shape
    arguments = read_arguments(inputs, shape) if inputs else random_arguments(shape.parameters, seed)
    settings = Settings(runs, min_gain, seed)
    try:
        with _progress() as progress:
            task = progress.add_task(file, total=None, trial="")
            tuned = tune_module(
                module,
                arguments,
                top=top,
                time_limit=time_limit,
                settings=settings,
                report=lambda number, count, text: progress.update(task, completed=number, total=count, trial=text),
            )
    except TuningInterrupted as interruption:
        if tuning_file is not None and interruption.kernels:
            _write_kernels(tuning_file, interruption.kernels)
        raise
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    print_report(console, tuned)
    if tuning_file is not None:
        _write_kernels(tuning_file, tuned.kernels)
    if output is not None and form is not None:
        _write_program(tuned, output, form)
    if report is not None:
        figures = json.dumps(report_json(tuned), indent=1) + "\n"
        write_file(report, lambda sink: sink.write(figures.encode()))


def _known_kernels(tuning_file: str) -> list[TunedKernel]:
    """Returns the kernels of the file as it is now, which another process may have written during a search."""
    return read_tuning(Path(tuning_file)) if Path(tuning_file).exists() else []


def _write_kernels(tuning_file: str, kernels: list[TunedKernel]) -> None:
    text = tuning_text(merged_kernels(_known_kernels(tuning_file), kernels))
    write_file(tuning_file, lambda sink: sink.write(text.encode()))
    click.echo(f"wrote {len(kernels)} plans to {tuning_file}")


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[trial]}"),
        console=Console(stderr=True),
        transient=True,
    )


def _write_program(tuned: TunedProgram, output: str, form: Format) -> None:
    module, left = module_with_plans(tuned)
    data = write_module(module, form)
    write_file(output, lambda sink: sink.write(data))
    click.echo(f"wrote the program with {len(tuned.kernels) - len(left)} plans to {output}")
    for kernel in left:
        click.echo(f"the plan of {kernel.what} needs --tuning-file: passes change the instructions of its kernel")

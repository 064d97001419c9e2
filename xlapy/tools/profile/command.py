"""`xlapy profile`: the command."""

from __future__ import annotations

import json

import click
from rich.console import Console

from xlapy.runtime import platform_names
from xlapy.tools.elided_constants import elided_constants_option
from xlapy.tools.files import check_writable, write_file
from xlapy.tools.loading import load_option
from xlapy.tools.profile.measuring import compiled_form, traced
from xlapy.tools.profile.page import profile_page
from xlapy.tools.profile.report import print_rows, print_shares
from xlapy.tools.profile.session import profile_of, session_of
from xlapy.tools.profile.timeline import timeline
from xlapy.tools.run.devices import load_program

TOP = 30
WIDTH = 160
"""Characters per line if the output is not a terminal."""


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input", "inputs", multiple=True, metavar="[DEVICE=]FILE", help="Arguments: .npy (one) or .npz, as for run."
)
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of random arguments; 0 if there is no input.",
)
@click.option("--infeed", "infeeds", multiple=True, metavar="[DEVICE=]FILE", help="Infeed values, as for run.")
@click.option("--num-replicas", "--num_replicas", type=click.IntRange(min=1), help="Number of replicas.")
@click.option(
    "--num-partitions", "--num_partitions", type=click.IntRange(min=1), help="Number of partitions per replica."
)
@click.option(
    "--platform",
    help=f"Platform: {', '.join(platform_names())}. By default cpu, or the interpreter if cpu does not support FILE.",
)
@click.option(
    "--repeat", type=click.IntRange(min=1), help="Number of timed runs; by default about two seconds of runs."
)
@click.option(
    "--by",
    type=click.Choice(["instruction", "source", "opcode"]),
    default="instruction",
    show_default=True,
    help="Rows: one per instruction of the optimized program, source line or opcode. The time of a kernel is divided "
    "between its instructions by their work.",
)
@click.option("--top", default=TOP, show_default=True, type=click.IntRange(min=1), help="Number of rows to print.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of a table.")
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write an HTML page with roofline and table.")
@click.option(
    "--perfetto",
    type=click.Path(dir_okay=False),
    help="Write the timeline of one run, for ui.perfetto.dev or chrome://tracing.",
)
@click.option("--remeasure", is_flag=True, help="Measure the peak rates of the machine again.")
@load_option("platforms and targets of custom calls")
@elided_constants_option
def profile(
    file: str,
    inputs: tuple[str, ...],
    seed: int | None,
    infeeds: tuple[str, ...],
    num_replicas: int | None,
    num_partitions: int | None,
    platform: str | None,
    repeat: int | None,
    by: str,
    top: int,
    as_json: bool,
    page: str | None,
    perfetto: str | None,
    remeasure: bool,
    elided_constants: str,
) -> None:
    """Profile FILE (HLO, StableHLO or a file of `xlapy compile`; - for standard input): show where the time of a run
    goes.

    The program runs repeatedly on the same arguments. For each instruction of the optimized program, the table shows
    its time, memory bandwidth, arithmetic rate, and the fraction of the machine's peak that it reaches.

    A program with shardings that split values is partitioned first, and takes global arrays.
    """
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    for path in (page, perfetto):
        if path is not None:
            check_writable(path)
    executable = load_program(platform, file, num_replicas, num_partitions, elided_constants).executable
    if perfetto is not None and executable.platform != "cpu":
        raise click.UsageError(f"--perfetto shows runs on cpu, {executable.name} runs on the {executable.platform}")
    session = session_of(executable, inputs, seed, infeeds)
    found = profile_of(session, repeat, remeasure=remeasure)
    if page is not None:
        text = profile_page(found)
        write_file(page, lambda sink: sink.write(text.encode("ascii")))
    if perfetto is not None:
        program, tables, rate = traced(executable, session.run)
        trace = timeline(compiled_form(program), tables, rate)
        write_file(perfetto, lambda sink: sink.write(trace.encode()))
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    for line in found.summary:
        console.print(line, markup=False)
    if by == "instruction":
        print_rows(console, found, top)
    else:
        print_shares(console, found, by, top)

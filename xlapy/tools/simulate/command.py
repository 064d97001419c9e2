"""`xlapy simulate`: the command."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from xlapy import distributed
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.mesh import MeshShape, parse_mesh
from xlapy.analysis.simulation.presets import PRESETS
from xlapy.analysis.simulation.simulator import Options
from xlapy.analysis.simulation.topology import with_topology
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.module import Module
from xlapy.runtime.collectives.mpi.start import find_launcher
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.loading import load_option
from xlapy.tools.simulate.calibration import calibrated_machine
from xlapy.tools.simulate.links import with_measured_links
from xlapy.tools.simulate.machines import calibrated_path, find_machine, write_machine
from xlapy.tools.simulate.page import simulation_page
from xlapy.tools.simulate.prediction import predicted
from xlapy.tools.simulate.programs import meshes_of, prepared, with_mesh
from xlapy.tools.simulate.report import Report, SweepRow, print_report, print_sweep
from xlapy.tools.simulate.trace import trace_text

TOP = 12
WIDTH = 140
"""Characters per line if the output is not a terminal."""

MAX_DEVICES = 1 << 20


def _custom_calls(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        target, separator, seconds = value.rpartition("=")
        try:
            found[target] = float(seconds)
        except ValueError:
            separator = ""
        if not separator or not 0 <= found[target] < float("inf"):
            raise click.BadParameter(f"{value!r} is not TARGET=SECONDS")
    return found


@click.command()
@click.argument("file", type=click.Path(dir_okay=False), required=False)
@click.option(
    "--devices", type=click.IntRange(1, MAX_DEVICES), help="Number of devices; by default that of the program."
)
@click.option(
    "--machine",
    metavar="NAME|FILE",
    help=f"Description of the machine: {', '.join(PRESETS)}, or a TOML or JSON file. By default this machine.",
)
@click.option(
    "--topology",
    metavar="SIZES",
    help="Sizes of the levels of links from the innermost, as 8x4 or node=8,rack=4. By default those of the machine.",
)
@click.option(
    "--overlap",
    type=click.Choice(["program", "all"]),
    default="program",
    show_default=True,
    help="Which collectives run beside kernels: those with a start and a done in the program, or all, as far as their "
    "operands and users allow.",
)
@click.option(
    "--trip-count", type=click.IntRange(min=0), help="Iterations of loops whose number is unknown; 1 with a warning."
)
@click.option(
    "--custom-call",
    "custom_calls",
    multiple=True,
    metavar="TARGET=SECONDS",
    callback=_custom_calls,
    help="Time of the custom calls of a target.",
)
@click.option(
    "--optimize/--no-optimize",
    default=None,
    help="Whether to run the passes of cpu first, which fuse; by default unless the program is scheduled.",
)
@click.option("--mesh", metavar="AXES", help="Mesh of the shardings, as data=2,model=4, if they do not name it.")
@click.option("--sweep", is_flag=True, help="Simulate every mesh of that many devices with the same axes.")
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure this machine for about a minute, and store its description, by default in the cache directory. Under "
    "mpirun: measure the links between the processes, and add them to that description.",
)
@click.option("--top", default=TOP, show_default=True, type=click.IntRange(min=1), help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of tables.")
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write an HTML page.")
@click.option(
    "--perfetto", type=click.Path(dir_okay=False), help="Write the timeline, for ui.perfetto.dev or chrome://tracing."
)
@load_option("targets of custom calls")
def simulate(
    file: str | None,
    devices: int | None,
    machine: str | None,
    topology: str | None,
    overlap: str,
    trip_count: int | None,
    custom_calls: dict[str, float],
    optimize: bool | None,
    mesh: str | None,
    sweep: bool,
    calibrate: bool,
    top: int,
    as_json: bool,
    page: str | None,
    perfetto: str | None,
) -> None:
    """Simulate FILE (HLO or StableHLO; - for standard input): predict its time and memory on many devices.

    Nothing runs: times come from a description of the machine. A program with shardings is partitioned first.
    """
    if calibrate:
        _calibrate(file, machine)
        return
    if file is None:
        raise click.UsageError("give the FILE of a program, or --calibrate")
    if sweep and (page is not None or perfetto is not None):
        raise click.UsageError("--html and --perfetto show one simulation, not a sweep")
    if mesh is not None and not sweep:
        raise click.UsageError("--mesh is the mesh of the program for --sweep")
    for path in (page, perfetto):
        if path is not None:
            check_writable(path)
    shape = None if mesh is None else parse_mesh(mesh)
    described = find_machine(machine)
    if topology is not None:
        described = with_topology(described, topology)
    options = Options(overlap == "all", trip_count, custom_calls)
    program = read_program(file)
    if sweep:
        rows = list(_sweep(program, shape, devices, optimize, described, options))
        if as_json:
            click.echo(json.dumps([row.to_json() for row in rows], indent=1))
        else:
            print_sweep(_console(), rows)
        return
    module, counts = prepared(program, devices, optimize)
    outcome = predicted(module, described, counts, options)
    report = Report(module.name, described, outcome)
    if page is not None:
        text = simulation_page(report)
        write_file(page, lambda sink: sink.write(text.encode("ascii")))
    if perfetto is not None:
        trace = trace_text(outcome)
        write_file(perfetto, lambda sink: sink.write(trace.encode()))
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=1))
        return
    print_report(_console(), report, top)


def _calibrate(file: str | None, machine: str | None) -> None:
    if file is not None or machine in PRESETS:
        raise click.UsageError("--calibrate measures this machine: give neither a FILE nor the name of a machine")
    path = calibrated_path() if machine is None else Path(machine)
    launcher = find_launcher(os.environ)
    if launcher is not None and launcher.process_count > 1:
        _calibrate_links(path)
        return
    measured = calibrated_machine(click.echo)
    write_machine(measured, path)
    click.echo(f"wrote the description of {measured.name} to {path}")


def _calibrate_links(path: Path) -> None:
    """Adds the links between processes, which mpirun has started, to a description of this machine."""
    distributed.initialize()
    is_first = distributed.process_index() == 0
    measured = with_measured_links(
        find_machine(str(path) if path.exists() else None), _say if is_first else _say_nothing
    )
    if is_first:
        write_machine(measured, path)
        click.echo(f"added the links between {distributed.process_count()} processes to {path}")


def _say(line: str) -> None:
    click.echo(line)


def _say_nothing(_: str) -> None:
    return


def _sweep(
    program: Module,
    mesh: MeshShape | None,
    devices: int | None,
    optimize: bool | None,
    machine: MachineDescription,
    options: Options,
) -> Iterator[SweepRow]:
    """Yields the outcome for each mesh, or the reason why there is none."""
    for wanted in meshes_of(program, devices, mesh):
        copy = with_mesh(program, mesh, wanted)
        try:
            module, counts = prepared(copy, wanted.devices, optimize)
            yield SweepRow(str(wanted), Report(module.name, machine, predicted(module, machine, counts, options)))
        except UnsupportedError as error:
            yield SweepRow(str(wanted), None, str(error))


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console

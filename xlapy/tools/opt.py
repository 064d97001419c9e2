"""`xlapy opt`: parses a program, verifies it, runs passes and prints the result.

Responsible for the command and the names of dumped files. Does not depend on what passes do.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from xlapy.hlo.module import Module
from xlapy.hlo.names import sanitize
from xlapy.passes import PassEvent, PassStatistics, Pipeline, parse_passes, pass_text
from xlapy.passes.catalog import list_passes
from xlapy.text import PrintOptions, print_module
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.loading import load_option

_FORMS = {"long": PrintOptions(), "short": PrintOptions.short(), "canonical": PrintOptions.canonical()}
_WHOLE = PrintOptions(print_large_constants=True)


def _show_passes(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    table = Table("pass", "also", "options", "what it does", box=None)
    for column in table.columns[:2]:
        column.no_wrap = True
    for row in list_passes():
        options = "\n".join(f"{option}={default}" for option, default in row.options.items())
        table.add_row(row.name, "\n".join(row.aliases), options, row.summary)
    Console().print(table)
    context.exit()


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--check", is_flag=True, help="Parse and verify only; print a summary.")
@click.option("--no-verify", is_flag=True, help="Print without verifying.")
@click.option(
    "--passes", default="", help="Passes to run, such as 'dce,fixpoint(simplify,fold-constants{elements=10})'."
)
@click.option(
    "--list-passes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_passes,
    help="List the passes and exit.",
)
@load_option("passes")
@click.option("--verify-each", is_flag=True, help="Verify after each pass, and check that it reports its changes.")
@click.option(
    "--print-changed", is_flag=True, help="Print the module to standard error after each pass that changed it."
)
@click.option("--statistics", is_flag=True, help="Print runs, changes and time of each pass to standard error.")
@click.option(
    "--dump-to",
    type=click.Path(file_okay=False),
    help="Write the module to this folder after each pass that changed it.",
)
@click.option("--form", type=click.Choice(list(_FORMS)), default="long", show_default=True, help="Output form.")
@click.option("--elide-constants", is_flag=True, help="Print constants of more than 10 elements as {...}.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to a file instead of standard output.")
def opt(
    file: str,
    check: bool,
    no_verify: bool,
    passes: str,
    verify_each: bool,
    print_changed: bool,
    statistics: bool,
    dump_to: str | None,
    form: str,
    elide_constants: bool,
    output: str | None,
) -> None:
    """Parse and verify FILE (HLO or StableHLO; - for standard input), run passes over it and print it."""
    if check and (no_verify or output):
        raise click.UsageError("--check neither prints nor skips verification")
    if not passes and (verify_each or print_changed or statistics or dump_to):
        raise click.UsageError("--verify-each, --print-changed, --statistics and --dump-to go with --passes")
    pipeline = Pipeline(parse_passes(passes) if passes else [], verify_each=verify_each, check_changes=verify_each)
    if output is not None:
        check_writable(output)
    module = read_program(file, verify=not no_verify)
    dumper = _ModuleDumper(module, print_changed, dump_to)
    pipeline.on_pass = dumper.dump_after
    pipeline.run(module)
    if statistics:
        _show_statistics(pipeline.statistics)
    if check:
        counts = f"{len(module.computations)} computations, {module.instruction_count} instructions"
        click.echo(f"{module.name}: {counts}, sound")
        return
    text = print_module(module, _FORMS[form].replace(print_large_constants=not elide_constants))
    if output is None:
        click.echo(text.rstrip("\n"))
    else:
        write_file(output, lambda sink: sink.write(text.encode("utf-8", "surrogateescape")))


class _ModuleDumper:
    """Prints and dumps the module after passes."""

    def __init__(self, module: Module, print_changed: bool, dump_to: str | None) -> None:
        self.print_changed = print_changed
        self.folder = None if dump_to is None else Path(dump_to)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(module, 0, "before_passes")

    def dump_after(self, event: PassEvent) -> None:
        if not event.changed:
            return
        if self.print_changed:
            click.echo(f"// after {pass_text(event.pass_)}", err=True)
            click.echo(print_module(event.module, _WHOLE), err=True)
        if self.folder is not None:
            self._write(event.module, event.number + 1, f"after_{event.pass_.name}")

    def _write(self, module: Module, number: int, what: str) -> None:
        assert self.folder is not None
        path = self.folder / f"{sanitize(module.name)}.{number:04}.{what}.txt"
        path.write_bytes(print_module(module, _WHOLE).encode("utf-8", "surrogateescape"))


def _show_statistics(statistics: dict[str, PassStatistics]) -> None:
    table = Table("pass", "runs", "changed", "milliseconds", box=None)
    for name, found in statistics.items():
        table.add_row(name, str(found.runs), str(found.changes), f"{found.seconds * 1e3:.1f}")
    Console(stderr=True).print(table)

"""`xlapy opt`: reads a program, verifies it and prints it.

Owns: the command. Passes join it as they are written.
"""

from __future__ import annotations

import click

from xlapy.text import PrintOptions, print_module
from xlapy.tools.files import check_writable, read_program, write_file

_FORMS = {"long": PrintOptions(), "short": PrintOptions.short(), "canonical": PrintOptions.canonical()}


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--check", is_flag=True, help="Only parse and verify; print nothing but a summary.")
@click.option("--no-verify", is_flag=True, help="Print without verifying.")
@click.option("--form", type=click.Choice(list(_FORMS)), default="long", show_default=True, help="How to print.")
@click.option("--elide-constants", is_flag=True, help="Print constants of more than 10 elements as {...}.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to a file instead of standard output.")
def opt(file: str, check: bool, no_verify: bool, form: str, elide_constants: bool, output: str | None) -> None:
    """Parse, verify and print FILE (HLO text; - for standard input)."""
    if check and (no_verify or output):
        raise click.UsageError("--check neither prints nor skips verification")
    if output is not None:
        check_writable(output)
    module = read_program(file, verify=not no_verify)
    if check:
        counts = f"{len(module.computations)} computations, {module.instruction_count} instructions"
        click.echo(f"{module.name}: {counts}, sound")
        return
    text = print_module(module, _FORMS[form].replace(print_large_constants=not elide_constants))
    if output is None:
        click.echo(text.rstrip("\n"))
    else:
        write_file(output, lambda sink: sink.write(text.encode("utf-8", "surrogateescape")))

"""`xlapy show`: the command. Must not know: how modules are described."""

from __future__ import annotations

import click

from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.native_forms import native_forms
from xlapy.tools.show.page import module_page
from xlapy.tools.show.tree import tree_lines


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write a page (HTML, one file) instead of a tree."
)
@click.option(
    "--optimized",
    is_flag=True,
    help="The module as it runs on cpu, with what fusion decided, and each kernel's loop IR, LLVM and assembly.",
)
def show(file: str, output: str | None, optimized: bool) -> None:
    """Show FILE (HLO text; - for standard input): a tree of its computations, or with -o a page with its graph."""
    if output is not None:
        check_writable(output)
    module = read_program(file)
    native = native_forms(module) if optimized else None
    if native is not None:
        module = native.module
    if output is None:
        for line in tree_lines(module, native):
            click.echo(line)
        return
    page = module_page(module, native)
    write_file(output, lambda sink: sink.write(page.encode("ascii")))

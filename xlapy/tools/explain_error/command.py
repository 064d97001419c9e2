"""`xlapy explain-error`: describes the rule behind the code of an error. Responsible for the command."""

from __future__ import annotations

import difflib

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from xlapy.base.error_codes.code import families, find_code
from xlapy.tools.explain_error import page


@click.command("explain-error")
@click.argument("code", required=False)
def explain_error(code: str | None) -> None:
    """Describe the rule behind the CODE at the end of an error, as in "[E1202]", what to do, and a small program that
    breaks the rule. Without a code, list all codes.
    """
    if code is None:
        _list()
    else:
        found = find_code(code.strip("[]"))
        if found is None:
            known = [str(each) for family in families() for each in family.codes.values()]
            near = difflib.get_close_matches(code.upper(), known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"there is no error code {code!r}{hint}; without a code, the command lists all")
        Console().print(Markdown(page.section(found, "#")))


def _list() -> None:
    table = Table("code", "rule", box=None)
    for family in families():
        table.add_row("", f"[bold]{family.title}[/bold]")
        for code in family.codes.values():
            table.add_row(code, code.rule)
    Console().print(table)

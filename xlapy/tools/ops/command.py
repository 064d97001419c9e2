"""`xlapy ops`: shows the operations and the platforms that run them; also prints pages of docs/reference.

Responsible for the command and its table. The facts come from the op registry and the platforms' tables of rules.
"""

from __future__ import annotations

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from xlapy.opcodes.registry import REGISTRY, OpDef, lookup
from xlapy.tools.ops import builder_page, ops_page
from xlapy.tools.ops.support import TABLES, refusal_of


@click.command()
@click.argument("name", required=False)
@click.option("--family", help="Show only the operations of one family.")
@click.option("--lacking", metavar="PLATFORM", help="Show only operations that a platform does not run, and why.")
@click.option("--markdown", is_flag=True, help="Print Markdown: the page of NAME, or the table of all operations.")
@click.option("--builder", is_flag=True, help="Print the counterparts of XLA's xla_builder.h as Markdown.")
def ops(name: str | None, family: str | None, lacking: str | None, markdown: bool, builder: bool) -> None:
    """Show one operation (constraints, element types, examples), or list all operations and the platforms that run
    them.
    """
    if builder or markdown:
        click.echo(builder_page.markdown() if builder else _markdown(name), nl=False)
    elif name is not None:
        Console().print(Markdown(ops_page.page(lookup(name))))
    elif lacking is not None:
        _list_lacking(lacking, _chosen(family))
    else:
        _list(_chosen(family))


def _markdown(name: str | None) -> str:
    return ops_page.index() if name is None else ops_page.page(lookup(name))


def _chosen(family: str | None) -> list[OpDef]:
    """Selects operations by family and name."""
    families = sorted({op.family for op in REGISTRY.values()})
    if family not in (None, *families):
        raise click.UsageError(f"unknown family {family!r}; families: {', '.join(families)}")
    chosen = (op for op in REGISTRY.values() if family in (None, op.family))
    return sorted(chosen, key=lambda op: (op.family, op.name))


def _list(chosen: list[OpDef]) -> None:
    table = Table("operation", "family", "operands", *TABLES, box=None)
    for op in chosen:
        support = [support_of(platform, op) for platform in TABLES]
        table.add_row(op.name, op.family, str(op.arity), *support, style=None if set(support) == {"yes"} else "dim")
    Console().print(table)
    counts = [f"{sum(not refusal_of(platform, op) for op in chosen)} run on the {platform}" for platform in TABLES]
    click.echo(f"{len(chosen)} operations, {', '.join(counts)}; all of them parse and print")


def support_of(platform: str, op: OpDef) -> str:
    """Returns `yes`, or the reason why the platform does not run the op."""
    reason = refusal_of(platform, op)
    return f"not yet: {reason}" if reason else "yes"


def _list_lacking(platform: str, chosen: list[OpDef]) -> None:
    if platform not in TABLES:
        raise click.UsageError(f"unknown platform {platform!r}; platforms: {', '.join(TABLES)}")
    lacking = [(op, refusal_of(platform, op)) for op in chosen if refusal_of(platform, op)]
    table = Table("operation", "family", "reason", box=None)
    for op, reason in lacking:
        table.add_row(op.name, op.family, reason)
    if lacking:
        Console().print(table)
    click.echo(f"{len(lacking)} of {len(chosen)} operations do not run on the {platform}")

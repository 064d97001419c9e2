"""`xlapy cache`: lists and clears the directory of compiled programs.

Responsible for the command. Does not depend on the contents of the files.
"""

from __future__ import annotations

from datetime import datetime

import click

from xlapy.base import flags
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.storage.compile_cache import CompileCache, named_cache
from xlapy.runtime.system_memory import format_bytes


def _choose(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    """Replaces the directory of the group by that of its command."""
    context.obj = folder or context.obj


_dir_option = click.option(
    "--dir",
    type=click.Path(file_okay=False),
    expose_value=False,
    callback=_choose,
    help="The directory; default: the flag cache_dir.",
)


@click.group()
@click.option("--dir", "folder", type=click.Path(file_okay=False), help="The directory; default: the flag cache_dir.")
@click.pass_context
def cache(context: click.Context, folder: str | None) -> None:
    """Show or clear the directory of compiled programs (XLAPY_FLAGS=--cache_dir=DIR)."""
    context.obj = folder


def _cache(folder: str | None) -> CompileCache:
    folder = folder or str(flags.get("cache_dir"))
    if not folder:
        raise InvalidArgumentError(
            codes.CACHE_IN_USE, "no cache is in use: set XLAPY_FLAGS=--cache_dir=DIR, or give --dir DIR"
        )
    return named_cache(folder)


@cache.command("list")
@_dir_option
@click.pass_obj
def list_(folder: str | None) -> None:
    """List the programs, most recently used first."""
    found = _cache(folder)
    for entry in found.entries():
        used = datetime.fromtimestamp(entry.used).isoformat(" ", "seconds")
        click.echo(f"{entry.key[:12]}  {used}  {format_bytes(entry.size):>10}  {found.name_of(entry)}")


@cache.command()
@_dir_option
@click.pass_obj
def size(folder: str | None) -> None:
    """Print the number of programs and their total size."""
    found = _cache(folder)
    entries = found.entries()
    taken = sum(entry.size for entry in entries)
    click.echo(f"{len(entries)} programs, {format_bytes(taken)} of {format_bytes(found.limit)}, in {found.folder}")


@cache.command()
@_dir_option
@click.pass_obj
def clear(folder: str | None) -> None:
    """Remove all programs."""
    click.echo(f"removed {_cache(folder).clear()} programs")

"""The command line `xlapy` (also `python -m xlapy`): one group, a command a file.

Owns: exit codes (0 done, 1 program error with one clear message, 2 wrong usage) and what happens to internal errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from xlapy.base.errors import XlaError
from xlapy.tools.demo import demo
from xlapy.tools.opt import opt
from xlapy.tools.ops import ops
from xlapy.tools.reproducer import write_reproducer
from xlapy.tools.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xlapy")
def cli() -> None:
    """XLA in Python: check, print and run HLO programs."""


for command in (run, opt, ops, demo):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process."""
    sys.exit(invoke(sys.argv[1:] if arguments is None else arguments))


def invoke(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    try:
        result = cli.main(list(arguments), prog_name="xlapy", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        click.echo("xlapy: interrupted", err=True)
        return 1
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (XlaError, OSError) as error:
        click.echo(f"xlapy: {_message(error)}", err=True)
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:  # our own bug: keep what is needed to find it
        folder = write_reproducer(arguments, error)
        click.echo(f"xlapy: internal error: {type(error).__name__}: {error}", err=True)
        click.echo(f"xlapy: a folder that reproduces it was written to {folder}; please report it", err=True)
        return 1


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)

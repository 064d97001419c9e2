"""The command line `xlapy` (also `python -m xlapy`): one group, a command a file.

Owns: exit codes (0 done, 1 program error with one clear message, 2 wrong usage) and what happens to internal errors.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from xlapy.base.errors import XlaError
from xlapy.runtime.engine.memory import limit_memory
from xlapy.tools.files import StandardInput
from xlapy.tools.reproducer import write_reproducer

COMMANDS = (
    "run", "compile", "convert", "opt", "show", "profile", "explain", "diff", "bisect", "bench", "ops", "fuzz",
    "reduce", "cache", "demo",
)  # fmt: skip
"""Each is the attribute of its name in the module `xlapy.tools.<name>`, loaded when it is asked for."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"xlapy.tools.{cmd_name}"), cmd_name)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xlapy")
def cli() -> None:
    """XLA in Python: check, print and run HLO programs."""


def main() -> None:
    """Runs the command line and exits the process."""
    limit_memory()
    if isinstance(sys.stdout, io.TextIOWrapper):  # HLO text is UTF-8 whatever the terminal's language
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit code."""
    standard_input = StandardInput()
    try:
        result = cli.main(list(arguments), prog_name="xlapy", standalone_mode=False, obj=standard_input)
        return result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _fail("interrupted")
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (XlaError, OSError) as error:
        return _fail(_message(error))
    except MemoryError as error:
        return _fail(f"out of memory: {error}" if str(error) else "out of memory")
    except Exception as error:  # our own bug: keep what is needed to find it
        return _fail_internally(arguments, error, standard_input)


def _fail(message: str) -> int:
    click.echo(f"xlapy: {message}", err=True)
    return 1


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _fail_internally(arguments: Sequence[str], error: Exception, standard_input: StandardInput) -> int:
    _fail(f"internal error: {type(error).__name__}: {error}")
    try:
        folder = write_reproducer(arguments, error, standard_input.data)
    except (OSError, XlaError) as obstacle:
        return _fail(f"a folder that reproduces it could not be written: {_message(obstacle)}")
    return _fail(f"a folder that reproduces it was written to {folder}; please report it")

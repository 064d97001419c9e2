"""The command line `xlapy` (also `python -m xlapy`): one group, one module or folder per command.

Responsible for exit codes (0 success, 1 program error with one clear message, 2 wrong usage, 130 Ctrl-C) and for
internal errors.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import click

from xlapy.base.error_codes.execution.running import OUT_OF_MEMORY
from xlapy.base.errors import XlaError
from xlapy.runtime.system_memory import limit_memory
from xlapy.tools.reproducer import StandardInput, write_reproducer

COMMANDS = {
    "run": "Run a program and show the results.",
    "compile": "Compile a program to a file of machine code.",
    "convert": "Convert a program to another format.",
    "opt": "Parse, verify, run passes, print.",
    "show": "Show a module as a tree or an interactive page.",
    "profile": "Show where the time of a run goes.",
    "tune": "Measure other plans of a program's kernels, and keep the faster ones.",
    "simulate": "Predict the time and memory of a program on a cluster.",
    "explain": "Follow one instruction from source line to assembly.",
    "explain-error": "Describe the rule behind the code of an error.",
    "diff": "Compare two modules, or a module before and after each pass.",
    "bisect": "Find the pass or kernel that makes a program wrong.",
    "bench": "Time programs on cpu and on XLA:CPU.",
    "ops": "Show the operations and the platforms that run them.",
    "fuzz": "Compare the interpreter with XLA on random programs.",
    "reduce": "Find the smallest program that a check still finds interesting.",
    "cache": "Show or clear the cache of compiled programs.",
    "demo": "Train a classifier of handwritten digits.",
}
"""The commands with their help lines, in order. Each is the attribute of its name in `xlapy.tools.<name>`, with
`_` for `-`."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as of shells: 128 and the number of SIGINT."""


class _LazyGroup(click.Group):
    """Imports the module of a command when the command is used; listing the commands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        attribute = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"xlapy.tools.{attribute}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xlapy")
def cli() -> None:
    """XLA in Python: check, print and run HLO programs."""


def main() -> None:
    """Runs the command line and exits the process."""
    limit_memory()
    if isinstance(sys.stdout, io.TextIOWrapper):  # HLO text is UTF-8, independent of the terminal's locale
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Runs the command line and returns the exit code."""
    standard_input = StandardInput()
    try:
        result = cli.main(list(arguments), prog_name="xlapy", standalone_mode=False, obj=standard_input)
        return result if isinstance(result, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        _fail("interrupted")
        return INTERRUPTED
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (XlaError, OSError) as error:
        return _fail(_message(error), error)
    except MemoryError as error:
        what = f"out of memory: {error}" if str(error) else "out of memory"
        return _fail(f"{what} [{OUT_OF_MEMORY}]", error)
    except Exception as error:  # an internal error: save what is needed to reproduce it
        caught = error
        _show_once(error, lambda: _fail_internally(arguments, caught, standard_input))
        return 1


def _fail(message: str, error: BaseException | None = None) -> int:
    """Prints a message; that of an error, once if several processes have the error. Returns the exit code."""

    def show() -> None:
        click.echo(f"xlapy: {message}", err=True)

    if error is None:
        show()
    else:
        _show_once(error, show)
    return 1


def _show_once(error: BaseException, show: Callable[[], object]) -> None:
    from xlapy.runtime.collectives.error_reports import show_once

    show_once(error, show)


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

"""`xlapy reduce`: finds the smallest program that a command still finds interesting.

Responsible for the command's options, for running the check, and for the file of the best program so far. Does not
depend on how programs are reduced.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.debugging.reducing import Progress, reduce_module
from xlapy.hlo.module import Module
from xlapy.tools.files import check_writable, read_program, write_file

_PLACE = "{file}"


@dataclass(frozen=True, slots=True)
class _Check:
    """A command that checks a file. The file is interesting if the command exits with the expected code and prints the
    expected text.
    """

    words: tuple[str, ...]
    exit_code: int
    match: str | None
    seconds: float
    folder: Path

    def __call__(self, module: Module) -> bool:
        """Runs the check. On a timeout, kills the command and its children; the file then is not interesting."""
        file = self.folder / "module.hlo"
        file.write_text(module.to_text(print_large_constants=True), errors="surrogateescape")
        words = [word.replace(_PLACE, str(file)) for word in self.words]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                return False
            finally:
                _stop(process)
            if code != self.exit_code:
                return False
            said.seek(0)
            return self.match is None or self.match in said.read().decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--check", "command", required=True, help="Command that checks a program; {file} stands for its file.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Output file; default FILE.reduced.hlo.")
@click.option("--expect-exit", default=0, show_default=True, help="Exit code of an interesting program.")
@click.option("--match", help="Text that the command must also print.", metavar="TEXT")
@click.option(
    "--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0.01), help="Maximum seconds per check."
)
def reduce(file: str, command: str, output: str | None, expect_exit: int, match: str | None, timeout: float) -> None:
    """Reduce FILE (HLO text) to the smallest program that --check still finds interesting.

    A program is interesting if the command exits with 0 (or the code of --expect-exit; -6 means killed by signal 6)
    and, with --match, prints the given text. Only valid programs are tried. The output file always holds the best
    program so far, also after an interruption.
    """
    target = output or (f"{file.removesuffix('.hlo')}.reduced.hlo" if file != "-" else "reduced.hlo")
    check_writable(target)
    module = read_program(file)
    words = _words(command)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="xlapy-reduce-") as folder:
        check = _Check(words, expect_exit, match, timeout, Path(folder))
        if not check(module):
            raise InvalidArgumentError(
                codes.INTERESTING_PROGRAM,
                f"the check does not find {file} interesting to begin with: {shlex.join(words)} must exit with "
                f"{expect_exit} within {timeout:g} seconds" + (f" and print {match!r}" if match else ""),
            )
        _write(target, module)
        best = _reduce(module, check, target, console)
    click.echo(f"{module.instruction_count} instructions reduced to {best.instruction_count}: {target}")


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--check") from error
    if not words:
        raise click.BadParameter("the command is empty", param_hint="--check")
    return words if any(_PLACE in word for word in words) else (*words, _PLACE)


def _reduce(module: Module, check: Callable[[Module], bool], target: str, console: Console) -> Module:
    """Writes each module that is kept. An interruption ends the search but keeps the result."""
    best = module
    with console.status("reducing") as status:

        def report(progress: Progress) -> None:
            nonlocal best
            if progress.best is not best:
                best = progress.best
                _write(target, best)
            size = f"{best.instruction_count} instructions"
            status.update(f"{size}, {progress.kept} of {progress.tried} changes kept, trying {progress.name}")

        try:
            return reduce_module(module, check, report)
        except KeyboardInterrupt:
            console.print("interrupted")
            return best


def _write(path: str, module: Module) -> None:
    text = module.to_text(print_large_constants=True)
    write_file(path, lambda sink: sink.write(text.encode("utf-8", "surrogateescape")))

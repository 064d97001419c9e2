"""`xlapy reduce`: the smallest program that a command still finds interesting.

Owns: the command's options, how the check is run, and the file of the best program so far. Must not know: how programs
are made smaller.
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

from xlapy.base.errors import InvalidArgumentError
from xlapy.debugging.reducing import Progress, reduce_module
from xlapy.hlo.module import Module
from xlapy.tools.files import check_writable, read_program, write_file

_PLACE = "{file}"


@dataclass(frozen=True, slots=True)
class _Check:
    """A command that judges a file: interesting if it exits as expected, and says what is looked for."""

    words: tuple[str, ...]
    exit_code: int
    match: str | None
    seconds: float
    folder: Path

    def __call__(self, module: Module) -> bool:
        """One that does not end in time is stopped, with all it started, and finds nothing interesting."""
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
    """Ends the process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--check", "command", required=True, help="Command that judges a file, which stands for {file} in it.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The reduced program; default FILE.reduced.hlo.")
@click.option("--expect-exit", default=0, show_default=True, help="Exit code that means: still interesting.")
@click.option("--match", help="Text that the command must print, too.", metavar="TEXT")
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0.01), help="Seconds a check.")
def reduce(file: str, command: str, output: str | None, expect_exit: int, match: str | None, timeout: float) -> None:
    """Reduce FILE (HLO text) to the smallest program that --check still finds interesting.

    The command finds a program interesting by exit code 0 (or that of --expect-exit; -6 is death by signal 6), and by
    what it prints, if --match says so. Only sound programs are tried. The output always holds the best so far, also
    when the command is interrupted.
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
                f"the check does not find {file} interesting to begin with: {shlex.join(words)} must exit with "
                f"{expect_exit} within {timeout:g} seconds" + (f" and print {match!r}" if match else "")
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
    """Writes each module that is kept; an interruption ends the search, not the result."""
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

"""`mpirun -n 4 xlapy run`: the processes of a run, which print one report.

All processes execute the command. What a process prints is collected and printed by process 0, in the order of the
devices. If a step fails in some processes, the first of them reports its error, and the others exit with the same code
and without a message.

Responsible for what the processes tell each other. Does not depend on what the command does.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from xlapy import distributed
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.collectives.mpi.start import find_launcher
from xlapy.runtime.collectives.process_group import ProcessGroup, current_process_group
from xlapy.runtime.device import collective_timeout

T = TypeVar("T")

_STEP_SECONDS = 24 * 3600.0
"""How long processes wait for each other between steps. Reading, compiling and comparing take as long as they take; a
process that ends is noticed at once."""


class RunProcesses:
    """The processes of a run. group: None if this process is alone."""

    def __init__(self, group: ProcessGroup | None) -> None:
        self._group = group

    @property
    def index(self) -> int:
        return 0 if self._group is None else self._group.process_index

    @property
    def count(self) -> int:
        return 1 if self._group is None else self._group.process_count

    @property
    def prints(self) -> bool:
        """Whether this process prints the report."""
        return self.index == 0

    def together(self, what: str, action: Callable[[], T]) -> T:
        """Performs an action in all processes; returns its value.

        what: names the action in errors. If it fails in some processes, the first of them raises its error; the others
        exit with the same code.
        """
        if self._group is None:
            return action()
        value: list[T] = []
        error: Exception | None = None
        try:
            value.append(action())
        except Exception as caught:  # every error must reach the other processes, which wait for this one
            error = caught
        codes_of_processes = self.gather(_exit_code(error), what)
        failed = [process for process, code in enumerate(codes_of_processes) if code]
        if error is not None and failed[0] == self.index:
            raise error
        if failed:
            raise SystemExit(codes_of_processes[failed[0]])
        return value[0]

    def gather(self, value: Any, what: str) -> list[Any]:
        """Returns the values that the processes give, in their order."""
        if self._group is None:
            return [value]
        return self._group.allgather(value, what=what, timeout=max(_STEP_SECONDS, collective_timeout()))

    def print_in_order(self, texts: Mapping[int, str]) -> None:
        """Prints the texts of all processes in the order of their numbers, as those of devices."""
        gathered = self.gather(dict(texts), "what a process prints")
        if self.prints:
            for _, text in sorted((number, text) for one in gathered for number, text in one.items()):
                click.echo(text, nl=False)

    def devices_per_process(self, name: str, devices: int) -> int:
        """Returns how many devices each process has for a program; `InvalidArgumentError` if they would differ.

        name: of the program, for errors.
        """
        if devices % self.count:
            raise InvalidArgumentError(
                codes.RUN_DEVICES,
                f"{name} runs on {devices} devices, which {self.count} processes cannot share equally: start "
                f"{_divisors_text(devices)} processes, or change --num-replicas or --num-partitions",
            )
        return devices // self.count


def join_processes() -> RunProcesses:
    """Returns the processes that mpirun has started; makes them a process group if they are several."""
    launcher = find_launcher(os.environ)
    if launcher is None or launcher.process_count == 1:
        return RunProcesses(None)
    if not distributed.is_initialized():
        distributed.initialize()
    return RunProcesses(current_process_group())


def is_silent() -> bool:
    """Whether another process reports errors that all processes find in their arguments."""
    launcher = find_launcher(os.environ)
    return launcher is not None and launcher.process_index > 0


def printed(show: Callable[[], None]) -> str:
    """Returns what a function prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        show()
    return output.getvalue()


def _exit_code(error: Exception | None) -> int:
    """The exit code of a process that ends with an error; 0 without an error."""
    if error is None:
        return 0
    return error.exit_code if isinstance(error, click.ClickException) else 1


def _divisors_text(number: int) -> str:
    """`1, 2 or 4` for 4."""
    divisors = [str(one) for one in range(1, number + 1) if number % one == 0]
    return " or ".join([", ".join(divisors[:-1]), divisors[-1]] if len(divisors) > 1 else divisors)

"""The options of `xlapy run`, and which of them exclude each other.

Responsible for these rules. Does not depend on what the command does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import click

from xlapy.base.errors import InvalidArgumentError
from xlapy.runtime.engine.observe import trace
from xlapy.runtime.values import Observer
from xlapy.tools.files import check_writable
from xlapy.tools.run.processes import RunProcesses


@dataclass(frozen=True)
class RunOptions:
    """The options, by the names of their parameters in the command."""

    file: str
    inputs: tuple[str, ...]
    seed: int | None
    infeeds: tuple[str, ...]
    num_replicas: int | None
    num_partitions: int | None
    platform: str | None
    print_values: bool
    save: str | None
    repeat: int
    traced: str | None
    compared: str | None
    nans: bool
    infs: bool
    elided_constants: str

    @property
    def chosen_platform(self) -> str | None:
        """The platform to run on; None for the default one, which may give way to the interpreter."""
        if self.platform is not None or (self.traced is None and self.compared is None):
            return self.platform
        return "interpreter" if self.compared is None else "cpu"

    @property
    def shows_results(self) -> bool:
        """Whether to print results."""
        return (self.print_values or self.save is None) and self.compared is None


def check_options(options: RunOptions, processes: RunProcesses) -> Observer | None:
    """Refuses options that exclude each other. Returns the observer of instructions, if there is to be one."""
    if options.inputs and options.seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if options.compared is not None:
        _check_compared(options)
    if processes.count > 1 and options.traced is not None:
        raise click.UsageError("--trace runs in one process: start xlapy without mpirun")
    if processes.count > 1 and options.compared == "interpreter":
        raise click.UsageError("--compare interpreter runs in one process: start xlapy without mpirun")
    if options.save is not None and processes.prints:
        check_writable(options.save)
    return _observer(options.traced)


def _check_compared(options: RunOptions) -> None:
    if options.platform == "interpreter" and options.compared == "interpreter":
        raise click.UsageError("--compare interpreter compares another platform with it: give --platform")
    others = [options.save, options.traced, options.infeeds, options.nans, options.infs, options.repeat > 1]
    if any(others):
        raise click.UsageError("--compare goes with arguments, --platform and --print only")


def _observer(traced: str | None) -> Observer | None:
    if traced is None:
        return None
    try:
        return trace(_echo_with_device, traced)
    except InvalidArgumentError as error:
        raise click.BadParameter(error.message, param_hint="--trace") from error


def _echo_with_device(line: str) -> None:
    """Prints the device's name on the thread of a device, if there are several."""
    thread = threading.current_thread()
    click.echo(line if thread is threading.main_thread() else f"{thread.name}: {line}")

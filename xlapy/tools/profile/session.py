"""A program with its arguments, ready to run repeatedly, and the profile of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.runtime import Executable
from xlapy.runtime.buffer import block_until_ready, copy_to_buffer
from xlapy.runtime.machine import machine_roofline
from xlapy.runtime.values import Observer
from xlapy.tools.memory import program_memory
from xlapy.tools.profile.interpreted import interpreted
from xlapy.tools.profile.measuring import measure
from xlapy.tools.profile.native import host_callbacks, native_rows
from xlapy.tools.profile.report import Profile
from xlapy.tools.run.arguments import arguments_of
from xlapy.tools.run.devices import files_of_devices, infeed_values, with_feeds

_INTERPRETED_RUNS = 3


@dataclass
class Session:
    """An executable, the arguments of each device, and the infeed values of each run."""

    executable: Executable
    arguments: Sequence[Sequence[Any]]
    fed: Sequence[Sequence[Any]] = ()
    _outfed: list[list[Any]] = field(default_factory=list["list[Any]"])

    def __post_init__(self) -> None:
        """Converts arguments to buffers, which are the fastest to pass, except for donated arguments."""
        if not self.executable.donated and self.executable.platform == "cpu":
            self.arguments = [[_as_buffer(value) for value in given] for given in self.arguments]
        self.fed = self.fed or [[] for _ in self.arguments]
        met = {instruction.op for instruction in self.executable.module.instructions()}
        self._is_plain = len(self.arguments) == 1 and not met & {opcodes.INFEED, opcodes.OUTFEED}

    def run(self, executable: Executable, observer: Observer | None = None) -> None:
        """Runs a program once on the arguments, and waits for its results: long programs return before they finish."""
        if self._is_plain:
            block_until_ready(executable(*self.arguments[0], observer=observer))
            return

        def execute() -> Any:
            if len(self.arguments) == 1:
                return block_until_ready(executable(*self.arguments[0], observer=observer))
            return block_until_ready(executable.execute_sharded(self.arguments, observer=observer))

        with_feeds(executable.devices, self.fed, execute, self._outfed)


def _as_buffer(value: Any) -> Any:
    return copy_to_buffer(value) if isinstance(value, np.ndarray) else value


def session_of(
    executable: Executable, inputs: tuple[str, ...], seed: int | None, infeeds: tuple[str, ...] = ()
) -> Session:
    """Returns a program with the arguments in files, or with random ones; without either, random ones from seed 0."""
    arguments: list[list[Any]] = arguments_of(executable, inputs, 0 if seed is None and not inputs else seed)
    fed = infeed_values(executable.module, files_of_devices("--infeed", infeeds, len(executable.devices)))
    return Session(executable, arguments, fed)


def profile_of(session: Session, repeat: int | None, *, remeasure: bool = False) -> Profile:
    """Returns the profile of a program. On cpu, compares its rows with the limits of the machine, which it measures
    again on request.
    """
    executable = session.executable
    devices = len(executable.devices)
    if executable.platform == "cpu":
        machine = machine_roofline(anew=remeasure)
        measured = measure(executable, session.run, repeat)
        rows = native_rows(measured, machine)
        return Profile(
            measured.compiled.module, "cpu", rows, measured.wall, measured.instrumented_wall, measured.runs, machine,
            devices, host_callbacks(measured, rows), program_memory(measured.compiled),
        )  # fmt: skip
    runs = repeat or _INTERPRETED_RUNS
    rows, wall = interpreted(executable.module, lambda observer: session.run(executable, observer), runs, devices)
    return Profile(executable.module, executable.platform, rows, wall, wall, runs, None, devices)

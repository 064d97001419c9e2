"""What runs in a process of its own while a program is bisected: passes, the interpreter, machine code.

`serve` is the function of the worker. Any of its tasks may raise, hang, or end the process.

Owns: the tasks. Must not know: what is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.loading import load_user_code
from xlapy.cpu import compiler
from xlapy.debugging.bisecting.values import first_change
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.passes import Fixpoint, Pass, PassEvent, Pipeline, parse_passes, pass_text
from xlapy.runtime import Client, Executable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.device import Device
from xlapy.text import parse_hlo

Value = Any
Emit = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Started:
    """A run of a pass that begins. place: of the pass in its pipeline, `11.0` for the first of group 11."""

    number: int
    place: str
    name: str
    round: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The same run over. text: of the module, if it is another than before; reported: what the pass says of that.

    broken: which rule the module breaks now, "" if none.
    """

    text: str | None
    reported: bool
    broken: str = ""


def serve(task: str, loads: Sequence[str], *arguments: Any, **keywords: Any) -> Any:
    """Carries out a task, by its name, after loading files or modules of Python that it needs."""
    for name in loads:
        load_user_code(name)
    with np.errstate(all="ignore"):
        return _TASKS[task](*arguments, **keywords)


# -- passes


def run_passes(text: str, chosen: str | None, only: str | None, emit: Emit) -> None:
    """Runs passes over a module and tells of each run, before and behind it; the passes of cpu if none are chosen.

    only: a place; no other pass runs then. The first rule that the module breaks is told, and ends the run.
    """
    module = parse_hlo(text)
    listed = compiler.passes() if chosen is None else parse_passes(chosen) if chosen else []
    places = dict(_places(listed))
    watch = _Watch(module, places, emit)
    pipeline = Pipeline([_pass_at(listed, places, only)] if only else listed, on_pass=watch.end, on_start=watch.start)
    try:
        pipeline.run(module)
    except _Broken:
        return


class _Broken(Exception):
    """The module is not sound any more."""


class _Watch:
    def __init__(self, module: Module, places: dict[int, str], emit: Emit) -> None:
        self._text = _text(module)
        self._places = places
        self._emit = emit

    def start(self, number: int, pass_: Pass, round_: int) -> None:
        self._emit(Started(number, self._places[id(pass_)], pass_text(pass_), round_))

    def end(self, event: PassEvent) -> None:
        text = _text(event.module)
        broken = _broken(event.module) if text != self._text else ""
        self._emit(Ended(text if text != self._text else None, event.changed, broken))
        self._text = text
        if broken:
            raise _Broken


def _broken(module: Module) -> str:
    try:
        verify(module)
    except XlaError as error:
        return str(error)
    return ""


def _places(listed: Sequence[Pass], before: str = "") -> Iterator[tuple[int, str]]:
    """Passes by identity: two of the same options are equal."""
    for number, pass_ in enumerate(listed):
        place = f"{before}{number}"
        yield id(pass_), place
        if isinstance(pass_, Fixpoint):
            yield from _places(pass_.passes, f"{place}.")


def _pass_at(listed: Sequence[Pass], places: dict[int, str], place: str) -> Pass:
    for pass_ in listed:
        if places[id(pass_)] == place:
            return pass_
        if isinstance(pass_, Fixpoint) and place.startswith(f"{places[id(pass_)]}."):
            return _pass_at(pass_.passes, places, place)
    known = ", ".join(f"{places[id(pass_)]} {pass_.name}" for pass_ in listed)
    raise InvalidArgumentError(f"the pipeline has no pass at place {place}; there are {known}")


def _text(module: Module) -> str:
    return module.to_text(print_large_constants=True)


# -- programs


def run_platform(text: str, arguments: Sequence[Sequence[Value]], platform: str, replicas: int) -> list[Value]:
    """The results of a program on each device of a platform; arguments are given for each device."""
    client = Client(platform, devices=len(arguments))
    executable = client.compile(text, replicas, len(arguments) // replicas)
    return _results(executable, arguments)


def run_optimized(text: str, arguments: Sequence[Sequence[Value]], replicas: int) -> list[Value]:
    """The results of a module that has cpu's passes behind it, as machine code."""
    module = parse_hlo(text)
    verify(module)
    partitions = len(arguments) // replicas
    compiled = compiler.compile_module(module, (), replicas, partitions, optimized=True)
    program = CpuProgram(compiled, module.entry_computation.program_shape, (), partitions)
    devices = [Device(number, "cpu") for number in range(len(arguments))]
    return _results(Executable(module, program, "cpu", devices, replicas, partitions), arguments)


def _results(executable: Executable, arguments: Sequence[Sequence[Value]]) -> list[Value]:
    if len(arguments) == 1:
        return [plain(executable(*arguments[0]))]
    return [plain(result) for result in executable.execute_sharded(arguments)]


def find_change(before: str, after: str, arguments: Sequence[Value]) -> list[str]:
    """What `first_change` says of two modules."""
    return first_change(parse_hlo(before), parse_hlo(after), arguments)


_TASKS: dict[str, Callable[..., Any]] = {
    "passes": run_passes,
    "platform": run_platform,
    "optimized": run_optimized,
    "change": find_change,
}

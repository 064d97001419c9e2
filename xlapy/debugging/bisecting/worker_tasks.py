"""The tasks that the child process of a bisection executes: running passes, the interpreter and machine code.

The worker calls `serve`. Each task may raise an error, hang, or end the process. Does not depend on what the bisection
searches for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.loading import load_user_code
from xlapy.cpu import compiler
from xlapy.debugging.bisecting.changed_values import describe_first_change
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.passes import Fixpoint, Pass, PassEvent, Pipeline, parse_passes, pass_text
from xlapy.runtime import Client, Executable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.device import Device
from xlapy.testing.program_tolerance import ProgramTolerance, sharded_tolerances
from xlapy.text import parse_hlo

Value = Any
Emit = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class PassStarted:
    """Message sent before a run of a pass. position: its position in the pipeline, `11.0` for the first pass of group
    11.
    """

    run_number: int
    position: str
    name: str
    iteration: int


@dataclass(frozen=True, slots=True)
class PassEnded:
    """Message sent after a run of a pass.

    text: the module, if it changed. reported_change: whether the pass reported a change. verifier_error: the error of
    the verifier if the module is now invalid, "" otherwise.
    """

    text: str | None
    reported_change: bool
    verifier_error: str = ""


def serve(task: str, loads: Sequence[str], *arguments: Any, **keywords: Any) -> Any:
    """Executes the task of a name, after loading the Python files or modules that it needs."""
    for name in loads:
        load_user_code(name)
    with np.errstate(all="ignore"):
        return _TASKS[task](*arguments, **keywords)


# -- passes


def run_passes(text: str, passes: str | None, only_position: str | None, emit: Emit) -> None:
    """Runs passes on a module and emits a message before and after each run. Stops at the first invalid module.

    passes: the passes as text; None for those of cpu. only_position: the position of the only pass that runs, if given.
    """
    module = parse_hlo(text)
    pipeline_passes = compiler.passes() if passes is None else parse_passes(passes) if passes else []
    positions = dict(_positions(pipeline_passes))
    reporter = _PassReporter(module, positions, emit)
    if only_position:
        pipeline_passes = [_pass_at(pipeline_passes, positions, only_position)]
    try:
        Pipeline(pipeline_passes, on_pass=reporter.end, on_start=reporter.start).run(module)
    except _InvalidModuleError:
        return


class _InvalidModuleError(Exception):
    """The module is no longer valid."""


class _PassReporter:
    def __init__(self, module: Module, positions: dict[int, str], emit: Emit) -> None:
        self._text = _full_text(module)
        self._positions = positions
        self._emit = emit

    def start(self, number: int, pass_: Pass, iteration: int) -> None:
        self._emit(PassStarted(number, self._positions[id(pass_)], pass_text(pass_), iteration))

    def end(self, event: PassEvent) -> None:
        text = _full_text(event.module)
        error = _verifier_error(event.module) if text != self._text else ""
        self._emit(PassEnded(text if text != self._text else None, event.changed, error))
        self._text = text
        if error:
            raise _InvalidModuleError


def _verifier_error(module: Module) -> str:
    try:
        verify(module)
    except XlaError as error:
        return str(error)
    return ""


def _positions(passes: Sequence[Pass], prefix: str = "") -> Iterator[tuple[int, str]]:
    """Yields the identity and the position of each pass. Identity, because two passes with the same options are
    equal."""
    for number, pass_ in enumerate(passes):
        position = f"{prefix}{number}"
        yield id(pass_), position
        if isinstance(pass_, Fixpoint):
            yield from _positions(pass_.passes, f"{position}.")


def _pass_at(passes: Sequence[Pass], positions: dict[int, str], position: str) -> Pass:
    for pass_ in passes:
        if positions[id(pass_)] == position:
            return pass_
        if isinstance(pass_, Fixpoint) and position.startswith(f"{positions[id(pass_)]}."):
            return _pass_at(pass_.passes, positions, position)
    known = ", ".join(f"{positions[id(pass_)]} {pass_.name}" for pass_ in passes)
    raise InvalidArgumentError(
        codes.PASS_POSITION, f"the pipeline has no pass at position {position}; there are {known}"
    )


def _full_text(module: Module) -> str:
    return module.to_text(print_large_constants=True)


# -- programs


def run_platform(text: str, arguments: Sequence[Sequence[Value]], platform: str, replicas: int) -> list[Value]:
    """Returns the results of a program on each device of a platform. The arguments are given for each device."""
    client = Client(platform, devices=len(arguments))
    executable = client.compile(text, replicas, len(arguments) // replicas)
    return _results(executable, arguments)


def run_optimized(text: str, arguments: Sequence[Sequence[Value]], replicas: int) -> list[Value]:
    """Compiles an optimized module without running passes. Returns its results on each device."""
    module = parse_hlo(text)
    verify(module)
    partitions = len(arguments) // replicas
    compiled = compiler.compile_module(module, (), replicas, partitions, optimized=True)
    program = CpuProgram(compiled, module.entry_computation.program_shape, (), partitions)
    devices = [Device(number, "cpu") for number in range(len(arguments))]
    return _results(Executable(module, program, "cpu", devices, replicas, partitions), arguments)


def interpret(
    text: str, arguments: Sequence[Sequence[Value]], replicas: int, flush_denormals: bool, excess_precision: bool
) -> list[ProgramTolerance]:
    """Returns the results of a program on each device of the interpreter, with their tolerances."""
    return sharded_tolerances(
        parse_hlo(text), arguments, replicas, flush_denormals=flush_denormals, excess_precision=excess_precision
    )


def _results(executable: Executable, arguments: Sequence[Sequence[Value]]) -> list[Value]:
    if len(arguments) == 1:
        return [plain(executable(*arguments[0]))]
    return [plain(result) for result in executable.execute_sharded(arguments)]


def find_change(before: str, after: str, arguments: Sequence[Value]) -> list[str]:
    """Runs `describe_first_change` on the texts of two modules."""
    return describe_first_change(parse_hlo(before), parse_hlo(after), arguments)


_TASKS: dict[str, Callable[..., Any]] = {
    "passes": run_passes,
    "interpret": interpret,
    "platform": run_platform,
    "optimized": run_optimized,
    "change": find_change,
}

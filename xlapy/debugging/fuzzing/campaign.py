"""One seed of a fuzzing campaign: generates a module, compares it, and reduces the faults found.

Responsible for the settings of a campaign (`Settings`), the result of a seed (`Report`) and the saved form of a fault
(`Finding`). All are plain data, because seeds are examined in child processes. Does not depend on the number of seeds
or on output.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.debugging.fuzzing.differential import BAD, Outcome, Verdict, arguments_of, compare
from xlapy.debugging.fuzzing.implementations import XLA, Implementation, find_implementation, plain
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError
from xlapy.debugging.reducing import reduce_module
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.hlo.verify import verify
from xlapy.runtime import Client
from xlapy.testing.instruction_by_instruction import flat_module
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.random_modules.module import FAMILIES
from xlapy.text import parse_hlo

Value = Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How modules are generated, and which implementation they are compared with."""

    against: str = XLA
    size: int = 20
    families: tuple[str, ...] = tuple(FAMILIES)
    types: tuple[PrimitiveType, ...] = ARRAY_TYPES

    def module(self, seed: int) -> Module:
        implementation = find_implementation(self.against)
        return random_module(
            seed,
            instructions=self.size,
            element_types=self.types,
            families=self.families,
            without=implementation.without,
        )


@dataclass(slots=True)
class Report:
    """The verdicts on the instructions of some modules, by op and verdict and by class of known divergence; faults as
    texts.
    """

    modules: int = 0
    verdicts: Counter[tuple[str, Verdict]] = field(default_factory=Counter[tuple[str, Verdict]])
    known_divergences: Counter[str] = field(default_factory=Counter[str])
    faults: list[Fault] = field(default_factory=list["Fault"])

    def add(self, other: Report) -> None:
        self.modules += other.modules
        self.verdicts += other.verdicts
        self.known_divergences += other.known_divergences
        self.faults += other.faults

    def count(self, verdict: Verdict) -> int:
        return sum(count for (_, v), count in self.verdicts.items() if v is verdict)


@dataclass(frozen=True, slots=True)
class Fault:
    """A faulty instruction of a seed's module; `op` is "" for the module as a whole."""

    seed: int
    verdict: Verdict
    op: str
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault reduced to a small module, with the arguments that reproduce it and both results (None if there is
    none)."""

    fault: Fault
    original: str
    reduced: str
    arguments: tuple[Value, ...]
    ours: Value
    theirs: Value
    message: str


@SingleFlight
def _worker(function: str) -> Worker:
    """The process of the other implementation, kept for all seeds of this process."""
    return Worker(function)


def examine(seed: int, settings: Settings) -> Report:
    """Returns the report on one module. An error of the interpreter or the text formats on a valid module is a fault
    too.
    """
    implementation = find_implementation(settings.against)
    report = Report(modules=1)
    try:
        module = settings.module(seed)
        _check_text(module)
        outcomes = compare(module, arguments_of(module, seed), implementation, _worker(implementation.function))
    except Exception as error:
        fault = Fault(seed, Verdict.FAILED, "", _last_lines(error))
        report.faults.append(fault)
        report.verdicts["", Verdict.FAILED] += 1
        return report
    for outcome in outcomes:
        op = outcome.step.instruction.op.name
        report.verdicts[op, outcome.verdict] += 1
        if outcome.verdict is Verdict.KNOWN_DIVERGENCE:
            report.known_divergences[outcome.reason] += 1
        if outcome.verdict in BAD:
            report.faults.append(Fault(seed, outcome.verdict, op, str(outcome)))
    return report


def _check_text(module: Module) -> None:
    """Checks that a valid module verifies, and prints as the text that it was parsed from.

    Names inside asynchronous calls are ignored: their short form does not print them, so parsing creates them.
    """
    verify(module)
    text = module.to_text(print_large_constants=True)
    if any(i.op is opcodes.ASYNC_START for i in module.instructions()):
        text = parse_hlo(text).to_text(print_large_constants=True)
    again = parse_hlo(text, verify=True).to_text(print_large_constants=True)
    if again != text:
        raise AssertionError(f"printed, read and printed again, the module has become another:\n{again}")


def _last_lines(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-3:])


# -- reduction


def reduce_fault(fault: Fault, settings: Settings) -> Finding:
    """Returns the smallest module found with the same verdict on the same op, or the same exception."""
    implementation = find_implementation(settings.against)
    module = settings.module(fault.seed)
    arguments = arguments_of(module, fault.seed)
    original = module.to_text(print_large_constants=True)
    if fault.verdict is Verdict.FAILED:
        return _reduce_failure(fault, module, arguments, original)
    outcome = next(o for o in _outcomes(module, arguments, implementation) if _shows(o, fault))
    flat, values = flat_module([outcome.step])
    given = {p.name: value for p, value in zip(flat.entry_computation.parameters, values, strict=True)}

    combiners = _combiners(flat)

    def shown(candidate: Module) -> tuple[list[Value], list[Outcome]]:
        """Returns arguments that reproduce the fault, and the fault: the first elements of the given arguments, or the
        last.
        """
        if _combiners(candidate) <= combiners:
            for last in (False, True):
                arguments = arguments_for(candidate, given, last=last)
                outcomes = [o for o in _outcomes(candidate, arguments, implementation) if _shows(o, fault)]
                if outcomes:
                    return arguments, outcomes
        return [], []

    best = reduce_module(flat, lambda candidate: bool(shown(candidate)[1]))
    arguments, outcomes = shown(best)
    return _finding(fault, best, arguments, original, "\n".join(map(str, outcomes)), implementation)


def _outcomes(module: Module, arguments: Sequence[Value], implementation: Implementation) -> list[Outcome]:
    try:
        return compare(module, arguments, implementation, _worker(implementation.function))
    except Exception:  # another fault than the one to reproduce
        return []


_COMBINING = (opcodes.REDUCE, opcodes.REDUCE_WINDOW, opcodes.SCATTER, opcodes.SELECT_AND_SCATTER, opcodes.SORT)


def _combiners(module: Module) -> set[object]:
    """Returns the texts of the scalar computations that combine elements in any order. Reduced ones could be
    meaningless.
    """
    called = {c for i in module.instructions() if i.op in _COMBINING for c in i.computations}
    return {_content(computation) for computation in called}


def _content(computation: Computation) -> object:
    order = post_order(computation)
    positions = {instruction: position for position, instruction in enumerate(order)}
    lines = [(i.op, i.shape, i.attributes, tuple(positions[o] for o in i.operands)) for i in order]
    return (*lines, positions[computation.root_instruction])


def _shows(outcome: Outcome, fault: Fault) -> bool:
    return outcome.verdict is fault.verdict and outcome.step.instruction.op.name == fault.op


def _reduce_failure(fault: Fault, module: Module, arguments: Sequence[Value], original: str) -> Finding:
    given = {p.name: value for p, value in zip(module.entry_computation.parameters, arguments, strict=True)}

    def failure(candidate: Module) -> Exception | None:
        try:
            _check_text(candidate)
            _run(candidate, arguments_for(candidate, given))
        except Exception as error:
            return error
        return None

    kind = type(failure(module))
    best = (
        reduce_module(module, lambda candidate: kind is type(failure(candidate))) if kind is not type(None) else module
    )
    error = failure(best)
    message = _last_lines(error) if error is not None else fault.message
    return Finding(fault, original, _text(best), tuple(arguments_for(best, given)), None, None, message)


def _run(module: Module, arguments: Sequence[Value]) -> Value:
    with np.errstate(all="ignore"):
        return plain(Client("interpreter").compile(module)(*arguments))


def _text(module: Module) -> str:
    return module.to_text(print_large_constants=True)


def _finding(
    fault: Fault, module: Module, arguments: list[Value], original: str, message: str, implementation: Implementation
) -> Finding:
    def theirs() -> Value:
        return implementation.run(_worker(implementation.function), module, arguments)

    ours = _if_any(lambda: _run(module, arguments))
    return Finding(fault, original, _text(module), tuple(arguments), ours, _if_any(theirs), message)


def _if_any(run: Callable[[], Value]) -> Value:
    """Returns a result to show beside the message, if there is one."""
    try:
        return run()
    except (WorkerError, WorkerDied, Exception):
        return None


def arguments_for(module: Module, given: dict[str, Value], *, last: bool = False) -> list[Value]:
    """Returns arguments of a reduced module: those given under the parameters' names, cut to their shapes, or new ones.

    Of a dimension, the first elements are kept, or the last ones.
    """
    return [_argument(p.shape, given.get(p.name), last) for p in module.entry_computation.parameters]


def _argument(shape: Shape, value: Value, last: bool) -> Value:
    if shape.is_tuple and isinstance(value, tuple) and len(value) == len(shape.tuple_shapes):
        return tuple(_argument(part, element, last) for part, element in zip(shape.tuple_shapes, value, strict=True))
    if isinstance(value, np.ndarray | np.generic) and shape.is_array and value.dtype == shape.dtype:
        array = np.asarray(value)
        if array.ndim == shape.rank and all(map(int.__ge__, array.shape, shape.dimensions)):
            starts = [given - size if last else 0 for given, size in zip(array.shape, shape.dimensions, strict=True)]
            window = tuple(slice(start, start + size) for start, size in zip(starts, shape.dimensions, strict=True))
            return np.array(array[window], order="C")
    return random_arguments([shape], seed=0)[0]


# -- replay


def replay(text: str, arguments: Sequence[Value], against: str) -> list[tuple[Verdict, str]]:
    """Returns the outcomes of the instructions of a saved module's entry."""
    implementation = find_implementation(against)
    outcomes = compare(parse_hlo(text), arguments, implementation, _worker(implementation.function))
    return [(outcome.verdict, str(outcome)) for outcome in outcomes]

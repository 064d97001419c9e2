"""Parses worked examples: instructions as HLO text, arguments and results as literals.

Responsible for the notation of examples and refusals, and for the modules made of them. Does not depend on any
operation.

An example has one item per line; `|` separates the values of several devices:

    x = f32[3] {1, 2, 3}                     an argument: a name, a shape, its value (on each device)
    infeed <- f32[2] {1, 2}                  data that the host feeds in before the run
    sum { ... }                              a computation, on one line or up to a line `}`
    y = f32[] reduce(x, z), ...              an instruction; the last one is the result
    => f32[] 6                               the result (one line per element of a tuple), on each device
    outfeed -> f32[2] {1, 2}                 data that the program feeds out
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from textwrap import dedent
from typing import TypeAlias

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal
from xlapy.base.shape import Shape
from xlapy.testing.samples.sample import FAMILIES

_INSTRUCTION = re.compile(r"(?:ROOT )?\w[\w.]* = .*?\)?\}? [a-z][a-z0-9-]*\(")
_ARGUMENT = re.compile(r"(\w+) = (\S+) (.+)")
_HOST = re.compile(r"(infeed <-|outfeed ->) (\S+) (.+)")
_RESULT = re.compile(r"=> (\S+) (.+)")

Violation: TypeAlias = tuple[ErrorCode, *tuple[str, ...]]
"""The code of the rule that is violated, and the values that the error's message names."""

NO_MLIR = "jaxlib accepts only MLIR, which has no such operation"
"""Why some examples do not run on XLA:CPU."""


@dataclass(frozen=True)
class Example:
    """An example of one operation. `xla_cpu`: why XLA:CPU does not run it, "" if it does.

    Raises ValueError for a line that does not follow the notation.
    """

    op: str
    text: str
    replicas: int = 1
    partitions: int = 1
    xla_cpu: str = ""

    @property
    def devices(self) -> int:
        return self.replicas * self.partitions

    @cached_property
    def lines(self) -> list[str]:
        return dedent(self.text).strip().splitlines()

    @cached_property
    def _parts(self) -> _Parts:
        return _read(self.lines, self.devices)

    @property
    def module(self) -> str:
        """The HLO text of the module, with one parameter per argument."""
        parts = self._parts
        name = self.op.replace("-", "_")
        counts = (("replica_count", self.replicas), ("num_partitions", self.partitions))
        header = "".join(f", {key}={count}" for key, count in counts if count > 1)
        parameters = [f"{name} = {shape} parameter({n})" for n, (name, shape) in enumerate(parts.parameters)]
        *body, root = parts.instructions
        entry = [*parameters, *body, f"ROOT {root.removeprefix('ROOT ')}"]
        return "\n".join(
            [f"HloModule {name}{header}", *parts.computations, "ENTRY main {", *(f"  {e}" for e in entry), "}", ""]
        )

    @property
    def arguments(self) -> list[list[Literal]]:
        """The arguments of each device."""
        return [[row[device] for row in self._parts.arguments] for device in range(self.devices)]

    @property
    def results(self) -> list[list[Literal]]:
        """The result of each device: the elements of a tuple, or the only result. Empty if the result has no value."""
        return [[row[device] for row in self._parts.results] for device in range(self.devices)]

    @property
    def infeed(self) -> list[Literal]:
        return self._parts.infeed

    @property
    def outfeed(self) -> list[Literal]:
        return self._parts.outfeed


@dataclass(frozen=True)
class Refusal:
    """An invalid module that violates constraint number `constraint` (from 1) of an operation.

    `instruction` has shapes instead of operands, as in `f32[2] add(f32[2], f32[3])`. A signature in parentheses stands
    for a called computation: `to_apply=(f32[], f32[] -> f32[])`.
    """

    op: str
    constraint: int
    instruction: str
    violation: Violation

    @property
    def module(self) -> str:
        """The HLO text of a module with this instruction only."""
        computations: list[str] = []

        def define(match: re.Match[str]) -> str:
            computations.append(_computation_text(f"f{len(computations)}", match[1], match[2]))
            return f"f{len(computations) - 1}"

        text = re.sub(r"\(([^()=]*(?:\([^()]*\)[^()=]*)*) -> ((?:\([^()]*\)|[^()])*)\)", define, self.instruction)
        shape, op, rest = _split_call(text, self.op)
        operands, attributes = _split_at_closing_parenthesis(rest)
        shapes = [] if op in ("parameter", "constant") else _split_shapes(operands)
        names = [f"p{number}" for number in range(len(shapes))]
        parameters = [
            f"  {name} = {parameter} parameter({n})"
            for n, (name, parameter) in enumerate(zip(names, shapes, strict=True))
        ]
        root = f"  ROOT r = {shape} {op}({', '.join(names) if shapes else operands}){attributes}"
        return "\n".join(["HloModule refused", *computations, "ENTRY main {", *parameters, root, "}", ""])


@dataclass(frozen=True)
class _Parts:
    parameters: list[tuple[str, str]]
    arguments: list[list[Literal]]
    computations: list[str]
    instructions: list[str]
    results: list[list[Literal]]
    infeed: list[Literal]
    outfeed: list[Literal]


def _read(lines: Sequence[str], devices: int) -> _Parts:
    parts = _Parts([], [], [], [], [], [], [])
    rest = iter(lines)
    for line in rest:
        if re.match(r"\w+ \{", line):
            parts.computations.append(_read_computation(line, rest))
        elif match := _RESULT.fullmatch(line):
            parts.results.append(_values_per_device(match[1], match[2], devices))
        elif match := _HOST.fullmatch(line):
            queue = parts.infeed if match[1].startswith("infeed") else parts.outfeed
            queue.append(parse_literal(match[3], Shape.parse(match[2])))
        elif _INSTRUCTION.match(line):
            parts.instructions.append(line)
        elif match := _ARGUMENT.fullmatch(line):
            parts.parameters.append((match[1], match[2]))
            parts.arguments.append(_values_per_device(match[2], match[3], devices))
        else:
            raise ValueError(f"a line of an example is not an argument, instruction or result: {line!r}")
    return parts


def _read_computation(line: str, rest: Iterator[str]) -> str:
    text = [line]
    while not text[-1].endswith("}") or (len(text) > 1 and text[-1] != "}"):
        text.append(next(rest))
    return "\n".join(text)


def _values_per_device(shape: str, text: str, devices: int) -> list[Literal]:
    """Returns one value per device; a single value is used for all devices."""
    values = [parse_literal(part.strip(), Shape.parse(shape)) for part in text.split("|")]
    if len(values) not in (1, devices):
        raise ValueError(f"{len(values)} values for {devices} devices: {text!r}")
    return values if len(values) == devices else values * devices


def _computation_text(name: str, parameters: str, result: str) -> str:
    """Returns the text of a computation with a signature. What it computes does not matter."""
    lines = [f"  a{n} = {shape} parameter({n})" for n, shape in enumerate(_split_shapes(parameters))]
    root = f'  ROOT r = {result.strip()} custom-call(), custom_call_target="any"'
    return "\n".join([f"{name} {{", *lines, root, "}"])


def _split_call(text: str, op: str) -> tuple[str, str, str]:
    """`f32[2] add(f32[2], f32[3]), k=1` -> (`f32[2]`, `add`, `f32[2], f32[3]), k=1`)."""
    start = text.index(f" {op}(")
    return text[:start], op, text[start + len(op) + 2 :]


def _split_at_closing_parenthesis(text: str) -> tuple[str, str]:
    """Returns the text before and after the closing parenthesis."""
    depth = 1
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[:index], text[index + 1 :]
    raise ValueError(f"{text!r} has no closing parenthesis")


def _split_shapes(text: str) -> list[str]:
    """Splits shapes at commas outside of brackets."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def examples_of(family: str) -> list[Example]:
    """Returns the examples of one family."""
    return list(import_module(f"xlapy.testing.examples.{family}").EXAMPLES)


def refusals_of(family: str) -> list[Refusal]:
    """Returns the refusals of one family."""
    return list(import_module(f"xlapy.testing.examples.{family}").REFUSALS)


def all_examples() -> Iterator[Example]:
    for family in FAMILIES:
        yield from examples_of(family)


def all_refusals() -> Iterator[Refusal]:
    for family in FAMILIES:
        yield from refusals_of(family)

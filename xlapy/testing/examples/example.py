"""The notation of worked examples: instructions as HLO text, arguments and results as literals.

Owns: how an example and a refusal are written and made into modules. Must not know: any operation.

An example is read line by line; `|` separates the values of several devices:

    x = f32[3] {1, 2, 3}                     an argument: a name, a shape, its value (on each device)
    infeed <- f32[2] {1, 2}                  what the host feeds in before the run
    sum { ... }                              a computation, on one line or until a line `}`
    y = f32[] reduce(x, z), ...              an instruction; the last one is the result
    => f32[] 6                               the result (a line an element if it is a tuple), on each device
    outfeed -> f32[2] {1, 2}                 what the program feeds out
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from textwrap import dedent

from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal
from xlapy.base.shape import Shape
from xlapy.testing.samples.sample import FAMILIES

_INSTRUCTION = re.compile(r"(?:ROOT )?\w[\w.]* = .*?\)?\}? [a-z][a-z0-9-]*\(")
_ARGUMENT = re.compile(r"(\w+) = (\S+) (.+)")
_HOST = re.compile(r"(infeed <-|outfeed ->) (\S+) (.+)")
_RESULT = re.compile(r"=> (\S+) (.+)")

NO_MLIR = "jaxlib takes MLIR only, which has no such operation"
"""The note of examples that do not reach XLA:CPU."""


@dataclass(frozen=True)
class Example:
    """One operation at work. `xla_cpu` says why XLA:CPU is not asked for the values, if it is not.

    Raises ValueError for a line that is none of those above.
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
        """HLO text of the whole module: a parameter an argument."""
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
        """What each device returns: the elements of a tuple, or the one result; empty if the result has no value."""
        return [[row[device] for row in self._parts.results] for device in range(self.devices)]

    @property
    def infeed(self) -> list[Literal]:
        return self._parts.infeed

    @property
    def outfeed(self) -> list[Literal]:
        return self._parts.outfeed


@dataclass(frozen=True)
class Refusal:
    """A module that breaks constraint number `constraint` (from 1) of an operation, and a part of the message.

    `instruction` is an instruction with shapes in the place of operands, `f32[2] add(f32[2], f32[3])`; a called
    computation may stand as its signature in parentheses, `to_apply=(f32[], f32[] -> f32[])`.
    """

    op: str
    constraint: int
    instruction: str
    message: str

    @property
    def module(self) -> str:
        """HLO text of a module with this one instruction."""
        computations: list[str] = []

        def define(match: re.Match[str]) -> str:
            computations.append(_computation(f"f{len(computations)}", match[1], match[2]))
            return f"f{len(computations) - 1}"

        text = re.sub(r"\(([^()=]*(?:\([^()]*\)[^()=]*)*) -> ((?:\([^()]*\)|[^()])*)\)", define, self.instruction)
        shape, op, rest = _split_call(text, self.op)
        operands, attributes = _closing(rest)
        shapes = [] if op in ("parameter", "constant") else _split(operands)
        names = [f"p{number}" for number in range(len(shapes))]
        parameters = [
            f"  {name} = {given} parameter({n})" for n, (name, given) in enumerate(zip(names, shapes, strict=True))
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
            parts.computations.append(_braced(line, rest))
        elif match := _RESULT.fullmatch(line):
            parts.results.append(_values(match[1], match[2], devices))
        elif match := _HOST.fullmatch(line):
            queue = parts.infeed if match[1].startswith("infeed") else parts.outfeed
            queue.append(parse_literal(match[3], Shape.parse(match[2])))
        elif _INSTRUCTION.match(line):
            parts.instructions.append(line)
        elif match := _ARGUMENT.fullmatch(line):
            parts.parameters.append((match[1], match[2]))
            parts.arguments.append(_values(match[2], match[3], devices))
        else:
            raise ValueError(f"a line of an example is no argument, instruction or result: {line!r}")
    return parts


def _braced(line: str, rest: Iterator[str]) -> str:
    text = [line]
    while not text[-1].endswith("}") or (len(text) > 1 and text[-1] != "}"):
        text.append(next(rest))
    return "\n".join(text)


def _values(shape: str, text: str, devices: int) -> list[Literal]:
    """A value a device; one value alone is that of all."""
    values = [parse_literal(part.strip(), Shape.parse(shape)) for part in text.split("|")]
    if len(values) not in (1, devices):
        raise ValueError(f"{len(values)} values for {devices} devices: {text!r}")
    return values if len(values) == devices else values * devices


def _computation(name: str, parameters: str, result: str) -> str:
    """A computation of this signature; what it computes does not matter."""
    lines = [f"  a{n} = {shape} parameter({n})" for n, shape in enumerate(_split(parameters))]
    root = f'  ROOT r = {result.strip()} custom-call(), custom_call_target="any"'
    return "\n".join([f"{name} {{", *lines, root, "}"])


def _split_call(text: str, op: str) -> tuple[str, str, str]:
    """`f32[2] add(f32[2], f32[3]), k=1` -> (`f32[2]`, `add`, `f32[2], f32[3]), k=1`)."""
    place = text.index(f" {op}(")
    return text[:place], op, text[place + len(op) + 2 :]


def _closing(text: str) -> tuple[str, str]:
    """What stands before the parenthesis that closes, and what stands behind it."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[:place], text[place + 1 :]
    raise ValueError(f"no parenthesis closes {text!r}")


def _split(text: str) -> list[str]:
    """Shapes separated by commas outside of brackets."""
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
    """The examples of one family."""
    return list(import_module(f"xlapy.testing.examples.{family}").EXAMPLES)


def refusals_of(family: str) -> list[Refusal]:
    """The refusals of one family."""
    return list(import_module(f"xlapy.testing.examples.{family}").REFUSALS)


def all_examples() -> Iterator[Example]:
    for family in FAMILIES:
        yield from examples_of(family)


def all_refusals() -> Iterator[Refusal]:
    for family in FAMILIES:
        yield from refusals_of(family)

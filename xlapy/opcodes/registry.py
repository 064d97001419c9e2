"""What an operation *is*: `OpDef`, the registry of all of them, and `Rules`, one consumer's table from op to function.

Owns: names, arities, traits, roles of called computations, the shape rule of every op.
Must not know: the IR, NumPy, how an op is printed, built, evaluated or compiled.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import NO_ATTRIBUTES, Attributes, Kind, NoAttributes
from xlapy.opcodes.requirements import agrees

VARIADIC = -1

Programs = Sequence[ProgramShape]
"""The signatures of the computations that an instruction calls, in the order of the op's roles."""

InferRule = Callable[[Sequence[Shape], Any, Programs], Shape]
"""`(operand shapes, attributes, program shapes of the called computations) -> result shape`; raises `ShapeError`."""

CheckRule = Callable[[Shape, Sequence[Shape], Any, Programs], None]
"""`(declared shape, operand shapes, attributes, program shapes) -> None`; raises `ShapeError`."""

NormalizeRule = Callable[[Any, Sequence[Shape], Shape], Any]
"""`(attributes, operand shapes, result shape) -> attributes` in canonical form (a default made implicit)."""


SettleRule = Callable[[Shape, Sequence[Shape]], Shape]
"""`(declared shape, operand shapes) -> shape` that an instruction read from text gets in place of the declared one."""


class Effect(Enum):
    """What an instruction does besides computing its result."""

    PURE = "pure"
    """May be moved, duplicated, merged or removed."""
    ORDERED = "ordered"
    """Ties other instructions in time (tokens, barriers): keep its place, but it may die with its users."""
    SIDE_EFFECT = "side effect"
    """Never removed, duplicated or reordered against its like."""


class AsyncRole(Enum):
    """The place of an op in an asynchronous start / update / done chain."""

    NONE = "none"
    START = "start"
    UPDATE = "update"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Role:
    """A slot for called computations: its key in HLO text, and whether it takes a braced list of them.

    `aliases` are keys the parser accepts for the same slot (`to_apply=f` for `called_computations={f}`).
    """

    key: str
    many: bool = False
    optional: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arity:
    """How many operands an op takes: `least` to `most` (VARIADIC: no limit), in a multiple of `multiple`."""

    least: int
    most: int
    multiple: int = 1

    def accepts(self, count: int) -> bool:
        return self.least <= count and (self.most == VARIADIC or count <= self.most) and count % self.multiple == 0

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least} operand{'' if self.least == 1 else 's'}"
        text = f"at least {self.least} operands" if self.most == VARIADIC else f"{self.least} to {self.most} operands"
        return text if self.multiple == 1 else f"{text}, in a multiple of {self.multiple}"


def exactly(count: int) -> Arity:
    return Arity(count, count)


def at_least(count: int, multiple: int = 1) -> Arity:
    return Arity(count, VARIADIC, multiple)


REGISTRY: dict[str, OpDef] = {}
"""Every op by its name in HLO text."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class OpDef:
    """The definition of one operation; the object itself is the opcode (`instruction.op is opcodes.DOT`).

    `infer`: the shape follows from operands and attributes; the verifier re-runs it and compares. `check`: the shape is
    declared; the rule judges it. Both, when a declared shape has a freedom (the element type of a dot): then `infer`
    gives the default. Creating an OpDef registers it. OpDefs copy and pickle by name.
    """

    name: str
    family: str
    """The file that defines the op in `opcodes/` and handles it in every consumer's folder."""
    arity: Arity
    summary: str = ""
    """What the op does, in a sentence."""
    operands: str = ""
    """The names of the operands; one that ends in `*` stands for any number of them: `operand start_indices*`."""
    constraints: tuple[str, ...] = ()
    """What the shape rule demands beyond the arity, and that an inferred shape is declared: a sentence each."""
    attributes: type[Attributes] = NoAttributes
    infer: InferRule | None = None
    check: CheckRule | None = None
    roles: tuple[Role, ...] = ()
    role_keys: Callable[[Sequence[Shape], int], tuple[Role, ...]] | None = None
    """For ops whose roles depend on operand shapes (conditional): (operand shapes, computation count) -> roles."""
    inline: str | None = None
    """The attribute written where operands stand: the number of `parameter(0)`, the literal of `constant({1, 2})`."""
    normalize: NormalizeRule | None = None
    settle: SettleRule | None = None
    """For ops of which XLA's parser makes the shape itself (send, outfeed ...), whatever the text declares."""
    elementwise: bool = False
    commutative: bool = False
    effect: Effect = Effect.PURE
    """The least effect of any instance; ask `effect_of`, since attributes may add to it."""
    effect_rule: Callable[[Any], Effect] | None = None
    """For ops whose attributes decide (custom-call): attributes -> effect."""
    obsolete: Mapping[str, Kind[Any]] = field(default_factory=dict[str, Kind[Any]])
    """Keys that HLO text may still give and that mean nothing (any more): read by their kind, then dropped."""
    aliases: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Pairs (operand number, result index) that must share a buffer."""
    async_role: AsyncRole = AsyncRole.NONE

    def __post_init__(self) -> None:
        if self.infer is None and self.check is None:
            raise ValueError(f"{self.name}: give infer or check")
        if self.name in REGISTRY:
            raise ValueError(f"{self.name} is defined twice")
        REGISTRY[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.name,)

    def __repr__(self) -> str:
        return f"opcodes.{self.constant_name}"

    @property
    def constant_name(self) -> str:
        """The name of the op's constant in `xlapy.ops`: `reduce-window` is `REDUCE_WINDOW`."""
        return self.name.upper().replace("-", "_")

    def effect_of(self, attributes: Attributes) -> Effect:
        """What an instruction with these attributes does besides computing its result (called computations aside)."""
        return self.effect if self.effect_rule is None else self.effect_rule(attributes)

    def result_shape(
        self,
        operands: Sequence[Shape],
        attributes: Attributes = NO_ATTRIBUTES,
        programs: Programs = (),
    ) -> Shape:
        """The shape this op infers; `ShapeError` if the operands are illegal or the op's shape must be declared."""
        self.check_arity(len(operands))
        if self.infer is None:
            raise ShapeError(f"{self.name}: the result shape cannot be inferred; declare it")
        return self.infer(operands, attributes, programs)

    def check_arity(self, count: int) -> None:
        if not self.arity.accepts(count):
            raise ShapeError(f"{self.name} takes {self.arity}, given {count}")

    def verify(
        self,
        shape: Shape,
        operands: Sequence[Shape],
        attributes: Attributes = NO_ATTRIBUTES,
        programs: Programs = (),
    ) -> None:
        """Judges a declared result shape, layouts and dynamic flags aside; `ShapeError` gives rule and both values."""
        self.check_arity(len(operands))
        if self.check is not None:
            self.check(shape, operands, attributes, programs)
            return
        assert self.infer is not None
        inferred = self.infer(operands, attributes, programs)
        if not agrees(inferred, shape):
            given = ", ".join(operand.brief for operand in operands)
            raise ShapeError(f"{self.name} of ({given}) has shape {inferred.brief}, declared {shape.brief}")


def lookup(name: str) -> OpDef:
    """The OpDef of a name in HLO text; `UnsupportedError` naming near misses if there is none."""
    try:
        return REGISTRY[name]
    except KeyError:
        near = difflib.get_close_matches(name[:100], REGISTRY, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnsupportedError(f"unknown operation {name!r}{hint}") from None


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Rules(Generic[F]):
    """One consumer's table: op -> function, or the reason why the consumer has none.

    A consumer module writes `@RULES.rule(opcodes.DOT)` above the function; `RULES.refuse("reason", opcodes.INFEED)`
    states that
    the consumer does not handle an op, and why.
    """

    consumer: str
    table: dict[OpDef, F] = field(default_factory=dict[OpDef, F])
    refusals: dict[OpDef, str] = field(default_factory=dict[OpDef, str])

    def rule(self, *ops: OpDef) -> Callable[[F], F]:
        """Decorator: registers the function as the rule of each op; an op has one rule a consumer."""

        def register(function: F) -> F:
            for op in ops:
                if op in self.table or op in self.refusals:
                    raise ValueError(f"{self.consumer} has two rules for {op.name}")
                self.table[op] = function
            return function

        return register

    def refuse(self, reason: str, *ops: OpDef) -> None:
        for op in ops:
            if op in self.table or op in self.refusals:
                raise ValueError(f"{self.consumer} has two rules for {op.name}")
            self.refusals[op] = reason

    def find(self, op: OpDef) -> F:
        """The rule of an op; `UnsupportedError` with the stated reason if the consumer has none."""
        try:
            return self.table[op]
        except KeyError:
            reason = self.refusals.get(op, "no rule")
            raise UnsupportedError(f"{op.name} does not run on {self.consumer} yet ({reason})") from None

    def __contains__(self, op: OpDef) -> bool:
        return op in self.table

    def __iter__(self) -> Iterator[OpDef]:
        return iter(self.table)

"""Defines what an operation is: `OpDef`, the registry of all ops, and `Rules`, a consumer's functions for ops.

Responsible for names, arities, traits, called-computation slots and the shape rule of every op. Does not depend on the
IR, on NumPy, or on how an op is printed, built, evaluated or compiled.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.operations import operands as codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import NO_ATTRIBUTES, AttributeCodec, Attributes, NoAttributes
from xlapy.opcodes.requirements import compatible_ignoring_dynamic

VARIADIC = -1
"""The `maximum` of an `Arity` without an upper limit."""

ProgramShapes = Sequence[ProgramShape]
"""The signatures of the computations that an instruction calls, in the order of the op's called-computation slots."""

InferRule = Callable[[Sequence[Shape], Any, ProgramShapes], Shape]
"""`(operand shapes, attributes, program shapes of the called computations) -> result shape`; raises `ShapeError`."""

CheckRule = Callable[[Shape, Sequence[Shape], Any, ProgramShapes], None]
"""`(declared shape, operand shapes, attributes, program shapes) -> None`; raises `ShapeError`."""

CanonicalizeAttributesRule = Callable[[Any, Sequence[Shape], Shape], Any]
"""`(attributes, operand shapes, result shape) -> attributes` in canonical form.

Canonical attributes leave out what equals the default: a comparison of floats with `type=FLOAT` has the type None.
"""

CanonicalizeShapeRule = Callable[[Shape, Sequence[Shape]], Shape]
"""`(declared shape, operand shapes) -> shape`: replaces the declared shape of an instruction that is read from text."""


class Effect(Enum):
    """What an instruction does besides computing its result."""

    PURE = "pure"
    """The instruction may be moved, duplicated, merged with an equal one or removed."""
    ORDERED = "ordered"
    """The instruction orders others (tokens, barriers): it keeps its position, but is removed if it has no users."""
    SIDE_EFFECT = "side effect"
    """The instruction is never removed, duplicated, or reordered against another one with side effects."""


class AsyncRole(Enum):
    """The position of an op in an asynchronous start / update / done chain."""

    NONE = "none"
    START = "start"
    UPDATE = "update"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class CalledComputationSlot:
    """A named slot for the computations that an op calls, such as `condition` and `body` of a while.

    `key` is the slot's name in HLO text. A `variadic` slot takes a braced list of computations, others take exactly
    one. `aliases` are further keys that the parser accepts (`to_apply=f` for `called_computations={f}`).
    """

    key: str
    variadic: bool = False
    optional: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Arity:
    """The number of operands of an op: from `minimum` to `maximum` (VARIADIC: no limit), a multiple of `multiple`."""

    minimum: int
    maximum: int
    multiple: int = 1

    def accepts(self, count: int) -> bool:
        return (
            self.minimum <= count and (self.maximum == VARIADIC or count <= self.maximum) and count % self.multiple == 0
        )

    def __str__(self) -> str:
        if self.minimum == self.maximum:
            return f"{self.minimum} operand{'' if self.minimum == 1 else 's'}"
        text = (
            f"at least {self.minimum} operands"
            if self.maximum == VARIADIC
            else f"{self.minimum} to {self.maximum} operands"
        )
        return text if self.multiple == 1 else f"{text}, in a multiple of {self.multiple}"


def exactly(count: int) -> Arity:
    return Arity(count, count)


def at_least(count: int, multiple: int = 1) -> Arity:
    return Arity(count, VARIADIC, multiple)


class Constraint(NamedTuple):
    """A requirement of an op in one sentence, and the codes of the errors if it is violated."""

    text: str
    codes: tuple[ErrorCode, ...]


def constraint(text: str, *codes: ErrorCode) -> Constraint:
    return Constraint(text, codes)


REGISTRY: dict[str, OpDef] = {}
"""Every op by its name in HLO text."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class OpDef:
    """The definition of one operation; the object itself is the opcode (`instruction.op is opcodes.DOT`).

    An op has `infer` if its result shape follows from operands and attributes; the verifier infers the shape again and
    compares. It has `check` if the result shape is declared; the rule then verifies the declaration. An op has both if
    part of the shape is free (the element type of a dot), and `infer` gives the default. Creating an OpDef registers
    it. OpDefs are copied and pickled by name.
    """

    name: str
    family: str
    """The name of the file that defines the op in `opcodes/` and handles it in every consumer's folder."""
    arity: Arity
    summary: str
    """A sentence that says what the op computes."""
    result: str
    """Sentences that give the shape of the result, or say that it is declared."""
    operands: str = ""
    """The names of the operands; a name that ends in `*` stands for any number: `operand start_indices*`."""
    constraints: tuple[Constraint, ...] = ()
    """The requirements of the shape rule beyond the arity."""
    attributes: type[Attributes] = NoAttributes
    infer: InferRule | None = None
    check: CheckRule | None = None
    computation_slots: tuple[CalledComputationSlot, ...] = ()
    computation_slots_rule: Callable[[Sequence[Shape]], tuple[CalledComputationSlot, ...]] | None = None
    """For ops whose slots depend on operand shapes (conditional): operand shapes -> slots."""
    parenthesized_attribute: str | None = None
    """The attribute that HLO text writes in the parentheses, in place of operands: the number of `parameter(0)`."""
    canonicalize_attributes: CanonicalizeAttributesRule | None = None
    canonicalize_shape: CanonicalizeShapeRule | None = None
    """For ops whose shape XLA's parser derives, ignoring parts of the declared shape (send, outfeed ...)."""
    elementwise: bool = False
    commutative: bool = False
    effect: Effect = Effect.PURE
    """The weakest effect of an instruction of this op; `effect_of` also takes its attributes into account."""
    effect_rule: Callable[[Any], Effect] | None = None
    """For ops whose effect depends on their attributes (custom-call): attributes -> effect."""
    ignored_attributes: Mapping[str, AttributeCodec[Any]] = field(default_factory=dict[str, AttributeCodec[Any]])
    """Keys that HLO text may contain but that have no meaning: the codec parses the value, which is then dropped."""
    in_place_pairs: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Pairs (operand number, result index) whose values share one buffer, because the op updates it in place."""
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
        """The name of the op's constant in `xlapy.opcodes`: `reduce-window` is `REDUCE_WINDOW`."""
        return self.name.upper().replace("-", "_")

    def computation_slots_for(self, operands: Iterable[Shape]) -> tuple[CalledComputationSlot, ...]:
        """The called-computation slots of an instruction with these operand shapes."""
        if self.computation_slots_rule is None:
            return self.computation_slots
        return self.computation_slots_rule(tuple(operands))

    def effect_of(self, attributes: Attributes) -> Effect:
        """The effect of an instruction with these attributes, without the effects of the computations it calls."""
        return self.effect if self.effect_rule is None else self.effect_rule(attributes)

    def result_shape(
        self,
        operands: Sequence[Shape],
        attributes: Attributes = NO_ATTRIBUTES,
        programs: ProgramShapes = (),
    ) -> Shape:
        """Infers the result shape; raises `ShapeError` if the operands are illegal or the shape must be declared."""
        self.check_arity(len(operands))
        if self.infer is None:
            raise ShapeError(codes.INFERRED_SHAPE, f"{self.name}: the result shape cannot be inferred; declare it")
        return self.infer(operands, attributes, programs)

    def check_arity(self, count: int) -> None:
        if not self.arity.accepts(count):
            raise ShapeError(codes.OPERAND_COUNT, f"{self.name} takes {self.arity}, given {count}")

    def verify(
        self,
        shape: Shape,
        operands: Sequence[Shape],
        attributes: Attributes = NO_ATTRIBUTES,
        programs: ProgramShapes = (),
    ) -> None:
        """Verifies a declared result shape, ignoring layouts and dynamic dimensions.

        Raises a `ShapeError` that names the rule, the expected and the declared value.
        """
        self.check_arity(len(operands))
        if self.check is not None:
            self.check(shape, operands, attributes, programs)
            return
        assert self.infer is not None
        inferred = self.infer(operands, attributes, programs)
        if not compatible_ignoring_dynamic(inferred, shape):
            given = ", ".join(operand.to_text(layout=False) for operand in operands)
            raise ShapeError(
                codes.RESULT_SHAPE,
                f"{self.name} of ({given}) has shape {inferred.to_text(layout=False)}, "
                f"declared {shape.to_text(layout=False)}",
            )


def lookup(name: str) -> OpDef:
    """The OpDef with this name in HLO text; raises an `UnsupportedError` with similar names if there is none."""
    try:
        return REGISTRY[name]
    except KeyError:
        near = difflib.get_close_matches(name[:100], REGISTRY, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnsupportedError(codes.KNOWN_OPERATION, f"unknown operation {name!r}{hint}") from None


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Rules(Generic[F]):
    """A consumer's table that gives each op a function, or the reason why the consumer does not support the op.

    A consumer such as the interpreter writes `@RULES.rule(opcodes.DOT)` above the function for an op.
    `RULES.refuse("reason", opcodes.INFEED)` states that the consumer does not support an op, and why.
    """

    consumer: str
    table: dict[OpDef, F] = field(default_factory=dict[OpDef, F])
    refusals: dict[OpDef, str] = field(default_factory=dict[OpDef, str])

    def rule(self, *ops: OpDef) -> Callable[[F], F]:
        """Decorator that registers the function as the rule of each op; a consumer has one rule per op."""

        def register(function: F) -> F:
            for op in ops:
                if op in self.table or op in self.refusals:
                    raise ValueError(f"{self.consumer} has two rules for {op.name}")
                self.table[op] = function
            return function

        return register

    def refuse(self, reason: str, *ops: OpDef) -> None:
        """Records why the consumer supports none of these ops."""
        for op in ops:
            if op in self.table or op in self.refusals:
                raise ValueError(f"{self.consumer} has two rules for {op.name}")
            self.refusals[op] = reason

    def find(self, op: OpDef) -> F:
        """The rule of an op; raises an `UnsupportedError` with the recorded reason if the consumer has none."""
        try:
            return self.table[op]
        except KeyError:
            reason = self.refusals.get(op, "no rule")
            raise UnsupportedError(
                codes.SUPPORTED_OPERATION, f"{op.name} does not run on {self.consumer} yet ({reason})"
            ) from None

    def __contains__(self, op: OpDef) -> bool:
        return op in self.table

    def __iter__(self) -> Iterator[OpDef]:
        return iter(self.table)

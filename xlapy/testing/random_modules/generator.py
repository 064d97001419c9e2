"""Generates one computation at random: `ModuleGenerator`, which all op generators use.

Responsible for random choices, for the pool of values that later instructions may use, and for new values (constants,
iotas, parameters). Does not depend on other ops.

An op generator is a function `op generator(generator) -> None` that adds one instruction and the operands it lacks; it
raises `SkipDraw` if it finds nothing valid to add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

import numpy as np

from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.movement import BROADCAST, BroadcastAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import CONSTANT, IOTA, PARAMETER, ConstantAttributes, IotaAttributes, ParameterAttributes
from xlapy.testing.random_values import random_array

T = TypeVar("T")
ShapeTest = Callable[[Shape], bool]

MOST_ELEMENTS = 256
"""The largest array in a random module."""

_RANKS = (0.12, 0.26, 0.28, 0.18, 0.09, 0.04, 0.03)
_SIZES = (0.04, 0.16, 0.26, 0.26, 0.16, 0.12)
_COMMON = ("PRED", "S8", "S32", "S32", "S64", "U8", "U32", "F16", "BF16", "F32", "F32", "F32", "F64", "C64")
"""Element types that are drawn more often than others."""


class SkipDraw(Exception):
    """Raised by an op generator that finds nothing valid to add with the available values."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a module may contain: element types, and the op generators of each family with the family's weight."""

    types: tuple[PrimitiveType, ...]
    op_generators: Mapping[str, Sequence[OpGenerator]]
    weights: Mapping[str, float]


@dataclass(slots=True)
class ModuleGenerator:
    """One computation while it is drawn.

    exact: only operations that every implementation computes to the same bits, also when it computes several of them at
    once (a product and a sum rounded once, say). families: whose op generators may be used. scalars: rank 0 only.
    """

    module: Module
    computation: Computation
    rng: np.random.Generator
    choices: Choices
    families: tuple[str, ...]
    exact: bool = False
    scalars: bool = False
    depth: int = 0
    pool: list[Instruction] = field(default_factory=list[Instruction])

    # -- choices

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choice(self, options: Sequence[T]) -> T:
        if not options:
            raise SkipDraw
        return options[int(self.rng.integers(len(options)))]

    def some(self, options: Sequence[T], probability: float = 0.5) -> list[T]:
        """Each option with a probability, in order."""
        return [option for option in options if self.chance(probability)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return [options[int(place)] for place in self.rng.permutation(len(options))]

    def type(self, test: Callable[[PrimitiveType], bool] = lambda _: True) -> PrimitiveType:
        """An element type that passes a test; common ones more often."""
        allowed = [t for t in self.choices.types if test(t) and self.allows(t)]
        common = [t for name in _COMMON for t in allowed if t.name == name]
        return self.choice(common if common and self.chance(0.6) else allowed)

    def partner(self, t: PrimitiveType) -> PrimitiveType:
        """An element type to go with another; of floats only itself, as XLA's verifier allows no mixture by default."""
        return self.type(lambda other: other is t or not (t.is_floating and other.is_floating))

    def partners(self, first: PrimitiveType, count: int) -> list[PrimitiveType]:
        """That many types beside the first, of which no two are different floats."""
        types: list[PrimitiveType] = []
        for _ in range(count):
            floats = [t for t in (first, *types) if t.is_floating]
            types.append(self.partner(floats[0] if floats else PRED))
        return types

    def allows(self, t: PrimitiveType) -> bool:
        """Whether an element type may occur: exact computations do without those whose arithmetic varies."""
        return not self.exact or t is PRED or (t.bits >= 8 and not t.is_complex and not (t.is_floating and t.bits < 32))

    def size(self) -> int:
        """The size of a dimension; rarely 0."""
        return int(self.rng.choice(len(_SIZES), p=_SIZES))

    def positive(self, most: int = 5) -> int:
        return self.integer(1, most)

    def dimensions(self, least_rank: int = 0, most_rank: int = 6) -> tuple[int, ...]:
        """Sizes of an array of at most MOST_ELEMENTS elements."""
        if self.scalars:
            if least_rank:
                raise SkipDraw
            return ()
        while True:
            rank = int(self.rng.choice(len(_RANKS), p=_RANKS))
            sizes = tuple(self.size() for _ in range(rank))
            if least_rank <= rank <= most_rank and prod(sizes) <= MOST_ELEMENTS:
                return sizes

    # -- adding instructions

    def add(
        self,
        op: OpDef,
        operands: Sequence[Instruction] = (),
        attributes: Attributes | None = None,
        computations: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """A new instruction, put into the pool."""
        made = edit.create(self.computation, op, operands, attributes, computations, shape=shape)
        self.pool.append(made)
        return made

    def set_aside(self) -> None:
        """Keeps the instruction made last from the others: its value is not for them."""
        self.pool.pop()

    def constant(self, array: np.ndarray[Any, Any]) -> Instruction:
        literal = Literal.of(array)
        return self.add(CONSTANT, (), ConstantAttributes.make(literal=literal), shape=literal.shape)

    def parameter(self, shape: Shape) -> Instruction:
        number = len(self.computation.parameters)
        return self.add(PARAMETER, (), ParameterAttributes.make(number=number), shape=shape)

    # -- operands

    def value(self, shape: Shape) -> Instruction:
        """A value of a shape (layout aside): one there is, or a fresh one."""
        fitting = [i for i in self.pool if i.shape.compatible(shape)]
        return self.choice(fitting) if fitting and self.chance(0.8) else self.fresh(shape)

    def values(self, dimensions: Sequence[int], t: PrimitiveType) -> Instruction:
        """A value of some dimensions and element type."""
        return self.value(Shape.array(t, dimensions))

    def array(self, test: ShapeTest, types: Callable[[PrimitiveType], bool], least_rank: int = 0) -> Instruction:
        """An array that passes a test: one there is, or a fresh one, of an element type that passes `types`."""
        fitting = [
            i
            for i in self.pool
            if i.shape.is_array
            and i.shape.rank >= least_rank
            and types(i.shape.element_type)
            and self.allows(i.shape.element_type)
            and test(i.shape)
        ]
        if fitting and self.chance(0.85):
            return self.choice(fitting)
        fresh = Shape.array(self.type(types), self.dimensions(least_rank))
        if not test(fresh):
            raise SkipDraw
        return self.fresh(fresh)

    def fresh(self, shape: Shape) -> Instruction:
        """A new array: a parameter (of the entry only), a constant, an iota, or one scalar everywhere."""
        if not shape.is_array:
            raise SkipDraw
        how = self.rng.random()
        if how < 0.35 and self.depth == 0:
            return self.parameter(shape)
        if how < 0.5 and shape.rank and shape.element_type is not PRED:
            dimension = self.integer(0, shape.rank - 1)
            return self.add(IOTA, (), IotaAttributes.make(iota_dimension=dimension), shape=shape)
        if how < 0.65 and shape.rank:
            scalar = self.constant(self.random((), shape.element_type))
            return self.add(BROADCAST, (scalar,), BroadcastAttributes.make(dimensions=()), shape=shape)
        return self.constant(self.random(shape.dimensions, shape.element_type))

    def random(self, dimensions: Sequence[int], t: PrimitiveType) -> np.ndarray[Any, Any]:
        """Elements with special ones (NaN, infinities, extremes) among them, half of the time.

        Complex parts are never the largest numbers, and NaN both or not at all: XLA misreads what it prints for them.
        """
        array = random_array(dimensions, t.dtype, self.rng, special=self.chance(0.5))
        if t.is_complex:
            largest = np.finfo(array.dtype).max
            for part in (array.real, array.imag):
                part[np.abs(part) == largest] = 1
            array[np.isnan(array)] = complex(np.nan, np.nan)
        return array

    def indices(self, dimensions: Sequence[int], highest: int) -> Instruction:
        """Integers of any type, most of them from 0 to `highest`: an array there is, or a constant."""
        fitting = [
            i
            for i in self.pool
            if i.shape.is_array and i.shape.dimensions == tuple(dimensions) and i.shape.element_type.is_integral
        ]
        if fitting and self.chance(0.4):
            return self.choice(fitting)
        t = self.type(lambda t: t.is_integral and t.bits >= 8)
        low = 0 if t.is_unsigned else -1
        return self.constant(self.rng.integers(low, highest + 1, tuple(dimensions), endpoint=True).astype(t.dtype))

    # -- called computations

    def nested(
        self, name: str, parameters: Sequence[Shape], families: Sequence[str] = (), *, scalars: bool = False
    ) -> ModuleGenerator:
        """A new computation of the module with parameters of the given shapes, still without instructions."""
        computation = edit.add_computation(self.module, name)
        chosen = tuple(families) or self.families
        inner = ModuleGenerator(self.module, computation, self.rng, self.choices, chosen, True, scalars, self.depth + 1)
        for shape in parameters:
            inner.parameter(shape)
        return inner

    def grow(self, instructions: int) -> None:
        """Draws that many op generators of the permitted families that find something to do."""
        weights = np.array([self.choices.weights[family] for family in self.families])
        while instructions:
            family = self.families[int(self.rng.choice(len(weights), p=weights / weights.sum()))]
            before = self.module.computations
            try:
                self.choice(self.choices.op_generators[family])(self)
                instructions -= 1
            except SkipDraw:
                self._remove_computations_since(before)

    def _remove_computations_since(self, before: Sequence[Computation]) -> None:
        """Drops what a op generator drew before it gave up, callers first."""
        left = self.module.computations[len(before) :]
        while left:
            for computation in left:
                if not computation.callers:
                    edit.remove_computation(computation)
            left = self.module.computations[len(before) :]

    def finish(self, root: Instruction) -> Computation:
        """Sets the root, and puts the instructions into the order in which they print."""
        edit.set_root(self.computation, root)
        edit.reorder(self.computation, post_order(self.computation))
        return self.computation


OpGenerator = Callable[[ModuleGenerator], None]

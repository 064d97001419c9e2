"""Generates one computation at random: `ModuleGenerator`, which all op generators use.

Responsible for random choices, for the pool of values that later instructions may use, and for new values (constants,
iotas, parameters). Does not depend on other ops.

An op generator is a function `op_generator(generator) -> None` that adds one instruction and the operands it lacks. It
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

MAX_ELEMENTS = 256
"""The maximum number of elements of an array in a random module."""

_RANK_PROBABILITIES = (0.12, 0.26, 0.28, 0.18, 0.09, 0.04, 0.03)
_SIZE_PROBABILITIES = (0.04, 0.16, 0.26, 0.26, 0.16, 0.12)
_COMMON_TYPE_NAMES = ("PRED", "S8", "S32", "S32", "S64", "U8", "U32", "F16", "BF16", "F32", "F32", "F32", "F64", "C64")
"""Element types that are drawn more often than others."""


class SkipDraw(Exception):
    """Raised by an op generator that finds nothing valid to add with the available values."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a module may contain: element types, and for each family its op generators and its weight."""

    types: tuple[PrimitiveType, ...]
    op_generators: Mapping[str, Sequence[OpGenerator]]
    weights: Mapping[str, float]


@dataclass(slots=True)
class ModuleGenerator:
    """Generates one computation.

    exact: only operations for which every implementation computes the same bits, even if it fuses several of them, such
    as a multiply and an add into one FMA. families: the families whose op generators may be used. scalars: only arrays
    of rank 0.
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
        """Returns a random number from low to high, inclusive."""
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choice(self, options: Sequence[T]) -> T:
        if not options:
            raise SkipDraw
        return options[int(self.rng.integers(len(options)))]

    def random_subset(self, options: Sequence[T], probability: float = 0.5) -> list[T]:
        """Returns each option with a probability, in order."""
        return [option for option in options if self.chance(probability)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return [options[int(index)] for index in self.rng.permutation(len(options))]

    def type(self, test: Callable[[PrimitiveType], bool] = lambda _: True) -> PrimitiveType:
        """Returns an element type that passes a test; the common types are more likely."""
        allowed = [t for t in self.choices.types if test(t) and self.allows(t)]
        common = [t for name in _COMMON_TYPE_NAMES for t in allowed if t.name == name]
        return self.choice(common if common and self.chance(0.6) else allowed)

    def compatible_type(self, t: PrimitiveType) -> PrimitiveType:
        """Returns an element type for a second operand. A float gets the same float, because XLA's verifier rejects
        mixed floats.
        """
        return self.type(lambda other: other is t or not (t.is_floating and other.is_floating))

    def compatible_types(self, first: PrimitiveType, count: int) -> list[PrimitiveType]:
        """Returns `count` types for the operands after the first. All floats among them and `first` are equal."""
        types: list[PrimitiveType] = []
        for _ in range(count):
            floats = [t for t in (first, *types) if t.is_floating]
            types.append(self.compatible_type(floats[0] if floats else PRED))
        return types

    def allows(self, t: PrimitiveType) -> bool:
        """Whether an element type may occur. Exact computations use only types with the same arithmetic everywhere."""
        return not self.exact or t is PRED or (t.bits >= 8 and not t.is_complex and not (t.is_floating and t.bits < 32))

    def size(self) -> int:
        """Returns the size of a dimension, rarely 0."""
        return int(self.rng.choice(len(_SIZE_PROBABILITIES), p=_SIZE_PROBABILITIES))

    def positive(self, maximum: int = 5) -> int:
        return self.integer(1, maximum)

    def dimensions(self, min_rank: int = 0, max_rank: int = 6) -> tuple[int, ...]:
        """Returns the dimensions of an array with at most MAX_ELEMENTS elements."""
        if self.scalars:
            if min_rank:
                raise SkipDraw
            return ()
        while True:
            rank = int(self.rng.choice(len(_RANK_PROBABILITIES), p=_RANK_PROBABILITIES))
            sizes = tuple(self.size() for _ in range(rank))
            if min_rank <= rank <= max_rank and prod(sizes) <= MAX_ELEMENTS:
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
        """Adds an instruction to the computation and the pool."""
        added = edit.create(self.computation, op, operands, attributes, computations, shape=shape)
        self.pool.append(added)
        return added

    def remove_last_from_pool(self) -> None:
        """Removes the last instruction from the pool, so that no other instruction uses its value."""
        self.pool.pop()

    def constant(self, array: np.ndarray[Any, Any]) -> Instruction:
        literal = Literal.of(array)
        return self.add(CONSTANT, (), ConstantAttributes.make(literal=literal), shape=literal.shape)

    def parameter(self, shape: Shape) -> Instruction:
        number = len(self.computation.parameters)
        return self.add(PARAMETER, (), ParameterAttributes.make(number=number), shape=shape)

    # -- operands

    def value(self, shape: Shape) -> Instruction:
        """Returns a value of a shape (ignoring the layout): an existing one, or a new one."""
        fitting = [i for i in self.pool if i.shape.compatible(shape)]
        return self.choice(fitting) if fitting and self.chance(0.8) else self.new_array(shape)

    def array_of(self, dimensions: Sequence[int], t: PrimitiveType) -> Instruction:
        """Returns a value with the given dimensions and element type."""
        return self.value(Shape.array(t, dimensions))

    def array(self, test: ShapeTest, types: Callable[[PrimitiveType], bool], min_rank: int = 0) -> Instruction:
        """Returns an array that passes a test and whose element type passes `types`: an existing one, or a new one."""
        fitting = [
            i
            for i in self.pool
            if i.shape.is_array
            and i.shape.rank >= min_rank
            and types(i.shape.element_type)
            and self.allows(i.shape.element_type)
            and test(i.shape)
        ]
        if fitting and self.chance(0.85):
            return self.choice(fitting)
        fresh = Shape.array(self.type(types), self.dimensions(min_rank))
        if not test(fresh):
            raise SkipDraw
        return self.new_array(fresh)

    def new_array(self, shape: Shape) -> Instruction:
        """Returns a new array: a parameter (only in the entry), a constant, an iota, or a broadcast scalar."""
        if not shape.is_array:
            raise SkipDraw
        how = self.rng.random()
        if how < 0.35 and self.depth == 0:
            return self.parameter(shape)
        if how < 0.5 and shape.rank and shape.element_type is not PRED:
            dimension = self.integer(0, shape.rank - 1)
            return self.add(IOTA, (), IotaAttributes.make(iota_dimension=dimension), shape=shape)
        if how < 0.65 and shape.rank:
            scalar = self.constant(self.random_elements((), shape.element_type))
            return self.add(BROADCAST, (scalar,), BroadcastAttributes.make(dimensions=()), shape=shape)
        return self.constant(self.random_elements(shape.dimensions, shape.element_type))

    def random_elements(self, dimensions: Sequence[int], t: PrimitiveType) -> np.ndarray[Any, Any]:
        """Returns random elements, in half of the calls mixed with special values (NaN, infinities, extremes).

        Complex parts are never the largest number, and either both or neither are NaN, because XLA misreads its own
        output for them.
        """
        array = random_array(dimensions, t.dtype, self.rng, special=self.chance(0.5))
        if t.is_complex:
            largest = np.finfo(array.dtype).max
            for part in (array.real, array.imag):
                part[np.abs(part) == largest] = 1
            array[np.isnan(array)] = complex(np.nan, np.nan)
        return array

    def indices(self, dimensions: Sequence[int], highest: int) -> Instruction:
        """Returns integers of any type, most of them from 0 to `highest`: an existing array, or a constant."""
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
        """Returns the generator of a new computation with parameters of the given shapes and no other instructions."""
        computation = edit.add_computation(self.module, name)
        chosen = tuple(families) or self.families
        inner = ModuleGenerator(self.module, computation, self.rng, self.choices, chosen, True, scalars, self.depth + 1)
        for shape in parameters:
            inner.parameter(shape)
        return inner

    def add_random_instructions(self, instructions: int) -> None:
        """Adds `instructions` instructions, each by a random op generator of the permitted families."""
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
        """Removes the computations that an op generator added before it raised `SkipDraw`, callers first."""
        left = self.module.computations[len(before) :]
        while left:
            for computation in left:
                if not computation.callers:
                    edit.remove_computation(computation)
            left = self.module.computations[len(before) :]

    def finish(self, root: Instruction) -> Computation:
        """Sets the root, and orders the instructions as they are printed."""
        edit.set_root(self.computation, root)
        edit.reorder(self.computation, post_order(self.computation))
        return self.computation


OpGenerator = Callable[[ModuleGenerator], None]

"""Writes the fusion of a gradient of attention, whose arrays all have their dimensions in one order.

    scores      batch, queries, keys       products over keys      batch, queries, columns
    operands    batch, queries, terms      products over queries   batch, keys, columns
                batch, keys, terms

Operands are transposed in the fusion, which costs nothing: a kernel reads each of their elements where it lies.
Dimensions of size 1 are left out. Does not depend on which values form a gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xlapy import opcodes
from xlapy.analysis.cost import MAX_RECOMPUTED_COST, element_cost
from xlapy.base.element_types import F32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.codegen.fusion.score_values import TERMS, DotLabels, Labels
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.lower.contraction import sum_type
from xlapy.lower.element_types import register_type
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.movement import BroadcastAttributes, DimensionsAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.expand.blocks import reduce_dimensions
from xlapy.passes.rewrite import Writer, remove_if_dead

MAX_OPERAND_INSTRUCTIONS = 16
"""The largest number of instructions that compute an element of an operand, such as a mask, in the fusion. Operands
that take more, such as random bits, are computed before, and read from memory."""

_REORDERINGS = frozenset({opcodes.BROADCAST, opcodes.RESHAPE, opcodes.TRANSPOSE})


_SEGMENT = TERMS - 1
"""The label of the dimension of segments of queries."""


class ScoreFusion:
    """A fusion of two dots of scores, of values between dots, and of products with them."""

    def __init__(
        self,
        module: Module,
        scores: Mapping[Instruction, DotLabels],
        labels: Mapping[Instruction, Labels],
        order: Sequence[int],
    ) -> None:
        """scores: the dots. labels: of all values between dots. order: of the labels, from the first dimension to the
        last, which is the one of the keys."""
        self._scores, self._labels, self._order = scores, labels, order
        self._fused = edit.add_computation(module, "fused_computation")
        self._operands: dict[Instruction, Instruction] = {}
        self._values: dict[Instruction, Instruction] = {}
        self._outer: dict[Instruction, Instruction] = {}
        self._in_place: dict[tuple[Instruction, Labels], Instruction] = {}
        self._results: list[tuple[Instruction, Instruction, int]] = []
        """The instructions that results replace, the results, and their segments, which are to be added up."""
        first = next(iter(scores))
        parent = first.parent
        assert parent is not None
        self._parent, self._metadata = parent, first.metadata
        self._fusion: Instruction | None = None

    def add_product_of_rows(self, dot: Instruction, weights: Instruction, labels: DotLabels) -> None:
        """Adds a dot of values with an array over the keys, with the moves and conversions that follow it."""
        *before, key = self._order
        batch = self._order[: self._batches()]
        other, of_other = _other(dot, weights, labels)
        operand = self._moved(self._operand(other, _REORDERINGS), of_other, (*batch, key, TERMS))
        along = (len(self._order) - 1,), (len(batch),)
        product = self._dot(dot, (self._value(weights), operand), len(batch), along, dot.shape.element_type)
        restored = self._restored(product, (*before, TERMS), labels.result, dot.shape.dimensions)
        self._add_result(dot, restored, converts=True)

    def add_product_of_keys(self, dot: Instruction, weights: Instruction, labels: DotLabels, segments: int) -> None:
        """Adds a dot of values with an array over the queries, with the moves that follow it.

        segments: the number of parts of the queries, each of which has a result; their sum replaces the dot.
        """
        *before, key = self._order
        batches, queries = self._batches(), len(self._order) - 2
        other, of_other = _other(dot, weights, labels)
        values = (
            self._value(weights),
            self._moved(self._operand(other, _REORDERINGS), of_other, (*before, TERMS)),
        )
        kept, wanted, dimensions = [*self._order[:batches], key, TERMS], labels.result, dot.shape.dimensions
        along, batch = tuple(range(batches, queries + 1)), tuple(range(batches))
        if segments > 1:
            values = self._in_segments(values[0], segments), self._in_segments(values[1], segments)
            along, batch = (*range(batches, queries), queries + 1), (*batch, queries)
            kept.insert(batches, _SEGMENT)
            wanted, dimensions = (_SEGMENT, *wanted), (segments, *dimensions)
        product = self._dot(dot, values, batch, (along, along), _type_of_result(dot))
        self._add_result(dot, self._restored(product, kept, wanted, dimensions), segments=segments)

    def _in_segments(self, value: Instruction, segments: int) -> Instruction:
        """A value with its queries divided into segments, which are a dimension before the other queries."""
        *outer, queries, columns = value.shape.dimensions
        return self._reshaped(value, (*outer, segments, queries // segments, columns))

    def _dot(
        self,
        source: Instruction,
        operands: Sequence[Instruction],
        batch: int | tuple[int, ...],
        along: tuple[tuple[int, ...], tuple[int, ...]],
        t: PrimitiveType,
    ) -> Instruction:
        """Writes a dot with the algorithm of another one. batch: the dimensions of both operands, or how many."""
        batch = tuple(range(batch)) if isinstance(batch, int) else batch
        attributes: Attributes = source.attributes_as(DotAttributes).replace(
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=along[0],
            rhs_contracting_dims=along[1],
            operand_precision=(),
        )
        sizes = [operands[0].shape.dimensions[d] for d in batch]
        for operand, contracted in zip(operands, along, strict=True):
            sizes += [size for d, size in enumerate(operand.shape.dimensions) if d not in (*batch, *contracted)]
        return self._create(opcodes.DOT, operands, attributes, Shape.array(t, sizes))

    def finish(self) -> Instruction:
        """Writes the root of the fusion, and the fusion itself."""
        results = [result for _, result, _ in self._results]
        root = results[0] if len(results) == 1 else self._create(opcodes.TUPLE, results, None, None)
        edit.set_root(self._fused, root)
        kind = FusionAttributes.make(kind=FusionKind.LOOP)
        self._fusion = edit.create(
            self._parent,
            opcodes.FUSION,
            tuple(self._operands),
            kind,
            [self._fused],
            shape=root.shape,
            name="attention_gradient.fusion",
            metadata=self._metadata,
        )
        return self._fusion

    def discard(self) -> None:
        """Removes the fusion."""
        assert self._fusion is not None
        edit.remove(self._fusion)
        edit.remove_computation(self._fused)

    def replace_results(self) -> None:
        """Replaces the dots, and what followed them, by the results of the fusion."""
        fusion = self._fusion
        assert fusion is not None
        for number, (replaced, _, segments) in enumerate(self._results):
            write = Writer(replaced)
            taken = write.get_tuple_element(fusion, number) if len(self._results) > 1 else fusion
            if segments > 1:
                taken = reduce_dimensions(write, opcodes.ADD, taken, [0])
            edit.replace_uses(replaced, write.convert(taken, replaced.shape.element_type))
            remove_if_dead(replaced)

    # -- results

    def _add_result(self, dot: Instruction, result: Instruction, *, segments: int = 1, converts: bool = False) -> None:
        """Adds a result, with the transposes, reshapes and perhaps conversions of it that have no other user."""
        step, lead = dot, (segments,) if segments > 1 else ()
        while step.user_count == 1 and not step.is_root:
            (user,) = step.users
            if user.has_control_edges:
                break
            if user.op is opcodes.TRANSPOSE:
                order = [d + len(lead) for d in user.dimensions]
                result = self._transposed(result, [*range(len(lead)), *order])
            elif user.op is opcodes.RESHAPE:
                result = self._reshaped(result, (*lead, *user.shape.dimensions))
            elif user.op is opcodes.CONVERT and converts:
                shape = Shape.array(user.shape.element_type, user.shape.dimensions)
                result = self._create(user.op, (result,), user.attributes, shape)
            else:
                break
            step = user
        self._results.append((step, result, segments))

    def _restored(
        self, product: Instruction, order: Sequence[int], labels: Labels, dimensions: Sequence[int]
    ) -> Instruction:
        """A product with the dimensions of the dot that it replaces."""
        wanted = [label for label in labels if label is not None]
        moved = self._transposed(product, [order.index(label) for label in wanted])
        return self._reshaped(moved, dimensions)

    # -- values between the dots

    def _value(self, value: Instruction) -> Instruction:
        """The value in the fusion, with its dimensions in order."""
        if value not in self._values:
            self._values[value] = self._written(value)
        return self._values[value]

    def _written(self, value: Instruction) -> Instruction:
        if value in self._scores:
            return self._written_scores(value)
        labels = self._in_order(self._labels[value])
        if value.op in (opcodes.RESHAPE, opcodes.TRANSPOSE):
            return self._value(value.operands[0])
        shape = Shape.array(value.shape.element_type, self._sizes(labels))
        if value.op is opcodes.BROADCAST:
            (operand,) = value.operands
            places = [labels.index(label) for label in self._in_order(self._labels[operand])]
            attributes: Attributes = BroadcastAttributes.make(dimensions=tuple(places))
            return self._create(opcodes.BROADCAST, (self._value(operand),), attributes, shape)
        if value.op is opcodes.REDUCE:
            operand, initial = value.operands
            inner = self._value(operand)
            attributes = value.attributes.replace(dimensions=(inner.shape.rank - 1,))
            made = (inner, self._operand(initial))
            return edit.create(self._fused, value.op, made, attributes, value.computations, shape=shape)
        operands = [
            self._value(operand)
            if operand in self._labels
            else self._adapted(operand, self._labels[value])
            if operand.shape.rank
            else self._operand(operand)
            for operand in value.operands
        ]
        return self._create(value.op, operands, value.attributes, shape)

    def _written_scores(self, dot: Instruction) -> Instruction:
        labels, batches = self._scores[dot], self._batches()
        *before, key = self._order
        sides = list(zip(dot.operands, (labels.left, labels.right), strict=True))
        if key in labels.left:
            sides.reverse()
        orders = ((*before, TERMS), (*self._order[:batches], key, TERMS))
        queries, keys = (
            self._moved(self._operand(operand, _REORDERINGS), of_operand, order)
            for (operand, of_operand), order in zip(sides, orders, strict=True)
        )
        along = (queries.shape.rank - 1,), (keys.shape.rank - 1,)
        return self._dot(dot, (queries, keys), batches, along, dot.shape.element_type)

    def _batches(self) -> int:
        """The number of batch dimensions: those that the keys of a score have, too."""
        labels = next(iter(self._scores.values()))
        keys = labels.left if self._order[-1] in labels.left else labels.right
        return sum(label in keys for label in self._order[:-1])

    def _in_order(self, labels: Labels) -> list[int]:
        return [label for label in self._order if label in labels]

    def _sizes(self, labels: Sequence[int]) -> list[int]:
        sizes = next(iter(self._scores)).shape.dimensions
        return [sizes[label] for label in labels]

    # -- operands

    def _operand(self, operand: Instruction, ops: Collection[OpDef] | None = None) -> Instruction:
        """An operand in the fusion: a parameter, or a few instructions that compute it from parameters.

        ops: the opcodes of these instructions; by default, all cheap ones.
        """
        if operand not in self._outer:
            inner = _instructions_of(operand, ops)
            for instruction in inner or [operand]:
                if instruction not in self._outer:
                    self._outer[instruction] = (
                        edit.clone_instruction(
                            instruction, self._fused, [self._source(o) for o in instruction.operands]
                        )
                        if inner
                        else self._source(instruction)
                    )
        return self._outer[operand]

    def _source(self, operand: Instruction) -> Instruction:
        """The instruction in the fusion, or a parameter."""
        if operand in self._outer:
            return self._outer[operand]
        if operand not in self._operands:
            attributes = ParameterAttributes.make(number=len(self._operands))
            self._operands[operand] = edit.create(
                self._fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param"
            )
        return self._operands[operand]

    def _adapted(self, operand: Instruction, labels: Labels, moves: int = MAX_OPERAND_INSTRUCTIONS) -> Instruction:
        """An operand of a value between the dots, given its labels, with its dimensions in order.

        What repeats or moves elements is written anew for the dimensions of the fusion, so that a broadcast stays one.
        moves: the largest number of such instructions.
        """
        if (operand, labels) not in self._in_place:
            self._in_place[operand, labels] = self._written_operand(operand, labels, moves)
        return self._in_place[operand, labels]

    def _written_operand(self, operand: Instruction, labels: Labels, moves: int) -> Instruction:
        order = self._in_order(labels)
        if not moves:
            return self._moved(self._operand(operand), labels, order)
        if operand.op is opcodes.TRANSPOSE:
            places = sorted(range(len(labels)), key=lambda d: operand.dimensions[d])
            return self._adapted(operand.operands[0], tuple(labels[d] for d in places), moves - 1)
        if operand.op is opcodes.RESHAPE and _without_units(operand) == _without_units(operand.operands[0]):
            kept = iter([label for label in labels if label is not None])
            sizes = operand.operands[0].shape.dimensions
            of_inner = tuple(next(kept) if size > 1 else None for size in sizes)
            return self._adapted(operand.operands[0], of_inner, moves - 1)
        if operand.op is opcodes.BROADCAST:
            of_inner = tuple(labels[d] for d in operand.dimensions)
            inner = self._adapted(operand.operands[0], of_inner, moves - 1)
            attributes = BroadcastAttributes.make(dimensions=tuple(map(order.index, self._in_order(of_inner))))
            shape = Shape.array(operand.shape.element_type, self._sizes(order))
            return inner if inner.shape == shape else self._create(opcodes.BROADCAST, (inner,), attributes, shape)
        return self._moved(self._operand(operand), labels, order)

    def _moved(self, operand: Instruction, labels: Labels, order: Sequence[int]) -> Instruction:
        """An operand without dimensions of size 1, and with the others in an order of labels."""
        kept = [label for label in labels if label is not None]
        sizes = [size for size, label in zip(operand.shape.dimensions, labels, strict=True) if label is not None]
        return self._transposed(self._reshaped(operand, sizes), [kept.index(label) for label in order])

    def _reshaped(self, operand: Instruction, sizes: Sequence[int]) -> Instruction:
        if tuple(sizes) == tuple(operand.shape.dimensions):
            return operand
        return self._create(opcodes.RESHAPE, (operand,), None, Shape.array(operand.shape.element_type, sizes))

    def _transposed(self, operand: Instruction, order: Sequence[int]) -> Instruction:
        if list(order) == sorted(order):
            return operand
        attributes = DimensionsAttributes.make(dimensions=tuple(order))
        shape = Shape.array(operand.shape.element_type, [operand.shape.dimensions[d] for d in order])
        return self._create(opcodes.TRANSPOSE, (operand,), attributes, shape)

    def _create(
        self, op: OpDef, operands: Sequence[Instruction], attributes: Attributes | None, shape: Shape | None
    ) -> Instruction:
        return edit.create(self._fused, op, operands, attributes, shape=shape)


def _instructions_of(operand: Instruction, ops: Collection[OpDef] | None) -> list[Instruction]:
    """The instructions with some opcodes that compute an operand, operands before users; empty if memory holds it.

    ops: by default, moves and cheap functions of constants, of positions and of broadcasts, such as masks.
    """

    def is_computed(instruction: Instruction) -> bool:
        if ops is not None:
            return instruction.op in ops
        if instruction.op is opcodes.CONSTANT:
            return not instruction.shape.rank
        is_cheap = instruction.op.elementwise and element_cost(instruction) <= MAX_RECOMPUTED_COST
        return instruction.op is opcodes.IOTA or instruction.op in _REORDERINGS or is_cheap

    found, seen = list[Instruction](), set[Instruction]()
    pending = [(operand, False)]
    while pending:
        instruction, is_after_operands = pending.pop()
        if is_after_operands:
            found.append(instruction)
        elif instruction not in seen and is_computed(instruction):
            if len(seen) == MAX_OPERAND_INSTRUCTIONS:
                return []
            seen.add(instruction)
            pending += ((instruction, True), *((inner, False) for inner in instruction.operands))
    return found


def _other(dot: Instruction, weights: Instruction, labels: DotLabels) -> tuple[Instruction, Labels]:
    """The operand of a product that is not the weights, and its labels."""
    return (dot.operands[1], labels.right) if dot.operands[0] is weights else (dot.operands[0], labels.left)


def _without_units(instruction: Instruction) -> list[int]:
    return [size for size in instruction.shape.dimensions if size > 1]


def _type_of_result(dot: Instruction) -> PrimitiveType:
    """The type of the result of a dot in the fusion, so that sums over blocks can be added up in memory."""
    t = sum_type([operand.shape.element_type for operand in dot.operands], dot.shape.element_type)
    return F32 if register_type(t) is register_type(F32) else t

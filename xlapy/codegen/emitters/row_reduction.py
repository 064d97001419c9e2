"""Emits kernels that run row by row: first the reductions of a row, then the elements that depend on them.

A kernel makes several sweeps over each row. The first sweep computes, in one loop, the reductions that depend on no
other; each further sweep computes those that depend on the sweeps before. Results are written in the first sweep that
can compute them. Values that are expensive and needed by several sweeps are kept in scratch memory. Example, the
softmax of rows of 1000:

    for row in 64 parallel
      for i in 1000: the maximum
      for i in 1000: exp(x - maximum) to scratch memory, and their sum
      for i in 1000: out = scratch / sum

If the rows are short, every element of a row gets code of its own instead, and vectors run across rows.

Does not decide which instructions share a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.analysis.cost import MAX_RECOMPUTED_COST, element_cost
from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.iteration_domain import (
    AccessPattern,
    IterationDomain,
    access_patterns,
    domain_of_reduction,
    operand_pattern,
    reduction_depths,
)
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_of, monoid
from xlapy.loops import Affine, AxisKind, Buffer, Builder, Value
from xlapy.loops.reduction_order import ACCUMULATOR_VECTORS, accumulator_vectors
from xlapy.lower import Lowering, Source, components, register_type, storage_type, store_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import Element
from xlapy.lower.reduction import combine_elements

Body = Callable[[Affine, Sequence[Value]], Sequence[Value]]

MAX_SCRATCH_BYTES_PER_ROW = 1 << 16
"""The largest number of bytes of scratch memory for the values of one row. Values beyond it are computed again in each
sweep."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a kernel runs over its rows: the access pattern of each instruction, and the sweeps in order."""

    domain: IterationDomain
    patterns: dict[Instruction, AccessPattern]
    sweeps: list[Sweep]


@dataclass(slots=True)
class Sweep:
    """One loop over the elements of a row."""

    reductions: list[Instruction] = field(default_factory=list[Instruction])
    results: list[Instruction] = field(default_factory=list[Instruction])
    """Instructions whose row is written to a result of the kernel."""
    cached: list[Instruction] = field(default_factory=list[Instruction])
    """Instructions whose row is written to scratch memory, for later sweeps."""


def plan_row_reduction(results: Sequence[Instruction], instructions: Sequence[Instruction]) -> RowPlan | None:
    """Plans the sweeps of a region; returns None if it has no reductions of rows.

    instructions: those of the region, operands before users.
    """
    reductions = [i for i in instructions if i.op is opcodes.REDUCE]
    domains = {domain_of_reduction(r) for r in reductions}
    if len(domains) != 1 or (len(reductions) == 1 and list(results) == reductions):
        return None
    (domain,) = domains
    if domain.length == 1:
        return None
    members = [i for i in instructions if i.op is not opcodes.TUPLE]
    patterns = access_patterns(domain, results, members[::-1])
    if isinstance(patterns, str):
        return None
    depth = reduction_depths(members)
    sweeps = [Sweep() for _ in range(1 + max(depth.values()))]
    for member in members:
        if member.op is opcodes.REDUCE:
            sweeps[depth[member]].reductions.append(member)
        elif patterns[member] is AccessPattern.IDENTITY and member in results:
            sweeps[depth[member]].results.append(member)
    plan = RowPlan(domain, patterns, sweeps)
    _choose_cached_values(plan, members)
    return plan


def region_row_plan(region: Region) -> RowPlan | None:
    """The sweeps of a region; None if it has no reductions of rows."""
    return plan_row_reduction(region.results, region.instructions)


def _choose_cached_values(plan: RowPlan, members: Sequence[Instruction]) -> None:
    """Decides which values scratch memory keeps: those that several sweeps need and that are expensive."""
    needed: dict[Instruction, set[int]] = {}
    for number, sweep in enumerate(plan.sweeps):
        for instruction in (*sweep.results, *(r.operands[0] for r in sweep.reductions)):
            needed.setdefault(instruction, set()).add(number)
    results = {result for sweep in plan.sweeps for result in sweep.results}
    written: set[Instruction] = set()
    space_left = MAX_SCRATCH_BYTES_PER_ROW
    for member in reversed(members):
        if plan.patterns[member] is not AccessPattern.IDENTITY or member not in needed:
            continue
        first = min(needed[member])
        if member in results:
            written.add(member)
        elif len(needed[member]) > 1 and _is_expensive(plan, member, written):
            size = plan.domain.length * member.shape.element_type.byte_size
            if size <= space_left:
                space_left -= size
                plan.sweeps[first].cached.append(member)
                written.add(member)
        for operand in member.operands:
            sweeps = {first} if member in written else needed[member]
            needed.setdefault(operand, set()).update(sweeps)


def _is_expensive(plan: RowPlan, instruction: Instruction, written: set[Instruction]) -> bool:
    """Whether computing an element again costs more than storing and loading it."""
    total, seen, stack = 0, {instruction}, [instruction]
    while stack and total <= MAX_RECOMPUTED_COST:
        member = stack.pop()
        total += element_cost(member)
        for operand in member.operands:
            if operand in seen or operand in written or operand not in plan.patterns:
                continue
            seen.add(operand)
            if operand_pattern(plan.domain, member, plan.patterns[member], operand) in (
                AccessPattern.IDENTITY,
                AccessPattern.PER_COLUMN,
                AccessPattern.IRREGULAR,
            ):
                stack.append(operand)
    return total > MAX_RECOMPUTED_COST


def lanes_of_widest(vector_bytes: int, instructions: Sequence[Instruction]) -> int:
    """Returns the number of lanes of a vector of the widest elements among some arrays."""
    arrays = [i for i in instructions if i.shape.is_array and i.shape.rank]
    return vector_bytes // max(register_type(i.shape.element_type).byte_size for i in arrays)


def emit_unrolled_row(
    builder: Builder,
    plan: RowPlan,
    operands: dict[Instruction, Source],
    row: Affine,
    results: Sequence[tuple[Instruction, Buffer]],
) -> None:
    """Emits the code of one row without loops. All elements are computed before any is stored."""
    length = plan.domain.length
    values: dict[Instruction, Element] = {}
    lowering = Lowering(builder, operands, values)

    def element(instruction: Instruction, position: Affine) -> Element:
        return lowering.element(instruction, delinear(builder, position, instruction.shape.dimensions))

    for sweep in plan.sweeps:
        for reduction in sweep.reductions:
            total = lowering.element(reduction.operands[1], ())
            for number in range(length):
                term = element(reduction.operands[0], row * length + number)
                (total,) = combine_elements(lowering, reduction.to_apply, [total], [term])
            values[reduction] = total
    stores: list[tuple[Buffer, Affine, Element, PrimitiveType]] = []
    for result, buffer in results:
        positions = (
            [row]
            if plan.patterns[result] is AccessPattern.PER_ROW
            else [row * length + number for number in range(length)]
        )
        stores += [(buffer, p, element(result, p), result.shape.element_type) for p in positions]
    for store in stores:
        store_element(builder, *store)


class RowReductionEmitter:
    """Emits the sweeps of a plan."""

    def __init__(
        self, builder: Builder, plan: RowPlan, operands: dict[Instruction, Source], extent: Value | None = None
    ) -> None:
        """extent: the elements at the start of a row that are swept over, a positive multiple of `granularity`; by
        default, all of them."""
        self.builder = builder
        self.plan = plan
        self.extent: int | Value = plan.domain.length if extent is None else extent
        self.sources = dict(operands)
        self.values: dict[Instruction, Element] = {}
        """The values of the reductions of the current row."""
        self.lowering = Lowering(builder, self.sources, self.values)
        self.width = min(
            lanes_of_widest(builder.vector_bytes, [*plan.patterns, *operands]),
            1 << (plan.domain.length - 1).bit_length(),
        )

    @property
    def granularity(self) -> int:
        """The elements that an iteration of any sweep computes at most, if a row has as many."""
        return self.width * ACCUMULATOR_VECTORS

    def emit(self, results: Sequence[tuple[Instruction, Buffer]]) -> None:
        """Emits the whole kernel. results: the results of the region, each with its buffer."""
        buffers = dict(results)
        with self.rows() as row:
            for sweep in self.plan.sweeps:
                self.sweep(row, sweep, buffers)
            for result, buffer in results:
                if self.plan.patterns[result] is AccessPattern.PER_ROW:
                    element = self.lowering.element(result, self.index(result, row))
                    store_element(self.builder, buffer, row, element, result.shape.element_type)

    @contextmanager
    def rows(self) -> Iterator[Affine]:
        if self.plan.domain.rows == 1:
            yield Affine()
            return
        with self.builder.loop(self.plan.domain.rows, AxisKind.PARALLEL) as row:
            yield row

    def index(self, instruction: Instruction, position: Affine) -> Index:
        return delinear(self.builder, position, instruction.shape.dimensions)

    def sweep(self, row: Affine, sweep: Sweep, buffers: dict[Instruction, Buffer]) -> None:
        """Emits one loop for everything that can share it, then the reductions that cannot be reordered."""
        start = row * self.plan.domain.length
        in_vectors = [r for r in sweep.reductions if can_run_in_vectors(r)]
        for instruction in sweep.cached:
            t = instruction.shape.element_type
            size = self.plan.domain.length * components(t)
            buffers[instruction] = self.builder.scratch(f"row{len(buffers)}", storage_type(t), size)
        offsets = dict.fromkeys(sweep.results, start) | dict.fromkeys(sweep.cached, Affine())

        def elements(position: Affine, carried: Sequence[Value]) -> list[Value]:
            after: list[Value] = []
            for reduction, total in zip(in_vectors, carried, strict=True):
                operand = reduction.operands[0]
                term = self.lowering.element(operand, self.index(operand, start + position))
                combined = combine_elements(self.lowering, reduction.to_apply, [total], [term])
                after += [value for value in combined if isinstance(value, Value)]
            found = {i: self.lowering.element(i, self.index(i, start + position)) for i in offsets}
            for instruction, element in found.items():
                offset = offsets[instruction] + position
                store_element(self.builder, buffers[instruction], offset, element, instruction.shape.element_type)
            return after

        if in_vectors or offsets:
            self.values.update(zip(in_vectors, self.loop(in_vectors, elements), strict=True))
        for instruction, first in offsets.items():
            self.sources[instruction] = Source(buffers[instruction], instruction.shape, start - first)
        for reduction in sweep.reductions:
            if reduction not in self.values:
                self.values[reduction] = self.lowering.element(reduction, self.index(reduction, row))

    def loop(self, reductions: Sequence[Instruction], body: Body) -> list[Value]:
        """Emits a loop over the row in vectors, which carries the partial results of the reductions."""
        if not reductions:
            with self.builder.loop(self.extent, AxisKind.VECTOR, width=self.width) as position:
                body(position, [])
            return []
        types = [r.shape.element_type for r in reductions]
        return self.builder.reduce(
            self.extent,
            [self.lowering.value(r.operands[1], ()) for r in reductions],
            body,
            kind=AxisKind.VECTOR,
            width=self.width,
            accumulators=accumulator_vectors(self.plan.domain.length, self.width, sums=len(reductions)),
            identities=[
                self.builder.constant(register_type(t), identity_of(r.to_apply))
                for r, t in zip(reductions, types, strict=True)
            ],
            combine=lambda left, right: self.combined(reductions, left, right),
        )

    def combined(self, reductions: Sequence[Instruction], left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        values: list[Value] = []
        for reduction, a, b in zip(reductions, left, right, strict=True):
            (value,) = combine_elements(self.lowering, reduction.to_apply, [a], [b])
            assert isinstance(value, Value)
            values.append(value)
        return values


def can_run_in_vectors(reduction: Instruction) -> bool:
    """Whether the terms of a reduction can be combined in any order, in vectors."""
    return monoid(reduction.to_apply) is not None and not reduction.shape.element_type.is_complex

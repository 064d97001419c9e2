"""Layout assignment: the pass that decides the layout of every array.

Parameters and result of the entry have the layouts of `entry_computation_layout`; those of other computations are
row-major. Layouts propagate from operands to results; the rule depends on the operation:

- elementwise operations, slices, pads and the like follow: they have the layout of their first operand of equal rank;
- dot, broadcast and reduce take operands of any layout, and their results are row-major;
- tuples, get-tuple-elements and barriers forward the layouts of their operands;
- bitcasts, copies, custom calls, transfers and fusions keep the layouts that they declare, because they depend on them;
- a transpose becomes a bitcast: its result's layout is permuted with the dimensions, so that no element moves; a
  reshape of a row-major array becomes a bitcast too;
- all other operations take and return row-major arrays.

An operand with another layout than required is copied, once for each layout. Memory spaces and element sizes in layouts
are kept. XLA's counterpart is LayoutAssignment.

Responsible for the layouts that operations choose or require, and for copies. Does not depend on strides or kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import AsyncRole
from xlapy.passes.layouts.layout_copies import (
    LayoutCopies,
    entry_signature,
    minor_to_major,
    row_major,
    with_dimension_order,
)
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

_LAYOUT_FOLLOWING_OPS = frozenset(
    {
        opcodes.CONCATENATE,
        opcodes.DYNAMIC_SLICE,
        opcodes.DYNAMIC_UPDATE_SLICE,
        opcodes.PAD,
        opcodes.REVERSE,
        opcodes.SET_DIMENSION_SIZE,
        opcodes.SLICE,
    }
)
_ANY_LAYOUT_OPS = frozenset({opcodes.BROADCAST, opcodes.DOT, opcodes.GET_DIMENSION_SIZE, opcodes.REDUCE})
_LAYOUT_FORWARDING_OPS = frozenset({opcodes.ADD_DEPENDENCY, opcodes.DOMAIN, opcodes.OPT_BARRIER})
_FIXED_LAYOUT_FAMILIES = frozenset({"transfer", "custom"})
_FIXED_LAYOUT_OPS = frozenset({opcodes.BITCAST, opcodes.COPY, opcodes.FUSION})


@dataclass(frozen=True)
class AssignLayouts:
    """Gives every array a layout, starting from those of the entry, and inserts copies where layouts differ.

    Transposes and reshapes become bitcasts. Passes that follow must keep layouts: `simplify{layout_sensitive=true}`.
    """

    name: ClassVar[str] = "assign-layouts"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            changed |= _LayoutAssignment(computation).run()
        return update_schedule(module, changed)


class _LayoutAssignment:
    """Assigns the layouts of one computation."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        self.declared = {instruction: instruction.shape for instruction in computation}
        self.copies = LayoutCopies()
        self.changed = False

    def run(self) -> bool:
        parameters, result = self._signature()
        for parameter, shape in zip(self.computation.parameters, parameters, strict=True):
            self._set_shape(parameter, shape)
        for instruction in post_order(self.computation):
            if instruction.op is not opcodes.PARAMETER:
                self._assign(instruction)
        root = self.computation.root_instruction
        wanted = self.copies.in_layout(root, result)
        if wanted is not root:
            edit.set_root(self.computation, wanted)
        return self.changed or self.copies.made_any

    def _signature(self) -> tuple[Sequence[Shape], Shape]:
        """Returns the shapes, including layouts, that parameters and result must have."""
        given = entry_signature(self.computation)
        if given is not None:
            return given
        program = self.computation.program_shape
        return [row_major(shape) for shape in program.parameters], row_major(program.result)

    def _assign(self, instruction: Instruction) -> None:
        op = instruction.op
        if op is opcodes.TUPLE:
            self._set_shape(instruction, Shape.tuple(instruction.operand_shapes))
        elif op is opcodes.GET_TUPLE_ELEMENT:
            self._set_shape(instruction, instruction.operands[0].shape.tuple_shapes[instruction.tuple_index])
        elif op in _LAYOUT_FORWARDING_OPS:
            self._set_shape(instruction, instruction.operands[0].shape)
        elif op in _FIXED_LAYOUT_OPS or op.family in _FIXED_LAYOUT_FAMILIES or op.async_role is not AsyncRole.NONE:
            self._require(instruction, [self.declared[operand] for operand in instruction.operands])
        elif op is opcodes.TRANSPOSE:
            self._follow_permutation(instruction)
        elif op.elementwise or op in _LAYOUT_FOLLOWING_OPS:
            self._follow(instruction)
        elif op in _ANY_LAYOUT_OPS:
            self._set_shape(instruction, row_major(instruction.shape))
        else:
            self._take_row_major(instruction)

    def _follow(self, instruction: Instruction) -> None:
        rank = instruction.shape.rank
        alike = [operand for operand in instruction.operands if operand.shape.rank == rank]
        order = minor_to_major(alike[0].shape) if alike else minor_to_major(row_major(instruction.shape))
        shapes = [
            with_dimension_order(o.shape, order) if o.shape.rank == rank else row_major(o.shape)
            for o in instruction.operands
        ]
        self._require(instruction, shapes)
        self._set_shape(instruction, with_dimension_order(instruction.shape, order))

    def _follow_permutation(self, instruction: Instruction) -> None:
        """Permutes the layout with the dimensions: result dimension i is operand dimension `dimensions[i]`."""
        (operand,) = instruction.operands
        order = tuple(instruction.dimensions.index(d) for d in minor_to_major(operand.shape))
        self._set_shape(instruction, with_dimension_order(instruction.shape, order))
        self._make_bitcast(instruction)

    def _take_row_major(self, instruction: Instruction) -> None:
        self._require(instruction, [row_major(operand.shape) for operand in instruction.operands])
        self._set_shape(instruction, row_major(instruction.shape))
        if instruction.op is opcodes.RESHAPE:
            self._make_bitcast(instruction)

    def _make_bitcast(self, instruction: Instruction) -> None:
        (operand,) = instruction.operands
        if instruction.shape.is_dynamic or operand.shape.is_dynamic:
            return
        if instruction.shape.byte_size != operand.shape.byte_size:
            return
        bitcast = Writer(instruction).add(opcodes.BITCAST, operand, shape=instruction.shape)
        self.declared[bitcast] = self.declared[instruction]
        replace_with_new(instruction, bitcast)
        self.changed = True

    # -- applying layouts

    def _set_shape(self, instruction: Instruction, shape: Shape) -> None:
        if instruction.shape != shape:
            edit.set_shape(instruction, shape)
            self.changed = True

    def _require(self, instruction: Instruction, shapes: Sequence[Shape]) -> None:
        """Copies operands whose layouts differ from those of the given shapes."""
        operands = [self.copies.in_layout(*each) for each in zip(instruction.operands, shapes, strict=True)]
        if tuple(operands) != instruction.operands:
            edit.set_operands(instruction, operands)

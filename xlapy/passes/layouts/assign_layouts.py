"""The pass that decides how every array lies in memory.

Owns: the layouts that operations choose or demand, the copies between them. Must not know: strides, kernels.

Parameters and result of the entry lie as `entry_computation_layout` says, those of other computations row-major.
Between, an operation is one of these:

- it follows: elementwise operations, slices, pads and the like lie as their first operand of the same rank does;
- it takes operands as they lie and lies row-major itself: dot, broadcast, reduce;
- it hands on what it is given: tuples and their elements, barriers;
- it keeps what is declared, for somebody relies on it: bitcasts, copies, custom calls, transfers, fusions;
- a transpose becomes a bitcast: the layout of its result follows the dimensions, so that nothing moves; a reshape of
  row-major elements becomes a bitcast too;
- all others take and give row-major arrays.

What lies otherwise than demanded is copied, once for each layout. Memory spaces and sizes of elements in layouts stay.
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
from xlapy.passes.layouts.layout_copies import LayoutCopies, entry_signature, laid_out, order_of, row_major
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

_FOLLOWING = frozenset(
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
_TAKING_ANY = frozenset({opcodes.BROADCAST, opcodes.DOT, opcodes.GET_DIMENSION_SIZE, opcodes.REDUCE})
_HANDING_ON = frozenset({opcodes.ADD_DEPENDENCY, opcodes.DOMAIN, opcodes.OPT_BARRIER})
_DECLARED_FAMILIES = frozenset({"transfer", "custom"})
_DECLARED = frozenset({opcodes.BITCAST, opcodes.COPY, opcodes.FUSION})


@dataclass(frozen=True)
class AssignLayouts:
    """Gives every array a layout, from those of the entry on, and inserts copies where layouts differ.

    Transposes and reshapes become bitcasts. From then on layouts matter: `simplify{layout_sensitive=true}`.
    """

    name: ClassVar[str] = "assign-layouts"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            changed |= _Assignment(computation).run()
        return update_schedule(module, changed)


class _Assignment:
    """The layouts of one computation."""

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
        wanted = self.copies.laid(root, result)
        if wanted is not root:
            edit.set_root(self.computation, wanted)
        return self.changed or self.copies.made_any

    def _signature(self) -> tuple[Sequence[Shape], Shape]:
        """The shapes that parameters and result must have."""
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
        elif op in _HANDING_ON:
            self._set_shape(instruction, instruction.operands[0].shape)
        elif op in _DECLARED or op.family in _DECLARED_FAMILIES or op.async_role is not AsyncRole.NONE:
            self._demand(instruction, [self.declared[operand] for operand in instruction.operands])
        elif op is opcodes.TRANSPOSE:
            self._follow_permutation(instruction)
        elif op.elementwise or op in _FOLLOWING:
            self._follow(instruction)
        elif op in _TAKING_ANY:
            self._set_shape(instruction, row_major(instruction.shape))
        else:
            self._take_row_major(instruction)

    def _follow(self, instruction: Instruction) -> None:
        rank = instruction.shape.rank
        alike = [operand for operand in instruction.operands if operand.shape.rank == rank]
        order = order_of(alike[0].shape) if alike else order_of(row_major(instruction.shape))
        shapes = [
            laid_out(o.shape, order) if o.shape.rank == rank else row_major(o.shape) for o in instruction.operands
        ]
        self._demand(instruction, shapes)
        self._set_shape(instruction, laid_out(instruction.shape, order))

    def _follow_permutation(self, instruction: Instruction) -> None:
        """Result dimension i is operand dimension `dimensions[i]`; memory stays as it is."""
        (operand,) = instruction.operands
        order = tuple(instruction.dimensions.index(d) for d in order_of(operand.shape))
        self._set_shape(instruction, laid_out(instruction.shape, order))
        self._make_bitcast(instruction)

    def _take_row_major(self, instruction: Instruction) -> None:
        self._demand(instruction, [row_major(operand.shape) for operand in instruction.operands])
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

    # -- making it so

    def _set_shape(self, instruction: Instruction, shape: Shape) -> None:
        if instruction.shape != shape:
            edit.set_shape(instruction, shape)
            self.changed = True

    def _demand(self, instruction: Instruction, shapes: Sequence[Shape]) -> None:
        """Operands lie as the shapes say."""
        operands = [self.copies.laid(*each) for each in zip(instruction.operands, shapes, strict=True)]
        if tuple(operands) != instruction.operands:
            edit.set_operands(instruction, operands)

"""Layout normalization: the pass that makes every array row-major.

It is for back ends whose arrays are all row-major: for them a transpose is an explicit operation, and a copy between
two layouts does nothing. Parameters and result of the entry keep their declared layouts; custom calls, transfers and
fusions keep the layouts that they depend on; copies are inserted between them and row-major values. XLA's counterpart
is LayoutNormalization.

Bitcasts are expanded by `expand/movement.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import AsyncRole
from xlapy.passes.expand.movement import bitcast
from xlapy.passes.layouts.layout_copies import LayoutCopies, entry_signature, row_major, same_order
from xlapy.passes.rewrite import Writer, editable_computations, remove_if_dead, replace_with_new, update_schedule

_FIXED_LAYOUT_FAMILIES = frozenset({"transfer", "custom"})
_FIXED_LAYOUT_OPS = frozenset({opcodes.BITCAST, opcodes.FUSION})
_ANY_LAYOUT_OPS = frozenset({opcodes.COPY, opcodes.GET_TUPLE_ELEMENT})


@dataclass(frozen=True)
class NormalizeLayouts:
    """Makes every array row-major; bitcasts become transposes, reshapes and bitcast-converts.

    Copies between layouts stay as copies between equal ones, which `simplify` removes.
    """

    name: ClassVar[str] = "normalize-layouts"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            changed |= _expand_bitcasts(computation)
            changed |= _LayoutNormalization(computation).run()
        return update_schedule(module, changed)


def _expand_bitcasts(computation: Computation) -> bool:
    """Expands bitcasts, which depend on the layouts of operand and result, before any layout changes."""
    changed = False
    for instruction in [i for i in computation if i.op is opcodes.BITCAST]:
        write = Writer(instruction)
        try:
            replacement = bitcast(write, instruction)
        except UnsupportedError:
            continue
        if replacement not in write.created:
            replacement = write.add(opcodes.COPY, replacement, shape=instruction.shape)
        replace_with_new(instruction, replacement)
        changed = True
    return changed


class _LayoutNormalization:
    """Normalizes the layouts of one computation."""

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        fixed = [i for i in computation if self._has_fixed_layout(i)]
        self.required = {instruction: instruction.operand_shapes for instruction in fixed}
        self.copies = LayoutCopies()
        self.changed = False
        root = computation.root_instruction
        given = entry_signature(computation)
        self.result = root.shape if given is None else given[1]
        ends = [(operand, operand.shape) for i in fixed for operand in i.operands]
        self.final_copies = _final_copies([*ends, (root, self.result)] if computation.is_entry else ends, fixed)

    def run(self) -> bool:
        for instruction in post_order(self.computation):
            self._normalize(instruction)
        root = self.computation.root_instruction
        if self.computation.is_entry:
            edit.set_root(self.computation, self.copies.in_layout(root, self.result))
            remove_if_dead(root)
        return self.changed or self.copies.made_any

    def _normalize(self, instruction: Instruction) -> None:
        op = instruction.op
        if self._has_fixed_layout(instruction):
            shapes = self.required[instruction]
            operands = [self.copies.in_layout(*each) for each in zip(instruction.operands, shapes, strict=True)]
            if tuple(operands) != instruction.operands:
                edit.set_operands(instruction, operands)
        elif op is opcodes.TUPLE:
            self._set_shape(instruction, Shape.tuple(instruction.operand_shapes))
        elif op is opcodes.GET_TUPLE_ELEMENT:
            self._set_shape(instruction, instruction.operands[0].shape.tuple_shapes[instruction.tuple_index])
        elif instruction not in self.final_copies:
            self._set_shape(instruction, row_major(instruction.shape))
        if instruction not in self.final_copies:
            self._read_row_major(instruction)

    def _has_fixed_layout(self, instruction: Instruction) -> bool:
        """Returns whether the instruction depends on the layouts that it declares."""
        if is_parameter(instruction):
            return self.computation.is_entry
        op = instruction.op
        return op in _FIXED_LAYOUT_OPS or op.family in _FIXED_LAYOUT_FAMILIES or op.async_role is not AsyncRole.NONE

    def _read_row_major(self, instruction: Instruction) -> None:
        """Lets users read a row-major copy, except those that take any layout and those in an asynchronous chain."""
        readers = [user for user in instruction.users if user.op not in _ANY_LAYOUT_OPS]
        if not readers or instruction.op.async_role in (AsyncRole.START, AsyncRole.UPDATE):
            return
        copy = self.copies.in_layout(instruction, row_major(instruction.shape))
        for user in readers if copy is not instruction else ():
            edit.set_operands(user, [copy if o is instruction else o for o in user.operands])

    def _set_shape(self, instruction: Instruction, shape: Shape) -> None:
        if instruction.shape != shape:
            edit.set_shape(instruction, shape)
            self.changed = True


def _final_copies(ends: Iterable[tuple[Instruction, Shape]], fixed: Iterable[Instruction]) -> set[Instruction]:
    """Returns the copies and tuples that only bring values into the layouts required at the ends."""
    found: set[Instruction] = set()
    served = set(fixed)
    pending = list(ends)
    while pending:
        value, wanted = pending.pop()
        if not all(user in served for user in value.users):
            continue
        if value.op is opcodes.TUPLE:
            served.add(value)
            found.add(value)
            pending += zip(value.operands, wanted.tuple_shapes, strict=True)
        elif value.op is opcodes.COPY and same_order(value.shape, wanted):
            found.add(value)
    return found

"""Ops that hand values on or order others: a value travels as its array and its sizes.

Must not know: calls of computations, which are written anew as a whole (`resolve_dynamic_dimensions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import U32
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import REGISTRY
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, SizeWriter, Value, packed_shape

DYNAMIC_EXPANSIONS.refuse(
    "devices may have different sizes, and XLA does not carry sizes through collectives either",
    *(
        op
        for op in REGISTRY.values()
        if op.family == "collectives" and op not in (opcodes.PARTITION_ID, opcodes.REPLICA_ID)
    ),
)
DYNAMIC_EXPANSIONS.refuse(
    "what is transferred has the sizes of its bounds",
    *(op for op in REGISTRY.values() if op.family == "transfer" and op not in (opcodes.COPY_START, opcodes.COPY_DONE)),
)


@DYNAMIC_EXPANSIONS.rule(opcodes.TUPLE)
def tuple_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return tuple(values)


@DYNAMIC_EXPANSIONS.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return values[0][instruction.tuple_index]


@DYNAMIC_EXPANSIONS.rule(opcodes.OPT_BARRIER, opcodes.DOMAIN, opcodes.ADD_DEPENDENCY)
def handed_on(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    shape = instruction.shape
    given = [write.packed(v, s) for v, s in zip(values, instruction.operand_shapes, strict=True)]
    made = write.add(instruction.op, *given, attributes=instruction.attributes, shape=packed_shape(shape))
    return write.unpacked(made, shape)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY_START)
def copy_start(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Nothing is copied: the value is immutable."""
    return values[0], values[0], write.scalar(0, U32)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY_DONE)
def copy_done(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return values[0][0]

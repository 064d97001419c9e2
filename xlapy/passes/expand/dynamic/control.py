"""Ops that return values unchanged or order them: a value is passed as its array and its sizes.

Does not depend on calls of computations; `resolve_dynamic_dimensions` rewrites whole computations.
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
    "transfers carry padded arrays without their sizes",
    *(op for op in REGISTRY.values() if op.family == "transfer" and op not in (opcodes.COPY_START, opcodes.COPY_DONE)),
)


@DYNAMIC_EXPANSIONS.rule(opcodes.TUPLE)
def tuple_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return tuple(values)


@DYNAMIC_EXPANSIONS.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return values[0][instruction.tuple_index]


@DYNAMIC_EXPANSIONS.rule(opcodes.OPT_BARRIER, opcodes.DOMAIN, opcodes.ADD_DEPENDENCY)
def pass_through(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    shape = instruction.shape
    packed = [write.pack(v, s) for v, s in zip(values, instruction.operand_shapes, strict=True)]
    result = write.add(instruction.op, *packed, attributes=instruction.attributes, shape=packed_shape(shape))
    return write.unpack(result, shape)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY_START)
def copy_start(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operand: values are immutable, so that no copy is needed."""
    return values[0], values[0], write.scalar(0, U32)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY_DONE)
def copy_done(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return values[0][0]

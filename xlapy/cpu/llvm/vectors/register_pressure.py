"""Constants after loops that keep many vectors in registers, as the loop over terms of a product does.

LLVM moves the constants of an epilogue, such as the coefficients of a hyperbolic tangent, before all loops. There they
occupy the registers in which the innermost loop has its sums, which then go through memory. A number that passes
through an empty piece of assembly is unknown to LLVM, and stays behind the loop.

Responsible for when that pays and how it is done. Does not depend on what kernels compute.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.loops import F32, F64, For, If, ScalarType, Value, While
from xlapy.loops.ir import Statement, inner_blocks

MIN_VECTORS = 6
"""The smallest number of vectors that a loop keeps in registers for its constants to matter."""

MIN_CONSTANTS = 4
"""The smallest number of constants that are hidden: fewer leave registers for the loop."""


def fills_registers(statement: Statement, varying: frozenset[Value]) -> bool:
    """Whether a statement is a loop that keeps many vectors in registers. varying: the values that are vectors."""
    return (
        isinstance(statement, For)
        and statement.extent != 1
        and sum(carry.variable in varying for carry in statement.carries) >= MIN_VECTORS
    )


def float_constants(statements: Sequence[Statement], varying: frozenset[Value]) -> list[Value]:
    """The constants f32 and f64 of which these statements compute vectors; none if there are few. Zeros are not among
    them: they need no memory."""
    found = {
        argument: None
        for value in _values(statements)
        if value in varying
        for argument in value.args
        if argument.op == "const" and argument.type in (F32, F64) and argument.attribute != 0
    }
    return list(found) if len(found) >= MIN_CONSTANTS else []


def _values(statements: Sequence[Statement]) -> Iterator[Value]:
    for statement in statements:
        if isinstance(statement, Value):
            yield statement
        elif isinstance(statement, For | While | If):
            for block in inner_blocks(statement):
                yield from _values(block.statements)


def hidden_number(ir: IrBuilder, type: ScalarType, number: float) -> str:
    """Emits a number that LLVM does not know; returns its register."""
    integer, bits = ("i32", struct.unpack("<i", struct.pack("<f", number))[0])
    name = "float"
    if type is F64:
        integer, bits, name = "i64", struct.unpack("<q", struct.pack("<d", number))[0], "double"
    unknown = ir.assign(f'call {integer} asm sideeffect "", "=r,0"({integer} {bits})')
    return ir.assign(f"bitcast {integer} {unknown} to {name}")

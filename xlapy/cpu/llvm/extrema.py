"""Emits the maximum and the minimum of floats: NaN if an operand is NaN, and +0 is greater than -0.

`llvm.maximum` becomes six instructions for vectors of x86-64. With AVX512-DQ, `vrange` needs two more: it takes the
sign into account, so that only NaN remains to be added; a sum is NaN where an operand is.

Responsible for the choice of instructions. Does not depend on loops or reductions.
"""

from __future__ import annotations

from typing import Final

from xlapy.cpu.llvm.processor import target_processor
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type, suffix
from xlapy.loops import F32, F64, I1, Value

_MINIMUM, _MAXIMUM = 0b0100, 0b0101
"""The immediate operands of `vrange`: the smaller or greater operand, with its own sign."""

_CURRENT_ROUNDING = 4
"""The last operand of 512-bit forms: exceptions as MXCSR says (`_MM_FROUND_CUR_DIRECTION`)."""

_WIDTHS: Final = frozenset({128, 256, 512})
"""The widths in bits of the vectors that have the instruction."""


def emit_extremum(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    """Emits the operation "max" or "min" on floats of `lanes` lanes; returns the register of its result."""
    vector = llvm_type(value.type, lanes)
    if not _has_range_instruction(value, lanes):
        name = "maximum" if value.op == "max" else "minimum"
        return ir.call(vector, f"llvm.{name}.{suffix(value.type, lanes)}", [(vector, arg) for arg in args])
    chosen = _emit_range(ir, value, args, lanes) if lanes > 1 else _emit_scalar_range(ir, value, args)
    is_nan = ir.assign(f"fcmp uno {vector} {args[0]}, {args[1]}")
    total = ir.assign(f"fadd {vector} {args[0]}, {args[1]}")
    return ir.assign(f"select {llvm_type(I1, lanes)} {is_nan}, {vector} {total}, {vector} {chosen}")


def _has_range_instruction(value: Value, lanes: int) -> bool:
    """Whether `vrange` computes the operation. With a constant, LLVM needs at most three instructions itself."""
    if value.type not in (F32, F64) or any(arg.op == "const" for arg in value.args):
        return False
    processor = target_processor()
    has_instruction = processor.vector_bytes == 64 and "avx512dq" in processor.features
    return has_instruction and (lanes == 1 or value.type.bits * lanes in _WIDTHS)


def _emit_scalar_range(ir: IrBuilder, value: Value, args: list[str]) -> str:
    """Emits the instruction on the first lane of a register, where numbers are."""
    type, lanes = llvm_type(value.type), 128 // value.type.bits
    vector = llvm_type(value.type, lanes)
    operands = [ir.assign(f"insertelement {vector} poison, {type} {arg}, i64 0") for arg in args]
    return ir.assign(f"extractelement {vector} {_emit_range(ir, value, operands, lanes)}, i64 0")


def _emit_range(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    vector, bits = llvm_type(value.type, lanes), value.type.bits * lanes
    name = f"llvm.x86.avx512.mask.range.{'ps' if value.type is F32 else 'pd'}.{bits}"
    mask = f"i{max(8, lanes)}"
    operands = [(vector, arg) for arg in args]
    operands += [("i32", str(_MAXIMUM if value.op == "max" else _MINIMUM))]
    operands += [(vector, literal(value.type, 0, lanes)), (mask, "-1")]
    if bits == 512:
        operands.append(("i32", str(_CURRENT_ROUNDING)))
    return ir.call(vector, name, operands)

"""Emits the rounding of f32 numbers to bfloat16: one instruction with AVX512-BF16, else arithmetic on their bits.

The instruction reads denormal numbers as 0, so that `--denormals=keep` excludes it. NaN stays NaN in both forms.
"""

from __future__ import annotations

from xlapy.base import flags
from xlapy.cpu.llvm.processor import target_processor
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.loops import F32, I1, I32

_INSTRUCTION_LANES = (8, 16)
"""The numbers of lanes for which there is an instruction."""


def emit_bfloat16_rounding(ir: IrBuilder, operand: str, lanes: int) -> str:
    """Emits the rounding of a register of f32 lanes to nearest even; returns the register of the result, f32 lanes."""
    if _has_instruction():
        return _by_instruction(ir, operand, lanes)
    return _by_bits(ir, operand, lanes)


def _has_instruction() -> bool:
    processor = target_processor()
    return processor.features >= {"avx512bf16", "avx512vl"} and flags.get("denormals") != "keep"


def _by_instruction(ir: IrBuilder, operand: str, lanes: int) -> str:
    least, most = _INSTRUCTION_LANES
    if lanes < least:
        rounded = _by_instruction(ir, _resized(ir, operand, lanes, least), least)
        return _resized(ir, rounded, least, lanes)
    if lanes > most:
        half = lanes // 2
        halves = [_by_instruction(ir, _half(ir, operand, half, start), half) for start in (0, half)]
        type, order = llvm_type(F32, half), ", ".join(f"i32 {lane}" for lane in range(lanes))
        return ir.assign(f"shufflevector {type} {halves[0]}, {type} {halves[1]}, <{lanes} x i32> <{order}>")
    narrow, integers, type = f"<{lanes} x bfloat>", llvm_type(I32, lanes), llvm_type(F32, lanes)
    found = ir.call(narrow, f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}", [(type, operand)])
    bits = ir.assign(f"bitcast {narrow} {found} to <{lanes} x i16>")
    wide = ir.assign(f"zext <{lanes} x i16> {bits} to {integers}")
    moved = ir.assign(f"shl {integers} {wide}, {literal(I32, 16, lanes)}")
    return ir.assign(f"bitcast {integers} {moved} to {type}")


def _half(ir: IrBuilder, operand: str, lanes: int, start: int) -> str:
    type = llvm_type(F32, 2 * lanes)
    order = ", ".join(f"i32 {start + lane}" for lane in range(lanes))
    return ir.assign(f"shufflevector {type} {operand}, {type} poison, <{lanes} x i32> <{order}>")


def _resized(ir: IrBuilder, operand: str, before: int, after: int) -> str:
    """Returns the first lanes of a register in a wider or narrower one."""
    narrow, wide = llvm_type(F32, before), llvm_type(F32, after)
    if before == 1:
        return ir.assign(f"insertelement {wide} zeroinitializer, {narrow} {operand}, i64 0")
    if after == 1:
        return ir.assign(f"extractelement {narrow} {operand}, i64 0")
    order = ", ".join(f"i32 {min(lane, before)}" for lane in range(after))
    return ir.assign(f"shufflevector {narrow} {operand}, {narrow} zeroinitializer, <{after} x i32> <{order}>")


def _by_bits(ir: IrBuilder, operand: str, lanes: int) -> str:
    """Adds half a unit of the last bit, less one if that bit is even; sets the first bit of the mantissa of NaN."""
    type, bits = llvm_type(F32, lanes), llvm_type(I32, lanes)

    def number(value: int) -> str:
        return literal(I32, value, lanes)

    given = ir.assign(f"bitcast {type} {operand} to {bits}")
    last = ir.assign(f"and {bits} {ir.assign(f'lshr {bits} {given}, {number(16)}')}, {number(1)}")
    raised = ir.assign(f"add {bits} {given}, {ir.assign(f'add {bits} {last}, {number(0x7FFF)}')}")
    quiet = ir.assign(f"or {bits} {given}, {number(0x400000)}")
    is_nan = ir.assign(f"fcmp uno {type} {operand}, {operand}")
    chosen = ir.assign(f"select {llvm_type(I1, lanes)} {is_nan}, {bits} {quiet}, {bits} {raised}")
    return ir.assign(f"bitcast {bits} {ir.assign(f'and {bits} {chosen}, {number(-0x10000)}')} to {type}")

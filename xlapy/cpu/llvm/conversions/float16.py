"""Emits conversions between f32 and f16: one instruction with F16C, else arithmetic on their bits.

Without F16C, LLVM would call a function of a compiler's runtime library for each lane. Both forms compute the same
bits, with any floating-point mode: f32 is rounded to nearest even, denormal numbers of f16 keep their values, and NaN
becomes quiet and keeps its sign and its leading bits.
"""

from __future__ import annotations

from xlapy.cpu.llvm.processor import target_processor
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.loops import F16, F32, I1, I16, I32

_DROPPED = 13
"""The difference of the numbers of mantissa bits."""
_REBIASED = (127 - 15) << 23
"""The difference of the biases of exponents, in the position of the exponent of an f32."""


def has_float16_instructions() -> bool:
    """Whether the processor converts between f32 and f16."""
    return bool(target_processor().features & {"f16c", "avx512f", "fullfp16"})


class _Lanes:
    """Emits operations on registers of i32 lanes."""

    def __init__(self, ir: IrBuilder, lanes: int) -> None:
        self.ir, self.lanes = ir, lanes
        self.integer, self.float = llvm_type(I32, lanes), llvm_type(F32, lanes)

    def op(self, name: str, left: str, right: int | str) -> str:
        other = right if isinstance(right, str) else literal(I32, right, self.lanes)
        return self.ir.assign(f"{name} {self.integer} {left}, {other}")

    def choose(self, condition: str, yes: str, no: str) -> str:
        test = f"{llvm_type(I1, self.lanes)} {condition}"
        return self.ir.assign(f"select {test}, {self.integer} {yes}, {self.integer} {no}")

    def bits(self, number: str) -> str:
        return self.ir.assign(f"bitcast {self.float} {number} to {self.integer}")

    def number(self, bits: str) -> str:
        return self.ir.assign(f"bitcast {self.integer} {bits} to {self.float}")


def emit_extension(ir: IrBuilder, operand: str, lanes: int) -> str:
    """Emits the conversion of f16 lanes to f32, by arithmetic on bits; returns the register of the result."""
    one = _Lanes(ir, lanes)
    stored = ir.assign(f"bitcast {llvm_type(F16, lanes)} {operand} to {llvm_type(I16, lanes)}")
    code = ir.assign(f"zext {llvm_type(I16, lanes)} {stored} to {one.integer}")
    magnitude = one.op("and", code, 0x7FFF)
    normal = one.op("add", one.op("shl", magnitude, _DROPPED), _REBIASED)
    special = one.op("add", normal, _REBIASED)  # infinities and NaN have the largest exponent
    quiet = one.choose(one.op("icmp ugt", magnitude, 0x7C00), one.op("or", special, 0x400000), special)
    count = ir.assign(f"sitofp {one.integer} {magnitude} to {one.float}")
    denormal = one.bits(ir.assign(f"fmul {one.float} {count}, {literal(F32, 2.0**-24, lanes)}"))
    found = one.choose(one.op("icmp ult", magnitude, 0x0400), denormal, normal)
    found = one.choose(one.op("icmp uge", magnitude, 0x7C00), quiet, found)
    sign = one.op("shl", one.op("and", code, 0x8000), 16)
    return one.number(one.op("or", found, sign))


def emit_truncation(ir: IrBuilder, operand: str, lanes: int) -> str:
    """Emits the rounding of f32 lanes to f16, by arithmetic on bits; returns the register of the result."""
    one = _Lanes(ir, lanes)
    given = one.bits(operand)
    magnitude = one.op("and", given, 0x7FFFFFFF)
    odd = one.op("and", one.op("lshr", magnitude, _DROPPED), 1)
    raised = one.op("add", one.op("add", magnitude, odd), (1 << (_DROPPED - 1)) - 1 - _REBIASED)
    normal = one.op("lshr", raised, _DROPPED)
    normal = one.choose(one.op("icmp ult", normal, 0x7C00), normal, literal(I32, 0x7C00, lanes))
    # The sum with 0.5, whose last bit is the smallest number of f16, is rounded as a denormal number has to be.
    half = ir.assign(f"fadd {one.float} {one.number(magnitude)}, {literal(F32, 0.5, lanes)}")
    denormal = one.op("sub", one.bits(half), 0x3F000000)
    found = one.choose(one.op("icmp ult", magnitude, 0x38800000), denormal, normal)
    payload = one.op("and", one.op("lshr", magnitude, _DROPPED), 0x03FF)
    nan = one.op("or", payload, 0x7E00)
    found = one.choose(one.op("icmp ugt", magnitude, 0x7F800000), nan, found)
    code = one.op("or", found, one.op("and", one.op("lshr", given, 16), 0x8000))
    stored = ir.assign(f"trunc {one.integer} {code} to {llvm_type(I16, lanes)}")
    return ir.assign(f"bitcast {llvm_type(I16, lanes)} {stored} to {llvm_type(F16, lanes)}")

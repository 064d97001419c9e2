"""Emits the operations of loop IR as LLVM instructions and intrinsics, on scalars and vectors.

Responsible for the translation of each operation. Does not depend on loops, memory or HLO.
"""

from __future__ import annotations

from typing import Final

from xlapy.cpu.llvm.conversions.bfloat16 import emit_bfloat16_rounding
from xlapy.cpu.llvm.conversions.float16 import emit_extension, emit_truncation, has_float16_instructions
from xlapy.cpu.llvm.dot_instructions import emit_dot
from xlapy.cpu.llvm.extrema import emit_extremum
from xlapy.cpu.llvm.processor import vector_bytes
from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type, suffix
from xlapy.loops import F16, F32, F64, I1, ScalarType, Value

_FLOAT: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_INTRINSICS: Final = {
    "abs": "fabs", "fma": "fma", "copysign": "copysign", "sqrt": "sqrt",
    "floor": "floor", "ceil": "ceil", "rint": "rint", "trunc": "trunc",
}  # fmt: skip
_INTEGER: Final = frozenset(
    {"add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and", "or", "xor", "shl", "lshr", "ashr"}
)
_DIVISIONS: Final = frozenset({"sdiv", "udiv", "srem", "urem"})
_INTEGER_INTRINSICS: Final = frozenset({"smin", "smax", "umin", "umax"})
_CASTS: Final = frozenset({"sext", "zext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "bitcast"})


def emit_operation(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    """Emits one operation on operands of `lanes` lanes; returns the register of its result."""
    type = llvm_type(value.type, lanes)
    if value.op == "compare":
        operand = value.args[0].type
        instruction = "fcmp" if operand.is_float else "icmp"
        return ir.assign(f"{instruction} {value.attribute} {llvm_type(operand, lanes)} {args[0]}, {args[1]}")
    if value.op == "select":
        condition = f"{llvm_type(I1, lanes)} {args[0]}"
        return ir.assign(f"select {condition}, {type} {args[1]}, {type} {args[2]}")
    if value.op == "dot":
        return emit_dot(ir, value.attribute, args, lanes)
    if value.op == "convert":
        return _convert(ir, value, args[0], lanes)
    return _float(ir, value, args, lanes) if value.type.is_float else _integer(ir, value, args, lanes)


def _float(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    type = llvm_type(value.type, lanes)
    if value.op in _FLOAT:
        return ir.assign(f"{_FLOAT[value.op]} {type} {args[0]}, {args[1]}")
    if value.op == "neg":
        return ir.assign(f"fneg {type} {args[0]}")
    if value.op == "round_bf16":
        return emit_bfloat16_rounding(ir, args[0], lanes)
    if value.op in ("min", "max"):
        return emit_extremum(ir, value, args, lanes)
    if value.op == "ldexp":
        return _ldexp(ir, value, args, lanes)
    name = f"llvm.{_FLOAT_INTRINSICS[value.op]}.{suffix(value.type, lanes)}"
    return ir.call(type, name, [(type, arg) for arg in args])


def _ldexp(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    """Emits ldexp: one instruction with AVX-512, else a product with two powers of two. LLVM would call a library
    function for each lane."""
    type, integer = value.type, value.args[1].type
    float_lanes, integer_lanes = llvm_type(type, lanes), llvm_type(integer, lanes)
    if vector_bytes() == 64:
        name = f"llvm.ldexp.{suffix(type, lanes)}.{suffix(integer, lanes)}"
        return ir.call(float_lanes, name, [(float_lanes, args[0]), (integer_lanes, args[1])])
    fraction, bias = type.float_format.mantissa_bits, type.float_format.bias
    half = ir.assign(f"ashr {integer_lanes} {args[1]}, {literal(integer, 1, lanes)}")
    product = args[0]
    for exponent in (half, ir.assign(f"sub {integer_lanes} {args[1]}, {half}")):
        biased = ir.assign(f"add {integer_lanes} {exponent}, {literal(integer, bias, lanes)}")
        shifted = ir.assign(f"shl {integer_lanes} {biased}, {literal(integer, fraction, lanes)}")
        power = ir.assign(f"bitcast {integer_lanes} {shifted} to {float_lanes}")
        product = ir.assign(f"fmul {float_lanes} {product}, {power}")
    return product


def _integer(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    type, op = llvm_type(value.type, lanes), value.op
    if op in _DIVISIONS and lanes > 1 and _is_divided_as_float(value):
        return _divide_as_float(ir, value, args, lanes)
    if op in _INTEGER:
        return ir.assign(f"{op} {type} {args[0]}, {args[1]}")
    if op == "neg":
        return ir.assign(f"sub {type} {literal(value.type, 0, lanes)}, {args[0]}")
    name = f"llvm.{op}.{suffix(value.type, lanes)}"
    if op in _INTEGER_INTRINSICS or op == "ctpop":
        return ir.call(type, name, [(type, arg) for arg in args])
    assert op == "ctlz", f"no such integer operation: {op}"
    return ir.call(type, name, [(type, args[0]), ("i1", "false")])


def _is_divided_as_float(value: Value) -> bool:
    """Whether vectors of a division use floats. LLVM divides by constants with products."""
    signed_or_native = value.op in ("sdiv", "srem") or vector_bytes() == 64
    return value.type.bits <= 32 and value.args[1].op != "const" and signed_or_native


def _divide_as_float(ir: IrBuilder, value: Value, args: list[str], lanes: int) -> str:
    """Emits an exact integer division by a division of floats with at least 8 more bits: processors divide integers in
    one lane only.

    The quotient of n bits x / y is an integer or at least 1 / |y| away from the next one. Rounding changes it by less:
    at most |x / y| / 2^(n + 8).
    """
    integer, wide = value.type, F64 if value.type.bits == 32 else F32
    type, floats = llvm_type(integer, lanes), llvm_type(wide, lanes)
    kind = "s" if value.op in ("sdiv", "srem") else "u"
    left, right = (ir.assign(f"{kind}itofp {type} {arg} to {floats}") for arg in args)
    quotient = ir.assign(f"fdiv {floats} {left}, {right}")
    whole = ir.assign(f"fpto{kind}i {floats} {quotient} to {type}")
    if value.op in ("sdiv", "udiv"):
        return whole
    return ir.assign(f"sub {type} {args[0]}, {ir.assign(f'mul {type} {whole}, {args[1]}')}")


def _convert(ir: IrBuilder, value: Value, operand: str, lanes: int) -> str:
    source, target, how = value.args[0].type, value.type, value.attribute
    if how == "fptrunc" and source is F64:
        operand = _cast(ir, how, operand, source, F32, lanes)
        # Without the fence LLVM merges two conversions to half into one, and calls a function for it.
        single = llvm_type(F32, lanes)
        operand, source = ir.call(single, f"llvm.arithmetic.fence.{suffix(F32, lanes)}", [(single, operand)]), F32
        if target is F32:
            return operand
    if how == "fptrunc" and target is F16 and not has_float16_instructions():
        return emit_truncation(ir, operand, lanes)
    if how == "fpext" and source is F16 and not has_float16_instructions():
        operand, source = emit_extension(ir, operand, lanes), F32
        if target is F32:
            return operand
    if how in _CASTS:
        return _cast(ir, how, operand, source, target, lanes)
    after = llvm_type(target, lanes)
    name = f"llvm.{how}.sat.{suffix(target, lanes)}.{suffix(source, lanes)}"
    return ir.call(after, name, [(llvm_type(source, lanes), operand)])


def _cast(ir: IrBuilder, how: str, operand: str, source: ScalarType, target: ScalarType, lanes: int) -> str:
    return ir.assign(f"{how} {llvm_type(source, lanes)} {operand} to {llvm_type(target, lanes)}")

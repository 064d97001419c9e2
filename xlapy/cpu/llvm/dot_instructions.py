"""Emits dot instructions of x86-64 as LLVM intrinsics, and says which ones a processor has.

| dot instruction | intrinsics | features |
|---|---|---|
| BF16_PAIRS | `avx512bf16.dpbf16ps` | AVX512-BF16 |
| U8_S8_QUADS | `avx512.vpdpbusd` | AVX512-VNNI, or AVX-VNNI in registers of at most 32 bytes |
| S16_PAIRS | `sse2.pmadd.wd`, `avx2.pmadd.wd`, `avx512.pmaddw.d.512`, and an addition | every x86-64 |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xlapy.cpu.llvm.processor import Processor
from xlapy.cpu.llvm.text import IrBuilder, llvm_type
from xlapy.loops import I32, ScalarType
from xlapy.loops.dot_instructions import BF16_PAIRS, S16_PAIRS, U8_S8_QUADS, DotInstruction

_ELEMENTS: Final = {BF16_PAIRS: "bfloat", S16_PAIRS: "i16", U8_S8_QUADS: "i8"}
_MULTIPLY_ADD_PAIRS: Final = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
"""The intrinsics for S16_PAIRS by the bits of their vectors. LLVM merges the addition into them with AVX512-VNNI."""

_MIN_LANES: Final = 4
"""The lanes of the smallest vectors that have such instructions."""


def dot_instructions(processor: Processor) -> frozenset[DotInstruction]:
    """Returns the dot instructions of a processor for its widest vectors and all narrower ones."""
    return frozenset(_available(processor))


def _available(processor: Processor) -> Iterator[DotInstruction]:
    features, has_avx512 = processor.features, processor.vector_bytes == 64
    if "sse2" in features:
        yield S16_PAIRS
    if has_avx512 and "avx512bf16" in features:
        yield BF16_PAIRS
    if (has_avx512 and "avx512vnni" in features) or (processor.vector_bytes == 32 and "avxvnni" in features):
        yield U8_S8_QUADS


def emit_dot(ir: IrBuilder, instruction: DotInstruction, args: list[str], lanes: int) -> str:
    """Emits a dot instruction on two groups of terms and a sum of `lanes` lanes; returns the register of the sum."""
    types = (I32, I32, instruction.sum)
    if lanes < _MIN_LANES:
        wide = [_widened(ir, type, arg, lanes) for type, arg in zip(types, args, strict=True)]
        return _narrowed(ir, instruction.sum, emit_dot(ir, instruction, wide, _MIN_LANES), lanes)
    left, right, total = args
    bits, group, sum_type = 32 * lanes, llvm_type(I32, lanes), llvm_type(instruction.sum, lanes)
    element = f"<{lanes * instruction.terms} x {_ELEMENTS[instruction]}>"
    factors = [(element, ir.assign(f"bitcast {group} {factor} to {element}")) for factor in (left, right)]
    if instruction is S16_PAIRS:
        products = ir.call(sum_type, f"llvm.x86.{_MULTIPLY_ADD_PAIRS[bits]}", factors)
        return ir.assign(f"add {sum_type} {products}, {total}")
    name = "avx512bf16.dpbf16ps" if instruction is BF16_PAIRS else "avx512.vpdpbusd"
    return ir.call(sum_type, f"llvm.x86.{name}.{bits}", [(sum_type, total), *factors])


def _widened(ir: IrBuilder, type: ScalarType, register: str, lanes: int) -> str:
    """Returns a vector of `_MIN_LANES` lanes, of which the first ones are those of a register."""
    wide = llvm_type(type, _MIN_LANES)
    if lanes == 1:
        return ir.assign(f"insertelement {wide} zeroinitializer, {llvm_type(type)} {register}, i64 0")
    narrow = llvm_type(type, lanes)
    chosen = ", ".join(f"i32 {min(lane, lanes)}" for lane in range(_MIN_LANES))
    return ir.assign(f"shufflevector {narrow} {register}, {narrow} zeroinitializer, <{_MIN_LANES} x i32> <{chosen}>")


def _narrowed(ir: IrBuilder, type: ScalarType, register: str, lanes: int) -> str:
    """Returns the first lanes of a vector of `_MIN_LANES` lanes."""
    wide = llvm_type(type, _MIN_LANES)
    if lanes == 1:
        return ir.assign(f"extractelement {wide} {register}, i64 0")
    chosen = ", ".join(f"i32 {lane}" for lane in range(lanes))
    return ir.assign(f"shufflevector {wide} {register}, {wide} poison, <{lanes} x i32> <{chosen}>")

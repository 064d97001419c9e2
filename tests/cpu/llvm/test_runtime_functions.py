"""Functions that LLVM calls for what a processor lacks: conversions of f16, and no function that nobody provides."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import limited_to
from xlapy.cpu.compile_trace import CompileTrace
from xlapy.cpu.llvm import operations
from xlapy.cpu.llvm.bounded.escape import Limits
from xlapy.cpu.llvm.bounded.generator import OPTIMIZED, Generator
from xlapy.cpu.llvm.conversions import runtime_functions
from xlapy.cpu.llvm.jit import link_objects
from xlapy.cpu.llvm.processor import LEVELS, Processor, host_processor
from xlapy.cpu.llvm.text import IrBuilder, llvm_type
from xlapy.loops import F16, F32, F64, I1, I8, I16, I32, I64, Affine, Builder, ScalarType

WITHOUT_F16C = ["SSE4_2", "AVX"]
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def singles() -> np.ndarray:
    """Returns numbers of f32: near every f16 and between each two, and with every exponent."""
    near = HALVES[np.isfinite(HALVES)].astype(np.float32).view(np.uint32)
    around = np.concatenate([near + np.uint32(step) for step in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)])
    spread = np.arange(0, 1 << 32, 65_521 * 3, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([around, spread]).view(np.float32)


def converted(values: np.ndarray, source: str, target: str) -> np.ndarray:
    count = values.size
    entry = f"ENTRY e {{ x = {source}[{count}] parameter(0) ROOT r = {target}[{count}] convert(x) }}"
    return np.asarray(xla.Client("cpu").compile(f"HloModule m\n{entry}")(values))


@pytest.mark.parametrize("isa", WITHOUT_F16C)
def test_every_f16_is_extended(isa: str):
    with limited_to(isa):
        found = converted(HALVES, "f16", "f32")
    is_nan = np.isnan(HALVES)
    expected = HALVES.astype(np.float32).view(np.uint32) | np.where(is_nan, np.uint32(0x400000), np.uint32(0))
    np.testing.assert_array_equal(found.view(np.uint32), expected)


@pytest.mark.parametrize("isa", WITHOUT_F16C)
def test_f32_is_rounded_to_f16(isa: str):
    values = singles()
    with limited_to(isa), np.errstate(over="ignore"):
        found = converted(values, "f32", "f16").view(np.uint16)
        expected = values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    nan = 0x7E00 | (bits >> 13) & 0x3FF | (bits >> 16) & 0x8000
    np.testing.assert_array_equal(found, np.where(np.isnan(values), nan, expected))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_conversions_by_bits_agree_with_the_instruction(count: int):
    """Also for numbers of elements that fill no vector, and by way of other types."""
    doubles = np.array([1 + 2**-11 + 2**-40, -65519.999999, 2**-24 * 1.5, 1e-30, np.inf], np.float64)[:count]
    whole = np.array([2**60 + 2**49 + 1, 2049, 65519, 65520, -1], np.int64)[:count]
    for values, source in ((doubles, "f64"), (whole, "s64"), (whole.view(np.uint64), "u64")):
        with limited_to("SSE4_2"):
            found = converted(values, source, "f16")
        np.testing.assert_array_equal(found.view(np.uint16), converted(values, source, "f16").view(np.uint16))


# -- symbols

FLOATS, INTEGERS = (F32, F64), (I8, I16, I32, I64)
LANES = (1, 4, 16)


def casts() -> list[tuple[str, ScalarType, ScalarType]]:
    """Returns every conversion of loop IR: its name, and the types before and after."""
    found = [("fpext", F16, F32), ("fpext", F16, F64), ("fpext", F32, F64)]
    found += [("fptrunc", F32, F16), ("fptrunc", F64, F16), ("fptrunc", F64, F32)]
    found += [(name, i, f) for name in ("sitofp", "uitofp") for i in (I1, *INTEGERS) for f in FLOATS]
    return found + [(name, f, i) for name in ("fptosi", "fptoui") for f in FLOATS for i in INTEGERS]


def every_operation() -> str:
    """Returns an LLVM module with a function for each operation of loop IR, type and number of lanes."""
    functions, declarations = list[str](), set[str]()

    def add(result: ScalarType, name: str, arguments: list[ScalarType], lanes: int, attribute: object = None) -> None:
        ir = IrBuilder()
        builder = Builder("k")
        given = [builder.load(builder.buffer("b", type, 1), Affine()) for type in arguments]
        value = builder.op(name, result, *given, attribute=attribute)
        names = [f"%a{n}" for n in range(len(arguments))]
        found = operations.emit_operation(ir, value, names, lanes)
        typed = ", ".join(f"{llvm_type(type, lanes)} {one}" for type, one in zip(arguments, names, strict=True))
        returned = llvm_type(result, lanes)
        body = "\n".join([*ir.lines, f"  ret {returned} {found}"])
        functions.append(f'define {returned} @f{len(functions)}({typed}) "no-builtins" {{\nentry:\n{body}\n}}')
        declarations.update(ir.declarations)

    for lanes in LANES:
        for type in FLOATS:
            for name in [*operations._FLOAT, *operations._FLOAT_INTRINSICS, "neg"]:
                count = 3 if name == "fma" else 2 if name in {*operations._FLOAT, "min", "max", "copysign"} else 1
                add(type, name, [type] * count, lanes)
        for type in INTEGERS:
            for name in sorted(operations._INTEGER | operations._INTEGER_INTRINSICS):
                add(type, name, [type, type], lanes)
            for name in ("ctpop", "ctlz", "neg"):
                add(type, name, [type], lanes)
        add(F32, "round_bf16", [F32], lanes)
        for name, before, after in casts():
            add(after, "convert", [before], lanes, name)
    return "\n".join([*sorted(declarations), *functions])


def undefined_symbols(image: bytes) -> set[str]:
    """Returns the names in an ELF file that it does not define."""
    start = struct.unpack_from("<Q", image, 40)[0]
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, start + n * size) for n in range(count)]
    found = set[str]()
    for section in (one for one in sections if one[1] == 2):
        names = sections[section[6]][4]
        for place in range(section[4] + 24, section[4] + section[5], 24):
            name, _, _, defined_in = struct.unpack_from("<IBBH", image, place)
            if not defined_in:
                found.add(image[names + name : image.index(b"\0", names + name)].decode())
    return found


@pytest.mark.parametrize("isa", ["SSE4_2", "AVX", "AVX2"])
def test_every_function_that_llvm_calls_is_provided(isa: str):
    with limited_to(isa):
        text = every_operation()
    level = LEVELS[isa]
    processor = Processor(level.name, level.features & host_processor().features)
    image = Generator(processor, OPTIMIZED).object_file(text, CompileTrace(), None, Limits.of(text))
    called = undefined_symbols(image)
    assert called <= {*runtime_functions.NAMES, *runtime_functions.C_LIBRARY}
    assert not called & set(runtime_functions.CONVERSIONS)
    assert {"fma", "fmaf"} <= called or isa == "AVX2"


def test_text_for_a_better_processor_links_on_a_simpler_one():
    """LLVM's own conversions, in code that is compiled again for a processor without F16C."""
    text = """
define void @convert(ptr %in, ptr %out) {
  %x = load double, ptr %in
  %h = fptrunc double %x to half
  %f = fpext half %h to float
  %g = fmul float %f, 2.0
  %k = fptrunc float %g to half
  store half %k, ptr %out
  ret void
}"""
    level = LEVELS["SSE4_2"]
    simple = Processor(level.name, level.features)
    image = Generator(simple, OPTIMIZED).object_file(text, CompileTrace(), None, Limits.of(text))
    assert undefined_symbols(image) == set(runtime_functions.CONVERSIONS)
    code = link_objects([image], ["convert"], {})
    given, found = np.array([1.2345], np.float64), np.zeros(1, np.float16)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses["convert"])(
        given.ctypes.data, found.ctypes.data
    )
    assert found[0] == np.float16(1.2345) * 2

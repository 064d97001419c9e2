"""Samples of parameters, constants and iota."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample


def _module(name: str, body: str) -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n")


def _constant(name: str, shape: str, literal: str) -> Sample:
    return _module(f"constant_{name}", f"ROOT c = {shape} constant({literal})")


SAMPLES: list[Sample] = [
    *(_module(f"parameter_{t}", f"ROOT p = {t}[2,3]{{1,0}} parameter(0)") for t in ELEMENT_TYPES),
    _module("parameter_scalar", "ROOT p = f32[] parameter(0)"),
    _module("parameter_empty", "ROOT p = f32[0,4]{1,0} parameter(0)"),
    _module("parameter_column_major", "ROOT p = f32[2,3]{0,1} parameter(0)"),
    _module("parameter_tuple", "ROOT p = (f32[2]{0}, (s32[], pred[3]{0})) parameter(0)"),
    _module(
        "parameter_replication",
        """
        p = f32[2]{0} parameter(0), parameter_replication={true}
        q = (f32[2]{0}, s32[]) parameter(1), parameter_replication={true,false}
        ROOT t = (f32[2]{0}, (f32[2]{0}, s32[])) tuple(p, q)
        """,
    ),
    _module(
        "parameters_out_of_order",
        """
        b = f32[3]{0} parameter(1)
        a = f32[3]{0} parameter(0)
        ROOT s = f32[3]{0} subtract(a, b)
        """,
    ),
    _constant("pred", "pred[3]{0}", "{1, 0, 1}"),
    _constant("pred_scalar", "pred[]", "true"),
    _constant("s2", "s2[4]{0}", "{-2, -1, 0, 1}"),
    _constant("s4", "s4[5]{0}", "{-8, -1, 0, 1, 7}"),
    _constant("s8", "s8[3]{0}", "{-128, 0, 127}"),
    _constant("s16", "s16[2]{0}", "{-32768, 32767}"),
    _constant("s32", "s32[2,3]{1,0}", "{ { 1, 2, 3 }, { 4, 5, 6 } }"),
    _constant("s32_column_major", "s32[2,3]{0,1}", "{ { 1, 2, 3 }, { 4, 5, 6 } }"),
    _constant("s64", "s64[2]{0}", "{-9223372036854775808, 9223372036854775807}"),
    _constant("u2", "u2[4]{0}", "{0, 1, 2, 3}"),
    _constant("u4", "u4[2]{0}", "{0, 15}"),
    _constant("u8", "u8[2]{0}", "{0, 255}"),
    _constant("u16", "u16[2]{0}", "{0, 65535}"),
    _constant("u32", "u32[2]{0}", "{0, 4294967295}"),
    _constant("u64", "u64[2]{0}", "{0, 18446744073709551615}"),
    _constant("f8e4m3fn", "f8e4m3fn[4]{0}", "{0, -1.5, 448, nan}"),
    _constant("f8e5m2", "f8e5m2[4]{0}", "{0.25, -inf, inf, nan}"),
    _constant("f4e2m1fn", "f4e2m1fn[4]{0}", "{-6, -0.0, 0.5, 6}"),
    _constant("f16", "f16[5]{0}", "{-0.0, 0.1, 65504, inf, nan}"),
    _constant("bf16", "bf16[4]{0}", "{-0.0, 0.1, 3.38e+38, -inf}"),
    _constant("f32", "f32[6]{0}", "{-0.0, 0.1, 1e-45, 3.40282347e+38, -inf, nan}"),
    _constant("f32_scalar", "f32[]", "-2.5"),
    _constant("f32_empty", "f32[0]{0}", "{}"),
    _constant("f32_empty_inside", "f32[2,0]{1,0}", "{ {}, {} }"),
    _constant("f32_cube", "f32[2,1,2]{2,1,0}", "{ { {1, 2} }, { {3, 4} } }"),
    _constant("f64", "f64[4]{0}", "{0.1, 5e-324, 1.7976931348623157e+308, nan}"),
    _constant("c64", "c64[3]{0}", "{(1, -2), (-0.0, inf), (-0.0, 0.5)}"),
    _constant("c128", "c128[2]{0}", "{(0.1, 0.2), (1e+300, -1e-300)}"),
    _constant("tuple", "(f32[2]{0}, s32[])", "( {1, 2}, 3 )"),
    *(
        _module(f"iota_{t}", f"ROOT i = {t}[2,20]{{1,0}} iota(), iota_dimension=1")
        for t in ELEMENT_TYPES
        if t != "pred"
    ),
    _module("iota_first_dimension", "ROOT i = s32[4,3]{1,0} iota(), iota_dimension=0"),
    _module("iota_wraps", "ROOT i = s8[300]{0} iota(), iota_dimension=0"),
    _module("iota_rounds", "ROOT i = bf16[600]{0} iota(), iota_dimension=0"),
    _module("iota_empty", "ROOT i = f32[0,3]{1,0} iota(), iota_dimension=0"),
    _module("iota_column_major", "ROOT i = u16[3,5,2]{0,1,2} iota(), iota_dimension=1"),
]

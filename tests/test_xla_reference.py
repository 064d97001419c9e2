"""The functions of `tests/xla_reference.py`: values, structures, element types and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference

DOUBLE = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT r = f32[3] add(x, x) }"


@pytest.mark.parametrize("fast", [False, True])
def test_runs_a_module(fast: bool) -> None:
    result = xla_reference.run_hlo(DOUBLE, [np.array([1, 2, np.inf], np.float32)], fast=fast)
    assert result.dtype == np.float32 and result.tolist() == [2, 4, np.inf]


def test_tuples_keep_their_structure() -> None:
    text = """HloModule m
    ENTRY e {
      x = (s32[], (f32[2], pred[])) parameter(0)
      n = s32[] get-tuple-element(x), index=0
      i = (f32[2], pred[]) get-tuple-element(x), index=1
      k = token[] after-all()
      q = () tuple()
      ROOT r = ((f32[2], pred[]), token[], (), s32[]) tuple(i, k, q, n)
    }"""
    (vector, flag), token, nothing, number = xla_reference.run_hlo(
        text, [(np.int32(7), (np.ones(2, np.float32), np.True_))]
    )
    assert vector.tolist() == [1, 1] and bool(flag) is True
    assert token is None and nothing == () and number == 7


@pytest.mark.parametrize("name", ["int2", "uint4", "bfloat16", "float8_e5m2", "float4_e2m1fn", "float64", "complex128"])
def test_element_types_are_preserved(name: str) -> None:
    dtype = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    names = {"int2": "s2", "uint4": "u4", "bfloat16": "bf16", "float64": "f64", "complex128": "c128"}
    text = names.get(name, name.replace("float", "f").replace("_", ""))
    values = np.array([0, 1, 1]).astype(dtype)
    result = xla_reference.run_hlo(
        f"HloModule m\nENTRY e {{ x = {text}[3] parameter(0) ROOT r = {text}[3] copy(x) }}", [values]
    )
    assert result.dtype == dtype and result.tobytes() == values.tobytes()


def test_bfloat16_rounds_after_every_operation() -> None:
    text = """HloModule m
    ENTRY e {
      x = bf16[1] parameter(0)
      y = bf16[1] add(x, x)
      z = bf16[1] multiply(y, x)
      ROOT s = bf16[1] subtract(z, x)
    }"""
    x = np.array([1.0078125], ml_dtypes.bfloat16)
    assert xla_reference.run_hlo(text, [x], fast=True) == (x + x) * x - x


def test_wrong_arguments_are_rejected() -> None:
    with pytest.raises(
        xla_reference.XlaCpuError, match=r"argument 0: f32\[3\]\{0\} needs float32\[3\], got float32\[4\]"
    ):
        xla_reference.run_hlo(DOUBLE, [np.ones(4, np.float32)])
    with pytest.raises(xla_reference.XlaCpuError, match=r"needs float32.*got int32"):
        xla_reference.run_hlo(DOUBLE, [np.ones(3, np.int32)])
    with pytest.raises(xla_reference.XlaCpuError, match="0 arguments for 1"):
        xla_reference.run_hlo(DOUBLE, [])


def test_rejections_carry_the_message_of_jaxlib() -> None:
    with pytest.raises(xla_reference.XlaCpuError, match="Unknown opcode: frobnicate"):
        xla_reference.run_hlo("HloModule m\nENTRY e { ROOT x = f32[] frobnicate() }", [])
    with pytest.raises(xla_reference.XlaCpuError, match="dynamic dimensions"):
        xla_reference.compile_hlo("HloModule m\nENTRY e { ROOT x = f32[<=4] parameter(0) }")


def test_printing_options() -> None:
    assert "%r = f32[3]{0} add(%x, %x)" in xla_reference.parse_and_print(DOUBLE)
    assert "ROOT r = f32[3]{0} add(x, x)" in xla_reference.parse_and_print(DOUBLE, short=True)
    assert "tmp_1 = f32[3]{0} add(f32[3]{0} tmp_0" in xla_reference.parse_and_print(DOUBLE, canonical=True)
    assert "f32[3] add" in xla_reference.parse_and_print(DOUBLE, include_layout_in_shapes=False)
    assert xla_reference.print_proto(xla_reference.to_proto(DOUBLE)).startswith("HloModule m")
    with pytest.raises(ValueError, match="no field 'nonsense'"):
        xla_reference.parse_and_print(DOUBLE, nonsense=True)


def test_a_crash_of_the_parser_is_a_rejection() -> None:
    crash = """HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      ROOT g = f32[4] all-gather(x), dimensions={0}, replica_groups=mesh['a'=2] {'unknown'}
    }"""
    assert xla_reference.accepts(DOUBLE, isolated=True)
    assert not xla_reference.accepts(crash, isolated=True)
    assert not xla_reference.accepts("HloModule", isolated=True)
    assert xla_reference.accepts(DOUBLE, isolated=True) and xla_reference.accepts(DOUBLE)

"""Values of constant and iota."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.movement import evaluate
from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.interpreter.core import TOKEN, Context, evaluate_computation
from xlapy.testing.comparison import assert_close
from xlapy.testing.samples import samples_of
from xlapy.text import parse_hlo


def test_constant_is_its_literal():
    literal = Literal.of(np.array([[1.5, -0.0], [np.nan, np.inf]], np.float32))
    value = evaluate(opcodes.CONSTANT, result="f32[2,2]{0,1}", literal=literal)
    assert value.tobytes() == literal.array.tobytes()
    assert not value.flags.writeable


def test_constant_of_a_tuple():
    literal = Literal.tuple((Literal.of(1), Literal.tuple((Literal.of([2.0, 3.0]), Literal.token()))))
    one, (pair, token) = evaluate(opcodes.CONSTANT, result="(s32[], (f32[2], token[]))", literal=literal)
    assert one == 1
    assert pair.tolist() == [2.0, 3.0]
    assert token is TOKEN


def test_iota_counts_along_its_dimension():
    assert evaluate(opcodes.IOTA, result="s32[3,2]", iota_dimension=0).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert evaluate(opcodes.IOTA, result="f32[3,2]", iota_dimension=1).tolist() == [[0, 1], [0, 1], [0, 1]]
    assert evaluate(opcodes.IOTA, result="c64[2]", iota_dimension=0).tolist() == [0, 1 + 0j]
    assert evaluate(opcodes.IOTA, result="u8[0,3]", iota_dimension=0).shape == (0, 3)
    assert evaluate(opcodes.IOTA, result="f32[1000000000000,0]", iota_dimension=0).shape == (1000000000000, 0)


def test_iota_wraps_integers_and_rounds_floats():
    assert evaluate(opcodes.IOTA, result="s8[130]", iota_dimension=0)[126:].tolist() == [126, 127, -128, -127]
    assert evaluate(opcodes.IOTA, result="u2[6]", iota_dimension=0).astype(np.int32).tolist() == [0, 1, 2, 3, 0, 1]
    assert evaluate(opcodes.IOTA, result="s4[10]", iota_dimension=0).astype(np.int32).tolist()[6:] == [6, 7, -8, -7]
    rounded = evaluate(opcodes.IOTA, result="bf16[260]", iota_dimension=0)
    assert rounded[256:].tolist() == [ml_dtypes.bfloat16(x) for x in (256, 256, 258, 260)]


def test_a_parameter_is_its_argument():
    text = "HloModule m\nENTRY e {\n  b = f32[] parameter(1)\n  ROOT a = f32[] parameter(0)\n}\n"
    entry = parse_hlo(text).entry_computation
    argument = np.float32(3)
    assert evaluate_computation(Context(), entry, [argument, np.float32(4)]) is argument


COMPUTED = [sample for sample in samples_of("sources") if "parameter" not in sample.name and "tuple" not in sample.name]


@pytest.mark.parametrize("sample", COMPUTED, ids=lambda sample: sample.name)
def test_samples_equal_xla_cpu(sample):
    value = evaluate_computation(Context(), parse_hlo(sample.text).entry_computation, [])
    assert_close(value, xla_reference.run_hlo(sample.text, [], fast=True), rule="bits", flush_denormals=True)

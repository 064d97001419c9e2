"""Tuple and get-tuple-element: values, and comparison with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import xla_reference
from xlapy.hlo.verify import verify
from xlapy.interpreter import TOKEN, Context, evaluate_computation
from xlapy.text import parse_hlo


def run(text: str, *arguments: Any) -> Any:
    module = parse_hlo(text)
    verify(module)
    return evaluate_computation(Context(), module.entry_computation, arguments)


NESTED = """HloModule m
ENTRY e { p = (f32[2], (s32[], pred[3])) parameter(0) x = f32[2] get-tuple-element(p), index=0
  q = (s32[], pred[3]) get-tuple-element(p), index=1 n = s32[] get-tuple-element(q), index=0
  ROOT r = (s32[], (s32[], pred[3]), f32[2], ()) tuple(n, q, x, () tuple()) }
"""


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def test_nested() -> None:
    x, n, flags = np.float32([1, np.nan]), np.array(-7, np.int32), np.array([True, False, True])
    count, pair, vector, nothing = run(NESTED, (x, (n, flags)))
    assert (int(count), int(pair[0]), pair[1].tolist(), nothing) == (-7, -7, [True, False, True], ())
    assert np.array_equal(vector, x, equal_nan=True)
    theirs = xla_reference.run_hlo(NESTED, [(x, (n, flags))], fast=True)
    ours = leaves((count, pair, vector, nothing))
    for mine, other in zip(ours, leaves(theirs), strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        assert np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f")


@pytest.mark.parametrize("index", range(6))
def test_each_element(index: int) -> None:
    elements = ", ".join(["s32[]"] * 6)
    text = f"""HloModule m
    ENTRY e {{ p = ({elements}) parameter(0) ROOT r = s32[] get-tuple-element(p), index={index} }}"""
    assert run(text, tuple(np.int32([3, 1, 4, 1, 5, 9]))) == [3, 1, 4, 1, 5, 9][index]


def test_tokens_are_values() -> None:
    text = """HloModule m
    ENTRY e { k = token[] after-all() t = (token[], (token[])) tuple(k, (token[]) tuple(k))
      ROOT r = (token[]) get-tuple-element(t), index=1 }"""
    assert run(text) == (TOKEN,)

"""The builder functions of tuples: appended instructions, inferred shapes, errors."""

from __future__ import annotations

import numpy as np

from tests.builder.programs import evaluate, instruction_texts, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder


def test_texts() -> None:
    x, y = parameters("f32[2]", "s32[]")
    nested = ops.tuple(x.builder, [ops.tuple(x.builder, [x, y]), ops.create_token(x.builder)])
    assert instruction_texts(ops.get_tuple_element(ops.get_tuple_element(nested, 0), 1)) == [
        "tuple = (f32[2], s32[]) tuple(p0, p1)",
        "after-all = token[] after-all()",
        "tuple.1 = ((f32[2], s32[]), token[]) tuple(tuple, after-all)",
        "get-tuple-element = (f32[2], s32[]) get-tuple-element(tuple.1), index=0",
        "get-tuple-element.1 = s32[] get-tuple-element(get-tuple-element), index=1",
    ]


def test_values() -> None:
    x, pair = parameters("f32[2]", "(s32[], f32[1])")
    result = ops.tuple(x.builder, [pair, x, pair[0]])
    (first, vector), second, third = evaluate(result, np.float32([1, 2]), (np.int32(3), np.float32([4])))
    assert (first, vector.tolist(), second.tolist(), third) == (3, [4], [1, 2], 3)


def test_elements_are_taken_in_order() -> None:
    (triple,) = parameters("(f32[], s32[], pred[])")
    assert [element.shape.to_text(layout=False) for element in triple] == ["f32[]", "s32[]", "pred[]"]
    assert len(triple) == 3


def test_refused() -> None:
    (x,) = parameters("f32[2]")
    with raises(ShapeError, values_codes.TUPLE_INDEX, "test_tuples.py", "index 0"):
        ops.get_tuple_element(ops.tuple(x.builder, []), 0)
    with raises(BuilderError, builder_codes.OWN_OPERANDS):
        ops.tuple(XlaBuilder("other"), [x])

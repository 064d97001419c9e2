"""Shape rules of sort and topk: values, and one error for each constraint."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, refusal, rewritten, written
from xlapy import opcodes
from xlapy.opcodes import sorting as ops

LESS = "(a: f32[], b: f32[]) -> pred[]"
PAIRS = "(a: f32[], b: f32[], c: s8[], d: s8[]) -> pred[]"


def test_sort_of_one_operand_is_an_array():
    assert inferred(opcodes.SORT, "f32[4,3]", calls=[LESS], dimension=1) == "f32[4,3]"
    assert inferred(opcodes.SORT, "f32[0]", calls=[LESS], dimension=0) == "f32[0]"
    assert inferred(opcodes.SORT, "f32[<=4,3]", calls=[LESS], dimension=0) == "f32[<=4,3]"


def test_sort_of_several_operands_is_a_tuple():
    assert inferred(opcodes.SORT, "f32[4,3]", "s8[4,3]", calls=[PAIRS], dimension=0) == "(f32[4,3], s8[4,3])"
    assert accepts(opcodes.SORT, "(f32[4,3], s8[4,3])", "f32[4,3]", "s8[4,3]", calls=[PAIRS], dimension=0)
    message = refusal(opcodes.SORT, "f32[4,3]", "f32[4,3]", "s8[4,3]", calls=[PAIRS], dimension=0)
    assert message == "sort of (f32[4,3], s8[4,3]) has shape (f32[4,3], s8[4,3]), declared f32[4,3]"


@pytest.mark.parametrize(
    ("operands", "call", "dimension", "message"),
    [
        (["(f32[4])"], LESS, 0, "sort takes arrays, operand 0 is (f32[4])"),
        (["f32[]"], LESS, 0, "sort: dimension 0 is out of bounds for f32[] of rank 0"),
        (["f32[4,3]"], LESS, 2, "sort: dimension 2 is out of bounds for f32[4,3] of rank 2"),
        (["f32[4,3]"], LESS, -1, "sort: dimension -1 is out of bounds for f32[4,3] of rank 2"),
        (["f32[4]", "s8[3]"], PAIRS, 0, "sort: operand 1 is s8[3], operand 0 is f32[4]; sizes must be equal"),
        (["f32[4]"], "(a: f32[], b: f32[]) -> s32[]", 0, "the comparator must return pred[], given (a"),
        (["f32[4]"], "(a: f32[], b: f32[]) -> pred[1]", 0, "the comparator must return pred[]"),
        (["f32[4]"], PAIRS, 0, "the comparator takes 2 parameters for 1 operands"),
        (["f32[4]", "s8[4]"], LESS, 0, "the comparator takes 4 parameters for 2 operands"),
        (["f32[4]"], "(a: f32[], b: s32[]) -> pred[]", 0, "parameter 1 of the comparator is s32[], operand 0"),
        (
            ["f32[4]", "s8[4]"],
            "(a: f32[], b: s8[], c: f32[], d: s8[]) -> pred[]",
            0,
            "parameter 1 of the comparator is s8[], operand 0 is f32[4]",
        ),
    ],
)
def test_sort_refuses(operands: list[str], call: str, dimension: int, message: str):
    assert message in refusal(opcodes.SORT, None, *operands, calls=[call], dimension=dimension)


def test_sort_takes_operands_and_a_comparator():
    assert "sort takes at least 1 operands, given 0" in refusal(opcodes.SORT, None, calls=[LESS], dimension=0)
    assert "sort calls 1 computation, given 0" in refusal(opcodes.SORT, None, "f32[4]", dimension=0)


def test_sort_text():
    assert rewritten(opcodes.SORT, "dimensions", "{1}") == "{1}"
    assert written(opcodes.SORT, ops.SortAttributes.make(dimension=0)) == ["dimensions"]
    assert written(opcodes.SORT, ops.SortAttributes.make(dimension=0, is_stable=True)) == ["dimensions", "is_stable"]


@pytest.mark.parametrize(
    ("operand", "k", "result"),
    [
        ("f32[9]", 3, "(f32[3], s32[3])"),
        ("u8[2,9]", 9, "(u8[2,9], s32[2,9])"),
        ("pred[2,9]", 0, "(pred[2,0], s32[2,0])"),
        ("bf16[<=2,<=9]", 3, "(bf16[<=2,3], s32[<=2,3])"),
    ],
)
def test_topk(operand: str, k: int, result: str):
    assert inferred(opcodes.TOPK, operand, k=k) == result


@pytest.mark.parametrize(
    ("operand", "k", "message"),
    [
        ("(f32[9])", 1, "topk takes arrays, operand 0 is (f32[9])"),
        ("f32[]", 0, "topk takes an array of at least rank 1, given f32[]"),
        ("c64[9]", 1, "topk takes ordered elements, given c64[9]"),
        ("f32[2,9]", 10, "topk: k 10 is not between 0 and 9, the size of the last of f32[2,9]"),
        ("f32[2,9]", -1, "topk: k -1 is not between 0 and 9"),
    ],
)
def test_topk_refuses(operand: str, k: int, message: str):
    assert message in refusal(opcodes.TOPK, None, operand, k=k)


def test_topk_text():
    assert written(opcodes.TOPK, ops.TopKAttributes.make(k=3)) == ["k", "largest"]
    unstable = ops.TopKAttributes.make(k=3, largest=False, is_stable=False)
    assert written(opcodes.TOPK, unstable) == ["k", "largest", "is_stable"]

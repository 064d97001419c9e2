"""Shape rules of sort and topk: values, and one error for each constraint."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, refused, rewritten, written
from tests.raising import Wanted
from xlapy import opcodes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
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
    refused(
        (shared.RESULT_SHAPE, "(f32[4,3], s8[4,3])", "f32[4,3]"),
        opcodes.SORT,
        "f32[4,3]",
        "f32[4,3]",
        "s8[4,3]",
        calls=[PAIRS],
        dimension=0,
    )


@pytest.mark.parametrize(
    ("operands", "call", "dimension", "wanted"),
    [
        (["(f32[4])"], LESS, 0, (shared.ARRAY_OPERAND, "operand 0", "(f32[4])")),
        (["f32[]"], LESS, 0, (shared.DIMENSION_NUMBER, "dimension 0", "f32[]", "rank 0")),
        (["f32[4,3]"], LESS, 2, (shared.DIMENSION_NUMBER, "dimension 2", "f32[4,3]", "rank 2")),
        (["f32[4,3]"], LESS, -1, (shared.DIMENSION_NUMBER, "dimension -1", "f32[4,3]", "rank 2")),
        (["f32[4]", "s8[3]"], PAIRS, 0, (shared.SAME_DIMENSIONS, "operand 1", "s8[3]", "operand 0", "f32[4]")),
        (["f32[4]"], "(a: f32[], b: f32[]) -> s32[]", 0, (codes.COMPARATOR_RESULT, "pred[]")),
        (["f32[4]"], "(a: f32[], b: f32[]) -> pred[1]", 0, (codes.COMPARATOR_RESULT, "pred[]")),
        (["f32[4]"], PAIRS, 0, (codes.COMPARATOR_PARAMETERS, "2")),
        (["f32[4]", "s8[4]"], LESS, 0, (codes.COMPARATOR_PARAMETERS, "4")),
        (
            ["f32[4]"],
            "(a: f32[], b: s32[]) -> pred[]",
            0,
            (codes.COMPARATOR_PARAMETERS, "parameter 1", "s32[]", "operand 0"),
        ),
        (
            ["f32[4]", "s8[4]"],
            "(a: f32[], b: s8[], c: f32[], d: s8[]) -> pred[]",
            0,
            (codes.COMPARATOR_PARAMETERS, "parameter 1", "s8[]", "operand 0", "f32[4]"),
        ),
    ],
)
def test_sort_refuses(operands: list[str], call: str, dimension: int, wanted: Wanted):
    refused(wanted, opcodes.SORT, None, *operands, calls=[call], dimension=dimension)


def test_sort_takes_operands_and_a_comparator():
    refused((shared.OPERAND_COUNT, "0"), opcodes.SORT, None, calls=[LESS], dimension=0)
    refused((shared.CALLED_COMPUTATIONS, "0"), opcodes.SORT, None, "f32[4]", dimension=0)


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
    ("operand", "k", "wanted"),
    [
        ("(f32[9])", 1, (shared.ARRAY_OPERAND, "operand 0", "(f32[9])")),
        ("f32[]", 0, (shared.MINIMUM_RANK, "rank 1", "f32[]")),
        ("c64[9]", 1, (shared.ELEMENT_TYPE, "c64[9]")),
        ("f32[2,9]", 10, (codes.TOP_COUNT, "k 10", "f32[2,9]")),
        ("f32[2,9]", -1, (codes.TOP_COUNT, "k -1")),
    ],
)
def test_topk_refuses(operand: str, k: int, wanted: Wanted):
    refused(wanted, opcodes.TOPK, None, operand, k=k)


def test_topk_text():
    assert written(opcodes.TOPK, ops.TopKAttributes.make(k=3)) == ["k", "largest"]
    unstable = ops.TopKAttributes.make(k=3, largest=False, is_stable=False)
    assert written(opcodes.TOPK, unstable) == ["k", "largest", "is_stable"]

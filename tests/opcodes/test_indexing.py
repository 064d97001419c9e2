"""Shape rules of gather and scatter: values, and one error for each constraint."""

from __future__ import annotations

from typing import Any

import pytest

from tests.opcodes.rules import accepts, inferred, refused, rewritten, written
from tests.raising import Wanted
from xlapy import opcodes
from xlapy.base.error_codes.operations import indexing as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as reduction_codes
from xlapy.opcodes import indexing as ops

ROWS: dict[str, Any] = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}
BATCHED: dict[str, Any] = {
    "offset_dims": (2,),
    "collapsed_slice_dims": (),
    "start_index_map": (1,),
    "operand_batching_dims": (0,),
    "start_indices_batching_dims": (1,),
    "index_vector_dim": 2,
    "slice_sizes": (1, 2),
}
INTO_ROWS: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
INTO_BATCHES: dict[str, Any] = {
    "update_window_dims": (2,),
    "inserted_window_dims": (),
    "scatter_dims_to_operand_dims": (1,),
    "input_batching_dims": (0,),
    "scatter_indices_batching_dims": (1,),
    "index_vector_dim": 2,
}
ADD = "(a: f32[], b: f32[]) -> f32[]"


def gather(operand: str, indices: str, base: dict[str, Any], **changes: Any) -> str:
    return inferred(opcodes.GATHER, operand, indices, **{**base, **changes})


def gather_refused(wanted: Wanted, operand: str, indices: str, base: dict[str, Any], **changes: Any) -> None:
    refused(wanted, opcodes.GATHER, None, operand, indices, **{**base, **changes})


def scatter_refused(wanted: Wanted, operands: list[str], base: dict[str, Any], call: str = ADD, **changes: Any) -> None:
    refused(wanted, opcodes.SCATTER, None, *operands, calls=[call], **{**base, **changes})


# Gather


@pytest.mark.parametrize(
    ("operand", "indices", "changes", "result"),
    [
        ("f32[4,3]", "s32[5]", {}, "f32[5,3]"),
        ("f32[4,3]", "u8[5,1]", {}, "f32[5,3]"),
        ("pred[4,3]", "s64[0]", {}, "pred[0,3]"),
        ("f32[4,3]", "s32[2,5]", {"index_vector_dim": 2, "offset_dims": (0,)}, "f32[3,2,5]"),
        ("f32[4,3]", "s32[2,5]", {"index_vector_dim": 2, "offset_dims": (1,)}, "f32[2,3,5]"),
        ("f32[4,3]", "s32[1,5]", {"index_vector_dim": 0, "offset_dims": (0,)}, "f32[3,5]"),
        ("f32[0,3]", "s32[5]", {"slice_sizes": (0, 3)}, "f32[5,3]"),
        ("f32[4,<=3]", "s32[<=5]", {}, "f32[<=5,<=3]"),
        ("f32[<=4,<=3]", "s32[5]", {"slice_sizes": (1, 2)}, "f32[5,2]"),
    ],
)
def test_gather_of_rows(operand: str, indices: str, changes: dict[str, Any], result: str):
    assert gather(operand, indices, ROWS, **changes) == result


def test_gather_examples_of_the_specification():
    windows: dict[str, Any] = {"collapsed_slice_dims": (), "start_index_map": (0, 1), "slice_sizes": (8, 6)}
    assert gather("f32[16,11]", "s64[5,2]", windows, offset_dims=(1, 2), index_vector_dim=1) == "f32[5,8,6]"
    assert gather("f32[16,11]", "s64[4,5,2]", windows, offset_dims=(2, 3), index_vector_dim=2) == "f32[4,5,8,6]"
    nd = {**ROWS, "offset_dims": (2,), "index_vector_dim": 2, "slice_sizes": (1, 11)}
    assert gather("f32[16,11]", "s64[4,5,1]", nd) == "f32[4,5,11]"


def test_gather_with_batching_dimensions():
    assert gather("f32[7,5]", "s32[3,7,1]", BATCHED) == "f32[3,7,2]"
    two = {**BATCHED, "operand_batching_dims": (0, 1), "start_indices_batching_dims": (1, 0), "start_index_map": (2,)}
    assert gather("f32[7,3,5]", "s32[3,7,1]", two, slice_sizes=(1, 1, 4)) == "f32[3,7,4]"


def test_gather_checks_the_declared_shape():
    assert accepts(opcodes.GATHER, "f32[5,3]{0,1}", "f32[4,3]", "s32[5]", **ROWS)
    refused(
        (shared.RESULT_SHAPE, "(f32[4,3], s32[5])", "f32[5,3]", "f32[5,4]"),
        opcodes.GATHER,
        "f32[5,4]",
        "f32[4,3]",
        "s32[5]",
        **ROWS,
    )


@pytest.mark.parametrize(
    ("operand", "indices", "changes", "wanted"),
    [
        ("(f32[4,3])", "s32[5]", {}, (shared.ARRAY_OPERAND, "operand 0", "(f32[4,3])")),
        ("f32[4,3]", "token[]", {}, (shared.ARRAY_OPERAND, "operand 1", "token[]")),
        ("f32[4,3]", "f32[5]", {}, (codes.INDEX_TYPE, "f32[5]")),
        ("f32[4,3]", "pred[5]", {}, (codes.INDEX_TYPE, "pred[5]")),
        (
            "f32[4,3]",
            "s32[5]",
            {"index_vector_dim": 2},
            (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim 2", "[0, 1]", "s32[5]"),
        ),
        (
            "f32[4,3]",
            "s32[5]",
            {"index_vector_dim": -1},
            (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim -1", "[0, 1]", "s32[5]"),
        ),
        ("f32[4,3]", "s32[5]", {"offset_dims": (2,)}, (shared.DIMENSION_NUMBER, "offset_dims", "[2]")),
        ("f32[4,3]", "s32[5]", {"offset_dims": (1, 0)}, (codes.ASCENDING_DIMENSIONS, "offset_dims", "[1, 0]")),
        ("f32[4,3]", "s32[5]", {"offset_dims": (1, 1)}, (shared.DISTINCT_DIMENSIONS, "offset_dims", "[1, 1]")),
        ("f32[4,3]", "s32[5,2]", {}, (codes.INDEX_COMPONENTS, "start_index_map", "[0]")),
        ("f32[4,3]", "s32[5]", {"start_index_map": (2,)}, (shared.DIMENSION_NUMBER, "start_index_map", "[2]")),
        (
            "f32[4,3]",
            "s32[5,2]",
            {"start_index_map": (0, 0)},
            (shared.DISTINCT_DIMENSIONS, "start_index_map", "[0, 0]"),
        ),
        (
            "f32[4,3]",
            "s32[5]",
            {"collapsed_slice_dims": (2,)},
            (shared.DIMENSION_NUMBER, "collapsed_slice_dims", "[2]"),
        ),
        (
            "f32[4,3]",
            "s32[5]",
            {"collapsed_slice_dims": (1, 0)},
            (codes.ASCENDING_DIMENSIONS, "collapsed_slice_dims", "[1, 0]"),
        ),
        (
            "f32[4,3]",
            "s32[5]",
            {"collapsed_slice_dims": (0, 0)},
            (shared.DISTINCT_DIMENSIONS, "collapsed_slice_dims", "[0, 0]"),
        ),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1,)}, (shared.ENTRY_PER_DIMENSION, "f32[4,3]", "[1]")),
        (
            "f32[4,3]",
            "s32[5]",
            {"collapsed_slice_dims": ()},
            (codes.DIMENSION_KINDS, "f32[4,3]"),
        ),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1, 4)}, (movement_codes.SLICE_SIZES, "size 4", "dimension 1")),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1, -1)}, (movement_codes.SLICE_SIZES, "size -1", "dimension 1")),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (2, 3)}, (codes.DROPPED_SLICE_SIZE, "2")),
    ],
)
def test_gather_refuses(operand: str, indices: str, changes: dict[str, Any], wanted: Wanted):
    gather_refused(wanted, operand, indices, ROWS, **changes)


@pytest.mark.parametrize(
    ("indices", "changes", "wanted"),
    [
        (
            "s32[3,7,1]",
            {"operand_batching_dims": ()},
            (codes.BATCHING_DIMENSIONS, "operand_batching_dims", "[]", "start_indices_batching_dims", "[1]"),
        ),
        ("s32[3,7,1]", {"operand_batching_dims": (2,)}, (shared.DIMENSION_NUMBER, "operand_batching_dims", "[2]")),
        (
            "s32[3,7,1]",
            {"start_indices_batching_dims": (3,)},
            (shared.DIMENSION_NUMBER, "start_indices_batching_dims", "[3]"),
        ),
        ("s32[3,7,1]", {"start_indices_batching_dims": (2,)}, (codes.BATCHING_DIMENSIONS, "[2]", "index_vector_dim 2")),
        (
            "s32[3,7,1]",
            {"collapsed_slice_dims": (0,)},
            (codes.DISJOINT_DIMENSIONS, "collapsed_slice_dims", "[0]", "operand_batching_dims", "dimension 0"),
        ),
        (
            "s32[3,7,1]",
            {"slice_sizes": (2, 2)},
            (codes.DROPPED_SLICE_SIZE, "dimension 0", "operand_batching_dims", "[0]"),
        ),
        (
            "s32[7,7,1]",
            {"operand_batching_dims": (1, 0), "start_indices_batching_dims": (0, 1)},
            (codes.ASCENDING_DIMENSIONS, "operand_batching_dims", "[1, 0]"),
        ),
        (
            "s32[7,7,1]",
            {"operand_batching_dims": (0, 1), "start_indices_batching_dims": (1, 1)},
            (shared.DISTINCT_DIMENSIONS, "start_indices_batching_dims", "[1, 1]"),
        ),
    ],
)
def test_gather_refuses_batching(indices: str, changes: dict[str, Any], wanted: Wanted):
    gather_refused(wanted, "f32[7,5]", indices, BATCHED, **changes)


@pytest.mark.parametrize("start_index_map", [(0,), (1,)])
def test_a_batching_dimension_may_be_indexed_and_of_another_size(start_index_map: tuple[int, ...]):
    numbers = {**BATCHED, "start_index_map": start_index_map}
    assert inferred(opcodes.GATHER, "f32[7,5]", "s32[3,6,1]", **numbers) == "f32[3,6,2]"


def test_gather_text():
    assert [f.key for f in opcodes.GATHER.attributes.fields] == [
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "index_vector_dim",
        "slice_sizes",
        "indices_are_sorted",
    ]
    assert rewritten(opcodes.GATHER, "slice_sizes", "{ 1, 3 }") == "{1,3}"
    always = ["offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes"]
    assert written(opcodes.GATHER, ops.GatherAttributes.make(**ROWS)) == always
    assert (
        written(opcodes.GATHER, ops.GatherAttributes.make(**ROWS, indices_are_sorted=True))[-1] == "indices_are_sorted"
    )


# Scatter


@pytest.mark.parametrize(
    ("operand", "indices", "updates", "changes"),
    [
        ("f32[4,3]", "s32[5]", "f32[5,3]", {}),
        ("f32[4,3]", "s32[5,1]", "f32[5,2]", {}),
        ("f32[4,3]", "u64[0]", "f32[0,0]", {}),
        ("f32[4,3]", "s32[2,5]", "f32[2,3,5]", {"index_vector_dim": 2}),
        ("f32[4,3]", "s32[1,5]", "f32[3,5]", {"index_vector_dim": 0, "update_window_dims": (0,)}),
        ("f32[<=4,3]", "s32[5]", "f32[5,3]", {}),
    ],
)
def test_scatter_has_the_shape_of_its_operand(operand: str, indices: str, updates: str, changes: dict[str, Any]):
    assert inferred(opcodes.SCATTER, operand, indices, updates, calls=[ADD], **{**INTO_ROWS, **changes}) == operand


def test_scatter_with_batching_dimensions():
    assert inferred(opcodes.SCATTER, "f32[7,5]", "s32[3,7,1]", "f32[3,7,2]", calls=[ADD], **INTO_BATCHES) == "f32[7,5]"


def test_scatter_of_several_operands_is_a_tuple():
    both = "(a: f32[], b: s8[], c: f32[], d: s8[]) -> (f32[], s8[])"
    operands = ("f32[4,3]", "s8[4,3]", "s32[5]", "f32[5,3]", "s8[5,3]")
    assert inferred(opcodes.SCATTER, *operands, calls=[both], **INTO_ROWS) == "(f32[4,3], s8[4,3])"


def test_scatter_of_one_operand_may_return_a_tuple_of_one():
    call = "(a: f32[], b: f32[]) -> (f32[])"
    assert inferred(opcodes.SCATTER, "f32[4,3]", "s32[5]", "f32[5,3]", calls=[call], **INTO_ROWS) == "f32[4,3]"


ONE = ["f32[4,3]", "s32[5]", "f32[5,3]"]


@pytest.mark.parametrize(
    ("operands", "changes", "wanted"),
    [
        (["f32[4,3]", "f32[4,3]", "s32[5]", "f32[5,3]"], {}, (codes.SCATTER_OPERANDS, "4")),
        (["f32[4,3]", "token[]", "f32[5,3]"], {}, (shared.ARRAY_OPERAND, "operand 1", "token[]")),
        (["f32[4,3]", "f32[5]", "f32[5,3]"], {}, (codes.INDEX_TYPE, "f32[5]")),
        (ONE, {"index_vector_dim": 2}, (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim 2", "[0, 1]", "s32[5]")),
        (["f32[4,3]", "s32[5]", "f32[5]"], {}, (codes.UPDATES_RANK, "rank 2")),
        (ONE, {"update_window_dims": (2,)}, (shared.DIMENSION_NUMBER, "update_window_dims", "[2]")),
        (["f32[4,3]", "s32[5]", "f32[5,3,1]"], {"update_window_dims": (2, 1)}, (codes.ASCENDING_DIMENSIONS, "[2, 1]")),
        (
            ["f32[4,3]", "s32[5]", "f32[5,3,1]"],
            {"update_window_dims": (1, 1)},
            (shared.DISTINCT_DIMENSIONS, "update_window_dims", "[1, 1]"),
        ),
        (ONE, {"inserted_window_dims": (2,)}, (shared.DIMENSION_NUMBER, "inserted_window_dims", "[2]")),
        (ONE, {"inserted_window_dims": (1, 0)}, (codes.ASCENDING_DIMENSIONS, "inserted_window_dims", "[1, 0]")),
        (ONE, {"inserted_window_dims": (0, 0)}, (shared.DISTINCT_DIMENSIONS, "inserted_window_dims", "[0, 0]")),
        (ONE, {"inserted_window_dims": ()}, (codes.DIMENSION_KINDS, "f32[4,3]")),
        (
            ["f32[4,3]", "s32[5,2]", "f32[5,3]"],
            {},
            (codes.INDEX_COMPONENTS, "scatter_dims_to_operand_dims", "[0]"),
        ),
        (ONE, {"scatter_dims_to_operand_dims": (2,)}, (shared.DIMENSION_NUMBER, "scatter_dims_to_operand_dims", "[2]")),
        (
            ["f32[4,3]", "s32[5,2]", "f32[5,3]"],
            {"scatter_dims_to_operand_dims": (1, 1)},
            (shared.DISTINCT_DIMENSIONS, "scatter_dims_to_operand_dims", "[1, 1]"),
        ),
        (
            ["f32[4,3]", "s32[5]", "f32[5,4]"],
            {},
            (codes.UPDATE_WINDOW, "window dimension 1", "f32[5,4]", "size 4", "dimension 1"),
        ),
        (
            ["f32[4,3]", "s32[5]", "f32[6,3]"],
            {},
            (codes.UPDATES_PER_INDEX, "dimension 0", "f32[6,3]", "size 6", "s32[5,1]"),
        ),
        (
            ["f32[4,3]", "s32[5]", "s32[5,3]"],
            {},
            (shared.SAME_ELEMENT_TYPE, "operand 0", "f32[4,3]", "updates 0", "s32[5,3]"),
        ),
    ],
)
def test_scatter_refuses(operands: list[str], changes: dict[str, Any], wanted: Wanted):
    scatter_refused(wanted, operands, INTO_ROWS, **changes)


@pytest.mark.parametrize(
    ("indices", "changes", "wanted"),
    [
        ("s32[3,7,1]", {"scatter_indices_batching_dims": ()}, (codes.BATCHING_DIMENSIONS,)),
        (
            "s32[3,7,1]",
            {"scatter_indices_batching_dims": (2,)},
            (codes.BATCHING_DIMENSIONS, "[2]", "index_vector_dim 2"),
        ),
    ],
)
def test_scatter_refuses_batching(indices: str, changes: dict[str, Any], wanted: Wanted):
    scatter_refused(wanted, ["f32[7,5]", indices, "f32[3,7,2]"], INTO_BATCHES, **changes)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("(a: f32[]) -> f32[]", (reduction_codes.REDUCER_COUNT, "(a: f32[]) -> f32[]")),
        ("(a: f32[], b: f32[]) -> (f32[], f32[])", (reduction_codes.REDUCER_COUNT, "2")),
        (
            "(a: s32[], b: f32[]) -> f32[]",
            (reduction_codes.REDUCER_TYPES, "parameter 0", "s32[]", "operand 0", "f32[4,3]"),
        ),
        (
            "(a: f32[], b: f32[3]) -> f32[]",
            (reduction_codes.REDUCER_TYPES, "parameter 1", "f32[3]", "operand 0", "f32[4,3]"),
        ),
        (
            "(a: f32[], b: f32[]) -> pred[]",
            (reduction_codes.REDUCER_TYPES, "result 0", "pred[]", "operand 0", "f32[4,3]"),
        ),
    ],
)
def test_scatter_refuses_the_computation(call: str, wanted: Wanted):
    scatter_refused(wanted, ONE, INTO_ROWS, call)


def test_scatter_refuses_operands_of_different_sizes():
    both = "(a: f32[], b: s8[], c: f32[], d: s8[]) -> (f32[], s8[])"
    scatter_refused(
        (shared.SAME_DIMENSIONS, "operand 0", "f32[4,3]", "operand 1", "s8[4,4]"),
        ["f32[4,3]", "s8[4,4]", "s32[5]", "f32[5,3]", "s8[5,3]"],
        INTO_ROWS,
        both,
    )
    scatter_refused(
        (shared.SAME_DIMENSIONS, "updates 0", "f32[5,3]", "updates 1", "s8[5,2]"),
        ["f32[4,3]", "s8[4,3]", "s32[5]", "f32[5,3]", "s8[5,2]"],
        INTO_ROWS,
        both,
    )
    refused((shared.CALLED_COMPUTATIONS, "0"), opcodes.SCATTER, None, *ONE, **INTO_ROWS)


def test_scatter_text():
    assert [f.key for f in opcodes.SCATTER.attributes.fields] == [
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "index_vector_dim",
        "indices_are_sorted",
        "unique_indices",
    ]
    assert [slot.key for slot in opcodes.SCATTER.computation_slots] == ["to_apply"]
    promised = ops.ScatterAttributes.make(**INTO_ROWS, unique_indices=True)
    assert written(opcodes.SCATTER, promised)[-2:] == ["index_vector_dim", "unique_indices"]

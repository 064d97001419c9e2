"""Shape rules of gather and scatter: values, and one error for each constraint."""

from __future__ import annotations

from typing import Any

import pytest

from tests.opcodes.rules import accepts, inferred, refusal, rewritten, written
from xlapy import opcodes
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


def gather_refused(operand: str, indices: str, base: dict[str, Any], **changes: Any) -> str:
    return refusal(opcodes.GATHER, None, operand, indices, **{**base, **changes})


def scatter_refused(operands: list[str], base: dict[str, Any], call: str = ADD, **changes: Any) -> str:
    return refusal(opcodes.SCATTER, None, *operands, calls=[call], **{**base, **changes})


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
    message = refusal(opcodes.GATHER, "f32[5,4]", "f32[4,3]", "s32[5]", **ROWS)
    assert message == "gather of (f32[4,3], s32[5]) has shape f32[5,3], declared f32[5,4]"


@pytest.mark.parametrize(
    ("operand", "indices", "changes", "message"),
    [
        ("(f32[4,3])", "s32[5]", {}, "gather takes arrays, operand 0 is (f32[4,3])"),
        ("f32[4,3]", "token[]", {}, "gather takes arrays, operand 1 is token[]"),
        ("f32[4,3]", "f32[5]", {}, "gather takes integer indices, given f32[5]"),
        ("f32[4,3]", "pred[5]", {}, "gather takes integer indices, given pred[5]"),
        ("f32[4,3]", "s32[5]", {"index_vector_dim": 2}, "index_vector_dim 2 must be in [0, 1] for indices s32[5]"),
        ("f32[4,3]", "s32[5]", {"index_vector_dim": -1}, "index_vector_dim -1 must be in [0, 1] for indices s32[5]"),
        ("f32[4,3]", "s32[5]", {"offset_dims": (2,)}, "offset_dims [2] must be in [0, 2), the dimensions of"),
        ("f32[4,3]", "s32[5]", {"offset_dims": (1, 0)}, "offset_dims [1, 0] must be ascending"),
        ("f32[4,3]", "s32[5]", {"offset_dims": (1, 1)}, "offset_dims [1, 1] repeat a dimension"),
        ("f32[4,3]", "s32[5,2]", {}, "start_index_map [0] has 1 entries, the index vectors have 2"),
        ("f32[4,3]", "s32[5]", {"start_index_map": (2,)}, "start_index_map [2] must be in [0, 2)"),
        ("f32[4,3]", "s32[5,2]", {"start_index_map": (0, 0)}, "start_index_map [0, 0] repeat a dimension"),
        ("f32[4,3]", "s32[5]", {"collapsed_slice_dims": (2,)}, "collapsed_slice_dims [2] must be in [0, 2)"),
        ("f32[4,3]", "s32[5]", {"collapsed_slice_dims": (1, 0)}, "collapsed_slice_dims [1, 0] must be ascending"),
        ("f32[4,3]", "s32[5]", {"collapsed_slice_dims": (0, 0)}, "collapsed_slice_dims [0, 0] repeat a dimension"),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1,)}, "one slice size per dimension of f32[4,3], given [1]"),
        (
            "f32[4,3]",
            "s32[5]",
            {"collapsed_slice_dims": ()},
            "must have one entry per dimension of the operand f32[4,3]",
        ),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1, 4)}, "slice size 4 of dimension 1 is not between 0 and the"),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (1, -1)}, "slice size -1 of dimension 1 is not between 0"),
        ("f32[4,3]", "s32[5]", {"slice_sizes": (2, 3)}, "so its slice size must be 0 or 1, given 2"),
    ],
)
def test_gather_refuses(operand: str, indices: str, changes: dict[str, Any], message: str):
    assert message in gather_refused(operand, indices, ROWS, **changes)


@pytest.mark.parametrize(
    ("indices", "changes", "message"),
    [
        (
            "s32[3,7,1]",
            {"operand_batching_dims": ()},
            "operand_batching_dims [] and start_indices_batching_dims [1] must have the same number of entries",
        ),
        ("s32[3,7,1]", {"operand_batching_dims": (2,)}, "operand_batching_dims [2] must be in [0, 2)"),
        ("s32[3,7,1]", {"start_indices_batching_dims": (3,)}, "start_indices_batching_dims [3] must be in [0, 3)"),
        ("s32[3,7,1]", {"start_indices_batching_dims": (2,)}, "[2] contains index_vector_dim 2"),
        (
            "s32[3,7,1]",
            {"collapsed_slice_dims": (0,)},
            "collapsed_slice_dims [0] and operand_batching_dims [0] share dimension 0",
        ),
        ("s32[3,7,1]", {"slice_sizes": (2, 2)}, "dimension 0 is in operand_batching_dims [0], so its slice size"),
        (
            "s32[7,7,1]",
            {"operand_batching_dims": (1, 0), "start_indices_batching_dims": (0, 1)},
            "operand_batching_dims [1, 0] must be ascending",
        ),
        (
            "s32[7,7,1]",
            {"operand_batching_dims": (0, 1), "start_indices_batching_dims": (1, 1)},
            "start_indices_batching_dims [1, 1] repeat a dimension",
        ),
    ],
)
def test_gather_refuses_batching(indices: str, changes: dict[str, Any], message: str):
    assert message in gather_refused("f32[7,5]", indices, BATCHED, **changes)


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
    ("operands", "changes", "message"),
    [
        (["f32[4,3]", "f32[4,3]", "s32[5]", "f32[5,3]"], {}, "N updates: an odd number, given 4"),
        (["f32[4,3]", "token[]", "f32[5,3]"], {}, "scatter takes arrays, operand 1 is token[]"),
        (["f32[4,3]", "f32[5]", "f32[5,3]"], {}, "scatter takes integer indices, given f32[5]"),
        (ONE, {"index_vector_dim": 2}, "index_vector_dim 2 must be in [0, 1] for indices s32[5]"),
        (["f32[4,3]", "s32[5]", "f32[5]"], {}, "updates must have rank 2"),
        (ONE, {"update_window_dims": (2,)}, "update_window_dims [2] must be in [0, 2), the dimensions of the updates"),
        (["f32[4,3]", "s32[5]", "f32[5,3,1]"], {"update_window_dims": (2, 1)}, "[2, 1] must be ascending"),
        (["f32[4,3]", "s32[5]", "f32[5,3,1]"], {"update_window_dims": (1, 1)}, "update_window_dims [1, 1] repeat"),
        (ONE, {"inserted_window_dims": (2,)}, "inserted_window_dims [2] must be in [0, 2)"),
        (ONE, {"inserted_window_dims": (1, 0)}, "inserted_window_dims [1, 0] must be ascending"),
        (ONE, {"inserted_window_dims": (0, 0)}, "inserted_window_dims [0, 0] repeat a dimension"),
        (ONE, {"inserted_window_dims": ()}, "must have one entry per dimension of the operand f32[4,3]"),
        (
            ["f32[4,3]", "s32[5,2]", "f32[5,3]"],
            {},
            "scatter_dims_to_operand_dims [0] has 1 entries, the index vectors have 2",
        ),
        (ONE, {"scatter_dims_to_operand_dims": (2,)}, "scatter_dims_to_operand_dims [2] must be in [0, 2)"),
        (
            ["f32[4,3]", "s32[5,2]", "f32[5,3]"],
            {"scatter_dims_to_operand_dims": (1, 1)},
            "scatter_dims_to_operand_dims [1, 1] repeat a dimension",
        ),
        (
            ["f32[4,3]", "s32[5]", "f32[5,4]"],
            {},
            "window dimension 1 of the updates f32[5,4] has size 4, more than the 3 of dimension 1 of the operand",
        ),
        (
            ["f32[4,3]", "s32[5]", "f32[6,3]"],
            {},
            "dimension 0 of the updates f32[6,3] has size 6, dimension 0 of the indices s32[5,1] has 5",
        ),
        (["f32[4,3]", "s32[5]", "s32[5,3]"], {}, "operand 0 is f32[4,3], but updates 0 have another type: s32[5,3]"),
    ],
)
def test_scatter_refuses(operands: list[str], changes: dict[str, Any], message: str):
    assert message in scatter_refused(operands, INTO_ROWS, **changes)


@pytest.mark.parametrize(
    ("indices", "changes", "message"),
    [
        ("s32[3,7,1]", {"scatter_indices_batching_dims": ()}, "must have the same number of entries"),
        ("s32[3,7,1]", {"scatter_indices_batching_dims": (2,)}, "[2] contains index_vector_dim 2"),
    ],
)
def test_scatter_refuses_batching(indices: str, changes: dict[str, Any], message: str):
    assert message in scatter_refused(["f32[7,5]", indices, "f32[3,7,2]"], INTO_BATCHES, **changes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("(a: f32[]) -> f32[]", "takes 2 parameters and returns 1 scalars for 1 operands, given (a: f32[]) -> f32[]"),
        ("(a: f32[], b: f32[]) -> (f32[], f32[])", "takes 2 parameters and returns 1 scalars for 1 operands"),
        ("(a: s32[], b: f32[]) -> f32[]", "parameter 0 of the update computation is s32[], operand 0 is f32[4,3]"),
        ("(a: f32[], b: f32[3]) -> f32[]", "parameter 1 of the update computation is f32[3], operand 0 is f32[4,3]"),
        ("(a: f32[], b: f32[]) -> pred[]", "result 0 of the update computation is pred[], operand 0 is f32[4,3]"),
    ],
)
def test_scatter_refuses_the_computation(call: str, message: str):
    assert message in scatter_refused(ONE, INTO_ROWS, call)


def test_scatter_refuses_operands_of_different_sizes():
    both = "(a: f32[], b: s8[], c: f32[], d: s8[]) -> (f32[], s8[])"
    message = scatter_refused(["f32[4,3]", "s8[4,4]", "s32[5]", "f32[5,3]", "s8[5,3]"], INTO_ROWS, both)
    assert message == "scatter: operand 0 is f32[4,3], operand 1 is s8[4,4]; sizes must agree"
    message = scatter_refused(["f32[4,3]", "s8[4,3]", "s32[5]", "f32[5,3]", "s8[5,2]"], INTO_ROWS, both)
    assert message == "scatter: updates 0 is f32[5,3], updates 1 is s8[5,2]; sizes must agree"
    assert "scatter calls 1 computation, given 0" in refusal(opcodes.SCATTER, None, *ONE, **INTO_ROWS)


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

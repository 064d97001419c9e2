"""Gather and scatter.

Codes E1500 to E1599: index vectors, slices and updates.
"""

from xlapy.base.error_codes.code import ErrorCode

INDEX_TYPE = ErrorCode(
    "E1500",
    "Indices are integers.",
    remedy="Convert the indices to s32.",
)
INDEX_VECTOR_DIMENSION = ErrorCode(
    "E1501",
    "`index_vector_dim` is a dimension of the indices, or their rank if each index is a vector of one component.",
    remedy=("Give the dimension of the indices that holds the components of an index vector, often the last one."),
)
ASCENDING_DIMENSIONS = ErrorCode(
    "E1502",
    "A list of dimension numbers that separates dimensions of two kinds is in ascending order.",
    remedy="Sort the list; transpose the result or the updates if another order is wanted.",
)
INDEX_COMPONENTS = ErrorCode(
    "E1503",
    "Each component of an index vector is the position in one operand dimension.",
    remedy=(
        "Give as many entries in `start_index_map` (scatter: `scatter_dims_to_operand_dims`) as an index "
        "vector has components."
    ),
)
BATCHING_DIMENSIONS = ErrorCode(
    "E1504",
    "Batching dimensions of operand and indices are paired one to one, and none of them is the index vector dimension.",
    remedy="Give the same number of batching dimensions for both, in the same order.",
)
DISJOINT_DIMENSIONS = ErrorCode(
    "E1505",
    "A dimension that is dropped from slices is either collapsed (scatter: inserted) or a batching dimension.",
    remedy="Remove the dimension from one of the two lists.",
)
DIMENSION_KINDS = ErrorCode(
    "E1506",
    "Each operand dimension is a window dimension, a collapsed (scatter: inserted) dimension or a batching dimension.",
    remedy="Give lists whose lengths add up to the rank of the operand.",
)
DROPPED_SLICE_SIZE = ErrorCode(
    "E1507",
    "The slice size of a collapsed or batching dimension is 0 or 1.",
    remedy="Keep the dimension as an offset dimension, or set its slice size to 1.",
)
SCATTER_OPERANDS = ErrorCode(
    "E1510",
    "A scatter takes N operands, the indices and N updates.",
    remedy="Pass one array of updates for each operand.",
)
UPDATES_RANK = ErrorCode(
    "E1511",
    "The rank of the updates is the number of index dimensions without the index vector dimension, plus "
    "the number of window dimensions.",
    remedy="Reshape the updates, or change `update_window_dims`.",
)
UPDATE_WINDOW = ErrorCode(
    "E1512",
    "The window of an update is not larger than the operand.",
    remedy=(
        "Slice the updates; a window that is partly out of bounds is dropped at run time, a larger one is not allowed."
    ),
)
UPDATES_PER_INDEX = ErrorCode(
    "E1513",
    "There is one update for each index vector: the other dimensions of the updates are those of the indices.",
    remedy="Broadcast the updates to the dimensions of the indices.",
)

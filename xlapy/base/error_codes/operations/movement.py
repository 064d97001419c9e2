"""Movement of elements, tuples and sources.

Codes E1300 to E1399: reshape, broadcast, slices, padding, sizes; tuples; parameters and constants.
"""

from xlapy.base.error_codes.code import ErrorCode

KEPT_ELEMENT_TYPE = ErrorCode(
    "E1300",
    "An operation that only moves elements returns an array of the operand's element type.",
    remedy="Declare the operand's element type, and convert before or after.",
)
BROADCAST_SIZES = ErrorCode(
    "E1301",
    "A broadcast keeps the size of each operand dimension; the other dimensions of the result are new.",
    remedy="Reshape the operand to remove dimensions of size 1; then broadcast it along new dimensions.",
)
ELEMENT_COUNT = ErrorCode(
    "E1302",
    "A reshape keeps the number of elements.",
    remedy="Give sizes whose product is the number of elements of the operand.",
)
INFERRED_DIMENSION = ErrorCode(
    "E1303",
    "The `inferred_dimension` of a reshape is a dimension of the result, or -1.",
    remedy="Give the number of the result dimension that is dynamic.",
)
DYNAMIC_DIMENSION_OF_RESHAPE = ErrorCode(
    "E1304",
    "A dynamic dimension of a reshape becomes one dimension of the result: it is not both merged and "
    "split, and of size 1 only at either end.",
    remedy="Reshape in two steps, or use dynamic-reshape with explicit sizes.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[<=2,6]"), "x")
        ops.reshape(x, [3, 4])
    """,
)
SIZE_OPERANDS = ErrorCode(
    "E1305",
    "A dynamic-reshape takes one size for each dimension of the result.",
    remedy="Pass a scalar s32 for each dimension, also for the static ones.",
)
SIZE_OPERAND = ErrorCode(
    "E1306",
    "A size that is an operand has the shape s32[].",
    remedy="Convert the size to s32, and reshape it to a scalar.",
)
PERMUTATION = ErrorCode(
    "E1307",
    "A transpose takes a permutation of the dimensions of its operand.",
    remedy="Name each dimension once; result dimension i is operand dimension `dimensions[i]`.",
)
SHUFFLE_PATTERN = ErrorCode(
    "E1310",
    "A shuffle of mode rotate takes one shift for each of its dimensions and no indices, one of mode "
    "permute indices and no shifts.",
    remedy="Remove the attribute of the other mode.",
)
SHUFFLE_INDICES = ErrorCode(
    "E1311",
    "The indices of a shuffle are integers with the operand's dimensions, or size 1 where they are broadcast.",
    remedy=(
        "Give indices of the dimensions that the message names; the last one holds the coordinates if several"
        " dimensions are shuffled."
    ),
)
CONCATENATED_SIZES = ErrorCode(
    "E1320",
    "The operands of a concatenate have the same rank, and the same sizes except in the concatenated dimension.",
    remedy="Pad or reshape the operand, or concatenate along another dimension.",
)
SLICE_RANGE = ErrorCode(
    "E1321",
    "A slice range has 0 <= start <= limit <= size.",
    remedy="Clamp the range to the dimension; pad makes an array larger.",
)
SLICE_STRIDE = ErrorCode(
    "E1322",
    "The strides of a slice are at least 1.",
    remedy="Use reverse for negative strides.",
)
PADDING_VALUE = ErrorCode(
    "E1323",
    "The padding value is a scalar.",
    remedy="Reshape the value to `[]`.",
)
INTERIOR_PADDING = ErrorCode(
    "E1324",
    "Interior padding is not negative.",
    remedy="Use a slice with strides to remove elements between others.",
)
NEGATIVE_PADDING = ErrorCode(
    "E1325",
    "Negative padding does not remove more elements than there are.",
    remedy="Reduce the amount that is removed, or increase the padding on the other side.",
)
START_INDEX_COUNT = ErrorCode(
    "E1330",
    "There is one start index for each dimension of the operand, as separate scalars or in one vector.",
    remedy="Add a start index of 0 for each dimension that is not sliced.",
)
START_INDEX_TYPE = ErrorCode(
    "E1331",
    "Start indices are integer scalars of one element type.",
    remedy="Convert all of them to s32.",
)
SLICE_SIZES = ErrorCode(
    "E1332",
    "The size of a slice is between 0 and the size of the dimension.",
    remedy="Clamp the size to the dimension.",
)
UPDATE_SIZE = ErrorCode(
    "E1333",
    "The update of a dynamic-update-slice has the rank of the operand and is not larger in any dimension.",
    remedy="Slice or reshape the update.",
)
BITCAST_BYTES = ErrorCode(
    "E1340",
    "A bitcast keeps the number of bytes.",
    remedy="Use reshape, convert or bitcast-convert; a bitcast only reinterprets a buffer.",
)
DIMENSION_SIZE_LIMIT = ErrorCode(
    "E1341",
    "A dimension whose size is read or set at run time fits into s32.",
    remedy="Split the dimension with a reshape.",
)
TUPLE_OPERAND = ErrorCode(
    "E1350",
    "A get-tuple-element takes a tuple.",
    remedy="Use the value itself: an operation with one result returns no tuple.",
)
PARAMETER_REPLICATION = ErrorCode(
    "E1361",
    "`parameter_replication` has one entry for each leaf of the parameter's shape.",
    remedy="Give true or false for each array of a tuple, in order.",
)
CONSTANT_SHAPE = ErrorCode(
    "E1362",
    "A constant is declared with the shape of its literal.",
    remedy="Declare the literal's shape, and convert the constant.",
    python="""
        attributes = xla.opcodes.CONSTANT.attributes(literal=xla.Literal.of(np.float32(1)))
        xla.opcodes.CONSTANT.verify(xla.Shape.parse("f32[2]"), [], attributes)
    """,
)

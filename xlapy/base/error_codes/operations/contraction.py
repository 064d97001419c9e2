"""Matrix products.

Codes E1200 to E1249: dot, ragged-dot and scaled-dot.
"""

from xlapy.base.error_codes.code import ErrorCode

DOT_DISTINCT_DIMENSIONS = ErrorCode(
    "E1200",
    "The batch and contracting dimensions of an operand of a dot are distinct.",
    remedy="Name each dimension of an operand once, either as batch or as contracting dimension.",
)
DOT_PAIRED_DIMENSIONS = ErrorCode(
    "E1201",
    "A dot has as many batch dimensions of lhs as of rhs, and as many contracting dimensions.",
    remedy="Give the dimensions of lhs and rhs in pairs, in the same order.",
)
DOT_PAIR_SIZES = ErrorCode(
    "E1202",
    "Paired batch or contracting dimensions of lhs and rhs have the same size.",
    remedy="Transpose or reshape an operand, or contract other dimensions; the first dimension has number 0.",
)
DOT_ARRAY_RESULT = ErrorCode(
    "E1203",
    "The result of a dot is an array.",
    remedy="Declare the array shape: batch dimensions, then free dimensions of lhs, then those of rhs.",
)
DOT_COMPLEX_RESULT = ErrorCode(
    "E1204",
    "The result of a dot is complex if lhs or rhs is.",
    remedy="Declare a complex element type, and take `real` of the result.",
)
DOT_PRECISION_ORDER = ErrorCode(
    "E1205",
    "Element types of a dot can be ordered by precision, or the element type of the result is given.",
    remedy="Convert one of the operands, or pass `preferred_element_type`.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f8e4m3[2,3]"), "x")
        y = ops.parameter(b, 1, xla.Shape.parse("f8e4m3fnuz[3,2]"), "y")
        ops.dot(x, y)
    """,
)
RAGGED_DIMENSION = ErrorCode(
    "E1210",
    "A ragged dot has exactly one ragged dimension of lhs.",
    remedy="Give one dimension in `lhs_ragged_dims`; use dot if no dimension is ragged.",
)
GROUP_SIZES_TYPE = ErrorCode(
    "E1211",
    "The group sizes of a ragged dot are integers.",
    remedy="Convert the group sizes to s32.",
)
GROUP_SIZES_DIMENSIONS = ErrorCode(
    "E1212",
    "The last dimension of group sizes lists the groups; before it are the batch dimensions and the dimensions of "
    "the ragged dimension's kind that precede it, or none.",
    remedy="Give the dimensions that the message names; one list of groups holds for all batches.",
)
GROUP_DIMENSION = ErrorCode(
    "E1213",
    "A ragged dot has one group dimension of rhs if the ragged dimension is a free dimension of lhs, and none "
    "otherwise.",
    remedy="Add or remove `rhs_group_dims`.",
)
GROUP_DIMENSION_FREE = ErrorCode(
    "E1214",
    "The group dimension of rhs is neither a batch nor a contracting dimension.",
    remedy="Give rhs one more dimension that selects the matrix of a group.",
)
GROUP_COUNT = ErrorCode(
    "E1215",
    "The group dimension of rhs has the number of groups as its size.",
    remedy="Give rhs one matrix for each group; groups of size 0 count.",
)
SCALE_GIVEN = ErrorCode(
    "E1220",
    "At least one scale of a scaled dot is not a scalar.",
    remedy="Use dot for operands without scales.",
)
SCALE_RANK = ErrorCode(
    "E1221",
    "A scale has the rank of its operand.",
    remedy="Give the scale a size of 1 in the dimensions along which it is constant.",
)
SCALED_CONTRACTION = ErrorCode(
    "E1222",
    "A scaled dot contracts exactly one dimension of a scaled operand.",
    remedy="Reshape the operands so that one dimension is contracted.",
)
SCALE_BLOCKS = ErrorCode(
    "E1223",
    "Each dimension size of a scale divides the dimension size of its operand.",
    remedy="Pad the operand to a multiple of the block size.",
)

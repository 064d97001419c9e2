"""Computations on elements, windows and sorts.

Codes E1400 to E1499: reduce, reduce-window, select-and-scatter, map, scan, sort and topk.
"""

from xlapy.base.error_codes.code import ErrorCode

REDUCER_COUNT = ErrorCode(
    "E1400",
    "A computation that combines N arrays takes N accumulators, then N elements, and returns N scalars.",
    remedy="Give the computation the parameters and results that the message counts.",
)
REDUCER_SCALARS = ErrorCode(
    "E1401",
    "A computation that combines elements takes and returns scalars.",
    remedy=(
        "Declare scalar parameters and results: the computation is applied to one element of each array at a time."
    ),
)
REDUCER_TYPES = ErrorCode(
    "E1402",
    "Result i, accumulator i, element i and initial value i of a reduction have the element type of operand i.",
    remedy="Convert the operand or the initial value, or rewrite the computation for the element type.",
)
SELECT_COMPUTATION = ErrorCode(
    "E1405",
    "The `select` computation of a select-and-scatter takes two scalars of the operand's element type and"
    " returns pred[].",
    remedy="Return a comparison of the two parameters, such as GE.",
)
SOURCE_POSITIONS = ErrorCode(
    "E1406",
    "The source of a select-and-scatter has one element for each position of the window over the operand.",
    remedy="Give the source the shape that the message names, or change the window.",
)
MAP_DIMENSIONS = ErrorCode(
    "E1410",
    "The `dimensions` of a map are all dimensions of its operands, in order.",
    remedy="Leave out `dimensions`, or give 0 to rank - 1.",
)
MAP_COMPUTATION = ErrorCode(
    "E1411",
    "The computation of a map takes one scalar for each operand, of the operand's element type, and returns a scalar.",
    remedy="Declare scalar parameters of the element types of the operands.",
)
SCAN_DIMENSION = ErrorCode(
    "E1420",
    "A scan runs along exactly one dimension.",
    remedy="Scan one dimension after the other.",
)
SCAN_CARRIES = ErrorCode(
    "E1421",
    "A scan has at least one input or output besides its carries, and not more carries than operands and results.",
    remedy="Give the number of carries in `num_carries`; use while for a loop with carries only.",
)
SCAN_SIZE = ErrorCode(
    "E1422",
    "All inputs and outputs of a scan have the same size in the scanned dimension.",
    remedy="Pad or slice the input, or declare the output with the size that the message names.",
)
SCAN_BODY_COUNTS = ErrorCode(
    "E1423",
    "The body of a scan takes one value for each operand and returns one value for each result.",
    remedy="Take inputs, then carries; return outputs, then carries.",
)
SCAN_BODY_SHAPES = ErrorCode(
    "E1424",
    "The body of a scan takes and returns slices of inputs and outputs without the scanned dimension, and"
    " carries that keep their shapes.",
    remedy="Declare the shapes that the message names.",
)
SCAN_SIZE_GIVEN = ErrorCode(
    "E1425",
    "A scan without inputs has a declared size.",
    remedy="Pass `scan_dimension_size` to the builder's function.",
    python="""
        program = xla.ProgramShape.parse("(c: f32[]) -> (f32[], f32[])")
        attributes = xla.opcodes.SCAN.attributes(dimensions=(0,), num_carries=1)
        xla.opcodes.SCAN.result_shape([xla.Shape.parse("f32[]")], attributes, [program])
    """,
)
COMPARATOR_RESULT = ErrorCode(
    "E1430",
    "The comparator of a sort returns pred[].",
    remedy="Return a comparison of the two elements, such as LT.",
)
COMPARATOR_PARAMETERS = ErrorCode(
    "E1431",
    "The comparator of a sort takes two scalars for each operand: parameters 2k and 2k+1 have the element"
    " type of operand k.",
    remedy="Declare two parameters for each operand, also for those that are only reordered.",
)
TOP_COUNT = ErrorCode(
    "E1440",
    "The k of a topk is between 0 and the size of the last dimension.",
    remedy="Reduce k, or concatenate more values.",
)

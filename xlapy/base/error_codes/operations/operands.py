"""Operands and results of any operation.

Codes E1000 to E1049: rules that several operations share.
"""

from xlapy.base.error_codes.code import ErrorCode

OPERAND_COUNT = ErrorCode(
    "E1000",
    "An instruction has as many operands as its operation takes.",
    remedy="Add or remove operands; `xlapy ops NAME` lists them.",
    python="xla.opcodes.ADD.result_shape([xla.Shape.parse('f32[2]')])",
)
ARRAY_OPERAND = ErrorCode(
    "E1001",
    "Operands are arrays unless the operation takes tuples, tokens or buffers.",
    remedy="Take the element of a tuple with get-tuple-element.",
)
TOKEN_OPERAND = ErrorCode(
    "E1002",
    "Operations that are ordered among each other take a token.",
    remedy="Create a token with after-all, or use the one that the previous operation returns.",
)
RESULT_SHAPE = ErrorCode(
    "E1003",
    "The declared shape of an instruction is the shape that its operands and attributes give.",
    remedy="Declare the shape that the message names. `xlapy ops NAME` says how it follows from the operands.",
)
DIMENSION_NUMBER = ErrorCode(
    "E1004",
    "A dimension number is at least 0 and less than the rank of the array that it refers to.",
    remedy="Count dimensions from 0, the outermost one.",
)
DISTINCT_DIMENSIONS = ErrorCode(
    "E1005",
    "A list of dimension numbers names each dimension once.",
    remedy="Remove the repeated numbers.",
)
CALLED_COMPUTATIONS = ErrorCode(
    "E1006",
    "An instruction calls as many computations as its operation takes.",
    remedy="Give one computation for each name that `xlapy ops NAME` lists.",
    python="""
        b = xla.XlaBuilder("m")
        x = ops.parameter(b, 0, xla.Shape.parse("f32[2]"), "x")
        xla.opcodes.MAP.result_shape([x.shape], xla.opcodes.MAP.attributes(), [])
    """,
)
INFERRED_SHAPE = ErrorCode(
    "E1007",
    "The shape of an instruction is declared if its operation does not determine it.",
    remedy="Pass `shape=` to the builder's function.",
    python="xla.opcodes.RNG.result_shape([xla.Shape.parse('f32[]')] * 2)",
)
KNOWN_OPERATION = ErrorCode(
    "E1008",
    "The name of an operation is one of those in HLO text.",
    remedy="`xlapy ops` lists the names; the message names similar ones.",
    python="xla.opcodes.lookup('ad')",
)
SUPPORTED_OPERATION = ErrorCode(
    "E1009",
    "An operation is one that the platform, the format or the pass supports.",
    remedy="Use another platform or other operations; `xlapy ops NAME` shows what supports an operation.",
    python="""
        from xlapy.opcodes.registry import Rules

        Rules("my format").find(xla.opcodes.ADD)
    """,
)
ARRAY_RESULT = ErrorCode(
    "E1010",
    "The result of an operation is an array unless the operation returns tuples, tokens or buffers.",
    remedy="Declare an array.",
)
SAME_ELEMENT_TYPE = ErrorCode(
    "E1011",
    "Operands that are combined have the same element type.",
    remedy="Convert one of the operands.",
)
SAME_DIMENSIONS = ErrorCode(
    "E1012",
    "Operands whose elements are combined index by index have the same dimensions.",
    remedy="Broadcast, reshape, pad or slice one of the operands.",
)
ELEMENT_TYPE = ErrorCode(
    "E1013",
    "An operation takes and returns elements of the types that it is defined for.",
    remedy="Convert the operand, and the result back; `xlapy ops NAME` lists the element types.",
)
ENTRY_PER_DIMENSION = ErrorCode(
    "E1014",
    "An attribute with one entry for each dimension has as many entries as the array has dimensions.",
    remedy="Give one entry for each dimension, outermost first.",
)
MINIMUM_RANK = ErrorCode(
    "E1015",
    "An array has at least as many dimensions as the operation works on.",
    remedy="Reshape the array: add dimensions of size 1.",
)

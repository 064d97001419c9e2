"""Operands and results of any operation.

Codes E1000 to E1049: rules that several operations share.
"""

from xlapy.base.error_codes.code import ErrorCode

OPERAND_COUNT = ErrorCode(
    "E1000",
    "An instruction has as many operands as its operation takes.",
    remedy="Add or remove operands; `xlapy ops NAME` lists them.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT sum = f32[2] add(x)
        }
    """,
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

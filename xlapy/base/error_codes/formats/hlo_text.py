"""Texts: HLO, shapes, literals and shardings.

Codes E3000 to E3099: the grammar, and names. Texts of StableHLO share the rules for tokens.
"""

from xlapy.base.error_codes.code import ErrorCode

CHARACTERS = ErrorCode(
    "E3000",
    "A text consists of characters that can be written as UTF-8.",
    remedy="Remove the half of a character (a surrogate) that the message names; it often comes from cut text.",
    python="""
        from xlapy.proto.text_format import parse_message
        parse_message("HloModuleProto", "name: '\\ud800'")
    """,
)
TOKEN = ErrorCode(
    "E3001",
    "Each token is one that the grammar allows at its position.",
    remedy="The message names what is expected at the caret. `xlapy ops NAME` shows the text of an operation.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[2 parameter(0)
        }
    """,
)
INTEGER_RANGE = ErrorCode(
    "E3002",
    "An integer fits in 64 bits, and one of metadata or of a stack frame in 32 bits.",
    remedy="Use a smaller number.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[123456789012345678901234567890] parameter(0)
        }
    """,
)
ESCAPE = ErrorCode(
    "E3003",
    "A backslash in a string begins an escape of C.",
    remedy="Write `\\\\` for a backslash, and `\\xff` with two digits for a byte.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[] parameter(0), metadata={op_name="\\q"}
        }
    """,
)
CLOSING_BRACKET = ErrorCode(
    "E3004",
    "Each brace or parenthesis closes.",
    remedy="Close the bracket that the caret shows; those in strings and comments do not count.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[] parameter(0)
    """,
)
NESTING = ErrorCode(
    "E3005",
    "Instructions, computations, calls and messages nest only as deep as the message says.",
    remedy="Give inner instructions and computations names, and refer to them by name.",
    python="xla.parse_hlo('ENTRY m { ROOT x = ' + 200 * 'f32[] negate(' + 'f32[] constant(1)' + 200 * ')' + ' }')",
)
UNDEFINED_NAME = ErrorCode(
    "E3010",
    "A name that is used is defined: an operand before its use, a computation anywhere in the module.",
    remedy="Correct the name, or move the definition up.",
    hlo="""
        HloModule m
        ENTRY main {
          operand = f32[] parameter(0)
          ROOT x = f32[] negate(opernd)
        }
    """,
)
INSTRUCTION_NAME = ErrorCode(
    "E3011",
    "The name of an instruction is neither an element type nor begins with two underscores.",
    remedy="Rename the instruction as the message suggests.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT f32 = f32[] parameter(0)
        }
    """,
)
ONE_MARK = ErrorCode(
    "E3012",
    "A module marks one computation with ENTRY, and a computation one instruction with ROOT.",
    remedy="Remove one of the two marks; without a mark, the last one counts.",
    hlo="""
        HloModule m
        ENTRY main {
          ROOT x = f32[] parameter(0)
          ROOT y = f32[] negate(x)
        }
    """,
)
REDECLARED_SHAPE = ErrorCode(
    "E3013",
    "A shape that a text repeats, before an operand or in the signature of a computation, is that of the definition.",
    remedy="Correct the shape, or leave it out.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2] negate(f32[3] x)
        }
    """,
)
REPEATED_KEY = ErrorCode(
    "E3020",
    "Each attribute, field or entry is given once.",
    remedy="Remove one of the two.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2,3] broadcast(x), dimensions={0}, dimensions={1}
        }
    """,
)
UNKNOWN_KEY = ErrorCode(
    "E3021",
    "An attribute or field is one that its operation, or the module, takes.",
    remedy="Correct the name; `xlapy ops NAME` lists the attributes of an operation.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[2] parameter(0)
          ROOT y = f32[2,3] broadcast(x), dimension={0}
        }
    """,
)
MISSING_KEY = ErrorCode(
    "E3022",
    "Attributes and fields without a default are given.",
    remedy="Add the attribute that the message names.",
    hlo="""
        HloModule m
        ENTRY main {
          x = (f32[2], s32[]) parameter(0)
          ROOT y = f32[2] get-tuple-element(x)
        }
    """,
)

"""MLIR bytecode and portable artifacts.

Codes E3600 to E3699: the encoding of programs that are read, and what a portable artifact that is written can hold.
"""

from xlapy.base.error_codes.code import ErrorCode


def _with_byte(position: int, value: int) -> str:
    """Returns the example of a small artifact that is damaged in one byte."""
    return f"""
        from xlapy.stablehlo.bytecode import write_bytecode
        from xlapy.stablehlo.text import parse_text
        text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> }}"
        artifact = bytearray(write_bytecode(parse_text(text)))
        artifact[{position}] = {value}
        xla.parse_stablehlo(bytes(artifact))
    """


BYTECODE_START = ErrorCode(
    "E3600",
    "Bytecode begins with the bytes `ML\\xefR`.",
    remedy="Pass the whole file; read text with `parse_stablehlo`, which tells the two apart.",
    python="""
        from xlapy.stablehlo.bytecode import read_bytecode
        read_bytecode(b"func.func @main() { return }")
    """,
)
BYTECODE_VERSION = ErrorCode(
    "E3601",
    "Bytecode has a version of the format that is not newer than the newest supported one.",
    remedy="Serialize the program for an older version of StableHLO, as `serialize_portable_artifact` does.",
    python=r'xla.parse_stablehlo(b"ML\xefR\x13x\0")',
)
TRUNCATED_BYTECODE = ErrorCode(
    "E3602",
    "Bytecode is complete: each section, number and list ends inside the file.",
    remedy="Compare the size of the file with the original; it was cut, or its bytes were changed.",
    python=r'xla.parse_stablehlo(b"ML\xefR")',
)
DAMAGED_BYTECODE = ErrorCode(
    "E3603",
    "Bytecode follows MLIR's encoding.",
    remedy="Write the file again; open it in binary mode, without conversion of line ends.",
    python=r'xla.parse_stablehlo(b"ML\xefR\x0dx\0")',
)
BYTECODE_REFERENCE = ErrorCode(
    "E3604",
    "A number in bytecode that stands for a string, type, attribute, operation or value stands for one that exists.",
    remedy="Write the file again; its bytes were changed, or a writer has an error.",
    python=_with_byte(4, 1),
)
BYTECODE_NESTING = ErrorCode(
    "E3605",
    "Attributes and types in bytecode nest to a limited depth and size, and none contains itself.",
    remedy="Write the file again; no program that MLIR writes nests that deep.",
    python=_with_byte(115, 45),
)
BYTECODE_KIND = ErrorCode(
    "E3606",
    "An attribute or type in bytecode is of the kind that its place requires.",
    remedy="Write the file again; its bytes were changed, or a writer has an error.",
    python=_with_byte(113, 19),
)
BYTECODE_ENCODING = ErrorCode(
    "E3607",
    "Attributes, types and properties are of a dialect and version whose encoding is known.",
    remedy="Serialize the program as portable artifact for VHLO 1.20 or older, or pass it as text.",
    python=_with_byte(27, 3),
)
BYTECODE_TYPE = ErrorCode(
    "E3608",
    "Types and constants in bytecode are those of StableHLO programs.",
    remedy="Lower the program to StableHLO; it has no vectors, strings, sparse constants or other element types.",
    python=_with_byte(105, 1),
)
BYTECODE_MODULE = ErrorCode(
    "E3609",
    "Bytecode of a program holds one `builtin.module`.",
    remedy="Serialize the module, not an operation in it.",
    python=_with_byte(85, 21),
)
ARTIFACT_MODULE = ErrorCode(
    "E3620",
    "A portable artifact is made from a `builtin.module`.",
    remedy="Pass the operation around all functions, as `parse_text` and `export_program` return it.",
    python="""
        from xlapy.stablehlo import ir
        from xlapy.stablehlo.bytecode import write_bytecode
        write_bytecode(ir.Operation("func.func"))
    """,
)
ARTIFACT_OPERATION = ErrorCode(
    "E3621",
    "A portable artifact holds operations of StableHLO, and functions.",
    remedy="Lower CHLO and other dialects to StableHLO first; importing and exporting the program does so.",
    python='''
        from xlapy.stablehlo.bytecode import write_bytecode
        from xlapy.stablehlo.text import parse_text
        write_bytecode(parse_text("""
            func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
              %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>
              return %0 : tensor<2xf32>
            }
        """))
    ''',
)
ARTIFACT_ATTRIBUTE = ErrorCode(
    "E3622",
    "Operations in a portable artifact have the attributes that VHLO requires, with values that it defines.",
    remedy="Add the attribute that the message names, or correct its value.",
    python='''
        from xlapy.stablehlo.bytecode import write_bytecode
        from xlapy.stablehlo.text import parse_text
        write_bytecode(parse_text("""
            func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
              %0 = "stablehlo.transpose"(%x) : (tensor<2xf32>) -> tensor<2xf32>
              return %0 : tensor<2xf32>
            }
        """))
    ''',
)
ARTIFACT_TYPE = ErrorCode(
    "E3623",
    "Types in a portable artifact are types of VHLO.",
    remedy="Convert the values to another element type.",
    python="""
        from xlapy.stablehlo.bytecode import write_bytecode
        from xlapy.stablehlo.text import parse_text
        write_bytecode(parse_text("func.func @main(%x: vector<2xf32>) { return }"))
    """,
)

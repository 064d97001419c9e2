"""StableHLO text and types.

Codes E3500 to E3599: the syntax of MLIR text, the names in it, constants, types, and what can be printed.
"""

from xlapy.base.error_codes.code import ErrorCode

TEXT_NESTING = ErrorCode(
    "E3502",
    "Types, attributes and locations nest to a limited depth, and no alias contains itself.",
    remedy="Remove the circle, or write fewer levels; programs that MLIR prints nest a few levels deep.",
    stablehlo="""
        #l = loc(#m)
        #m = loc(#l)
    """,
)
UNDEFINED_NAME = ErrorCode(
    "E3503",
    "A value is defined before its use, in the same region or in one around it; aliases, locations and resources are "
    "defined anywhere in the text.",
    remedy="Correct the name, or move the definition before the use. A function sees no values from outside.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.abs %y : tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
DEFINED_ONCE = ErrorCode(
    "E3504",
    "A value, an alias, an attribute of an operation and a field of an attribute are given once.",
    remedy="Rename or remove one of the two.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %x = stablehlo.abs %x : tensor<2xf32>
          return %x : tensor<2xf32>
        }
    """,
)
VALUE_TYPE = ErrorCode(
    "E3505",
    "The use of a value states the type of its definition.",
    remedy="Write the type of the definition, or convert or reshape the value first.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
          %0 = stablehlo.abs %x : tensor<3xf32>
          return %0 : tensor<3xf32>
        }
    """,
)
FORM_COUNT = ErrorCode(
    "E3506",
    "An operation has as many operands and results as its form takes, with a type for each operand and a name for each "
    "result.",
    remedy="Add or remove operands, types or names until the numbers agree.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0:2 = stablehlo.abs %x : tensor<2xf32>
          return %0#0 : tensor<2xf32>
        }
    """,
)
SHORT_FORM = ErrorCode(
    "E3507",
    "An operation is in the short form of its dialect, or in the generic form.",
    remedy='Correct the name, or write the generic form: `"dialect.name"(%x) : (type) -> type`.',
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.absolute %x : tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
SUCCESSOR_BLOCKS = ErrorCode(
    "E3508",
    "Operations have no successor blocks: control flow of StableHLO is in regions.",
    remedy="Lower branches to `stablehlo.if`, `stablehlo.case` and `stablehlo.while`.",
    stablehlo="""
        func.func @main() {
          "cf.br"() [^next] : () -> ()
        }
    """,
)
KNOWN_KEYWORD = ErrorCode(
    "E3509",
    "The name of an attribute of a dialect, of a field, or of an enumerated value is one that the dialect defines.",
    remedy="Use one of the names in the message.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>, %y: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.reduce(%x init: %y) applies stablehlo.divide across dimensions = [0]
            : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
    """,
)
ELEMENT_COUNT = ErrorCode(
    "E3510",
    "The elements of a constant fill its type: nested lists of its sizes, as many bytes as its elements take, or one "
    "element for all.",
    remedy="Give the elements that the sizes of the type need, or change the type.",
    stablehlo="""
        func.func @main() -> tensor<3xi32> {
          %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>
          return %0 : tensor<3xi32>
        }
    """,
)
ELEMENT_VALUE = ErrorCode(
    "E3511",
    "A number is a value of its type: integers are in range, and floating-point numbers have a point or are bits.",
    remedy="Write the number in the range and form of the type, as in `1.0` or `0x7FC00000` for a float.",
    stablehlo="""
        func.func @main() -> tensor<i8> {
          %0 = stablehlo.constant dense<300> : tensor<i8>
          return %0 : tensor<i8>
        }
    """,
)
CONSTANT_TYPE = ErrorCode(
    "E3512",
    "Numbers and constants have the type of a number, or of a tensor of numbers.",
    remedy="Give a type such as `i64`, `f32` or `tensor<2xf32>`.",
    stablehlo="""
        func.func @main() -> tensor<1xi32> {
          %0 = stablehlo.constant dense<["a"]> : tensor<1xi32>
          return %0 : tensor<1xi32>
        }
    """,
)
FORM_TYPE = ErrorCode(
    "E3513",
    "The type in the short form of an operation is of the kind that the form abbreviates.",
    remedy="Write the type that the message names, or the generic form of the operation.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.complex %x, %x : tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
QUANTIZED_TYPE = ErrorCode(
    "E3514",
    "A quantized type has an integer type for storage, a floating-point type that it expresses, and scales of equal "
    "nesting.",
    remedy="Write a type such as `!quant.uniform<i8:f32, 0.5:3>`.",
    stablehlo="""
        func.func @main(%x: tensor<2x!quant.uniform<f32:f32, 0.5>>) {
          return
        }
    """,
)
TENSOR_SIZES = ErrorCode(
    "E3515",
    "A tensor type has a limited number of dimensions, sizes from 0 to 2**63 - 1, and a bound for each dimension or "
    "none at all.",
    remedy="Correct the sizes or bounds; the bound of a dimension of known size is `?`.",
    stablehlo="""
        func.func @main(%x: tensor<?x2xf32, #stablehlo.bounds<4>>) {
          return
        }
    """,
)
CONSTANT_SIZES = ErrorCode(
    "E3516",
    "A constant has static sizes, at most 64 dimensions, and fewer than 2**63 bytes.",
    remedy="Write the sizes of the constant, or compute it by broadcasts.",
    stablehlo="""
        func.func @main() -> tensor<?xi32> {
          %0 = stablehlo.constant dense<1> : tensor<?xi32>
          return %0 : tensor<?xi32>
        }
    """,
)
LISTED_ELEMENTS = ErrorCode(
    "E3517",
    "An attribute that lists numbers has a limited number of equal elements.",
    remedy="Give the attribute as many elements as the operation has dimensions or operands.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = "stablehlo.reverse"(%x) <{dimensions = dense<0> : tensor<99999999xi64>}>
            : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }
    """,
)
RESOURCE_BYTES = ErrorCode(
    "E3518",
    "A resource is a string of hexadecimal digits: four bytes with its alignment, then whole bytes.",
    remedy="Write the resource as MLIR prints it, or use `dense<...>`.",
    stablehlo="""
        func.func @main() -> tensor<1xi8> {
          %0 = stablehlo.constant dense_resource<r> : tensor<1xi8>
          return %0 : tensor<1xi8>
        }
        {-# dialect_resources: { builtin: { r: "0x01" } } #-}
    """,
)
PRINTABLE = ErrorCode(
    "E3530",
    "Types and attributes of a program that is printed have a spelling in MLIR.",
    remedy="Replace the type or attribute that the message names.",
    python="""
        from xlapy.stablehlo.text.print_attributes import attribute_text
        attribute_text(len)
    """,
)
SOURCE_FORMAT = ErrorCode(
    "E3531",
    "A StableHLO program is MLIR text in UTF-8, or MLIR bytecode.",
    remedy="Pass the whole file; decompress it first if it is compressed.",
    python=r"xla.parse_stablehlo(b'\xff\xfe')",
)

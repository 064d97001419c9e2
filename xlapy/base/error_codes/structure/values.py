"""Shapes, element types, layouts and literals.

Codes E1050 to E1099: what a value is, before an operation takes it.
"""

from xlapy.base.error_codes.code import ErrorCode

# -- element types

ELEMENT_TYPE = ErrorCode(
    "E1050",
    "Every element type, and every dtype of NumPy, is one of the element types of XLA.",
    remedy="Use one of the types that `xla.PrimitiveType` has; convert text, dates and objects to numbers first.",
    python="xla.Shape.of(np.array(['a', 'b']))",
)
FLOAT_FORMAT = ErrorCode(
    "E1051",
    "Only a floating-point type has a floating-point format.",
    remedy="Check `is_floating` first; the parts of a complex type have `component_type`.",
    python="xla.PrimitiveType.S32.float_format",
)
ARRAY_ELEMENT_TYPE = ErrorCode(
    "E1052",
    "The elements of an array are numbers or booleans, not tuples, tokens or opaque objects.",
    remedy="Use `Shape.tuple`, `Shape.token` or `Shape.opaque` for the others.",
    python="xla.Shape.array(xla.PrimitiveType.TOKEN, [2])",
)

# -- shapes

ARRAY_RANK = ErrorCode(
    "E1053",
    "An array has at most 256 dimensions, and a literal, which NumPy holds, at most 64.",
    remedy="Combine dimensions with reshape.",
    python="xla.Shape.array(xla.PrimitiveType.F32, [1] * 257)",
)
DIMENSION_SIZE = ErrorCode(
    "E1054",
    "A dimension size is an integer from 0 to 2**63 - 1.",
    remedy="Give the number of elements along the dimension; `<=8` and `?` in text are sizes that vary.",
    python="xla.Shape.array(xla.PrimitiveType.F32, [2, -3])",
)
ARRAY_BYTES = ErrorCode(
    "E1055",
    "The bytes of an array, dimensions of size 0 counted as 1, are fewer than 2**63.",
    remedy="Use smaller dimensions, or several arrays.",
    python="xla.Shape.parse('f32[2147483648,2147483648]')",
)
DYNAMIC_FLAGS = ErrorCode(
    "E1056",
    "A shape has one dynamic flag per dimension.",
    remedy="Pass as many booleans as sizes, or none if all sizes are static.",
    python="xla.Shape.array(xla.PrimitiveType.F32, [2, 3], [True])",
)
LAYOUT_RANK = ErrorCode(
    "E1057",
    "A layout orders as many dimensions as its shape has.",
    remedy="Give each dimension once, the fastest-varying one first: `f32[2,3]{1,0}` is row-major.",
    python="xla.Shape.parse('f32[2,3]{0}')",
)
LAYOUT_ORDER = ErrorCode(
    "E1058",
    "A layout names each dimension once.",
    remedy="List the numbers from 0 to the rank less 1, the fastest-varying dimension first.",
    python="xla.Layout([0, 0])",
)
LAYOUT_NUMBER = ErrorCode(
    "E1059",
    "Tile sizes, element sizes and prefixes of a layout are at least 0, and alignments at least 1.",
    remedy="Correct the number that the message names, or leave the annotation out.",
    python="xla.Layout([1, 0], tiles=[[-8]])",
)
LAYOUT_INDEX_TYPE = ErrorCode(
    "E1060",
    "The index type and the pointer type of a layout are integer types.",
    remedy="Write a type such as `u32`: `f32[8]{0:#(u32)}`.",
    python="xla.Layout.parse('{0:#(f32)}')",
)
DENSE_LAYOUT = ErrorCode(
    "E1061",
    "Arrays are dense: a layout in text has no physical shape.",
    remedy="Remove `P(...)` from the layout. Sparse arrays are tuples of dense ones.",
    python="xla.Layout.parse('{0:P(f32[2])}')",
)
SHAPE_DEPTH = ErrorCode(
    "E1063",
    "Tuples and buffers in a shape nest at most 64 levels deep.",
    remedy="Put the elements of inner tuples into outer ones.",
    python="xla.Shape.parse('(' * 65 + 'f32[]' + ')' * 65)",
)
TUPLE_NODES = ErrorCode(
    "E1064",
    "A tuple contains at most 65536 tuples and leaves, those in inner tuples included.",
    remedy="Concatenate arrays, or split the tuple.",
    python="xla.Shape.tuple([xla.Shape.scalar(xla.PrimitiveType.F32)] * 65537)",
)
TUPLE_INDEX = ErrorCode(
    "E1065",
    "A tuple index names an element that the shape has.",
    remedy="Count elements from 0; the index of an array, token or buffer is empty.",
    python="xla.Shape.parse('(f32[2], s32[])').subshape([2])",
)
ARRAY_SHAPE = ErrorCode(
    "E1066",
    "Only arrays have dimensions, a layout, a dtype and a number of elements.",
    remedy="Take an element of the tuple or the array of the buffer; `is_array` tells shapes of arrays from others.",
    python="xla.Shape.parse('(f32[2], s32[])').dtype",
)
BUFFER_SHAPE = ErrorCode(
    "E1067",
    "A buffer holds exactly one array.",
    remedy="Make one buffer for each array, and put the buffers into a tuple.",
    python="xla.Shape.buffer(xla.Shape.token())",
)
BOUNDED_DIMENSIONS = ErrorCode(
    "E1068",
    "Every dimension of a program that is run, or whose elements are counted, has a size or a bound.",
    remedy="Write `f32[<=8]` or `f32[8]` in place of `f32[?]`.",
    hlo="""
        HloModule m
        ENTRY main {
          x = f32[?] parameter(0)
          ROOT y = f32[?] negate(x)
        }
    """,
)
PARAMETER_NAMES = ErrorCode(
    "E1069",
    "A program shape has as many parameter names as parameters, or none.",
    remedy="Pass one name for each parameter; an unknown name is the empty string.",
    python="xla.ProgramShape([xla.Shape.parse('f32[]')], xla.Shape.parse('f32[]'), ['x', 'y'])",
)

# -- literals

LITERAL_SHAPE = ErrorCode(
    "E1075",
    "The elements of a literal have the dtype and the number that its shape gives.",
    remedy="Convert or reshape the array, or pass its own shape.",
    python="xla.Literal.array_of(np.zeros(3, np.float32), xla.Shape.parse('f32[2]'))",
)
LITERAL_KIND = ErrorCode(
    "E1076",
    "A literal is an array, a tuple of literals, or a token.",
    remedy="Opaque objects have no literal; pass them as parameters.",
    python="from xlapy.base.literal_parser import parse_literal\nparse_literal('1', xla.Shape.opaque())",
)
ARRAY_VALUE = ErrorCode(
    "E1077",
    "A value that becomes an array consists of numbers, in lists of equal lengths.",
    remedy="Pad lists to one length, and convert text and objects to numbers.",
    python="xla.Literal.of([[1.0, 2.0], [3.0]])",
)
VALUE_RANGE = ErrorCode(
    "E1078",
    "A value is in the range of its element type, and only complex types hold complex numbers.",
    remedy="Choose a wider element type, or change the value; nothing wraps around or overflows silently.",
    python="xla.Literal.of([100, 200, 300], xla.PrimitiveType.U8)",
)
NAN_PAYLOAD = ErrorCode(
    "E1079",
    "The payload of a NaN has as many bits as the element type stores.",
    remedy="Use a payload within the limits that the message gives, or write `nan`.",
    python="""
        from xlapy.base.literal_parser import parse_literal
        parse_literal("nan(0x1234567)", xla.Shape.parse("f32[]"))
    """,
)
LITERAL_BRACES = ErrorCode(
    "E1080",
    "An array of rank n is written in n levels of braces, which open and close in pairs.",
    remedy="Put each row in braces: `{ {1, 2}, {3, 4} }` for rank 2. `{...}` stands for all elements of an array.",
    python="from xlapy.base.literal_parser import parse_literal\nparse_literal('{1, 2}', xla.Shape.parse('s32[1,2]'))",
)
LITERAL_SIZE = ErrorCode(
    "E1081",
    "A literal has as many elements along each dimension as its shape.",
    remedy="Add or remove elements, or correct the shape.",
    python="from xlapy.base.literal_parser import parse_literal\nparse_literal('{1, 2, 3}', xla.Shape.parse('s32[2]'))",
)
LITERAL_ELEMENT = ErrorCode(
    "E1082",
    "An element of a literal is written as its type requires: true, an integer, a number, or (real, imaginary).",
    remedy="Write the element in the form of its type; `nan`, `inf` and `1e-3` are numbers of floating-point types.",
    python="from xlapy.base.literal_parser import parse_literal\nparse_literal('{1.5}', xla.Shape.parse('s32[1]'))",
)
LITERAL_MEMORY = ErrorCode(
    "E1083",
    "The elements of a literal fit in memory.",
    remedy="Use `broadcast` or `iota` for large arrays of simple content.",
    python="""
        from xlapy.base.literal_parser import parse_literal
        parse_literal("1", xla.Shape.parse("s8[4611686018427387904]"))
    """,
)

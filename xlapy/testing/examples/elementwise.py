"""Worked examples and refusals of elementwise operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.error_codes.operations import elementwise as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import NO_MLIR, Example, Refusal
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB

_COMPOSITE = "XLA:CPU does not compile this opcode"

_UNARY: dict[str, tuple[str, str, str]] = {
    "abs": ("f32[4] {-2, -0, 3.5, nan}", "f32[4]", "{2, 0, 3.5, nan}"),
    "acos": ("f32[3] {1, 0, -1}", "f32[3]", "{0, 1.57079637, 3.14159274}"),
    "acosh": ("f32[3] {1, 2, 0.5}", "f32[3]", "{0, 1.31695795, nan}"),
    "asin": ("f32[3] {1, 0, -1}", "f32[3]", "{1.57079637, 0, -1.57079637}"),
    "asinh": ("f32[3] {0, 1, -1}", "f32[3]", "{0, 0.881373584, -0.881373584}"),
    "atan": ("f32[3] {0, 1, inf}", "f32[3]", "{0, 0.785398185, 1.57079637}"),
    "atanh": ("f32[3] {0, 0.5, 1}", "f32[3]", "{0, 0.549306154, inf}"),
    "cbrt": ("f32[3] {27, -8, 0}", "f32[3]", "{3, -2, 0}"),
    "ceil": ("f32[4] {1.2, -1.2, 2, -0.5}", "f32[4]", "{2, -1, 2, -0}"),
    "cosine": ("f32[2] {0, 3.1415927}", "f32[2]", "{1, -1}"),
    "cosh": ("f32[2] {0, 1}", "f32[2]", "{1, 1.54308069}"),
    "count-leading-zeros": ("s8[4] {1, 0, -1, 64}", "s8[4]", "{7, 8, 0, 1}"),
    "erf": ("f32[3] {0, 0.5, -inf}", "f32[3]", "{0, 0.520499885, -1}"),
    "exponential": ("f32[3] {0, 1, -inf}", "f32[3]", "{1, 2.71828175, 0}"),
    "exponential-minus-one": ("f32[2] {1e-10, 1}", "f32[2]", "{1e-10, 1.71828187}"),
    "floor": ("f32[4] {1.8, -1.2, 2, -0.5}", "f32[4]", "{1, -2, 2, -1}"),
    "imag": ("c64[2] {(1, 2), (3, -4)}", "f32[2]", "{2, -4}"),
    "is-finite": ("f32[4] {1, inf, -inf, nan}", "pred[4]", "{true, false, false, false}"),
    "log": ("f32[4] {1, 0, -1, 10}", "f32[4]", "{0, -inf, nan, 2.30258512}"),
    "log-plus-one": ("f32[2] {1e-10, 1}", "f32[2]", "{1e-10, 0.693147182}"),
    "logistic": ("f32[3] {0, -inf, 1}", "f32[3]", "{0.5, 0, 0.731058598}"),
    "negate": ("s8[3] {1, 0, -128}", "s8[3]", "{-1, 0, -128}"),
    "not": ("u8[3] {0, 1, 240}", "u8[3]", "{255, 254, 15}"),
    "popcnt": ("s8[3] {7, 0, -1}", "s8[3]", "{3, 0, 8}"),
    "real": ("c64[2] {(1, 2), (3, -4)}", "f32[2]", "{1, 3}"),
    "round-nearest-afz": ("f32[5] {0.5, 1.5, 2.5, -2.5, 2.4}", "f32[5]", "{1, 2, 3, -3, 2}"),
    "round-nearest-even": ("f32[5] {0.5, 1.5, 2.5, -2.5, 2.4}", "f32[5]", "{0, 2, 2, -2, 2}"),
    "rsqrt": ("f32[3] {4, 0, -1}", "f32[3]", "{0.5, inf, nan}"),
    "sign": ("f32[4] {-3, -0, 5, nan}", "f32[4]", "{-1, -0, 1, nan}"),
    "sine": ("f32[2] {0, 1.5707964}", "f32[2]", "{0, 1}"),
    "sinh": ("f32[2] {0, 1}", "f32[2]", "{0, 1.17520118}"),
    "sqrt": ("f32[3] {4, 2, -1}", "f32[3]", "{2, 1.41421354, nan}"),
    "tan": ("f32[2] {0, 0.78539819}", "f32[2]", "{0, 1}"),
    "tanh": ("f32[3] {0, 1, inf}", "f32[3]", "{0, 0.761594176, 1}"),
}
"""For each op: its argument, the shape of its result, and its result."""

_BINARY: dict[str, tuple[str, str, str]] = {
    "add": ("u8[3] {1, 2, 255}", "u8[3] {10, 20, 1}", "{11, 22, 0}"),
    "and": ("u8[3] {12, 255, 1}", "u8[3] {10, 15, 2}", "{8, 15, 0}"),
    "atan2": ("f32[4] {1, 1, -1, 0}", "f32[4] {1, -1, -1, -1}", "{0.785398185, 2.3561945, -2.3561945, 3.14159274}"),
    "divide": ("s32[5] {7, -7, 7, 5, -2147483648}", "s32[5] {2, 2, -2, 0, -1}", "{3, -3, -3, -1, -2147483648}"),
    "maximum": ("f32[3] {1, nan, -0}", "f32[3] {2, 1, 0}", "{2, nan, 0}"),
    "minimum": ("f32[3] {1, nan, -0}", "f32[3] {2, 1, 0}", "{1, nan, -0}"),
    "mulhi": ("u8[3] {16, 255, 15}", "u8[3] {16, 255, 15}", "{1, 254, 0}"),
    "multiply": ("s8[3] {3, 64, -128}", "s8[3] {4, 2, -1}", "{12, -128, -128}"),
    "or": ("u8[3] {12, 240, 1}", "u8[3] {10, 15, 2}", "{14, 255, 3}"),
    "power": ("s32[4] {2, 0, 2, -2}", "s32[4] {10, 0, -1, 3}", "{1024, 1, 0, -8}"),
    "remainder": ("s32[5] {5, -5, 5, 5, -2147483648}", "s32[5] {3, 3, -3, 0, -1}", "{2, -2, 2, 5, 0}"),
    "shift-left": ("u8[3] {1, 129, 1}", "u8[3] {3, 1, 8}", "{8, 2, 0}"),
    "shift-right-arithmetic": ("s8[4] {-128, -128, 64, 64}", "s8[4] {3, 100, 3, 100}", "{-16, -1, 8, 0}"),
    "shift-right-logical": ("s8[4] {-128, -128, 64, 64}", "s8[4] {3, 100, 3, 100}", "{16, 0, 8, 0}"),
    "subtract": ("u8[3] {5, 0, 7}", "u8[3] {3, 1, 7}", "{2, 255, 0}"),
    "xor": ("u8[3] {12, 240, 1}", "u8[3] {10, 15, 1}", "{6, 255, 0}"),
}
"""For each op: its arguments, and its result, whose shape is that of the arguments."""

_NOT_ON_CPU = dict.fromkeys(["acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"], _COMPOSITE) | {
    "atan": NEWER_THAN_JAXLIB,
    "mulhi": NO_MLIR,
}


def _unary(op: str, argument: str, shape: str, result: str) -> Example:
    text = f"x = {argument}\ny = {shape} {op}(x)\n=> {shape} {result}"
    return Example(op, text, xla_cpu=_NOT_ON_CPU.get(op, ""))


def _binary(op: str, lhs: str, rhs: str, result: str) -> Example:
    shape = lhs.split()[0]
    text = f"x = {lhs}\ny = {rhs}\nz = {shape} {op}(x, y)\n=> {shape} {result}"
    return Example(op, text, xla_cpu=_NOT_ON_CPU.get(op, ""))


EXAMPLES = [
    *(_unary(op, *given) for op, given in _UNARY.items()),
    *(_binary(op, *given) for op, given in _BINARY.items()),
    Example(
        "complex",
        """
        x = f32[2] {1, 3}
        y = f32[2] {2, -4}
        z = c64[2] complex(x, y)
        => c64[2] {(1, 2), (3, -4)}
        """,
    ),
    Example(
        "compare",
        """
        x = f32[4] {-0, 1, nan, 2}
        y = f32[4] {0, 1, nan, 1}
        partial = pred[4] compare(x, y), direction=LT
        total = pred[4] compare(x, y), direction=LT, type=TOTALORDER
        both = (pred[4], pred[4]) tuple(partial, total)
        => pred[4] {false, false, false, false}
        => pred[4] {true, false, false, false}
        """,
    ),
    Example(
        "clamp",
        """
        low = s32[] 0
        x = s32[3] {-1, 5, 9}
        high = s32[] 6
        y = s32[3] clamp(low, x, high)
        => s32[3] {0, 5, 6}
        """,
    ),
    Example(
        "select",
        """
        p = pred[4] {true, false, false, true}
        x = s32[4] {1, 2, 3, 4}
        y = s32[4] {100, 200, 300, 400}
        z = s32[4] select(p, x, y)
        => s32[4] {1, 200, 300, 4}
        """,
    ),
    Example(
        "convert",
        """
        x = f32[5] {0, 1.9, -1.9, 300, nan}
        y = s8[5] convert(x)
        => s8[5] {0, 1, -1, 127, 0}
        """,
    ),
    Example(
        "bitcast-convert",
        """
        x = f32[2] {1, -2}
        bits = u32[2] bitcast-convert(x)
        bytes = u8[2,4] bitcast-convert(x)
        both = (u32[2], u8[2,4]) tuple(bits, bytes)
        => u32[2] {1065353216, 3221225472}
        => u8[2,4] {{0, 0, 128, 63}, {0, 0, 0, 192}}
        """,
    ),
    Example(
        "reduce-precision",
        """
        x = f32[4] {1.0001, 3.14159, 70000, 1e-8}
        y = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10
        => f32[4] {1, 3.140625, inf, 0}
        """,
    ),
]

_OTHER_TYPES = {
    "Its elements are floating-point.": "s32[2]",
    "Its elements are floating-point or complex.": "s32[2]",
    "Its elements are signed, floating-point or complex.": "u8[2]",
    "Its elements are integer, floating-point or complex.": "pred[2]",
    "Its elements are integer or pred.": "f32[2]",
    "Its elements are integer.": "pred[2]",
    "Their elements are floating-point or complex.": "s32[2]",
    "Their elements are integer, floating-point or complex.": "pred[2]",
    "Their elements are integer or floating-point.": "c64[2]",
    "Their elements are integer or pred.": "f32[2]",
    "Their elements are integer.": "pred[2]",
    "Their elements are pred, integer or floating-point.": "c64[2]",
}
"""For each constraint on the element type: a shape that violates it."""


def _refusals_of_unary(op: str) -> list[Refusal]:
    shape = _OTHER_TYPES[opcodes.lookup(op).constraints[1].text]
    return [
        Refusal(op, 1, f"f32[2] {op}((f32[2]))", (shared.ARRAY_OPERAND, op, "(f32[2])")),
        Refusal(op, 2, f"{shape} {op}({shape})", (shared.ELEMENT_TYPE, op, shape)),
    ]


def _refusals_of_binary(op: str) -> list[Refusal]:
    constraints = opcodes.lookup(op).constraints
    illegal = [_OTHER_TYPES[each.text] for each in constraints[1:]]
    return [
        Refusal(op, 1, f"s32[2] {op}(token[], s32[2])", (shared.ARRAY_OPERAND, op, "lhs", "token[]")),
        Refusal(op, 1, f"s32[2] {op}(s32[2], s8[2])", (shared.SAME_ELEMENT_TYPE, op, "s32[2]", "s8[2]")),
        Refusal(op, 1, f"s32[2] {op}(s32[2], s32[3])", (shared.SAME_DIMENSIONS, op, "s32[2]", "s32[3]")),
        *(Refusal(op, 2, f"{shape} {op}({shape}, {shape})", (shared.ELEMENT_TYPE, op, shape)) for shape in illegal),
    ]


REFUSALS = [
    *(refusal for op in _UNARY for refusal in _refusals_of_unary(op)),
    *(refusal for op in _BINARY for refusal in _refusals_of_binary(op)),
    Refusal("complex", 1, "c64[2] complex(f32[2], f32[3])", (shared.SAME_DIMENSIONS, "f32[2]", "f32[3]")),
    Refusal("complex", 2, "c64[2] complex(f16[2], f16[2])", (shared.ELEMENT_TYPE, "f32", "f64", "f16[2]")),
    Refusal(
        "compare", 1, "pred[2] compare(f32[2], f64[2]), direction=LT", (shared.SAME_ELEMENT_TYPE, "f32[2]", "f64[2]")
    ),
    Refusal("compare", 2, "pred[2] compare(c64[2], c64[2]), direction=LT", (codes.COMPLEX_ORDER, "EQ", "NE", "LT")),
    Refusal(
        "compare",
        3,
        "pred[2] compare(s32[2], s32[2]), direction=LT, type=TOTALORDER",
        (codes.COMPARISON_TYPE, "s32[2]", "SIGNED", "TOTALORDER"),
    ),
    Refusal(
        "clamp",
        1,
        "f32[2] clamp(s32[], f32[2], f32[])",
        (shared.SAME_ELEMENT_TYPE, "s32[]", "f32[2]"),
    ),
    Refusal("clamp", 1, "f32[2] clamp(f32[], f32[2], token[])", (shared.ARRAY_OPERAND, "token[]")),
    Refusal("clamp", 2, "f32[2] clamp(f32[], f32[2], f32[3])", (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2]")),
    Refusal("clamp", 3, "c64[2] clamp(c64[], c64[2], c64[])", (shared.ELEMENT_TYPE, "c64[2]")),
    Refusal("select", 1, "f32[2] select(s32[2], f32[2], f32[2])", (shared.ELEMENT_TYPE, "s32[2]")),
    Refusal("select", 1, "f32[2] select(pred[2], (f32[2]), f32[2])", (shared.ARRAY_OPERAND, "lhs", "(f32[2])")),
    Refusal("select", 2, "f32[2] select(pred[2], f32[2], f32[3])", (shared.SAME_DIMENSIONS, "f32[2]", "f32[3]")),
    Refusal(
        "select", 3, "f32[2] select(pred[3], f32[2], f32[2])", (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2]", "pred[3]")
    ),
    Refusal("convert", 1, "s32[3] convert(f32[2])", (shared.RESULT_SHAPE, "f32[2]", "s32[3]")),
    Refusal("convert", 1, "s32[2] convert(token[])", (shared.ARRAY_OPERAND, "token[]")),
    Refusal("bitcast-convert", 1, "token[] bitcast-convert(f32[2])", (shared.ARRAY_RESULT, "token[]")),
    Refusal("bitcast-convert", 1, "f32[2] bitcast-convert(token[])", (shared.ARRAY_OPERAND, "token[]")),
    Refusal(
        "bitcast-convert", 2, "c64[2] bitcast-convert(f64[2])", (codes.BITCAST_CONVERT_COMPLEX, "f64[2]", "c64[2]")
    ),
    Refusal(
        "bitcast-convert",
        3,
        "f6e2m3fn[2] bitcast-convert(f32[2])",
        (codes.BITCAST_CONVERT_WIDTHS, "32"),
    ),
    Refusal(
        "bitcast-convert",
        4,
        "f32[2] bitcast-convert(f16[2,3])",
        (codes.BITCAST_CONVERT_LAST_DIMENSION, "f16[2,3]", "f32", "32"),
    ),
    Refusal("bitcast-convert", 5, "f16[2] bitcast-convert(f32[2])", (shared.RESULT_SHAPE, "f16[2,2]", "f16[2]")),
    Refusal(
        "reduce-precision",
        1,
        "s32[2] reduce-precision(s32[2]), exponent_bits=5, mantissa_bits=10",
        (shared.ELEMENT_TYPE, "s32[2]"),
    ),
    Refusal(
        "reduce-precision",
        2,
        "f32[2] reduce-precision(f32[2]), exponent_bits=0, mantissa_bits=10",
        (codes.PRECISION_BITS, "exponent_bits"),
    ),
    Refusal(
        "reduce-precision",
        3,
        "f32[2] reduce-precision(f32[2]), exponent_bits=5, mantissa_bits=-1",
        (codes.PRECISION_BITS, "mantissa_bits"),
    ),
]

"""Samples of elementwise operations: each with every element type that it accepts, and every form of its attributes.

Element types that XLA:CPU does not run (s1, u1 and the 6-bit floats) have separate modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB, RARE_TYPES, Sample

_RARE_INTEGERS = tuple(t.text for t in ARRAY_TYPES if t.text in RARE_TYPES and t.is_integral)
_RARE_FLOATS = tuple(t.text for t in ARRAY_TYPES if t.text in RARE_TYPES and t.is_floating)


def _types(belongs: Callable[[PrimitiveType], bool]) -> tuple[str, ...]:
    """Returns the spellings of the element types of one kind that XLA:CPU runs; narrower types come first."""
    found = [t for t in ARRAY_TYPES if belongs(t) and t.text not in RARE_TYPES]
    return tuple([t.text for t in sorted(found, key=_width_and_name)])


def _width_and_name(t: PrimitiveType) -> tuple[int, int, str]:
    return t.bits, t.float_format.exponent_bits if t.is_floating else 0, t.text


_PRED = ("pred",)
_SIGNED = _types(lambda t: t.is_signed)
_UNSIGNED = _types(lambda t: t.is_unsigned)
_INTEGERS = _SIGNED + _UNSIGNED
_FLOATS = _types(lambda t: t.is_floating)
_COMPLEX = _types(lambda t: t.is_complex)
_REAL = _INTEGERS + _FLOATS
_EVERY = _PRED + _REAL + _COMPLEX

_UNARY: dict[tuple[str, ...], str] = {
    _SIGNED + _FLOATS + _COMPLEX: "abs sign",
    _FLOATS + _COMPLEX: """
        acos acosh asin asinh atanh cosh cosine exponential exponential-minus-one imag log log-plus-one logistic real
        rsqrt sine sinh sqrt tan tanh""",
    _FLOATS: "cbrt ceil erf floor is-finite round-nearest-afz round-nearest-even",
    _INTEGERS: "count-leading-zeros popcnt",
    _REAL + _COMPLEX: "negate",
    _PRED + _INTEGERS: "not",
}
_BINARY: dict[tuple[str, ...], str] = {
    _EVERY: "add multiply",
    _PRED + _REAL: "maximum minimum",
    _PRED + _INTEGERS: "and or xor",
    _REAL + _COMPLEX: "subtract divide power",
    _REAL: "remainder",
    _FLOATS + _COMPLEX: "atan2",
    _INTEGERS: "mulhi shift-left shift-right-arithmetic shift-right-logical",
}


def _module(name: str, lines: Sequence[str], note: str = "") -> Sample:
    body = "\n".join(f"  {line}" for line in lines)
    return Sample(f"elementwise_{name}", f"HloModule elementwise_{name}\n\nENTRY main {{\n{body}\n}}\n", note)


def _tuple_of(shapes: Sequence[str]) -> str:
    """Returns the root of a module with the results r0, r1 ..."""
    names = ", ".join(f"r{number}" for number in range(len(shapes)))
    return f"ROOT results = ({', '.join(shapes)}) tuple({names})"


def _result_type(op: str, operand: str) -> str:
    if op == "is-finite":
        return "pred"
    if op in ("abs", "real", "imag"):
        return {"c64": "f32", "c128": "f64"}.get(operand, operand)
    return operand


def _of_types(op: str, types: Sequence[str], arity: int, note: str = "") -> Sample:
    """Returns a module with one operation on a vector of each type."""
    lines: list[str] = []
    for number, t in enumerate(types):
        operands = [f"p{number}_{k}" for k in range(arity)]
        lines += [f"{name} = {t}[7] parameter({number * arity + k})" for k, name in enumerate(operands)]
        lines.append(f"r{number} = {_result_type(op, t)}[7] {op}({', '.join(operands)})")
    lines.append(_tuple_of([f"{_result_type(op, t)}[7]" for t in types]))
    return _module(op.replace("-", "_"), lines, note)


def _of_table(table: dict[tuple[str, ...], str], arity: int) -> Iterator[Sample]:
    for types, names in table.items():
        for op in names.split():
            yield _of_types(op, types, arity)


def _rare(t: str, ops: Sequence[tuple[str, int]]) -> Sample:
    """Returns a module with operations on a type that XLA:CPU does not run."""
    lines = [f"p = {t}[5] parameter(0)", f"q = {t}[5] parameter(1)"]
    results: list[str] = []
    for op, arity in ops:
        shape = f"{_result_type(op, t)}[5]"
        lines.append(f"r{len(results)} = {shape} {op}({', '.join(('p', 'q')[:arity])})")
        results.append(shape)
    note = NEWER_THAN_JAXLIB if RARE_TYPES[t] == NEWER_THAN_JAXLIB else ""
    return _module(f"rare_{t}", [*lines, _tuple_of(results)], note)


_RARE_INTEGER_OPS = [
    ("add", 2),
    ("subtract", 2),
    ("multiply", 2),
    ("divide", 2),
    ("remainder", 2),
    ("power", 2),
    ("maximum", 2),
    ("and", 2),
    ("shift-right-arithmetic", 2),
    ("mulhi", 2),
    ("not", 1),
    ("negate", 1),
    ("popcnt", 1),
    ("count-leading-zeros", 1),
]
_RARE_FLOAT_OPS = [
    ("add", 2),
    ("multiply", 2),
    ("divide", 2),
    ("power", 2),
    ("minimum", 2),
    ("atan2", 2),
    ("abs", 1),
    ("sqrt", 1),
    ("exponential", 1),
    ("floor", 1),
    ("is-finite", 1),
    ("sign", 1),
]


def _shapes_of_operands() -> Sample:
    """Returns modules with several ranks, a size of 0, and layouts that are not row-major."""
    return _module(
        "shapes",
        [
            "s = f32[] parameter(0)",
            "z = f32[0,3] parameter(1)",
            "m = f32[2,3,4]{0,2,1} parameter(2)",
            "r0 = f32[] add(s, s)",
            "r1 = f32[0,3] multiply(z, z)",
            "r2 = f32[2,3,4]{0,2,1} tanh(m)",
            _tuple_of(["f32[]", "f32[0,3]", "f32[2,3,4]{0,2,1}"]),
        ],
    )


def _complex() -> Sample:
    return _module(
        "complex",
        [
            "a = f32[5] parameter(0)",
            "b = f64[5] parameter(1)",
            "r0 = c64[5] complex(a, a)",
            "r1 = c128[5] complex(b, b)",
            _tuple_of(["c64[5]", "c128[5]"]),
        ],
    )


def _comparison_orders(t: str) -> list[str]:
    """Returns the `type=` attributes that a comparison may have, with the default written and omitted."""
    if t in _FLOATS:
        return ["", ", type=TOTALORDER", ", type=FLOAT"]
    if t in _COMPLEX:
        return ["", ", type=FLOAT"]
    return ["", ", type=SIGNED" if t.startswith("s") else ", type=UNSIGNED"]


def _compare(t: str) -> Sample:
    """Returns a module with every direction in every order."""
    lines = [f"p = {t}[9] parameter(0)", f"q = {t}[9] parameter(1)"]
    directions = ("EQ", "NE") if t in _COMPLEX else ("EQ", "NE", "GE", "GT", "LE", "LT")
    forms = [f", direction={direction}{order}" for direction in directions for order in _comparison_orders(t)]
    lines += [f"r{number} = pred[9] compare(p, q){form}" for number, form in enumerate(forms)]
    return _module(f"compare_{t}", [*lines, _tuple_of(["pred[9]"] * len(forms))])


def _choices(t: str) -> Sample:
    """Returns a module with select and, if the type is ordered, clamp. Bounds and predicate are arrays and scalars."""
    lines = [
        f"p = {t}[2,3] parameter(0)",
        f"q = {t}[2,3] parameter(1)",
        f"s = {t}[] parameter(2)",
        "c = pred[2,3] parameter(3)",
        "d = pred[] parameter(4)",
        f"r0 = {t}[2,3] select(c, p, q)",
        f"r1 = {t}[2,3] select(d, p, q)",
        f"r2 = {t}[] select(d, s, s)",
    ]
    results = [f"{t}[2,3]", f"{t}[2,3]", f"{t}[]"]
    if t not in _COMPLEX + _PRED:
        lines += [f"r3 = {t}[2,3] clamp(p, q, p)", f"r4 = {t}[2,3] clamp(s, p, s)", f"r5 = {t}[2,3] clamp(s, p, q)"]
        results += [f"{t}[2,3]"] * 3
    return _module(f"choices_{t}", [*lines, _tuple_of(results)])


def _convert(source: str) -> Sample:
    """Returns a module that converts one type to every other, except complex to pred, which crashes XLA:CPU."""
    targets = _REAL + _COMPLEX if source in _COMPLEX else _EVERY
    lines = [f"p = {source}[6] parameter(0)"]
    lines += [f"r{number} = {target}[6] convert(p)" for number, target in enumerate(targets)]
    return _module(f"convert_{source}", [*lines, _tuple_of([f"{target}[6]" for target in targets])])


_WIDTHS = {
    2: ("s2", "u2"),
    4: ("s4", "u4"),
    8: ("s8", "u8", "f8e5m2", "f8e4m3fn"),
    16: ("s16", "u16", "f16", "bf16"),
    32: ("s32", "u32", "f32"),
    64: ("s64", "u64", "f64"),
}


def _bitcast_convert(width: int) -> Sample:
    """Returns a module that converts the first type of a width to every type of equal, smaller and larger width."""
    source = _WIDTHS[width][-1]
    lines: list[str] = []
    results: list[str] = []
    for bits, types in _WIDTHS.items():
        for target in types:
            number = len(results)
            operand = f"{source}[3,{bits // width}]" if bits > width else f"{source}[3]"
            results.append(f"{target}[3,{width // bits}]" if bits < width else f"{target}[3]")
            lines.append(f"p{number} = {operand} parameter({number})")
            lines.append(f"r{number} = {results[-1]} bitcast-convert(p{number})")
    return _module(f"bitcast_convert_{source}", [*lines, _tuple_of(results)])


def _bitcast_convert_complex() -> Sample:
    return _module(
        "bitcast_convert_complex",
        [
            "p = c64[3,2] parameter(0)",
            "q = c128[3] parameter(1)",
            "r0 = c128[3] bitcast-convert(p)",
            "r1 = c64[3,2] bitcast-convert(q)",
            _tuple_of(["c128[3]", "c64[3,2]"]),
        ],
    )


def _reduce_precision(t: str) -> Sample:
    formats = ((5, 10), (8, 7), (4, 3), (2, 1), (8, 23), (11, 52))
    lines = [f"p = {t}[9] parameter(0)"]
    for number, (exponent, mantissa) in enumerate(formats):
        widths = f"exponent_bits={exponent}, mantissa_bits={mantissa}"
        lines.append(f"r{number} = {t}[9] reduce-precision(p), {widths}")
    return _module(f"reduce_precision_{t}", [*lines, _tuple_of([f"{t}[9]"] * len(formats))])


SAMPLES: list[Sample] = [
    *_of_table(_UNARY, 1),
    *_of_table(_BINARY, 2),
    _of_types("atan", _FLOATS + _COMPLEX, 1, NEWER_THAN_JAXLIB),
    *(_rare(t, _RARE_INTEGER_OPS) for t in _RARE_INTEGERS),
    *(_rare(t, _RARE_FLOAT_OPS) for t in _RARE_FLOATS),
    _shapes_of_operands(),
    _complex(),
    *map(_compare, _EVERY),
    *map(_choices, _EVERY),
    *map(_convert, _EVERY),
    *map(_bitcast_convert, _WIDTHS),
    _bitcast_convert_complex(),
    *map(_reduce_precision, _FLOATS),
]

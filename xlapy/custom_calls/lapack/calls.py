"""The custom calls to LAPACK: the targets, and the operands, results and attributes of each.

LAPACK's matrices are column-major: the bytes of an operand, in the layout of its constraint, are read as a column-major
matrix of the operand's last two dimensions, whatever that layout is; JAX declares layouts for which this is the logical
matrix. The dimensions before them are batch dimensions, equal for all operands and results.

Responsible for names of targets, signatures and attributes. Does not depend on what the routines compute.
Source: LAPACK Users' Guide; the targets that jax.lax.linalg lowers to on CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from xlapy.base.element_types import C64, C128, F32, F64, S32, PrimitiveType
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import InvalidArgumentError, ParseError, UnsupportedError, message_of
from xlapy.custom_calls.ffi.attributes import read_attributes
from xlapy.hlo.instruction import Instruction, describe_instruction

_PREFIXES = {"s": F32, "d": F64, "c": C64, "z": C128}

SIGNATURES: Mapping[str, str] = {
    "potrf": "a[n,n] -> a[n,n] i[]",
    "trsm": "a[s,s] a[m,n] -> a[m,n]",
    "getrf": "a[m,n] -> a[m,n] i[k] i[]",
    "geqrf": "a[m,n] -> a[m,n] a[k]",
    "geqp3": "a[m,n] i[n] -> a[m,n] i[n] a[k]",
    "orgqr": "a[m,n] a[t] -> a[m,n]",
    "ormqr": "a[s,c] a[t] a[m,n] -> a[m,n]",
    "syevd": "a[n,n] -> a[n,n] r[n] i[]",
    "sytrd": "a[n,n] -> a[n,n] r[n] r[h] a[h] i[]",
    "geev": "a[n,n] -> a[n] a[n] c[n,n] c[n,n] i[]",
    "geev of complex": "a[n,n] -> a[n] a[n,n] a[n,n] i[]",
    "gees": "a[n,n] -> a[n,n] a[n,n] a[n] a[n] i[] i[]",
    "gees of complex": "a[n,n] -> a[n,n] a[n,n] a[n] i[] i[]",
    "gesdd": "a[m,n] -> a[m,n] r[k] a[m,u] a[v,n] i[]",
    "gesvd": "a[m,n] -> a[m,n] r[k] a[m,u] a[v,n] i[]",
    "gehrd": "a[n,n] -> a[n,n] a[h] i[]",
    "gtsv": "a[m] a[m] a[m] a[m,n] -> a[m] a[m] a[m] a[m,n] i[]",
}
"""Operands and results of each routine, without the batch dimensions.

a: the element type of the routine, r: the real type of its parts, c: the complex type with these parts, i: s32.
k is the smaller of m and n, h is n - 1; s is m or n, depending on the side from which an operand is applied; t, the
number of reflectors, is at most the number of rows and of columns; u and v are m and n, or k and k. The last i is
LAPACK's `info`.
"""

_LETTERS: Mapping[str, Mapping[str, str]] = {
    "potrf": {"uplo": "LU"},
    "trsm": {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"},
    "syevd": {"mode": "NV", "uplo": "LU"},
    "sytrd": {"uplo": "LU"},
    "geev": {"compute_left": "NV", "compute_right": "NV"},
    "gees": {"mode": "NV", "sort": "N"},
    "gesdd": {"mode": "ASN"},
    "gesvd": {"mode": "ASN"},
}
"""LAPACK's CHARACTER arguments, which are attributes of type ui8, and the letters that are allowed for each."""

_OTHERS: Mapping[str, tuple[str, ...]] = {"ormqr": ("left", "transpose"), "gehrd": ("low", "high")}

_COMPLEX_NAMES = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}
"""Routines with another name for complex matrices."""

FINITE_ONLY = ("geev", "gees", "gesvd")
"""Routines that are not called for matrices with infinities or NaN, because their iterations might not terminate."""

NOT_FINITE = -4
"""The `info` for such a matrix."""

_ARRAY = re.compile(r"([arci])\[([a-z,]*)\]")


@dataclass(frozen=True, slots=True)
class LapackCall:
    """A parsed custom call to LAPACK. `routine` is the routine's name for real matrices, without the type's prefix."""

    routine: str
    element_type: PrimitiveType
    letters: Mapping[str, str]
    """LAPACK's CHARACTER arguments, by attribute name."""
    numbers: Mapping[str, int]
    """The integer attributes."""
    batch: tuple[int, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """The size for each letter of the signature."""

    @property
    def symbol(self) -> str:
        """The name of LAPACK's function, with the type's prefix."""
        return _names(self.routine)[next(p for p, t in _PREFIXES.items() if t is self.element_type)]


def _names(routine: str) -> dict[str, str]:
    """Returns the names of the four functions of a routine, by prefix."""
    return {p: p + (_COMPLEX_NAMES.get(routine, routine) if t.is_complex else routine) for p, t in _PREFIXES.items()}


_TARGETS = {
    f"lapack_{name}_ffi": (routine, _PREFIXES[prefix])
    for routine in SIGNATURES
    if " " not in routine
    for prefix, name in _names(routine).items()
}


def lapack_targets() -> Sequence[str]:
    """Returns the names of all targets."""
    return tuple(_TARGETS)


def is_lapack_target(name: str) -> bool:
    return name in _TARGETS


def lapack_target_name(routine: str, element_type: PrimitiveType) -> str:
    """Returns the name of the target for matrices of an element type."""
    return next(name for name, found in _TARGETS.items() if found == (routine, element_type))


def signature_of(routine: str, element_type: PrimitiveType) -> str:
    return (element_type.is_complex and SIGNATURES.get(f"{routine} of complex")) or SIGNATURES[routine]


def lapack_call(instruction: Instruction) -> LapackCall:
    """Parses a custom-call instruction to one of the targets.

    Raises `UnsupportedError` if shapes or attributes mismatch.
    """
    routine, element_type = _TARGETS[instruction.custom_call_target]
    letters, numbers = _attributes(instruction, routine)
    signature = signature_of(routine, element_type)
    sizes = _matched(instruction, signature, element_type)
    if sizes is None:
        shapes = ", ".join(shape.to_text(layout=False) for shape in instruction.operand_shapes)
        _refuse(
            instruction,
            f"has the signature {signature} (a is {element_type.name.lower()}, a batch before it; k = min(m, n), "
            f"h = n - 1), given ({shapes}) and {instruction.shape.to_text(layout=False)}",
        )
    first = instruction.operand_shapes[-1 if routine == "gtsv" else 0]
    call = LapackCall(routine, element_type, letters, numbers, first.dimensions[:-2], sizes)
    if broken := _broken_rule(call):
        _refuse(instruction, f"{broken}; given {_named(sizes)} and {_named({**letters, **numbers})}")
    return call


def _refuse(instruction: Instruction, what: str) -> NoReturn:
    raise UnsupportedError(
        codes.LAPACK_CALL, f"{describe_instruction(instruction)}: target {instruction.custom_call_target!r} {what}"
    )


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items()) or "no attributes"


# -- attributes


def _attributes(instruction: Instruction, routine: str) -> tuple[dict[str, str], dict[str, int]]:
    try:
        given = read_attributes(instruction.backend_config or "{}")
    except ParseError as error:
        raise InvalidArgumentError(
            codes.CALL_ATTRIBUTES,
            f"{describe_instruction(instruction)}: its backend_config is not a dictionary: {message_of(error)}",
        ) from error
    letters = _LETTERS.get(routine, {})
    wanted = {*letters, *_OTHERS.get(routine, ())}
    if set(given) != wanted:
        expected = ", ".join(sorted(wanted)) or "no attributes"
        _refuse(instruction, f"takes {expected}, given {', '.join(given) or 'none'}")
    for name, allowed in letters.items():
        value = given[name]
        if not _is_number(value) or chr(int(value) & 0xFF) not in allowed:
            known = " or ".join(f"{ord(letter)} ({letter})" for letter in allowed)
            _refuse(instruction, f"takes as {name} {known}, given {value}")
    for name in _OTHERS.get(routine, ()):
        if not _is_number(given[name]):
            _refuse(instruction, f"takes a number as {name}, given {given[name]}")
    return {n: chr(int(given[n])) for n in letters}, {n: int(given[n]) for n in _OTHERS.get(routine, ())}


def _is_number(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0 and value.dtype.kind in "iub"


# -- shapes


def parse_signature(signature: str) -> tuple[list[tuple[str, tuple[str, ...]]], list[tuple[str, tuple[str, ...]]]]:
    """Returns the type letter and the dimensions of each operand and of each result of a signature."""
    operands, results = signature.split("->")
    return list(_arrays(operands)), list(_arrays(results))


def _arrays(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind, dimensions in _ARRAY.findall(text):
        yield kind, tuple(filter(None, dimensions.split(",")))


def _matched(instruction: Instruction, signature: str, element_type: PrimitiveType) -> dict[str, int] | None:
    """Returns the size for each letter of the signature's dimensions; None if the shapes do not match."""
    operands, results = parse_signature(signature)
    shape = instruction.shape
    given = list(shape.tuple_shapes) if shape.is_tuple else [shape]
    if (len(results) > 1) != shape.is_tuple or (len(operands), len(results)) != (len(instruction.operands), len(given)):
        return None
    part = element_type.component_type if element_type.is_complex else element_type
    types = {"a": element_type, "r": part, "c": part.complex_type or C128, "i": S32}
    sizes: dict[str, int] = {}
    batch: tuple[int, ...] | None = None
    for (kind, letters), found in zip((*operands, *results), (*instruction.operand_shapes, *given), strict=True):
        if not found.is_array or found.is_dynamic or found.element_type is not types[kind]:
            return None
        rank = found.rank - len(letters)
        if rank < 0 or (batch is not None and found.dimensions[:rank] != batch):
            return None
        batch = found.dimensions[:rank]
        for letter, size in zip(letters, found.dimensions[rank:], strict=True):
            if sizes.setdefault(letter, size) != size:
                return None
    return sizes


_BOUNDS: Mapping[str, Callable[[LapackCall], int]] = {
    "k": lambda call: min(call.sizes["m"], call.sizes["n"]),
    "h": lambda call: max(call.sizes["n"] - 1, 0),
    "s": lambda call: call.sizes["m" if _acts_from_left(call) else "n"],
}


def _acts_from_left(call: LapackCall) -> bool:
    return bool(call.numbers["left"]) if call.routine == "ormqr" else call.letters["side"] == "L"


def _broken_rule(call: LapackCall) -> str | None:
    """Returns the constraint on sizes and attributes that a call violates, or None."""
    sizes = call.sizes
    for letter, bound in _BOUNDS.items():
        if letter in sizes and sizes[letter] != bound(call):
            return f"takes {letter} = {bound(call)}"
    if max(sizes.values()) >= 2**31:
        return "takes sizes below 2^31"
    if call.routine == "orgqr" and not sizes["t"] <= sizes["n"] <= sizes["m"]:
        return "takes no more reflectors than columns, and no more columns than rows"
    if call.routine == "ormqr" and not sizes["t"] <= min(sizes["s"], sizes["c"]):
        return "takes no more reflectors than the matrix that holds them has rows and columns"
    if call.routine in ("gesdd", "gesvd"):
        return _broken_rule_of_vectors(call)
    if call.routine == "gehrd":
        low, high, size = call.numbers["low"], call.numbers["high"], sizes["n"]
        if not (1 <= low <= high <= size or (size, low, high) == (0, 1, 0)):
            return "takes 1 <= low <= high <= n"
    return None


def _broken_rule_of_vectors(call: LapackCall) -> str | None:
    sizes, mode = call.sizes, call.letters["mode"]
    full, short = (sizes["m"], sizes["n"]), (min(sizes["m"], sizes["n"]),) * 2
    allowed = {"A": [full], "S": [short], "N": [full, short]}[mode]
    if (sizes["u"], sizes["v"]) in allowed:
        return None
    return f"with mode {mode} gives {' or '.join(str(u) for u, _ in allowed)} left singular vectors"

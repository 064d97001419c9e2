"""The argument lists of LAPACK functions, in the order of each function.

Responsible for these lists and for the size of workspace. Does not depend on instructions, slices or machine code.
Source: LAPACK Users' Guide. The documentation of reference LAPACK gives the workspace of routines without size queries.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.cpu.lapack.openblas import function_address, symbol_of
from xlapy.cpu.program.thunks import LibraryScratch
from xlapy.custom_calls.lapack import LapackCall

_TABLE: Mapping[str, str] = {
    "potrf": "uplo n r0 ld(n) info",
    "trsm": "side uplo trans_x diag m n one o0 ld(s) r0 ld(m)",
    "getrf": "m n r0 ld(m) r1 info",
    "geqrf": "m n r0 ld(m) r1 work lwork info",
    "geqp3": "m n r0 ld(m) r1 r2 work lwork info",
    "geqp3 of complex": "m n r0 ld(m) r1 r2 work lwork rwork info",
    "orgqr": "m n t r0 ld(m) o1 work lwork info",
    "ormqr": "side trans m n t o0 ld(s) o1 r0 ld(m) work lwork info",
    "syevd": "mode uplo n r0 ld(n) r1 work lwork iwork liwork info",
    "syevd of complex": "mode uplo n r0 ld(n) r1 work lwork rwork lrwork iwork liwork info",
    "sytrd": "uplo n r0 ld(n) r1 r2 r3 work lwork info",
    "geev": "compute_left compute_right n c0 ld(n) r0 r1 c1 ld(n) c2 ld(n) work lwork info",
    "geev of complex": "compute_left compute_right n c0 ld(n) r0 r1 ld(n) r2 ld(n) work lwork rwork info",
    "gees": "mode sort null n r0 ld(n) r4 r2 r3 r1 ld(n) work lwork null info",
    "gees of complex": "mode sort null n r0 ld(n) r3 r2 r1 ld(n) work lwork rwork null info",
    "gesdd": "mode m n r0 ld(m) r1 r2 ld(m) r3 ld(v) work lwork iwork info",
    "gesdd of complex": "mode m n r0 ld(m) r1 r2 ld(m) r3 ld(v) work lwork rwork iwork info",
    "gesvd": "mode mode m n r0 ld(m) r1 r2 ld(m) r3 ld(v) work lwork info",
    "gesvd of complex": "mode mode m n r0 ld(m) r1 r2 ld(m) r3 ld(v) work lwork rwork info",
    "gehrd": "n low high r0 ld(n) r1 work lwork info",
    "gtsv": "m n r0+1 r1 r2 r3 ld(m) info",
}
"""The words stand for the following arguments. o: an operand, r: a result, c: memory of the call's own, each with its
number; r0+1 starts at the second element. work, rwork and iwork: workspace of the matrices' type, of the real type of
their components and of integers; lwork and so on are their sizes, for which LAPACK is queried. ld(m): the leading
dimension, the distance of columns in memory. one: the number 1 of the matrices' type."""

IN_PLACE: Mapping[str, Mapping[int, int]] = {
    "trsm": {1: 0},
    "ormqr": {2: 0},
    "geqp3": {0: 0, 1: 1},
    "gtsv": {0: 0, 1: 1, 2: 2, 3: 3},
    "geev": {},
}
"""For each result that overwrites an operand, the number of the operand. In other routines, the first result overwrites
the first operand."""

UNWRITTEN: Mapping[str, Mapping[int, str]] = {
    "geev": {1: "compute_left", 2: "compute_right"},
    "gees": {1: "mode"},
    "gesdd": {2: "mode", 3: "mode"},
    "gesvd": {2: "mode", 3: "mode"},
}
"""The results (for geev, the matrices of vectors) that are zeros if an attribute is N, because they are not computed.
"""

_INTEGER = 4
_ROOM = 1 << 12
"""The size of the memory that stands in for arrays in size queries: LAPACK accesses at most the first elements."""

_ARRAY = re.compile(r"([orc])(\d)(\+1)?")


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array argument: an operand (o), a result (r) or own memory (c), with its number. `offset` is in elements."""

    kind: str
    number: int
    offset: int = 0


Argument = bytes | ArrayArgument | LibraryScratch | None
"""What a pointer points to: constant bytes, memory, or nothing."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """All arguments of a function. letters: the number of character arguments; scratch_size: bytes of workspace."""

    symbol: str
    arguments: tuple[Argument, ...]
    letters: int
    scratch_size: int


def arguments_of(call: LapackCall) -> Arguments:
    """Returns the arguments of a call; raises `UnsupportedError` if the workspace is too large for LAPACK."""
    return _Layout(call).arguments()


class _Layout:
    """Builds the arguments of one call."""

    def __init__(self, call: LapackCall) -> None:
        self.call = call
        name = f"{call.routine} of complex"
        is_complex = call.element_type.is_complex
        self.words = (_TABLE[name] if is_complex and name in _TABLE else _TABLE[call.routine]).split()
        self.part = call.element_type.component_type if is_complex else call.element_type
        self.types = {
            "work": np.dtype(call.element_type.dtype),
            "rwork": np.dtype(self.part.dtype),
            "iwork": np.dtype(np.int32),
        }
        self.top = 64  # for routines that do not return `info`

    def arguments(self) -> Arguments:
        sizes = self.sizes()
        made = tuple(self.argument(word, sizes) for word in self.words)
        letters = sum(word in self.letters for word in self.words)
        return Arguments(symbol_of(self.call.symbol), made, letters, -(-self.top // 64) * 64)

    @property
    def letters(self) -> dict[str, str]:
        call = self.call
        if call.routine != "ormqr":
            return dict(call.letters)
        transposed = "C" if call.element_type.is_complex else "T"
        return {
            "side": "L" if call.numbers["left"] else "R",
            "trans": transposed if call.numbers["transpose"] else "N",
        }

    def argument(self, word: str, sizes: Mapping[str, int]) -> Argument:
        """Returns the argument that a word of the table stands for. Workspace is allocated after all previous
        workspace."""
        if (found := _ARRAY.fullmatch(word)) is not None:
            return ArrayArgument(found[1], int(found[2]), 1 if found[3] else 0)
        if word in self.types:
            offset = -(-self.top // 64) * 64
            self.top = offset + max(1, sizes[word]) * self.types[word].itemsize
            return LibraryScratch(offset)
        return self.constant(word, sizes)

    def constant(self, word: str, sizes: Mapping[str, int]) -> Argument:
        call = self.call
        if word == "info":
            return LibraryScratch(0)
        if word == "null":
            return None
        if word == "one":
            return np.ones((), call.element_type.dtype).tobytes()
        if word in self.letters:
            return self.letters[word].encode()
        if word in call.numbers:
            return _integer(call.numbers[word])
        if word.startswith("ld("):
            return _integer(max(1, call.sizes[word[3:-1]]))
        return _integer(sizes[word[1:]] if word.startswith("l") else call.sizes[word])

    # -- workspace

    def sizes(self) -> dict[str, int]:
        """Returns the number of elements of each kind of workspace."""
        fixed = {word: self.fixed(word) for word in self.words if word in self.types and f"l{word}" not in self.words}
        asked = [word for word in self.words if word in self.types and word not in fixed]
        sizes = {**fixed, **(self.asked(asked) if asked else {})}
        if max(sizes.values(), default=0) >= 2**31:
            raise UnsupportedError(
                codes.LAPACK_WORKSPACE,
                f"{self.call.symbol} of {dict(self.call.sizes)} needs more workspace than it counts",
            )
        return sizes

    def fixed(self, word: str) -> int:
        """Returns the documented size of workspace that has no size argument."""
        call, n = self.call, self.call.sizes["n"]
        if call.routine == "geqp3" or call.routine == "geev":
            return 2 * n
        if call.routine == "gees":
            return n
        k, longer = call.sizes["k"], max(call.sizes["m"], n)
        if word == "iwork":
            return 8 * k
        if call.routine == "gesvd":
            return 5 * k
        return 7 * k if call.letters["mode"] == "N" else k * max(5 * k + 7, 2 * longer + 2 * k + 1)

    def asked(self, words: Sequence[str]) -> dict[str, int]:
        """Queries LAPACK for the best workspace sizes, by calling the function with sizes of -1."""
        room = {word: ctypes.create_string_buffer(_ROOM) for word in words}
        info = ctypes.create_string_buffer(_ROOM)
        pointers: list[Any] = []
        for word in self.words:
            if word in room:
                pointers.append(room[word])
            elif word.startswith("l") and word[1:] in room:
                pointers.append(_integer(-1))
            elif word in self.types or _ARRAY.fullmatch(word) or word == "info":
                pointers.append(info if word == "info" else ctypes.create_string_buffer(_ROOM))
            else:
                pointers.append(self.constant(word, {}))
        lengths = [ctypes.c_size_t(1)] * sum(word in self.letters for word in self.words)
        ctypes.CFUNCTYPE(None)(function_address(symbol_of(self.call.symbol)))(*map(_passed, pointers), *lengths)
        assert int.from_bytes(info.raw[:_INTEGER], "little", signed=True) == 0, (self.call, info.raw[:_INTEGER])
        return {word: _first(room[word].raw, self.types[word]) for word in words}


def _integer(value: int) -> bytes:
    return value.to_bytes(_INTEGER, "little", signed=True)


def _passed(value: Any) -> Any:
    """Returns a pointer to memory that Fortran may read and write."""
    if isinstance(value, bytes):
        return ctypes.create_string_buffer(value, max(16, len(value)))
    return value


def _first(raw: bytes, dtype: np.dtype[Any]) -> int:
    """Returns the first number of the memory, rounded up. Sizes that a float cannot represent may have been rounded
    down."""
    number = np.frombuffer(raw, dtype, 1)[0].real
    exact = int(np.ceil(number))
    spare = exact >> 23 if number.dtype == np.float32 else 0
    return max(1, exact + spare)

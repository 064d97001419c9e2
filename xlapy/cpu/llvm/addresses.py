"""AddressCse and addresses of one function, in registers: a sum of terms, each added where it is known, and once.

The place a[512 * i + j + 3] in a loop over i that holds one over j needs one register before the inner loop and one
inside, which a[512 * i + j] shares:

    loop over i:
      %row = getelementptr [512 x float], ptr %a, i64 %i
      loop over j:
        %element = getelementptr float, ptr %row, i64 %j
        %place = getelementptr float, ptr %element, i64 3

Owns: which sums are there, and the places outside of a loop where more can be computed. Must not know: loops, branches,
what lies at an address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.loops import I64, Affine, ScalarType, Value
from xlapy.loops.ir import Block

Key = Any
"""Hashable: a kind of value, and what it is computed from."""


@dataclass(slots=True)
class _Scope:
    """Code that runs from its beginning to its end; what it computes is there for all that stands behind or inside.

    exit: the line of the jump to a loop or branch inside that is being written.
    """

    block: Block | None
    exit: int | None = None
    known: dict[Any, str] = field(default_factory=dict[Any, str])


class _Term(NamedTuple):
    """A factor times a register, known from the scope of that number on."""

    register: str
    factor: int
    level: int


class AddressCse:
    """The sums that one function has computed. names: the registers of values, kept by whoever writes the code."""

    def __init__(self, ir: IrBuilder, names: Mapping[Value, str]) -> None:
        self.ir = ir
        self.names = names
        self._scopes = [_Scope(None)]
        self._starts: dict[Value, tuple[str, int, int]] = {}

    # -- where the code is

    @contextmanager
    def code(self, block: Block | None) -> Iterator[None]:
        """Code that runs as a whole: of a block, or of a loop around one."""
        self._scopes.append(_Scope(block))
        yield
        self._scopes.pop()

    @contextmanager
    def inside(self, block: Block | None = None) -> Iterator[None]:
        """Code to which the line written last jumps: sums of what is known by now go before that line."""
        outer = self._scopes[-1]
        outer.exit = len(self.ir.lines) - 1
        with self.code(block):
            yield
        outer.exit = None

    def start(self, axis: Value, register: str, offset: int = 0) -> None:
        """The first lane of a vector axis is at a register plus an offset; the register is of the code begun before
        the axis' block."""
        self._starts[axis] = register, offset, len(self._scopes) - 1

    # -- sums

    def integer(self, position: Affine) -> str:
        """A register with a position, or its number."""
        terms, constant = self._terms(position)
        if not terms:
            return literal(I64, constant)
        key: Key = ("integer",)
        total = ""
        for term in terms:
            key = (*key, term)
            known = self._scopes[term.level].known
            if key not in known:
                product = self._product(term)
                known[key] = self._let(term.level, f"add i64 {total}, {product}") if total else product
            total = known[key]
        return self._here((*key, constant), f"add i64 {total}, {constant}") if constant else total

    def address(self, base: str, type: ScalarType, position: Affine) -> str:
        """A register with the address of an element behind a base."""
        terms, constant = self._terms(position)
        element = llvm_type(type)
        key: Key = (base, element)
        for term in terms:
            key = (*key, term)
            known = self._scopes[term.level].known
            if key not in known:
                known[key] = self._let(term.level, self._step(base, element, term))
            base = known[key]
        if not constant:
            return base
        return self._here((*key, constant), f"getelementptr {element}, ptr {base}, i64 {constant}")

    def shared(self, key: Key) -> str | None:
        """What the code up to here has in a register under a key of the caller's."""
        return next((scope.known[key] for scope in reversed(self._scopes) if key in scope.known), None)

    def share(self, key: Key, register: str) -> str:
        """Keeps a register under a key, for the code that runs with the present one."""
        self._scopes[-1].known[key] = register
        return register

    def _terms(self, position: Affine) -> tuple[list[_Term], int]:
        """Registers with their factors, those known first before the others, and what is a number."""
        constant, terms = position.constant, list[_Term]()
        for value, factor in position.terms:
            register, offset, level = self._starts.get(value) or (self.names[value], 0, self._level(value))
            constant += factor * offset
            if register.lstrip("-").isdigit():
                constant += factor * int(register)
            else:
                terms.append(_Term(register, factor, level))
        return sorted(terms, key=lambda term: term.level), constant

    def _level(self, value: Value) -> int:
        """The scope in which a value is computed."""
        last = len(self._scopes) - 1
        return next((level for level in range(last, -1, -1) if self._scopes[level].block is value.block), last)

    def _product(self, term: _Term) -> str:
        if term.factor == 1:
            return term.register
        known = self._scopes[term.level].known
        if term not in known:
            known[term] = self._let(term.level, f"mul i64 {term.register}, {term.factor}")
        return known[term]

    def _step(self, pointer: str, element: str, term: _Term) -> str:
        """An address, moved by a term."""
        if term.factor == 1:
            return f"getelementptr {element}, ptr {pointer}, i64 {term.register}"
        if term.factor > 1:
            return f"getelementptr [{term.factor} x {element}], ptr {pointer}, i64 {term.register}"
        return f"getelementptr {element}, ptr {pointer}, i64 {self._product(term)}"

    def _here(self, key: Key, code: str) -> str:
        return self.shared(key) or self.share(key, self.ir.assign(code))

    def _let(self, level: int, code: str) -> str:
        """Writes an instruction where the code of a level goes on to what is being written."""
        line = next((scope.exit for scope in self._scopes[level:] if scope.exit is not None), None)
        if line is None:
            return self.ir.assign(code)
        name = self.ir.fresh_name()
        self.ir.insert(line, f"{name} = {code}")
        return name

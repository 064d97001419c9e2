"""Common subexpression elimination of indices and addresses in one function.

Each address is a sum of terms. A term is added as far outside of loops as its value is known, and only once. For
example, the address of a[512 * i + j + 3] in a loop over j inside a loop over i needs one register before the inner
loop and one inside, which a[512 * i + j] shares:

    loop over i:
      %row = getelementptr [512 x float], ptr %a, i64 %i
      loop over j:
        %element = getelementptr float, ptr %row, i64 %j
        %place = getelementptr float, ptr %element, i64 3

Responsible for the sums that exist already, and for the points before a loop where more can be inserted. Does not
depend on loops, branches, or on what lies at an address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from xlapy.cpu.llvm.text import IrBuilder, literal, llvm_type
from xlapy.loops import I64, Affine, ScalarType, Value
from xlapy.loops.ir import Block

Key = Any
"""A hashable key: the kind of a value and what it is computed from."""


@dataclass(slots=True)
class _Scope:
    """A region of code that runs from its start to its end. What it computes is available in all code after it or
    inside.

    exit: the line of the jump to a nested loop or branch that is being emitted.
    """

    exit: int | None = None
    known: dict[Any, str] = field(default_factory=dict[Any, str])


class _Term(NamedTuple):
    """A factor times a register that is known from the scope `level` on."""

    register: str
    factor: int
    level: int


_LEVEL_OF = attrgetter("level")


class AddressCse:
    """The sums that a function has computed. names: the registers of values, which the emitter keeps up to date."""

    def __init__(self, ir: IrBuilder, names: Mapping[Value, str]) -> None:
        self.ir = ir
        self.names = names
        self._scopes = [_Scope()]
        self._levels: dict[Block, int] = {}
        """The scope of each block whose code is being emitted."""
        self._starts: dict[Value, tuple[str, int, int]] = {}

    # -- where the code is

    @contextmanager
    def code(self, block: Block | None) -> Iterator[None]:
        """Enters code that runs as a whole: a block, or a loop around one."""
        outside = None if block is None else self._levels.get(block)
        if block is not None:
            self._levels[block] = len(self._scopes)
        self._scopes.append(_Scope())
        yield
        self._scopes.pop()
        if block is not None:
            if outside is None:
                del self._levels[block]
            else:
                self._levels[block] = outside

    @contextmanager
    def inside(self, block: Block | None = None) -> Iterator[None]:
        """Enters code to which the last emitted line jumps. Sums of values that are known now are inserted before that
        line."""
        outer = self._scopes[-1]
        outer.exit = len(self.ir.lines) - 1
        with self.code(block):
            yield
        outer.exit = None

    def start(self, axis: Value, register: str, offset: int = 0) -> None:
        """Sets the first lane of a vector axis to a register plus an offset. The register belongs to the scope entered
        before the block of the axis."""
        self._starts[axis] = register, offset, len(self._scopes) - 1

    # -- sums

    def integer(self, position: Affine) -> str:
        """Returns a register with an index, or its number."""
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
        """Returns a register with the address of an element at an index from a base."""
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
        """Returns the register that is known under a key of the caller, if there is one."""
        return next((scope.known[key] for scope in reversed(self._scopes) if key in scope.known), None)

    def share(self, key: Key, register: str) -> str:
        """Stores a register under a key, for the code that runs with the current code."""
        self._scopes[-1].known[key] = register
        return register

    def _terms(self, position: Affine) -> tuple[list[_Term], int]:
        """Returns the terms with registers, those known first before the others, and the constant part."""
        constant, terms = position.constant, list[_Term]()
        for value, factor in position.terms:
            register, offset, level = self._starts.get(value) or (self.names[value], 0, self._level(value))
            constant += factor * offset
            if register[0] == "%":
                terms.append(_Term(register, factor, level))
            else:
                constant += factor * int(register)
        if len(terms) > 1:
            terms.sort(key=_LEVEL_OF)
        return terms, constant

    def _level(self, value: Value) -> int:
        """Returns the scope in which a value is computed."""
        level = self._levels.get(value.block)
        return len(self._scopes) - 1 if level is None else level

    def _product(self, term: _Term) -> str:
        if term.factor == 1:
            return term.register
        known = self._scopes[term.level].known
        if term not in known:
            known[term] = self._let(term.level, f"mul i64 {term.register}, {term.factor}")
        return known[term]

    def _step(self, pointer: str, element: str, term: _Term) -> str:
        """Returns the instruction that moves an address by a term."""
        if term.factor == 1:
            return f"getelementptr {element}, ptr {pointer}, i64 {term.register}"
        if term.factor > 1:
            return f"getelementptr [{term.factor} x {element}], ptr {pointer}, i64 {term.register}"
        return f"getelementptr {element}, ptr {pointer}, i64 {self._product(term)}"

    def _here(self, key: Key, code: str) -> str:
        return self.shared(key) or self.share(key, self.ir.assign(code))

    def _let(self, level: int, code: str) -> str:
        """Emits an instruction at the point where the code of a scope continues to the current position."""
        line = next((scope.exit for scope in self._scopes[level:] if scope.exit is not None), None)
        if line is None:
            return self.ir.assign(code)
        name = self.ir.fresh_name()
        self.ir.insert(line, f"{name} = {code}")
        return name

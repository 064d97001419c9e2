"""Copies of native functions with one place broken, as texts of their files.

Four kinds: an atomic access has a weaker ordering; a call is missing; two neighboring statements are in the other
order; a condition is changed: negated, with another bound, or without one of its terms.

Responsible for what is changed. Does not depend on who notices it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from tests.stress.harness import ROOT

ACCESSES = ("weaker", "dropped")
STATEMENTS = ("swapped", "changed")
"""Kinds of mutants."""

_WEAKER = {"ACQUIRE": "RELAXED", "RELEASE": "RELAXED", "ACQ_REL": "RELAXED"}
_WITHOUT_TOTAL_ORDER = {"load": "ACQUIRE", "store": "RELEASE"}
_NOT_DROPPED = ("check", "pause", "ret", "leave", "again", "set")
"""Control flow and local variables, and what only the checker or the processor needs."""

_NOT_SWAPPED = {"check", "pause", "ret", "leave", "variable", "set", "constant", "null"}
"""Calls whose place says nothing about what other threads see, or without which the function makes no sense."""

_OTHER_COMPARISONS = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A native function with one place broken. file: relative to the root. before, after: of the place."""

    file: str
    function: str
    is_native: bool
    kind: str
    line: int
    before: str
    after: str
    text: str
    """The whole file."""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.function}: {self.before} -> {self.after}"


def mutants(file: str, kinds: Sequence[str] = ACCESSES) -> list[Mutant]:
    """All mutants of a file, relative to the root, of some kinds."""
    return [mutant for mutant in _mutants(file) if mutant.kind in kinds]


@cache
def _mutants(file: str) -> list[Mutant]:
    source = (ROOT / file).read_text()
    made = list[Mutant]()
    for function in _builders(ast.parse(source)):
        is_native = any("native" in ast.unparse(one) for one in function.decorator_list)
        for kind, line, before, after, text in (*_accesses(source, function), *_statements(source, function)):
            made.append(Mutant(file, function.name, is_native, kind, line, before, after, text))
    return made


def _builders(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions that append instructions: native ones, and those that they call while they are built."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "f":
            yield node


_Change = tuple[str, int, str, str, str]
"""The kind, the line, what was there, what is there now, and the text of the file."""


# --- accesses and calls


def _accesses(source: str, function: ast.FunctionDef) -> Iterator[_Change]:
    for node, replacement in _places(function):
        before = ast.unparse(node)
        after = ast.unparse(ast.parse(before.replace(*replacement, 1))) if replacement else "dropped"
        text = _replaced(source, node, after if replacement else "pass")
        yield "weaker" if replacement else "dropped", node.lineno, before, after, text


def _places(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, tuple[str, str] | None]]:
    """The calls to break, and what replaces what in them; None if the call is dropped."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = [one.id for one in node.args if isinstance(one, ast.Name)]
            for name in dict.fromkeys(names):
                if name == "SEQ_CST":
                    yield node, (name, _WITHOUT_TOTAL_ORDER.get(node.func.attr, "ACQ_REL"))
                elif name in _WEAKER:
                    yield node, (name, _WEAKER[name])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            if (called.attr if isinstance(called, ast.Attribute) else "") not in _NOT_DROPPED:
                yield node.value, None


# --- order and conditions


def _statements(source: str, function: ast.FunctionDef) -> Iterator[_Change]:
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                for first, second in pairwise(body):
                    if _may_be_swapped(first, second):
                        before, after = (ast.unparse(one).splitlines()[0] for one in (first, second))
                        yield "swapped", first.lineno, before, f"after {after}", _swapped(source, first, second)
        if isinstance(node, ast.withitem) and _is_condition(node.context_expr):
            condition = node.context_expr
            assert isinstance(condition, ast.Call)
            for place, after in _other_conditions(condition.args[0]):
                yield "changed", place.lineno, ast.unparse(place), after, _replaced(source, place, f"({after})")


def _may_be_swapped(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two statements do not use each other's names, and one of them does something that others may see."""
    kinds = (ast.Expr, ast.With, ast.Assign)
    if not (isinstance(first, kinds) and isinstance(second, kinds)):
        return False
    if _names(first, ast.Store) & _names(second) or _names(second, ast.Store) & _names(first):
        return False
    called = [_called(one) for one in (first, second)]
    return all(called) and not any(names & _NOT_SWAPPED for names in called) and second.lineno > (first.end_lineno or 0)


def _names(node: ast.AST, kind: type[ast.expr_context] = ast.expr_context) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)}


def _called(node: ast.AST) -> set[str]:
    calls = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    return {one.attr if isinstance(one, ast.Attribute) else ast.unparse(one) for one in calls}


def _is_condition(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "when"


def _other_conditions(condition: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Parts of a condition, and what replaces them."""
    yield condition, f"~({ast.unparse(condition)})"
    for node in ast.walk(condition):
        if isinstance(node, ast.Compare):
            left, right, operator = node.left, node.comparators[0], type(node.ops[0])
            if operator in (ast.Lt, ast.LtE, ast.Gt, ast.GtE):
                yield node, f"{ast.unparse(left)} {_OTHER_COMPARISONS[operator]} {ast.unparse(right)}"
            elif isinstance(left, ast.BinOp) and isinstance(left.op, ast.BitAnd):
                yield node, f"{ast.unparse(left.left)} {_OTHER_COMPARISONS[operator]} {ast.unparse(left.right)}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            yield node, ast.unparse(node.left)
            yield node, ast.unparse(node.right)


# --- texts


def _swapped(source: str, first: ast.stmt, second: ast.stmt) -> str:
    lines = source.splitlines(keepends=True)
    assert first.end_lineno is not None and second.end_lineno is not None
    one = lines[first.lineno - 1 : first.end_lineno]
    between = lines[first.end_lineno : second.lineno - 1]
    other = lines[second.lineno - 1 : second.end_lineno]
    return "".join([*lines[: first.lineno - 1], *other, *between, *one, *lines[second.end_lineno :]])


def _replaced(source: str, node: ast.expr, text: str) -> str:
    """A file with an expression replaced. Its functions know all orderings, because they are built later."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    first, last = lines[node.lineno - 1], lines[node.end_lineno - 1]
    changed = first[: node.col_offset] + text.encode() + last[node.end_col_offset :]
    made = b"".join([*lines[: node.lineno - 1], changed, *lines[node.end_lineno :]]).decode()
    return f"{made}\nfrom xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE  # noqa\n"

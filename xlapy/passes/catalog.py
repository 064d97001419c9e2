"""The table of passes by name, and pipelines parsed from text.

Responsible for names, for aliases by XLA's own names, and for passes that users register. Does not depend on how passes
are run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import getdoc
from types import MappingProxyType
from typing import Any, TypeVar

from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.passes.control_flow.hoist_loop_invariants import HoistLoopInvariants
from xlapy.passes.control_flow.inline_calls import InlineCalls
from xlapy.passes.control_flow.simplify_conditionals import SimplifyConditionals
from xlapy.passes.control_flow.simplify_loops import SimplifyLoops
from xlapy.passes.expand.expand import Expand
from xlapy.passes.flatten_tuples import FlattenTuples
from xlapy.passes.fold_constants import FoldConstants
from xlapy.passes.layouts.assign_layouts import AssignLayouts
from xlapy.passes.layouts.normalize_layouts import NormalizeLayouts
from xlapy.passes.merge_common_subexpressions import MergeCommonSubexpressions
from xlapy.passes.pass_ import Pass, PassText, make_pass, near, options_of, parse_pass_list, value_text
from xlapy.passes.pipeline import Fixpoint
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.remove_identity_calls import RemoveIdentityCalls
from xlapy.passes.remove_trivial_collectives import RemoveTrivialCollectives
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.passes.simplify import Simplify
from xlapy.passes.verify_module import VerifyModule

_CLASSES: tuple[type[Any], ...] = (
    VerifyModule,
    RemoveDeadCode,
    RemoveIdentityCalls,
    RemoveTrivialCollectives,
    MergeCommonSubexpressions,
    FoldConstants,
    Simplify,
    InlineCalls,
    FlattenTuples,
    SimplifyConditionals,
    SimplifyLoops,
    HoistLoopInvariants,
    AssignLayouts,
    NormalizeLayouts,
    Expand,
    ResolveDynamicDimensions,
    Fixpoint,
)

_known: dict[str, type[Any]] = {kind.name: kind for kind in _CLASSES}

CATALOG: Mapping[str, type[Any]] = MappingProxyType(_known)
"""Maps the name of each pass to its class."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "verify": VerifyModule.name,
        "hlo-verifier": VerifyModule.name,
        "dce": RemoveDeadCode.name,
        "cse": MergeCommonSubexpressions.name,
        "call-inliner": InlineCalls.name,
        "tuple-simplifier": FlattenTuples.name,
        "simplify-conditional": SimplifyConditionals.name,
        "simplify-while-loops": SimplifyLoops.name,
        "while-loop-invariant-code-motion": HoistLoopInvariants.name,
        "layout-assignment": AssignLayouts.name,
        "layout-normalization": NormalizeLayouts.name,
        "algsimp": Simplify.name,
        "constant-folding": FoldConstants.name,
        "dynamic-padder": ResolveDynamicDimensions.name,
    }
)
"""Maps short names and XLA's names to the names of passes. Underscores in names are read as hyphens."""


_Kind = TypeVar("_Kind", bound=type[Any])


def register_pass(kind: _Kind) -> _Kind:
    """Class decorator that registers a pass for `parse_passes` and the command line.

    Raises `InvalidArgumentError` for a class that is not a pass, and for a name that another class has.

    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from xlapy.passes import register_pass
    >>> @register_pass
    ... @dataclass(frozen=True)
    ... class Rename:
    ...     name: ClassVar[str] = "rename-module"
    ...     to: str = "renamed"
    ...     def run(self, module):
    ...         changed, module.name = module.name != self.to, self.to
    ...         return changed
    """
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not callable(getattr(kind, "run", None)) or not is_dataclass(kind):
        raise InvalidArgumentError(
            codes.PASS_CLASS,
            f"{kind.__name__} is not a pass: a pass is a dataclass with a name, a string, and a method run(module)",
        )
    if any(f.default is MISSING and f.default_factory is MISSING for f in fields(kind)):
        raise InvalidArgumentError(codes.PASS_CLASS, f"pass {name}: every option needs a default")
    if canonical_pass_name(name) != name or not re.fullmatch(r"[A-Za-z][\w\-]*", name):
        raise InvalidArgumentError(
            codes.REGISTERED_NAME, f"{name!r} is not the name of a pass: those are words joined by hyphens, no alias"
        )
    known = _known.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InvalidArgumentError(
            codes.REGISTERED_NAME, f"there is a pass {name!r} already: {known.__module__}.{known.__qualname__}"
        )
    _known[name] = kind
    return kind


def canonical_pass_name(name: str) -> str:
    """Returns the name of a pass from its name in text, which may be an alias or have underscores for hyphens."""
    name = name.replace("_", "-")
    return ALIASES.get(name, name)


@dataclass(frozen=True, slots=True)
class PassRow:
    """A row of the list of passes. options: maps each option to its default."""

    name: str
    aliases: tuple[str, ...]
    options: Mapping[str, str]
    summary: str


def parse_passes(text: str) -> list[Pass]:
    """Parses passes such as `a,b{option=1},fixpoint(c,d)`.

    Raises `InvalidArgumentError` for syntax errors and unknown names, with similar names.

    >>> from xlapy.passes import parse_passes
    >>> [each.name for each in parse_passes("simplify,fixpoint(cse,dce)")]
    ['simplify', 'fixpoint']
    """
    return [_make(part) for part in parse_pass_list(text)]


def _make(text: PassText) -> Pass:
    name = canonical_pass_name(text.name)
    kind = CATALOG.get(name)
    if kind is None:
        known = sorted({*CATALOG, *ALIASES})
        raise InvalidArgumentError(
            codes.PASS_NAME, f"there is no pass {text.name!r}{near(name, known)}; --list-passes shows all"
        )
    found: Any = make_pass(kind, text.options)
    if kind is not Fixpoint:
        if text.inner is not None:
            raise InvalidArgumentError(codes.PASS_LIST, f"pass {name} takes no other passes; only fixpoint(...) does")
        return found
    if text.inner is None:
        raise InvalidArgumentError(codes.PASS_LIST, "fixpoint needs the passes to repeat: fixpoint(a,b)")
    return Fixpoint(limit=found.limit, passes=tuple(_make(part) for part in text.inner))


def list_passes() -> list[PassRow]:
    """Returns all passes sorted by name, with the first line of their docstrings."""
    rows: list[PassRow] = []
    for name, kind in sorted(CATALOG.items()):
        aliases = tuple(alias for alias, meant in ALIASES.items() if meant == name)
        options = {option: value_text(default) for option, default in options_of(kind).items()}
        rows.append(PassRow(name, aliases, options, (getdoc(kind) or "").partition("\n")[0]))
    return rows

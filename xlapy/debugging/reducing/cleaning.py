"""Removes instructions and computations that a change has left unused.

Keeps what was unused before the change, because it may be what makes the module interesting; the pass `UNUSED` tries to
remove it. Does not depend on the change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order

_NUMBERED = re.compile(r"(\.\d+)+$")

Unused = list[Computation | Instruction]


def unused(module: Module) -> Unused:
    """Returns the computations without a caller and the values without a user, including parameters of the entry."""
    found: Unused = [c for c in module.computations if not c.callers and not c.is_entry]
    for computation in module.computations:
        dead = [i for i in computation if not i.has_users and not i.is_root]
        found += [i for i in dead if computation.is_entry or not is_parameter(i)]
    return found


def unused_names(module: Module) -> set[str]:
    """Returns the names of the unused items, without the numeric suffixes that keep the names of copies unique."""
    return {_bare(item.name) for item in unused(module)}


def _bare(name: str) -> str:
    return _NUMBERED.sub("", name)


def clean(module: Module, spared: Collection[str] = ()) -> None:
    """Removes all unused items, repeatedly, except those whose names are in `spared` (from `unused_names`)."""
    while waste := [item for item in unused(module) if _bare(item.name) not in spared]:
        for item in waste:
            _remove(item)
    for computation in module.computations:
        edit.reorder(computation, post_order(computation))


def _remove(item: Computation | Instruction) -> None:
    if isinstance(item, Computation):
        if item.module is not None:
            edit.remove_computation(item)
        return
    if item.parent is None or item.parent.module is None:
        return
    edit.remove_control_edges(item)
    if is_parameter(item):
        edit.remove_parameter(item)
    else:
        edit.remove(item)


def _remove_numbered(module: Module, numbers: Sequence[int]) -> None:
    everything = unused(module)
    for number in numbers:
        _remove(everything[number])


UNUSED = ReductionPass("unused", lambda module: len(unused(module)), _remove_numbered)

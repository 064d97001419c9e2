"""What a change leaves unused goes with it.

Owns: cleaning a module after a change. What was unused before stays: it may be what is
interesting, and a pass of its own asks. Must not know: what was changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order

_NUMBERED = re.compile(r"(\.\d+)+$")

Unused = list[Computation | Instruction]


def unused(module: Module) -> Unused:
    """Computations that nobody calls, values that nobody uses, and parameters of the entry among them."""
    found: Unused = [c for c in module.computations if not c.callers and not c.is_entry]
    for computation in module.computations:
        dead = [i for i in computation if not i.has_users and not i.is_root]
        found += [i for i in dead if computation.is_entry or not is_parameter(i)]
    return found


def unused_names(module: Module) -> set[str]:
    """Their names, without the numbers that make copies' names unique."""
    return {_bare(item.name) for item in unused(module)}


def _bare(name: str) -> str:
    return _NUMBERED.sub("", name)


def clean(module: Module, spared: Collection[str] = ()) -> None:
    """Removes what is unused, until nothing is but what has one of the spared names of `unused_names`."""
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


UNUSED = Proposals("unused", lambda module: len(unused(module)), _remove_numbered)

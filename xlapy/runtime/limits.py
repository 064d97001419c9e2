"""What no platform runs: shapes that NumPy has no arrays for, constants left out of a text, calls nested too deep.

Must not know: how programs are run.
"""

from __future__ import annotations

import sys
from types import FrameType

from xlapy import opcodes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.literal import Literal, check_holdable
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order

MAX_RANK = 32
"""The most dimensions of a value: some of NumPy's functions end the process above that, though its arrays have 64."""


def check_limits(module: Module, who: str, call_depth_limit: int) -> None:
    """`UnsupportedError` that names the instruction, and who does not run it."""
    _check_shapes(module, who)
    _check_constants(module)
    depth = call_depth(module)
    if depth > call_depth_limit:
        raise UnsupportedError(
            f"computations call each other {depth} deep, {who} follows at most {call_depth_limit} calls"
        )


def _check_shapes(module: Module, who: str) -> None:
    for instruction in module.instructions():
        for _, leaf in instruction.shape.leaves():
            if leaf.is_array:
                _check_array(instruction, leaf, who)


def _check_array(instruction: Instruction, shape: Shape, who: str) -> None:
    if shape.rank > MAX_RANK:
        raise UnsupportedError(
            f"{instruction.name} of shape {shape.to_text(layout=False)} "
            f"has {shape.rank} dimensions, {who} takes at most {MAX_RANK}"
        )
    try:
        check_holdable(shape)
    except ShapeError as error:
        raise UnsupportedError(f"{instruction.name}: {error}: not executable by {who}") from error


def _check_constants(module: Module) -> None:
    """A program whose constants were left out of its text would run with zeros, silently wrong."""
    for instruction in module.instructions():
        if instruction.op is opcodes.CONSTANT and _is_elided(instruction.literal):
            raise UnsupportedError(
                f"{instruction.name} is written {{...}}, its elements are not known; print the program with all "
                f"constants in full (print_large_constants=True)"
            )


def _is_elided(literal: Literal) -> bool:
    return literal.is_elided or any(map(_is_elided, literal.elements))


def call_depth(module: Module) -> int:
    """The length of the longest chain of computations that call each other, the entry included."""
    depth: dict[Computation, int] = {}
    for computation in computation_post_order(module):
        depth[computation] = 1 + max((depth[callee] for callee in called_computations(computation)), default=0)
    return depth[module.entry_computation]


def make_room_for_calls(depth: int, frames: int) -> None:
    """Raises Python's recursion limit where a deep chain of calls needs it: a call is so many Python frames."""
    needed = depth * frames + 200
    if needed < sys.getrecursionlimit() // 2:
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        needed += 1
        frame = frame.f_back
    sys.setrecursionlimit(max(sys.getrecursionlimit(), needed))

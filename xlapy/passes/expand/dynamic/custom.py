"""Custom calls on dynamic dimensions: XLA's own targets that turn them into static ones and back.

Other targets do not take dynamic dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    Sized,
    SizeWriter,
    Value,
    array_of,
    sizes_of,
    unsupported,
)


@DYNAMIC_EXPANSIONS.rule(opcodes.CUSTOM_CALL)
def custom_call(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """PadToStatic gives the array of the bounds and the sizes, SliceToDynamic takes them."""
    target = instruction.custom_call_target
    if target == "PadToStatic":
        return (array_of(values[0]), *[write.size(size) for size in sizes_of(values[0])])
    if target == "SliceToDynamic":
        bounds = instruction.shape.dimensions
        rows = zip(values[1:], bounds, strict=True)
        return Sized(array_of(values[0]), tuple(write.smaller(write.larger(size, 0), bound) for size, bound in rows))
    raise unsupported(instruction, f"target {target!r} takes static ones")

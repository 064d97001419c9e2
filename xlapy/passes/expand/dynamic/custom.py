"""Custom calls on dynamic dimensions: XLA's targets that convert between dynamic and static dimensions.

Other targets do not accept dynamic dimensions.
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
    """PadToStatic returns the padded array and its sizes; SliceToDynamic takes both."""
    target = instruction.custom_call_target
    if target == "PadToStatic":
        return (array_of(values[0]), *[write.size(size) for size in sizes_of(values[0])])
    if target == "SliceToDynamic":
        bounds = instruction.shape.dimensions
        rows = zip(values[1:], bounds, strict=True)
        return Sized(array_of(values[0]), tuple(write.smaller(write.larger(size, 0), bound) for size, bound in rows))
    raise unsupported(instruction, f"target {target!r} does not accept dynamic dimensions")

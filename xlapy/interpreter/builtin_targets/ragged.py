"""The custom call `xlapy.check_ragged_slices`, which raises the error of a ragged-all-to-all that was expanded.

Its operands are the first rows in the inputs, the sizes, and the first rows in the output of the slices that the device
receives, and the sizes that it expects, of each member. It returns the sizes. Its `backend_config` describes the
instruction, and counts the rows of an input and of the output.

Responsible for the target and its configuration. Does not depend on the expansion.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import Context, Value
from xlapy.interpreter.kernels.ragged_slices import check_slices

RAGGED_SLICES_TARGET = "xlapy.check_ragged_slices"


def ragged_slices_config(instruction: Instruction) -> str:
    """Returns the configuration of the call for a ragged-all-to-all."""
    rows = [operand.shape.dimensions[0] for operand in instruction.operands[:2]]
    return json.dumps({"instruction": describe_instruction(instruction), "rows": rows})


def check_ragged_slices(instruction: Instruction) -> None:
    """Raises `UnsupportedError` for a call that the passes do not make."""
    shapes = [*instruction.operand_shapes, instruction.shape]
    is_valid = len(shapes) == 5 and all(
        shape.is_array and shape.rank and shape.element_type.is_integral and shape.compatible(shapes[0])
        for shape in shapes
    )
    try:
        _configuration(instruction)
    except (ValueError, TypeError, KeyError):
        is_valid = False
    if not is_valid:
        raise UnsupportedError(
            codes.BUILT_IN_CALL,
            f"{describe_instruction(instruction)}: {RAGGED_SLICES_TARGET} takes four arrays of integers of one shape, "
            "which it returns, and a backend_config of the passes",
        )


def call_ragged_slices(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Raises the error of the first slice that does not match."""
    where, input_rows, output_rows = _configuration(instruction)
    starts, sizes, targets, expected = values
    check_slices(where, [input_rows] * len(sizes), output_rows, (starts, sizes, targets), expected)
    return sizes


def _configuration(instruction: Instruction) -> tuple[str, int, int]:
    data = json.loads(instruction.backend_config or "")
    input_rows, output_rows = map(int, data["rows"])
    return str(data["instruction"]), input_rows, output_rows

"""The slices that a device receives in a ragged-all-to-all: whether they are those that it expects, and exist.

Responsible for the check and its errors. Does not depend on how slices reach the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError


def check_slices(
    where: str,
    input_rows: Sequence[int],
    output_rows: int,
    slices: tuple[Array, Array, Array],
    expected: Array,
) -> None:
    """Raises `ExecutionError`, whose message starts with `where`, for the first slice that does not match.

    input_rows: the rows of the input of each member. slices: first rows in the inputs, sizes, and first rows in the
    output, of each member. expected: the sizes of recv_sizes.
    """
    starts, sizes, targets = slices
    for member, rows in enumerate(input_rows):
        if not np.array_equal(sizes[member], expected[member]):
            raise ExecutionError(
                codes.RECEIVED_SIZES,
                f"{where}: recv_sizes expect {expected[member].tolist()} rows of member {member} of the group, it "
                f"sends {sizes[member].tolist()} (send_sizes)",
            )
        numbers = (np.atleast_1d(each[member]).tolist() for each in (starts, sizes, targets))
        for start, size, target in zip(*numbers, strict=True):
            _require_rows(where, "input", rows, start, size)
            _require_rows(where, "output", output_rows, target, size)


def _require_rows(where: str, what: str, rows: int, start: int, size: int) -> None:
    if start < 0 or size < 0 or start + size > rows:
        raise ExecutionError(
            codes.SLICE_BOUNDS, f"{where}: {size} rows from row {start} on are not within the {rows} rows of {what}"
        )

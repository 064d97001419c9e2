"""Values that depend on the tile that a device holds, as offsets, limits and masks at the ends of an array do.

Most are simple functions of the tile's number: the same for all tiles but the first or the last few, or linear between
two limits. These are computed, so that programs for thousands of devices hold no tables. All others are looked up in a
constant with one element for each device.

Responsible for how such values are written. Does not depend on what they are for.

Worked example: on 4 tiles, `[0, 4, 8, 12]` is `tile * 4`, `[5, 5, 3, 0]` is `9 - tile * 3` clamped to 0 to 5,
`[False, True, True, True]` is `tile >= 1`, and `[5, 0, 5, 1]` is a table.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.passes.expand.blocks import compare
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import Tiling

Values: TypeAlias = "np.ndarray[Any, Any]"


def per_tile_value(resharder: Resharder, tiling: Tiling, values: Values) -> Instruction:
    """Returns `values[tile]` on a device that holds that tile of a tiling; values: booleans or integers."""
    key = tiling, values.dtype.str, values.tobytes()
    if key not in resharder.tile_values:
        resharder.tile_values[key] = _written(resharder, tiling, values)
    return resharder.tile_values[key]


def _written(resharder: Resharder, tiling: Tiling, values: Values) -> Instruction:
    if (values == values[0]).all():
        return resharder.write.constant(Literal.array_of(np.asarray(values[0])))
    if tiling.numbers is not None:
        return resharder.per_tile_constant(tiling, values)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    if values.dtype == np.bool_:
        return _mask(resharder, tiling, values, changes)
    linear = _clamped_line(values)
    if linear is not None:
        return _linear(resharder, tiling, values, *linear)
    if len(changes) <= 2:
        return _steps(resharder, tiling, values, changes)
    return resharder.per_tile_constant(tiling, values)


def _is_from(resharder: Resharder, tiling: Tiling, tile: int, direction: ComparisonDirection) -> Instruction:
    """Compares the device's tile with another one."""
    index = resharder.tile_index(tiling)
    return compare(resharder.write, index, resharder.write.splat(tile, index.shape), direction)


def _mask(resharder: Resharder, tiling: Tiling, values: Values, changes: Values) -> Instruction:
    """Returns a mask that is equal on consecutive tiles, if it changes at most twice."""
    if len(changes) > 2:
        return resharder.per_tile_constant(tiling, values)
    begins, ends = ComparisonDirection.GE, ComparisonDirection.LT
    if len(changes) == 1:
        return _is_from(resharder, tiling, int(changes[0]), ends if values[0] else begins)
    first, last = (int(each) for each in changes)
    if values[0]:
        parts = [_is_from(resharder, tiling, first, ends), _is_from(resharder, tiling, last, begins)]
        return resharder.write.add(opcodes.OR, *parts)
    parts = [_is_from(resharder, tiling, first, begins), _is_from(resharder, tiling, last, ends)]
    return resharder.write.add(opcodes.AND, *parts)


def _steps(resharder: Resharder, tiling: Tiling, values: Values, changes: Values) -> Instruction:
    """Returns values that change at a few tiles only."""
    write = resharder.write
    found = write.constant(Literal.array_of(np.asarray(values[0])))
    for tile in changes:
        new = write.constant(Literal.array_of(np.asarray(values[tile])))
        mask = _is_from(resharder, tiling, int(tile), ComparisonDirection.GE)
        found = write.add(opcodes.SELECT, mask, new, found)
    return found


def _clamped_line(values: Values) -> tuple[int, int, bool] | None:
    """Returns the slope and the value at tile 0 of a line that gives the values, and whether it has to be clamped.

    A clamped line is cut off at the least and the greatest value. None if there is no line, or if the line leaves the
    range of the type.
    """
    wide = values.astype(np.int64)
    differences = np.diff(wide)
    steepest = int(np.argmax(np.abs(differences)))
    slope = int(differences[steepest])
    first = int(wide[steepest]) - slope * steepest
    line = first + slope * np.arange(len(values))
    limits = np.iinfo(values.dtype)
    extremes = [first, int(line[-1]), slope * (len(values) - 1)]
    if min(extremes) < limits.min or max(extremes) > limits.max:
        return None
    if (line == wide).all():
        return slope, first, False
    is_clamped = (np.clip(line, wide.min(), wide.max()) == wide).all()
    return (slope, first, True) if is_clamped else None


def _linear(
    resharder: Resharder, tiling: Tiling, values: Values, slope: int, first: int, is_clamped: bool
) -> Instruction:
    write = resharder.write
    kind = Literal.array_of(np.asarray(values[0])).shape
    line = resharder.tile_offset(tiling, slope, kind.element_type)
    if first:
        line = write.add(opcodes.ADD, line, write.splat(first, kind))
    if not is_clamped:
        return line
    return write.add(opcodes.CLAMP, write.splat(int(values.min()), kind), line, write.splat(int(values.max()), kind))

"""`TileAssignment`: the device of each tile of a sharding, `devices=[2,4]<=[4,2]T(1,0)` or `devices=[2,2]0,2,1,3`.

Responsible for the assignment, its transposition and its text. Does not depend on what the tiles are used for.
Source: shardings of HLO text (a list of devices is tile assignment V1, the iota form V2).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Ints
from xlapy.base.shape_fields import bounded_product
from xlapy.opcodes.attributes.codecs import integers_from_text
from xlapy.opcodes.attributes.mesh import Iota, read_iota

Piece = tuple[int, int, int]
"""A factor of an iota dimension as (dimension, negated stride, size), which sorts in the order of the device ids."""

_SQUARE = re.compile(r"\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
_DEVICES = re.compile(r"-?\d+(?:\s*,\s*-?\d+)*(?!\w)")


@dataclass(frozen=True, slots=True)
class TileAssignment:
    """The devices of an array's tiles in row-major order, as an `Iota` or a list. `dimensions` are tiles per dimension.

    Example: `[2,2]<=[2,2]T(1,0)` is devices 0, 2, 1, 3.
    """

    dimensions: Ints
    devices: Iota | Ints

    @staticmethod
    def make(dimensions: Sequence[int], devices: Iota | Sequence[int] | None = None) -> TileAssignment:
        """Assigns the devices 0..n-1 by default; raises `ShapeError` if the numbers of tiles and devices differ."""
        count = bounded_product(dimensions)
        if count >= 2**63:
            raise ShapeError(
                annotation_codes.SHARDING_DEVICES,
                f"[{','.join(map(str, dimensions))}] has more tiles than 64 bits hold",
            )
        chosen = Iota.make((count,)) if devices is None else devices if isinstance(devices, Iota) else tuple(devices)
        given = chosen.size if isinstance(chosen, Iota) else len(chosen)
        if given != count or count < 1:
            raise ShapeError(
                annotation_codes.SHARDING_DEVICES,
                f"[{','.join(map(str, dimensions))}] has {count} tiles, given {given} devices",
            )
        return TileAssignment(tuple(dimensions), chosen)

    @property
    def size(self) -> int:
        """The number of tiles."""
        return math.prod(self.dimensions)

    def device_ids(self) -> Ints:
        """The device of each tile, row-major."""
        return self.devices.ids() if isinstance(self.devices, Iota) else self.devices

    def reshape(self, dimensions: Sequence[int]) -> TileAssignment:
        """The same devices in the same order with other tile counts, whose product is the same."""
        return TileAssignment(tuple(dimensions), self.devices)

    def transpose(self, perm: Sequence[int]) -> TileAssignment:
        """Permutes the dimensions of the tiles; the result stays an `Iota` if its factors allow it."""
        sizes = tuple(self.dimensions[d] for d in perm)
        parts = self._pieces()
        if parts is not None:
            return TileAssignment(sizes, _iota([piece for d in perm for piece in parts[d]]))
        ids = self.device_ids()
        strides = [math.prod(self.dimensions[d + 1 :]) for d in range(len(self.dimensions))]
        ranges = [range(0, self.dimensions[d] * strides[d], strides[d]) for d in perm]
        return TileAssignment(sizes, tuple(ids[sum(at)] for at in itertools.product(*ranges)))

    def sort_last_dimension(self) -> TileAssignment:
        """Sorts the devices along the last dimension in ascending order."""
        parts = self._pieces()
        if parts is not None:
            before = [piece for some in parts[:-1] for piece in some]
            return TileAssignment(self.dimensions, _iota(before + sorted(parts[-1])))
        ids, group = self.device_ids(), self.dimensions[-1]
        rows = (sorted(ids[start : start + group]) for start in range(0, len(ids), group))
        return TileAssignment(self.dimensions, tuple(itertools.chain.from_iterable(rows)))

    def _pieces(self) -> list[list[Piece]] | None:
        """The pieces of the iota that make up each tile dimension; None for a list, or if a piece spans two."""
        if not isinstance(self.devices, Iota):
            return None
        pieces: list[list[Piece]] = [[] for _ in self.dimensions]
        tile, left = 0, self.dimensions[0]
        for dimension in self.devices.transpose_perm:
            rest = self.devices.reshape_dims[dimension]
            while rest > 1:
                while left == 1:
                    tile += 1
                    left = self.dimensions[tile]
                size = min(rest, left)
                if rest % size or left % size:
                    return None
                rest //= size
                left //= size
                pieces[tile].append((dimension, -rest, size))
        return pieces

    def to_text(self) -> str:
        """`[2,4]<=[8]` or `[2,2]0,2,1,3`."""
        dimensions = f"[{','.join(map(str, self.dimensions))}]"
        if isinstance(self.devices, Iota):
            return f"{dimensions}<={self.devices.to_text()}"
        return f"{dimensions}{','.join(map(str, self.devices))}"


def _iota(pieces: list[Piece]) -> Iota:
    """The iota that enumerates pieces in the given order."""
    order = sorted(pieces)
    return Iota.make([size for _, _, size in order] or [1], [order.index(piece) for piece in pieces])


def read_tiles(cursor: HloCursor) -> TileAssignment:
    """Reads `[2,4]<=[4,2]T(1,0)` or `[2,2]0,2,1,3`."""
    match = cursor.match(_SQUARE)
    if match is None:
        cursor.fail(text_codes.TOKEN, "expected tile counts such as [2,4]")
    try:
        return TileAssignment.make(integers_from_text(match[1]), _read_devices(cursor))
    except ShapeError as error:
        cursor.fail(error.code, error.message)


def _read_devices(cursor: HloCursor) -> Iota | Ints:
    if cursor.accept("<="):
        iota = read_iota(cursor)
        if iota is None:
            cursor.fail(text_codes.TOKEN, "expected device counts such as [4,2]T(1,0)")
        return iota
    listed = cursor.match(_DEVICES)
    if listed is None:
        cursor.fail(text_codes.TOKEN, "expected a list of devices such as 0,1,2,3, or <=")
    return integers_from_text(listed[0])

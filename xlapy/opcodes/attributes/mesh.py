"""Meshes of devices and references to their axes, with the text forms that replica groups and named shardings share.

Responsible for the values, checks and text of `Iota`, `Mesh` and `AxisRef`. Does not depend on what a mesh is used for.

Worked example: `mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0))` arranges the devices 0..7 in a 4 x 2 array, transposes it
to 2 x 4, and reads it in row-major order: row 0 of the mesh is 0 2 4 6, row 1 is 1 3 5 7.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape_fields import bounded_product
from xlapy.opcodes.attributes.codecs import entries, int64_from_text, integers_from_text

MAX_DEVICES = 1 << 20
"""The maximum number of devices whose ids are enumerated."""
MAX_MESH_AXES = 128
MAX_AXIS_REFERENCES = 1024
"""Limits on the axes of a mesh, and on the axes and sub-axes in a sharding, each of which is compared with all others.
An axis of more than one device doubles the devices at least, so that meshes have far fewer."""


@checked_class
@dataclass(frozen=True, slots=True)
class Iota:
    """Device ids 0..n-1 in an array of `reshape_dims`, transposed by `transpose_perm`, in row-major order."""

    reshape_dims: tuple[int, ...]
    transpose_perm: tuple[int, ...]

    @staticmethod
    def make(reshape_dims: Sequence[int], transpose_perm: Sequence[int] = ()) -> Iota:
        """The shortest form with the same ids; the default permutation is the identity. Raises `ShapeError`."""
        perm = tuple(transpose_perm) or tuple(range(len(reshape_dims)))
        if not reshape_dims or sorted(perm) != list(range(len(reshape_dims))):
            raise ShapeError(
                codes.IOTA_PERMUTATION,
                f"T({_join(perm)}) is not a permutation of the dimensions of [{_join(reshape_dims)}]",
            )
        if any(size < 1 for size in reshape_dims):
            raise ShapeError(codes.DEVICE_COUNT, f"device ids [{_join(reshape_dims)}] have a dimension below 1")
        if bounded_product(reshape_dims) >= 2**63:
            raise ShapeError(
                codes.DEVICE_LIMIT, f"the number of device ids [{_join(reshape_dims)}] does not fit in 64 bits"
            )
        return Iota(*_shortest(list(reshape_dims), list(perm)))

    @property
    def size(self) -> int:
        return math.prod(self.reshape_dims)

    def ids(self) -> tuple[int, ...]:
        """The device ids in order; raises `ShapeError` if there are more than `MAX_DEVICES`."""
        if self.size > MAX_DEVICES:
            raise ShapeError(
                codes.DEVICE_LIMIT, f"{self.to_text()} gives {self.size} device ids, more than {MAX_DEVICES}"
            )
        strides = [math.prod(self.reshape_dims[d + 1 :]) for d in range(len(self.reshape_dims))]
        ids = [0]
        for dimension in self.transpose_perm:
            steps = [i * strides[dimension] for i in range(self.reshape_dims[dimension])]
            ids = [start + step for start in ids for step in steps]
        return tuple(ids)

    def to_text(self) -> str:
        """The text `[4,2]T(1,0)`, or `[8]` without a permutation for one dimension."""
        perm = f"T({_join(self.transpose_perm)})" if len(self.reshape_dims) > 1 else ""
        return f"[{_join(self.reshape_dims)}]{perm}"


def _shortest(dims: list[int], perm: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Removes dimensions of size 1 and merges those that stay adjacent, until neither is possible."""
    while True:
        kept = [d for d in range(len(dims)) if dims[d] != 1]
        position = {d: i for i, d in enumerate(kept)}
        perm = [position[d] for d in perm if d in position]
        dims = [dims[d] for d in kept]
        pair = next((i for i in range(1, len(perm)) if perm[i] == perm[i - 1] + 1), None)
        if pair is None:
            return (tuple(dims), tuple(perm)) if dims else ((1,), (0,))
        first = perm[pair - 1]
        dims[first] *= dims[first + 1]
        dims[first + 1] = 1


@checked_class
@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes over devices; without axes it is one device (a maximal mesh) or empty (`mesh[]`).

    `devices` is an `Iota`, or the device ids in row-major order of the axes.
    """

    axis_names: tuple[str, ...] = ()
    axis_sizes: tuple[int, ...] = ()
    devices: Iota | tuple[int, ...] = ()

    @staticmethod
    def make(axis_names: Sequence[str], axis_sizes: Sequence[int], devices: Iota | Sequence[int] | None = None) -> Mesh:
        """A mesh of named axes, by default over devices 0..n-1; raises `ShapeError` if they are illegal."""
        names, sizes = tuple(axis_names), tuple(axis_sizes)
        if len(names) != len(sizes) or len(set(names)) != len(names):
            raise ShapeError(
                codes.MESH_AXES,
                f"mesh axes need one distinct name each; given names {list(names)} and sizes {list(sizes)}",
            )
        if len(names) > MAX_MESH_AXES:
            raise ShapeError(codes.DEVICE_LIMIT, f"a mesh has at most {MAX_MESH_AXES} axes, not {len(names)}")
        if any(size < 1 for size in sizes):
            raise ShapeError(codes.DEVICE_COUNT, f"mesh axes {list(names)} have a size below 1: {list(sizes)}")
        if not names:
            return Mesh()
        count = bounded_product(sizes)
        chosen = Iota.make((count,)) if devices is None else devices if isinstance(devices, Iota) else tuple(devices)
        given = chosen.size if isinstance(chosen, Iota) else len(chosen)
        if given != count:
            raise ShapeError(
                codes.MESH_DEVICES, f"mesh of sizes {list(sizes)} has {count} devices, given {given} device ids"
            )
        if not isinstance(chosen, Iota):
            if sorted(chosen) != list(range(count)):
                raise ShapeError(
                    codes.MESH_DEVICES,
                    f"device ids of a mesh of {count} must be 0 to {count - 1} in some order: {list(chosen)}",
                )
            if chosen == tuple(range(count)):
                chosen = Iota.make((count,))
        return Mesh(names, sizes, chosen)

    @staticmethod
    def maximal(device_id: int) -> Mesh:
        """The mesh of one device; `ShapeError` if the id is negative."""
        if device_id < 0:
            raise ShapeError(codes.DEVICE_COUNT, f"maximal_mesh needs a device id of at least 0, given {device_id}")
        return Mesh((), (), (device_id,))

    def device_ids(self) -> tuple[int, ...]:
        return self.devices.ids() if isinstance(self.devices, Iota) else self.devices

    def to_text(self) -> str:
        """`mesh['a'=2,'b'=4]`, with `, device_ids=(...)` unless the devices count up; `maximal_mesh[device_id=3]`."""
        if not self.axis_names:
            return f"maximal_mesh[device_id={self.device_ids()[0]}]" if self.devices else "mesh[]"
        axes = ",".join(f"'{name}'={size}" for name, size in zip(self.axis_names, self.axis_sizes, strict=True))
        if isinstance(self.devices, Iota):
            plain = len(self.devices.reshape_dims) == 1
            return f"mesh[{axes}]" if plain else f"mesh[{axes}], device_ids=({self.devices.to_text()})"
        return f"mesh[{axes}], device_ids=({_join(self.devices)})"


@checked_class
@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh by number, or a part of it, `(pre_size)size`: the factor of extent `size` after the factors of
    extent `pre_size`."""

    axis: int
    pre_size: int = 1
    size: int | None = None

    def extent(self, mesh: Mesh) -> int:
        return mesh.axis_sizes[self.axis] if self.size is None else self.size

    def check(self, mesh: Mesh) -> None:
        """Raises `ShapeError` unless the axis is in the mesh and, for a sub-axis, is divided evenly."""
        if not 0 <= self.axis < len(mesh.axis_names):
            raise ShapeError(codes.MESH_AXIS_NAME, f"axis {self.axis} is out of bounds for {mesh.to_text()}")
        if self.size is None:
            return
        full = mesh.axis_sizes[self.axis]
        if self.pre_size < 1 or self.size < 2 or self.size >= full or full % (self.pre_size * self.size):
            raise ShapeError(
                codes.SUB_AXIS,
                f"sub-axis {self.to_text(mesh)} does not divide its axis of size {full} into smaller parts",
            )

    def to_text(self, mesh: Mesh) -> str:
        """`'a'`, or `'a':(1)2` for a sub-axis."""
        part = "" if self.size is None else f":({self.pre_size}){self.size}"
        return f"'{mesh.axis_names[self.axis]}'{part}"


def check_axes(axes: Sequence[AxisRef], mesh: Mesh) -> None:
    """Raises `ShapeError` if a reference is illegal, references overlap, or adjacent ones could be merged."""
    for reference in axes:
        reference.check(mesh)
    check_disjoint(axes, mesh)
    for first, second in pairwise(axes):
        if first.axis == second.axis and first.size is not None and first.pre_size * first.size == second.pre_size:
            raise ShapeError(
                codes.AXES_MERGED,
                f"adjacent axes {first.to_text(mesh)} and {second.to_text(mesh)} must be written as one",
            )


def check_disjoint(axes: Sequence[AxisRef], mesh: Mesh) -> None:
    """Raises `ShapeError` if references overlap, or if there are more than `MAX_AXIS_REFERENCES`."""
    if len(axes) > MAX_AXIS_REFERENCES:
        raise ShapeError(
            codes.DEVICE_LIMIT, f"a sharding names at most {MAX_AXIS_REFERENCES} axes and sub-axes, not {len(axes)}"
        )
    for i, first in enumerate(axes):
        for second in axes[i + 1 :]:
            if not disjoint(first, second):
                texts = f"{first.to_text(mesh)} and {second.to_text(mesh)}"
                raise ShapeError(codes.AXES_OVERLAP, f"axes {texts} of {mesh.to_text()} overlap or cannot coexist")


def disjoint(a: AxisRef, b: AxisRef) -> bool:
    """Whether two references do not overlap and split their axis at compatible positions."""
    if a.axis != b.axis:
        return True
    if a.size is None or b.size is None:
        return False
    low, high = sorted(((a.pre_size, a.size), (b.pre_size, b.size)))
    return high[0] % (low[0] * low[1]) == 0


_MESH = re.compile(r"(maximal_)?mesh\s*\[")
_NAME = r"""(?:'([^'\n]*)'|"([^"\n]*)")"""
_AXIS = re.compile(_NAME + r"\s*=\s*(\d+)")
_REFERENCE = re.compile(_NAME + r"(?:\s*:\s*\(\s*(\d+)\s*\)\s*(\d+))?")
_DEVICE = re.compile(r"device_id\s*=\s*(\d+)")
_DEVICE_IDS = re.compile(r",\s*device_ids\s*=\s*\(")
_ID_LIST = re.compile(r"\d*(?:\s*,\s*\d+)*")
_BRACKETS = re.compile(r"\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
_TRANSPOSE = re.compile(r"T\s*\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)")


def read_mesh(cursor: HloCursor) -> Mesh:
    """Reads a mesh in the form that `Mesh.to_text` writes."""
    head = cursor.match(_MESH)
    if head is None:
        cursor.fail(codes.ATTRIBUTE_FORM, "expected mesh[ or maximal_mesh[")
    try:
        return _read_maximal(cursor) if head[1] else _read_axes(cursor)
    except ShapeError as error:
        cursor.fail(error.code, error.message)


def _read_maximal(cursor: HloCursor) -> Mesh:
    match = cursor.match(_DEVICE)
    if match is None:
        cursor.fail(codes.ATTRIBUTE_FORM, "expected device_id= in maximal_mesh")
    cursor.expect("]")
    return Mesh.maximal(int64_from_text(match[1]))


def _read_axes(cursor: HloCursor) -> Mesh:
    names: list[str] = []
    sizes: list[int] = []
    for _ in entries(cursor, opening="", closing="]"):
        match = cursor.match(_AXIS)
        if match is None:
            cursor.fail(codes.ATTRIBUTE_FORM, "expected a mesh axis such as 'a'=2")
        names.append(match[1] or match[2] or "")
        sizes.append(int64_from_text(match[3]))
    return Mesh.make(names, sizes, _read_device_ids(cursor))


def _read_device_ids(cursor: HloCursor) -> Iota | tuple[int, ...] | None:
    if cursor.match(_DEVICE_IDS) is None:
        return None
    iota = read_iota(cursor)
    if iota is None:
        match = cursor.match(_ID_LIST)
        devices = integers_from_text(match[0]) if match else ()
        cursor.expect(")")
        return devices
    cursor.expect(")")
    return iota


def read_iota(cursor: HloCursor) -> Iota | None:
    """Reads `[4,2]T(1,0)` or `[8]`; returns None if there is no bracket; raises `ShapeError` if malformed."""
    dims = cursor.match(_BRACKETS)
    if dims is None:
        return None
    sizes = integers_from_text(dims[1])
    perm = cursor.match(_TRANSPOSE)
    if perm is None and len(sizes) > 1:
        cursor.fail(codes.ATTRIBUTE_FORM, "expected T( and a permutation after more than one dimension of device ids")
    return Iota.make(sizes, integers_from_text(perm[1]) if perm else ())


def read_axes(cursor: HloCursor, mesh: Mesh) -> tuple[AxisRef, ...]:
    """Reads `{'a','b':(1)2}`; an axis may be given by its number in quotes."""
    return tuple([read_axis(cursor, mesh) for _ in entries(cursor)])


def read_axis(cursor: HloCursor, mesh: Mesh) -> AxisRef:
    """Reads `'a'` or `'b':(1)2`."""
    match = cursor.match(_REFERENCE)
    if match is None:
        cursor.fail(codes.ATTRIBUTE_FORM, "expected a mesh axis such as 'a' or 'a':(1)2")
    number = _axis_number(cursor, match[1] or match[2] or "", mesh)
    return AxisRef(number, int64_from_text(match[3] or "1"), int64_from_text(match[4]) if match[4] else None)


def _axis_number(cursor: HloCursor, name: str, mesh: Mesh) -> int:
    if name in mesh.axis_names:
        return mesh.axis_names.index(name)
    number = int(name) if name.isdigit() and len(name) < 10 else len(mesh.axis_names)
    if number >= len(mesh.axis_names):
        cursor.fail(codes.MESH_AXIS_NAME, f"{name!r} is not an axis of {mesh.to_text()}")
    return number


def _join(values: Sequence[int]) -> str:
    return ",".join(map(str, values))

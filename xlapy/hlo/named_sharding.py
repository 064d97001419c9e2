"""Shardings over named mesh axes: `{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}], replicated={'z'}}`.

Responsible for `NamedSharding`, `DimensionSharding` and their text. Does not depend on instructions. Meshes are
defined in `xlapy.opcodes.attributes.mesh`.
Source: the named (mesh-based) shardings of HLO text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.hlo.metadata import METADATA, OpMetadata
from xlapy.opcodes.attributes.codecs import entries
from xlapy.opcodes.attributes.mesh import (
    AxisRef,
    Mesh,
    check_axes,
    check_disjoint,
    read_axes,
    read_axis,
    read_mesh,
)

Axes = tuple[AxisRef, ...]

_WORD = re.compile(r"(replicated|unreduced|manual)\b(\s*=)?")
_REDUCTION = re.compile(r"(?:sum|max|min)\b")
_METADATA = re.compile(r",\s*metadata\s*=")
_BRACE = re.compile(r"(?=\{)")
_LIST = re.compile(r"\{(?=\s*[{}])")


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The mesh axes that split one dimension, major first. An open dimension (`?`) may be split further."""

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True

    def to_text(self, mesh: Mesh) -> str:
        parts = [*(axis.to_text(mesh) for axis in self.axes), *([] if self.is_closed else ["?"])]
        return f"{{{', '.join(parts)}}}"


class NamedForm(Enum):
    """The form of the text after the mesh."""

    DIMENSIONS = "dimensions"
    REPLICATED = "replicated"
    UNREDUCED = "unreduced"
    MANUAL = "manual"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """The sharding of an array over the axes of a mesh. `reduction` of unreduced axes is sum, max or min."""

    mesh: Mesh
    form: NamedForm = NamedForm.DIMENSIONS
    dimensions: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    reduction: str = "sum"
    metadata: tuple[OpMetadata, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether each device holds the whole value, or the program itself says which part (manual axes)."""
        if self.form is NamedForm.DIMENSIONS:
            return not self.unreduced_axes and not any(dimension.axes for dimension in self.dimensions)
        return self.form is not NamedForm.UNREDUCED

    def to_text(self, metadata: bool = True) -> str:
        """The text without the outer braces."""
        parts = [self.mesh.to_text(), *self._form_texts()]
        if metadata and self.metadata:
            parts.append(f"metadata={{{', '.join(map(METADATA.write, self.metadata))}}}")
        return ", ".join(parts)

    def _form_texts(self) -> list[str]:
        if self.form is NamedForm.DEVICE:
            return []
        reduction = "" if self.reduction == "sum" else self.reduction
        if self.form is NamedForm.UNREDUCED:
            names = self._axes(self.unreduced_axes) if self.unreduced_axes else ""
            return [f"unreduced{'=' if reduction or names else ''}{reduction}{names}"]
        if self.form is not NamedForm.DIMENSIONS:
            return [self.form.value]
        parts = [f"[{', '.join(dimension.to_text(self.mesh) for dimension in self.dimensions)}]"]
        named = (("replicated", self.replicated_axes), ("unreduced", self.unreduced_axes), ("manual", self.manual_axes))
        for name, axes in named:
            if axes:
                parts.append(f"{name}={reduction if name == 'unreduced' else ''}{self._axes(axes)}")
        return parts

    def _axes(self, axes: tuple[AxisRef, ...]) -> str:
        return f"{{{', '.join(axis.to_text(self.mesh) for axis in axes)}}}"


def read_named(cursor: HloCursor) -> NamedSharding:
    """Reads a named sharding from its mesh to its closing brace."""
    return read_named_over(cursor, read_mesh(cursor))


def read_named_over(cursor: HloCursor, mesh: Mesh) -> NamedSharding:
    """Reads a named sharding over a mesh: what follows the mesh, to the closing brace."""
    if not mesh.axis_names and mesh.devices:
        return NamedSharding(mesh, NamedForm.DEVICE, metadata=_read_end(cursor))
    cursor.accept(",")
    word = cursor.match(_WORD)
    if word is None:
        return _read_dimensions(cursor, mesh)
    form = NamedForm(word[1])
    reduction = "sum"
    axes: Axes = ()
    if form is NamedForm.UNREDUCED and word[2]:
        reduction, axes = _read_unreduced(cursor, mesh)
    return NamedSharding(mesh, form, unreduced_axes=axes, reduction=reduction, metadata=_read_end(cursor))


def _read_unreduced(cursor: HloCursor, mesh: Mesh) -> tuple[str, tuple[AxisRef, ...]]:
    match = cursor.match(_REDUCTION)
    if match is None:
        return "sum", _read_checked(cursor, mesh)
    return match[0], _read_checked(cursor, mesh) if cursor.match(_BRACE) else ()


def _read_checked(cursor: HloCursor, mesh: Mesh) -> tuple[AxisRef, ...]:
    axes = read_axes(cursor, mesh)
    _check(cursor, mesh, axes)
    return axes


def _check(
    cursor: HloCursor,
    mesh: Mesh,
    axes: Sequence[AxisRef],
    check: Callable[[Sequence[AxisRef], Mesh], None] = check_axes,
) -> None:
    try:
        check(axes, mesh)
    except ShapeError as error:
        cursor.fail(error.code, error.message)


def _read_dimensions(cursor: HloCursor, mesh: Mesh) -> NamedSharding:
    dimensions = [_read_dimension(cursor, mesh) for _ in entries(cursor, "[", "]")]
    axes: dict[str, tuple[AxisRef, ...]] = {}
    reduction = "sum"
    metadata: tuple[OpMetadata, ...] = ()
    while not cursor.accept("}"):
        if cursor.match(_METADATA):
            metadata = read_metadata_list(cursor)
            continue
        cursor.expect(",")
        word = cursor.match(_WORD)
        if word is None or not word[2]:
            cursor.fail(text_codes.TOKEN, "expected replicated=, unreduced=, manual= or metadata=")
        if word[1] in axes:
            cursor.fail(text_codes.REPEATED_KEY, f"{word[1]}= is given twice")
        if word[1] == "unreduced":
            reduction, axes[word[1]] = _read_unreduced(cursor, mesh)
        else:
            axes[word[1]] = _read_checked(cursor, mesh)
    _check(
        cursor,
        mesh,
        [axis for listed in (*(d.axes for d in dimensions), *axes.values()) for axis in listed],
        check_disjoint,
    )
    replicated, unreduced, manual = (axes.get(word, ()) for word in ("replicated", "unreduced", "manual"))
    form = NamedForm.DIMENSIONS if dimensions else short_form(mesh, replicated, unreduced, manual)
    if form is not NamedForm.DIMENSIONS:
        return NamedSharding(mesh, form, reduction=reduction, metadata=metadata)
    return NamedSharding(mesh, form, tuple(dimensions), replicated, unreduced, manual, reduction, metadata)


def short_form(mesh: Mesh, replicated: Axes, unreduced: Axes, manual: Axes) -> NamedForm:
    """The form of a sharding without dimensions.

    It is REPLICATED without any axes, UNREDUCED or MANUAL if all axes of the mesh are so, else DIMENSIONS.
    """
    every = tuple(AxisRef(number) for number in range(len(mesh.axis_names)))
    if not (replicated or unreduced or manual):
        return NamedForm.REPLICATED
    if unreduced == every and not (replicated or manual):
        return NamedForm.UNREDUCED
    return NamedForm.MANUAL if manual == every and not (replicated or unreduced) else NamedForm.DIMENSIONS


def _read_dimension(cursor: HloCursor, mesh: Mesh) -> DimensionSharding:
    axes: list[AxisRef] = []
    closed = True
    cursor.expect("{")
    while not cursor.accept("}"):
        if axes or not closed:
            cursor.expect(",")
        if not closed:
            cursor.fail(annotation_codes.SHARDING_PARTS, "nothing may follow ? in a dimension's sharding")
        if cursor.accept("?"):
            closed = False
        else:
            axes.append(read_axis(cursor, mesh))
    _check(cursor, mesh, axes)
    return DimensionSharding(tuple(axes), closed)


def _read_end(cursor: HloCursor) -> tuple[OpMetadata, ...]:
    metadata = read_metadata_list(cursor) if cursor.match(_METADATA) else ()
    cursor.expect("}")
    return metadata


def read_metadata_list(cursor: HloCursor) -> tuple[OpMetadata, ...]:
    """Reads `{op_name="a"}` or `{{op_name="a"}, {op_name="b"}}`."""
    if cursor.match(_LIST) is None:
        return (METADATA.read(cursor),)
    return tuple([METADATA.read(cursor) for _ in entries(cursor, opening="")])

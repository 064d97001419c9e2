"""Arrays of elements in the scratch memory of a kernel."""

from __future__ import annotations

from xlapy.base.element_types import PrimitiveType
from xlapy.loops import I1, I8, Affine, Buffer, Builder, Value
from xlapy.lower import ComplexElement, Element, register_type
from xlapy.lower.core import flatten_elements


class ScratchArray:
    """Elements in scratch memory in the form in which registers hold them; PRED as bytes.

    The real parts of complex elements come first, then their imaginary parts.
    """

    def __init__(self, builder: Builder, name: str, t: PrimitiveType, size: int) -> None:
        kind = register_type(t)
        self._builder = builder
        self._type = t
        self._size = size
        self._is_bit = kind is I1
        parts = 2 if t.is_complex else 1
        self.buffer: Buffer = builder.scratch(name, I8 if self._is_bit else kind, size * parts)

    def load(self, offset: Affine) -> Element:
        if self._type.is_complex:
            return ComplexElement(self._load_part(offset), self._load_part(offset + self._size))
        return self._load_part(offset)

    def store(self, offset: Affine, element: Element) -> None:
        for number, value in enumerate(flatten_elements([element])):
            stored = self._builder.convert("zext", value, I8) if self._is_bit else value
            self._builder.store(self.buffer, offset + number * self._size, stored)

    def transpose(
        self,
        source: Affine,
        source_pitch: int,
        target: ScratchArray,
        target_offset: Affine,
        target_pitch: int,
        extents: tuple[int | Value, int | Value],
    ) -> None:
        """Copies the rows of a matrix to columns of a matrix in `target`: see `Builder.transpose`."""
        for part in range(2 if self._type.is_complex else 1):
            begin, end = source + part * self._size, target_offset + part * target._size
            self._builder.transpose((self.buffer, begin), source_pitch, (target.buffer, end), target_pitch, extents)

    def _load_part(self, offset: Affine) -> Value:
        value = self._builder.load(self.buffer, offset)
        return self._builder.compare("ne", value, self._builder.zero(I8)) if self._is_bit else value

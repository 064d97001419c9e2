"""`Shape`: the shape of an array, tuple, token, opaque object or buffer, and its text.

Source: docs/shapes.md of XLA; the text is that of XLA's parser and printer. Does not depend on values or instructions.
"""

from __future__ import annotations

from builtins import tuple as _tuple  # inside the class, `tuple` is Shape.tuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from xlapy.base.arguments.arrays import array_argument
from xlapy.base.arguments.checking import checked_class
from xlapy.base.cursor import Cursor
from xlapy.base.element_types import BUFFER, OPAQUE_TYPE, TOKEN, TUPLE, PrimitiveType
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.layout import Layout, read_layout
from xlapy.base.shape_fields import DEFAULT, MAX_TUPLE_DEPTH, DefaultLayout, check_array_fields, check_tuple
from xlapy.base.shape_syntax import (
    BUFFER_START,
    LAYOUT_AHEAD,
    MAX_PLAIN_ARRAY_CHARACTERS,
    PLAIN_ARRAY,
    TYPE_WORD,
    TYPES_BY_WORD,
    layout_follows,
    read_sizes,
    size_text,
)

_MAX_CACHED_SHAPES = 1 << 12
"""Entries of each cache of shapes. A full cache is emptied, so that its memory stays bounded."""
_MAX_CACHED_CHARACTERS = 64
"""Shapes inside a longer text are cached if their own text is at most this long."""

_set = object.__setattr__
Ints: TypeAlias = tuple[int, ...]
Shapes: TypeAlias = "tuple[Shape, ...]"
Leaf: TypeAlias = "tuple[Ints, Shape]"


@checked_class
class Shape:
    """An immutable shape, made by `array`, `scalar`, `tuple`, `token`, `opaque`, `buffer`, `of` or `parse`.

    element_type: TUPLE, TOKEN, OPAQUE_TYPE or BUFFER if the shape is not an array. dimensions: sizes in elements; the
    bound of a dynamic dimension, or UNBOUNDED. dynamic_dimensions: one bool each. layout: None if not assigned.
    tuple_shapes: shapes of a tuple's elements. buffer_shape: shape of the array in a buffer. node_count: 1, plus those
    of a tuple's elements. `==` compares layouts, too; `compatible` does not.

    >>> xla.Shape.parse("f32[2,3]")
    Shape.parse('f32[2,3]{1,0}')
    """

    __slots__ = (
        "_depth",
        "_hash",
        "_size",
        "_text",
        "_text_without_layout",
        "buffer_shape",
        "dimensions",
        "dynamic_dimensions",
        "element_type",
        "is_dynamic",
        "layout",
        "node_count",
        "tuple_shapes",
    )

    element_type: PrimitiveType
    dimensions: Ints
    dynamic_dimensions: _tuple[bool, ...]
    layout: Layout | None
    tuple_shapes: Shapes
    buffer_shape: Shape | None
    is_dynamic: bool
    node_count: int
    _hash: int
    _size: int
    _depth: int
    _text: str | None
    _text_without_layout: str | None

    def __init__(self) -> None:
        raise InvalidArgumentError(call_codes.CONSTRUCTION, "make a Shape with Shape.array, tuple, of or parse")

    # -- making shapes

    @staticmethod
    def array(
        element_type: PrimitiveType,
        dimensions: Iterable[int] = (),
        dynamic_dimensions: Iterable[bool] | None = None,
        layout: Layout | DefaultLayout | None = DEFAULT,
    ) -> Shape:
        """The shape of an array; row-major by default, without a layout if `layout` is None.

        Raises ShapeError for negative or too large sizes, and for a layout or dynamic flags of another rank.
        """
        sizes = tuple(dimensions)
        flags = None if dynamic_dimensions is None else tuple(dynamic_dimensions)
        key = (element_type, sizes, flags, layout)
        found = _ARRAY_SHAPES.get(key)
        if found is None:
            sizes, dynamic, chosen, size = check_array_fields(element_type, sizes, flags, layout)
            found = _new(element_type, sizes, dynamic, chosen, (), None, size=size)
            _store(_ARRAY_SHAPES, key, found)
        return found

    @staticmethod
    def scalar(element_type: PrimitiveType) -> Shape:
        """The rank-0 array of `element_type`."""
        return Shape.array(element_type, ())

    @staticmethod
    def tuple(shapes: Iterable[Shape] = ()) -> Shape:
        """The shape of a tuple. Raises ShapeError above MAX_TUPLE_DEPTH levels or MAX_TUPLE_NODES elements in all."""
        elements = _tuple(shapes)
        check_tuple([shape._depth for shape in elements], sum(shape.node_count for shape in elements))
        return _new(TUPLE, (), (), None, elements, None)

    @staticmethod
    def token() -> Shape:
        """The shape of a token, a value that orders side effects and holds no data."""
        return _TOKEN

    @staticmethod
    def opaque() -> Shape:
        """The shape of an object that only custom calls use."""
        return _OPAQUE

    @staticmethod
    def buffer(shape: Shape) -> Shape:
        """The shape of a buffer that holds an array, printed `b(f32[2])`. Raises ShapeError for other shapes."""
        if not shape.is_array:
            raise ShapeError(codes.BUFFER_SHAPE, f"a buffer holds an array, not {shape.to_text(layout=False)}")
        return _new(BUFFER, (), (), None, (), shape)

    @staticmethod
    def of(array: Any) -> Shape:
        """The row-major shape of a NumPy array or scalar."""
        values = array_argument(array, "Shape.of", "array")
        return Shape.array(PrimitiveType.from_dtype(values.dtype), values.shape)

    @staticmethod
    def parse(text: str) -> Shape:
        """Parses the text of a shape; without a layout in the text the shape is row-major. Raises ParseError."""
        return parse_shape(text)

    # -- properties

    @property
    def is_array(self) -> bool:
        return self.element_type.is_array

    @property
    def is_tuple(self) -> bool:
        return self.element_type is TUPLE

    @property
    def is_token(self) -> bool:
        return self.element_type is TOKEN

    @property
    def is_opaque(self) -> bool:
        return self.element_type is OPAQUE_TYPE

    @property
    def is_buffer(self) -> bool:
        return self.element_type is BUFFER

    @property
    def is_scalar(self) -> bool:
        """Whether this is an array of rank 0."""
        return not self.dimensions and self.element_type.is_array

    @property
    def is_static(self) -> bool:
        """Whether no dimension is dynamic, in no element of a tuple either."""
        return not self.is_dynamic

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 if the shape is not an array."""
        return len(self.dimensions)

    @property
    def size(self) -> int:
        """Number of elements, dynamic dimensions at their bounds. Raises ShapeError if there is no such number."""
        if self._size < 0:
            self._require_array("element count")
            raise ShapeError(codes.BOUNDED_DIMENSIONS, f"{self.to_text(layout=False)} is unbounded: it has no size")
        return self._size

    @property
    def byte_size(self) -> int:
        """Bytes of the elements, unpacked unless the layout sets element_size_in_bits; the sum over a tuple."""
        if self.is_array:
            bits = self.layout.element_size_in_bits if self.layout is not None else 0
            return (self.size * bits + 7) // 8 if bits else self.size * self.element_type.byte_size
        if self.buffer_shape is not None:
            return self.buffer_shape.byte_size
        return sum(shape.byte_size for shape in self.tuple_shapes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements. Raises ShapeError if the shape is not an array."""
        dtype = self.element_type.dtype
        if dtype is None:
            raise ShapeError(codes.ARRAY_SHAPE, f"{self.to_text(layout=False)} is not an array, so it has no dtype")
        return dtype

    def to_text(self, layout: bool = True) -> str:
        """XLA's text: `f32[<=10,3]{1,0}`, `(f32[2]{0}, token[])`. Messages leave out layouts with `layout=False`."""
        slot = "_text" if layout else "_text_without_layout"
        text: str | None = getattr(self, slot)
        if text is None:
            text = _text_of(self, layout)
            _set(self, slot, text)
        return text

    # -- comparing

    def compatible(self, other: Shape) -> bool:
        """Whether both shapes are equal apart from layouts."""
        return _compatible(self, other, ignore_element_type=False)

    def compatible_ignoring_element_type(self, other: Shape) -> bool:
        """Whether both shapes are equal apart from layouts and the element types of arrays."""
        return _compatible(self, other, ignore_element_type=True)

    # -- shapes from this one

    def with_layout(self, layout: Layout | DefaultLayout | None) -> Shape:
        """This array shape with another layout; None removes it."""
        self._require_array("layout")
        return Shape.array(self.element_type, self.dimensions, self.dynamic_dimensions, layout)

    def with_element_type(self, element_type: PrimitiveType) -> Shape:
        """This array shape with another element type and the same layout."""
        self._require_array("element type")
        return Shape.array(element_type, self.dimensions, self.dynamic_dimensions, self.layout)

    def with_dimensions(self, dimensions: Iterable[int], dynamic_dimensions: Iterable[bool] | None = None) -> Shape:
        """This array shape with other sizes, row-major; static unless `dynamic_dimensions` is given."""
        self._require_array("dimensions")
        return Shape.array(self.element_type, dimensions, dynamic_dimensions)

    def without_layout(self) -> Shape:
        """This shape, with no layout on any of its arrays."""
        return self._with_layouts(None)

    def with_default_layout(self) -> Shape:
        """This shape, with all of its arrays row-major and without annotations."""
        return self._with_layouts(DEFAULT)

    def without_element_size(self) -> Shape:
        """This shape, with no element_size_in_bits in its layouts, because literals store unpacked elements."""
        return self._map_layouts(Layout.without_element_size)

    def with_default_order(self) -> Shape:
        """This shape, with all of its arrays in row-major order; tiles and memory spaces are kept."""
        return self._map_layouts(Layout.with_default_order)

    def leaves(self) -> Iterator[Leaf]:
        """(tuple index, shape) of each leaf, in order. A shape that is not a tuple is its own leaf: ((), self)."""
        pending: list[Leaf] = [((), self)]
        while pending:
            path, shape = pending.pop()
            if shape.is_tuple:
                pending.extend(((*path, i), part) for i, part in reversed([*enumerate(shape.tuple_shapes)]))
            else:
                yield path, shape

    def subshape(self, index_path: Iterable[int]) -> Shape:
        """The shape at a tuple index, such as (1, 0) in nested tuples. Raises ShapeError if it does not exist."""
        path, shape = _tuple(index_path), self
        for position in path:
            if not 0 <= position < len(shape.tuple_shapes):
                index = ",".join(map(str, path))
                raise ShapeError(codes.TUPLE_INDEX, f"{self.to_text(layout=False)} has no element at {{{index}}}")
            shape = shape.tuple_shapes[position]
        return shape

    def _with_layouts(self, layout: DefaultLayout | None) -> Shape:
        if self.is_array:
            return self.with_layout(layout)
        if self.buffer_shape is not None:
            return Shape.buffer(self.buffer_shape._with_layouts(layout))
        if self.is_tuple:
            return Shape.tuple(shape._with_layouts(layout) for shape in self.tuple_shapes)
        return self

    def _map_layouts(self, change: Callable[[Layout], Layout]) -> Shape:
        if self.is_array:
            changed = None if self.layout is None else change(self.layout)
            return self if changed is self.layout else self.with_layout(changed)
        if self.buffer_shape is not None:
            return Shape.buffer(self.buffer_shape._map_layouts(change))
        if self.is_tuple:
            return Shape.tuple(shape._map_layouts(change) for shape in self.tuple_shapes)
        return self

    def _require_array(self, what: str) -> None:
        if not self.is_array:
            raise ShapeError(codes.ARRAY_SHAPE, f"{self.to_text(layout=False)} is not an array, so it has no {what}")

    # -- Python's protocols

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Shape is immutable; use with_layout, with_element_type or with_dimensions")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Shape):
            return NotImplemented
        return self._hash == other._hash and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"Shape.parse({self.to_text()!r})"

    def __reduce__(self) -> Any:
        return _new, (*_fields(self), self._size)

    def __copy__(self) -> Shape:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Shape:
        return self


def _fields(shape: Shape) -> tuple[Any, ...]:
    return (
        shape.element_type,
        shape.dimensions,
        shape.dynamic_dimensions,
        shape.layout,
        shape.tuple_shapes,
        shape.buffer_shape,
    )


def _new(
    element_type: PrimitiveType,
    dimensions: tuple[int, ...],
    dynamic_dimensions: tuple[bool, ...],
    layout: Layout | None,
    tuple_shapes: tuple[Shape, ...],
    buffer_shape: Shape | None,
    size: int = -1,
) -> Shape:
    """Makes a shape of fields that were checked before."""
    shape = object.__new__(Shape)
    dynamic = any(dynamic_dimensions) or any(s.is_dynamic for s in tuple_shapes)
    _set(shape, "element_type", element_type)
    _set(shape, "dimensions", dimensions)
    _set(shape, "dynamic_dimensions", dynamic_dimensions)
    _set(shape, "layout", layout)
    _set(shape, "tuple_shapes", tuple_shapes)
    _set(shape, "buffer_shape", buffer_shape)
    _set(shape, "is_dynamic", dynamic or (buffer_shape is not None and buffer_shape.is_dynamic))
    _set(shape, "_hash", hash(_fields(shape)))
    _set(shape, "_depth", max([part._depth for part in tuple_shapes], default=0) + (element_type in (TUPLE, BUFFER)))
    _set(shape, "node_count", 1 + sum(part.node_count for part in tuple_shapes))
    _set(shape, "_size", size)
    _set(shape, "_text", None)
    _set(shape, "_text_without_layout", None)
    return shape


def _store(cache: dict[Any, Shape], key: object, shape: Shape) -> None:
    """Stores a shape in a cache, which is emptied first if it is full."""
    if len(cache) >= _MAX_CACHED_SHAPES:
        cache.clear()
    cache[key] = shape


_ARRAY_SHAPES: dict[Any, Shape] = {}
_SHAPES_BY_TEXT: dict[Any, Shape] = {}
_TOKEN, _OPAQUE = (_new(kind, (), (), None, (), None) for kind in (TOKEN, OPAQUE_TYPE))


def _compatible(left: Shape, right: Shape, ignore_element_type: bool) -> bool:
    """Whether two shapes are equal apart from layouts, and from the element types of arrays if these are ignored."""
    if left is right:
        return True
    same_kind = left.element_type is right.element_type or (ignore_element_type and left.is_array and right.is_array)
    if not same_kind or left.dimensions != right.dimensions or left.dynamic_dimensions != right.dynamic_dimensions:
        return False
    if left.buffer_shape is not None and right.buffer_shape is not None:
        return _compatible(left.buffer_shape, right.buffer_shape, ignore_element_type)
    if len(left.tuple_shapes) != len(right.tuple_shapes):
        return False
    pairs = zip(left.tuple_shapes, right.tuple_shapes, strict=True)
    return all(_compatible(a, b, ignore_element_type) for a, b in pairs)


# -- text


def _text_of(shape: Shape, layout: bool) -> str:
    if shape.is_tuple:
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + s.to_text(layout) for i, s in enumerate(shape.tuple_shapes)
        ]
        return f"({', '.join(parts)})"
    if shape.buffer_shape is not None:
        return f"b({shape.buffer_shape.to_text(layout)})"
    sizes = ",".join(map(size_text, shape.dimensions, shape.dynamic_dimensions))
    # The layout of a scalar is printed only if it has annotations.
    shown = layout and shape.layout is not None and (shape.dimensions or not shape.layout.is_default)
    return f"{shape.element_type.text}[{sizes}]{shape.layout if shown else ''}"


def parse_shape(text: str) -> Shape:
    """Parses the text of a shape; takes it from a cache if it was parsed before. Raises ParseError."""
    found = _SHAPES_BY_TEXT.get(text)
    if found is None:
        cursor = Cursor(text)
        found = _plain_array(text) or read_shape(cursor)
        if cursor.position:
            cursor.expect_end("shape")
        _store(_SHAPES_BY_TEXT, text, found)
    return found


def _plain_array(text: str) -> Shape | None:
    """The shape of a text such as `f32[2,3]{1,0}`; None if it has annotations, dynamic sizes or blanks."""
    match = PLAIN_ARRAY.fullmatch(text)
    if match is None or len(text) > MAX_PLAIN_ARRAY_CHARACTERS:
        return None
    word, sizes, order = match.groups()
    try:
        layout = DEFAULT if order is None else Layout([int(d) for d in order.split(",")])
        return Shape.array(TYPES_BY_WORD[word], [int(s) for s in sizes.split(",")] if sizes else (), None, layout)
    except ShapeError:
        return None  # the slow path reads tokens and opaque objects, and reports errors at their position


def read_shape(cursor: Cursor, depth: int = 0) -> Shape:
    """Reads the shape at the cursor, inside of `depth` other shapes. Raises ParseError."""
    start = cursor.skip()
    if depth > MAX_TUPLE_DEPTH:
        cursor.fail(codes.SHAPE_DEPTH, f"the shape nests deeper than {MAX_TUPLE_DEPTH} levels")
    if cursor.consume(BUFFER_START):
        inner = read_shape(cursor, depth + 1)
        cursor.expect(")", "to end the buffer shape")
        return _make_or_fail(cursor, start, lambda: Shape.buffer(inner))
    if cursor.accept("("):
        return _read_tuple(cursor, depth, start)
    known = PLAIN_ARRAY.match(cursor.text, cursor.skip())
    if known is not None and known[0] in _SHAPES_BY_TEXT and not LAYOUT_AHEAD.match(cursor.text, known.end()):
        cursor.position = known.end()
        return _SHAPES_BY_TEXT[known[0]]
    word = cursor.consume(TYPE_WORD)
    if word is None:
        cursor.fail(text_codes.TOKEN, f"expected a shape, found {cursor.describe_next()}")
    found = _read_array(cursor, TYPES_BY_WORD[word], start)
    if cursor.position - start < _MAX_CACHED_CHARACTERS:
        _store(_SHAPES_BY_TEXT, cursor.text[start : cursor.position], found)
    return found


def _read_tuple(cursor: Cursor, depth: int, start: int) -> Shape:
    elements: list[Shape] = []
    while not cursor.accept(")"):
        if elements:
            cursor.expect(",", "or ')' after a tuple element")
        elements.append(read_shape(cursor, depth + 1))
    return _make_or_fail(cursor, start, lambda: Shape.tuple(elements))


def _read_array(cursor: Cursor, element_type: PrimitiveType, start: int) -> Shape:
    sizes, dynamic = read_sizes(cursor)
    if sizes and not element_type.is_array:
        cursor.fail_at(start, codes.ARRAY_SHAPE, f"{element_type} takes no dimensions")
    if not element_type.is_array:
        return _TOKEN if element_type is TOKEN else _OPAQUE
    layout = read_layout(cursor, len(sizes)) if layout_follows(cursor) else DEFAULT
    return _make_or_fail(cursor, start, lambda: Shape.array(element_type, sizes, dynamic, layout))


def _make_or_fail(cursor: Cursor, start: int, make: Callable[[], Shape]) -> Shape:
    try:
        return make()
    except ShapeError as error:
        cursor.fail_at(start, error.code, error.message)

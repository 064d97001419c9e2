"""`Shape`: the shape of an array, tuple, token, opaque object or buffer, and its text.

Source: docs/shapes.md of XLA; the text is that of XLA's parser and printer. Does not depend on values or instructions.
"""

from __future__ import annotations

import re
from builtins import tuple as _tuple  # inside the class, `tuple` is Shape.tuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from operator import index
from typing import Any, Final, TypeAlias

import numpy as np

from xlapy.base.cursor import Cursor
from xlapy.base.element_types import ALL_TYPES, BUFFER, OPAQUE_TYPE, TOKEN, TUPLE, PrimitiveType
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.layout import Layout, read_layout

MAX_TUPLE_DEPTH = 64
"""Limit on the nesting of tuples and buffers in a shape."""

UNBOUNDED = -(2**63)
"""The size of a dimension printed `?`: dynamic, without an upper bound."""

_INT64_MAX = 2**63 - 1
_MAX_CACHED_SHAPES = 1 << 16
"""Entries of each cache of shapes. A full cache is emptied, so that its memory stays bounded."""
_MAX_CACHED_CHARACTERS = 64
"""Shapes inside a longer text are cached if their own text is at most this long."""
_MAX_FAST_PARSED_CHARACTERS = 4096
"""Longer texts of array shapes take the slow path, which reports errors at their position."""


class _DefaultLayout(Enum):
    DEFAULT = "row-major"


DEFAULT: Final = _DefaultLayout.DEFAULT
"""Stands for the row-major layout of the rank of the shape."""

_set = object.__setattr__
Ints: TypeAlias = tuple[int, ...]
Bools: TypeAlias = tuple[bool, ...]
Shapes: TypeAlias = "tuple[Shape, ...]"
Leaf: TypeAlias = "tuple[tuple[int, ...], Shape]"


class Shape:
    """An immutable shape, made by `array`, `scalar`, `tuple`, `token`, `opaque`, `buffer`, `of` or `parse`.

    element_type: the type of the elements; TUPLE, TOKEN, OPAQUE_TYPE or BUFFER if the shape is not an array.
    dimensions: sizes in elements; the bound of a dynamic dimension, or UNBOUNDED.
    dynamic_dimensions: one bool per dimension. layout: None if it has not been assigned. tuple_shapes: the shapes of a
    tuple's elements. buffer_shape: the shape of the array that a buffer holds. `==` compares everything including
    layouts; `compatible` ignores layouts.
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
        "tuple_shapes",
    )

    element_type: PrimitiveType
    dimensions: Ints
    dynamic_dimensions: Bools
    layout: Layout | None
    tuple_shapes: Shapes
    buffer_shape: Shape | None
    is_dynamic: bool
    _hash: int
    _size: int
    _depth: int
    _text: str | None
    _text_without_layout: str | None

    def __init__(self) -> None:
        raise InvalidArgumentError("make a Shape with Shape.array, scalar, tuple, token, opaque, buffer, of or parse")

    # -- making shapes

    @staticmethod
    def array(
        element_type: PrimitiveType,
        dimensions: Iterable[int] = (),
        dynamic_dimensions: Iterable[bool] | None = None,
        layout: Layout | _DefaultLayout | None = DEFAULT,
    ) -> Shape:
        """The shape of an array; row-major by default, without a layout if `layout` is None.

        Raises ShapeError if a size is negative, the array is too large, or the layout or the dynamic flags have another
        rank.
        """
        sizes = tuple(dimensions)
        flags = None if dynamic_dimensions is None else tuple(dynamic_dimensions)
        key = (element_type, sizes, flags, layout)
        found = _ARRAY_SHAPES.get(key)
        if found is None:
            found = _make_array(element_type, sizes, flags, layout)
            _store(_ARRAY_SHAPES, key, found)
        return found

    @staticmethod
    def scalar(element_type: PrimitiveType) -> Shape:
        """The rank-0 array of `element_type`."""
        return Shape.array(element_type, ())

    @staticmethod
    def tuple(shapes: Iterable[Shape] = ()) -> Shape:
        """The shape of a tuple. Raises ShapeError if it nests deeper than MAX_TUPLE_DEPTH."""
        elements = _tuple(shapes)
        depth = 1 + max((shape._depth for shape in elements), default=0)
        _check_depth(depth)
        return _new(TUPLE, (), (), None, elements, None, depth=depth)

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
            raise ShapeError(f"a buffer holds an array, not {shape.to_text(layout=False)}")
        return _new(BUFFER, (), (), None, (), shape, depth=1)

    @staticmethod
    def of(array: Any) -> Shape:
        """The row-major shape of a NumPy array or scalar."""
        values: np.ndarray[Any, Any] = np.asarray(array)
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
        """Number of elements of an array, with dynamic dimensions at their bounds.

        Raises ShapeError if the shape is not an array or a dimension is unbounded.
        """
        if self._size < 0:
            reason = "has an unbounded dimension" if self.is_array else "is not an array"
            raise ShapeError(f"{self.to_text(layout=False)} {reason}, so it has no element count")
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
            raise ShapeError(f"{self.to_text(layout=False)} is not an array, so it has no dtype")
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
        if self is other:
            return True
        return (
            self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and self.dynamic_dimensions == other.dynamic_dimensions
            and _elements_match(self, other, Shape.compatible)
        )

    def compatible_ignoring_element_type(self, other: Shape) -> bool:
        """Whether both shapes are equal apart from layouts and the element types of arrays."""
        same_kind = (self.is_array and other.is_array) or self.element_type is other.element_type
        return (
            same_kind
            and self.dimensions == other.dimensions
            and self.dynamic_dimensions == other.dynamic_dimensions
            and _elements_match(self, other, Shape.compatible_ignoring_element_type)
        )

    # -- shapes from this one

    def with_layout(self, layout: Layout | _DefaultLayout | None) -> Shape:
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
        return self._map_layouts(_without_element_size)

    def with_default_order(self) -> Shape:
        """This shape, with all of its arrays in row-major order; tiles and memory spaces are kept."""
        return self._map_layouts(_with_default_order)

    def leaves(self) -> Iterator[Leaf]:
        """(tuple index, shape) of each leaf, in order. A shape that is not a tuple is its own leaf: ((), self)."""
        pending: list[Leaf] = [((), self)]
        while pending:
            path, shape = pending.pop()
            if shape.is_tuple:
                last = len(shape.tuple_shapes) - 1
                pending.extend(((*path, last - i), s) for i, s in enumerate(reversed(shape.tuple_shapes)))
            else:
                yield path, shape

    def subshape(self, index_path: Iterable[int]) -> Shape:
        """The shape at a tuple index, such as (1, 0) in nested tuples. Raises ShapeError if it does not exist."""
        path, shape = _tuple(index_path), self
        for position in path:
            if not 0 <= position < len(shape.tuple_shapes):
                raise ShapeError(
                    f"{self.to_text(layout=False)} has no element at tuple index {{{','.join(map(str, path))}}}"
                )
            shape = shape.tuple_shapes[position]
        return shape

    def _with_layouts(self, layout: _DefaultLayout | None) -> Shape:
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
            raise ShapeError(f"{self.to_text(layout=False)} is not an array, so it can have no other {what}")

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
        return _new, (*_fields(self), self._depth, self._size)

    def __copy__(self) -> Shape:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Shape:
        return self


def _without_element_size(layout: Layout) -> Layout:
    return layout.replace(element_size_in_bits=0) if layout.element_size_in_bits else layout


def _with_default_order(layout: Layout) -> Layout:
    order = tuple(range(layout.rank - 1, -1, -1))
    return layout if layout.minor_to_major == order else layout.replace(minor_to_major=order)


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
    depth: int = 0,
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
    _set(shape, "_depth", depth)
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
_TOKEN = _new(TOKEN, (), (), None, (), None)
_OPAQUE = _new(OPAQUE_TYPE, (), (), None, (), None)


def _check_depth(depth: int) -> None:
    if depth > MAX_TUPLE_DEPTH:
        raise ShapeError(f"tuples nest {depth} deep, and {MAX_TUPLE_DEPTH} is the most a shape may have")


def _make_array(
    element_type: PrimitiveType, sizes: Ints, flags: Bools | None, layout: Layout | _DefaultLayout | None
) -> Shape:
    if not element_type.is_array:
        raise ShapeError(f"{element_type} is not the element type of an array")
    try:
        sizes = tuple([index(size) for size in sizes])
    except TypeError as error:
        raise ShapeError(f"{element_type}{list(sizes)}: dimension sizes must be integers") from error
    dynamic = (False,) * len(sizes) if flags is None else tuple([bool(flag) for flag in flags])
    if len(dynamic) != len(sizes):
        raise ShapeError(f"{element_type}{list(sizes)}: {len(sizes)} dimensions, but {len(dynamic)} dynamic flags")
    size = _element_count(element_type, sizes, dynamic)
    chosen = Layout.default(len(sizes)) if isinstance(layout, _DefaultLayout) else layout
    if chosen is not None and chosen.rank != len(sizes):
        raise ShapeError(
            f"{element_type}{list(sizes)}: the shape has {len(sizes)} dimensions, "
            f"but its layout {chosen} orders {chosen.rank}"
        )
    return _new(element_type, sizes, dynamic, chosen, (), None, size=size)


def _element_count(element_type: PrimitiveType, sizes: Ints, dynamic: Bools) -> int:
    """The product of the sizes, or -1 if one is unbounded."""
    unbounded = False
    for number, (size, is_dynamic) in enumerate(zip(sizes, dynamic, strict=True)):
        if size == UNBOUNDED and is_dynamic:
            unbounded = True
        elif not 0 <= size <= _INT64_MAX:
            raise ShapeError(f"{element_type}{list(sizes)}: dimension {number} has the size {size}")
    if unbounded:
        return -1
    count = bounded_product(sizes)
    if count * max(element_type.byte_size, 1) > _INT64_MAX:
        shown = f"{count} elements" if count <= _INT64_MAX else "more than 2**63 elements"
        raise ShapeError(
            f"{element_type}{list(sizes)}: {shown} of {element_type.byte_size} bytes do not fit in a 64-bit byte count"
        )
    return count


def bounded_product(sizes: Sequence[int]) -> int:
    """The product of sizes >= 0; some number above 2**63 - 1 if the product is larger than that.

    Multiplication stops there, so that a text with very many sizes does not take long.
    """
    if 0 in sizes:
        return 0
    product = 1
    for size in sizes:
        product *= size
        if product > _INT64_MAX:
            break
    return product


def _elements_match(left: Shape, right: Shape, agree: Callable[[Shape, Shape], bool]) -> bool:
    """Whether tuple elements and buffer contents of both shapes correspond, as `agree` compares them."""
    if len(left.tuple_shapes) != len(right.tuple_shapes):
        return False
    if left.buffer_shape is not None and right.buffer_shape is not None:
        return agree(left.buffer_shape, right.buffer_shape)
    return all(agree(a, b) for a, b in zip(left.tuple_shapes, right.tuple_shapes, strict=True))


# -- text


def _text_of(shape: Shape, layout: bool) -> str:
    if shape.is_tuple:
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + s.to_text(layout) for i, s in enumerate(shape.tuple_shapes)
        ]
        return f"({', '.join(parts)})"
    if shape.buffer_shape is not None:
        return f"b({shape.buffer_shape.to_text(layout)})"
    sizes = ",".join(map(_size_text, shape.dimensions, shape.dynamic_dimensions))
    # The layout of a scalar is printed only if it has annotations.
    shown = layout and shape.layout is not None and (shape.dimensions or not shape.layout.is_default)
    return f"{shape.element_type.text}[{sizes}]{shape.layout if shown else ''}"


def _size_text(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size == UNBOUNDED else f"<={size}"


_TYPE_WORDS = {t.text: t for t in ALL_TYPES if t.is_array or t in (TOKEN, OPAQUE_TYPE)}
_TYPE_PATTERN = "|".join(sorted(_TYPE_WORDS, key=len, reverse=True))

SHAPE_PATTERN: str = rf"(?:{_TYPE_PATTERN})\s*\[[\d,<=?\s]*\](?:\s*\{{\s*[\d:][^{{}}]*\}})?"
"""Matches the shape of an array, token or opaque object with its layout: `f32[2,<=3]{1,0:T(8)}`, `token[]`.

As in XLA, a brace opens a layout only if an integer or a colon follows. Users put a word boundary before the pattern.
"""

_PLAIN = re.compile(rf"({_TYPE_PATTERN})\[((?:\d+(?:,\d+)*)?)\](?:\{{(\d+(?:,\d+)*)\}})?")
_TYPE = re.compile(rf"(?:{_TYPE_PATTERN})(?![\w.\-])")
_LAYOUT_AHEAD = re.compile(r"[ \t\r\n]*+[{/]")
_LAYOUT_STARTS = re.compile(r"\{(?:[ \t\r\n]++|/\*.*?\*/)*+[-\d:]", re.DOTALL)


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


def read_shape(cursor: Cursor) -> Shape:
    """Reads the shape at the cursor. Raises ParseError."""
    return _read_nested_shape(cursor, 0)


def _plain_array(text: str) -> Shape | None:
    """The shape of a text such as `f32[2,3]{1,0}`; None if it has annotations, dynamic sizes or blanks."""
    match = _PLAIN.fullmatch(text)
    if match is None or len(text) > _MAX_FAST_PARSED_CHARACTERS:
        return None
    word, sizes, order = match.groups()
    try:
        layout = DEFAULT if order is None else Layout([int(d) for d in order.split(",")])
        return Shape.array(_TYPE_WORDS[word], [int(s) for s in sizes.split(",")] if sizes else (), None, layout)
    except ShapeError:
        return None  # the slow path reads tokens and opaque objects, and reports errors at their position


def _read_nested_shape(cursor: Cursor, depth: int) -> Shape:
    start = cursor.skip()
    if depth > MAX_TUPLE_DEPTH:
        cursor.fail(f"the shape nests deeper than {MAX_TUPLE_DEPTH} levels")
    if cursor.consume(_BUFFER):
        inner = _read_nested_shape(cursor, depth + 1)
        cursor.expect(")", "to end the buffer shape")
        return _make_or_fail(cursor, start, lambda: Shape.buffer(inner))
    if cursor.accept("("):
        return _read_tuple(cursor, depth, start)
    known = _PLAIN.match(cursor.text, cursor.skip())
    if known is not None and known[0] in _SHAPES_BY_TEXT and not _LAYOUT_AHEAD.match(cursor.text, known.end()):
        cursor.position = known.end()
        return _SHAPES_BY_TEXT[known[0]]
    word = cursor.consume(_TYPE)
    if word is None:
        cursor.fail(f"expected a shape, found {cursor.describe_next()}")
    found = _read_array(cursor, _TYPE_WORDS[word], start)
    if cursor.position - start < _MAX_CACHED_CHARACTERS:
        _store(_SHAPES_BY_TEXT, cursor.text[start : cursor.position], found)
    return found


_BUFFER = re.compile(r"b\s*\(")


def _read_tuple(cursor: Cursor, depth: int, start: int) -> Shape:
    elements: list[Shape] = []
    while not cursor.accept(")"):
        if elements:
            cursor.expect(",", "or ')' after a tuple element")
        elements.append(_read_nested_shape(cursor, depth + 1))
    return _make_or_fail(cursor, start, lambda: Shape.tuple(elements))


def _read_array(cursor: Cursor, element_type: PrimitiveType, start: int) -> Shape:
    sizes, dynamic = _read_sizes(cursor)
    if not element_type.is_array:
        if sizes:
            cursor.fail_at(start, f"{element_type} takes no dimensions")
        return _TOKEN if element_type is TOKEN else _OPAQUE
    layout = read_layout(cursor, len(sizes)) if _layout_follows(cursor) else DEFAULT
    return _make_or_fail(cursor, start, lambda: Shape.array(element_type, sizes, dynamic, layout))


def _layout_follows(cursor: Cursor) -> bool:
    """Whether the next brace opens a layout: an integer or a colon follows it. Otherwise it opens a body."""
    return _LAYOUT_STARTS.match(cursor.text, cursor.skip()) is not None


def _read_sizes(cursor: Cursor) -> tuple[list[int], list[bool]]:
    sizes: list[int] = []
    dynamic: list[bool] = []
    cursor.expect("[", "after the element type")
    while not cursor.accept("]"):
        if sizes:
            cursor.expect(",", "or ']' after a dimension size")
        unbounded = cursor.accept("?")
        bounded = not unbounded and cursor.accept("<=")
        sizes.append(UNBOUNDED if unbounded else _read_size(cursor))
        dynamic.append(unbounded or bounded)
    return sizes, dynamic


def _read_size(cursor: Cursor) -> int:
    start = cursor.skip()
    size = cursor.integer("a dimension size")
    if size < 0:
        cursor.fail_at(start, f"a dimension size must be >= 0, not {size}")
    return size


def _make_or_fail(cursor: Cursor, start: int, make: Callable[[], Shape]) -> Shape:
    """The shape that `make` returns; its ShapeError becomes a ParseError at `start`."""
    try:
        return make()
    except ShapeError as error:
        cursor.fail_at(start, str(error))

"""`Layout`: how an array is stored in memory (dimension order, tiles, memory space, further annotations of XLA).

Source: docs/shapes.md and docs/tiled_layout.md of XLA; the text is that of XLA's parser and printer. Does not depend on
shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlapy.base.arguments.checking import checked_class
from xlapy.base.cursor import Cursor
from xlapy.base.element_types import PRIMITIVE_TYPE_INVALID, PrimitiveType
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError

COMBINE_DIMENSION = -(2**63)
"""The tile size printed `*`: the dimension is combined with the next more minor one before tiling."""

_set = object.__setattr__


@checked_class
class Layout:
    """An immutable layout. `==` compares every field.

    minor_to_major: dimension numbers, fastest-varying first; a permutation of 0..rank-1. `{1,0}` is row-major.
    tiles: the sizes of each tile, outermost tile first. tail_padding_alignment_in_elements: the number of elements is
    padded to a multiple of it. index_primitive_type, pointer_primitive_type: integer types of sparse metadata,
    or PRIMITIVE_TYPE_INVALID. element_size_in_bits: 0 stands for the width of the element type. memory_space: 0 is the
    default memory. split_configs: (dimension, split indices) pairs. physical_shape: the `Shape` in memory, or None.
    dynamic_shape_metadata_prefix_bytes: bytes before the data that hold the dynamic sizes.
    Raises ShapeError if the fields contradict each other.

    >>> xla.Layout([0, 1]), xla.Layout.parse("{1,0:T(8,128)}").tiles
    (Layout.parse('{0,1}'), ((8, 128),))
    """

    __slots__ = (
        "_hash",
        "_text",
        "dynamic_shape_metadata_prefix_bytes",
        "element_size_in_bits",
        "index_primitive_type",
        "is_default",
        "memory_space",
        "minor_to_major",
        "physical_shape",
        "pointer_primitive_type",
        "split_configs",
        "tail_padding_alignment_in_elements",
        "tiles",
    )

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...]
    tail_padding_alignment_in_elements: int
    index_primitive_type: PrimitiveType
    pointer_primitive_type: PrimitiveType
    element_size_in_bits: int
    memory_space: int
    split_configs: tuple[tuple[int, tuple[int, ...]], ...]
    physical_shape: object | None
    dynamic_shape_metadata_prefix_bytes: int
    is_default: bool
    _hash: int
    _text: str | None

    def __init__(
        self,
        minor_to_major: Iterable[int],
        tiles: Iterable[Iterable[int]] = (),
        *,
        tail_padding_alignment_in_elements: int = 1,
        index_primitive_type: PrimitiveType = PRIMITIVE_TYPE_INVALID,
        pointer_primitive_type: PrimitiveType = PRIMITIVE_TYPE_INVALID,
        element_size_in_bits: int = 0,
        memory_space: int = 0,
        split_configs: Iterable[tuple[int, Iterable[int]]] = (),
        physical_shape: object | None = None,
        dynamic_shape_metadata_prefix_bytes: int = 0,
    ) -> None:
        _set(self, "minor_to_major", tuple(int(dimension) for dimension in minor_to_major))
        _set(self, "tiles", tuple(tuple(int(size) for size in tile) for tile in tiles))
        _set(self, "tail_padding_alignment_in_elements", int(tail_padding_alignment_in_elements))
        _set(self, "index_primitive_type", index_primitive_type)
        _set(self, "pointer_primitive_type", pointer_primitive_type)
        _set(self, "element_size_in_bits", int(element_size_in_bits))
        _set(self, "memory_space", int(memory_space))
        _set(self, "split_configs", tuple((int(d), tuple(int(i) for i in at)) for d, at in split_configs))
        _set(self, "physical_shape", physical_shape)
        _set(self, "dynamic_shape_metadata_prefix_bytes", int(dynamic_shape_metadata_prefix_bytes))
        _set(self, "_text", None)
        _set(self, "_hash", hash(self._fields()))
        row_major = self.minor_to_major == tuple(range(self.rank - 1, -1, -1))
        _set(self, "is_default", row_major and self._fields()[1:] == _DEFAULT_FIELDS)
        self._check()

    @classmethod
    def default(cls, rank: int) -> Layout:
        """The row-major layout of `rank` dimensions, without annotations."""
        if not 0 <= rank <= MAX_DEFAULT_RANK:
            raise ShapeError(codes.ARRAY_RANK, f"a layout has 0 to {MAX_DEFAULT_RANK} dimensions, not {rank}")
        if rank > _MAX_CACHED_RANK:
            return cls(range(rank - 1, -1, -1))
        while len(_DEFAULT_LAYOUTS) <= rank:
            _DEFAULT_LAYOUTS.append(cls(range(len(_DEFAULT_LAYOUTS) - 1, -1, -1)))
        return _DEFAULT_LAYOUTS[rank]

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Parses a layout such as `{1,0:T(8,128)S(1)}`. Raises ParseError.

        A physical shape (`P(...)`) is an error, as it is for every shape in XLA's parser.
        """
        cursor = Cursor(text)
        layout = read_layout(cursor)
        cursor.expect_end("layout")
        return layout

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.minor_to_major)

    def replace(self, **changes: Any) -> Layout:
        """A copy with the named fields changed."""
        fields = {name: getattr(self, name) for name in _FIELD_NAMES}
        unknown = sorted(changes.keys() - fields.keys())
        if unknown:
            raise InvalidArgumentError(call_codes.CALL_SIGNATURE, f"a layout has no field {unknown[0]!r}")
        return Layout(**(fields | changes))

    def without_element_size(self) -> Layout:
        """This layout without element_size_in_bits."""
        return self.replace(element_size_in_bits=0) if self.element_size_in_bits else self

    def with_default_order(self) -> Layout:
        """This layout in row-major order, with the same annotations."""
        order = tuple(range(self.rank - 1, -1, -1))
        return self if self.minor_to_major == order else self.replace(minor_to_major=order)

    def to_text(self) -> str:
        """XLA's text, such as `{1,0:T(8,128)(2,1)L(4)#(u8)*(u32)E(4)S(1)SC(1:200)M(5)}`. Defaults are not printed."""
        if self._text is None:
            order = ",".join(map(str, self.minor_to_major))
            annotations = _annotations_text(self)
            _set(self, "_text", f"{{{order}:{annotations}}}" if annotations else f"{{{order}}}")
        text = self._text
        assert text is not None
        return text

    def _fields(self) -> tuple[object, ...]:
        return (
            self.minor_to_major,
            self.tiles,
            self.tail_padding_alignment_in_elements,
            self.index_primitive_type,
            self.pointer_primitive_type,
            self.element_size_in_bits,
            self.memory_space,
            self.split_configs,
            self.physical_shape,
            self.dynamic_shape_metadata_prefix_bytes,
        )

    def _check(self) -> None:
        if sorted(self.minor_to_major) != list(range(self.rank)):
            raise ShapeError(
                codes.LAYOUT_ORDER,
                f"layout {self.to_text()}: minor_to_major must be a permutation of 0..{self.rank - 1}, "
                f"but it is ({', '.join(map(str, self.minor_to_major))})",
            )
        for size in (size for tile in self.tiles for size in tile):
            if size < 0 and size != COMBINE_DIMENSION:
                raise ShapeError(
                    codes.LAYOUT_NUMBER,
                    f"layout {self.minor_to_major}: tile sizes must be >= 0, but one is {size}",
                )
        if self.tail_padding_alignment_in_elements < 1:
            raise ShapeError(
                codes.LAYOUT_NUMBER,
                f"layout {self.minor_to_major}: tail_padding_alignment_in_elements must be >= 1, "
                f"but it is {self.tail_padding_alignment_in_elements}",
            )
        for name in ("element_size_in_bits", "dynamic_shape_metadata_prefix_bytes"):
            if getattr(self, name) < 0:
                raise ShapeError(
                    codes.LAYOUT_NUMBER,
                    f"layout {self.minor_to_major}: {name} must be >= 0, not {getattr(self, name)}",
                )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Layout is immutable; use replace()")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Layout):
            return NotImplemented
        return self._hash == other._hash and self._fields() == other._fields()

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"Layout.parse({self.to_text()!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, self._fields()


_FIELD_NAMES = (
    "minor_to_major",
    "tiles",
    "tail_padding_alignment_in_elements",
    "index_primitive_type",
    "pointer_primitive_type",
    "element_size_in_bits",
    "memory_space",
    "split_configs",
    "physical_shape",
    "dynamic_shape_metadata_prefix_bytes",
)
_DEFAULT_FIELDS = ((), 1, PRIMITIVE_TYPE_INVALID, PRIMITIVE_TYPE_INVALID, 0, 0, (), None, 0)
_DEFAULT_LAYOUTS: list[Layout] = []
_MAX_CACHED_RANK = 64
MAX_DEFAULT_RANK = 1 << 20
"""Limit on the rank of a layout that is made of a number alone. Texts and protos list the dimensions."""
"""Default layouts of higher ranks are not cached."""


def _restore(*fields: Any) -> Layout:
    return Layout(**dict(zip(_FIELD_NAMES, fields, strict=True)))


def _annotations_text(layout: Layout) -> str:
    """The text after the colon."""
    parts: list[str] = []
    if layout.tiles:
        parts.append("T" + "".join(f"({','.join(map(_tile_size_text, tile))})" for tile in layout.tiles))
    if layout.tail_padding_alignment_in_elements != 1:
        parts.append(f"L({layout.tail_padding_alignment_in_elements})")
    for mark, type_ in (("#", layout.index_primitive_type), ("*", layout.pointer_primitive_type)):
        if type_ is not PRIMITIVE_TYPE_INVALID:
            parts.append(f"{mark}({type_.text if type_.is_integral else 'invalid'})")
    if layout.element_size_in_bits:
        parts.append(f"E({layout.element_size_in_bits})")
    if layout.memory_space:
        parts.append(f"S({layout.memory_space})")
    if layout.split_configs:
        parts.append("SC" + "".join(f"({d}:{','.join(map(str, at))})" for d, at in layout.split_configs))
    if layout.physical_shape is not None:
        parts.append(f"P({layout.physical_shape})")
    if layout.dynamic_shape_metadata_prefix_bytes > 0:
        parts.append(f"M({layout.dynamic_shape_metadata_prefix_bytes})")
    return "".join(parts)


def _tile_size_text(size: int) -> str:
    return "*" if size == COMBINE_DIMENSION else str(size)


def read_layout(cursor: Cursor, rank: int | None = None) -> Layout:
    """Reads the layout at the cursor. Raises ParseError if `rank` is given and the layout has another rank.

    Annotations must come in the order in which they are printed, each at most once.
    """
    cursor.expect("{", "to start a layout")
    start = cursor.position - 1
    order: list[int] = []
    if not cursor.peek(":") and not cursor.peek("}"):
        order.append(cursor.integer("minor_to_major"))
        while cursor.accept(","):
            order.append(cursor.integer("minor_to_major"))
    if rank is not None and len(order) != rank:
        cursor.fail_at(start, codes.LAYOUT_RANK, f"the shape has {rank} dimensions, but its layout orders {len(order)}")
    fields = _read_annotations(cursor) if cursor.accept(":") else {}
    cursor.expect("}", "to end the layout")
    try:
        return Layout(order, **fields)
    except ShapeError as error:
        cursor.fail_at(start, error.code, error.message)


def _read_annotations(cursor: Cursor) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if cursor.accept_word("D"):  # dimension level types, which XLA reads and drops
        _read_level_types(cursor)
    if cursor.accept_word("T"):
        fields["tiles"] = _read_tiles(cursor)
    if cursor.accept_word("L"):
        fields["tail_padding_alignment_in_elements"] = _read_number(cursor, "tail padding alignment")
    if cursor.accept("#"):
        fields["index_primitive_type"] = _read_type(cursor, "index")
    if cursor.accept("*"):
        fields["pointer_primitive_type"] = _read_type(cursor, "pointer")
    if cursor.accept_word("E"):
        fields["element_size_in_bits"] = _read_number(cursor, "element size in bits")
    if cursor.accept_word("S"):
        fields["memory_space"] = _read_number(cursor, "memory space")
    if cursor.accept_word("SC"):
        fields["split_configs"] = _read_split_configs(cursor)
    if cursor.peek("P"):
        cursor.fail(
            codes.DENSE_LAYOUT, "a layout with a physical shape is for sparse arrays only, and HLO text has none"
        )
    if cursor.accept_word("M"):
        # XLA reads a negative prefix and never prints it: a negative number means 0.
        number = _read_number(cursor, "dynamic shape metadata prefix bytes")
        fields["dynamic_shape_metadata_prefix_bytes"] = max(number, 0)
    return fields


def _read_number(cursor: Cursor, what: str) -> int:
    cursor.expect("(", f"before the {what}")
    value = cursor.integer(f"the {what}")
    cursor.expect(")", f"after the {what}")
    return value


def _read_type(cursor: Cursor, what: str) -> PrimitiveType:
    cursor.expect("(", f"before the {what} type")
    start = cursor.skip()
    word = cursor.word(f"an integer type for the {what} type")
    try:
        result = PrimitiveType.from_text(word)
    except InvalidArgumentError:
        cursor.fail_at(start, codes.LAYOUT_INDEX_TYPE, f"expected an integer type for the {what} type, found {word!r}")
    if not result.is_integral:
        cursor.fail_at(
            start, codes.LAYOUT_INDEX_TYPE, f"the {what} type of a layout must be an integer type, not {result}"
        )
    cursor.expect(")", f"after the {what} type")
    return result


def _read_tiles(cursor: Cursor) -> list[list[int]]:
    tiles: list[list[int]] = []
    while not tiles or cursor.peek("("):
        cursor.expect("(", "to start a tile")
        tile: list[int] = []
        while not cursor.accept(")"):
            if tile:
                cursor.expect(",", "between the sizes of a tile")
            tile.append(COMBINE_DIMENSION if cursor.accept("*") else cursor.integer("a tile size"))
        tiles.append(tile)
    return tiles


def _read_split_configs(cursor: Cursor) -> list[tuple[int, list[int]]]:
    configs: list[tuple[int, list[int]]] = []
    while not configs or cursor.peek("("):
        cursor.expect("(", "to start a split configuration")
        dimension = cursor.integer("the dimension of a split")
        cursor.expect(":", "after the dimension of a split")
        indices: list[int] = []
        while not cursor.accept(")"):
            if indices:
                cursor.expect(",", "between split indices")
            indices.append(cursor.integer("a split index"))
        configs.append((dimension, indices))
    return configs


_LEVEL_TYPES = "a dimension level type (D, C, S or H)"


def _read_level_types(cursor: Cursor) -> None:
    cursor.expect("(", "to start the dimension level types")
    first = True
    while not cursor.accept(")"):
        if not first:
            cursor.expect(",", "between dimension level types")
        first = False
        start = cursor.skip()
        if cursor.word(_LEVEL_TYPES) not in ("D", "C", "S", "H"):
            cursor.fail_at(start, text_codes.TOKEN, f"expected {_LEVEL_TYPES}")
        cursor.accept("+")
        cursor.accept("~")

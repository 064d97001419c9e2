"""`Literal`: a value on the host, such as a constant of HLO, an argument or a result.

`literal_parser` parses the text of literals. Does not depend on instructions.
"""

from __future__ import annotations

import math
import sys
from builtins import tuple as _tuple  # inside the class, `tuple` is Literal.tuple
from collections.abc import Iterable
from typing import Any, TypeAlias, cast

import numpy as np

from xlapy.base.arguments.checking import checked_class
from xlapy.base.element_types import C64, F32, PRED, S32, Array, PrimitiveType, as_dtype
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.literal_text import array_text
from xlapy.base.shape import Shape

_set = object.__setattr__
Literals: TypeAlias = "tuple[Literal, ...]"


MAX_RANK = 64
"""Limit on the rank of a NumPy array."""


def check_numpy_limits(shape: Shape) -> None:
    """Raises ShapeError if NumPy has no array of this shape.

    NumPy limits the rank, and the byte size of an empty array as if its dimensions of size 0 had size 1.
    """
    if shape.rank > MAX_RANK:
        raise ShapeError(
            codes.ARRAY_RANK,
            f"{shape.to_text(layout=False)} has {shape.rank} dimensions; a value has at most {MAX_RANK}",
        )
    if not shape.size and math.prod(d for d in shape.dimensions if d) * shape.dtype.itemsize >= 2**63:
        raise ShapeError(
            codes.ARRAY_BYTES,
            f"{shape.to_text(layout=False)} has no elements, but its other sizes multiply to more than 64 bits hold",
        )


@checked_class
class Literal:
    """An immutable value: an array, a tuple of literals, or a token.

    array: the elements, a read-only NumPy array of dtype `shape.dtype`, in logical (row-major) order for every layout.
    elements: the elements of a tuple. is_elided: the literal was read from text with `...` in place of its elements,
    which are all zero therefore.

    `==` compares shapes without their layouts, and elements bit by bit: a NaN equals itself, -0 differs from 0. An
    elided literal equals only itself, because its elements are not known.

    >>> xla.Literal.of([1, 2, 3])
    Literal(s32[3] {1, 2, 3})
    >>> xla.Literal.of(np.float32([0.0])) == xla.Literal.of(np.float32([-0.0]))
    False
    """

    __slots__ = ("_array", "_hash", "elements", "is_elided", "shape")

    shape: Shape
    elements: Literals
    is_elided: bool
    _array: Array | None
    _hash: int | None

    def __init__(self, *_values: object, **_options: object) -> None:
        raise InvalidArgumentError(
            call_codes.CONSTRUCTION,
            "make a Literal with Literal.of, array_of, tuple, token, from_flat, from_bytes or parse_literal",
        )

    # -- making literals

    @staticmethod
    def of(value: Any, element_type: PrimitiveType | None = None) -> Literal:
        """The literal of a NumPy array, a number, nested lists of numbers, or a Python tuple of such values.

        Without `element_type`, NumPy values keep their dtype, and Python values become PRED, S32, F32 or C64.
        Raises InvalidArgumentError if an integer is out of range of the type, or no element type has the dtype.
        """
        if isinstance(value, Literal):
            return value
        if isinstance(value, _tuple):
            return Literal.tuple(Literal.of(item, element_type) for item in value)
        array = _as_array(value)
        wanted = element_type or _natural_type(array, isinstance(value, np.ndarray | np.generic))
        return Literal.array_of(_convert(array, wanted))

    @staticmethod
    def array_of(array: Array, shape: Shape | None = None) -> Literal:
        """The literal of a NumPy array, of its row-major shape or of `shape`. A writable array is copied.

        Raises InvalidArgumentError if `shape` is not an array shape of the same dtype and (bound) sizes.
        """
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        shape = shape or Shape.of(array)
        if not shape.is_array or array.shape != shape.dimensions or array.dtype != shape.dtype:
            given = f"{array.dtype.name}{list(array.shape)}"
            raise InvalidArgumentError(
                codes.LITERAL_SHAPE,
                f"a NumPy array {given} cannot be a literal of shape {shape.to_text(layout=False)}",
            )
        frozen = not array.flags.writeable and array.base is None
        return _new(shape, array if frozen and array.flags.c_contiguous else np.array(array, order="C"))

    @staticmethod
    def tuple(elements: Iterable[Literal] = ()) -> Literal:
        """The tuple of `elements`."""
        literals = _tuple(elements)
        return _new(Shape.tuple(literal.shape for literal in literals), None, literals)

    @staticmethod
    def token() -> Literal:
        """The value of a token."""
        return _new(Shape.token(), None)

    @staticmethod
    def zeros(shape: Shape) -> Literal:
        """An array of zeros. Raises ShapeError if NumPy has no array of this shape."""
        check_numpy_limits(shape)
        return _new(shape, np.zeros(shape.dimensions, shape.dtype))

    @staticmethod
    def elided(shape: Shape) -> Literal:
        """The literal that `{...}` stands for: an array or a tuple whose elements are not known.

        The arrays are zeros that share one element, because a text can give any shape to constants without elements.
        """
        if shape.is_tuple:
            return _new(shape, None, _tuple(Literal.elided(element) for element in shape.tuple_shapes))
        if shape.is_token:
            return Literal.token()
        check_numpy_limits(shape)
        return _new(shape, np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions), elided=True)

    @staticmethod
    def from_flat(shape: Shape, values: Array) -> Literal:
        """The array literal of a vector that holds the elements in the order of `shape.layout`."""
        if values.size != shape.size:
            raise InvalidArgumentError(
                codes.LITERAL_SHAPE, f"{values.size} elements for a literal of {shape.to_text(layout=False)}"
            )
        order = _axis_order(shape)
        stored = values.astype(shape.dtype, copy=False).reshape([shape.dimensions[axis] for axis in order])
        return _new(shape, np.array(stored.transpose(np.argsort(order)), order="C"))

    @staticmethod
    def from_bytes(shape: Shape, data: bytes, packed: bool = False) -> Literal:
        """The inverse of `to_bytes`. Raises InvalidArgumentError if `data` has the wrong length."""
        bits = shape.element_type.bits
        narrow = bits in (1, 2, 4)
        expected = shape.size * shape.element_type.byte_size
        if narrow and packed:
            expected = (shape.size * bits + 7) // 8
        if len(data) != expected:
            raise InvalidArgumentError(
                codes.LITERAL_SHAPE,
                f"a literal of {shape.to_text(layout=False)} takes {expected} bytes, not {len(data)}",
            )
        raw = np.frombuffer(data, np.uint8)
        if narrow:
            raw = _unpack(raw, bits)[: shape.size] if packed else raw & np.uint8((1 << bits) - 1)
        elif shape.element_type is PRED:
            raw = (raw != 0).view(np.uint8)
        return Literal.from_flat(shape, _native(raw.copy().view(shape.dtype)))

    # -- contents

    @property
    def array(self) -> Array:
        """The elements of an array literal, read-only. Raises InvalidArgumentError for tuples and tokens."""
        if self._array is None:
            raise InvalidArgumentError(
                codes.ARRAY_SHAPE,
                f"a literal of shape {self.shape.to_text(layout=False)} has no array of elements",
            )
        return self._array

    def flat(self) -> Array:
        """The elements as a vector in the order of `shape.layout`: fastest-varying dimension first."""
        return self.array.transpose(_axis_order(self.shape)).ravel()

    def to_bytes(self, packed: bool = False) -> bytes:
        """The elements, little-endian, in the order of `shape.layout`.

        An element of 1, 2 or 4 bits takes a byte, as in LiteralProto, with zeros above its own bits; `packed` puts
        several elements into a byte, the first in the lowest bits. s4[3] of 1, 2, -3 gives 01 02 0d, packed 21 0d.
        """
        flat = self.flat()
        bits = self.shape.element_type.bits
        if bits in (1, 2, 4):
            return (_pack(flat, bits) if packed else flat.view(np.uint8) & np.uint8((1 << bits) - 1)).tobytes()
        return _native(flat).tobytes()

    def to_text(self, shape: bool = False, layout: bool = False) -> str:
        """The text inside `constant(...)`, on one line; with `shape`, each array is preceded by its shape.

        All elements are printed; an elided literal prints `{...}`. `parse_shaped_literal` parses the text with `shape`
        and `layout`; without layouts, `s32[1] {0}` is ambiguous.
        """
        if self.shape.is_tuple:
            return f"( {', '.join(element.to_text(shape, layout) for element in self.elements)} )"
        if self.shape.is_token:
            return "token"
        text = "{...}" if self.is_elided else array_text(self.array, self.shape.element_type)
        if not shape:
            return text
        sizes = f"({','.join(map(str, self.shape.dimensions))})" if self.shape.is_dynamic else ""
        return f"{self.shape.to_text(layout)}{sizes} {text}"

    def with_shape(self, shape: Shape) -> Literal:
        """The same elements with a shape that differs in layouts only."""
        if not self.shape.compatible(shape):
            raise InvalidArgumentError(
                codes.LITERAL_SHAPE,
                f"a literal of {self.shape.to_text(layout=False)} cannot have the shape {shape.to_text(layout=False)}",
            )
        elements = _tuple(e.with_shape(s) for e, s in zip(self.elements, shape.tuple_shapes, strict=True))
        return _new(shape, self._array, elements, self.is_elided)

    # -- Python's protocols

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Literal is immutable")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False and dtype is not None and as_dtype(dtype) != self.array.dtype:
            raise ValueError(
                f"a literal of {self.shape.to_text(layout=False)} is not an array of {np.dtype(dtype)} without a copy"
            )
        wanted = as_dtype(dtype)
        return np.array(self.array, dtype=wanted) if copy else np.asarray(self.array, dtype=wanted)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Literal):
            return NotImplemented
        if self.is_elided or other.is_elided or not self.shape.compatible(other.shape):
            return False
        if self._array is None or other._array is None:
            return self.elements == other.elements
        return _bits(self._array) == _bits(other._array)

    def __hash__(self) -> int:
        if self._hash is None:
            content = self.elements if self._array is None else _bits(self._array)
            _set(self, "_hash", id(self) if self.is_elided else hash((self.shape.to_text(layout=False), content)))
        return cast(int, self._hash)

    def __repr__(self) -> str:
        text = self.to_text() if not self.shape.is_array or self.shape.size <= 100 else "{...}"
        return f"Literal({self.shape.to_text(layout=False)} {text})"

    def __reduce__(self) -> Any:
        if self.is_elided:
            return Literal.elided, (self.shape,)  # its one element would be written as often as the shape says
        return _new, (self.shape, self._array, self.elements, False)

    def __copy__(self) -> Literal:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Literal:
        return self


def _new(shape: Shape, array: Array | None, elements: Literals = (), elided: bool = False) -> Literal:
    """Makes a literal of fields that were checked before; `array` becomes read-only and is not copied."""
    literal = object.__new__(Literal)
    if array is not None:
        array.flags.writeable = False
    _set(literal, "shape", shape)
    _set(literal, "_array", array)
    _set(literal, "elements", elements)
    _set(literal, "is_elided", elided)
    _set(literal, "_hash", None)
    return literal


# -- conversions from Python


def _as_array(value: Any) -> Array:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(codes.ARRAY_VALUE, f"{value!r} cannot be converted to an array: {error}") from error
    if array.dtype.kind in "OUSMm":  # objects, text, dates
        raise InvalidArgumentError(codes.ARRAY_VALUE, f"{value!r} cannot be converted to an array of numbers")
    return array


def _natural_type(array: Array, is_numpy: bool) -> PrimitiveType:
    if is_numpy:
        return PrimitiveType.from_dtype(array.dtype)
    by_kind = {"b": PRED, "i": S32, "u": S32, "f": F32, "c": C64}
    if array.dtype.kind not in by_kind:
        return PrimitiveType.from_dtype(array.dtype)
    return by_kind[array.dtype.kind] if array.size else F32


def _convert(array: Array, element_type: PrimitiveType) -> Array:
    """Converts the elements. Raises InvalidArgumentError if a value is out of range of an integral type."""
    if element_type.dtype is None:
        raise InvalidArgumentError(codes.ARRAY_ELEMENT_TYPE, f"{element_type} is not the element type of an array")
    if array.dtype == element_type.dtype:
        return array
    if array.dtype.kind == "c" and not element_type.is_complex:
        raise InvalidArgumentError(codes.VALUE_RANGE, f"complex values do not fit in {element_type}")
    with np.errstate(all="ignore"):
        converted = array.astype(element_type.dtype)
        if element_type.is_integral:
            unchanged = (converted.astype(array.dtype) == array) & ((converted < 0) == (array < 0))
            if not unchanged.all():
                raise InvalidArgumentError(
                    codes.VALUE_RANGE, f"the value {array[~unchanged].ravel()[0]} does not fit in {element_type}"
                )
    return converted


# -- bits and bytes


def _bits(array: Array) -> bytes:
    return array.tobytes()


def _axis_order(shape: Shape) -> list[int]:
    """The dimensions from the slowest to the fastest-varying one in the layout."""
    if shape.layout is None:
        return list(range(shape.rank))
    return list(reversed(shape.layout.minor_to_major))


def _native(array: Array) -> Array:
    """Converts between the byte order of the machine and little-endian order."""
    return array if sys.byteorder == "little" else array.byteswap()


def _pack(flat: Array, bits: int) -> Array:
    """Elements of 1, 2 or 4 bits as bytes that hold several each, the first in the lowest bits."""
    per_byte = 8 // bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat.view(np.uint8) & ((1 << bits) - 1)
    shifted = padded.reshape(-1, per_byte) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8)


def _unpack(raw: Array, bits: int) -> Array:
    """The elements, one per byte, with zeros above their own bits as in ml_dtypes."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((raw[:, None] >> shifts) & np.uint8((1 << bits) - 1)).ravel()

"""MLIR operations, regions, blocks, values, types and attributes as Python objects.

The parser of text and the reader of bytecode produce the same objects, which the import rules consume. The export rules
produce them for the printer and the bytecode writer. Does not depend on how they are written or what HLO they become.

Attributes are plain Python values where Python has a suitable type:

| in MLIR | here |
|---|---|
| `true`, a `BoolAttr` | `bool` |
| `"text"` | `str`; bytes that are not UTF-8 become surrogates (`surrogateescape`) |
| the case of an enum: `LT`, `#stablehlo<comparison_direction LT>` | `str` |
| `[...]` | `tuple` of attributes |
| `{...}` | `dict` from names to attributes |
| `unit` | `Unit()` |
| a type | the type |
| `3 : i64` | `IntegerAttribute` |
| `1.5 : f32` | `FloatAttribute` |
| `@f`, `@f::@g` | `SymbolReference` |
| `dense<...>`, `dense_resource<...>` | `ElementsAttribute` |
| `array<i64: 1, 2>` | `ElementsAttribute` of rank 1, so that rules treat it like `dense<[1, 2]>` |
| `#stablehlo.dot<...>`, `#stablehlo.channel_handle<...>` | `StructAttribute("stablehlo.dot", {...})` |
| `#sdy.sharding<...>` and attributes that are not parsed | `OpaqueAttribute("sdy.sharding", text)` |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape_fields import MAX_ARRAY_RANK, bounded_product, check_tuple

MAX_CONSTANT_RANK = 64
"""The most dimensions of a constant: the limit of NumPy, whose arrays hold the elements."""
MAX_LISTED_SPLAT = 1 << 16
"""The most elements of a splat that are listed one by one. Six characters can describe a splat of 2**63 elements."""
MAX_CALLERS = 256
"""The most callers of a location. Those further away are left out."""
MAX_NAMES = 64
"""The most names of a location. Of more, the innermost ones but the very last are left out."""
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """The element type of a quantized tensor: `real = (stored - zero_point) * scale`.

    `scales` and `zero_points` hold one number for the whole tensor, one per index of the only axis in `axes`, or one
    per block of `block_sizes` along `axes` (sub-channel quantization). In the last case they form an array of the shape
    `scales_shape`, which has the rank of the tensor.
    """

    storage: PrimitiveType
    expressed: PrimitiveType
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    storage_min: int
    storage_max: int
    axes: tuple[int, ...] = ()
    block_sizes: tuple[int, ...] = ()
    scales_shape: tuple[int, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A type is hashed wherever a value has it, and the scales can be many.
        object.__setattr__(self, "_hash", hash((self.storage, self.expressed, self.scales, self.zero_points)))

    def __hash__(self) -> int:
        return self._hash


ElementType: TypeAlias = PrimitiveType | QuantizedType


@dataclass(frozen=True, slots=True)
class IndexType:
    """MLIR's type `index`."""


@dataclass(frozen=True, slots=True)
class NoneType:
    """MLIR's type `none`."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor type such as `tensor<2x?xf32>`. The size None stands for `?`.

    `bounds` holds the encoding `#stablehlo.bounds<?, 4>`: for each dimension the bound of a `?`, else None. It is ()
    for a type without bounds. `encoding` holds any other encoding.

    Raises `ShapeError` if a size or a bound is negative or too large, or if there are not as many bounds as sizes.
    """

    sizes: tuple[int | None, ...]
    element: ElementType | IndexType
    bounds: tuple[int | None, ...] = ()
    encoding: Any = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_sizes(self.sizes)
        if self.bounds:
            _check_sizes(self.bounds)
            if len(self.bounds) != len(self.sizes):
                raise ShapeError(
                    codes.TENSOR_SIZES,
                    f"the bounds have {len(self.bounds)} dimensions, but the tensor has {len(self.sizes)}",
                )
        # An encoding may be a dictionary, which has no hash.
        object.__setattr__(self, "_hash", hash((self.sizes, self.element, self.bounds)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return None not in self.sizes


def _check_sizes(sizes: Sequence[int | None]) -> None:
    if len(sizes) > MAX_ARRAY_RANK:
        raise ShapeError(codes.TENSOR_SIZES, f"a tensor has at most {MAX_ARRAY_RANK} dimensions, not {len(sizes)}")
    for number, size in enumerate(sizes):
        if size is not None and not 0 <= size <= _INT64_MAX:
            raise ShapeError(
                codes.TENSOR_SIZES,
                f"the size of dimension {number} is {str(size)[:40]}, which is not in 0 to 2**63 - 1",
            )


@dataclass(frozen=True, slots=True)
class UnrankedTensorType:
    """An unranked tensor type: `tensor<*xf32>`."""

    element: ElementType | IndexType


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A number type such as `i64` or `f32`. As in tensors, `i1` is PRED, `i8` is S8 and `ui8` is U8."""

    element: PrimitiveType


@dataclass(frozen=True, slots=True)
class TokenType:
    """The type `!stablehlo.token`."""


@dataclass(frozen=True, slots=True, eq=False)
class CompositeType:
    """A type made of other types.

    `parts` counts the types in it, each as often as it occurs, and itself; `depth` is the nesting. Both are bounded,
    because a program can name a type once and use it twice in the next one: forty lines would describe 2**40 types.
    Raises `ShapeError` above `MAX_TUPLE_NODES` parts or `MAX_TUPLE_DEPTH` levels.
    """

    parts: int = field(init=False, repr=False, compare=False)
    depth: int = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inner = self.inner
        depths = [type_.depth for type_ in inner if isinstance(type_, CompositeType)]
        depth = 1 + max(depths, default=0)
        parts = sum([type_.parts if isinstance(type_, CompositeType) else 1 for type_ in inner])
        check_tuple(depths, parts)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "parts", 1 + parts)
        object.__setattr__(self, "_hash", hash((type(self), inner)))

    @property
    def inner(self) -> tuple[Type, ...]:
        """The types directly in this one."""
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class TupleType(CompositeType):
    """A tuple type: `tuple<...>`."""

    elements: tuple[Type, ...]

    @property
    def inner(self) -> tuple[Type, ...]:
        return self.elements

    __hash__ = CompositeType.__hash__


@dataclass(frozen=True, slots=True)
class FunctionType(CompositeType):
    """A function type: `(...) -> (...)`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    @property
    def inner(self) -> tuple[Type, ...]:
        return (*self.inputs, *self.results)

    __hash__ = CompositeType.__hash__


@dataclass(frozen=True, slots=True)
class BufferType:
    """A buffer type, `memref<2xf32>`, which custom calls take and return."""

    sizes: tuple[int, ...]
    element: ElementType

    def __post_init__(self) -> None:
        _check_sizes(self.sizes)


@dataclass(frozen=True, slots=True)
class FutureType(CompositeType):
    """The type `!stablehlo.future<...>`, the result of `async_start`."""

    elements: tuple[Type, ...]

    @property
    def inner(self) -> tuple[Type, ...]:
        return self.elements

    __hash__ = CompositeType.__hash__


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type that is not parsed further; `text` is its text."""

    text: str


Type: TypeAlias = (
    TensorType
    | UnrankedTensorType
    | ScalarType
    | IndexType
    | NoneType
    | TokenType
    | TupleType
    | FunctionType
    | BufferType
    | FutureType
    | OpaqueType
    | QuantizedType
)


@dataclass(frozen=True, slots=True)
class Unit:
    """MLIR's unit attribute: its presence is its only information."""


@dataclass(frozen=True, slots=True)
class IntegerAttribute:
    """An integer with its type."""

    value: int
    type: ScalarType | IndexType


@dataclass(frozen=True, slots=True)
class FloatAttribute:
    """A floating-point number with its type. `value` represents every number of the type exactly."""

    value: float
    type: ScalarType


@dataclass(frozen=True, slots=True)
class SymbolReference:
    """A symbol reference `@root::@nested`; the names are without the `@`."""

    root: str
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ElementsAttribute:
    """The elements of a constant tensor or of an `array<...>`.

    `values` is a read-only array with the sizes of the type and the dtype of its storage type, s64 for `index`. The
    type of an `array<...>` is a tensor of rank 1. `resource` is the name of a `dense_resource`, else None.
    """

    type: TensorType
    values: Array
    resource: str | None = None

    @property
    def is_splat(self) -> bool:
        """Whether `values` is a view of one element, as large as the type may be."""
        return self.values.size > 1 and not any(self.values.strides)

    def listed(self) -> Array:
        """Returns the elements for a reader that goes through them. Raises `ShapeError` for a huge splat."""
        if self.is_splat and self.values.size > MAX_LISTED_SPLAT:
            raise ShapeError(
                codes.LISTED_ELEMENTS,
                f"{self.values.size} equal elements are not listed one by one; {MAX_LISTED_SPLAT} are the most",
            )
        return self.values

    def is_all(self, number: int) -> bool:
        """Whether every element equals a number."""
        values = self.values[(0,) * self.values.ndim] if self.is_splat else self.values
        return bool(np.all(values == number))


def check_constant(type_: TensorType, element: PrimitiveType) -> tuple[int, ...]:
    """Returns the sizes of a constant. Raises `ShapeError` if no array can have them, not even a splat.

    `element` is the type that the elements are stored in.
    """
    if None in type_.sizes:
        raise ShapeError(codes.CONSTANT_SIZES, "the type of constant elements must have static sizes")
    sizes = tuple([size for size in type_.sizes if size is not None])
    if len(sizes) > MAX_CONSTANT_RANK:
        raise ShapeError(
            codes.CONSTANT_SIZES, f"a constant has at most {MAX_CONSTANT_RANK} dimensions, not {len(sizes)}"
        )
    # NumPy bounds the product of the sizes other than 0, too.
    if bounded_product([max(size, 1) for size in sizes]) * element.byte_size > _INT64_MAX:
        raise ShapeError(
            codes.CONSTANT_SIZES, f"the sizes {list(sizes)} of a constant do not fit in a 64-bit byte count"
        )
    return sizes


@dataclass(frozen=True, slots=True)
class StructAttribute:
    """An attribute with named fields: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`.

    `name` has the dialect, but neither `#` nor a version: "stablehlo.dot", from text and from bytecode. An integer
    field is an `int`, a list of integers a tuple, in which None stands for `?`; all other fields are attributes.
    Empty and zero fields of "dot", "gather", "scatter", "ragged_dot" and "result_accuracy" are absent, as MLIR prints
    them. The fields of "conv" are `input_batch_dimension`, `input_feature_dimension`, `input_spatial_dimensions`, the
    same three with `output_`, `kernel_input_feature_dimension`, `kernel_output_feature_dimension` and
    `kernel_spatial_dimensions`.
    """

    name: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpaqueAttribute:
    """An attribute that is not parsed further: its name with the dialect and the text in angle brackets, or None."""

    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location: a file with line and column, counted from 1, and the names around it, outermost first.

    `names` are those in `loc("jit(f)/add"(...))`. `callers` are the other locations of a call stack, innermost first.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    names: tuple[str, ...] = ()
    callers: tuple[FileLocation, ...] = ()


UNKNOWN_LOCATION = FileLocation()


def named_location(name: str, inner: FileLocation) -> FileLocation:
    """Returns `loc("name"(inner))`."""
    names = (name, *inner.names)
    if len(names) > MAX_NAMES:
        names = (*names[: MAX_NAMES - 1], names[-1])
    return FileLocation(inner.file, inner.line, inner.column, names, inner.callers)


def call_site_location(callee: FileLocation, caller: FileLocation) -> FileLocation:
    """Returns `loc(callsite(callee at caller))`."""
    nearest = FileLocation(caller.file, caller.line, caller.column, caller.names)
    callers = (*callee.callers, nearest, *caller.callers)[:MAX_CALLERS]
    return FileLocation(callee.file, callee.line, callee.column, callee.names, callers)


@dataclass(slots=True, eq=False)
class Value:
    """A result of an operation or an argument of a block.

    `name` is the name in the text, without `%`, or "". `location` is the location of an argument; the location of a
    result is that of its operation.
    """

    type: Type
    owner: Operation | Block
    index: int
    name: str = ""
    location: FileLocation = UNKNOWN_LOCATION


@dataclass(slots=True, eq=False)
class Operation:
    """An operation. `name` includes the dialect: "stablehlo.add".

    `attributes` holds both properties (inherent attributes) and discardable attributes. `text_line` and `text_column`
    are the operation's position in the text that it was parsed from, counted from 1, or 0 for bytecode.
    """

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    location: FileLocation = UNKNOWN_LOCATION
    text_line: int = 0
    text_column: int = 0

    def __repr__(self) -> str:
        return f"<Operation {self.name}>"


@dataclass(slots=True, eq=False)
class Block:
    """A block: its arguments and its operations, the last of which is the terminator."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Region:
    """A region of an operation. StableHLO's regions have one block."""

    blocks: list[Block] = field(default_factory=list)


def walk(operation: Operation) -> Iterator[Operation]:
    """Yields the operation and all operations nested in it in pre-order, without recursion."""
    pending = [operation]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(
            inner
            for region in reversed(current.regions)
            for block in reversed(region.blocks)
            for inner in reversed(block.operations)
        )

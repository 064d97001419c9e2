"""A StableHLO program as objects: what the readers of text and of bytecode give, and what the import rules take.

Owns types, attributes, operations, regions, blocks and values, in one form whichever reader made them. Must not know:
how they are spelled, in text or in bytes, nor what HLO they become.

Attributes are plain values where Python has one:

| in MLIR | here |
|---|---|
| `true`, a `BoolAttr` | `bool` |
| `"text"`, bytes that are no UTF-8 as `surrogateescape` has them | `str` |
| the case of an enum: `LT`, `#stablehlo<comparison_direction LT>` | `str` |
| `[...]` | `tuple` of attributes |
| `{...}` | `dict` from names to attributes |
| `unit` | `Unit()` |
| a type | the type |
| `3 : i64` | `IntegerAttribute` |
| `1.5 : f32` | `FloatAttribute` |
| `@f`, `@f::@g` | `SymbolReference` |
| `dense<...>`, `dense_resource<...>` | `ElementsAttribute` |
| `array<i64: 1, 2>` | `ElementsAttribute` of rank 1, so that rules read both spellings alike |
| `#stablehlo.dot<...>`, `#stablehlo.channel_handle<...>` | `StructAttribute("stablehlo.dot", {...})` |
| `#sdy.sharding<...>`, and what no reader knows | `OpaqueAttribute("sdy.sharding", text)` |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xlapy.base.element_types import Array, PrimitiveType


@dataclass(frozen=True, slots=True)
class QuantizedType:
    """The element type of a quantized tensor: `real = (stored - zero_point) * scale`.

    scales and zero_points hold one number for the whole tensor, or an array of them: along the one of `axes`, or in
    blocks of `block_sizes` along `axes` (sub-channel quantization; the arrays are of `scales_shape`, which has the
    tensor's rank).
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


ElementType: TypeAlias = PrimitiveType | QuantizedType


@dataclass(frozen=True, slots=True)
class IndexType:
    """MLIR's `index`."""


@dataclass(frozen=True, slots=True)
class NoneType:
    """MLIR's `none`."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """`tensor<2x?xf32>`: a size of None is `?`; an element type of `IndexType` is `index`.

    bounds: `#stablehlo.bounds<?, 4>`: per dimension the bound of a `?`, else None; () where there is no such encoding.
    encoding: any other encoding.
    """

    sizes: tuple[int | None, ...]
    element: ElementType | IndexType
    bounds: tuple[int | None, ...] = ()
    encoding: Any = None

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def is_static(self) -> bool:
        return None not in self.sizes


@dataclass(frozen=True, slots=True)
class UnrankedTensorType:
    """`tensor<*xf32>`."""

    element: ElementType | IndexType


@dataclass(frozen=True, slots=True)
class ScalarType:
    """`i64`, `f32`: the type of an attribute's number. `i1` is PRED, `i8` S8 and `ui8` U8, as in tensors."""

    element: PrimitiveType


@dataclass(frozen=True, slots=True)
class TokenType:
    """`!stablehlo.token`."""


@dataclass(frozen=True, slots=True)
class TupleType:
    """`tuple<...>`."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class FunctionType:
    """`(...) -> (...)`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class BufferType:
    """`memref<2xf32>`: StableHLO's buffers, as custom calls take and give them."""

    sizes: tuple[int, ...]
    element: ElementType


@dataclass(frozen=True, slots=True)
class FutureType:
    """`!stablehlo.future<...>`: what async_start gives."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """A type of a dialect that no reader knows, as it is spelled."""

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
    """MLIR's `unit`: a name that is there, without a value."""


@dataclass(frozen=True, slots=True)
class IntegerAttribute:
    """A whole number and its type."""

    value: int
    type: ScalarType | IndexType


@dataclass(frozen=True, slots=True)
class FloatAttribute:
    """A number and its type. The value holds the type's bits exactly."""

    value: float
    type: ScalarType


@dataclass(frozen=True, slots=True)
class SymbolReference:
    """`@root::@nested`, without the `@`."""

    root: str
    nested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ElementsAttribute:
    """Constant elements. `values` has the type's sizes and the dtype of its stored elements, without writable memory.

    `type` of a rank-1 `array<...>` is a tensor of its element type. `resource` is the name of a `dense_resource`.
    Of an `index` type the values are s64.
    """

    type: TensorType
    values: Array
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class StructAttribute:
    """An attribute of named fields: `#stablehlo.dot<lhs_contracting_dimensions = [1], ...>`.

    `name` has the dialect but neither `#` nor a version: "stablehlo.dot", of text and of bytecode alike. A whole number
    is an `int` and a list of them a tuple, in which None is `?`; types, booleans, names of cases and nested structs are
    what they are elsewhere. Of "dot", "gather", "scatter", "ragged_dot" and "result_accuracy" the fields that are empty
    or zero are absent, as MLIR prints them. The fields of "conv" are `input_batch_dimension`,
    `input_feature_dimension`, `input_spatial_dimensions`, the same three of `output_`,
    `kernel_input_feature_dimension`, `kernel_output_feature_dimension` and `kernel_spatial_dimensions`.
    """

    name: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpaqueAttribute:
    """What no reader knows more about: its name with the dialect, and the text inside its angle brackets, or None."""

    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where something came from: a file with its line and column, counted from 1, and names around it, outermost first.

    `names` are those of `loc("jit(f)/add"(...))`; `callers` are the further locations of a call stack, nearest first.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    names: tuple[str, ...] = ()
    callers: tuple[FileLocation, ...] = ()


UNKNOWN_LOCATION = FileLocation()


@dataclass(slots=True, eq=False)
class Value:
    """A result of an operation or an argument of a block.

    `name` is the spelling in text, without `%`, or "". `location` is that of an argument; a result has its operation's.
    """

    type: Type
    owner: Operation | Block
    index: int
    name: str = ""
    location: FileLocation = UNKNOWN_LOCATION


@dataclass(slots=True, eq=False)
class Operation:
    """One operation: `name` has the dialect, "stablehlo.add". Inherent and discardable attributes stand together.

    `text_line` and `text_column`: where it stands in the text it was read from, counted from 1; 0 from bytecode.
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
    """Arguments and operations, the last of which ends the block."""

    arguments: list[Value] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Region:
    """The blocks of an operation; StableHLO's have one."""

    blocks: list[Block] = field(default_factory=list)


def walk(operation: Operation) -> Iterator[Operation]:
    """The operation and everything inside it, each before what is inside it; without recursion."""
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

"""The data structures of loop IR: values, blocks of statements, loops, memory.

A kernel consists of loops over buffers. Everything inside is a scalar value; whether it becomes a vector register
follows from the *kind of the axis* around it. An axis of kind VECTOR means "this body, for `width` consecutive
positions at once"; the body reads as for one position. A load whose offset has the coefficient 1 for the vector axis
is a contiguous vector load, with 0 it is one scalar for all lanes, otherwise a strided load or a gather. A load of a
wider type than the buffer's reads several consecutive elements, the first one into the lowest bits.

Example, out[i, j] = a[i, j] + b[j] for f32[8,100]:

    kernel add(a: f32[800], b: f32[100], out: f32[800] written)
      for i in 8 parallel
        for j in 100 vector(16)
          %0 = load a[100 * i + j]
          %1 = load b[j]
          %2 = add f32 %0, %1
          store out[100 * i + j], %2

`loops.builder` builds kernels, `loops.printer` prints them, `loops.evaluate` defines their meaning, and a back end
compiles them. Does not depend on HLO or LLVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from xlapy.loops.dot_instructions import DotInstruction
from xlapy.loops.types import ScalarType


class AxisKind(Enum):
    """How the iterations of a loop are executed."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    """Iterations run in any order, on any thread: the runtime splits this loop of a kernel into tasks."""
    VECTOR = "vector"
    """`width` consecutive iterations run at once, in the lanes of a register."""
    UNROLL = "unroll"
    """Iterations run one after the other, fully unrolled."""


class Value:
    """A scalar in a register. `op` is one of the operations that `loops.builder` lists.

    attribute: data of the op besides its arguments (a constant's value, a comparison's predicate ...).
    range: the minimum and the maximum of an integer, if known.
    """

    __slots__ = ("args", "attribute", "block", "number", "op", "range", "type")

    def __init__(
        self,
        op: str,
        type: ScalarType,
        args: tuple[Value, ...],
        attribute: Any,
        block: Block,
        number: int,
        range: tuple[int, int] | None = None,
    ) -> None:
        self.op = op
        self.type = type
        self.args = args
        self.attribute = attribute
        self.block = block
        self.number = number
        self.range = range

    def __str__(self) -> str:
        return str(self.attribute) if self.op == "const" else f"%{self.number}"

    def __repr__(self) -> str:
        return f"<Value {self} = {self.op} {self.type}>"


@dataclass(frozen=True, slots=True)
class Affine:
    """An affine function of I64 values: a sum of integer multiples, and a constant.

    Offsets in buffers and positions in loops are affine. Terms are ordered by the number of their value and have
    coefficients other than zero.
    """

    terms: tuple[tuple[Value, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: Value) -> Affine:
        """The function that is the value itself."""
        if value.op == "const":
            return Affine((), int(value.attribute))
        return Affine(((value, 1),))

    @staticmethod
    def sum(parts: Iterable[tuple[Affine, int]]) -> Affine:
        """The sum of multiples of affine functions, given as pairs (function, factor)."""
        constant = 0
        found: dict[Value, int] = {}
        for part, factor in parts:
            constant += part.constant * factor
            for value, coefficient in part.terms:
                found[value] = found.get(value, 0) + coefficient * factor
        return _simplified(found, constant)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, value: Value) -> int:
        """The coefficient of a value; 0 if it does not occur."""
        return next((c for v, c in self.terms if v is value), 0)

    def without(self, value: Value) -> Affine:
        """The function without the term of a value."""
        return Affine(tuple((v, c) for v, c in self.terms if v is not value), self.constant)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self if other == 0 else Affine(self.terms, self.constant + other)
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        return Affine.sum(((self, 1), (other, 1)))

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self + -other
        return Affine.sum(((self, 1), (other, -1)))

    def __mul__(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)

    def bounds(self) -> tuple[int, int] | None:
        """The minimum and the maximum, from the ranges of the terms; None if the range of a term is unknown."""
        low = high = self.constant
        for value, coefficient in self.terms:
            if value.range is None:
                return None
            ends = (value.range[0] * coefficient, value.range[1] * coefficient)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def __str__(self) -> str:
        parts = [f"{c} * {v}" if c != 1 else str(v) for v, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


ZERO = Affine()


def _simplified(terms: Mapping[Value, int], constant: int) -> Affine:
    kept = {value: c for value, c in terms.items() if c} if 0 in terms.values() else terms
    for value, coefficient in kept.items():
        if value.op == "mod" and (quotient := _quotient_of(value, coefficient, kept)) is not None:
            rest = {v: c for v, c in kept.items() if v is not value and v is not quotient}
            dividend, _ = value.attribute
            return Affine.sum(((Affine(tuple(rest.items()), constant), 1), (dividend, coefficient)))
    if len(kept) < 2:
        return Affine(tuple(kept.items()), constant)
    return Affine(tuple(sorted(kept.items(), key=lambda item: item[0].number)), constant)


def _quotient_of(remainder: Value, coefficient: int, terms: Mapping[Value, int]) -> Value | None:
    """Returns the term m div n with the factor n * c, given the term c * (m mod n): together they are c * m.

    So a position that is split over dimensions and combined again, as by a reshape, becomes one term, and the access
    stays contiguous.
    """
    _, divisor = remainder.attribute
    for value, factor in terms.items():
        if value.op == "div" and value.attribute == remainder.attribute and factor == coefficient * divisor:
            return value
    return None


@dataclass(eq=False, slots=True)
class Buffer:
    """An array in memory that a kernel reads or writes; offsets count elements of `type`."""

    name: str
    type: ScalarType
    size: int
    """The number of elements."""
    written: bool = False
    """Whether the kernel writes the buffer. Loads from such a buffer keep their order among the stores."""
    exclusive: bool = True
    """Whether no other buffer of the kernel overlaps this one in memory."""
    nontemporal: bool = False
    """Whether stores bypass the caches, because the buffer is too large for them. The buffer and every vector that is
    stored to it then are aligned to a vector register, which holds a whole cache line."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Location:
    """An element of a buffer, to which a load or a store refers."""

    buffer: Buffer
    offset: Affine

    def __str__(self) -> str:
        return f"{self.buffer}[{self.offset}]"


class Block:
    """Statements in order. `parent` is the block with the loop or branch whose body this block is."""

    __slots__ = ("depth", "in_vector", "is_cold", "is_conditional", "parent", "shared", "statements", "values")

    def __init__(self, parent: Block | None, *, is_conditional: bool = False, in_vector: bool = False) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.is_conditional = is_conditional
        """Whether this block may not be executed at all, as in a branch: loads are not moved out of it."""
        self.in_vector: bool = in_vector or (parent is not None and parent.in_vector)
        """Whether this block is inside a vector axis; vector axes do not nest."""
        self.is_cold = False
        """Whether this is a cold path, which seldom runs: no value is moved out of it."""
        self.statements: list[Statement] = []
        self.values: dict[Any, Value] = {}
        """The values computed in this block, for common subexpression elimination."""
        self.shared: dict[Any, list[Value]] = {}
        """The results of loops in this block, for the same purpose."""


@dataclass(eq=False, slots=True)
class Store:
    """Writes a value to a location."""

    location: Location
    value: Value
    mask: Value | None = None
    """An I1: the store happens only where it is true."""


@dataclass(eq=False, slots=True)
class Prefetch:
    """Starts to load the cache line of a location, which may be outside of its buffer. It changes no value.

    for_write: the line is loaded into the level-1 cache, to be written; otherwise into the level-2 cache, to be read.
    """

    location: Location
    for_write: bool = False


@dataclass(eq=False, slots=True)
class TransposeStatement:
    """target[target_pitch * c + r] = source[source_pitch * r + c] for r below `rows`, c below `columns`, from c = 0 on.

    An element has `parts` consecutive values; offsets and pitches count values, rows and columns count elements.
    The target must have room for whole tiles (`tile_shape`); the contents beyond its rows and columns are undefined.
    """

    source: Location
    source_pitch: int
    target: Location
    target_pitch: int
    rows: int | Value
    columns: int | Value
    parts: int = 1


@dataclass(eq=False, slots=True)
class MatrixProduct:
    """sums[sums_pitch * r + c] (+)= the products of row r of `left` and column c of `right`, for `rows` and `columns`.

    The factors are I32 that hold groups of terms of a dot instruction (`dot_instructions`): group k of row r is
    left[left_pitch * r + k], of column c right[right_pitch * k + c]. Rows, columns and groups are multiples of
    `TILE_SIDE`; there are one or two tiles of columns. The sums are added to those before if `accumulates` is true.
    """

    instruction: DotInstruction
    left: Location
    left_pitch: int
    right: Location
    right_pitch: int
    sums: Location
    sums_pitch: int
    rows: int | Value
    columns: int
    groups: int | Value
    accumulates: Value


@dataclass(eq=False, slots=True)
class SelectPositions:
    """Stores the positions p from 0 to `count` - 1 with first <= source[p] < first + extent to `target`, in order.

    The source has I32 or I64 elements, the target is of I32. The target must have room for `count` positions; its
    contents beyond those that are stored are undefined.
    """

    source: Location
    count: int | Value
    first: Value
    extent: Value
    target: Location
    result: Value
    """The number of positions that are stored, an I64."""


@dataclass(eq=False, slots=True)
class Carry:
    """A loop-carried value: each iteration passes it to the next.

    identity: a neutral element of the loop's `combine`, with which the lanes of a vector axis start.
    """

    initial: Value
    variable: Value
    identity: Value | None = None
    next: Value | None = None
    result: Value | None = None


@dataclass(eq=False, slots=True)
class Combiner:
    """A function of scalars that combines two partial results of a reduction into one."""

    parameters: list[Value]
    """The values of the left partial result, then those of the right one."""
    block: Block
    results: list[Value] = field(default_factory=list[Value])


@dataclass(eq=False, slots=True)
class Scan:
    """The running values of a loop: `combine` of each carry and an input is the result, and the carry's next value.

    On a VECTOR axis, the order of the positions is the same, but their grouping differs. carries: the carries of the
    loop that contains the scan; their identities are identities of `combine`.
    """

    carries: list[Carry]
    inputs: list[Value]
    results: list[Value]
    combine: Combiner


@dataclass(eq=False, slots=True)
class For:
    """A loop from 0 to `extent`, a number or an I64 value.

    If the extent of a VECTOR axis with carries is a value, it is a positive multiple of `width * accumulators`.

    width: lanes of a VECTOR axis. accumulators: vectors of partial results that a VECTOR axis keeps for each carry.
    combine: combines the partial results of a VECTOR axis; not needed for the carries of a scan.
    """

    axis: Value
    extent: int | Value
    kind: AxisKind
    body: Block
    width: int = 1
    accumulators: int = 1
    carries: list[Carry] = field(default_factory=list[Carry])
    combine: Combiner | None = None


def runs_at_most_once(extent: Value) -> bool:
    """Whether a loop with this extent is a branch: it has one iteration or none, as its range says."""
    return extent.range is not None and extent.range[1] <= 1


@dataclass(eq=False, slots=True)
class While:
    """Repeats as long as `condition`, computed in `test` from the carries' variables, is true.

    is_bounded: whether the sizes of the kernel's arrays bound the iterations. Otherwise, the loop may never end.
    """

    test: Block
    condition: Value | None
    body: Block
    carries: list[Carry] = field(default_factory=list[Carry])
    is_bounded: bool = True


@dataclass(eq=False, slots=True)
class If:
    """Executes a block if a condition is true."""

    condition: Value
    then: Block


def tile_shape(vector_bytes: int, element_bytes: int) -> tuple[int, int]:
    """Rows and columns of a tile that vector registers transpose at once.

    A lane of 16 bytes holds e elements. First e rows are transposed within every lane, then the lanes of up to 16 rows
    are combined. In registers of 64 bytes, a tile has 16 x 16 elements of 4 bytes, 16 x 64 of 1 byte, 8 x 8 of 8 bytes
    or 4 x 4 of 16 bytes.
    """
    lanes, inner = vector_bytes // 16, 16 // element_bytes
    return inner * min(lanes, max(1, 16 // inner)), inner * lanes


Statement = Value | Store | Prefetch | TransposeStatement | MatrixProduct | SelectPositions | For | While | If | Scan


@dataclass(eq=False, slots=True)
class Kernel:
    """A named function over buffers. At most one loop is PARALLEL; its block has no other statements except values."""

    name: str
    vector_bytes: int = 64
    """The size in bytes of the vector registers that the widths of vector axes were chosen for."""
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    scratch: list[Buffer] = field(default_factory=list[Buffer])
    """Buffers private to each task of the kernel. Their initial contents are undefined."""
    body: Block = field(default_factory=lambda: Block(None))
    stores_repeatedly: bool = False
    """Whether an element of a result may be computed and stored more than once, from the same operands."""
    read_first: set[Buffer] = field(default_factory=set[Buffer])
    """Buffers of which an iteration of the parallel loop reads its own part only, before it stores anything. The part
    has the same offsets as that of any other buffer of the same size."""

    @property
    def parallel_loop(self) -> For | None:
        """The loop that the runtime splits into tasks; None if there is none."""
        return next((s for s in self.body.statements if isinstance(s, For) and s.kind is AxisKind.PARALLEL), None)

    def statements(self) -> Iterator[Statement]:
        """All statements, each before the statements of its inner blocks."""
        stack: list[Statement] = self.body.statements[::-1]
        while stack:
            statement = stack.pop()
            yield statement
            for block in reversed(inner_blocks(statement)):
                stack.extend(block.statements[::-1])


def inner_blocks(statement: Statement) -> list[Block]:
    """The blocks that belong to a statement."""
    if isinstance(statement, For):
        return [statement.body]
    if isinstance(statement, While):
        return [statement.test, statement.body]
    return [statement.then] if isinstance(statement, If) else []

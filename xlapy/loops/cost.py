"""Estimates the time of a kernel on one core, from its statements, trip counts and accesses to memory.

A vector operation counts once for each register that its lanes fill. The estimate is the longer of arithmetic and
memory: arithmetic is the cycles of all statements, memory the bytes that the kernel touches at the rate of a level-2
cache. Branches count as taken, cold ones as never taken. The figures are those of
`analysis.cost.reference_machine`. Does not depend on how kernels were built or are compiled.
"""

from __future__ import annotations

from typing import Final

from xlapy.analysis.cost.reference_machine import (
    CACHED_BYTES_PER_CYCLE,
    INTEGER_DIVISION_CYCLES,
    ITERATION_CYCLES,
    LANE_CYCLES,
    LONG_OPERATION_CYCLES,
    OPERATION_CYCLES,
    SELECTED_POSITION_CYCLES,
    STORE_CYCLES,
    TILE_GROUPS_PER_CYCLE,
    TRANSPOSED_BYTES_PER_CYCLE,
)
from xlapy.loops.ir import (
    AxisKind,
    Block,
    Buffer,
    For,
    If,
    Kernel,
    Location,
    MatrixProduct,
    Scan,
    SelectPositions,
    Statement,
    Store,
    TransposeStatement,
    Value,
    While,
    inner_blocks,
)
from xlapy.loops.positions import is_equal_in_lanes

_MAX_SHUFFLED_STRIDE: Final = 4
"""The largest stride of lanes that are loaded as contiguous vectors and shuffled."""

UNBOUNDED_LOOP_ITERATIONS: Final = 16
"""The iterations that an estimate assumes for a loop that no size bounds."""

_INTEGER_DIVISIONS: Final = frozenset({"sdiv", "udiv", "srem", "urem"})


class KernelCost:
    """The estimated cost of one kernel.

    while_iterations: the iterations of a loop whose end depends on loaded data; None for as many as the largest array
    has elements for each parallel iteration, which bounds them, and for endless loops where no size bounds them.
    """

    def __init__(self, kernel: Kernel, while_iterations: int | None = 1) -> None:
        parallel = kernel.parallel_loop
        divided = parallel.extent if parallel is not None and isinstance(parallel.extent, int) else 1
        largest = max((buffer.size for buffer in (*kernel.buffers, *kernel.scratch)), default=1)
        self._vector_bytes = kernel.vector_bytes
        self._unknown_extent = -(-largest // max(1, divided))
        self._while_iterations = self._unknown_extent if while_iterations is None else while_iterations
        self._unbounded_iterations = float(1 << 40 if while_iterations is None else UNBOUNDED_LOOP_ITERATIONS)
        self._touched: dict[Buffer, float] = {}
        self._vector: For | None = None
        self.loops: dict[For | While, tuple[float, float]] = {}
        """For each loop its iterations, and the cycles of one of them."""
        arithmetic = self._block(kernel.body, 1.0, self._unknown_extent)
        scratch = set(kernel.scratch)
        self.touched_bytes = {
            buffer: min(size, float(buffer.size * buffer.type.byte_size))
            for buffer, size in self._touched.items()
            if buffer not in scratch
        }
        """The bytes of each buffer that an execution loads or stores, each counted once."""
        self.arithmetic_cycles = arithmetic
        """The cycles of all statements of one execution on one core, if all data are in the level-1 cache."""
        self.cycles = max(arithmetic, sum(self.touched_bytes.values()) / CACHED_BYTES_PER_CYCLE)
        """The cycles of one execution of the kernel on one core."""

    def _block(self, block: Block, times: float, unknown_extent: int) -> float:
        """The cycles of an execution of a block; it is executed `times` times."""
        return sum(self._statement(statement, times, unknown_extent) for statement in block.statements)

    def _statement(self, statement: Statement, times: float, unknown_extent: int) -> float:
        if isinstance(statement, Value):
            return self._value(statement, times)
        if isinstance(statement, Store):
            return self._access(statement.location, times, statement.location.buffer.type.byte_size, STORE_CYCLES)
        if isinstance(statement, For | While):
            return self._loop(statement, times, unknown_extent)
        if isinstance(statement, If):
            taken = 0.0 if statement.then.is_cold else self._block(statement.then, times, unknown_extent)
            return OPERATION_CYCLES + taken
        if isinstance(statement, Scan):
            return self._block(statement.combine.block, times, unknown_extent) * _scan_steps(self._vector)
        if isinstance(statement, TransposeStatement):
            return self._transpose(statement, times, unknown_extent)
        if isinstance(statement, MatrixProduct):
            return self._matrix_product(statement, unknown_extent)
        if isinstance(statement, SelectPositions):
            return self._select_positions(statement, times, unknown_extent)
        return OPERATION_CYCLES  # a prefetch

    def _loop(self, loop: For | While, times: float, unknown_extent: int) -> float:
        """The cycles of all iterations. Nested loops of unknown extent divide the same elements among them."""
        if isinstance(loop, While):
            loads = any(map(_loads, inner_blocks(loop)))
            iterations = float(self._while_iterations if loads else 1)
            if not loop.is_bounded:
                iterations = self._unbounded_iterations
            elif loop.body.is_cold:
                return self._block(loop.test, times, unknown_extent)
            inner = 1
        else:
            width = loop.width if loop.kind is AxisKind.VECTOR else 1
            iterations = -(-_max_extent(loop.extent, unknown_extent) // width)
            is_bounded = isinstance(loop.extent, int) or loop.extent.range is not None
            inner = unknown_extent if is_bounded else 1
        outer = self._vector
        if isinstance(loop, For) and loop.width > 1:
            self._vector = loop
        once = self._iteration(loop, times * iterations, inner)
        self._vector = outer
        if not (isinstance(loop, For) and loop.kind is AxisKind.UNROLL):
            once += ITERATION_CYCLES
        self.loops[loop] = iterations, once
        return iterations * once

    def _iteration(self, loop: For | While, times: float, unknown_extent: int) -> float:
        """The cycles of the statements of one iteration; the loop has `times` iterations in all."""
        return sum(self._block(block, times, unknown_extent) for block in inner_blocks(loop))

    def _registers(self, byte_size: int) -> int:
        """The registers that the lanes of a value fill; 1 outside of vector axes."""
        return 1 if self._vector is None else -(-self._vector.width * byte_size // self._vector_bytes)

    def _value(self, value: Value, times: float) -> float:
        if value.op == "load":
            return self._access(value.attribute[0], times, value.type.byte_size, OPERATION_CYCLES)
        if value.op == "affine":
            return 0.0
        if value.op in ("div", "mod") and value.attribute is not None:  # of a position, by a constant
            return 0.0 if self._vector is None else OPERATION_CYCLES
        if value.op in _INTEGER_DIVISIONS:
            return INTEGER_DIVISION_CYCLES * (1 if self._vector is None else self._vector.width)
        return LONG_OPERATION_CYCLES.get(value.op, OPERATION_CYCLES) * self._registers(value.type.byte_size)

    def _access(self, place: Location, times: float, byte_size: int, cycles: float) -> float:
        """The cycles of a load or store of `byte_size` bytes in each lane."""
        buffer, vector = place.buffer, self._vector
        lanes = stride = 1
        is_gathered = False
        if vector is not None:
            coefficient = abs(place.offset.coefficient(vector.axis))
            varies = any(
                v.block is vector.body and v is not vector.axis and not is_equal_in_lanes(v, vector.axis, vector.width)
                for v, _ in place.offset.terms
            )
            if not coefficient and not varies:
                return 0.0  # a scalar for all lanes is an operand in memory of the operation that uses it
            lanes = vector.width
            stride = max(1, coefficient * buffer.type.byte_size // byte_size)
            is_gathered = varies or stride > _MAX_SHUFFLED_STRIDE
        self._touched[buffer] = self._touched.get(buffer, 0.0) + times * lanes * byte_size
        if is_gathered:
            return LANE_CYCLES * lanes
        return cycles * stride * self._registers(byte_size)

    def _transpose(self, statement: TransposeStatement, times: float, unknown_extent: int) -> float:
        elements = _max_extent(statement.rows, unknown_extent) * _max_extent(statement.columns, unknown_extent)
        size = elements * statement.parts * statement.source.buffer.type.byte_size
        for buffer in (statement.source.buffer, statement.target.buffer):
            self._touched[buffer] = self._touched.get(buffer, 0.0) + times * size
        return max(1.0, size / TRANSPOSED_BYTES_PER_CYCLE)

    def _select_positions(self, statement: SelectPositions, times: float, unknown_extent: int) -> float:
        count, buffer = _max_extent(statement.count, unknown_extent), statement.source.buffer
        self._touched[buffer] = self._touched.get(buffer, 0.0) + times * count * buffer.type.byte_size
        return max(1.0, count * SELECTED_POSITION_CYCLES)

    def _matrix_product(self, statement: MatrixProduct, unknown_extent: int) -> float:
        rows, groups = (_max_extent(extent, unknown_extent) for extent in (statement.rows, statement.groups))
        return max(1.0, rows * statement.columns * groups / TILE_GROUPS_PER_CYCLE)


def _scan_steps(vector: For | None) -> int:
    """The steps of a scan over the lanes of a vector: each doubles the number of lanes that are combined."""
    return 1 if vector is None else max(1, (vector.width - 1).bit_length())


def _max_extent(extent: int | Value, unknown_extent: int) -> int:
    """An upper bound of an extent. Extents that depend on data are bounded by the largest array per iteration."""
    if isinstance(extent, int):
        return extent
    return unknown_extent if extent.range is None else min(unknown_extent, max(1, extent.range[1]))


def _loads(block: Block) -> bool:
    """Whether a block loads from memory. A loop that loads nothing evaluates a mathematical function and ends soon."""
    return any(
        statement.op == "load" if isinstance(statement, Value) else any(map(_loads, inner_blocks(statement)))
        for statement in block.statements
    )

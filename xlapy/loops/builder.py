"""Builds kernels of loop IR. `Builder` puts each value where it is computed least often.

A value without side effects goes to the outermost block in which its arguments are available, so that values that do
not depend on an axis are computed before its loop. The same operation on the same arguments is computed once. Loads
from buffers that the kernel writes, loads in branches, and everything on a cold path stay where they are.

The operations, besides loads:

- add sub mul neg abs min max fma div copysign sqrt floor ceil rint trunc on floats (min and max are the IEEE
  `minimum` and `maximum`: NaN wins, -0 < +0);
- round_bf16 of an F32: the nearest number that bfloat16 has, ties to even; a denormal number may become 0 of its sign;
- ldexp of a float and an integer of the same width: x 2^n, rounded once, for a normal number x and any n between twice
  the smallest and twice the largest exponent of the type, if x 2^(n/2) is a normal number;
- add sub mul neg sdiv udiv srem urem smin smax umin umax and or xor shl lshr ashr ctlz ctpop on integers, which wrap;
  a division requires a nonzero divisor and no overflow, a shift requires an amount below the width;
- compare (attribute: eq ne slt sle sgt sge ult ule ugt uge for integers; oeq one une olt ole ogt oge ord uno for
  floats);
- dot of two groups of terms, each an I32, and a sum (attribute: a `DotInstruction` that the target has);
- any on I1: whether the value is true in any lane of a vector axis, with the same result in all lanes; outside of
  vector axes there is one lane;
- select; convert (attribute: sext zext trunc fpext fptrunc sitofp uitofp fptosi fptoui bitcast; from float to
  integer saturating, NaN is 0).

Does not depend on HLO or LLVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlapy.loops.dot_instructions import TILE_SIDE
from xlapy.loops.ir import (
    Affine,
    AxisKind,
    Block,
    Buffer,
    Carry,
    Combiner,
    For,
    If,
    Kernel,
    Location,
    MatrixProduct,
    Prefetch,
    Scan,
    SelectPositions,
    Store,
    TransposeStatement,
    Value,
    While,
    runs_at_most_once,
)
from xlapy.loops.positions import PositionArithmetic
from xlapy.loops.reduction_order import accumulators_for_body
from xlapy.loops.types import I1, I64, ScalarType

MAX_SCRATCH_BYTES = (1 << 20) + (1 << 16)
"""The most scratch memory of a kernel in bytes: a MiB of elements, and tables. It is on the stack of 8 MB or more."""

Combine = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


class Builder(PositionArithmetic):
    """Builds one kernel, statement by statement."""

    def __init__(self, name: str, vector_bytes: int = 64) -> None:
        self.kernel = Kernel(name, vector_bytes)
        self.vector_bytes = vector_bytes
        """The size in bytes of a vector register."""
        self.block = self.kernel.body
        self._numbers = 0
        self._constants: dict[Any, Value] = {}

    # -- memory

    def buffer(self, name: str, type: ScalarType, size: int, *, written: bool = False) -> Buffer:
        """Adds a buffer to the kernel's parameters."""
        made = Buffer(name, type, size, written)
        self.kernel.buffers.append(made)
        return made

    def scratch(self, name: str, type: ScalarType, size: int) -> Buffer:
        """Adds a buffer on the stack of the thread that runs a task; its initial contents are undefined."""
        made = Buffer(name, type, size, written=True)
        self.kernel.scratch.append(made)
        assert sum(b.size * b.type.byte_size for b in self.kernel.scratch) <= MAX_SCRATCH_BYTES, self.kernel.name
        return made

    def lanes(self, type: ScalarType) -> int:
        """The number of values of a type that fill a vector register."""
        return max(1, self.vector_bytes // type.byte_size)

    def load(self, buffer: Buffer, offset: Affine, mask: Value | None = None, otherwise: Value | None = None) -> Value:
        """Loads an element. Where the mask is false, memory is not accessed and the result is `otherwise`."""
        return self.load_wide(buffer.type, Location(buffer, offset), mask, otherwise)

    def load_wide(self, type: ScalarType, place: Location, mask: Value | None, otherwise: Value | None = None) -> Value:
        """Loads consecutive elements as one number of a type, the first element into the lowest bits."""
        args = tuple(v for v, _ in place.offset.terms)
        if mask is not None:
            args += (mask, self.zero(type) if otherwise is None else otherwise)
        fixed = self.block if place.buffer.written else self._unguarded_block(args)
        return self._value("load", type, args, (place, mask is not None), fixed, reuse=not place.buffer.written)

    def store(self, buffer: Buffer, offset: Affine, value: Value, mask: Value | None = None) -> None:
        """Stores an element, where the mask is true if there is one."""
        self.block.statements.append(Store(Location(buffer, offset), value, mask))

    def prefetch(self, location: Location, *, for_write: bool = False) -> None:
        """Starts to load the cache line of a location, which may be outside of its buffer: see `Prefetch`."""
        self.block.statements.append(Prefetch(location, for_write))

    def transpose(
        self,
        source: tuple[Buffer, Affine],
        source_pitch: int,
        target: tuple[Buffer, Affine],
        target_pitch: int,
        extents: tuple[int | Value, int | Value],
        parts: int = 1,
    ) -> None:
        """Transposes a matrix of `extents` rows and columns from one buffer to another: see `TransposeStatement`."""
        rows, columns = extents
        locations = Location(*source), Location(*target)
        assert source[0].type is target[0].type, "a transpose does not convert"
        self.block.statements.append(
            TransposeStatement(locations[0], source_pitch, locations[1], target_pitch, rows, columns, parts)
        )

    def matrix_product(self, product: MatrixProduct) -> None:
        """Multiplies packed matrices by tile instructions: see `MatrixProduct`."""
        assert isinstance(product.rows, Value) or product.rows % TILE_SIDE == 0, product.rows
        assert product.columns in (TILE_SIDE, 2 * TILE_SIDE), product.columns
        self.block.statements.append(product)

    def positions_in(self, range: tuple[Value, Value], source: Location, count: int | Value, to: Location) -> Value:
        """Stores the positions of integers in a range, and returns their number: see `SelectPositions`."""
        result = self._fresh("positions", I64, self.block)
        self.block.statements.append(SelectPositions(source, count, *range, to, result))
        return result

    # -- values

    def op(self, op: str, type: ScalarType, *args: Value, attribute: Any = None) -> Value:
        """The result of an operation without side effects; its range of integers is unknown."""
        return self._value(op, type, args, attribute, self._outermost_block(args))

    def constant(self, type: ScalarType, value: float) -> Value:
        """A constant; integers are wrapped to the width as signed numbers, floats are rounded to the type."""
        with np.errstate(all="ignore"):
            number = _wrapped(int(value), type.bits) if type.is_integer else float(type.dtype.type(value))
        key = (type, np.float64(number).tobytes() if type.is_float else number)
        found = self._constants.get(key)
        if found is None:
            limits = (int(number), int(number)) if type.is_integer else None
            found = self._constants[key] = Value("const", type, (), number, self.kernel.body, self._number(), limits)
        return found

    def zero(self, type: ScalarType) -> Value:
        return self.constant(type, 0)

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """A binary operation on two values of one type."""
        assert left.type is right.type, f"{op} of {left.type} and {right.type}"
        return self.op(op, left.type, left, right)

    def unary(self, op: str, operand: Value) -> Value:
        return self.op(op, operand.type, operand)

    def add(self, left: Value, right: Value) -> Value:
        return self.binary("add", left, right)

    def sub(self, left: Value, right: Value) -> Value:
        return self.binary("sub", left, right)

    def mul(self, left: Value, right: Value) -> Value:
        return self.binary("mul", left, right)

    def fma(self, left: Value, right: Value, addend: Value) -> Value:
        """left * right + addend, rounded once."""
        return self.op("fma", left.type, left, right, addend)

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """Compares two values by a predicate from the list in the module's docstring; the result is an I1."""
        assert left.type is right.type, f"compare {predicate} of {left.type} and {right.type}"
        return self.op("compare", I1, left, right, attribute=predicate)

    def select(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        assert on_true.type is on_false.type, f"select of {on_true.type} and {on_false.type}"
        if on_true is on_false:
            return on_true
        return self.op("select", on_true.type, condition, on_true, on_false)

    def convert(self, how: str, operand: Value, type: ScalarType) -> Value:
        """A conversion from the list in the module's docstring; returns an operand that has the type already."""
        return operand if operand.type is type else self.op("convert", type, operand, attribute=how)

    def bitcast(self, operand: Value, type: ScalarType) -> Value:
        """Reinterprets the bits as another type of the same width."""
        return self.convert("bitcast", operand, type)

    def logical_not(self, operand: Value) -> Value:
        return self.binary("xor", operand, self.constant(I1, 1))

    # -- positions

    def value_of(self, position: Affine) -> Value:
        """A position as an I64 value."""
        if position.is_constant:
            return self.constant(I64, position.constant)
        if not position.constant and len(position.terms) == 1 and position.terms[0][1] == 1:
            return position.terms[0][0]
        args = tuple(v for v, _ in position.terms)
        return self._value("affine", I64, args, position, self._outermost_block(args), range=position.bounds())

    def clamped(self, value: Value, high: int) -> Affine:
        """An I64 value clamped, as a signed integer, to the range from 0 to `high`."""
        raised = self.binary("smax", value, self.constant(I64, 0))
        limit = self.constant(I64, high)
        args = (raised, limit)
        return Affine.of(self._value("smin", I64, args, None, self._outermost_block(args), range=(0, high)))

    def divided(self, op: str, dividend: Affine, divisor: int, limits: tuple[int, int] | None) -> Value:
        args = tuple(v for v, _ in dividend.terms)
        return self._value(op, I64, args, (dividend, divisor), self._outermost_block(args), range=limits)

    # -- loops and branches

    @contextmanager
    def hoisted(self, values: Sequence[Value]) -> Iterator[None]:
        """Puts the statements of the context before all open loops on which none of the values depends."""
        inner = self.block
        self.block = self._unguarded_block(values)
        yield
        self.block = inner

    @contextmanager
    def before_last_statement(self) -> Iterator[None]:
        """Puts the statements of the context before the last statement of the block, such as a loop they prepare."""
        last = self.block.statements.pop()
        yield
        self.block.statements.append(last)

    @contextmanager
    def loop(
        self,
        extent: int | Value,
        kind: AxisKind = AxisKind.SERIAL,
        *,
        width: int = 1,
        accumulators: int = 1,
    ) -> Iterator[Affine]:
        """Opens a loop without carries; yields the position on its axis."""
        statement = self._open(extent, kind, width, accumulators)
        yield Affine.of(statement.axis)
        self._close(statement)

    def reduce(
        self,
        extent: int | Value,
        initial: Sequence[Value],
        body: Callable[[Affine, Sequence[Value]], Sequence[Value]],
        *,
        kind: AxisKind = AxisKind.SERIAL,
        width: int = 1,
        accumulators: int = 1,
        identities: Sequence[Value] = (),
        combine: Combine | None = None,
    ) -> list[Value]:
        """Emits a loop with carries: `body(position, values)` returns their next values. Returns the final values.

        A VECTOR axis needs `identities`, from which its partial results start, and `combine`, which combines them; the
        initial values enter once, at the end. A long body reduces the number of `accumulators`
        (`loops.reduction_order`).
        """
        if extent == 0:
            return list(initial)
        statement = self._open(extent, kind, width, accumulators)
        neutral: list[Value | None] = list(identities) or [None] * len(initial)
        for start, identity in zip(initial, neutral, strict=True):
            variable = self._fresh("carry", start.type, self.block)
            statement.carries.append(Carry(start, variable, identity))
        after = body(Affine.of(statement.axis), [carry.variable for carry in statement.carries])
        for carry, value in zip(statement.carries, after, strict=True):
            carry.next = value
        if kind is AxisKind.VECTOR:
            assert combine is not None and all(identity is not None for identity in neutral)
            statement.combine = self._combiner([start.type for start in initial], combine)
            statement.accumulators = accumulators_for_body(accumulators, len(statement.body.statements))
        self._close(statement)
        return self._results(statement.carries)

    def scan(
        self,
        extent: int,
        initial: Sequence[Value],
        values: Callable[[Affine], Sequence[Value]],
        combine: Combine,
        use: Callable[[Affine, Sequence[Value]], None],
        *,
        width: int,
        identities: Sequence[Value],
    ) -> None:
        """Emits a vector loop over running values.

        `use(position, results)` receives the combination of the initial values and the values of all positions up to
        this one, in any grouping. `identities` are neutral elements of `combine`.
        """
        statement = self._open(extent, AxisKind.VECTOR, width, 1)
        for start, identity in zip(initial, identities, strict=True):
            statement.carries.append(Carry(start, self._fresh("carry", start.type, self.block), identity))
        position = Affine.of(statement.axis)
        inputs = list(values(position))
        combiner = self._combiner([start.type for start in initial], combine)
        results = [self._fresh("scan", start.type, self.block) for start in initial]
        self.block.statements.append(Scan(statement.carries, inputs, results, combiner))
        for carry, result in zip(statement.carries, results, strict=True):
            carry.next = result
        use(position, results)
        self._close(statement)

    def while_loop(
        self,
        initial: Sequence[Value],
        test: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
        *,
        is_bounded: bool = True,
    ) -> list[Value]:
        """Emits a loop that runs while `test(values)` is true; `body(values)` returns the next values.

        is_bounded: whether the sizes of arrays bound the iterations; otherwise, nothing is moved out of the body.
        Returns the final values.
        """
        outer = self.block
        statement = While(Block(outer, is_conditional=True), None, Block(outer, is_conditional=True))
        statement.is_bounded = is_bounded
        self.block = statement.test
        for start in initial:
            statement.carries.append(Carry(start, self._fresh("carry", start.type, statement.test)))
        variables = [carry.variable for carry in statement.carries]
        statement.condition = test(variables)
        statement.body.parent, statement.body.depth = statement.test, statement.test.depth + 1
        self.block = statement.body
        self.block.is_cold = not is_bounded
        for carry, value in zip(statement.carries, body(variables), strict=True):
            carry.next = value
        self.block = outer
        outer.statements.append(statement)
        return self._results(statement.carries)

    @contextmanager
    def branch(self, condition: Value, *, is_cold: bool = False) -> Iterator[None]:
        """Opens a branch: the statements of the context are executed only if the condition is true.

        is_cold: whether it seldom is. Estimates do not count a cold branch, and no value is moved out of it.
        """
        outer = self.block
        self.block = Block(outer, is_conditional=True)
        self.block.is_cold = is_cold
        yield
        outer.statements.append(If(condition, self.block))
        self.block = outer

    def cold_path(
        self, name: str, condition: Value, fast: Sequence[Value], cold: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Selects `cold()` where the condition is true, else the values `fast`.

        A vector skips `cold` unless the condition is true in some lane. `name` identifies what `cold` computes: a
        second call with the same name, condition and fast values returns the values of the first.
        """
        with self.hoisted([condition, *fast]):
            return self._cold_path(name, condition, fast, cold)

    def _cold_path(
        self, name: str, condition: Value, fast: Sequence[Value], cold: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        key = ("cold path", name, condition, *fast)
        known = self.block.shared.get(key)
        if known is not None:
            return known

        def body(values: Sequence[Value]) -> Sequence[Value]:
            chosen = [self.select(values[0], new, old) for new, old in zip(cold(), values[1:], strict=True)]
            return [self.constant(I1, 0), *chosen]

        results = self.while_any_lane([condition, *fast], lambda values: values[0], body)[1:]
        self.block.shared[key] = results
        return results

    def while_any_lane(
        self,
        initial: Sequence[Value],
        test: Callable[[Sequence[Value]], Value],
        body: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """A `while_loop` that runs while the test is true in some lane. Its body is a cold path: nothing is hoisted."""

        def cold(values: Sequence[Value]) -> Sequence[Value]:
            self.block.is_cold = True
            return body(values)

        return self.while_loop(initial, lambda values: self.op("any", I1, test(values)), cold)

    def _combiner(self, types: Sequence[ScalarType], combine: Combine) -> Combiner:
        outer = self.block
        self.block = Block(self.kernel.body, is_conditional=True)
        parameters = [self._fresh("parameter", type, self.block) for type in (*types, *types)]
        results = list(combine(parameters[: len(types)], parameters[len(types) :]))
        combiner = Combiner(parameters, self.block, results)
        self.block = outer
        return combiner

    def _open(self, extent: int | Value, kind: AxisKind, width: int, accumulators: int) -> For:
        is_branch = not isinstance(extent, int) and runs_at_most_once(extent)
        body = Block(self.block, is_conditional=is_branch, in_vector=kind is AxisKind.VECTOR)
        axis = self._fresh("axis", I64, body)
        if isinstance(extent, int):
            axis.range = (0, max(extent - 1, 0))
        elif extent.range is not None:
            axis.range = (0, max(extent.range[1] - 1, 0))
        self.block = body
        return For(axis, extent, kind, body, width, accumulators)

    def _close(self, statement: For) -> None:
        assert statement.body is self.block, "loops are closed in the order in which they were opened"
        assert statement.body.parent is not None
        self.block = statement.body.parent
        if statement.extent != 0:  # back ends assume at least one iteration
            self.block.statements.append(statement)

    def _results(self, carries: Sequence[Carry]) -> list[Value]:
        for carry in carries:
            carry.result = self._fresh("result", carry.initial.type, self.block)
        return [carry.result for carry in carries if carry.result is not None]

    # -- placement of values

    @property
    def innermost_branch(self) -> Block | None:
        """The innermost open branch, outside of which its loads are not available; None outside of branches."""
        block: Block | None = self.block
        while block is not None and not block.is_conditional:
            block = block.parent
        return block

    def _outermost_block(self, args: Sequence[Value]) -> Block:
        """Returns the outermost block in which all arguments are available, within the current cold path if any."""
        home = max((arg.block for arg in args), key=lambda block: block.depth, default=self.kernel.body)
        block = self.block
        while block.depth > home.depth and block.parent is not None:
            if block.is_cold:
                return block
            block = block.parent
        return home

    def _unguarded_block(self, args: Sequence[Value]) -> Block:
        """Returns the outermost block in which all arguments are available, within the current branch if any."""
        home, block = self._outermost_block(args), self.block
        while block is not home and not block.is_conditional and block.parent is not None:
            block = block.parent
        return block

    def _value(
        self,
        op: str,
        type: ScalarType,
        args: tuple[Value, ...],
        attribute: Any,
        block: Block,
        *,
        range: tuple[int, int] | None = None,
        reuse: bool = True,
    ) -> Value:
        key = (op, type, args, attribute)
        found = block.values.get(key) if reuse else None
        if found is None:
            found = Value(op, type, args, attribute, block, self._number(), range)
            block.statements.append(found)
            block.values[key] = found
        return found

    def _fresh(self, op: str, type: ScalarType, block: Block) -> Value:
        return Value(op, type, (), None, block, self._number())

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers - 1


def _wrapped(value: int, bits: int) -> int:
    if bits == 1:
        return value & 1
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value

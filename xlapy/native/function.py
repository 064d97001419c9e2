"""Building native functions: Python functions that append instructions, with structured control flow.

    @native
    def release(f: Function, storage: Storage) -> Bool:
        before = storage.owners.fetch_sub(1, ACQ_REL)
        is_last = before == 1
        with f.when(is_last):
            free(f, storage)
        return is_last

The annotations are the types of the native function. Calling `release(f, storage)` in another native function appends a
call. `return value` at the end, and `f.ret(value)` anywhere, return from the native function; leaving a block releases
the locks that were acquired in it.

Responsible for functions, control flow and static memory. Must not know how functions are executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.native import ir
from xlapy.native.records import LockPlace, LockSource, Record
from xlapy.native.values import Address, Bool, Nullable, Value, Word, nullable, operand_of, value_class

P = ParamSpec("P")
R = TypeVar("R", bound=Value | None)
V = TypeVar("V", bound=Value)
A = TypeVar("A", bound=Address)

MAX_STACK_BYTES = 4096
"""The largest stack memory that a native function may request: a page."""


class Function(ir.Body):
    """A native function that is being built."""

    def __init__(self, name: str, parameters: Sequence[tuple[str, type[Value]]], result: type[Value] | None) -> None:
        super().__init__(name)
        self.result_class = result
        self.parameters = [kind(self, self.register(kind.llvm_type)) for _, kind in parameters]
        self.called: dict[str, NativeFunction[Any, Any] | ExternalFunction[Any, Any]] = {}
        self.statics: dict[str, Static[Any]] = {}
        self.texts: dict[str, bytes] = {}
        self._lock_places: dict[tuple[ir.Operand, str], LockPlace] = {}

    # --- control flow

    @contextmanager
    def when(self, condition: Bool) -> Iterator[Alternative]:
        """A block that runs if the condition holds. Yields the alternative, whose block runs otherwise."""
        inside, after = self.label("then"), self.label("else")
        self.emit(ir.Branch(condition.operand, inside, after))
        self.start(inside)
        alternative = Alternative(self, condition)
        with self._block(condition.operand):
            yield alternative
        alternative.close(after)

    @contextmanager
    def loop(self) -> Iterator[Loop]:
        """A block that runs again and again, until it leaves the loop."""
        made = Loop(self, self.label("loop"), self.label("loop.end"), len(self.held))
        self.start(made.begin)
        with self._block():
            yield made
        if not self.is_terminated:
            self.emit(ir.Jump(made.begin))
        if any(isinstance(one, ir.Jump) and one.target == made.end for one in self.instructions):
            self.start(made.end)

    @contextmanager
    def count(self, extent: Word | int) -> Iterator[CountedLoop]:
        """A block that runs for each number below the extent, which is evaluated once."""
        index = self.variable(Word, 0)
        begin, inside, following, end = (
            self.label(name) for name in ("count", "count.body", "count.next", "count.end")
        )
        self.start(begin)
        number = index.get()
        self.emit(ir.Branch((number < extent).operand, inside, end))
        self.start(inside)
        with self._block():
            yield CountedLoop(self, following, end, len(self.held), number)
        self.start(following)
        index.set(number + 1)
        self.emit(ir.Jump(begin))
        self.start(end)

    @contextmanager
    def locked(self, lock: LockPlace) -> Iterator[None]:
        """A block in which this thread holds a lock."""
        if lock.key in self.held:
            raise self.fail(f"{lock.place} is held already")
        self.emit(ir.AcquireLock(lock.address.operand, lock.place))
        self.held.append(lock.key)
        self._lock_places[lock.key] = lock
        with self._block():
            yield
        if not self.is_terminated:
            self._release(lock.key)
        self.held.pop()

    def acquire(self, lock: LockPlace) -> None:
        """Acquires a lock that the function still holds when it returns."""
        self.emit(ir.AcquireLock(lock.address.operand, lock.place))

    def release(self, lock: LockPlace) -> None:
        """Releases a lock that this thread has acquired in another function."""
        self.emit(ir.ReleaseLock(lock.address.operand, lock.place))

    def ret(self, value: Any = None) -> None:
        """Returns from the native function."""
        operand = None if self.result_class is None else operand_of(self, self.result_class, value)
        for key in reversed(self.held):
            self._release(key)
        self.emit(ir.Return(operand))

    def leave_block(self, target: str, depth: int) -> None:
        """Jumps out of blocks; releases the locks acquired beyond a depth."""
        for key in reversed(self.held[depth:]):
            self._release(key)
        self.emit(ir.Jump(target))

    # --- values and memory

    def variable(self, kind: type[V], value: Any) -> Variable[V]:
        """A local variable with an initial value."""
        kind = value_class(kind)
        register = self.register(kind.llvm_type)
        self.variables.add(register)
        made = Variable(self, kind, register)
        made.set(value)
        return made

    def constant(self, kind: type[V], value: Any) -> V:
        """A number, or None for the null pointer."""
        kind = value_class(kind)
        return kind(self, operand_of(self, kind, value))

    def spins(self, count: int) -> Word:
        """How often a thread repeats something before it sleeps."""
        return Word(self, ir.SpinCount(count, Word.llvm_type))

    def pause(self) -> None:
        """Tells the processor that this thread spins."""
        self.emit(ir.Pause())

    def null(self, kind: type[V]) -> Nullable[V]:
        """The null pointer."""
        return nullable(kind)(self, ir.Constant(0, "ptr"))

    def select(self, condition: Bool, if_true: V, if_false: V) -> V:
        """One of two values."""
        operands = condition.operand, if_true.operand, if_false.operand
        return type(if_true)(self, self.compute(if_true.llvm_type, "select", *operands))

    def stack(self, size: int) -> Address:
        """Uninitialized bytes that live until the function returns. Their number is a constant, as stacks of threads
        are small: memory whose size depends on arguments is allocated."""
        assert size <= MAX_STACK_BYTES, size
        result = self.register("ptr")
        self.emit(ir.Stack(result, size))
        self.exclusive.add(result)
        return Address(self, result)

    def allocate(self, kind: type[A], extra: Word | int = 0) -> Nullable[A]:
        """Allocates a record, and a number of bytes after it; null if memory is exhausted. The fields are not
        initialized."""
        size = self.constant(Word, kind.byte_size() if issubclass(kind, Record) else 0) + extra
        made = malloc(self, size)
        self.exclusive.add(made.operand)
        return nullable(kind)(self, made.operand)

    def exclusive_access(self, record: A, reason: str) -> A:
        """States that no other thread can reach a record from here on, and why."""
        assert reason
        self.exclusive.add(record.operand)
        return record

    def static(self, memory: Static[A]) -> A:
        """A record in static memory."""
        self.statics[memory.name] = memory
        return memory.kind(self, ir.Symbol(memory.name))

    def text(self, value: str) -> tuple[Address, int]:
        """The address of a constant text, and its length in bytes."""
        data = value.encode()
        name = f"{self.name}_text{len(self.texts)}"
        self.texts[name] = data
        return Address(self, ir.Symbol(name)), len(data)

    def address_of(self, function: NativeFunction[Any, Any]) -> Address:
        """The address of a native function, to be called by others."""
        self.called[function.name] = function
        return Address(self, ir.Symbol(function.name))

    def call_address(self, function: Address, *arguments: Value, result: type[V] | None = None) -> Any:
        """Calls the function at an address."""
        operands = tuple(argument.operand for argument in arguments)
        register = self.register(result.llvm_type) if result else None
        assert not isinstance(function.operand, ir.Constant)
        self.emit(ir.Call(register, function.operand, operands))
        return result(self, register) if result and register else None

    def check(self, condition: Bool, message: str) -> None:
        """States what always holds here. Only the checker of interleavings evaluates it."""
        self.emit(ir.Check(condition.operand, message))

    @contextmanager
    def _block(self, condition: ir.Operand | None = None) -> Iterator[None]:
        self.open_block(condition)
        yield
        self.close_block(condition)

    def _release(self, key: tuple[ir.Operand, str]) -> None:
        place = self._lock_places.get(key)
        if place is not None:
            self.emit(ir.ReleaseLock(place.address.operand, place.place))


@dataclass(slots=True)
class Alternative:
    """What follows a `when` block: `with alternative.otherwise():` directly after it."""

    function: Function
    condition: Bool
    _length: int = 0
    _begin: str = ""
    _end: str = ""
    _is_end_reached: bool = False

    def close(self, begin: str) -> None:
        """Ends the `when` block. Both paths continue here unless `otherwise` follows."""
        function = self.function
        self._begin, self._end = begin, function.label("end")
        self._is_end_reached = not function.is_terminated
        if self._is_end_reached:
            function.emit(ir.Jump(self._end))
        function.start(begin)
        if self._is_end_reached:
            function.start(self._end)
        self._length = len(function.instructions)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The block that runs if the condition does not hold."""
        function = self.function
        if len(function.instructions) != self._length:
            raise function.fail("`otherwise` must follow its `when` block directly")
        if self._is_end_reached:
            del function.instructions[-2:]  # the jump to the end, and its label
        function.open_block(self.condition.operand, is_negated=True)
        yield
        function.close_block(self.condition.operand, is_negated=True)
        if not function.is_terminated or self._is_end_reached:
            function.start(self._end)


@dataclass(frozen=True, slots=True)
class Loop:
    """An endless loop."""

    function: Function
    begin: str
    end: str
    depth: int

    def leave(self) -> None:
        """Continues after the loop."""
        self.function.leave_block(self.end, self.depth)

    def again(self) -> None:
        """Continues with the next iteration."""
        self.function.leave_block(self.begin, self.depth)


@dataclass(frozen=True, slots=True)
class CountedLoop(Loop):
    """A loop over the numbers below an extent. index: the number of this iteration."""

    index: Word


@dataclass(frozen=True, slots=True)
class Variable(Generic[V]):
    """A local variable."""

    function: Function
    kind: type[V]
    register: ir.Register

    def get(self) -> V:
        """The value at this point."""
        result = self.function.compute(self.register.type, "copy", self.register)
        return self.kind(self.function, result)

    def set(self, value: Any) -> None:
        """Assigns a value."""
        self.function.emit(ir.Assign(self.register, operand_of(self.function, self.kind, value)))


@dataclass(frozen=True, slots=True)
class Static(Generic[A]):
    """Memory that lives as long as the process: zeros at the start. name: its symbol. size: bytes, if it is larger than
    the record."""

    name: str
    kind: type[A]
    size: int = 0

    @property
    def bytes(self) -> int:
        """The size in bytes: whole cache lines."""
        return max(self.size, self.kind.byte_size() if issubclass(self.kind, Record) else 0, 1) + 63 & ~63

    def guard(self, field: str) -> LockSource:
        """A lock of the record, which guards fields of other records."""
        return LockSource(self.name, field)


class NativeFunction(Generic[P, R]):
    """A native function. It is built when it is first needed.

    holds: locks that callers hold.
    """

    def __init__(self, build: Callable[Concatenate[Any, P], R], holds: Sequence[LockSource] = ()) -> None:
        self.name = build.__name__
        self.__doc__ = build.__doc__
        self._build = build
        self._holds = holds
        self._bodies = SingleFlight(self._make_body)

    def __call__(self, f: Function, *arguments: P.args, **named: P.kwargs) -> R:
        """Appends a call to the function that is being built."""
        parameters, result = self.signature()
        operands = _operands(f, self.name, parameters, arguments)
        for lock in self._holds:
            if lock.key not in f.held:
                raise f.fail(f"{self.name} must be called while {lock.field} of {lock.symbol} is held")
        f.called[self.name] = self
        return _call(f, self.name, operands, result)

    def built(self) -> Function:
        """The instructions."""
        return self._bodies()

    def _make_body(self) -> Function:
        parameters, result = self.signature()
        function = Function(self.name, parameters, result)
        function.held += [lock.key for lock in self._holds]
        value = self._build(function, *function.parameters)  # type: ignore[call-arg, arg-type]
        if not function.is_terminated:
            if value is None and result is not None:
                raise function.fail("a path reaches the end without a return")
            function.ret(value)
        return function

    def signature(self) -> tuple[list[tuple[str, Any]], Any]:
        """Names and classes of the parameters, and the class of the result or None."""
        hints = get_type_hints(self._build)
        result = hints.pop("return", None)
        hints.pop("f", None)
        kinds = [(name, value_class(hint)) for name, hint in hints.items()]
        return kinds, None if result in (None, type(None)) else value_class(result)


class ExternalFunction(Generic[P, R]):
    """A function of the C library, or one that is linked by its name."""

    def __init__(self, signature: Callable[Concatenate[Any, P], R]) -> None:
        self.name = signature.__name__
        self.__doc__ = signature.__doc__
        hints = get_type_hints(signature)
        result = hints.pop("return", None)
        hints.pop("f", None)
        self.parameters = [(name, value_class(hint)) for name, hint in hints.items()]
        self.result = None if result in (None, type(None)) else value_class(result)

    def signature(self) -> tuple[list[tuple[str, Any]], Any]:
        """Names and classes of the parameters, and the class of the result or None."""
        return self.parameters, self.result

    def __call__(self, f: Function, *arguments: P.args, **named: P.kwargs) -> R:
        """Appends a call to the function that is being built."""
        f.called[self.name] = self
        operands = _operands(f, self.name, self.parameters, arguments)
        return _call(f, self.name, operands, self.result)


def native(build: Callable[Concatenate[Function, P], R]) -> NativeFunction[P, R]:
    """Declares a native function."""
    return NativeFunction(build)


def native_holding(
    *locks: LockSource,
) -> Callable[[Callable[Concatenate[Function, P], R]], NativeFunction[P, R]]:
    """Declares a native function whose callers hold locks in static memory."""
    return lambda build: NativeFunction(build, locks)


def external(signature: Callable[Concatenate[Function, P], R]) -> ExternalFunction[P, R]:
    """Declares a function that is defined elsewhere. The annotations are its types; its body is empty."""
    return ExternalFunction(signature)


def _operands(
    f: Function, name: str, parameters: Sequence[tuple[str, type[Any]]], arguments: Sequence[Any]
) -> tuple[ir.Operand, ...]:
    if len(arguments) != len(parameters):
        raise f.fail(f"{name} takes {len(parameters)} arguments, given {len(arguments)}")
    return tuple(operand_of(f, kind, value) for (_, kind), value in zip(parameters, arguments, strict=True))


def _call(f: Function, name: str, operands: tuple[ir.Operand, ...], result: type[Any] | None) -> Any:
    register = f.register(result.llvm_type) if result else None
    f.emit(ir.Call(register, ir.Symbol(name), operands))
    return result(f, register) if result and register else None


@external
def malloc(f: Function, size: Word) -> Nullable[Address]:  # type: ignore[empty-body]
    """Allocates bytes; null if memory is exhausted."""


@external
def free(f: Function, memory: Nullable[Address]) -> None:
    """Frees memory of `malloc`; nothing for null."""

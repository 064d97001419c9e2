"""Records: shared memory, declared once as classes whose annotations say how each field may be accessed.

    class Storage(Record):
        owners: Atomic[Word]                     # any thread, at any time; every access names its ordering
        size: Final[Word]                        # written before the record is published, only read afterwards
        data: Trailing[Byte]                     # what follows the record

    class Stream(Record, lock="lock"):
        lock: Lock
        first: Guarded[Nullable[LaunchFrame]]    # only while the lock is held

    class LaunchFrame(Record):
        next: Owned[Nullable[LaunchFrame]]       # only by the thread that owns the frame

An instance of such a class is the address of a record in a native function; reading an attribute loads a field. A field
occupies a slot of 8 bytes, so that Python can read records as arrays of words.

Responsible for the layout of records and the rules of access. Must not know what records are for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args, get_origin, get_type_hints, overload

from xlapy.native import ir
from xlapy.native.ir import LoadOrdering, Operand, Ordering, StoreOrdering
from xlapy.native.values import Address, Bool, Byte, Integer, Value, Word, operand_of, value_class

SLOT = 8
"""Bytes of a field."""

V = TypeVar("V", bound=Value)
U = TypeVar("U", bound=Value)


@dataclass(frozen=True, slots=True)
class AtomicPlace(Generic[V]):
    """An atomic word of a record. Every access names its memory ordering."""

    record: Record
    field: str
    kind: type[V]

    @property
    def address(self) -> Address:
        return self.record.field_address(self.field)

    def load(self, ordering: LoadOrdering) -> V:
        """Returns the value."""
        self._check(ordering, Ordering.RELAXED, Ordering.ACQUIRE, Ordering.SEQ_CST)
        body, result = self.record.body, self.record.body.register(self.kind.llvm_type)
        body.emit(ir.Load(result, self.address.operand, ordering, self._place))
        return self.kind(body, result)

    def store(self, value: V | int | None, ordering: StoreOrdering) -> None:
        """Stores a value."""
        self._check(ordering, Ordering.RELAXED, Ordering.RELEASE, Ordering.SEQ_CST)
        operand = self._given(value)
        self.record.body.emit(ir.Store(self.address.operand, operand, ordering, self._place))

    def exchange(self, value: V | int | None, ordering: Ordering) -> V:
        """Stores a value; returns the one before."""
        return self._modify("xchg", self._given(value), ordering)

    def fetch_add(self, value: V | int, ordering: Ordering) -> V:
        """Adds a value; returns the one before."""
        return self._modify("add", self._given(value), ordering)

    def fetch_sub(self, value: V | int, ordering: Ordering) -> V:
        """Subtracts a value; returns the one before."""
        return self._modify("sub", self._given(value), ordering)

    def fetch_or(self, value: V | int, ordering: Ordering) -> V:
        """Sets bits; returns the value before."""
        return self._modify("or", self._given(value), ordering)

    def fetch_xor(self, value: V | int, ordering: Ordering) -> V:
        """Inverts bits; returns the value before."""
        return self._modify("xor", self._given(value), ordering)

    def fetch_max(self, value: V | int, ordering: Ordering) -> V:
        """Stores the maximum of both, as unsigned numbers; returns the value before."""
        return self._modify("umax", self._given(value), ordering)

    def compare_exchange(
        self, expected: V | int | None, new: V | int | None, success: Ordering, failure: LoadOrdering
    ) -> tuple[V, Bool]:
        """Stores `new` if the value is `expected`; returns the value before, and whether it did."""
        self._check(failure, Ordering.RELAXED, Ordering.ACQUIRE, Ordering.SEQ_CST)
        if not isinstance(success, Ordering):
            raise self.record.body.fail(f"the access of {self._place} names no memory ordering")
        body = self.record.body
        result, succeeded = body.register(self.kind.llvm_type), body.register("i1")
        before, after = operand_of(body, self.kind, expected), self._given(new)
        body.emit(
            ir.CompareExchange(result, succeeded, self.address.operand, before, after, success, failure, self._place)
        )
        return self.kind(body, result), Bool(body, succeeded)

    def wait(self, expected: V | int, timeout_nanoseconds: Word | int | None = None) -> None:
        """Sleeps while the word, of 32 bits, equals `expected`. May return for no reason, or at the timeout, which is
        less than a second."""
        body = self.record.body
        timeout = None if timeout_nanoseconds is None else operand_of(body, Word, timeout_nanoseconds)
        body.emit(ir.FutexWait(self._futex(), operand_of(body, self.kind, expected), timeout, self._place))

    def wake(self, count: int = 2**31 - 1) -> None:
        """Wakes threads that sleep on the word."""
        self.record.body.emit(ir.FutexWake(self._futex(), count, self._place))

    @property
    def _place(self) -> str:
        return f"{type(self.record).__name__}.{self.field}"

    def _futex(self) -> Operand:
        if self.kind.llvm_type != "i32":
            raise self.record.body.fail(f"{self._place} is not a futex: a futex has 32 bits")
        return self.address.operand

    def _given(self, value: Any) -> Operand:
        operand = operand_of(self.record.body, self.kind, value)
        self.record.body.publish(operand)
        return operand

    def _modify(self, operation: str, operand: Operand, ordering: Ordering) -> V:
        if not isinstance(ordering, Ordering):
            raise self.record.body.fail(f"the access of {self._place} names no memory ordering")
        body, result = self.record.body, self.record.body.register(self.kind.llvm_type)
        body.emit(ir.ReadModifyWrite(result, operation, self.address.operand, operand, ordering, self._place))
        return self.kind(body, result)

    def _check(self, ordering: Any, *allowed: Ordering) -> None:
        if ordering not in allowed:
            names = ", ".join(one.name for one in allowed)
            raise self.record.body.fail(f"the access of {self._place} must name one of the orderings {names}")


@dataclass(frozen=True, slots=True)
class LockPlace:
    """A lock of a record, for `Function.locked`."""

    record: Record
    field: str

    @property
    def key(self) -> tuple[Operand, str]:
        return self.record.operand, self.field

    @property
    def address(self) -> Address:
        return self.record.field_address(self.field)

    @property
    def place(self) -> str:
        return f"{type(self.record).__name__}.{self.field}"


class Field(Generic[V]):
    """A field of a record. kind: the class of its values."""

    def __init__(self, name: str, offset: int, kind: type[V]) -> None:
        self.name, self.offset, self.kind = name, offset, kind


class Atomic(Field[V]):
    """A word that any thread accesses at any time."""

    @overload
    def __get__(self, record: None, owner: Any) -> Atomic[V]: ...
    @overload
    def __get__(self, record: Record, owner: Any) -> AtomicPlace[V]: ...
    def __get__(self, record: Record | None, owner: Any) -> Atomic[V] | AtomicPlace[V]:
        return self if record is None else AtomicPlace(record, self.name, self.kind)

    def __set__(self, record: Record, value: AtomicPlace[V]) -> None:
        raise record.body.fail(f"{type(record).__name__}.{self.name} is atomic: use `store` and name an ordering")


class Lock(Field[Value]):
    """A lock: mutual exclusion of threads, which sleep while they wait."""

    @overload
    def __get__(self, record: None, owner: Any) -> Lock: ...
    @overload
    def __get__(self, record: Record, owner: Any) -> LockPlace: ...
    def __get__(self, record: Record | None, owner: Any) -> Lock | LockPlace:
        return self if record is None else LockPlace(record, self.name)


class _PlainField(Field[V]):
    """A field that is accessed without synchronization."""

    @overload
    def __get__(self, record: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, record: Record, owner: Any) -> V: ...
    def __get__(self, record: Record | None, owner: Any) -> Self | V:
        if record is None:
            return self
        self._check_read(record)
        return record.load_plain(self.name, self.kind)

    def __set__(self, record: Record, value: V | int | None) -> None:
        self._check_write(record)
        record.store_plain(self.name, self.kind, value)

    def _check_read(self, record: Record) -> None:
        self._check_write(record)

    def _check_write(self, record: Record) -> None:
        raise NotImplementedError

    def _place(self, record: Record) -> str:
        return f"{type(record).__name__}.{self.name}"


class Final(_PlainField[V]):
    """Written before other threads can reach the record, only read afterwards."""

    def _check_read(self, record: Record) -> None:
        """Reading is always allowed."""

    def _check_write(self, record: Record) -> None:
        if not record.is_exclusive:
            raise record.body.fail(f"{self._place(record)} is final, and other threads can reach the record here")


class Guarded(_PlainField[V]):
    """Accessed only while the record's lock is held."""

    def _check_write(self, record: Record) -> None:
        lock = record.lock_key()
        if lock not in record.body.held and not record.is_exclusive:
            raise record.body.fail(f"{self._place(record)} is guarded by {lock[1]}, which is not held here")


class Owned(_PlainField[V]):
    """Accessed only by the thread that owns the record: ownership passes from thread to thread as a whole, through an
    atomic word or a lock. The checker of interleavings verifies that."""

    def _check_write(self, record: Record) -> None:
        """Who owns the record is not known here."""


class Trailing(Field[V]):
    """An array that follows the record, of a size that the allocation decides. If the record has a lock, the array is
    guarded by it."""

    @overload
    def __get__(self, record: None, owner: Any) -> Trailing[V]: ...
    @overload
    def __get__(self, record: Record, owner: Any) -> Array[V]: ...
    def __get__(self, record: Record | None, owner: Any) -> Trailing[V] | Array[V]:
        if record is None:
            return self
        if record.lock_name and record.lock_key() not in record.body.held and not record.is_exclusive:
            raise record.body.fail(f"{type(record).__name__}.{self.name} is guarded by a lock that is not held here")
        address = record.offset(self.offset)
        return Array(record.body, address.operand, self.kind, f"{type(record).__name__}.{self.name}")


class AtomicTrailing(Field[V]):
    """An array of atomic words that follows the record."""

    @overload
    def __get__(self, record: None, owner: Any) -> AtomicTrailing[V]: ...
    @overload
    def __get__(self, record: Record, owner: Any) -> AtomicArray[V]: ...
    def __get__(self, record: Record | None, owner: Any) -> AtomicTrailing[V] | AtomicArray[V]:
        if record is None:
            return self
        return AtomicArray(record, self.offset, self.kind, f"{type(record).__name__}.{self.name}")


@dataclass(frozen=True, slots=True)
class AtomicArray(Generic[V]):
    """Consecutive atomic words."""

    record: Record
    offset: int
    kind: type[V]
    place: str

    def __getitem__(self, index: Integer | int) -> AtomicPlace[V]:
        address = self.record.offset(index * SLOT + self.offset)  # type: ignore[arg-type]
        return AtomicPlace(_Element(self.record.body, address.operand, self.place), self.place, self.kind)


class Array(Address, Generic[V]):
    """Consecutive values, accessed by index without synchronization: slots of 8 bytes, or bytes."""

    __slots__ = ("kind", "place")

    def __init__(self, body: ir.Body, operand: Operand, kind: type[V], place: str) -> None:
        super().__init__(body, operand)
        self.kind, self.place = kind, place

    def __getitem__(self, index: Integer | int) -> V:
        result = self.body.register(self.kind.llvm_type)
        self.body.emit(ir.Load(result, self._address(index), None, self.place))
        return self.kind(self.body, result)

    def __setitem__(self, index: Integer | int, value: V | int | None) -> None:
        operand = operand_of(self.body, self.kind, value)
        self.body.publish(operand)
        self.body.emit(ir.Store(self._address(index), operand, None, self.place))

    def after(self, count: Word | int, kind: type[U]) -> Array[U]:
        """The array of another kind that begins behind a number of elements."""
        return Array(self.body, self._address(count), kind, self.place)

    def _address(self, index: Integer | int) -> Operand:
        scaled = index if self.kind is Byte else index * SLOT
        return self.offset(scaled).operand  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class LockSource:
    """A lock in static memory that guards fields of several records. symbol: its record's name in static memory."""

    symbol: str
    field: str

    @property
    def key(self) -> tuple[Operand, str]:
        return ir.Symbol(self.symbol), self.field


class Record(Address):
    """The address of a record. Subclasses declare the fields."""

    lock_name: ClassVar[str | LockSource] = ""
    _offsets: ClassVar[Mapping[str, int] | None] = None
    __slots__ = ()

    def __init_subclass__(cls, lock: str | LockSource = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.lock_name = lock or cls.lock_name
        own = [name for name in inspect.get_annotations(cls) if not name.startswith("_")]
        for index, name in enumerate(own):
            setattr(cls, name, _Undetermined(cls, name, index * SLOT))
        if own:
            cls._offsets = {name: index * SLOT for index, name in enumerate(own)}

    @classmethod
    def offsets(cls) -> Mapping[str, int]:
        """The offset of each field in bytes. A trailing array has the offset of its first element."""
        return cls._offsets or {}

    @classmethod
    def unshared_offsets(cls) -> Mapping[str, int]:
        """The offsets of the fields that code outside of native functions may access: those that only their owner, or
        nobody after publication, writes."""
        return {name: offset for name, offset in cls.offsets().items() if isinstance(getattr(cls, name), Final | Owned)}

    @classmethod
    def byte_size(cls) -> int:
        """The size in bytes, without the trailing array."""
        hints = inspect.get_annotations(cls)
        trailing = sum(str(hint).startswith(("Trailing[", "AtomicTrailing[")) for hint in hints.values())
        return (len(cls.offsets()) - trailing) * SLOT

    @property
    def is_exclusive(self) -> bool:
        """Whether no other thread can reach the record."""
        return self.operand in self.body.exclusive

    def lock_key(self) -> tuple[Operand, str]:
        """The lock that guards the record's guarded fields."""
        if isinstance(self.lock_name, LockSource):
            return self.lock_name.key
        return self.operand, self.lock_name

    def field_address(self, name: str) -> Address:
        """The address of a field."""
        return self.offset(self.offsets()[name])

    def load_plain(self, name: str, kind: type[V]) -> V:
        """The value of a field, loaded without synchronization."""
        result = self.body.register(kind.llvm_type)
        self.body.emit(ir.Load(result, self.field_address(name).operand, None, f"{type(self).__name__}.{name}"))
        return kind(self.body, result)

    def store_plain(self, name: str, kind: type[V], value: Any) -> None:
        """Stores the value of a field without synchronization."""
        operand = operand_of(self.body, kind, value)
        self.body.publish(operand)
        place = f"{type(self).__name__}.{name}"
        self.body.emit(ir.Store(self.field_address(name).operand, operand, None, place))


class _Element(Record):
    """An element of an array, where an atomic word stands."""

    __slots__ = ("_place",)

    def __init__(self, body: ir.Body, operand: Operand, place: str) -> None:
        super().__init__(body, operand)
        self._place = place

    def field_address(self, name: str) -> Address:
        return Address(self.body, self.operand)


class _Undetermined:
    """A field whose annotation is evaluated when it is first used: it may name a class that is declared later."""

    def __init__(self, owner: type[Record], name: str, offset: int) -> None:
        self._owner, self._name, self._offset = owner, name, offset

    def __get__(self, record: Record | None, owner: Any) -> Any:
        return self._determined().__get__(record, owner)

    def __set__(self, record: Record, value: Any) -> None:
        self._determined().__set__(record, value)

    def _determined(self) -> Any:
        hint = get_type_hints(self._owner)[self._name]
        field: Any
        if hint is Lock:
            field = Lock(self._name, self._offset, Value)
        else:
            field = get_origin(hint)(self._name, self._offset, value_class(get_args(hint)[0]))
        setattr(self._owner, self._name, field)
        return field

"""Values of native functions: integers, truth values, and addresses, whose operators append instructions.

    count = words + 1            # Word
    is_last = count == limit     # Bool; comparisons of integers are unsigned

A pointer that may be null is a `Nullable[T]`; its `value` is a `T`, available only where the pointer has been tested.

Responsible for the types of values and what they allow. Must not know records or functions.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self, TypeVar, get_args, get_origin

from xlapy.native.ir import Body, Constant, Operand

T = TypeVar("T", bound="Value")


class Value:
    """A value of a native function. body: the function. operand: where the value is."""

    llvm_type: ClassVar[str] = ""
    __slots__ = ("body", "operand")

    def __init__(self, body: Body, operand: Operand) -> None:
        self.body = body
        self.operand = operand

    def __bool__(self) -> bool:
        raise self.body.fail("the truth value is only known when the function runs: use `when`")

    __hash__ = object.__hash__


class Bool(Value):
    """A truth value."""

    llvm_type = "i1"
    __slots__ = ()

    def __and__(self, other: Bool) -> Bool:
        return self._combined("and", other)

    def __or__(self, other: Bool) -> Bool:
        return self._combined("or", other)

    def __invert__(self) -> Bool:
        return Bool(self.body, self.body.compute("i1", "xor", self.operand, Constant(1, "i1")))

    def to(self, kind: type[I]) -> I:
        """The number 0 or 1."""
        return kind(self.body, self.body.compute(kind.llvm_type, "zext", self.operand))

    def _combined(self, operation: str, other: Bool) -> Bool:
        return Bool(self.body, self.body.compute("i1", operation, self.operand, operand_of(self.body, Bool, other)))


class Integer(Value):
    """An integer. Comparisons and divisions are unsigned; arithmetic wraps."""

    bits: ClassVar[int] = 0
    __slots__ = ()

    def __add__(self, other: Self | int) -> Self:
        return self._combined("add", other)

    def __sub__(self, other: Self | int) -> Self:
        return self._combined("sub", other)

    def __mul__(self, other: Self | int) -> Self:
        return self._combined("mul", other)

    def __floordiv__(self, other: Self | int) -> Self:
        return self._combined("udiv", other)

    def __and__(self, other: Self | int) -> Self:
        return self._combined("and", other)

    def __or__(self, other: Self | int) -> Self:
        return self._combined("or", other)

    def __xor__(self, other: Self | int) -> Self:
        return self._combined("xor", other)

    def __lshift__(self, other: Self | int) -> Self:
        return self._combined("shl", other)

    def __rshift__(self, other: Self | int) -> Self:
        return self._combined("lshr", other)

    def __eq__(self, other: Self | int) -> Bool:  # type: ignore[override]
        return self._compared("icmp eq", other)

    def __ne__(self, other: Self | int) -> Bool:  # type: ignore[override]
        return self._compared("icmp ne", other)

    def __lt__(self, other: Self | int) -> Bool:
        return self._compared("icmp ult", other)

    def __le__(self, other: Self | int) -> Bool:
        return self._compared("icmp ule", other)

    def __gt__(self, other: Self | int) -> Bool:
        return self._compared("icmp ugt", other)

    def __ge__(self, other: Self | int) -> Bool:
        return self._compared("icmp uge", other)

    __hash__ = object.__hash__

    def is_negative(self) -> Bool:
        """Whether the number is negative if it is read as a signed one."""
        return Bool(self.body, self.body.compute("i1", "icmp slt", self.operand, Constant(0, self.llvm_type)))

    def leading_zeros(self) -> Self:
        """The number of zero bits before the first one."""
        return type(self)(self.body, self.body.compute(self.llvm_type, "ctlz", self.operand))

    def to(self, kind: type[I]) -> I:
        """The number in another width: upper bits are zeros, or are cut off."""
        if kind.bits == self.bits:
            return kind(self.body, self.operand)
        operation = "zext" if kind.bits > self.bits else "trunc"
        return kind(self.body, self.body.compute(kind.llvm_type, operation, self.operand))

    def _combined(self, operation: str, other: Self | int) -> Self:
        right = operand_of(self.body, type(self), other)
        return type(self)(self.body, self.body.compute(self.llvm_type, operation, self.operand, right))

    def _compared(self, operation: str, other: Self | int) -> Bool:
        return Bool(
            self.body, self.body.compute("i1", operation, self.operand, operand_of(self.body, type(self), other))
        )


class Word(Integer):
    """64 bits."""

    llvm_type, bits = "i64", 64
    __slots__ = ()


class Int32(Integer):
    """32 bits, the size of a futex."""

    llvm_type, bits = "i32", 32
    __slots__ = ()


class Byte(Integer):
    """8 bits."""

    llvm_type, bits = "i8", 8
    __slots__ = ()


I = TypeVar("I", bound=Integer)  # noqa: E741


class Address(Value):
    """The address of memory whose contents this function does not access. It is never null."""

    llvm_type = "ptr"
    __slots__ = ()

    def __eq__(self, other: Address | Nullable[Any]) -> Bool:  # type: ignore[override]
        return Bool(self.body, self.body.compute("i1", "icmp eq", self.operand, other.operand))

    def __ne__(self, other: Address | Nullable[Any]) -> Bool:  # type: ignore[override]
        return ~(self == other)

    __hash__ = object.__hash__

    def offset(self, size: Word | int) -> Address:
        """The address that many bytes further."""
        if isinstance(size, int) and size == 0:
            return Address(self.body, self.operand)
        return Address(self.body, self.body.compute("ptr", "offset", self.operand, operand_of(self.body, Word, size)))

    def cast(self, kind: type[A]) -> A:
        """The same address, as that of another kind of memory."""
        return kind(self.body, self.operand)

    def maybe(self) -> Nullable[Self]:
        """The same address where null is allowed too."""
        return nullable(type(self))(self.body, self.operand)

    def as_memory(self) -> Nullable[Address]:
        """The same address as that of any memory."""
        return nullable(Address)(self.body, self.operand)


A = TypeVar("A", bound=Address)


class Nullable(Value, Generic[T]):
    """A pointer that may be null. `value` is the pointer, wherever the function has tested it: inside
    `when(p.is_present())`, or after a `when(p.is_null())` that leaves the function or the loop."""

    llvm_type = "ptr"
    target: ClassVar[Any] = None
    __slots__ = ()

    def is_null(self) -> Bool:
        """Whether the pointer is null."""
        result = self.body.compute("i1", "icmp eq", self.operand, Constant(0, "ptr"))
        self.body.pointer_tests[result] = (self.operand, False)
        return Bool(self.body, result)

    def is_present(self) -> Bool:
        """Whether the pointer is not null."""
        result = self.body.compute("i1", "icmp ne", self.operand, Constant(0, "ptr"))
        self.body.pointer_tests[result] = (self.operand, True)
        return Bool(self.body, result)

    def __eq__(self, other: Nullable[Any] | Address) -> Bool:  # type: ignore[override]
        return Bool(self.body, self.body.compute("i1", "icmp eq", self.operand, other.operand))

    def __ne__(self, other: Nullable[Any] | Address) -> Bool:  # type: ignore[override]
        return ~(self == other)

    __hash__ = object.__hash__

    def cast(self, kind: type[A]) -> Nullable[A]:
        """The same pointer, to another kind of memory."""
        return nullable(kind)(self.body, self.operand)

    def known(self, reason: str) -> T:
        """The pointer. States that it is not null here, and why."""
        assert reason
        return self.target(self.body, self.operand)

    def as_memory(self) -> Nullable[Address]:
        """The same pointer, to any memory."""
        return nullable(Address)(self.body, self.operand)

    @property
    def value(self) -> T:
        """The pointer; `NativeTypeError` where it may still be null."""
        if not self.body.is_present(self.operand):
            raise self.body.fail(f"a pointer to {self.target.__name__} may be null here: test it first")
        return self.target(self.body, self.operand)


_kinds: dict[Any, type[Nullable[Any]]] = {}


def nullable(target: type[T]) -> type[Nullable[T]]:
    """The class of pointers to a kind of memory that may be null."""
    if target not in _kinds:
        _kinds.setdefault(
            target, type(f"Nullable[{target.__name__}]", (Nullable,), {"target": target, "__slots__": ()})
        )
    return _kinds[target]


def value_class(annotation: Any) -> Any:
    """The class of values for an annotation, such as `Word` or `Nullable[Event]`."""
    if get_origin(annotation) is Nullable:
        return nullable(get_args(annotation)[0])
    return annotation


def operand_of(body: Body, kind: type[Any], value: Any) -> Operand:
    """The operand of a value, which may be a Python number or, for `Nullable`, None; `NativeTypeError` if it is of
    another type."""
    if issubclass(kind, Integer | Bool) and isinstance(value, int):
        return Constant(int(value) & ((1 << getattr(kind, "bits", 1)) - 1), kind.llvm_type)
    if issubclass(kind, Nullable):
        if value is None:
            return Constant(0, "ptr")
        if isinstance(value, kind.target):
            return value.operand
    if isinstance(value, kind):
        return value.operand
    raise body.fail(f"expected {kind.__name__}, found {type(value).__name__}")

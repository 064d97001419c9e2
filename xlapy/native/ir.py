"""The instructions of native functions, and the list of instructions that a function consists of.

A function is a flat list: labels, jumps and branches express control flow. A register is assigned once, except for
variables. Every access of memory says whether it is atomic, and with which ordering.

Responsible for what a function consists of. Must not know LLVM, or how schedules are explored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias


class NativeTypeError(TypeError):
    """A native function breaks a rule of its memory: an access without lock, ordering or ownership, a pointer used
    before it is tested, a value of another type."""


class Ordering(Enum):
    """Memory orderings, with LLVM's names as values."""

    RELAXED = "monotonic"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SEQ_CST = "seq_cst"

    @property
    def acquires(self) -> bool:
        return self in (Ordering.ACQUIRE, Ordering.ACQ_REL, Ordering.SEQ_CST)

    @property
    def releases(self) -> bool:
        return self in (Ordering.RELEASE, Ordering.ACQ_REL, Ordering.SEQ_CST)


RELAXED: Final = Ordering.RELAXED
ACQUIRE: Final = Ordering.ACQUIRE
RELEASE: Final = Ordering.RELEASE
ACQ_REL: Final = Ordering.ACQ_REL
SEQ_CST: Final = Ordering.SEQ_CST

LoadOrdering: TypeAlias = Literal[Ordering.RELAXED, Ordering.ACQUIRE, Ordering.SEQ_CST]
StoreOrdering: TypeAlias = Literal[Ordering.RELAXED, Ordering.RELEASE, Ordering.SEQ_CST]


@dataclass(frozen=True, slots=True)
class Register:
    """A value of a function, or a variable. type: LLVM's name of its type."""

    number: int
    type: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, or the null pointer (0)."""

    value: int
    type: str


@dataclass(frozen=True, slots=True)
class SpinCount(Constant):
    """How often a thread repeats something before it sleeps. The checker of interleavings takes 1."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a function or of static memory."""

    name: str
    type: str = "ptr"


Operand: TypeAlias = Register | Constant | Symbol


@dataclass(frozen=True, slots=True)
class Compute:
    """Arithmetic without effects. operation: LLVM's name, such as `add` or `icmp ult`; `select`, `zext`, `trunc`,
    `ptrtoint`; `offset` adds bytes to a pointer."""

    result: Register
    operation: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Assigns to a variable."""

    variable: Register
    value: Operand


@dataclass(frozen=True, slots=True)
class Stack:
    """Memory of this call of the function, of a number of bytes."""

    result: Register
    size: int


@dataclass(frozen=True, slots=True)
class Load:
    """ordering: None for a plain access. place: the record and the field, for reports."""

    result: Register
    address: Operand
    ordering: Ordering | None
    place: str


@dataclass(frozen=True, slots=True)
class Store:
    address: Operand
    value: Operand
    ordering: Ordering | None
    place: str


@dataclass(frozen=True, slots=True)
class ReadModifyWrite:
    """operation: LLVM's name, such as `add` or `xchg`. result: the value before."""

    result: Register
    operation: str
    address: Operand
    value: Operand
    ordering: Ordering
    place: str


@dataclass(frozen=True, slots=True)
class CompareExchange:
    """result: the value before. succeeded: whether the new value was stored."""

    result: Register
    succeeded: Register
    address: Operand
    expected: Operand
    new: Operand
    success: Ordering
    failure: Ordering
    place: str


@dataclass(frozen=True, slots=True)
class AcquireLock:
    address: Operand
    place: str


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    address: Operand
    place: str


@dataclass(frozen=True, slots=True)
class FutexWait:
    """Sleeps while the 32-bit word equals `expected`. May return for no reason, or at the timeout."""

    address: Operand
    expected: Operand
    timeout_nanoseconds: Operand | None
    place: str


@dataclass(frozen=True, slots=True)
class FutexWake:
    """Wakes up to `count` threads that sleep on the word."""

    address: Operand
    count: int
    place: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Tells the processor that this thread spins."""


@dataclass(frozen=True, slots=True)
class Call:
    """Calls a function: of this library or an external one (a symbol), or at an address (a register)."""

    result: Register | None
    function: Symbol | Register
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """An assertion that only the checker of interleavings evaluates."""

    condition: Operand
    message: str


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Jump:
    target: str


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Operand
    if_true: str
    if_false: str


@dataclass(frozen=True, slots=True)
class Return:
    value: Operand | None


Instruction: TypeAlias = (
    Compute
    | Assign
    | Stack
    | Load
    | Store
    | ReadModifyWrite
    | CompareExchange
    | AcquireLock
    | ReleaseLock
    | FutexWait
    | FutexWake
    | Pause
    | Call
    | Check
    | Label
    | Jump
    | Branch
    | Return
)


class Body:
    """The instructions of a function that is being built, and what is known at this point of it.

    held: the locks that are held, each identified by the operand of its record and the name of its field. exclusive:
    pointers to memory that no other thread can reach. pointer_tests: truth values that say whether a pointer is null:
    the pointer, and whether true means that it is not.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.instructions: list[Instruction] = []
        self.variables: set[Register] = set()
        self.held: list[tuple[Operand, str]] = []
        self.exclusive: set[Operand] = set()
        self.pointer_tests: dict[Operand, tuple[Operand, bool]] = {}
        self.is_terminated = False
        self._present: list[set[Operand]] = [set()]
        self._registers = 0
        self._labels = 0

    def register(self, type: str) -> Register:
        """Returns a new register."""
        self._registers += 1
        return Register(self._registers, type)

    def label(self, prefix: str) -> str:
        """Returns a new label."""
        self._labels += 1
        return f"{prefix}{self._labels}"

    def emit(self, instruction: Instruction) -> None:
        """Appends an instruction; `NativeTypeError` after a return or a jump."""
        if self.is_terminated and not isinstance(instruction, Label):
            raise self.fail(f"{type(instruction).__name__} can never run: it follows a return or a jump")
        self.instructions.append(instruction)
        self.is_terminated = isinstance(instruction, Jump | Branch | Return)

    def start(self, label: str) -> None:
        """Starts the instructions that follow a label. Control that reaches this point continues there."""
        if not self.is_terminated:
            self.emit(Jump(label))
        self.emit(Label(label))

    def compute(self, type: str, operation: str, *operands: Operand) -> Register:
        """Appends arithmetic; returns its result."""
        result = self.register(type)
        self.emit(Compute(result, operation, operands))
        return result

    def publish(self, operand: Operand) -> None:
        """Notes that other threads may reach the memory at a pointer from now on."""
        self.exclusive.discard(operand)

    def is_present(self, pointer: Operand) -> bool:
        """Whether a pointer was tested on every path to this point and is not null."""
        return any(pointer in block for block in self._present)

    def open_block(self, condition: Operand | None = None, is_negated: bool = False) -> None:
        """Enters a block that runs only if a condition holds, or only if it does not."""
        pointer, is_present = self._test(condition, is_negated)
        self._present.append({pointer} if pointer and is_present else set())

    def close_block(self, condition: Operand | None = None, is_negated: bool = False) -> None:
        """Ends a block. If its end is never reached, its condition does not hold afterwards."""
        self._present.pop()
        pointer, is_present = self._test(condition, is_negated)
        if pointer and not is_present and self.is_terminated:
            self._present[-1].add(pointer)

    def _test(self, condition: Operand | None, is_negated: bool) -> tuple[Operand | None, bool]:
        """The pointer that a condition tests, and whether it is present if the condition holds."""
        pointer, is_present = self.pointer_tests.get(condition, (None, False)) if condition else (None, False)
        return pointer, is_present != is_negated

    def fail(self, message: str) -> NativeTypeError:
        """Returns the error for a broken rule in this function."""
        return NativeTypeError(f"{self.name}: {message}")

"""Thunks that may call the host: the protocol that they share, callbacks, checks and feeds.

Responsible for these records, for what each asks of the host, and for what of it is serialized. Does not depend on HLO
operations or LLVM, or on how the host answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND
from xlapy.cpu.program.buffer_slices import BufferSlice, Replacements, join_slices, replaced
from xlapy.cpu.program.shared_records import QUEUE_BYTES, QUEUE_SENT_OFFSET
from xlapy.cpu.program.thunks.emitter import ThunkEmitter
from xlapy.cpu.program.thunks.thunk import Thunk

ReadWord = Callable[[int], int]
"""Returns the word of 32 bits at an offset of the memory that devices share, while native code may change it."""

_CALL_CYCLES = CYCLES_PER_MICROSECOND // 2
"""The number of operations that a call of foreign code counts as. Python functions take longer."""


@dataclass(frozen=True, slots=True)
class CallingConvention:
    """How native code calls a custom-call target directly: by a call frame or by one of the C signatures.

    operand_positions, result_positions: the positions of the thunk's slices among all leaves that the target receives,
    because tokens are leaves too but have no slices.
    """

    api_version: int
    """XLA's number of the signature: 1 to 3 for C signatures, 4 for call frames."""
    operand_positions: tuple[int, ...]
    result_positions: tuple[int, ...]
    returns_array: bool
    """Whether the result is a single array rather than a tuple."""


class HostCalls(Protocol):
    """What the host does for thunks in a run on one device."""

    device: int
    """The number of the device."""

    def compute(self, thunk: CallbackThunk) -> None:
        """Computes the results of an instruction, or prepares the call of its target."""

    def compute_directly(self, thunk: HostThunk) -> None:
        """Computes the results of an instruction by the interpreter."""

    def check_value(self, thunk: HostThunk) -> None:
        """Checks the result of an instruction for NaN and infinities."""

    def report_bounds(self, thunk: HostThunk) -> None:
        """Raises the error of an access out of bounds."""

    def begin_iteration(self, thunk: IterationThunk) -> None:
        """Notes that a loop, or an iteration of it, starts."""

    def claim_channel(self, thunk: HostThunk) -> None:
        """Claims an end of a channel for the device."""

    def check_waits(self) -> None:
        """Checks whether the devices that wait can ever continue."""

    def evaluate(self, thunk: HostThunk) -> Any:
        """Returns the value that the interpreter computes from the operands, or raises its error."""


@dataclass(eq=False, slots=True)
class HostThunk(Thunk):
    """A thunk that calls the host, always or only while a device waits. The host may fail, which ends the program."""

    number: int
    """The index in the program's `host_calling_thunks`."""
    instruction: Any
    """The HLO instruction; opaque to the native program."""
    operands: list[BufferSlice]
    results: list[BufferSlice]
    op_name: str = ""

    kind: ClassVar[str] = ""
    """What the class is called in serialized executables."""
    runs_without_python: ClassVar[bool] = False
    """Whether native code alone executes the thunk, if every device takes part."""
    needs_device: ClassVar[bool] = False
    """Whether the program needs a device of its own even if it runs on one only."""
    waits_for_host: ClassVar[bool] = False
    """Whether a device that waits here waits for the host rather than for other devices."""
    waits_for_any: ClassVar[bool] = False
    """Whether a device that waits here continues as soon as one of the missing devices arrives."""
    reads_in_place: ClassVar[bool] = False
    """Whether foreign code reads the operands, for which their memory must be aligned."""
    is_collective: ClassVar[bool] = False
    """Whether devices meet in the thunk, a `CollectiveThunk`."""
    is_transfer: ClassVar[bool] = False
    """Whether the thunk passes values between devices, a `TransferThunk`."""

    @property
    def calling_convention(self) -> CallingConvention | None:
        """How native code calls a target directly; None if the host always executes the call."""
        return None

    @property
    def callback_reason(self) -> str:
        """Why the host computes the instruction in every run; empty if it does not, or if that is not known."""
        return ""

    @property
    def is_plain_callback(self) -> bool:
        """Whether the host, or a target, computes the results from nothing but the operands."""
        return False

    @property
    def feed(self) -> FeedThunk | None:
        """The thunk itself if it passes values between the program and the host's feeds."""
        return None

    @property
    def is_complete(self) -> bool:
        """Whether no device has to ask the host for an error because it takes no part."""
        return True

    @property
    def reads(self) -> list[BufferSlice]:
        return self.operands

    @property
    def writes(self) -> list[BufferSlice]:
        return self.results

    def replace(self, mapping: Replacements) -> None:
        self.operands, self.results = replaced(self.operands, mapping), replaced(self.results, mapping)

    def may_compute_in(self, result: BufferSlice, target: BufferSlice) -> bool:
        return result not in self.operands and target not in self.accesses

    def may_overlap(self, written: int, others: Sequence[int]) -> bool:
        slices = self.accesses  # a target updates in place what the instruction says
        return all(slices[written] is slices[other] for other in others)

    @property
    def cost(self) -> int:
        return _CALL_CYCLES

    @property
    def title(self) -> str:
        operands, results = join_slices(self.operands), join_slices(self.results)
        return f"{self._verb} {self.number} {self.op_name}({operands}) to ({results})"

    @property
    def _verb(self) -> str:
        return "callback"

    def emit(self, emitter: ThunkEmitter, function: Any) -> None:
        emitter.require_success(function, self.emit_call(emitter, function))

    def emit_call(self, emitter: ThunkEmitter, function: Any) -> str:
        """Emits the call; returns a register with its status."""
        return emitter.host_callback(function, self.number)

    def call_host(self, host: HostCalls) -> None:
        """Does what native code calls the host for."""
        raise NotImplementedError

    # -- waiting

    def queues_between_devices(self) -> set[int]:
        """Returns the offsets in shared memory of the queues between devices that the thunk uses."""
        return set()

    def futex_offsets(self, device_count: int) -> set[int]:
        """Returns the offsets in shared memory of the words on which devices wait in this thunk."""
        return {queue + QUEUE_SENT_OFFSET for queue in self.queues_between_devices()}

    def missing_devices(self, read_word: ReadWord, device: int, goal: int) -> tuple[int, ...] | None:
        """Returns the devices that a waiting device waits for; None if what it waits for has happened.

        read_word: reads the memory that devices share. goal: the count that ends the wait.
        """
        return None

    # -- serialization

    def fields_to_json(self) -> dict[str, Any]:
        """Returns what the class has in addition to its instruction and its slices."""
        return {}

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Returns arguments of the constructor from the result of `fields_to_json`."""
        return {}


@dataclass(eq=False, slots=True)
class CallbackThunk(HostThunk):
    """Calls the host to compute an instruction.

    With a calling convention, native code calls a target directly if the host has provided its address, and calls the
    host otherwise. An instruction that draws random numbers has their counter as its last operand and last result.
    """

    calling_convention: CallingConvention | None = None
    draws_random: bool = False
    reason: str = ""
    """Why the host computes the instruction, for people; empty for a native target, and after serialization."""

    kind: ClassVar[str] = "callback"
    reads_in_place: ClassVar[bool] = True

    @property
    def callback_reason(self) -> str:
        return self.reason

    @property
    def is_plain_callback(self) -> bool:
        return not self.draws_random

    @property
    def _verb(self) -> str:
        return "callback" if self.calling_convention is None else "target"

    def emit_call(self, emitter: ThunkEmitter, function: Any) -> str:
        if self.calling_convention is None:
            return emitter.host_callback(function, self.number)
        return emitter.custom_call(function, self)

    def call_host(self, host: HostCalls) -> None:
        host.compute(self)

    def fields_to_json(self) -> dict[str, Any]:
        return {"draws_random": self.draws_random}

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"draws_random": bool(data["draws_random"])}


@dataclass(eq=False, slots=True)
class BoundsThunk(HostThunk):
    """Reports an access out of bounds to the host, from wherever it happened. The operand describes the access."""

    kind: ClassVar[str] = "bounds"

    def call_host(self, host: HostCalls) -> None:
        host.report_bounds(self)


@dataclass(eq=False, slots=True)
class ValueCheckThunk(HostThunk):
    """Lets the host check an instruction. The operands are the arrays of its operands and of its result."""

    kind: ClassVar[str] = "value_check"

    def call_host(self, host: HostCalls) -> None:
        host.check_value(self)


@dataclass(eq=False, slots=True)
class IterationThunk(HostThunk):
    """Tells the host that a loop starts, or that an iteration of it starts."""

    starts_loop: bool = False

    kind: ClassVar[str] = "iteration"

    def call_host(self, host: HostCalls) -> None:
        host.begin_iteration(self)

    def fields_to_json(self) -> dict[str, Any]:
        return {"starts_loop": self.starts_loop}

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"starts_loop": bool(data["starts_loop"])}


@dataclass(eq=False, slots=True)
class FeedThunk(HostThunk):
    """Takes what the host feeds in, or hands over what is fed out. If the host has not joined, it is called instead."""

    queue_offset: int = 0
    """The offset in shared memory of the feed queues of all devices, which lie one after the other."""
    shape_number: int = 0
    """For infeeds, the number of the shape that is fed in, starting from 1."""

    kind: ClassVar[str] = "feed"
    waits_for_host: ClassVar[bool] = True

    @property
    def feed(self) -> FeedThunk | None:
        return self

    @property
    def _verb(self) -> str:
        return "transfer"

    def emit_call(self, emitter: ThunkEmitter, function: Any) -> str:
        return emitter.feed(function, self)

    def call_host(self, host: HostCalls) -> None:
        host.compute_directly(self)

    def futex_offsets(self, device_count: int) -> set[int]:
        return {self.queue_offset + QUEUE_BYTES * device + QUEUE_SENT_OFFSET for device in range(device_count)}

    def fields_to_json(self) -> dict[str, Any]:
        return {"queue_offset": self.queue_offset, "shape_number": self.shape_number}

    @classmethod
    def fields_from_json(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"queue_offset": int(data["queue_offset"]), "shape_number": int(data["shape_number"])}

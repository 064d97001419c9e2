"""Runs host callbacks: operations that the host executes for a native program, such as custom calls in Python.

A callback reads the arrays of its operands, computes the instruction with the interpreter's rule, and writes the value
to the arrays of its result. The program therefore behaves exactly as on the interpreter.

Responsible for what happens during a callback. Does not depend on LLVM or on how values reach other devices.
"""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.cpu.program.bounds_checks import bounds_error
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.communication.wait_state import SharedMemory, Wait, wait_count, waiting_devices
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import HOST_WAIT_OFFSET
from xlapy.cpu.program.targets.call_frames import FrameTargets
from xlapy.cpu.program.thunks import CallbackThunk, HostThunk, IterationThunk
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter import TOKEN, Context
from xlapy.interpreter.checks import NO_CHECKS, Checks, ValueChecker
from xlapy.interpreter.core import Value, rule_of

Array = np.ndarray[Any, Any]
AddressTable: TypeAlias = "ctypes.Array[ctypes.c_void_p]"


class WaitMonitor(Protocol):
    """Checks on a device that waits in native code; implemented by what knows all devices of the run."""

    def check_waits(self, snapshot: Callable[[], Mapping[int, Wait]]) -> None:
        """Is called whenever the device has waited for long; raises an error if the wait can never end.

        snapshot: returns the devices that wait in native code.
        """

    def claim_channel(self, instruction: Instruction) -> None:
        """Is called for the first send or recv of a device on a channel that any two devices may use.

        Raises an error if two other devices use the channel already.
        """

    def check_host_wait(self, instruction: Instruction, count: int) -> None:
        """Is called whenever the device has waited long for the host; eventually raises an error.

        count: the number of waits that the device has started, which tells successive waits apart.
        """


class _NoWaitMonitor:
    def check_waits(self, snapshot: Callable[[], Mapping[int, Wait]]) -> None:
        """A single device waits for no other."""

    def claim_channel(self, instruction: Instruction) -> None:
        """No other device uses the channel."""

    def check_host_wait(self, instruction: Instruction, count: int) -> None:
        """The host has not joined, so the device does not wait for it."""


NO_WAIT_MONITOR: Final = _NoWaitMonitor()
"""The monitor of a device that runs alone."""

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


@THUNK_RULES.rule(opcodes.RAGGED_ALL_TO_ALL)
def _lower_to_host_callback(context: LoweringContext, instruction: Instruction) -> None:
    context.add_host_callback(instruction, "its form has no expansion")


run_ids = itertools.count(1)
"""Numbers of runs; none is used twice."""


class HostCallbackHandler:
    """The host's side of one run on one device: executes callbacks, and keeps the error of one that failed.

    number: the number of the device. shared: the memory that the devices of the run share. checks: the defects that
    values are checked for.
    """

    def __init__(
        self,
        program: NativeProgram,
        context: Context,
        number: int,
        shared: SharedMemory,
        monitor: WaitMonitor = NO_WAIT_MONITOR,
        checks: Checks = NO_CHECKS,
    ) -> None:
        self._checker = ValueChecker(checks)
        self._program = program
        self._context = context
        self.device = number
        self._shared = shared
        self._monitor = monitor
        self._error: BaseException | None = None
        self.memory: object = None
        """The memory of the run on this device. It lives as long as the handler, because other devices may still read
        it after this one has failed."""
        self._targets: FrameTargets | None = None

    def install(self, table: AddressTable, targets: FrameTargets | None = None) -> object:
        """Stores what native code needs of the host in its address table.

        targets: the custom-call targets of the run. The returned object must live until native code returns.
        """
        self._table, self._targets = table, targets
        if targets is not None:
            targets.begin_run(self._context.run_id, self.device, self._context.canceled)
        statuses = self._statuses()
        next(statuses)
        function = _CALLBACK(statuses.send)
        table[self._program.callback_index] = ctypes.cast(function, ctypes.c_void_p).value
        table[self._program.shared_index] = self._shared.ctypes.data
        table[self._program.device_index] = self.device
        return function

    def failure(self) -> BaseException:
        """Returns and forgets the error that ended native code; without one, the run was canceled."""
        error, self._error = self._error, None
        return error or ExecutionError(codes.CANCELED, "the run is canceled")

    def _statuses(self) -> Generator[int, int, None]:
        """Executes each callback whose number is sent; yields 0, or 1 if it failed.

        This is a generator because it resumes inside of `try`: a function would start outside of it, where signal
        handlers may raise.
        """
        is_calling, status = False, 0
        while True:
            try:
                while True:
                    is_calling = False
                    number = yield status
                    is_calling, status = True, 0
                    self._execute(number)
            except BaseException as error:  # no exception may pass through native code
                if isinstance(error, GeneratorExit) and not is_calling:  # the generator is closed
                    return
                self._error = error
                status = 1

    def _execute(self, number: int) -> None:
        """Executes a callback. A negative number says that there was no memory for a message of the thunk ~number."""
        if number < 0:
            what = describe_instruction(self._program.host_calling_thunks[~number].instruction)
            raise ExecutionError(codes.OUT_OF_MEMORY, f"{what}: out of memory for a message")
        thunk = self._program.host_calling_thunks[number % HOST_WAIT_OFFSET]
        if number >= HOST_WAIT_OFFSET:
            self._monitor.check_host_wait(thunk.instruction, wait_count(self._shared, self.device))
        else:
            thunk.call_host(self)

    # -- what thunks call the host for

    def begin_iteration(self, thunk: IterationThunk) -> None:
        """Tells the value checker that a loop, or an iteration of it, starts."""
        start = self._checker.enter_loop if thunk.starts_loop else self._checker.begin_iteration
        start(thunk.instruction)

    def report_bounds(self, thunk: HostThunk) -> None:
        """Raises the error of the access that the thunk's operand describes."""
        raise bounds_error(self._program, self._array(thunk.operands[0]))

    def claim_channel(self, thunk: HostThunk) -> None:
        """Claims an end of a transfer's channel for this device."""
        self._monitor.claim_channel(thunk.instruction)

    def check_waits(self) -> None:
        """Checks whether the devices that wait can ever continue."""
        self._monitor.check_waits(lambda: waiting_devices(self._program, self._shared))

    def compute(self, thunk: CallbackThunk) -> None:
        """Prepares the call of the instruction's target, or computes its results."""
        if self._targets is not None and self._targets.prepare(thunk.number, self._context):
            return
        if thunk.draws_random:
            self._context.random_state().set_words(self._array(thunk.operands[-1]))
        self.compute_directly(thunk)
        if thunk.draws_random:
            self._array(thunk.results[-1])[...] = self._context.random_state().words()

    def compute_directly(self, thunk: HostThunk) -> None:
        """Computes the results of an instruction by the interpreter's rule."""
        value = self.evaluate(thunk)
        for slice_, (index, leaf) in zip(thunk.results, array_leaves(thunk.instruction.shape), strict=False):
            self._array_of_shape(slice_, leaf)[...] = _leaf(value, index)

    def check_value(self, thunk: HostThunk) -> None:
        """Checks the result of an instruction for NaN and infinities."""
        instruction: Instruction = thunk.instruction
        slices = iter(thunk.operands)
        operands = [self._value(shape, slices, copies=False) for shape in instruction.operand_shapes]
        with np.errstate(all="ignore"):
            self._checker.check(instruction, operands, self._value(instruction.shape, slices, copies=False))

    def evaluate(self, thunk: HostThunk) -> Value:
        """Returns the value that the interpreter computes from the operands."""
        instruction: Instruction = thunk.instruction
        slices = iter(thunk.operands)
        values = [self._value(shape, slices) for shape in instruction.operand_shapes]
        try:
            with np.errstate(all="ignore"):
                return rule_of(instruction)(self._context, instruction, values)
        except MemoryError as error:
            raise ExecutionError(
                codes.OUT_OF_MEMORY,
                f"{describe_instruction(instruction)}: out of memory for a value of shape "
                f"{instruction.shape.to_text(layout=False)}",
            ) from error

    # -- arrays

    def _array(self, slice_: BufferSlice) -> Array:
        """Returns the memory of a slice as an array, with the dimensions in logical order whatever the layout."""
        address = int(self._table[self._program.table_index(slice_)] or 0) + max(0, slice_.offset)
        memory: Any = (ctypes.c_char * slice_.size).from_address(address)
        dimensions, layout = slice_.shape.dimensions, slice_.shape.layout
        order = range(len(dimensions)) if layout is None else layout.minor_to_major[::-1]
        physical: Array = np.ndarray([dimensions[d] for d in order], slice_.shape.dtype, memory)
        return physical.transpose(np.argsort(order))

    def _value(self, shape: Shape, slices: Iterator[BufferSlice], *, copies: bool = True) -> Value:
        """Returns a value of a shape. copies: whether its arrays are copies, which the receiver may keep."""
        if shape.is_tuple:
            return tuple(self._value(element, slices, copies=copies) for element in shape.tuple_shapes)
        if not shape.is_array:
            return TOKEN
        array = self._array_of_shape(next(slices), shape)
        return array.copy("K") if copies else array

    def _array_of_shape(self, slice_: BufferSlice, shape: Shape) -> Array:
        """Returns the memory of a slice as an array of a shape, which may differ from that of the slice.

        A reshape shares the slice of its operand, and a result that overwrites an operand may have other elements.
        """
        if slice_.shape.element_type is not shape.element_type:
            slice_ = dataclasses.replace(slice_, shape=shape.without_layout())
        array = self._array(slice_)
        return array if array.shape == shape.dimensions else array.reshape(shape.dimensions)


def _leaf(value: Value, index: Sequence[int]) -> Array:
    for position in index:
        value = value[position]
    array: Array = value
    return array

"""Operations that the host carries out for a native program: custom calls in Python, transfers to and from the host.

A callback reads the arrays of its operands, lets the interpreter's rule of the instruction make its value, and writes
that to the arrays of its result. So what it does is what the interpreter does.

Owns: the thunks of these operations, what happens at a callback. Must not know: LLVM, how values reach other devices.
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
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.cpu.program.builder import THUNK_RULES, Scope
from xlapy.cpu.program.call_frames import FrameTargets
from xlapy.cpu.program.nan_checks import IterationThunk, ValueCheckThunk
from xlapy.cpu.program.thunks import (
    HOST_WAIT_OFFSET,
    BufferSlice,
    CallbackThunk,
    CollectiveThunk,
    NativeProgram,
    TransferThunk,
)
from xlapy.cpu.program.wait_state import Memory, Wait, wait_count, waiting
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter import TOKEN, Context
from xlapy.interpreter.checks import NO_CHECKS, Checks, ValueChecker
from xlapy.interpreter.core import Value, rule_of

Array = np.ndarray[Any, Any]
Table: TypeAlias = "ctypes.Array[ctypes.c_void_p]"


class Overseer(Protocol):
    """What a device in native code asks of who knows all devices of the run."""

    def judge(self, look: Callable[[], Mapping[int, Wait]]) -> None:
        """Told who waits in native code whenever this device has waited for long: an error if there is no hope."""

    def claim(self, instruction: Instruction) -> None:
        """Told of the first send or recv on a channel that any two devices may use: an error for a third one."""

    def wait_for_host(self, instruction: Instruction, times: int) -> None:
        """Told whenever this device has waited for the host for long, with what tells waits apart: an error at last."""


class _NoWatchdog:
    def judge(self, look: Callable[[], Mapping[int, Wait]]) -> None:
        """Who is alone waits for nobody."""

    def claim(self, instruction: Instruction) -> None:
        """Nobody else is there."""

    def wait_for_host(self, instruction: Instruction, times: int) -> None:
        """The host never joins."""


NO_WATCHDOG: Final = _NoWatchdog()
"""For a device that has nothing to do with others."""

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


@THUNK_RULES.rule(opcodes.RAGGED_ALL_TO_ALL)
def callback(scope: Scope, instruction: Instruction) -> None:
    """The instruction as a callback."""
    scope.callback(instruction)


run_ids = itertools.count(1)
"""Numbers of runs, none used twice."""


class Host:
    """The host's side of one run on one device: it carries out callbacks, and keeps the error of one that failed.

    number: of the device. shared: what the devices of the run share. checks: what values are looked at for.
    """

    def __init__(
        self,
        program: NativeProgram,
        context: Context,
        number: int,
        shared: Memory,
        overseer: Overseer = NO_WATCHDOG,
        checks: Checks = NO_CHECKS,
    ) -> None:
        self._watch = ValueChecker(checks)
        self._program = program
        self._context = context
        self._number = number
        self._shared = shared
        self._overseer = overseer
        self._error: BaseException | None = None
        self.memory: object = None
        """Of the run on this device, to live as long as the host: where one has failed, others still read it."""
        self._targets: FrameTargets | None = None

    def serve(self, table: Table, targets: FrameTargets | None = None) -> object:
        """Puts what native code needs of the host into the table of addresses that it will run with.

        targets: of the custom calls among its callbacks. The returned object must live as long as it runs.
        """
        self._table, self._targets = table, targets
        if targets is not None:
            targets.begin(self._context.run_id, self._number, self._context.cancelled)
        answers = self._answers()
        next(answers)
        function = _CALLBACK(answers.send)
        table[self._program.callback_index] = ctypes.cast(function, ctypes.c_void_p).value
        table[self._program.shared_index] = self._shared.ctypes.data
        table[self._program.device_index] = self._number
        return function

    def failure(self) -> BaseException:
        """The error that ended native code; none if the run was cancelled while it computed."""
        error, self._error = self._error, None
        return error or ExecutionError("the run is cancelled")

    def _answers(self) -> Generator[int, int, None]:
        """An answer for each callback: 0, or 1 if it failed.

        A generator, as it goes on inside of `try`: a function would begin outside, where handlers of signals may raise.
        """
        answer = 0
        while True:
            try:
                while True:
                    number = yield answer
                    answer = 0
                    self._call(number)
            except GeneratorExit:
                return
            except BaseException as error:  # nothing may pass through native code
                self._error = error
                answer = 1

    def _call(self, number: int) -> None:
        """Carries out a callback."""
        if number < 0:
            what = describe_instruction(self._program.callbacks[~number].instruction)
            raise ExecutionError(f"{what}: out of memory for a message")
        thunk = self._program.callbacks[number % HOST_WAIT_OFFSET]
        if number >= HOST_WAIT_OFFSET:
            self._overseer.wait_for_host(thunk.instruction, wait_count(self._shared, self._number))
        elif isinstance(thunk, ValueCheckThunk):
            self._look(thunk)
        elif isinstance(thunk, IterationThunk):
            self._watch.begin(thunk.instruction) if thunk.begins else self._watch.turn(thunk.instruction)
        elif isinstance(thunk, TransferThunk):
            self._look_after(thunk)
        elif isinstance(thunk, CallbackThunk):
            if self._targets is None or not self._targets.prepare(number, self._context):
                self._carry_out(thunk)
        elif thunk.rows[self._number].door < 0:
            self._evaluate(thunk)
        else:
            self._judge()

    def _look_after(self, thunk: TransferThunk) -> None:
        """Of a transfer that another device may have begun before, or for which the device has waited for long."""
        if thunk.claims:
            self._overseer.claim(thunk.instruction)
        else:
            self._judge()

    def _judge(self) -> None:
        self._overseer.judge(lambda: waiting(self._program, self._shared))

    def _carry_out(self, thunk: CallbackThunk) -> None:
        if thunk.draws:
            self._context.random_state().take(self._array(thunk.operands[-1]))
        value = self._evaluate(thunk)
        for slice_, (path, leaf) in zip(thunk.results, array_leaves(thunk.instruction.shape), strict=False):
            self._array_of(slice_, leaf)[...] = _leaf(value, path)
        if thunk.draws:
            self._array(thunk.results[-1])[...] = self._context.random_state().words()

    def _look(self, thunk: ValueCheckThunk) -> None:
        instruction: Instruction = thunk.instruction
        given = iter(thunk.operands)
        operands = [self._value(shape, given, copies=False) for shape in instruction.operand_shapes]
        with np.errstate(all="ignore"):
            self._watch.look(instruction, operands, self._value(instruction.shape, given, copies=False))

    def _evaluate(self, thunk: CallbackThunk | CollectiveThunk) -> Value:
        """What the interpreter makes of the operands."""
        instruction: Instruction = thunk.instruction
        given = iter(thunk.operands)
        values = [self._value(shape, given) for shape in instruction.operand_shapes]
        try:
            with np.errstate(all="ignore"):
                return rule_of(instruction)(self._context, instruction, values)
        except MemoryError as error:
            raise ExecutionError(
                f"{instruction.name} ({instruction.op.name}): out of memory for a value of shape "
                f"{instruction.shape.to_text(layout=False)}"
            ) from error

    def _array(self, slice_: BufferSlice) -> Array:
        """A slice_'s memory as an array: its elements lie there in the order of the layout."""
        address = int(self._table[self._program.table_index(slice_)] or 0) + max(0, slice_.offset)
        memory: Any = (ctypes.c_char * slice_.size).from_address(address)
        dimensions, layout = slice_.shape.dimensions, slice_.shape.layout
        order = range(len(dimensions)) if layout is None else layout.minor_to_major[::-1]
        lying: Array = np.ndarray([dimensions[d] for d in order], slice_.shape.dtype, memory)
        return lying.transpose(np.argsort(order))

    def _value(self, shape: Shape, slices: Iterator[BufferSlice], *, copies: bool = True) -> Value:
        """A value of a shape; its arrays are copies for whoever may keep them."""
        if shape.is_tuple:
            return tuple(self._value(element, slices, copies=copies) for element in shape.tuple_shapes)
        if not shape.is_array:
            return TOKEN
        array = self._array_of(next(slices), shape)
        return array.copy("K") if copies else array

    def _array_of(self, slice_: BufferSlice, shape: Shape) -> Array:
        """`_array` as an array of a shape, which may not be that of the slice_: a reshape has the memory of its operand,
        and what overwrites an operand may have other elements."""
        if slice_.shape.element_type is not shape.element_type:
            slice_ = dataclasses.replace(slice_, shape=shape.without_layout())
        array = self._array(slice_)
        return array if array.shape == shape.dimensions else array.reshape(shape.dimensions)


def _leaf(value: Value, path: Sequence[int]) -> Array:
    for position in path:
        value = value[position]
    array: Array = value
    return array

"""Calls of programs that the engine runs without Python: from a user's arguments to buffers.

Arguments that are buffers of the device are passed as they are. Arrays of any library lend their memory if the program
runs in the thread of the caller; otherwise they are copied: a queued launch would read them after the call has
returned.

Responsible for arguments and results, and for what happens if the engine refuses a call. Does not depend on how
programs are compiled or run.
"""

from __future__ import annotations

import collections
import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.garbage_collection import when_collected
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.interpreter import TOKEN
from xlapy.runtime.array_types import ArrayType, array_type, token_type
from xlapy.runtime.buffer import Buffer, LaunchToken, buffer_of_handle
from xlapy.runtime.engine import interruption, native_buffers
from xlapy.runtime.engine.arguments import (
    can_lend,
    check_count,
    check_list,
    check_value,
    flatten_arguments,
    places_of_parameters,
)
from xlapy.runtime.engine.core.execute import CANCELED, REFUSED
from xlapy.runtime.engine.core.python_objects import NEEDS_COPIES
from xlapy.runtime.engine.device_programs import (
    ArrayForm,
    DevicePlace,
    NativeSource,
    RunnableProgram,
    add_device_programs,
    remove_runnable,
)
from xlapy.runtime.engine.donation import DonatedLeaf, donated_buffers
from xlapy.runtime.engine.native_engine import device_stream, engine, leak
from xlapy.runtime.engine.object_layout import object_layout
from xlapy.runtime.engine.records import KeptObjects

_new_capsule: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
"""A prototype of its own: anyone may change the types of `ctypes.pythonapi.PyCapsule_New`."""

_byte = ctypes.c_char.from_buffer
_address_of = ctypes.addressof
_Array = np.ndarray

_SLOT_POLL_SECONDS = 0.0005
"""Seconds between polls for room in a full queue."""

_retired: collections.deque[tuple[RunnableProgram, KeptObjects, Any]] = collections.deque()
"""Programs that nobody can call any more, with what their launches need. They are freed when no launch runs."""
leak(_retired)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a call passes to the engine: addresses of the executable's record and of the templates of buffers on lent
    memory. streams: those of the devices. checks_memory: whether a call first checks the available memory."""

    executable: int
    streams: Sequence[int]
    templates: int
    checks_memory: bool
    must_queue: bool
    """Whether the program runs on streams only."""
    call: Any
    """The engine's `call_executable`; see `core.python_objects`."""


class EngineCall:
    """Calls a native program with a user's arguments; returns buffers.

    The leaves of the arguments of all devices form one list, device by device; so do their capsules.

    source: the number of its replicas is that of the first call. shape, donated: of the program, with tuples.
    require_memory: raises `ExecutionError` if the memory that a run needs is not available. owner: what the launches
    need, such as machine code.
    """

    def __init__(
        self,
        source: NativeSource,
        shape: ProgramShape,
        donated: Sequence[tuple[DonatedLeaf, int]],
        require_memory: Callable[[], None],
        owner: Any,
    ) -> None:
        self._source = source
        self._shape = shape
        self._takes_arrays_only = all(parameter.is_array for parameter in shape.parameters)
        self._expected = [_type_of(leaf) for leaf in source.parameters]
        self._results = [_type_of(leaf) for leaf in source.results]
        self._result_count = len(self._results)
        self._width = max(1, len(self._expected))
        self._donated = [(number, leaf) for leaf, number in donated]
        self._donated_numbers = frozenset(number for _, number in donated)
        self._places = [
            place
            for parameter, name in zip(shape.parameters, places_of_parameters(shape), strict=True)
            for place in _leaf_places(parameter, name)
        ]
        self._returns_array = shape.result.is_array
        self._returns_flat_tuple = shape.result.is_tuple and all(leaf.is_array for leaf in shape.result.tuple_shapes)
        self._require_memory = require_memory
        self._owner = owner
        self._client_number = 0
        self._once: dict[str, _Prepared] = {}
        self._prepared: _Prepared | None = None
        self.native: Callable[[tuple[Any, ...]], Any] | None = None
        """The same call without Python, once the first one has prepared it; None if there is none. Returns
        NotImplemented if nothing has run."""

    def bind(self, client_number: int) -> None:
        """Sets the client whose streams run the program, before the first call. See `Device.client_number`."""
        self._client_number = client_number

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """Runs the program on its only device, or queues it; see `Executable.__call__`. Returns NotImplemented if the
        program has to be queued, and this thread may not do so."""
        prepared = self._prepared or self._prepare()
        if len(arguments) != len(self._shape.parameters):
            check_count(self._shape, arguments)
        leaves = list(arguments) if self._takes_arrays_only else flatten_arguments(self._shape, arguments)
        handles: list[Any] = []
        lent: list[int] = []
        for argument, expected in zip(leaves, self._expected, strict=True):
            argument_class = argument.__class__
            if argument_class is Buffer:
                handle = argument._handle
                if handle is not None and argument._type is expected:
                    handles.append(handle)
                    continue
            elif (
                argument_class is _Array
                and argument.dtype is expected.dtype
                and argument.shape == expected.dimensions
                and len(handles) not in self._donated_numbers
            ):
                try:
                    address = _address_of(_byte(argument))
                except (TypeError, ValueError, BufferError):  # not contiguous, read-only, empty, or an ml_dtypes type
                    address = 0
                if address and not address & expected.alignment_mask:
                    lent.append(len(handles))
                    handles.append(address)
                    continue
            number = len(handles)
            array = self._checked(prepared, argument, handles)
            if (
                array is not None
                and number not in self._donated_numbers
                and can_lend(argument, array, expected.alignment_mask)
            ):
                leaves[number] = array
                lent.append(number)
                handles.append(array.__array_interface__["data"][0])
            elif array is not None:
                handles.append(native_buffers.copied(expected, array, prepared.streams[0]))
        for number, _ in self._donated:
            if leaves[number].__class__ is Buffer:
                self._prepare_donation(leaves[number], arguments)
        if prepared.checks_memory:
            self._require_memory()
        if self._source.host is not None:
            _await_slots(prepared.streams)
        made = prepared.call(prepared.executable, handles, prepared.templates, self._result_count, len(lent))
        if made.__class__ is not list:
            self._check_donated(arguments)
            made = self._call_again(prepared, leaves, handles, lent, made)
            if made is NotImplemented:
                return NotImplemented
        if self._donated:
            self._note_donations(leaves, handles)
        if self._returns_array:
            return buffer_of_handle(self._results[0], made[0])
        return self._result(made)

    def on_devices(self, arguments: Sequence[Sequence[Any]]) -> Any:
        """Runs the program on all of its devices, or queues it; see `Executable.execute_sharded`. Returns
        NotImplemented as a call does."""
        prepared = self._prepared or self._prepare(len(arguments))
        if self.native is not None and len(arguments) > 1:
            results = self._native_on_devices(self.native, arguments)
            if results is not NotImplemented:
                return results
        leaves: list[Any] = []
        for device, own in enumerate(arguments):
            check_list(device, own)
            with _named_device(device):
                if len(own) != len(self._shape.parameters):
                    check_count(self._shape, own)
                leaves += own if self._takes_arrays_only else flatten_arguments(self._shape, own)
        handles: list[Any] = []
        for number, argument in enumerate(leaves):
            handle = argument._handle if argument.__class__ is Buffer else None
            if handle is not None and argument._type is self._expected[number % self._width]:
                handles.append(handle)
            else:
                with _named_device(number // self._width):
                    self._add_copy(prepared, argument, handles)
        for own in arguments:
            self._check_donated(own)
        for number, argument in enumerate(leaves):
            if number % self._width in self._donated_numbers and argument.__class__ is Buffer:
                argument.forget_array()
        self._move_to_device(prepared, leaves, handles)
        if prepared.checks_memory:
            self._require_memory()
        if self._source.host is not None:
            _await_slots(prepared.streams)
        made = prepared.call(prepared.executable, handles, prepared.templates, self._result_count, 0)
        if made.__class__ is not list:
            made = self._call_again(prepared, leaves, handles, [], made)
            if made is NotImplemented:
                return NotImplemented
        self._note_donations(leaves, handles)
        count = self._result_count
        return [self._result(made[count * device : count * (device + 1)]) for device in range(len(arguments))]

    def _native_on_devices(self, native: Callable[[tuple[Any, ...]], Any], arguments: Sequence[Sequence[Any]]) -> Any:
        """Runs the program on all of its devices without Python; NotImplemented if arguments have to be checked."""
        width = len(self._expected)
        leaves: list[Any] = []
        for own in arguments:
            if not (own.__class__ is list or own.__class__ is tuple) or len(own) != width:
                return NotImplemented
            leaves += own
        results = native(tuple(leaves))
        if results is NotImplemented or self._returns_array:
            return results
        count = self._result_count
        return [results[count * device : count * (device + 1)] for device in range(len(arguments))]

    def _result(self, handles: Sequence[Any]) -> Any:
        """The buffers of one device in the structure of the result."""
        if self._returns_flat_tuple:
            return tuple(map(buffer_of_handle, self._results, handles))
        return _structured(self._shape.result, map(_leaf_of_handle, self._results, handles))

    def _note_donations(self, leaves: Sequence[Any], handles: Sequence[Any]) -> None:
        """Deletes the buffers that were donated, after the call."""
        for first in range(0, len(leaves), self._width):
            for number, leaf in self._donated:
                buffer = leaves[first + number]
                if buffer.__class__ is not Buffer:
                    continue
                if buffer._handle is handles[first + number]:
                    buffer.note_donation(leaf.deletion_reason)
                else:  # the program has overwritten a copy
                    buffer.take(leaf.deletion_reason)

    def _prepare_donation(self, buffer: Buffer, arguments: Sequence[Any]) -> None:
        """Gives up the buffer's own array, which would count as another user of the memory."""
        if buffer._handle is None:
            self._check_donated(arguments)
        buffer.forget_array()

    def _check_donated(self, arguments: Sequence[Any]) -> None:
        """`InvalidArgumentError` if a donated buffer is given for another parameter too. The engine only refuses such
        calls."""
        donated_buffers([leaf for _, leaf in self._donated], arguments)

    def _add_copy(self, prepared: _Prepared, argument: Any, handles: list[Any]) -> None:
        """Adds the capsule of a buffer with the elements of an argument that is neither a buffer of its type on a
        device, nor an array that can lend its memory."""
        device, number = divmod(len(handles), self._width)
        array = self._checked(prepared, argument, handles)
        if array is not None:
            handles.append(native_buffers.copied(self._expected[number], array, prepared.streams[device]))

    def _checked(self, prepared: _Prepared, argument: Any, handles: list[Any]) -> np.ndarray[Any, Any] | None:
        """Returns an argument as an array of the parameter's shape. Adds the capsule of a token, and returns None."""
        device, number = divmod(len(handles), self._width)
        if self._expected[number].shape.is_token:
            handles.append(self._token(argument, prepared.streams[device]))
            return None
        array = check_value(self._expected[number].shape, argument, self._places[number])
        assert isinstance(array, np.ndarray), "dimensions are static"
        return array

    def _token(self, argument: Any, stream: int) -> Any:
        """The capsule of the token that stands for an argument, on the device of a stream."""
        if isinstance(argument, LaunchToken):
            if native_buffers.device(argument._handle) == stream:
                return argument._handle
            argument.block_until_ready()
        return native_buffers.new_token(stream)

    def _call_again(
        self, prepared: _Prepared, leaves: Sequence[Any], handles: list[Any], lent: list[int], status: int
    ) -> Any:
        """Calls the program after the engine has refused it, when nothing has changed, with arguments that the engine
        accepts; raises the reason otherwise. Returns NotImplemented if this thread may not queue the program."""
        if status != CANCELED and prepared.must_queue and not engine().may_queue():
            return NotImplemented
        for number in lent:
            handles[number] = native_buffers.copied(self._expected[number], leaves[number], prepared.streams[0])
        for change in (None, self._move_to_device, self._copy_donated):
            if change is not None:
                if status != REFUSED:
                    break
                self._check_deleted(prepared, leaves)
                change(prepared, leaves, handles)
            elif status != NEEDS_COPIES:
                continue
            made = prepared.call(prepared.executable, handles, prepared.templates, self._result_count, 0)
            if made.__class__ is list:
                return list(made)
            status = made
        if status == CANCELED:
            _raise_canceled(self._source.program.name)
        self._check_deleted(prepared, leaves)
        self._require_memory()
        raise ExecutionError(
            codes.OUT_OF_MEMORY,
            f"out of memory: {self._source.program.name} cannot allocate its results and temporaries",
        )

    def _move_to_device(self, prepared: _Prepared, leaves: Sequence[Any], handles: list[Any]) -> None:
        """Replaces arguments on other devices by buffers that share their memory, once they are ready."""
        for number, argument in enumerate(leaves):
            handle, stream = getattr(argument, "_handle", None), prepared.streams[number // self._width]
            if handle is not None and handle is handles[number] and native_buffers.device(handle) != stream:
                argument.block_until_ready()
                shared = native_buffers.shared(self._expected[number % self._width], handle, stream)
                handles[number] = handle if shared is None else shared

    def _copy_donated(self, prepared: _Prepared, leaves: Sequence[Any], handles: list[Any]) -> None:
        """Replaces donated arguments, because their memory has other users."""
        for number, argument in enumerate(leaves):
            device, parameter = divmod(number, self._width)
            if parameter in self._donated_numbers and argument.__class__ is Buffer:
                stream = prepared.streams[device]
                handles[number] = native_buffers.copied(self._expected[parameter], argument.array, stream)

    def _check_deleted(self, prepared: _Prepared, leaves: Sequence[Any]) -> None:
        """`InvalidArgumentError` if an argument was deleted."""
        for number, argument in enumerate(leaves):
            if argument.__class__ is Buffer and argument.is_deleted():
                device, parameter = divmod(number, self._width)
                with _named_device(device) if len(prepared.streams) > 1 else nullcontext():
                    raise InvalidArgumentError(
                        calls_codes.DELETED_BUFFER, f"{self._places[parameter]}: {argument.deletion_reason}"
                    )

    def _prepare(self, device_count: int = 1) -> _Prepared:
        """Makes the records from which the engine runs the program. If several threads do, one keeps them."""
        free_retired()
        partitions, placement = self._source.counts[1], self._source.program.placement
        all_devices = device_count if placement is None else placement.topology.device_count
        kept = KeptObjects()
        source = replace(
            self._source,
            counts=(all_devices // partitions, partitions),
            fixed_addresses=lambda *ids: self._source.fixed_addresses(*ids) | self._poll_addresses(),
        )
        streams = [device_stream(number, self._client_number) for number in range(device_count)]
        templates = kept.words([native_buffers.template(type, stream) for stream in streams for type in self._expected])
        places = [DevicePlace(stream, stream, [0] * self._result_count) for stream in streams]
        parameters = [ArrayForm(type.dimensions, 0) for type in self._expected]
        results = [ArrayForm(type.dimensions, 0) for type in self._results]
        record = kept.record("executable")
        runnable = add_device_programs(record, kept, source, places, parameters, results)
        checks_memory, must_queue = bool(record["checks_memory"]), bool(record["has_collectives"])
        made = _Prepared(record.address, streams, templates, checks_memory, must_queue, engine().call_executable)
        native = self._native_call(made, kept)
        if self._once.setdefault("prepared", made) is made:
            when_collected(self, _retired.append, (runnable, kept, self._owner))
            self.native = native
        else:
            remove_runnable(record.address)
        self._prepared = self._once["prepared"]
        return self._prepared

    def _native_call(self, prepared: _Prepared, kept: KeptObjects) -> Callable[[tuple[Any, ...]], Any] | None:
        """The call as a native function; None if Python takes part: memory is checked before, buffers are donated, the
        program calls the host, or arguments or results are nested. On several devices, it takes the arguments of one
        after the other, and returns the results that way."""
        is_flat = self._returns_array or self._returns_flat_tuple
        if prepared.checks_memory or self._donated or self._source.host is not None:
            return None
        layout = object_layout()
        if not (self._takes_arrays_only and is_flat) or layout is None:
            return None
        expected = [
            (id(type), id(type.dtype), len(type.dimensions), kept.words(type.dimensions), type.alignment_mask)
            for type in self._expected
        ]
        raise_canceled = partial(_raise_canceled, self._source.program.name)
        kept.hold((self._expected, self._results, raise_canceled))
        plan = kept.record(
            "call_plan",
            layout=layout,
            executable=prepared.executable,
            argument_count=len(self._expected),
            result_count=self._result_count,
            expected=kept.words([word for row in expected for word in row]),
            templates=prepared.templates,
            result_types=kept.words([id(type) for type in self._results]),
            returns_tuple=int(len(prepared.streams) > 1 or not self._returns_array),
            raise_canceled=id(raise_canceled),
        )
        return engine().python_function("call_from_python", _new_capsule(plan.address, None, None))

    def _poll_addresses(self) -> dict[int, int]:
        """The entries of the address table by which runs in Python's main thread let signal handlers run: the estimate
        that a program is short may be wrong."""
        first = self._source.program.poll_index
        return {first: interruption.poll_address(), first + 1: interruption.poll_thread()}

    def trim(self) -> None:
        """Frees the arena that no launch uses."""
        if self._prepared is not None:
            engine().free_spare_memory(self._prepared.executable)


def _raise_canceled(program: str) -> NoReturn:
    """Raises why a call of a program was canceled."""
    error = interruption.take_error()
    raise error if error is not None else ExecutionError(codes.CANCELED, f"{program} was canceled")


def _await_slots(streams: Sequence[int]) -> None:
    """Waits until the queues of streams have room. Signal handlers run meanwhile: the launches in the queues may wait
    for the host, perhaps for this thread."""
    native = engine()
    while not all(map(native.has_free_slot, streams)) and native.may_queue():
        time.sleep(_SLOT_POLL_SECONDS)


@contextmanager
def _named_device(number: int) -> Iterator[None]:
    """Begins messages about arguments with the device."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(error.code, f"device {number}: {error.message}") from error


def free_retired() -> None:
    """Frees the programs that nobody can call and that do not run."""
    for _ in range(len(_retired)):
        try:
            runnable, kept, owner = _retired.popleft()
        except IndexError:  # another thread was faster
            return
        if runnable.is_running:
            _retired.append((runnable, kept, owner))
            continue
        engine().free_spare_memory(runnable.record.address)
        remove_runnable(runnable.record.address)
        kept.forget()


def _type_of(leaf: Shape) -> ArrayType:
    """The type of an array or a token."""
    return token_type() if leaf.is_token else array_type(leaf)


def _leaf_of_handle(type: ArrayType, handle: Any) -> Any:
    """Makes a buffer or a token of the capsule of the engine's record."""
    return LaunchToken(handle) if type.shape.is_token else buffer_of_handle(type, handle)


def _structured(shape: Shape, leaves: Iterator[Any]) -> Any:
    """Returns leaves, tokens among them, in the structure of a shape."""
    return tuple(_structured(element, leaves) for element in shape.tuple_shapes) if shape.is_tuple else next(leaves)


def _leaf_places(shape: Shape, place: str) -> list[str]:
    if not shape.is_tuple:
        return [place]
    parts = enumerate(shape.tuple_shapes)
    return [leaf for number, part in parts for leaf in _leaf_places(part, f"{place} element {number}")]


def unflatten(shape: Shape, results: Iterator[Any]) -> Any:
    """Returns results in the structure of a shape."""
    if shape.is_tuple:
        return tuple(unflatten(element, results) for element in shape.tuple_shapes)
    return next(results) if shape.is_array else TOKEN

"""Buffers as Python objects: capsules, which destroy what they hold when Python drops them.

These functions are called by threads that hold the interpreter's lock, and release it while a program runs or much
memory is copied. Where they return null, memory is exhausted or Python has an exception.

Responsible for capsules, and for calls whose arguments and results are capsules. Must not know what programs expect.
"""

from __future__ import annotations

from xlapy.native.function import MAX_STACK_BYTES, Function, external, free, malloc, native
from xlapy.native.ir import ACQUIRE
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import Buffer, acquire_hold, destroy_buffer, is_deleted, make_buffer
from xlapy.runtime.engine.core.events import (
    AWAITED,
    COMPLETE,
    PENDING,
    SPINS,
    Event,
    is_event_complete,
    is_event_successful,
    memcpy,
    retain_event,
)
from xlapy.runtime.engine.core.execute import (
    DONE,
    BufferLists,
    GivenBufferLists,
    are_all_arguments_ready,
    execute,
)
from xlapy.runtime.engine.core.launch_records import Buffers, Events, Executable
from xlapy.runtime.engine.core.memory import (
    STORAGE_BYTES,
    Storage,
    allocate,
    borrow_storage,
    initialize_storage,
    release,
    retain,
)

NEEDS_COPIES = 3
"""What a call returns if it would be queued, although the caller lends memory for the call only."""

_LENT_BYTES = Buffer.byte_size() + Storage.byte_size()
"""Bytes of the records of a buffer on lent memory."""

_SHORT_COPY_BYTES = 1 << 16
"""Copies of at most this many bytes keep the interpreter's lock."""


@external
def PyCapsule_New(  # type: ignore[empty-body] # noqa: N802
    f: Function, pointer: Address, name: Nullable[Address], destructor: Address
) -> Nullable[Address]:
    """A new capsule."""


@external
def PyCapsule_GetPointer(  # type: ignore[empty-body] # noqa: N802
    f: Function, capsule: Address, name: Nullable[Address]
) -> Nullable[Address]:
    """What a capsule holds."""


@external
def PyCapsule_IsValid(  # type: ignore[empty-body] # noqa: N802
    f: Function, capsule: Address, name: Nullable[Address]
) -> Int32:
    """Whether an object is a capsule that holds something."""


@external
def PyLong_AsVoidPtr(f: Function, number: Address) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """The address that an integer gives."""


@external
def PyList_New(f: Function, size: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """A new list."""


@external
def PyList_SetItem(  # type: ignore[empty-body] # noqa: N802
    f: Function, items: Address, index: Word, item: Nullable[Address]
) -> Int32:
    """Sets an element; takes over the reference."""


@external
def PyList_GetItem(f: Function, items: Address, index: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """An element, which the list owns."""


@external
def PyLong_FromLong(f: Function, value: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """A new integer."""


@external
def PyErr_NoMemory(f: Function) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """Sets the exception MemoryError; returns null."""


@external
def PyEval_SaveThread(f: Function) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """Releases the interpreter's lock."""


@external
def PyEval_RestoreThread(f: Function, state: Nullable[Address]) -> None:  # noqa: N802
    """Acquires the interpreter's lock."""


FUNCTIONS_OF_PYTHON = (
    PyCapsule_New,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyLong_AsVoidPtr,
    PyList_New,
    PyList_SetItem,
    PyList_GetItem,
    PyLong_FromLong,
    PyErr_NoMemory,
    PyEval_SaveThread,
    PyEval_RestoreThread,
)
"""Functions of Python's C API that this module calls."""


# --- capsules


@native
def buffer_capsule(f: Function, buffer: Buffer) -> Nullable[Address]:
    """A capsule that owns a buffer. Destroys the buffer if memory is exhausted."""
    made = PyCapsule_New(f, buffer, f.null(Address), f.address_of(destroy_buffer_capsule))
    with f.when(made.is_null()):
        destroy_buffer(f, buffer)
    return made


@native
def destroy_buffer_capsule(f: Function, capsule: Address) -> None:
    """Python calls this when it drops the capsule of a buffer."""
    held = PyCapsule_GetPointer(f, capsule, f.null(Address))
    with f.when(held.is_present()):
        destroy_buffer(f, held.value.cast(Buffer))


@native
def storage_capsule(f: Function, buffer: Buffer) -> Nullable[Address]:
    """A capsule that owns the storage of a buffer, together with others; the integer 0 if the buffer was deleted or is
    donated."""
    found = acquire_hold(f, buffer)
    with f.when(found.is_null()):
        f.ret(PyLong_FromLong(f, f.constant(Word, 0)))
    storage = found.value
    made = PyCapsule_New(f, storage, f.null(Address), f.address_of(destroy_storage_capsule))
    with f.when(made.is_null()):
        release(f, storage)
    return made


@native
def owned_storage(f: Function, storage: Storage) -> Nullable[Address]:
    """A capsule that owns a storage, together with others. The caller knows that another owner exists."""
    retain(f, storage)
    made = PyCapsule_New(f, storage, f.null(Address), f.address_of(destroy_storage_capsule))
    with f.when(made.is_null()):
        release(f, storage)
    return made


@native
def destroy_storage_capsule(f: Function, capsule: Address) -> None:
    """Python calls this when it drops the capsule of a storage."""
    held = PyCapsule_GetPointer(f, capsule, f.null(Address))
    with f.when(held.is_present()):
        release(f, held.value.cast(Storage))


# --- buffers of the host's arrays


@native
def filled_buffer(f: Function, template: Buffer, data: Nullable[Address]) -> Nullable[Address]:
    """The capsule of a new buffer with copies of the elements at an address, or with arbitrary ones."""
    bytes = template.on_device_size_in_bytes
    allocated = allocate(f, bytes)
    with f.when(allocated.is_null()):
        f.ret(PyErr_NoMemory(f))
    storage = allocated.value
    elements = storage.offset(STORAGE_BYTES)
    with f.when(data.is_present()):
        copy_elements(f, elements, data.value, bytes)
    return owned_buffer(f, template, storage, elements)


@native
def copy_elements(f: Function, target: Address, source: Address, bytes: Word) -> None:
    """Copies bytes; many of them without the interpreter's lock."""
    with f.when(bytes <= _SHORT_COPY_BYTES):
        memcpy(f, target, source, bytes)
        f.ret()
    state = PyEval_SaveThread(f)
    memcpy(f, target, source, bytes)
    PyEval_RestoreThread(f, state)


@native
def lend_memory(f: Function, template: Buffer, record: Address, data: Address) -> Buffer:
    """A buffer on memory of the host for the duration of a call, in a record with its storage that the caller
    allocates and frees."""
    storage = record.offset(Buffer.byte_size()).cast(Storage)
    initialize_storage(f, storage, f.constant(Word, 0), f.null(Event))
    memcpy(f, record, template, f.constant(Word, Buffer.byte_size()))
    buffer = f.exclusive_access(record.cast(Buffer), "the caller has just allocated it")
    buffer.data = data.maybe()
    buffer.storage = storage.maybe()
    return buffer


@native
def buffer_of_storage(f: Function, template: Buffer, source: Buffer) -> Nullable[Address]:
    """The capsule of a buffer on the device of the template, which shares the elements and the event of another buffer;
    the integer 0 if that was deleted or is donated."""
    found = acquire_hold(f, source)
    with f.when(found.is_null()):
        f.ret(PyLong_FromLong(f, f.constant(Word, 0)))
    borrowed = borrow_storage(f, found.value)
    with f.when(borrowed.is_null()):
        release(f, found.value)
        f.ret(PyErr_NoMemory(f))
    made = make_buffer(f, template, borrowed.value, source.data.known("a buffer that has a storage has data"))
    with f.when(made.is_null()):
        release(f, borrowed.value)
        f.ret(PyErr_NoMemory(f))
    buffer = f.exclusive_access(made.value, "the buffer was just made")
    retain_event(f, source.event)
    buffer.event = source.event
    return buffer_capsule(f, buffer)


@native
def owned_buffer(f: Function, template: Buffer, storage: Storage, data: Address) -> Nullable[Address]:
    """The capsule of a buffer that takes over the ownership of a storage."""
    made = make_buffer(f, template, storage, data)
    with f.when(made.is_null()):
        release(f, storage)
        f.ret(PyErr_NoMemory(f))
    return buffer_capsule(f, made.value)


@native
def await_briefly(f: Function, event: Event, nanoseconds: Word) -> Bool:
    """Waits for an event, at most for a time of less than a second; returns whether it is complete."""
    with f.count(f.spins(SPINS)):
        with f.when(event.state.load(ACQUIRE) == COMPLETE):
            f.ret(True)
        f.pause()
    with f.when(is_event_complete(f, event)):
        f.ret(True)
    before, _ = event.state.compare_exchange(PENDING, AWAITED, ACQUIRE, ACQUIRE)
    with f.when(before == COMPLETE):
        f.ret(True)
    event.state.wait(AWAITED, nanoseconds)
    return is_event_complete(f, event)


@native
def count_readable(f: Function, capsules: Address, count: Word) -> Nullable[Address]:
    """How many buffers from the first one of a list of capsules on can be read at once: until one is deleted, or its
    event is pending or has failed."""
    with f.count(count) as one:
        found = PyList_GetItem(f, capsules, one.index)
        with f.when(found.is_null()):
            f.ret(None)
        held = PyCapsule_GetPointer(f, found.value, f.null(Address))
        with f.when(held.is_null()):
            f.ret(None)
        buffer = held.value.cast(Buffer)
        with f.when(is_deleted(f, buffer) | ~is_event_successful(f, buffer.event)):
            f.ret(PyLong_FromLong(f, one.index))
    return PyLong_FromLong(f, count)


# --- calls


@native
def call_executable(
    f: Function, executable: Executable, arguments: Address, templates: Buffers, result_count: Word, lent_count: Word
) -> Nullable[Address]:
    """Calls an executable with a list: the arguments of the first device, then those of the next ones. Each is the
    capsule of a buffer, or an integer, the address of memory that the caller lends. Returns the list of the results'
    capsules, or an integer: `REFUSED`, `CANCELED` or `NEEDS_COPIES`.

    templates: of the buffers of lent memory, by argument. result_count: of each device. lent_count: how many of the
    arguments are integers.
    """
    devices, width = executable.device_program_count, executable.argument_count
    bytes = (devices * (width + result_count + 2)) * 8 + lent_count * _LENT_BYTES
    with f.when(bytes <= MAX_STACK_BYTES):
        on_stack = f.stack(MAX_STACK_BYTES)
        f.ret(call_with_rows(f, executable, arguments, templates, result_count, lent_count, on_stack))
    made = malloc(f, bytes)
    with f.when(made.is_null()):
        f.ret(PyErr_NoMemory(f))
    returned = call_with_rows(f, executable, arguments, templates, result_count, lent_count, made.value)
    free(f, made)
    return returned


@native
def call_with_rows(
    f: Function,
    executable: Executable,
    arguments: Address,
    templates: Buffers,
    result_count: Word,
    lent_count: Word,
    memory: Address,
) -> Nullable[Address]:
    """As `call_executable`. memory: for pointers to the arguments and to the results, and to their rows of each device,
    followed by the records of lent memory."""
    devices, width = executable.device_program_count, executable.argument_count
    given = memory.cast(Buffers)
    results = given.offset(devices * width * 8).cast(Buffers)
    lists = results.offset(devices * result_count * 8).cast(BufferLists)
    result_lists = lists.offset(devices * 8).cast(BufferLists)
    lent = f.variable(Address, result_lists.offset(devices * 8))
    with f.count(devices * width) as one:
        found = PyList_GetItem(f, arguments, one.index)
        with f.when(found.is_null()):
            f.ret(None)
        with f.when(PyCapsule_IsValid(f, found.value, f.null(Address)) != 0) as is_buffer:
            held = PyCapsule_GetPointer(f, found.value, f.null(Address)).known("the capsule is valid")
            given.items[one.index] = held.cast(Buffer)
        with is_buffer.otherwise():
            data = PyLong_AsVoidPtr(f, found.value)
            with f.when(data.is_null()):
                f.ret(None)
            given.items[one.index] = lend_memory(f, templates.items[one.index], lent.get(), data.value)
            lent.set(lent.get().offset(_LENT_BYTES))
    with f.count(devices) as one:
        lists.items[one.index] = given.offset(one.index * width * 8).cast(Buffers)
        result_lists.items[one.index] = results.offset(one.index * result_count * 8).cast(Buffers)
    with f.when(lent_count != 0):
        is_queued = (executable.is_asynchronous != 0) | ~are_all_arguments_ready(f, executable, lists)
        with f.when(is_queued):
            f.ret(PyLong_FromLong(f, f.constant(Word, NEEDS_COPIES)))
    state = PyEval_SaveThread(f)
    status = execute(f, executable, lists.cast(GivenBufferLists), result_lists.cast(GivenBufferLists), f.null(Events))
    PyEval_RestoreThread(f, state)
    with f.when(status != DONE):
        f.ret(PyLong_FromLong(f, status))
    return capsules_of(f, results, devices * result_count)


@native
def capsules_of(f: Function, buffers: Buffers, count: Word) -> Nullable[Address]:
    """A list of capsules that own buffers. Destroys them if memory is exhausted."""
    made = PyList_New(f, count)
    is_complete = f.variable(Bool, made.is_present())
    with f.count(count) as one:
        with f.when(made.is_null()) as missing:
            destroy_buffer(f, buffers.items[one.index])
        with missing.otherwise():
            capsule = buffer_capsule(f, buffers.items[one.index])
            with f.when(capsule.is_null()):
                is_complete.set(False)
            PyList_SetItem(f, made.known("the other case"), one.index, capsule)
    with f.when(~is_complete.get()):
        f.ret(None)
    return made

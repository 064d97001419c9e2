"""Calls of executables as a function of Python: from the tuple of a user's arguments to objects of the class `Buffer`.

Such a function runs no Python code. It leaves all calls to Python, by returning NotImplemented, for which an argument
has to be converted, or which the engine refuses.

Responsible for reading arguments and making results. Must not know what programs expect.
"""

from __future__ import annotations

from xlapy.native.function import MAX_STACK_BYTES, Function, external, native
from xlapy.native.records import Final, Record, Trailing
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import Buffer, destroy_buffer, is_deleted
from xlapy.runtime.engine.core.events import is_event_successful
from xlapy.runtime.engine.core.execute import (
    CANCELED,
    DONE,
    REFUSED,
    BufferLists,
    GivenBufferLists,
    are_all_arguments_ready,
    execute,
)
from xlapy.runtime.engine.core.launch_records import Buffers, Events, Executable, Numbers
from xlapy.runtime.engine.core.memory import Storage
from xlapy.runtime.engine.core.python_objects import (
    PyCapsule_GetPointer,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    buffer_capsule,
    lend_memory,
)

_LENT_BYTES = Buffer.byte_size() + Storage.byte_size()
_DENSE = 0x101
"""NumPy's flags of an array whose elements are aligned and in row-major order."""


class Objects(Record):
    """Pointers to objects of Python, such as the fields of one."""

    items: Trailing[Nullable[Address]]


class ObjectLayout(Record):
    """Where objects of Python keep what a call reads and writes: offsets in bytes. The fields follow from the classes:
    see `runtime.engine.object_layout`. class_offset: of an object's class. buffer_class: `Buffer`; type_offset,
    handle_offset, array_offset: of its slots. array_class: NumPy's arrays, or null if their layout is unknown;
    elements_offset ... flags_offset: of their fields. none, not_implemented: the objects of Python."""

    class_offset: Final[Word]
    buffer_class: Final[Address]
    type_offset: Final[Word]
    handle_offset: Final[Word]
    array_offset: Final[Word]
    array_class: Final[Nullable[Address]]
    elements_offset: Final[Word]
    rank_offset: Final[Word]
    dimensions_offset: Final[Word]
    dtype_offset: Final[Word]
    flags_offset: Final[Word]
    none: Final[Address]
    not_implemented: Final[Address]


class ExpectedArray(Record):
    """What a call accepts without Python. type: the `ArrayType` of a buffer. dtype, rank, dimensions: of a NumPy array.
    alignment_mask: the bits of its address that are 0."""

    type: Final[Address]
    dtype: Final[Address]
    rank: Final[Word]
    dimensions: Final[Numbers]
    alignment_mask: Final[Word]


class CallPlan(Record):
    """The calls of a program. argument_count, result_count: of each device. expected: an `ExpectedArray` for each
    argument. templates: of the buffers of lent memory, by device and argument. result_types: the `ArrayType` of each
    result. returns_tuple: whether results are returned as a tuple. raise_canceled: a function of Python that raises the
    error of a canceled call."""

    layout: Final[ObjectLayout]
    executable: Final[Executable]
    argument_count: Final[Word]
    result_count: Final[Word]
    expected: Final[ExpectedArray]
    templates: Final[Buffers]
    result_types: Final[Objects]
    returns_tuple: Final[Word]
    raise_canceled: Final[Address]


@external
def PyTuple_Size(f: Function, items: Address) -> Word:  # type: ignore[empty-body] # noqa: N802
    """The number of elements."""


@external
def PyTuple_GetItem(f: Function, items: Address, index: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """An element, which the tuple owns."""


@external
def PyTuple_New(f: Function, size: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """A new tuple."""


@external
def PyTuple_SetItem(  # type: ignore[empty-body] # noqa: N802
    f: Function, items: Address, index: Word, item: Nullable[Address]
) -> Int32:
    """Sets an element of a new tuple; takes over the reference."""


@external
def PyType_GenericAlloc(f: Function, kind: Address, items: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """A new object of a class, whose slots are null."""


@external
def PyObject_CallNoArgs(f: Function, function: Address) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """Calls a function of Python."""


@external
def PyBool_FromLong(f: Function, value: Word) -> Nullable[Address]:  # type: ignore[empty-body] # noqa: N802
    """True or False."""


@external
def Py_IncRef(f: Function, value: Address) -> None:  # noqa: N802
    """Adds a reference."""


@external
def Py_DecRef(f: Function, value: Address) -> None:  # noqa: N802
    """Gives up a reference."""


FUNCTIONS_OF_PYTHON = (
    PyTuple_Size,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
    PyObject_CallNoArgs,
    PyBool_FromLong,
    Py_IncRef,
    Py_DecRef,
)
"""Functions of Python's C API that this module calls besides those of `python_objects`."""


# --- objects


@native
def object_field(f: Function, value: Address, offset: Word) -> Nullable[Address]:
    """The pointer in a field of an object."""
    return value.offset(offset).cast(Objects).items[0]


@native
def new_reference(f: Function, value: Address) -> Nullable[Address]:
    """An object with one more reference."""
    Py_IncRef(f, value)
    return value.maybe()


@native
def buffer_of_object(f: Function, layout: ObjectLayout, value: Address, expected: ExpectedArray) -> Nullable[Buffer]:
    """The engine's record of an object of the class `Buffer`; null if it has none, or another type."""
    with f.when(object_field(f, value, layout.type_offset) != expected.type):
        f.ret(None)
    handle = object_field(f, value, layout.handle_offset)
    with f.when(handle.is_null()):
        f.ret(None)
    with f.when(handle.value == layout.none):
        f.ret(None)
    return PyCapsule_GetPointer(f, handle.value, f.null(Address)).cast(Buffer)


@native
def elements_of_array(f: Function, layout: ObjectLayout, value: Address, expected: ExpectedArray) -> Nullable[Address]:
    """The address of the elements of a NumPy array; null if they are not those that a program expects, in row-major
    order."""
    with f.when(object_field(f, value, layout.dtype_offset) != expected.dtype):
        f.ret(None)
    # Both fields are 32-bit numbers, in the lower half of their slots.
    rank = value.offset(layout.rank_offset).cast(Numbers).items[0].to(Int32)
    flags = value.offset(layout.flags_offset).cast(Numbers).items[0] & _DENSE
    with f.when((rank != expected.rank.to(Int32)) | (flags != _DENSE)):
        f.ret(None)
    sizes = object_field(f, value, layout.dimensions_offset).cast(Numbers)
    with f.count(expected.rank) as one:
        with f.when(sizes.is_null()):
            f.ret(None)
        with f.when(sizes.value.items[one.index] != expected.dimensions.items[one.index]):
            f.ret(None)
    address = value.offset(layout.elements_offset).cast(Numbers).items[0]
    with f.when((address & expected.alignment_mask) != 0):
        f.ret(None)
    return object_field(f, value, layout.elements_offset)


@native
def buffer_object(f: Function, layout: ObjectLayout, type: Address, buffer: Buffer) -> Nullable[Address]:
    """A new object of the class `Buffer` that owns a buffer. Destroys the buffer if memory is exhausted."""
    capsule = buffer_capsule(f, buffer)
    with f.when(capsule.is_null()):
        f.ret(None)
    made = PyType_GenericAlloc(f, layout.buffer_class, f.constant(Word, 0))
    with f.when(made.is_null()):
        Py_DecRef(f, capsule.value)
        f.ret(None)
    Py_IncRef(f, type)
    Py_IncRef(f, layout.none)
    made.value.offset(layout.type_offset).cast(Objects).items[0] = type.maybe()
    made.value.offset(layout.handle_offset).cast(Objects).items[0] = capsule
    made.value.offset(layout.array_offset).cast(Objects).items[0] = layout.none.maybe()
    return made


# --- calls


@native
def call_from_python(f: Function, capsule: Address, arguments: Address) -> Nullable[Address]:
    """Calls an executable with a tuple of buffers and NumPy arrays: the arguments of the first device, then those of
    the next ones. Returns a buffer, or a tuple of the buffers of all devices, or NotImplemented if nothing has run.

    capsule: holds the `CallPlan`.
    """
    plan = PyCapsule_GetPointer(f, capsule, f.null(Address)).known("the function was made with it").cast(CallPlan)
    layout, devices = plan.layout, plan.executable.device_program_count
    width, count = plan.argument_count, plan.result_count
    with f.when(PyTuple_Size(f, arguments) != devices * width):
        f.ret(new_reference(f, layout.not_implemented))
    first_lent = devices * (width + count + 2) * 8
    with f.when(first_lent > MAX_STACK_BYTES):
        f.ret(new_reference(f, layout.not_implemented))
    memory = f.stack(MAX_STACK_BYTES)
    lists = memory.cast(BufferLists)
    result_lists = memory.offset(devices * 8).cast(BufferLists)
    given = memory.offset(devices * 16).cast(Buffers)
    results = given.offset(devices * width * 8).cast(Buffers)
    used = f.variable(Word, first_lent)
    number = f.variable(Word, 0)
    with f.count(devices * width) as one:
        with f.when(number.get() == width):
            number.set(0)
        argument = PyTuple_GetItem(f, arguments, one.index).known("the tuple has as many elements")
        expected = plan.expected.offset(number.get() * ExpectedArray.byte_size()).cast(ExpectedArray)
        number.set(number.get() + 1)
        kind = object_field(f, argument, layout.class_offset)
        found = f.variable(Nullable[Buffer], None)
        with f.when(kind == layout.buffer_class):
            found.set(buffer_of_object(f, layout, argument, expected))
        with f.when(kind == layout.array_class):
            elements = elements_of_array(f, layout, argument, expected)
            with f.when(elements.is_present()), f.when(used.get() <= MAX_STACK_BYTES - _LENT_BYTES):
                template = plan.templates.items[one.index]
                found.set(lend_memory(f, template, memory.offset(used.get()), elements.value).maybe())
                used.set(used.get() + _LENT_BYTES)
        buffer = found.get()
        with f.when(buffer.is_null()):
            f.ret(new_reference(f, layout.not_implemented))
        given.items[one.index] = buffer.value
    with f.count(devices) as one:
        lists.items[one.index] = given.offset(one.index * width * 8).cast(Buffers)
        result_lists.items[one.index] = results.offset(one.index * count * 8).cast(Buffers)
    status = run_plan(f, plan, lists, result_lists, used.get() != first_lent)
    with f.when(status == CANCELED):
        f.ret(PyObject_CallNoArgs(f, plan.raise_canceled))
    with f.when(status != DONE):
        f.ret(new_reference(f, layout.not_implemented))
    with f.when(plan.returns_tuple != 0):
        f.ret(tuple_of_results(f, plan, results))
    type = plan.result_types.items[0].known("there is a result")
    return buffer_object(f, layout, type, results.items[0])


@native
def run_plan(f: Function, plan: CallPlan, arguments: BufferLists, results: BufferLists, lends_memory: Bool) -> Word:
    """Runs or queues the program, as `execute`. Refuses to queue a program that memory was lent to."""
    executable = plan.executable
    is_queued = (executable.is_asynchronous != 0) | ~are_all_arguments_ready(f, executable, arguments)
    with f.when(is_queued & lends_memory):
        f.ret(f.constant(Word, REFUSED))
    given, made = arguments.cast(GivenBufferLists), results.cast(GivenBufferLists)
    state = PyEval_SaveThread(f)
    status = execute(f, executable, given, made, f.null(Events))
    PyEval_RestoreThread(f, state)
    return status


@native
def tuple_of_results(f: Function, plan: CallPlan, results: Buffers) -> Nullable[Address]:
    """A tuple of objects that own the buffers of all devices. Destroys them if memory is exhausted."""
    count = plan.executable.device_program_count * plan.result_count
    made = PyTuple_New(f, count)
    is_complete = f.variable(Bool, made.is_present())
    number = f.variable(Word, 0)
    with f.count(count) as one:
        with f.when(number.get() == plan.result_count):
            number.set(0)
        type = plan.result_types.items[number.get()].known("there is a type for each result")
        number.set(number.get() + 1)
        with f.when(is_complete.get()) as has_memory:
            item = buffer_object(f, plan.layout, type, results.items[one.index])
            is_complete.set(item.is_present())
            PyTuple_SetItem(f, made.known("otherwise nothing is complete"), one.index, item)
        with has_memory.otherwise():
            destroy_buffer(f, results.items[one.index])
    with f.when(~is_complete.get()):
        with f.when(made.is_present()):
            Py_DecRef(f, made.value)
        f.ret(None)
    return made


@native
def is_readable(f: Function, none: Address, capsule: Address) -> Nullable[Address]:
    """Whether the elements of a buffer can be read at once: it is not deleted, and its event is complete without an
    error. A function of Python, whose first argument is not used."""
    held = PyCapsule_GetPointer(f, capsule, f.null(Address))
    with f.when(held.is_null()):
        f.ret(None)
    buffer = held.value.cast(Buffer)
    is_there = ~is_deleted(f, buffer) & is_event_successful(f, buffer.event)
    return PyBool_FromLong(f, is_there.to(Word))

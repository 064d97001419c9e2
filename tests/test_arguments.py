"""Every public function and method gives an error of xlapy for arguments of wrong types, whatever they are.

The sweep takes all names of `xlapy.__all__` and `xlapy.ops`, and replaces one argument after the other, found by
`inspect.signature`, by values of many types. What is accepted is not judged: Python takes a list for a bool.
"""

from __future__ import annotations

import copy
import enum
import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy import ops
from xlapy.base.error_codes.building.python_calls import ARGUMENT_TYPE, CALL_SIGNATURE
from xlapy.base.error_codes.execution.devices import CLIENT_DEVICES
from xlapy.base.errors import ArgumentTypeError, BuilderError, InvalidArgumentError, XlaError


def deleted_buffer() -> xla.Buffer:
    buffer = xla.Client("cpu").device_put(np.ones(2, np.float32))
    buffer.delete()
    return buffer


VALUES: tuple[Any, ...] = (
    None, 5, -1, 2**31, 2**70, 10**30, True, 1.5, float("nan"), 1j, "x", "", b"", b"x", [], [None], ["x"], [[]], {},
    {1: 2}, [[], 1], set(), range(3), object(), int, len, np.zeros(2), np.zeros((2, 2), np.int32), np.array([object()]),
    np.array("x"), np.float32(1), np.int64(-1), deleted_buffer(),
)  # fmt: skip
UNORDERED: tuple[Callable[[], Any], ...] = (
    lambda: iter([[1.0]]), lambda: iter([0]), lambda: (n for n in "ab"), lambda: {1, 2}, lambda: {(1.0,)},
    lambda: {0: [1.0]}, lambda: {"x": 1}.keys(), lambda: [iter([1.0])], lambda: [{1}, {2}], lambda: map(len, ["x"]),
)  # fmt: skip
"""Make what is no sequence, or has elements that are none. An iterator can be used once."""
BLOCKING = {"transfer_from_channel", "transfer_from_outfeed"}
"""Methods that wait for a program if their arguments are right."""
OPERATORS = [
    *("__add__", "__radd__", "__sub__", "__mul__", "__truediv__", "__mod__", "__pow__", "__matmul__", "__and__"),
    *("__or__", "__xor__", "__lshift__", "__rshift__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__getitem__", "__array__", "__contains__"),
]  # fmt: skip
F32 = xla.Shape.parse("f32[2,3]")


class World:
    """One object of each public class."""

    def __init__(self) -> None:
        self.builder = xla.XlaBuilder("sweep")
        self.op = ops.parameter(self.builder, 0, F32, "x")
        self.module = xla.parse_hlo("ENTRY e { p = f32[4] parameter(0)  ROOT n = f32[4] negate(p) }")
        self.computation = self.module.entry_computation
        self.instruction = self.computation.root_instruction
        self.client = xla.Client("cpu", devices=2)
        self.executable = self.client.compile(self.module)
        self.buffer = self.client.device_put(np.ones(4, np.float32))
        self.device = self.client.devices[0]
        self.shape = F32
        self.tuple_shape = xla.Shape.parse("(f32[2])")
        self.literal = xla.Literal.of(np.ones(3))
        self.layout = xla.Layout([1, 0])
        self.sharding = xla.Sharding.parse("{devices=[2,1]<=[2]}")
        self.program_shape = xla.ProgramShape([F32], F32)
        self.type = xla.PrimitiveType.F32

    def argument(self, annotation: str) -> Any:
        """A right value for a parameter without default."""
        if "XlaOp" in annotation or "Operand" in annotation:
            return self.op
        if "XlaBuilder" in annotation:
            return self.builder
        if "Type" in annotation:
            return self.type
        if "Shape" in annotation:
            return F32
        return [0] if "Sequence" in annotation else 1 if "int" in annotation else "x"


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def wrong_calls(
    world: World, function: Callable[..., Any], values: tuple[Any, ...] | None = None
) -> Iterator[tuple[str, Any, list[Any], dict[str, Any]]]:
    """Yields calls that have one wrong argument each: its name and value, and all arguments."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    for wrong in parameters:
        for value in values or (*VALUES, *(make() for make in UNORDERED)):
            args: list[Any] = []
            named: dict[str, Any] = {}
            for parameter in parameters:
                if parameter is not wrong and parameter.default is not parameter.empty:
                    continue
                given = value if parameter is wrong else world.argument(str(parameter.annotation))
                if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and not named:
                    args.append(given)
                elif parameter.kind is parameter.VAR_POSITIONAL:
                    args += [given] if parameter is wrong else []
                elif parameter.kind is not parameter.VAR_KEYWORD:
                    named[parameter.name] = given
            yield wrong.name, value, args, named


def check(world: World, function: Callable[..., Any]) -> None:
    for name, value, args, named in wrong_calls(world, function):
        try:
            function(*args, **named)
        except XlaError as error:
            assert str(error)
        except BaseException as error:
            error.add_note(f"{function}: {name}={value!r}")
            raise


@pytest.mark.parametrize("name", ops.__all__)
def test_builder_functions(world: World, name: str):
    check(world, getattr(ops, name))


@pytest.mark.parametrize("name", ops.__all__)
def test_builder_functions_refuse_ops_in_place_of_values_and_append_nothing(name: str):
    world = World()
    other = ops.parameter(xla.XlaBuilder("other"), 0, F32, "other")
    wrongs = (world.op, ops.tuple(world.builder, [world.op]), ops.constant(world.builder, np.int32(1)), 3.5, "x", other)
    here = f"{inspect.currentframe().f_code.co_filename.rpartition('/')[2]}:"
    for argument, value, args, named in wrong_calls(world, getattr(ops, name), wrongs):
        before = [instruction.name for instruction in world.builder._computation]
        try:
            getattr(ops, name)(*args, **named)
        except XlaError as error:
            after = [instruction.name for instruction in world.builder._computation]
            assert after == before, f"{name}: {argument}={value!r} left {after[len(before) :]}"
            assert here in str(error), f"{name}: {argument}={value!r}"


@pytest.mark.parametrize(
    "call, argument",
    [
        (lambda x: ops.all_to_all(x, x, 0, 2), "split_dimension"),
        (lambda x: ops.batch_norm_inference(x, x, x, x, x, 1e-5, x), "feature_index"),
        (lambda x: ops.bitcast(x, x), "shape"),
        (lambda x: ops.bitcast(x, 3), "shape"),
        (lambda x: ops.fft(ops.complex(x, x), x, [4]), "fft_type"),
        (lambda x: ops.transpose(x, x), "permutation"),
        (lambda x: ops.rev(x, [x]), "dimensions[0]"),
    ],
)
def test_an_op_is_no_integer_shape_or_sequence(call: Callable[[xla.XlaOp], object], argument: str):
    with raises(ArgumentTypeError, ARGUMENT_TYPE, "test_arguments.py:", f"{argument} must be "):
        call(World().op)


CLASSES = [
    name for name in xla.__all__
    if inspect.isclass(getattr(xla, name)) and not issubclass(getattr(xla, name), (BaseException, enum.Enum))
]  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_classes_and_their_static_methods(world: World, name: str):
    cls = getattr(xla, name)
    check(world, cls)
    for method, member in vars(cls).items():
        if isinstance(member, staticmethod | classmethod) and not method.startswith("_"):
            check(world, getattr(cls, method))


@pytest.mark.parametrize("name", ["parse_hlo", "parse_stablehlo", "unregister_custom_call_target"])
def test_functions(world: World, name: str):
    check(world, getattr(xla, name))


OBJECTS = (
    "builder", "op", "module", "computation", "instruction", "client", "executable", "buffer", "device", "shape",
    "tuple_shape", "literal", "layout", "sharding", "program_shape", "type",
)  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_methods(name: str):
    own = World()  # methods change and delete their objects
    target = getattr(own, name)
    public = [method for method in dir(type(target)) if not method.startswith("_")]
    for method in [*public, *(operator for operator in OPERATORS if hasattr(type(target), operator))]:
        if method not in BLOCKING and inspect.isfunction(inspect.getattr_static(type(target), method)):
            check(own, getattr(target, method))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: xla.parse_hlo(None), "parse_hlo: text must be a string, given None"),
        (lambda w: xla.parse_hlo(b"x"), "parse_hlo: text must be a string, given bytes b'x'"),
        (lambda w: xla.Client(devices=None), "Client: devices must be an integer, given None"),
        (lambda w: xla.Client(devices="2"), "Client: devices must be an integer, given str '2'"),
        (
            lambda w: w.client.compile(w.module, num_replicas="1"),
            "Client.compile: num_replicas must be an integer or None, given str '1'",
        ),
        (
            lambda w: w.executable.execute_sharded(None),
            "Executable.execute_sharded: arguments must be a sequence of sequences, given None",
        ),
        (
            lambda w: w.executable.execute_sharded({(): 2}.keys()),
            "Executable.execute_sharded: arguments must be a sequence of sequences, given dict_keys dict_keys([()])",
        ),
        (
            lambda w: w.executable.execute_sharded({0: [1.0]}),
            "Executable.execute_sharded: arguments must be a sequence of sequences, given dict {0: [1.0]}",
        ),
        (
            lambda w: w.executable.execute_sharded({(1.0,)}),
            "Executable.execute_sharded: arguments must be a sequence of sequences, given set {(1.0,)}",
        ),
        (lambda w: xla.WindowDimension("x"), "WindowDimension: size must be an integer, given str 'x'"),
        (lambda w: xla.Window((5,)), "Window: dimensions[0] must be a WindowDimension, given int 5"),
        (lambda w: w.device.to_device(None), "Device.to_device: channel must be an integer, given None"),
        (
            lambda w: w.builder.set_op_metadata(5),
            "Annotated.set_op_metadata: metadata must be an OpMetadata, given int 5",
        ),
        (lambda w: w.literal.__array__("nonsense"), "dtype must be a NumPy dtype, given 'nonsense'"),
    ],
)  # fmt: skip
def test_messages(world: World, call: Callable[[World], object], message: str):
    with pytest.raises(ArgumentTypeError) as raised:
        call(world)
    assert raised.value.message == message
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, InvalidArgumentError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.client.compile(w.module, donate=np.zeros((2, 2))), "donate must be a sequence of integers"),
        (lambda w: w.client.device_put(np.ones(2), 1), "Client.device_put: too many positional arguments"),
        (lambda w: w.client.device_put([[], 1]), "Client.device_put: value must be an array of numbers"),
        (lambda w: xla.Literal(1), "make a Literal with Literal.of"),
        (lambda w: xla.Shape.of([[], 1]), "Shape.of: array must be an array of numbers"),
        (lambda w: ops.add(w.op, w.op, np.zeros(2)), "add: broadcast_dimensions must be a sequence of integers"),
    ],
)  # fmt: skip
def test_arrays_and_surplus_arguments(world: World, call: Callable[[World], object], message: str):
    with pytest.raises(InvalidArgumentError) as raised:
        call(world)
    assert message in str(raised.value)


def test_messages_of_builder_functions_name_the_callers_line(world: World):
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(ArgumentTypeError) as raised:
        ops.all_gather(world.op, 0, 2, use_global_device_ids=[])
    assert raised.value.message.endswith(
        f"test_arguments.py:{line}: all_gather: use_global_device_ids must be a bool or None, given list []"
    )
    assert isinstance(raised.value, BuilderError)


def test_an_executable_takes_no_arguments_by_name():
    executable = xla.Client().compile("ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }")
    with raises(ArgumentTypeError, CALL_SIGNATURE, "'x'", "observer"):
        executable(x=1)


def test_arguments_that_fit_no_form_of_a_function(world: World):
    with pytest.raises(ArgumentTypeError, match="reshape: the arguments fit none of its forms"):
        ops.reshape(world.op)


@pytest.mark.parametrize("devices", [0, -1, 10**6, 2**31, 10**30])
def test_numbers_of_devices(devices: int):
    with raises(InvalidArgumentError, CLIENT_DEVICES, "1 to 65536", f"devices={devices}"):
        xla.Client("cpu", devices=devices)


class TestCopies:
    def test_buffers_have_memory_of_their_own(self, world: World):
        values = np.arange(4, dtype=np.float32)
        for duplicate in (copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))):
            buffer = world.client.device_put(values)
            other = duplicate(buffer)
            buffer.delete()
            assert isinstance(other, xla.Buffer)
            np.testing.assert_array_equal(np.asarray(other), values)

    def test_modules_have_instructions_of_their_own(self, world: World):
        for duplicate in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
            other = duplicate(world.module)
            assert other.to_text() == world.module.to_text()
            assert other.entry_computation is not world.module.entry_computation

    def test_attributes_are_values(self, world: World):
        attributes = xla.parse_hlo("ENTRY e { ROOT i = s32[4] iota(), iota_dimension=0 }").entry_computation
        given = attributes.root_instruction.attributes
        hash(given)
        assert copy.deepcopy(given) is given
        assert pickle.loads(pickle.dumps(given)) == given

    @pytest.mark.parametrize("name", ["client", "device", "executable"])
    def test_by_reference(self, world: World, name: str):
        original = getattr(world, name)
        assert copy.copy(original) is original
        assert copy.deepcopy([original])[0] is original
        with pytest.raises(ArgumentTypeError, match=f"^{type(original).__name__} objects cannot be pickled: "):
            pickle.dumps(original)

    @pytest.mark.parametrize("name", ["builder", "op", "instruction", "computation"])
    def test_parts_of_a_graph_say_why_not(self, world: World, name: str):
        original = getattr(world, name)
        for duplicate, what in ((copy.copy, "copied"), (copy.deepcopy, "copied"), (pickle.dumps, "pickled")):
            with pytest.raises(ArgumentTypeError, match=f"^{type(original).__name__} objects cannot be {what}: "):
                duplicate(original)

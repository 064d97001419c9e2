"""Checks and converts the arguments of a call, and wraps its results.

Responsible for the rules by which arrays, scalars, lists, tuples and buffers become values of parameters. Does not
depend on how a program runs.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.base.arguments.dlpack import array_of
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import ArgumentTypeError, InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.base.value import actual_array, conform_to_shape, pad_to_bounds
from xlapy.interpreter import TOKEN, DynamicArray
from xlapy.runtime.buffer import Buffer, LaunchToken
from xlapy.runtime.values import Value


def check_arguments(program: ProgramShape, arguments: Sequence[Any]) -> list[Value]:
    """Returns one value per parameter. `InvalidArgumentError` names the parameter that does not match, and both
    shapes."""
    check_count(program, arguments)
    return [check_argument(program, number, argument) for number, argument in enumerate(arguments)]


def check_count(program: ProgramShape, arguments: Sequence[Any]) -> None:
    """`InvalidArgumentError` unless there is one argument per parameter."""
    if len(arguments) != len(program.parameters):
        raise InvalidArgumentError(
            codes.ARGUMENT_COUNT,
            f"the program takes {len(program.parameters)} arguments, given {len(arguments)}: {program.to_text()}",
        )


def check_argument(program: ProgramShape, number: int, argument: Any) -> Value:
    """Returns the value of one parameter; see `check_arguments`."""
    return check_value(program.parameters[number], argument, places_of_parameters(program)[number])


def places_of_parameters(program: ProgramShape) -> list[str]:
    """What messages call the parameters: `parameter 0 (x)`."""
    return [
        f"parameter {number} ({name})" if name else f"parameter {number}"
        for number, name in enumerate(program.parameter_names)
    ]


def check_value(shape: Shape, argument: Any, where: str) -> Value:
    """Converts an argument to a value of a shape. `InvalidArgumentError`, whose message starts with `where`, if it does
    not match."""
    if shape.is_tuple:
        return _tuple_value(shape, argument, where)
    if shape.is_token:
        if isinstance(argument, LaunchToken):
            argument.block_until_ready()
        return TOKEN
    if not shape.is_array:
        raise InvalidArgumentError(
            codes.OPAQUE_ARGUMENT, f"{where} has shape {shape.to_text(layout=False)}, which cannot be an argument"
        )
    return _array_value(shape, argument, where)


def check_lists(arguments: object) -> None:
    """`ArgumentTypeError` unless the arguments of all devices are a list, whose order tells the devices."""
    if type(arguments) is not list and (isinstance(arguments, str) or not isinstance(arguments, Sequence)):
        raise ArgumentTypeError(
            codes.DEVICE_ARGUMENTS,
            f"execute_sharded takes a list with the arguments of each device, given {type(arguments).__name__}",
        )


def check_list(device: int, arguments: object) -> None:
    """`InvalidArgumentError` unless the arguments of a device are a list."""
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise InvalidArgumentError(
            codes.DEVICE_ARGUMENTS,
            f"execute_sharded takes a list of arguments per device, given {type(arguments).__name__} for {device}",
        )


def check_tuple(shape: Shape, argument: Any, where: str) -> None:
    """`InvalidArgumentError`, whose message starts with `where`, unless an argument has the elements of a tuple
    shape."""
    if not isinstance(argument, list | tuple) or len(argument) != len(shape.tuple_shapes):
        given = f"{len(argument)} elements" if isinstance(argument, list | tuple) else type(argument).__name__
        raise InvalidArgumentError(
            codes.ARGUMENT_TUPLE, f"{where} takes a tuple of {len(shape.tuple_shapes)} elements, given {given}"
        )


def _tuple_value(shape: Shape, argument: Any, where: str) -> Value:
    check_tuple(shape, argument, where)
    pairs = zip(shape.tuple_shapes, argument, strict=True)
    return tuple(check_value(element, item, f"{where} element {i}") for i, (element, item) in enumerate(pairs))


def _array_value(shape: Shape, argument: Any, where: str) -> np.ndarray[Any, Any] | DynamicArray:
    dtype = shape.dtype
    if isinstance(argument, bool | int | float | complex | list):
        array = _from_python(argument, shape.element_type, where)
    else:
        array = _from_array(argument, where)
    matches_shape = dimensions_fit(array.shape, shape)
    if not matches_shape or array.dtype != dtype:
        given = f"{array.dtype}[{','.join(map(str, array.shape))}]"
        hint = f"; convert it with .astype({dtype.name!r})" if matches_shape else ""
        raise InvalidArgumentError(
            codes.ARGUMENT_SHAPE, f"{where} takes {shape.to_text(layout=False)} ({dtype.name}), given {given}{hint}"
        )
    value: np.ndarray[Any, Any] | DynamicArray = pad_to_shape(array, shape)
    return value


def dimensions_fit(sizes: Sequence[int], shape: Shape) -> bool:
    """Whether an array of these sizes matches a shape: sizes are equal, or at most the bound in a dynamic dimension."""
    if len(sizes) != shape.rank:
        return False
    rows = zip(sizes, shape.dimensions, shape.dynamic_dimensions, strict=True)
    return all(size == bound or (dynamic and size < bound) for size, bound, dynamic in rows)


def _from_python(argument: Any, element_type: PrimitiveType, where: str) -> np.ndarray[Any, Any]:
    """Converts Python numbers, which have no element type of their own, to the parameter's element type if the value
    fits."""
    shown = reprlib.repr(argument)
    try:
        array = np.asarray(argument)
        if array.dtype.kind not in "biufc" and array.size:
            raise InvalidArgumentError(codes.ARGUMENT_ARRAY, f"{where} takes numbers, given {shown}")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            converted = array.astype(element_type.dtype)
        back = converted.astype(array.dtype) if array.dtype.kind in "biu" else array
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(codes.ARGUMENT_ARRAY, f"{where}: {error}") from error
    kind = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[array.dtype.kind]
    if array.size and kind > _number_kind(element_type):
        raise InvalidArgumentError(
            codes.ARGUMENT_VALUE, f"{where} takes {element_type}, given the {array.dtype.name} value {shown}"
        )
    if _number_kind(element_type) < 2 and not np.array_equal(back, array):
        raise InvalidArgumentError(codes.ARGUMENT_VALUE, f"{where}: {shown} does not fit {element_type}")
    return converted


def _number_kind(element_type: PrimitiveType) -> int:
    """The kind of numbers that a type can represent: 1 for integers and PRED, 2 for floating-point and 3 for complex
    types."""
    return 3 if element_type.is_complex else 2 if element_type.is_floating else 1


def _from_array(argument: Any, where: str) -> np.ndarray[Any, Any]:
    if isinstance(argument, Buffer):
        if argument.is_deleted():
            raise InvalidArgumentError(codes.DELETED_BUFFER, f"{where}: {argument.deletion_reason}")
        return argument.array
    try:
        if hasattr(argument, "__array__") or hasattr(argument, "__dlpack__"):
            return array_of(argument)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise InvalidArgumentError(
            codes.ARGUMENT_ARRAY, f"{where}: the {type(argument).__name__} cannot be read as an array: {error}"
        ) from error
    raise InvalidArgumentError(codes.ARGUMENT_ARRAY, f"{where} takes an array, given {type(argument).__name__}")


def flatten_arguments(shape: ProgramShape, arguments: Sequence[Any]) -> list[Any]:
    """The leaves of arguments of which some are tuples. `InvalidArgumentError` if their structure does not match."""
    leaves: list[Any] = []
    places = places_of_parameters(shape)
    for argument, parameter, place in zip(arguments, shape.parameters, places, strict=True):
        _add_leaves(leaves, argument, parameter, place)
    return leaves


def _add_leaves(leaves: list[Any], argument: Any, shape: Shape, place: str) -> None:
    if not shape.is_tuple:
        leaves.append(argument)
        return
    check_tuple(shape, argument, place)
    for number, (element, element_shape) in enumerate(zip(argument, shape.tuple_shapes, strict=True)):
        _add_leaves(leaves, element, element_shape, f"{place} element {number}")


def can_lend(argument: Any, array: np.ndarray[Any, Any], alignment_mask: int) -> bool:
    """Whether a program can read the array of an argument in place: a read-only array, one of `ml_dtypes`, or an array
    of another library. Buffers are copied, because another thread may delete them, and so are Python numbers."""
    if isinstance(argument, Buffer) or not (hasattr(argument, "__array__") or hasattr(argument, "__dlpack__")):
        return False
    address: int = array.__array_interface__["data"][0]
    return array.size > 0 and array.flags.c_contiguous and not address & alignment_mask


def wrap_result(value: Value, arguments: Sequence[Value]) -> Any:
    """Returns buffers of the actual sizes in the result's structure. Values that share memory with an argument are
    copied."""
    if isinstance(value, tuple):
        return tuple(wrap_result(element, arguments) for element in value)
    if isinstance(value, DynamicArray):
        return Buffer(value.actual.copy())
    if not isinstance(value, np.ndarray):
        return value
    if any(np.may_share_memory(value, leaf) for argument in arguments for leaf in leaves(argument)):
        value = value.copy()
    return Buffer(value)


def shape_of(value: Value) -> Shape:
    """The shape of a value. Dynamic dimensions have their actual size."""
    if isinstance(value, tuple):
        return Shape.tuple([shape_of(element) for element in value])
    if isinstance(value, DynamicArray):
        return Shape.of(value.actual)
    return Shape.of(value) if isinstance(value, np.ndarray) else Shape.token()


def matches_shape(value: Value, shape: Shape) -> bool:
    """Whether a value matches a shape: equal element types, and sizes that are equal, or at most the bound of a dynamic
    dimension."""
    if isinstance(value, tuple):
        parts = shape.tuple_shapes
        return shape.is_tuple and len(value) == len(parts) and all(map(matches_shape, value, parts))
    if isinstance(value, DynamicArray | np.ndarray):
        array = actual_array(value)
        return shape.is_array and array.dtype == shape.dtype and dimensions_fit(array.shape, shape)
    return shape.is_token


def pad_to_shape(value: Value, shape: Shape) -> Value:
    """Pads a value that matches a shape to the bounds of its dynamic dimensions."""
    if isinstance(value, tuple):
        return tuple(map(pad_to_shape, value, shape.tuple_shapes))
    if isinstance(value, DynamicArray | np.ndarray):
        return conform_to_shape(pad_to_bounds(actual_array(value), shape.dimensions), shape)
    return value


def leaves(value: Value) -> list[np.ndarray[Any, Any]]:
    """The arrays in a value, of their actual sizes, with tuples flattened in order."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    if isinstance(value, DynamicArray):
        return [value.actual]
    return [value] if isinstance(value, np.ndarray) else []

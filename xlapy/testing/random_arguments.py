"""Random arguments for a program: values of moderate size for every parameter, including tuples.

Responsible for the traversal of shapes and the sizes of dynamic dimensions. `random_values` draws the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.literal import check_numpy_limits
from xlapy.base.shape import Shape
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.module import Module
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.testing.random_values import random_array

_BYTES_WHILE_DRAWN = 24
"""Bytes for each element besides the argument: numbers are drawn as f64, and changed in copies."""
_MIN_CHECKED_BYTES = 1 << 24
"""Smaller arrays are drawn without asking how much memory there is."""


def random_arguments(parameters: Iterable[Shape], seed: int, *, special: bool = False) -> list[Any]:
    """Returns one argument per parameter. Equal seeds give equal arguments. `special` mixes in NaN, infinities and
    extremes.

    A dynamic dimension has a size from 1 to its bound. All dimensions with the same bound have the same size, so that
    the shapes of the arguments fit together. Raises `InvalidArgumentError` if an argument does not fit in memory, and
    `ShapeError` if NumPy has no array of its shape.
    """
    rng = np.random.default_rng(seed)
    sizes: dict[int, int] = {}
    return [
        _argument(shape, rng, special, sizes, f"the random argument {number}")
        for number, shape in enumerate(parameters)
    ]


def suitable_arguments(module: Module, seed: int) -> list[Any]:
    """Returns random arguments of the entry for which its operations are defined.

    The operand of a `cholesky` is positive definite and a variance is positive; for other numbers, the result is NaN,
    which tells two implementations apart from none.
    """
    arguments = random_arguments([p.shape for p in module.entry_computation.parameters], seed)
    for instruction in module.entry_computation:
        if instruction.op is opcodes.CHOLESKY and is_parameter(instruction.operands[0]):
            number = instruction.operands[0].parameter_number
            arguments[number] = _positive_definite(arguments[number])
        variance = _VARIANCES.get(instruction.op)
        if variance is not None and is_parameter(instruction.operands[variance]):
            number = instruction.operands[variance].parameter_number
            arguments[number] = np.abs(arguments[number])
    return arguments


_VARIANCES = {opcodes.BATCH_NORM_INFERENCE: 4, opcodes.BATCH_NORM_GRAD: 3}
"""The number of the operand that is a variance."""


def _positive_definite(matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = matrices.astype(np.complex128 if matrices.dtype.kind == "c" else np.float64)
    products = wide @ np.conj(np.swapaxes(wide, -1, -2))
    return np.asarray((products + np.eye(wide.shape[-1])).astype(matrices.dtype))


def _argument(shape: Shape, rng: np.random.Generator, special: bool, sizes: dict[int, int], where: str) -> Any:
    if shape.is_tuple:
        return tuple(_argument(element, rng, special, sizes, where) for element in shape.tuple_shapes)
    if not shape.is_array:
        return None
    dimensions = _dimensions(shape, rng, sizes)
    _check_memory(Shape.array(shape.element_type, dimensions), where)
    try:
        return random_array(dimensions, shape.dtype, rng, special)
    except MemoryError as error:
        raise InvalidArgumentError(
            codes.OUT_OF_MEMORY, f"{where}, {shape.to_text(layout=False)}, does not fit in memory: {error}"
        ) from error


def _check_memory(shape: Shape, where: str) -> None:
    check_numpy_limits(shape)
    needed = shape.size * (shape.dtype.itemsize + _BYTES_WHILE_DRAWN)
    if needed > _MIN_CHECKED_BYTES and needed > (available := available_bytes()):
        raise InvalidArgumentError(
            codes.OUT_OF_MEMORY,
            f"{where}, {shape.to_text(layout=False)}, does not fit in memory: drawing it takes {format_bytes(needed)}, "
            f"{format_bytes(available)} are available",
        )


def _dimensions(shape: Shape, rng: np.random.Generator, sizes: dict[int, int]) -> tuple[int, ...]:
    chosen = list(shape.dimensions)
    for dimension, bound in enumerate(shape.dimensions):
        if shape.dynamic_dimensions[dimension] and bound:
            if bound not in sizes:
                sizes[bound] = int(rng.integers(1, bound + 1))
            chosen[dimension] = sizes[bound]
    return tuple(chosen)

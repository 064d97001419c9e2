"""Compares the reference with the interpreter instruction by instruction, each on the interpreter's operands.

Results have the same bits, except where the definition leaves rounding open: sums of products, transforms and
factorizations, batch normalization, floating-point sums and products in reductions, and products of complex numbers,
which may use fused multiply-add, and then overflow elsewhere. These are compared by the rule of the operation
(`xlapy/testing/comparison.py`). A sort whose comparator does not order NaN gives some permutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.value import DynamicArray
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.interpreter import Context, rule_of
from xlapy.interpreter.core import Value
from xlapy.interpreter.custom import custom_call_rule
from xlapy.reference import Device, evaluate_instruction
from xlapy.testing.comparison import RULE_OF_OPERATION, assert_close
from xlapy.testing.instruction_by_instruction import assert_step, describe
from xlapy.testing.sum_errors import Step

ROUNDED_RULES = ("products", "norm", "norm in steps")
SUMS = ("accumulation",)


def reference_device(context: Context) -> Device:
    """Returns a device with the random numbers and custom-call targets of an interpreter context."""

    def call_target(_: Device, instruction: Instruction, operands: Sequence[Value]) -> Value:
        return custom_call_rule(instruction)(context, instruction, operands)

    return Device(random_counter=context.random_state().counter, call_target=call_target)


def assert_module_agrees(module: Module, arguments: Sequence[Value]) -> int:
    """Compares every instruction of the entry; returns how many were compared."""
    context = Context()
    device = reference_device(context)
    values: dict[Instruction, Value] = {}
    compared = 0
    with np.errstate(all="ignore"):
        for instruction in post_order(module.entry_computation):
            if is_parameter(instruction):
                values[instruction] = arguments[instruction.parameter_number]
                continue
            operands = [values[operand] for operand in instruction.operands]
            expected = evaluate_instruction(device, instruction, operands)
            values[instruction] = rule_of(instruction)(context, instruction, operands)
            assert_agrees(instruction, operands, expected, values[instruction])
            compared += 1
    return compared


def assert_agrees(instruction: Instruction, operands: Sequence[Value], expected: Value, actual: Value) -> None:
    """Raises AssertionError unless the interpreter's value is that of the reference."""
    if same_bits(expected, actual):
        return
    what = describe(instruction)
    if instruction.op is opcodes.SORT and any(has_nan(operand) for operand in operands):
        assert rows_of(expected) == rows_of(actual), f"{what}: not a permutation"
        return
    assert rounding_is_open(instruction), f"{what}: the reference gives {expected}, the interpreter {actual}"
    leaves = [*arrays_of(expected), *arrays_of(actual), *arrays_of(tuple(operands))]
    if any(isinstance(leaf, DynamicArray) for leaf in leaves) or instruction.op is opcodes.MAP:
        assert_close(actual_sizes(actual), actual_sizes(expected), rule="norm in steps", where=what)
    elif multiplies_complex_numbers(instruction):
        assert_close(
            finite_in_both(actual, expected), finite_in_both(expected, actual), rule="norm in steps", where=what
        )
    else:
        assert_step(Step(instruction, tuple(operands), expected), actual)


def rounding_is_open(instruction: Instruction) -> bool:
    """Returns whether an instruction, or one in a computation that it calls, is not defined bit by bit."""
    inner = [i for computation in instruction.computations for i in computation]
    if any(rounding_is_open(i) for i in inner):
        return True
    rule = RULE_OF_OPERATION.get(instruction.op.name, "")
    types = [leaf.element_type for _, leaf in instruction.shape.leaves() if leaf.is_array]
    if instruction.op is opcodes.MULTIPLY:
        return any(t.is_complex for t in types)
    rounds = any(i.op in (opcodes.ADD, opcodes.MULTIPLY) for i in inner)
    return rule in ROUNDED_RULES or (rule in SUMS and rounds and any(t.is_floating or t.is_complex for t in types))


def multiplies_complex_numbers(instruction: Instruction) -> bool:
    """Returns whether an instruction applies a computation with products of complex numbers to elements."""
    inner = [i for computation in instruction.computations for i in computation]
    products = [i for i in inner if i.op is opcodes.MULTIPLY and i.shape.element_type.is_complex]
    return RULE_OF_OPERATION.get(instruction.op.name) in SUMS and bool(products)


def finite_in_both(value: Value, other: Value) -> Any:
    """Returns a value with zeros where it or another value is not finite."""
    if isinstance(value, tuple):
        return tuple(finite_in_both(part, second) for part, second in zip(value, other, strict=True))
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return value
    return np.where(np.isfinite(value) & np.isfinite(other), value, value.dtype.type(0))


def has_nan(value: Value) -> bool:
    is_float = isinstance(value, np.ndarray) and PrimitiveType.from_dtype(value.dtype).is_floating
    return is_float and bool(np.any(value != value))


def rows_of(value: Value) -> list[Any]:
    """Returns the elements of all arrays at the same position, as bytes, in a canonical order."""
    columns = [array.reshape(-1) for array in arrays_of(value)]
    return sorted(tuple(element.tobytes() for element in row) for row in zip(*columns, strict=True))


def arrays_of(value: Value) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from arrays_of(part)
    elif isinstance(value, np.ndarray | np.generic | DynamicArray):
        yield value


def actual_sizes(value: Value) -> Any:
    """Returns a value with arrays of the actual sizes, and None for tokens."""
    if isinstance(value, tuple):
        return tuple(map(actual_sizes, value))
    return value.actual if isinstance(value, DynamicArray) else value if isinstance(value, np.ndarray) else None


def same_bits(left: Value, right: Value) -> bool:
    """Returns whether two values are equal bit by bit; any NaN equals any NaN, and padding is not compared."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_bits, left, right))
    if isinstance(left, DynamicArray) and isinstance(right, DynamicArray):
        return left.sizes == right.sizes and same_bits(left.actual, right.actual)
    if not (isinstance(left, np.ndarray | np.generic) and isinstance(right, np.ndarray | np.generic)):
        return left is right
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "c":
        return same_bits(np.asarray(left.real), np.asarray(right.real)) and same_bits(
            np.asarray(left.imag), np.asarray(right.imag)
        )
    both_nan = (left != left) & (right != right) if PrimitiveType.from_dtype(left.dtype).is_floating else False
    return bool(np.all((_bits(left) == _bits(right)) | both_nan))


def _bits(array: Any) -> Any:
    whole = np.ascontiguousarray(array).reshape(array.shape)
    return whole.view(f"u{array.itemsize}")

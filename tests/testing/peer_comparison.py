"""Random modules on the interpreter and on XLA:CPU, instruction by instruction.

Owns what XLA:CPU cannot run, and the classes of operations on which it is known to differ (measured in
`tests/interpreter/test_elementwise_peer.py` and the tests of each family).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests import peer
from xlapy import ops
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.testing.comparison import rule_of_operation
from xlapy.testing.instruction_by_instruction import Step, assert_step, flat_module, steps_of
from xlapy.testing.random_arguments import random_arguments

Array = np.ndarray[Any, Any]

NEWER_THAN_JAXLIB = (ops.ATAN, ops.MULHI)
NOT_EXECUTABLE = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "mulhi"}
TYPES = tuple(t for t in ARRAY_TYPES if t.name not in ("S1", "U1", "F6E3M2FN", "F6E2M3FN"))
"""What XLA:CPU computes with."""

_NEGATIVE_ZERO = re.compile(r"(?<![\w.])-0(?=[,)} ])")
_FUSION = re.compile(r" fusion\(([^)]*)\), kind=\w+, calls=")


def readable(text: str) -> str:
    """-0 written as -0.0: jaxlib prints the former, and reads it as +0."""
    return _NEGATIVE_ZERO.sub("-0.0", text)


def executable(text: str) -> str:
    """Fusions as calls and (row-major) bitcasts as reshapes: XLA:CPU expects both only behind its own passes."""
    return _FUSION.sub(r" call(\1), to_apply=", readable(text)).replace(" bitcast(", " reshape(")


def differences(module: Module, seed: int) -> Iterator[str]:
    """Every instruction of the entry on which XLA:CPU and the interpreter differ, with what they give."""
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    arguments = random_arguments(shapes, seed, special=True)
    steps = [step for step in steps_of(module, arguments, without_small_numbers) if is_comparable(step)]
    if not steps:
        return
    flat, flat_arguments = flat_module(steps)
    results = peer.run_hlo(
        executable(flat.to_text(print_large_constants=True)), flat_arguments, fast=True,
        xla_disable_hlo_passes="constant_folding",
    )  # fmt: skip
    for step, result in zip(steps, results, strict=True):
        try:
            assert_step(step, result, rule=_loosened(step), flush_denormals=True)
        except AssertionError as error:
            yield str(error)


def without_small_numbers(array: Array) -> Array:
    """Denormals become 0, which XLA:CPU takes them for; where it mistreats small normal numbers too, those become 1."""
    if array.dtype.kind == "c":
        result = np.array(array)
        part = np.dtype(np.float32 if array.dtype == np.complex64 else np.float64)
        result.real = without_small_numbers(array.real.astype(part))
        result.imag = without_small_numbers(array.imag.astype(part))
        return result
    t = PrimitiveType.from_dtype(array.dtype)
    if not t.is_floating:
        return array
    size = np.abs(array.astype(np.float64))
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    if is_fragile(t):
        return np.where(size < 8 * smallest, np.ones((), array.dtype), array)
    return np.where((size < smallest) & (size > 0), np.zeros((), array.dtype), array)


def is_fragile(t: PrimitiveType) -> bool:
    """Whether XLA:CPU mistreats the numbers of a type that are close to zero."""
    return t is F8E8M0FNU or t.name.endswith("FNUZ")


def is_comparable(step: Step) -> bool:
    instruction = step.instruction
    return all(map(_is_executable, _instructions(instruction))) and not any(is_excused(step))


def _instructions(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    for computation in instruction.computations:
        for inner in computation:
            yield from _instructions(inner)


def _is_executable(instruction: Instruction) -> bool:
    shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
    types = {leaf.element_type for shape in shapes for _, leaf in shape.leaves() if leaf.is_array}
    return instruction.op.name not in NOT_EXECUTABLE and types <= set(TYPES)


def is_excused(step: Step) -> Iterator[bool]:
    """The classes of operations that XLA:CPU refuses, gets wrong, or leaves undefined."""
    for instruction in _instructions(step.instruction):
        name = instruction.op.name
        shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
        types = {leaf.element_type for shape in shapes for _, leaf in shape.leaves() if leaf.is_array}
        # several elements a byte: not implemented, or aborts the process
        yield name in ("concatenate", "sort", "dot", "convolution") and any(t.bits < 8 for t in types)
        # aborts the process
        yield name == "bitcast-convert" and shapes[0].element_type.is_complex and shapes[0].rank != shapes[1].rank
        # not implemented
        yield name == "clamp" and PRED in types
        # reads six bits of the exponent
        yield name == "power" and any(t.is_integral for t in types)
        # counts the sign bits of a wider type
        yield name == "popcnt" and any(t.name in ("S2", "S4") for t in types)
        # noise on branch cuts and among infinities
        yield name in ("atan2", "power") and any(t.is_complex for t in types)
    shape, name = step.instruction.shape, step.instruction.op.name
    # no way through MLIR, and the smallest number is a denormal f32
    if name == "constant" and shape.is_array and not shape.element_type.is_integral:
        yield shape.element_type.is_complex and bool(np.isnan(step.value).any())
        yield shape.element_type is F8E8M0FNU and without_small_numbers(step.value) is not step.value


def _loosened(step: Step) -> str | None:
    """8-bit and narrower floats are computed in f16 and rounded again; some functions are not accurate."""
    instruction = step.instruction
    if not instruction.operands or not instruction.operands[0].shape.is_array:
        return None
    t = instruction.operands[0].shape.element_type
    rule = rule_of_operation(instruction.op.name, t.dtype)
    return "elementwise" if rule == "exact" and t.is_floating and t.bits <= 8 else None

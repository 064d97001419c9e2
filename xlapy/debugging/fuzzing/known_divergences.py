"""The classes of instructions that XLA:CPU (jaxlib 0.10.2) is known to reject, compute wrongly or leave undefined.

Responsible for these classes, each with the reason that a summary shows, and for the numbers that XLA:CPU mishandles
everywhere. A class is an op with a property of its types, attributes or values, never a single case. Where the values
of single elements decide, only these elements are left out of the comparison (`diverging_elements`). Each was measured
(in `tests/interpreter/test_elementwise_against_xla.py`, in the tests of each family, or by fuzzing). Does not depend on
how XLA runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PRED, PrimitiveType, float_format_of
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.contraction import higher_precision_type
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.elementwise import CompareAttributes, ReducePrecisionAttributes
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.testing.comparison import rule_of_operation
from xlapy.testing.samples.sample import RARE_TYPES
from xlapy.testing.sum_errors import Step

Array = np.ndarray[Any, Any]
KnownDivergence = tuple[str, bool]
"""A class, and whether an instruction belongs to it."""

NEWER_THAN_JAXLIB = (
    opcodes.ATAN,
    opcodes.MULHI,
    opcodes.SHUFFLE,
)
"""The opcodes that jaxlib's parser does not have; random modules that XLA:CPU runs are drawn without them."""
NOT_EXECUTABLE = frozenset(
    {
        "acos",
        "acosh",
        "asin",
        "asinh",
        "async-done",
        "atan",
        "atanh",
        "copy-done",
        "cosh",
        "mulhi",
        "ragged-dot",
        "scaled-dot",
        "shuffle",
        "sinh",
    }
)
TYPES = tuple(t for t in ARRAY_TYPES if t.text not in RARE_TYPES)
"""The element types that XLA:CPU computes with."""


def known_divergence(step: Step) -> str | None:
    """Returns the first class that a step belongs to, if any."""
    return next((reason for reason, belongs in _classes(step) if belongs), None)


def replacement_rule(step: Step) -> str | None:
    """Returns the comparison rule that replaces the operation's own: floats of 8 bits and fewer are rounded twice,
    through f16, some functions are less accurate, and linear algebra and normalizations round at every step.
    """
    instruction = step.instruction
    if _is_inaccurate(instruction):
        return "inaccurate"
    if not instruction.operands or not instruction.operands[0].shape.is_array:
        return None
    rule = rule_of_operation(instruction.op.name, instruction.operands[0].shape.dtype)
    if rule == "norm":
        return "norm in steps"
    narrow = any(t.is_floating and t.bits <= 8 for t in _types(instruction))
    return "elementwise" if rule == "exact" and narrow else None


# -- numbers that are mistreated


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
    smallest = float_format_of(array.dtype).smallest_normal
    if is_fragile(t):
        return np.where(size < 8 * smallest, np.ones((), array.dtype), array)
    return np.where((size < smallest) & (size > 0), np.zeros((), array.dtype), array)


def comparable(step: Step, result: Any) -> tuple[Step, Any]:
    """Small numbers of fragile types become 1 on both sides, wherever the interpreter gives one.

    The bits of an rng-bit-generator come back as unsigned numbers whatever their type.
    """
    if step.instruction.op is opcodes.RNG_BIT_GENERATOR:
        return step, _retyped(result, step.instruction.shape)
    ours, theirs = _replaced(*without_elements(step.value, result, diverging_elements(step)))
    return Step(step.instruction, step.operands, ours), theirs


def without_elements(ours: Any, theirs: Any, elements: Array | None) -> tuple[Any, Any]:
    """Replaces the chosen elements of two arrays by 1."""
    if elements is None or np.shape(theirs) != np.shape(ours):
        return ours, theirs
    one = np.ones((), ours.dtype)
    return np.where(elements, one, ours), np.where(elements, one, theirs)


def diverging_elements(step: Step) -> Array | None:
    """Returns which elements of an elementwise operation XLA:CPU is known to compute otherwise; None if there are
    none."""
    name, operands = step.instruction.op.name, step.operands
    if not all(isinstance(value, np.ndarray | np.generic) for value in (step.value, *operands)):
        return None
    if name == "power" and step.instruction.shape.element_type.is_integral:  # XLA reads six bits of the exponent
        exponent = np.asarray(operands[1]).astype(np.int64 if operands[1].dtype != np.uint64 else np.uint64)
        return (exponent < 0) | (exponent > 63)
    if name == "popcnt" and step.instruction.shape.element_type.name in ("S2", "S4"):  # counts bits of a wider type
        return np.asarray(operands[0]).astype(np.int64) < 0
    if np.asarray(step.value).dtype.kind == "c" and name in _OVERFLOWING:
        return _nearly_overflow(step.value)
    if np.asarray(step.value).dtype.kind == "c" and name == "sign":  # divides by the absolute value
        return _nearly_overflow(operands[0])
    if np.asarray(step.value).dtype.kind == "c" and name == "log-plus-one":  # squares tiny distances from -1
        return np.asarray(np.abs(operands[0] + 1) < 8 * np.finfo(step.value.dtype).smallest_normal)
    if name == "reduce-precision" and not step.instruction.attributes_as(ReducePrecisionAttributes).mantissa_bits:
        return np.isnan(np.asarray(operands[0]).astype(np.float64))  # without mantissa bits, NaN becomes infinite
    return None


def _retyped(bits: Any, shape: Shape) -> Any:
    if shape.is_tuple:
        return tuple(_retyped(part, s) for part, s in zip(bits, shape.tuple_shapes, strict=True))
    return bits.view(shape.dtype) if bits.dtype.itemsize == shape.dtype.itemsize else bits


def _replaced(ours: Any, theirs: Any) -> tuple[Any, Any]:
    if isinstance(ours, tuple):
        pairs = [_replaced(left, right) for left, right in zip(ours, theirs, strict=True)]
        return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)
    if not isinstance(ours, np.ndarray) or not is_fragile(PrimitiveType.from_dtype(ours.dtype)):
        return ours, theirs
    replaced = without_small_numbers(ours)
    small = replaced.view(np.uint8) != ours.view(np.uint8)
    return replaced, np.where(small, np.ones((), ours.dtype), theirs)


def is_fragile(t: PrimitiveType) -> bool:
    """Whether XLA:CPU mistreats the numbers of a type that are close to zero."""
    return t.is_floating and not t.float_format.has_negative_zero


# -- classes


_WHOLE_BYTES = (
    "concatenate", "pad", "sort", "topk", "dot", "convolution", "gather", "scatter", "select-and-scatter",
)  # fmt: skip
_REDUCTIONS = ("reduce", "reduce-window", "scatter", "select-and-scatter")
_DYNAMIC_SLICES = ("dynamic-slice", "dynamic-update-slice")
_INACCURATE = {  # compared by the rule "inaccurate"
    ("cbrt", "F16"),
    ("cbrt", "F32"),
    ("cbrt", "F64"),
    ("log-plus-one", "F16"),
    ("log-plus-one", "F64"),
    ("tanh", "F64"),
    ("exponential-minus-one", "F16"),
    ("exponential-minus-one", "F32"),
    ("exponential-minus-one", "C64"),  # e^x cos(y) - 1 cancels where it is close to 0
    ("logistic", "F16"),
    ("logistic", "C64"),
    ("logistic", "C128"),
    ("cosine", "C64"),
    ("cosine", "C128"),
    ("sine", "C64"),
    ("sine", "C128"),
    ("log-plus-one", "C64"),
    ("log-plus-one", "C128"),
    ("log", "C128"),
}


_OVERFLOWING = ("tan", "exponential", "multiply", "divide", "sine", "cosine", "exponential-minus-one")
"""Operations whose intermediate results XLA:CPU lets overflow before the complex result does."""


def _is_inaccurate(instruction: Instruction) -> bool:
    return any((instruction.op.name, t.name) in _INACCURATE for t in _types(instruction))


def _instructions(instruction: Instruction) -> Iterator[Instruction]:
    """The instruction, and all those in computations it calls."""
    yield instruction
    for computation in instruction.computations:
        for inner in computation:
            yield from _instructions(inner)


def _classes(step: Step) -> Iterator[KnownDivergence]:
    for instruction in _instructions(step.instruction):
        yield from _refused(instruction)
        yield from _wrong(instruction)
        if instruction is not step.instruction:
            yield from _misfolded(instruction)
            yield from _wrong_elements(instruction)
    yield from _undefined(step)


def _types(instruction: Instruction) -> set[PrimitiveType]:
    shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
    return {leaf.element_type for shape in shapes for _, leaf in shape.leaves() if leaf.is_array}


def _refused(instruction: Instruction) -> Iterator[KnownDivergence]:
    """Yields the classes that XLA:CPU does not compile, or crashes on."""
    name, types = instruction.op.name, _types(instruction)
    shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
    narrow = any(t.bits < 8 for t in types)
    yield "operation not executable", name in NOT_EXECUTABLE
    yield "numbers of rng are not specified", name in ("rng", "rng-get-and-update-state")
    waits = name == "after-all" and any(not operand.shape.is_token for operand in instruction.operands)
    yield "after-all of values", waits
    yield "domain of a tuple", name == "domain" and shapes[0].is_tuple
    yield "scan of no elements", name == "scan" and _scans_nothing(instruction)
    yield "element type not executable", not types <= set(TYPES)
    yield "several elements a byte", name in _WHOLE_BYTES and narrow
    yield "several elements a byte", name in _REDUCTIONS and shapes[0].is_tuple and narrow
    indices = any(t.is_integral and t.bits < 8 for t in types)
    yield "an index type that cannot hold the largest start", name in _DYNAMIC_SLICES and indices
    removes = name == "reduce-window" and _removes_with_windows_of_one(
        instruction.attributes_as(WindowAttributes).window
    )
    yield "windows of one element with negative padding", removes
    yield "taken for a grouped convolution", name == "convolution" and _repeats_its_kernel(instruction)
    mixed = name == "convolution" and shapes[1].element_type is not shapes[2].element_type
    yield "convolution of two element types", mixed
    yield "dot of two types of equal precision", name == "dot" and _is_undecided(*shapes[1:])
    yield "clamp of pred", name == "clamp" and PRED in types
    reshaped = name == "bitcast-convert" and shapes[0].rank != shapes[1].rank
    yield "bitcast-convert of complex to another rank", reshaped and shapes[0].element_type.is_complex


def _wrong(instruction: Instruction) -> Iterator[KnownDivergence]:
    """Yields the classes that XLA:CPU computes wrongly, or less accurately than it could."""
    name, types = instruction.op.name, _types(instruction)
    yield "noise on branch cuts and among infinities", name in ("atan2", "power") and any(t.is_complex for t in types)


def _wrong_elements(instruction: Instruction) -> Iterator[KnownDivergence]:
    """Yields the classes of `diverging_elements`, for instructions in called computations, whose values are unknown."""
    name, types = instruction.op.name, _types(instruction)
    yield "power reads six bits of an integer exponent", name == "power" and any(t.is_integral for t in types)
    yield "popcnt counts the sign bits of a wider type", name == "popcnt" and any(t.name in ("S2", "S4") for t in types)
    yield "not accurate", _is_inaccurate(instruction)
    no_mantissa = name == "reduce-precision" and instruction.attributes_as(ReducePrecisionAttributes).mantissa_bits == 0
    yield "without mantissa bits, NaN becomes infinite", no_mantissa


def _misfolded(instruction: Instruction) -> Iterator[KnownDivergence]:
    """Yields the classes that XLA's compiler folds wrongly if operands are constant, as they may be in called
    computations.
    """
    name = instruction.op.name
    yield "the smallest f8e8m0fnu is a denormal f32", F8E8M0FNU in _types(instruction)
    integral = instruction.shape.is_array and instruction.shape.element_type.is_integral
    yield "integer division folded by the compiler", name in ("divide", "remainder") and integral
    signed = name == "rng-bit-generator" and any(t.is_signed for t in _types(instruction))
    yield "random bits of a signed type come back unsigned", signed
    unsigned = name in _DYNAMIC_SLICES and instruction.operands[-1].shape.element_type.is_unsigned
    yield "large unsigned positions folded as negative ones", unsigned


def _undefined(step: Step) -> Iterator[KnownDivergence]:
    """Yields the classes that depend on the order of evaluation, or on values that cannot be passed to XLA."""
    name, shape = step.instruction.op.name, step.instruction.shape
    arrays = [value for value in step.operands if isinstance(value, np.ndarray)]
    tuples = [operand.shape for operand in step.instruction.operands if operand.shape.is_tuple]
    yield "a token in an argument", any(leaf.is_token for tuple_ in tuples for _, leaf in tuple_.leaves())
    constant = name == "constant" and shape.is_array
    lost = constant and shape.element_type.is_complex and not all_finite(step.value)
    yield "complex constants that are not finite cannot be represented in MLIR", lost
    smallest = (constant or name == "iota") and shape.element_type is F8E8M0FNU
    yield "the smallest f8e8m0fnu is a denormal f32", smallest
    yield "padding multiplied by infinities", name == "convolution" and not all(map(all_finite, arrays))
    unordered = name == "sort" and _is_plain(step.instruction.to_apply) and any(map(_has_nan, arrays))
    yield "a comparator that is not a strict weak order", unordered
    cancels = name == "batch-norm-training" and _variance_cancels(step)
    yield "a variance that is the difference of larger numbers", cancels
    yield from order_classes(step)


def order_classes(step: Step) -> Iterator[KnownDivergence]:
    """Yields the classes that are infinite, 0 or NaN in one order of evaluation and not in another."""
    name = step.instruction.op.name
    arrays = [value for value in step.operands if isinstance(value, np.ndarray)]
    infinite = not all(all_finite(a) for a in arrays if a.dtype.kind == "c")
    yield "products with infinite parts", name in (*_REDUCTIONS, "dot") and infinite
    products = name in _REDUCTIONS and any(map(_multiplies, step.instruction.computations))
    yield "partial products out of range in some order", products and _wide_range(arrays)


def _removes_with_windows_of_one(window: Window) -> bool:
    dimensions = window.dimensions
    return all(d.size == 1 for d in dimensions) and any(min(d.padding_low, d.padding_high) < 0 for d in dimensions)


def _repeats_its_kernel(convolution: Instruction) -> bool:
    """Whether XLA takes a dimension for that of a grouped convolution, which it cannot swap with the kernel's."""
    return any(
        d.size > 1 and (d.base_dilation, d.stride, d.window_dilation) == (d.size, d.size - 1, 1)
        and not (d.padding_low or d.padding_high or d.window_reversal)
        for d in convolution.attributes_as(ConvolutionAttributes).window.dimensions
    )  # fmt: skip


def all_finite(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(all_finite, value))
    array = np.asarray(value)
    if array.dtype.kind != "c":
        array = array.astype(np.float64)
    return bool(np.isfinite(array).all())


def _nearly_overflow(value: Array) -> Array:
    """Whether the size of complex numbers is beyond a quarter of the largest number, or undefined."""
    with np.errstate(all="ignore"):
        return np.asarray(~(np.abs(value) < np.finfo(value.dtype).max / 4))


def _is_undecided(lhs: Shape, rhs: Shape) -> bool:
    """Whether XLA finds neither type the more precise, and dies of it."""
    try:
        higher_precision_type(lhs.element_type, rhs.element_type)
    except ShapeError:
        return True
    return False


def _has_nan(value: Array) -> bool:
    return bool(np.isnan(value.astype(np.complex128)).any())


def _scans_nothing(scan: Instruction) -> bool:
    inputs = scan.operand_shapes[: len(scan.operands) - scan.attributes_as(ScanAttributes).num_carries]
    return any(shape.dimensions[scan.dimensions[0]] == 0 for shape in inputs)


def _variance_cancels(step: Step) -> bool:
    """Whether the root that a batch norm divides by is hardly more than the errors of its variance."""
    squares = np.max(np.abs(step.operands[0].astype(np.float64)), initial=0.0) ** 2
    variance = np.min(step.value[2].astype(np.float64), initial=np.inf)
    error = 256 * float_format_of(step.operands[0].dtype).epsilon * squares
    return bool(variance + step.instruction.attributes_as(BatchNormAttributes).epsilon < error)


def _is_plain(comparator: Computation) -> bool:
    return any(i.op is opcodes.COMPARE and i.attributes_as(CompareAttributes).type is None for i in comparator)


def _multiplies(computation: Computation) -> bool:
    return any(i.op is opcodes.MULTIPLY and not i.shape.element_type.is_integral for i in computation)


def _wide_range(arrays: Sequence[Array]) -> bool:
    """Whether products of some elements may leave the range of normal numbers."""
    for array in arrays:
        if PrimitiveType.from_dtype(array.dtype).is_integral or array.dtype == np.bool_:
            continue
        size = np.abs(array.astype(np.complex128))
        size = size[np.isfinite(size) & (size > 0)]
        part = array.real.dtype if array.dtype.kind == "c" else array.dtype
        if np.abs(np.log2(size)).sum() > -np.log2(float_format_of(part).smallest_normal) - 2:
            return True
    return False

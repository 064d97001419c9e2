"""Import rules of contractions: dot, dot_general, einsum and ragged_dot."""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import BF16, F8E4M3FN, F16, F32, F64, S64, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import Algorithm, DotAttributes, RaggedDotAttributes, with_comparable_types
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Fields, as_integer, describe, fields, text, texts
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scalar_computations import scalar_binary_computation
from xlapy.stablehlo.importing.core.types import element_type
from xlapy.stablehlo.importing.sources import emit_iota
from xlapy.stablehlo.text.structs import FIELDS

_ALGORITHMS = {
    (BF16, BF16, F32, 1): Algorithm.DOT_BF16_BF16_F32,
    (BF16, BF16, F32, 3): Algorithm.DOT_BF16_BF16_F32_X3,
    (BF16, BF16, F32, 6): Algorithm.DOT_BF16_BF16_F32_X6,
    (BF16, BF16, F32, 9): Algorithm.DOT_BF16_BF16_F32_X9,
    (BF16, BF16, BF16, 1): Algorithm.DOT_BF16_BF16_BF16,
    (F16, F16, F16, 1): Algorithm.DOT_F16_F16_F16,
    (F16, F16, F32, 1): Algorithm.DOT_F16_F16_F32,
    (F32, F32, F32, 1): Algorithm.DOT_F32_F32_F32,
    (F64, F64, F64, 1): Algorithm.DOT_F64_F64_F64,
}
"""Dot algorithms by the precision types of lhs and rhs, the accumulation type and the number of partial products."""

_TF32_ALGORITHMS = {1: Algorithm.DOT_TF32_TF32_F32, 3: Algorithm.DOT_TF32_TF32_F32_X3}
"""Dot algorithms on TF32 by the number of partial products."""

_FIRST_ELLIPSIS_LETTER = 0x2460
"""Code point of the letters that stand for the dimensions of `...`: circled digits, which einsum labels cannot use."""


def precision(operation: ir.Operation) -> tuple[Precision, ...]:
    """Reads `precision_config`: one precision per operand, or () for the default."""
    given = texts(operation, "precision_config")
    unknown = [name for name in given if name not in Precision.__members__]
    if unknown:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no precision {unknown[0]!r}")
    return tuple([Precision[name] for name in given])


def _emit_with_declared_type(
    builder: ComputationBuilder, operation: ir.Operation, op: OpDef, operands: list[Instruction], attributes: Attributes
) -> Instruction:
    """Adds an instruction with inferred sizes and the declared element type."""
    shapes, declared = [operand.shape for operand in operands], _declared_type(operation)
    if declared is None:
        return builder.emit(op, operands, attributes, shape=op.result_shape(shapes, attributes))
    inferred = op.result_shape(with_comparable_types(shapes), attributes)
    return builder.emit(op, operands, attributes, shape=inferred.with_element_type(declared))


def _declared_type(operation: ir.Operation) -> PrimitiveType | None:
    declared = operation.results[0].type
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        return None
    element = declared.element
    return element.expressed if isinstance(element, ir.QuantizedType) else element_type(element)


@rule("stablehlo.dot", operands=2)
def dot(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Contracts the last dimension of lhs with the first dimension of rhs."""
    lhs, rhs = builder.operands(operation)
    for operand in (lhs, rhs):
        if operand.shape.rank not in (1, 2):
            raise ShapeError(
                operation_codes.DOT_RANKS,
                f"its operands must be vectors or matrices, but one is {operand.shape.to_text(layout=False)}",
            )
    attributes = DotAttributes.make(
        lhs_contracting_dims=(lhs.shape.rank - 1,),
        rhs_contracting_dims=(0,),
        operand_precision=precision(operation),
    )
    return _emit_with_declared_type(builder, operation, opcodes.DOT, [lhs, rhs], attributes)


@rule("stablehlo.dot_general", operands=2)
def dot_general(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    numbers = fields(operation, "dot_dimension_numbers")
    attributes = DotAttributes.make(
        lhs_batch_dims=numbers.integers("lhs_batching_dimensions"),
        lhs_contracting_dims=numbers.integers("lhs_contracting_dimensions"),
        rhs_batch_dims=numbers.integers("rhs_batching_dimensions"),
        rhs_contracting_dims=numbers.integers("rhs_contracting_dimensions"),
        operand_precision=precision(operation),
        algorithm=_algorithm(operation.attributes.get("algorithm")),
    )
    return _emit_with_declared_type(builder, operation, opcodes.DOT, builder.operands(operation), attributes)


def _algorithm(given: Any) -> Algorithm:
    """Returns the HLO algorithm for the types and the number of partial products in `#stablehlo.dot_algorithm`."""
    if given is None:
        return Algorithm.UNSET
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"attribute algorithm must be a struct, but is {describe(given)}")
    values = given.fields
    products = as_integer(values.get("num_primitive_operations", 1), "num_primitive_operations")
    types = [_precision_type(values.get(f"{name}_type")) for name in ("lhs_precision", "rhs_precision", "accumulation")]
    lhs, rhs, accumulation = types
    if lhs is None and rhs is None and accumulation is F32 and products in _TF32_ALGORITHMS:
        return _TF32_ALGORITHMS[products]
    if lhs is not None and rhs is not None and accumulation is F32 and lhs.bits == rhs.bits == F8E4M3FN.bits:
        fast = bool(values.get("allow_imprecise_accumulation", False))
        return Algorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM if fast else Algorithm.DOT_ANY_F8_ANY_F8_F32
    algorithm = _ALGORITHMS.get((lhs, rhs, accumulation, products))  # type: ignore[arg-type]
    if algorithm is None:
        raise UnsupportedError(codes.DOT_ALGORITHM, f"HLO has no dot algorithm {describe(given)}")
    return algorithm


def _precision_type(given: Any) -> PrimitiveType | None:
    """Returns a type in a dot algorithm, or None for TF32, which is not an element type of tensors."""
    if isinstance(given, ir.ScalarType):
        return given.element
    if isinstance(given, ir.OpaqueType) and given.text == "tf32":
        return None
    raise UnsupportedError(codes.DOT_ALGORITHM, f"HLO has no dot algorithm with the type {describe(given)}")


@rule("chlo.ragged_dot", operands=3)
def ragged_dot(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    numbers = _ragged_dot_dimensions(operation)
    attributes = RaggedDotAttributes.make(
        lhs_batch_dims=numbers.integers("lhs_batching_dimensions"),
        lhs_contracting_dims=numbers.integers("lhs_contracting_dimensions"),
        rhs_batch_dims=numbers.integers("rhs_batching_dimensions"),
        rhs_contracting_dims=numbers.integers("rhs_contracting_dimensions"),
        lhs_ragged_dims=numbers.integers("lhs_ragged_dimensions"),
        rhs_group_dims=numbers.integers("rhs_group_dimensions"),
        operand_precision=precision(operation),
    )
    return _emit_with_declared_type(builder, operation, opcodes.RAGGED_DOT, builder.operands(operation), attributes)


def _ragged_dot_dimensions(operation: ir.Operation) -> Fields:
    """Reads the dimension numbers. A composite, to which portable artifacts convert the operation, lists them in order
    of the fields."""
    name, order = "ragged_dot_dimension_numbers", FIELDS["ragged_dot"]
    given = operation.attributes.get(name)
    if isinstance(given, tuple) and len(given) == len(order):
        return Fields(name, dict(zip(order, given, strict=True)))
    return fields(operation, name)


# -- einsum


@rule("stablehlo.einsum", "stablehlo.unary_einsum")
def einsum(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports an einsum such as `ij,jk->ik` as a dot with reductions and transposes around it.

    A letter of one operand that the result lacks is reduced before the dot. A letter of both operands is a batch
    dimension if the result has it, else a contracting dimension.
    """
    operand_labels, _, result_label = text(operation, "einsum_config").replace(" ", "").partition("->")
    labels = operand_labels.split(",")
    operands = builder.operands(operation)
    if len(labels) != len(operands):
        raise ShapeError(
            operation_codes.EINSUM_LABELS,
            f"einsum_config {operand_labels!r} names {len(labels)} operands, but got {len(operands)}",
        )
    expanded = [_expand(label, operand.shape.rank) for label, operand in zip(labels, operands, strict=True)]
    result_label = _expand_result(result_label, expanded)
    needed = [set(result_label).union(*expanded[:number], *expanded[number + 1 :]) for number in range(len(expanded))]
    reduced = [
        _reduce_operand(builder, operand, label, kept)
        for operand, label, kept in zip(operands, expanded, needed, strict=True)
    ]
    if len(reduced) == 1:
        operand, label = reduced[0]
        return builder.transpose(operand, _permutation(label, result_label))
    return _emit_einsum_dot(builder, operation, reduced, result_label)


def _expand(label: str, rank: int) -> str:
    """Replaces `...` by one letter per dimension, numbered from the last, so that the operands align at the right."""
    if "..." not in label:
        if len(label) != rank:
            raise ShapeError(
                operation_codes.EINSUM_LABELS, f"einsum label {label!r} has {len(label)} letters for rank {rank}"
            )
        return label
    count = rank - len(label) + 3
    if count < 0:
        raise ShapeError(operation_codes.EINSUM_LABELS, f"einsum label {label!r} has too many letters for rank {rank}")
    return label.replace("...", "".join(chr(_FIRST_ELLIPSIS_LETTER + count - 1 - i) for i in range(count)))


def _expand_result(result_label: str, expanded: list[str]) -> str:
    letters = {letter for label in expanded for letter in label if ord(letter) >= _FIRST_ELLIPSIS_LETTER}
    return result_label.replace("...", "".join(sorted(letters, reverse=True)))


def _permutation(label: str, result_label: str) -> list[int]:
    """Returns the permutation that transposes dimensions labeled `label` into the order of `result_label`."""
    if sorted(label) != sorted(result_label):
        raise ShapeError(
            operation_codes.EINSUM_LABELS,
            f"einsum result {result_label!r} does not have the letters {label!r} once each",
        )
    return [label.index(letter) for letter in result_label]


def _reduce_operand(
    builder: ComputationBuilder, operand: Instruction, label: str, kept: set[str]
) -> tuple[Instruction, str]:
    """Takes the diagonal of repeated letters, then sums over the letters that are not in `kept`.

    Returns the result with its label.
    """
    operand, label = _take_diagonal(builder, operand, label)
    dimensions = tuple([dimension for dimension, letter in enumerate(label) if letter not in kept])
    if not dimensions:
        return operand, label
    element = operand.shape.element_type
    body = scalar_binary_computation(builder, opcodes.ADD, element)
    zero = builder.scalar(0, element)
    attributes = ReduceAttributes.make(dimensions=dimensions)
    result = builder.emit(opcodes.REDUCE, (operand, zero), attributes, (body,))
    return result, "".join(letter for letter in label if letter in kept)


def _take_diagonal(builder: ComputationBuilder, operand: Instruction, label: str) -> tuple[Instruction, str]:
    """Keeps the elements where the indices of dimensions with the same letter agree, in the first such dimension.

    Example: f32[3,3] labeled `ii` becomes f32[3] labeled `i`. All other elements are replaced by negative zero, the
    identity of addition, and summed away.
    """
    element = operand.shape.element_type
    negative_zero = complex(-0.0, -0.0) if element.is_complex else -0.0 if element.is_floating else 0
    while (
        repeated := next((number for number, letter in enumerate(label) if letter in label[:number]), None)
    ) is not None:
        first, shape = label.index(label[repeated]), operand.shape
        if shape.dimensions[first] != shape.dimensions[repeated]:
            raise ShapeError(
                operation_codes.EINSUM_LABELS,
                f"einsum label {label!r} repeats {label[repeated]!r} "
                f"for different sizes of {shape.to_text(layout=False)}",
            )
        indices = [emit_iota(builder, shape.with_element_type(S64), dimension) for dimension in (first, repeated)]
        is_same = builder.emit(opcodes.COMPARE, indices, CompareAttributes.make(direction=ComparisonDirection.EQ))
        kept = builder.emit(opcodes.SELECT, (is_same, operand, builder.full(negative_zero, shape)))
        attributes = ReduceAttributes.make(dimensions=(repeated,))
        body = scalar_binary_computation(builder, opcodes.ADD, element)
        operand = builder.emit(opcodes.REDUCE, (kept, builder.scalar(negative_zero, element)), attributes, (body,))
        label = label[:repeated] + label[repeated + 1 :]
    return operand, label


def _emit_einsum_dot(
    builder: ComputationBuilder, operation: ir.Operation, operands: list[tuple[Instruction, str]], result_label: str
) -> Instruction:
    (lhs, left), (rhs, right) = operands
    shared = [letter for letter in left if letter in right]
    batch = [letter for letter in shared if letter in result_label]
    contracted = [letter for letter in shared if letter not in result_label]
    attributes = DotAttributes.make(
        lhs_batch_dims=tuple(map(left.index, batch)),
        lhs_contracting_dims=tuple(map(left.index, contracted)),
        rhs_batch_dims=tuple(map(right.index, batch)),
        rhs_contracting_dims=tuple(map(right.index, contracted)),
    )
    product = _emit_with_declared_type(builder, operation, opcodes.DOT, [lhs, rhs], attributes)
    free = [letter for letter in left + right if letter not in shared]
    return builder.transpose(product, _permutation("".join([*batch, *free]), result_label))

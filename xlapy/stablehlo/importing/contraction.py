"""Import rules: sums of products.

Owns: dot, dot_general, einsum, ragged_dot. Must not know: how products are summed.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import BF16, F8E4M3FN, F16, F32, F64, S64, PrimitiveType
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import Algorithm, DotAttributes, RaggedDotAttributes, of_comparable_types
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import fields, shown, text, texts
from xlapy.stablehlo.importing.core.bodies import scalar_body
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type
from xlapy.stablehlo.importing.sources import emit_iota

_PARTIAL_PRODUCTS = {
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
_TF32 = {1: Algorithm.DOT_TF32_TF32_F32, 3: Algorithm.DOT_TF32_TF32_F32_X3}


def precision(operation: ir.Operation) -> tuple[Precision, ...]:
    """`precision_config`: one an operand; () for the default."""
    given = texts(operation, "precision_config")
    unknown = [name for name in given if name not in Precision.__members__]
    if unknown:
        raise ShapeError(f"there is no precision {unknown[0]!r}")
    return tuple([Precision[name] for name in given])


def _typed(
    scope: Scope, operation: ir.Operation, op: OpDef, operands: list[Instruction], attributes: Attributes
) -> Instruction:
    """An instruction that infers its sizes, of the element type that is declared."""
    shapes, declared = [operand.shape for operand in operands], _declared_type(operation)
    if declared is None:
        return scope.emit(op, operands, attributes, shape=op.result_shape(shapes, attributes))
    inferred = op.result_shape(of_comparable_types(shapes), attributes)
    return scope.emit(op, operands, attributes, shape=inferred.with_element_type(declared))


def _declared_type(operation: ir.Operation) -> PrimitiveType | None:
    declared = operation.results[0].type
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        return None
    wanted = declared.element
    return wanted.expressed if isinstance(wanted, ir.QuantizedType) else element_type(wanted)


@rule("stablehlo.dot", operands=2)
def dot(scope: Scope, operation: ir.Operation) -> Instruction:
    """Sums over the last dimension of lhs and the first of rhs."""
    lhs, rhs = scope.operands(operation)
    for operand in (lhs, rhs):
        if operand.shape.rank not in (1, 2):
            raise ShapeError(f"it takes vectors and matrices, given is {operand.shape.to_text(layout=False)}")
    attributes = DotAttributes.make(
        lhs_contracting_dims=(lhs.shape.rank - 1,),
        rhs_contracting_dims=(0,),
        operand_precision=precision(operation),
    )
    return _typed(scope, operation, opcodes.DOT, [lhs, rhs], attributes)


@rule("stablehlo.dot_general", operands=2)
def dot_general(scope: Scope, operation: ir.Operation) -> Instruction:
    numbers = fields(operation, "dot_dimension_numbers")
    attributes = DotAttributes.make(
        lhs_batch_dims=numbers.integers("lhs_batching_dimensions"),
        lhs_contracting_dims=numbers.integers("lhs_contracting_dimensions"),
        rhs_batch_dims=numbers.integers("rhs_batching_dimensions"),
        rhs_contracting_dims=numbers.integers("rhs_contracting_dimensions"),
        operand_precision=precision(operation),
        algorithm=_algorithm(operation.attributes.get("algorithm")),
    )
    return _typed(scope, operation, opcodes.DOT, scope.operands(operation), attributes)


def _algorithm(given: Any) -> Algorithm:
    """`#stablehlo.dot_algorithm<...>` by its types and the number of partial products."""
    if given is None:
        return Algorithm.UNSET
    if not isinstance(given, ir.StructAttribute):
        raise ShapeError(f"attribute algorithm must be a structure, it is {shown(given)}")
    values = given.fields
    products = values.get("num_primitive_operations", 1)
    types = [_precision_type(values.get(f"{name}_type")) for name in ("lhs_precision", "rhs_precision", "accumulation")]
    if types[0] is None and types[1] is None and types[2] is F32 and products in _TF32:
        return _TF32[products]
    first, second, sum_ = types
    if first is not None and second is not None and sum_ is F32 and first.bits == second.bits == F8E4M3FN.bits:
        fast = bool(values.get("allow_imprecise_accumulation", False))
        return Algorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM if fast else Algorithm.DOT_ANY_F8_ANY_F8_F32
    found = _PARTIAL_PRODUCTS.get((first, second, sum_, products))  # type: ignore[arg-type]
    if found is None:
        raise UnsupportedError(f"HLO has no dot algorithm {values}")
    return found


def _precision_type(given: Any) -> PrimitiveType | None:
    """The type of an algorithm's operands or sums; None for tf32, which no tensor has."""
    if isinstance(given, ir.ScalarType):
        return given.element
    if isinstance(given, ir.OpaqueType) and given.text == "tf32":
        return None
    raise UnsupportedError(f"a dot algorithm of type {shown(given)} has no form in HLO")


@rule("chlo.ragged_dot", operands=3)
def ragged_dot(scope: Scope, operation: ir.Operation) -> Instruction:
    numbers = fields(operation, "ragged_dot_dimension_numbers")
    attributes = RaggedDotAttributes.make(
        lhs_batch_dims=numbers.integers("lhs_batching_dimensions"),
        lhs_contracting_dims=numbers.integers("lhs_contracting_dimensions"),
        rhs_batch_dims=numbers.integers("rhs_batching_dimensions"),
        rhs_contracting_dims=numbers.integers("rhs_contracting_dimensions"),
        lhs_ragged_dims=numbers.integers("lhs_ragged_dimensions"),
        rhs_group_dims=numbers.integers("rhs_group_dimensions"),
        operand_precision=precision(operation),
    )
    return _typed(scope, operation, opcodes.RAGGED_DOT, scope.operands(operation), attributes)


# -- einsum


@rule("stablehlo.einsum", "stablehlo.unary_einsum")
def einsum(scope: Scope, operation: ir.Operation) -> Instruction:
    """`ij,jk->ik`: letters that both operands have are paired, those that the result lacks are summed over."""
    given, _, wanted = text(operation, "einsum_config").replace(" ", "").partition("->")
    labels = given.split(",")
    operands = scope.operands(operation)
    if len(labels) != len(operands):
        raise ShapeError(f"einsum_config {given!r} names {len(labels)} operands, given are {len(operands)}")
    expanded = [_expand(label, operand.shape.rank) for label, operand in zip(labels, operands, strict=True)]
    wanted = _expand_result(wanted, expanded)
    others = [set(wanted).union(*expanded[:place], *expanded[place + 1 :]) for place in range(len(expanded))]
    reduced = [
        _summed(scope, operand, label, kept) for operand, label, kept in zip(operands, expanded, others, strict=True)
    ]
    if len(reduced) == 1:
        operand, label = reduced[0]
        return scope.transpose(operand, _places(label, wanted))
    return _contracted(scope, operation, reduced, wanted)


def _expand(label: str, rank: int) -> str:
    """`...` as capital letters from the end of the alphabet, so that both operands' agree from the right."""
    if "..." not in label:
        if len(label) != rank:
            raise ShapeError(f"einsum label {label!r} has {len(label)} letters for rank {rank}")
        return label
    count = rank - len(label) + 3
    if count < 0:
        raise ShapeError(f"einsum label {label!r} has too many letters for rank {rank}")
    return label.replace("...", "".join(chr(0x2460 + count - 1 - i) for i in range(count)))


def _expand_result(wanted: str, expanded: list[str]) -> str:
    marks = sorted({letter for label in expanded for letter in label if ord(letter) >= 0x2460}, reverse=True)
    return wanted.replace("...", "".join(marks))


def _places(label: str, wanted: str) -> list[int]:
    if sorted(label) != sorted(wanted):
        raise ShapeError(f"einsum result {wanted!r} does not have the letters {label!r} once each")
    return [label.index(letter) for letter in wanted]


def _summed(scope: Scope, operand: Instruction, label: str, kept: set[str]) -> tuple[Instruction, str]:
    """The diagonal of letters that repeat, and sums over letters that nobody else has."""
    operand, label = _diagonal(scope, operand, label)
    gone = tuple([place for place, letter in enumerate(label) if letter not in kept])
    if not gone:
        return operand, label
    kind = operand.shape.element_type
    body = scalar_body(scope, opcodes.ADD, kind)
    zero = scope.scalar(0, kind)
    made = scope.emit(opcodes.REDUCE, (operand, zero), ReduceAttributes.make(dimensions=gone), (body,))
    return made, "".join(letter for letter in label if letter in kept)


def _diagonal(scope: Scope, operand: Instruction, label: str) -> tuple[Instruction, str]:
    """Of dimensions of one letter, the elements where their indices are the same, along the first of them."""
    kind = operand.shape.element_type
    negative_zero = complex(-0.0, -0.0) if kind.is_complex else -0.0 if kind.is_floating else 0
    while (
        repeated := next((place for place, letter in enumerate(label) if letter in label[:place]), None)
    ) is not None:
        first, shape = label.index(label[repeated]), operand.shape
        if shape.dimensions[first] != shape.dimensions[repeated]:
            raise ShapeError(
                f"einsum label {label!r} repeats {label[repeated]!r} "
                f"for different sizes of {shape.to_text(layout=False)}"
            )
        indices = [emit_iota(scope, shape.with_element_type(S64), dimension) for dimension in (first, repeated)]
        is_same = scope.emit(opcodes.COMPARE, indices, CompareAttributes.make(direction=ComparisonDirection.EQ))
        kept = scope.emit(opcodes.SELECT, (is_same, operand, scope.full(negative_zero, shape)))
        attributes = ReduceAttributes.make(dimensions=(repeated,))
        body = scalar_body(scope, opcodes.ADD, kind)
        operand = scope.emit(opcodes.REDUCE, (kept, scope.scalar(negative_zero, kind)), attributes, (body,))
        label = label[:repeated] + label[repeated + 1 :]
    return operand, label


def _contracted(
    scope: Scope, operation: ir.Operation, operands: list[tuple[Instruction, str]], wanted: str
) -> Instruction:
    (lhs, left), (rhs, right) = operands
    shared = [letter for letter in left if letter in right]
    batch = [letter for letter in shared if letter in wanted]
    contracted = [letter for letter in shared if letter not in wanted]
    attributes = DotAttributes.make(
        lhs_batch_dims=tuple(map(left.index, batch)),
        lhs_contracting_dims=tuple(map(left.index, contracted)),
        rhs_batch_dims=tuple(map(right.index, batch)),
        rhs_contracting_dims=tuple(map(right.index, contracted)),
    )
    product = _typed(scope, operation, opcodes.DOT, [lhs, rhs], attributes)
    free = [letter for letter in left + right if letter not in shared]
    return scope.transpose(product, _places("".join([*batch, *free]), wanted))

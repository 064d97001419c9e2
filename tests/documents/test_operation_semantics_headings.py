"""Every operation of "Operation semantics" (August 2026) has a definition, a builder function and an example."""

from __future__ import annotations

import pytest

from tests.documents.test_operation_semantics_signatures import snake_case
from xlapy import ops
from xlapy.opcodes.registry import REGISTRY
from xlapy.testing.examples import all_examples
from xlapy.tools.ops.ops_page import builders

HEADINGS = """
Abs Add AddDependency AfterAll AllGather AllReduce CrossReplicaSum AllToAll RaggedAllToAll And Async Atan2 BatchNormGrad
BatchNormInference BatchNormTraining Bitcast BitcastConvertType Broadcast BroadcastInDim Call CompositeCall Cbrt Ceil
Cholesky Clamp Collapse Clz CollectiveBroadcast CollectivePermute Compare Eq Ne Ge Gt Le Lt Complex ConcatInDim
Conditional Constant ConvertElementType Conv ConvWithGeneralPadding ConvWithGeneralDimensions ConvGeneral
ConvGeneralDilated Copy Cos Cosh CustomCall Div Domain Dot DotGeneral ScaledDot RaggedDot DynamicReshape DynamicSlice
DynamicUpdateSlice Erf Exp Expm1 Fft Floor Fusion Gather GetDimensionSize GetTupleElement Imag Infeed Iota IsFinite Log
Log1p Logistic Map Max Min Mul Neg Not OptimizationBarrier Or Outfeed Pad Parameter PartitionID PopulationCount Pow Real
Recv RecvDone Reduce ReducePrecision ReduceScatter ReduceWindow Rem ReplicaId Reshape Rev RngNormal RngUniform
RngBitGenerator RngGetAndUpdateState Round RoundNearestAfz RoundNearestEven Rsqrt Scan Scatter Select SelectAndScatter
Send SendDone SetDimensionSize ShiftLeft ShiftRightArithmetic ShiftRightLogical Sign Sin Slice Sort Sqrt Sub Tan Tanh
TopK Transpose TriangularSolve Tuple While Xor
"""
"""The headings of sections and subsections that name operations; headings of examples are omitted."""

MADE_BY_PASSES = {
    "Async": ["async-start", "async-update", "async-done"],
    "Domain": ["domain"],
    "Fusion": ["fusion"],
    "RngGetAndUpdateState": ["rng-get-and-update-state"],
}
"""Headings of operations that passes create and the builder of XLA does not."""

RENAMED = {"PartitionID": "partition_id", "RecvDone": "recv", "SendDone": "send", "TopK": "top_k"}
"""Builder functions whose names do not follow from the heading."""

EXAMPLES = {example.op for example in all_examples()}


def made_by(function: str) -> list[str]:
    """Returns the operations that a builder function creates."""
    assert function in ops.__all__
    return [op.name for op in REGISTRY.values() if function in builders().get(op.constant_name, [])]


@pytest.mark.parametrize("heading", HEADINGS.split())
def test_heading_has_an_operation_a_builder_function_and_an_example(heading: str) -> None:
    operations = MADE_BY_PASSES.get(heading) or made_by(RENAMED.get(heading, snake_case(heading)))
    assert operations
    assert set(operations) <= EXAMPLES


def test_the_list_of_headings_is_complete() -> None:
    assert len(HEADINGS.split()) == len(set(HEADINGS.split())) == 132

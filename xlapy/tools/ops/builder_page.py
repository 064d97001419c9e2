"""docs/reference/builder.md: the counterpart of each public name of XLA's xla_builder.h, or why there is none.

Responsible for the list of names and the format of the page. The signatures come from the functions themselves.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xlapy import ops
from xlapy.builder import XlaBuilder
from xlapy.opcodes.attributes.dimensions import ConvDimensions
from xlapy.tools.ops.signatures import signatures_of

_FUNCTIONS = """
Parameter ConstantLiteral ConstantR0 ConstantR1 ConstantR2 ConstantFromArrayWithLayout ConstantFromArray
ConstantR2FromArray2DWithLayout ConstantR2FromArray2D ConstantR3FromArray3DWithLayout ConstantR3FromArray3D
ConstantR4FromArray4DWithLayout ConstantR4FromArray4D Broadcast BroadcastInDim MhloDynamicBroadcastInDim Copy Pad
PadInDim DynamicReshape MhloDynamicReshape Reshape ReshapeWithInferredDimension Collapse Slice SliceInDim DynamicSlice
DynamicUpdateSlice ConcatInDim Select Tuple GetTupleElement Eq EqTotalOrder Ne NeTotalOrder Ge GeTotalOrder Gt
GtTotalOrder Lt LtTotalOrder Le LeTotalOrder Compare Dot DotGeneral RaggedAllToAll RaggedAllToAllWithDeviceList
RaggedDot Conv ConvWithGeneralPadding ConvWithGeneralDimensions ConvGeneral ConvGeneralDilated DynamicConvForward
DynamicConvInputGrad DynamicConvKernelGrad Fft TriangularSolve Cholesky Infeed InfeedWithToken Outfeed
OutfeedWithToken Call CompositeCall CustomCall CustomCallWithComputationAndLayouts CustomCallWithComputation
CustomCallWithLayout CustomCallWithConvDnums OptimizationBarrier Complex Conj Add Sub Mul Mulhi Div Rem Max Min And Or
Xor Not PopulationCount ShiftLeft ShiftRightArithmetic ShiftRightLogical Reduce Scan ReduceAll ReduceWindow
ReduceWindowWithGeneralPadding CrossReplicaSum AllGather AllGatherWithDeviceList AllGatherTuple
AllGatherTupleWithDeviceList AllReduce AllReduceWithDeviceList AllReduceTuple AllReduceTupleWithDeviceList
ReduceScatter ReduceScatterWithDeviceList AllToAll AllToAllWithDeviceList AllToAllTuple AllToAllTupleWithDeviceList
CollectiveBroadcast CollectiveBroadcastWithDeviceList CollectivePermute MultiCollectivePermute ReplicaId
SelectAndScatter SelectAndScatterWithGeneralPadding Abs Atan2 Erf Exp Expm1 Floor Ceil Round RoundNearestEven Log
Log1p Logistic Sign Clz Cos Sin Tan Tanh Real Imag Sqrt Cbrt Rsqrt Pow IsFinite Iota ConvertElementType
BitcastConvertType StochasticConvertType Neg Transpose Rev Sort TopK Clamp Map RngNormal RngUniform RngBitGenerator
While Conditional ReducePrecision Gather Scatter Send SendWithToken Recv RecvWithToken SendToHost RecvFromHost
CreateToken AfterAll BatchNormTraining BatchNormInference BatchNormGrad GetDimensionSize SetDimensionSize
RemoveDynamicDimension ConvertSpmdFullToShardShape ConvertSpmdShardToFullShape
"""


@dataclass(frozen=True)
class Ours:
    """A function of xlapy, and the name by which users reach it."""

    name: str
    function: Callable[..., Any]

    @staticmethod
    def of_ops(name: str) -> Ours:
        return Ours(name, getattr(ops, name))

    @staticmethod
    def of_builder(name: str) -> Ours:
        return Ours(f"XlaBuilder.{name}", getattr(XlaBuilder, name))


Counterpart = Ours | str
"""A function, or a text that names the replacement or the reason why there is none."""

_EXPORT_ONLY = "stands in XLA for a StableHLO operation on its way out; XLA cannot compile it either"
_NOT_FUNCTIONS = {"MhloDynamicBroadcastInDim": _EXPORT_ONLY, "MhloDynamicReshape": _EXPORT_ONLY}

_RAISED = "nothing is deferred: a call that is not allowed raises `BuilderError` at once"
_COPIED = "functions take an `XlaComputation` itself, which the builder copies in once; there are no ids"
_METHODS: dict[str, Counterpart] = {
    "name": "`XlaBuilder.name`",
    "SetOpMetadata": "set_op_metadata",
    "SwapOpMetadata": "op_metadata",
    "SwapSharding": "sharding",
    "SetOneShotOpMetadata": "set_one_shot_op_metadata",
    "ClearOpMetadata": "clear_op_metadata",
    "SetSharding": "set_sharding",
    "SetOriginalValue": "set_original_value",
    "SetFrontendAttributes": "set_frontend_attributes",
    "SwapFrontendAttributes": "frontend_attributes",
    "frontend_attributes": "`XlaBuilder.annotations.frontend_attributes`",
    "ClearFrontendAttributes": "clear_frontend_attributes",
    "ClearSharding": "clear_sharding",
    "ClearOriginalValue": "clear_original_value",
    "sharding": "`XlaBuilder.annotations.sharding`",
    "original_value": "`XlaBuilder.annotations.original_value`",
    "set_die_immediately_on_error": _RAISED,
    "CreateDefaultConvDimensionNumbers": Ours("ConvDimensions.default", ConvDimensions.default),
    "Validate": "every convolution checks its dimension numbers",
    "CreateSubBuilder": "create_sub_builder",
    "BuildSubComputation": _COPIED,
    "Build": "build",
    "BuildAndNoteError": _RAISED,
    "BuildConstantSubGraph": "build_constant_sub_graph",
    "first_error": _RAISED,
    "GetCurrentStatus": _RAISED,
    "GetShape": "get_shape",
    "GetShapePtr": "get_shape",
    "GetOpSharding": "get_op_sharding",
    "GetProgramShape": "get_program_shape",
    "ReportError": _RAISED,
    "ReportErrorOrReturn": _RAISED,
    "IsConstant": "is_constant",
    "SetUpAlias": "set_up_alias",
    "AddBufferDonor": "add_buffer_donor",
    "SetInstructionFrontendAttribute": "set_instruction_frontend_attribute",
    "SetInstructionSharding": "set_instruction_sharding",
    "GetOperandShapes": "get_operand_shapes",
    "OpToString": "`repr(op)`",
    "AddSubComputation": _COPIED,
}
"""A bare name is a method of `XlaBuilder`."""

_SCOPES = {
    "XlaScopedShardingAssignment": "sharding",
    "XlaScopedOriginalValueAssignment": "original_value",
    "XlaScopedFrontendAttributesAssignment": "frontend_attributes",
    "XlaScopedOpMetadataAssignment": "op_metadata",
}

_NO_EMPTY_OPS = "every `XlaOp` is the result of a call that succeeded"
_OPS = {
    "builder": "`XlaOp.builder`",
    "valid": _NO_EMPTY_OPS,
    "IsUninitialized": _NO_EMPTY_OPS,
    "IsIdenticalTo": "`x.instruction is y.instruction`",
    **{f"operator{sign}": f"`x {sign} y`" for sign in ("+", "*", "/", "%", "&", "|", "^", "<<")},
    "operator-": "`x - y`, `-x`",
    "operator~": "`~x`",
    "operator>>": "`x >> y`: arithmetic for signed integers, else logical",
    "operator<<(ostream)": "`repr(op)`",
}
_IDS = dict.fromkeys(("valid", "operator<<(ostream)"), _COPIED)

_PASSES = "made by passes; `xlapy.hlo.edit.create` makes any instruction"
_FRIENDS: dict[str, Counterpart] = {
    **dict.fromkeys(("BuildAsyncStart", "BuildAsyncUpdate", "BuildAsyncDone"), _PASSES),
    **dict.fromkeys(("BuildAllGatherStart", "BuildAllGatherDone", "BuildAllReduceStart"), _PASSES),
    **dict.fromkeys(("BuildAllReduceDone", "BuildCollectivePermuteStart", "BuildCollectivePermuteDone"), _PASSES),
    **dict.fromkeys(("BuildCopyStart", "BuildCopyDone", "BuildFusion", "BuildDomain"), _PASSES),
    "BuildRngGetAndUpdateState": _PASSES,
    "BuildAddDependency": Ours.of_ops("add_dependency"),
    "BuildBitcast": Ours.of_ops("bitcast"),
    "BuildPartitionId": Ours.of_ops("partition_id"),
    "BuildSend": "`ops.send_with_token` and `ops.send_to_host` make the pair of send and send-done",
    "BuildSendDone": "see BuildSend",
    "BuildRecv": "`ops.recv_with_token` and `ops.recv_from_host` make the pair of recv and recv-done",
    "BuildRecvDone": "see BuildRecv",
    "GetInstruction": "`XlaOp.instruction`",
    "GetInstructionByHandle": "instructions have names, no handles: `Computation.find`",
    "SetExecutionThread": "`Computation.execution_thread`",
    "SetParameterReplication": "argument `replicated_at_leaf_buffers` of `ops.parameter`",
}


def sections() -> dict[str, Mapping[str, Counterpart]]:
    """Returns the groups of names of xla_builder.h, each with the counterparts of its names."""
    return {
        "functions": {name: _function(name) for name in _FUNCTIONS.split()},
        "XlaBuilder": {name: _method(given) for name, given in _METHODS.items()},
        "scopes": {name: _method(given) for name, given in _SCOPES.items()},
        "XlaOp": {**_OPS},
        "XlaComputationId": {**_IDS},
        "XlaBuilderFriend": _FRIENDS,
    }


def _function(name: str) -> Counterpart:
    """Returns the builder function of a name. All forms of constants map to one function, as do lists and objects of
    replica groups.
    """
    if name in _NOT_FUNCTIONS:
        return _NOT_FUNCTIONS[name]
    if re.match(r"ConstantR\d|ConstantFromArray", name):
        return Ours.of_ops("constant")
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("WithDeviceList")).lower()
    return Ours.of_ops(f"{words}_" if words in ("and", "or", "not", "while") else words)


def _method(given: Counterpart) -> Counterpart:
    return Ours.of_builder(given) if isinstance(given, str) and given.isidentifier() else given


_TITLES = {
    "functions": "Functions",
    "XlaBuilder": "Methods of XlaBuilder",
    "scopes": "Scopes",
    "XlaOp": "Methods and operators of XlaOp",
    "XlaComputationId": "Methods of XlaComputationId",
    "XlaBuilderFriend": "What internal::XlaBuilderFriend lets XLA's own importers build",
}


def markdown() -> str:
    """Returns docs/reference/builder.md."""
    groups = sections()
    lines = [
        "# The builder, name by name",
        "",
        "Every public name of XLA's `xla_builder.h` with its counterpart in `xlapy`, or why there is none.",
        "Generated by `make docs`; a test keeps it true.",
        "",
        "Functions are those of `xlapy.ops`, named as in XLA but in snake case; `and_`, `or_`, `not_` and `while_` end",
        "in `_` because Python keeps these words to itself. All of them raise `BuilderError`, which names the caller's",
        "line, when their arguments do not fit.",
    ]
    for group, names in groups.items():
        lines += ["", f"## {_TITLES[group]}", "", "| xla_builder.h | xlapy |", "|---|---|"]
        lines += [f"| `{_cell(name)}` | {_cell(_shown(given))} |" for name, given in names.items()]
    lines += ["", "## Functions that xla_builder.h does not have", "", "| xlapy | |", "|---|---|"]
    shown = {given for names in groups.values() for given in names.values()}
    others = [ours for ours in map(Ours.of_ops, ops.__all__) if ours not in shown]
    lines += [f"| {_cell(_shown(ours))} | {_cell(_summary(ours.function))} |" for ours in others]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _summary(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")


def _shown(given: Counterpart) -> str:
    return given if isinstance(given, str) else signatures_of(given.name, given.function, "<br>")

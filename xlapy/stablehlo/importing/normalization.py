"""Import rules of batch normalization: batch_norm_training, batch_norm_inference and batch_norm_grad."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, number
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule

_OPS = {
    "stablehlo.batch_norm_training": opcodes.BATCH_NORM_TRAINING,
    "stablehlo.batch_norm_inference": opcodes.BATCH_NORM_INFERENCE,
    "stablehlo.batch_norm_grad": opcodes.BATCH_NORM_GRAD,
}


@rule(*_OPS, results=ONE_OR_MORE)
def batch_norm(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = BatchNormAttributes.make(
        epsilon=number(operation, "epsilon"), feature_index=integer(operation, "feature_index")
    )
    result = builder.emit(_OPS[operation.name], builder.operands(operation), attributes)
    return builder.unpack(result, len(operation.results))

"""Import rules: batch normalization.

Owns: batch_norm_training, batch_norm_inference, batch_norm_grad. Must not know: their formulas.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, number
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope

_OPS = {
    "stablehlo.batch_norm_training": opcodes.BATCH_NORM_TRAINING,
    "stablehlo.batch_norm_inference": opcodes.BATCH_NORM_INFERENCE,
    "stablehlo.batch_norm_grad": opcodes.BATCH_NORM_GRAD,
}


@rule(*_OPS, results=SOME)
def batch_norm(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    attributes = BatchNormAttributes.make(
        epsilon=number(operation, "epsilon"), feature_index=integer(operation, "feature_index")
    )
    result = scope.emit(_OPS[operation.name], scope.operands(operation), attributes)
    return scope.elements(result, len(operation.results))

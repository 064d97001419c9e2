"""Export rules: batch normalization.

Owns: its three ops. Must not know: their formulas.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import F32
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.BATCH_NORM_TRAINING, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_GRAD)
def batch_norm(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {
        "epsilon": ir.FloatAttribute(float(np.float32(instruction.epsilon)), ir.ScalarType(F32)),
        "feature_index": integer(instruction.feature_index),
    }
    return scope.all(f"stablehlo.{instruction.op.name.replace('-', '_')}", instruction, attributes)

"""Export rules of the three batch normalization opcodes."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import F32
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.BATCH_NORM_TRAINING, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_GRAD)
def batch_norm(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(BatchNormAttributes)
    attributes = {
        "epsilon": ir.FloatAttribute(float(np.float32(given.epsilon)), ir.ScalarType(F32)),
        "feature_index": integer(given.feature_index),
    }
    return builder.emit_for(f"stablehlo.{instruction.op.name.replace('-', '_')}", instruction, attributes)

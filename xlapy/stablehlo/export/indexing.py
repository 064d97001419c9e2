"""Export rules: gathers and scatters.

Owns: their dimension numbers. Must not know: what scatters combine with.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integers
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope

_GATHER = (
    "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map",
    "index_vector_dim",
)  # fmt: skip
_SCATTER = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims", "index_vector_dim",
)  # fmt: skip


def _numbers(name: str, fields: tuple[str, ...], instruction: Instruction) -> ir.StructAttribute:
    given = {field: getattr(instruction, field) for field in fields}
    return ir.StructAttribute(name, {field: value for field, value in given.items() if value not in (0, ())})


@RULES.rule(opcodes.GATHER)
def gather(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {
        "dimension_numbers": _numbers("stablehlo.gather", _GATHER, instruction),
        "slice_sizes": integers(instruction.slice_sizes),
        "indices_are_sorted": instruction.indices_are_sorted,
    }
    return scope.all("stablehlo.gather", instruction, attributes)


@RULES.rule(opcodes.SCATTER)
def scatter(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {
        "scatter_dimension_numbers": _numbers("stablehlo.scatter", _SCATTER, instruction),
        "indices_are_sorted": instruction.indices_are_sorted,
        "unique_indices": instruction.unique_indices,
    }
    return scope.all("stablehlo.scatter", instruction, attributes, [scope.region(instruction.to_apply)])

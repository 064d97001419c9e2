"""Export of HLO modules as StableHLO programs.

Each opcode has one export rule, a function that emits the StableHLO operations of an instruction:

- the modules in this folder hold the rules, one module per operation family;
- `core/` holds what all rules share: the rule table, the block builder, the module exporter.

Importing this package registers all rules.
"""

from xlapy.stablehlo.export import (  # noqa: F401 - importing a module registers its rules
    collectives,
    contraction,
    control,
    convolution,
    custom,
    elementwise,
    indexing,
    linalg,
    movement,
    normalization,
    random,
    reduction,
    sorting,
    sources,
    transfer,
    tuples,
)
from xlapy.stablehlo.export.core.exporter import export_program, to_stablehlo

__all__ = ["export_program", "to_stablehlo"]

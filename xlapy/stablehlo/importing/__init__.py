"""Import of StableHLO programs into HLO modules.

Each StableHLO operation has one import rule, a function that emits the HLO instructions of its results:

- the modules in this folder hold the rules of StableHLO and of the CHLO operations that HLO has too, one module per
  operation family;
- `dialects/` holds the rules of the other dialects (arith, math, cf, shape, tensor, sdy, the rest of CHLO) and of
  quantized tensors;
- `core/` holds what all rules share: the rule table, the computation builder, the module importer.

Importing this package registers all rules.
"""

from xlapy.stablehlo.importing import (  # noqa: F401 - importing a module registers its rules
    collectives,
    contraction,
    control,
    convolution,
    custom,
    dynamic,
    dynamic_custom_calls,
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
from xlapy.stablehlo.importing.core.importer import import_program
from xlapy.stablehlo.importing.dialects import (  # noqa: F401 - importing a module registers its rules
    arithmetic,
    chlo,
    quantization,
    shapes,
    sharding,
)

__all__ = ["import_program"]

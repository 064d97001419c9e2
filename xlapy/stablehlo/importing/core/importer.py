"""The way from objects to a module, and how failures leave it.

Owns: `import_program`. Must not know: readers, operations.
"""

from __future__ import annotations

from xlapy.hlo.module import Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing import (  # noqa: F401 - the rules enter the table when their files are imported
    collectives,
    contraction,
    control,
    convolution,
    custom,
    dynamic,
    dynamic_targets,
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
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.program import ArgumentShapes, Program
from xlapy.stablehlo.importing.dialects import (  # noqa: F401 - likewise
    arithmetic,
    chlo,
    quantization,
    shapes,
    sharding,
)


def import_program(
    root: ir.Operation,
    argument_shapes: ArgumentShapes | None = None,
    *,
    text: str | None = None,
    filename: str | None = None,
    verify: bool = True,
) -> Module:
    """The module of a `builtin.module`, whose function `@main` is the entry; verified unless somebody else does that.

    Several results make a tuple, one stays as it is. argument_shapes: of arguments by number, where sizes are declared
    `?`; results follow from them. text: what it was read from, for pictures in messages.
    Raises `ParseError` (with text) or `VerificationError` for programs that break a rule of StableHLO, and
    `UnsupportedError` for what HLO has no form for, sizes that stay unknown among it.
    """
    try:
        return Program(root).build(argument_shapes, verify)
    except ImportFailure as failure:
        raise failure.as_error(text, filename) from failure.error

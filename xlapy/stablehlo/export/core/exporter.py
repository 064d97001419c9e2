"""The entrance to writing StableHLO.

Owns: what a caller gives and gets. Must not know: how any op is written.
"""

from __future__ import annotations

from xlapy.hlo.module import Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.export import (  # noqa: F401 - the rules enter the table when their files are imported
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
from xlapy.stablehlo.export.core.program import Program
from xlapy.stablehlo.text.print_forms import FORMS
from xlapy.stablehlo.text.printer import print_text


def export_program(module: Module) -> ir.Operation:
    """The StableHLO program of an HLO module, as a `builtin.module`.

    The entry is the function `@main`; the elements of its tuples are arguments and results of their own. Fusions and
    pairs of start and done are the operations inside of them. Raises `UnsupportedError`, naming the instruction, for
    what StableHLO and CHLO have no operations for.
    """
    return Program(module).export()


def to_stablehlo(module: Module, locations: bool = True) -> str:
    """The StableHLO program of an HLO module as MLIR text, with the metadata as locations if wanted."""
    return print_text(export_program(module), FORMS, locations)

"""Entry points of the export: convert an HLO module to a StableHLO program, as operations or as text."""

from __future__ import annotations

from xlapy.hlo.module import Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.module_exporter import ModuleExporter
from xlapy.stablehlo.text.custom_printers import CUSTOM_PRINTERS
from xlapy.stablehlo.text.printer import print_text


def export_program(module: Module) -> ir.Operation:
    """Returns the StableHLO program of an HLO module, as a `builtin.module` operation.

    The entry computation becomes the function `@main`. Each element of its tuple parameters and results becomes an
    argument or result of its own. A fusion, or a pair of start and done instructions, becomes the operations inside it.
    Raises `UnsupportedError`, naming the instruction, if neither StableHLO nor CHLO has an operation for it.
    """
    return ModuleExporter(module).export()


def to_stablehlo(module: Module, locations: bool = True) -> str:
    """Returns the StableHLO program of an HLO module as MLIR text, with its metadata as locations if requested."""
    return print_text(export_program(module), CUSTOM_PRINTERS, locations)

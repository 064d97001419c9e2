"""HLO modules as StableHLO programs: one export rule an op, in files by family."""

from xlapy.stablehlo.export.core.exporter import export_program, to_stablehlo

__all__ = ["export_program", "to_stablehlo"]

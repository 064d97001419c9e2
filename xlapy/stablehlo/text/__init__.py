"""MLIR text, as StableHLO programs are printed in it, read into the objects of `xlapy.stablehlo.ir` and written."""

from xlapy.stablehlo.text.reader import read_attribute, read_text, read_type

__all__ = ["read_attribute", "read_text", "read_type"]

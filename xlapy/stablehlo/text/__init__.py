"""MLIR text: the parser, which produces objects of `xlapy.stablehlo.ir`, and the printer."""

from xlapy.stablehlo.text.parser import parse_attribute, parse_text, parse_type

__all__ = ["parse_attribute", "parse_text", "parse_type"]

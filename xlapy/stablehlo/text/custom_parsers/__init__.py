"""Parsers of the custom assembly formats, which MLIR prints unless the generic form is requested; by dialect."""

from xlapy.stablehlo.text.custom_parsers.arithmetic import CUSTOM_PARSERS as _ARITHMETIC
from xlapy.stablehlo.text.custom_parsers.builtin import CUSTOM_PARSERS as _BUILTIN
from xlapy.stablehlo.text.custom_parsers.chlo import CUSTOM_PARSERS as _CHLO
from xlapy.stablehlo.text.custom_parsers.elementwise import CUSTOM_PARSERS as _ELEMENTWISE
from xlapy.stablehlo.text.custom_parsers.linalg import CUSTOM_PARSERS as _LINALG
from xlapy.stablehlo.text.custom_parsers.movement import CUSTOM_PARSERS as _MOVEMENT
from xlapy.stablehlo.text.custom_parsers.regions import CUSTOM_PARSERS as _REGIONS
from xlapy.stablehlo.text.custom_parsers.sdy import CUSTOM_PARSERS as _SDY
from xlapy.stablehlo.text.custom_parsers.shapes import CUSTOM_PARSERS as _SHAPES
from xlapy.stablehlo.text.custom_parsers.sources import CUSTOM_PARSERS as _SOURCES
from xlapy.stablehlo.text.custom_parsers.testing import CUSTOM_PARSERS as _TESTING
from xlapy.stablehlo.text.operations import CustomParser

CUSTOM_PARSERS: dict[str, CustomParser] = {
    **_BUILTIN,
    **_ELEMENTWISE,
    **_SOURCES,
    **_MOVEMENT,
    **_LINALG,
    **_REGIONS,
    **_CHLO,
    **_SDY,
    **_ARITHMETIC,
    **_SHAPES,
    **_TESTING,
}
"""The custom parsers by operation name. A parser starts after the name of the operation."""

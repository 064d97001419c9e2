"""The shorter forms of operations, which MLIR prints unless it is asked for the generic one, by dialect."""

from xlapy.stablehlo.text.forms.arithmetic import FORMS as _ARITHMETIC
from xlapy.stablehlo.text.forms.builtin import FORMS as _BUILTIN
from xlapy.stablehlo.text.forms.chlo import FORMS as _CHLO
from xlapy.stablehlo.text.forms.elementwise import FORMS as _ELEMENTWISE
from xlapy.stablehlo.text.forms.linalg import FORMS as _LINALG
from xlapy.stablehlo.text.forms.movement import FORMS as _MOVEMENT
from xlapy.stablehlo.text.forms.regions import FORMS as _REGIONS
from xlapy.stablehlo.text.forms.sdy import FORMS as _SDY
from xlapy.stablehlo.text.forms.shapes import FORMS as _SHAPES
from xlapy.stablehlo.text.forms.sources import FORMS as _SOURCES
from xlapy.stablehlo.text.forms.testing import FORMS as _TESTING
from xlapy.stablehlo.text.operations import Form

FORMS: dict[str, Form] = {
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
"""By name of the operation, what reads it from behind its name on."""

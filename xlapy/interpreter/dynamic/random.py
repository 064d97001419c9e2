"""Random numbers declared with dynamic dimensions, which have their bounds for sizes: all are drawn.

Must not know: generators.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import DYNAMIC
from xlapy.interpreter.dynamic.core import ordinary

DYNAMIC.rule(ops.RNG, ops.RNG_BIT_GENERATOR, ops.RNG_GET_AND_UPDATE_STATE)(ordinary)

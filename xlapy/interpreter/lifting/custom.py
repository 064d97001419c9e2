"""Custom calls in a scalar computation.

Must not know: the targets.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.lifting.core import LIFTED

LIFTED.refuse("each instance is a call of the target", ops.CUSTOM_CALL)

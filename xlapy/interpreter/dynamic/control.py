"""Ops that call computations or order others, on dynamic dimensions: values are handed on with their sizes.

Arguments take the dynamic dimensions of the parameters where a computation is evaluated (`interpreter/core.py`).
Must not know: what the computations do.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import DYNAMIC
from xlapy.interpreter.dynamic.core import ordinary

DYNAMIC.rule(ops.CALL, ops.CONDITIONAL, ops.FUSION, ops.WHILE)(ordinary)
DYNAMIC.rule(ops.ASYNC_DONE, ops.ASYNC_START, ops.ASYNC_UPDATE)(ordinary)
DYNAMIC.rule(ops.ADD_DEPENDENCY, ops.AFTER_ALL, ops.DOMAIN, ops.OPT_BARRIER)(ordinary)

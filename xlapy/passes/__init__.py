"""Passes: transformations of a module that keep what it computes, and the pipeline that runs them."""

from xlapy.passes.catalog import CATALOG, parse_passes, register_pass
from xlapy.passes.pass_ import Pass, pass_text
from xlapy.passes.pipeline import Fixpoint, PassEvent, PassStatistics, Pipeline

__all__ = [
    "CATALOG",
    "Fixpoint",
    "Pass",
    "PassEvent",
    "PassStatistics",
    "Pipeline",
    "parse_passes",
    "pass_text",
    "register_pass",
]

"""Finds the pass or the kernel that makes the result of a program wrong. The entry point is `bisect`."""

from xlapy.debugging.bisecting.search import BisectResult, BisectSettings, bisect
from xlapy.debugging.bisecting.session import FaultKind, PassPosition, ProgramFault

__all__ = ["ProgramFault", "BisectResult", "FaultKind", "PassPosition", "BisectSettings", "bisect"]

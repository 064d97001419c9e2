"""Bisecting: which pass of a compiler makes a program wrong, or which of its kernels does; `bisect` is the way in."""

from xlapy.debugging.bisecting.outcome import Fault, Kind, Place
from xlapy.debugging.bisecting.search import Finding, Settings, bisect

__all__ = ["Fault", "Finding", "Kind", "Place", "Settings", "bisect"]

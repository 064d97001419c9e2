"""Portable artifacts, as jaxlib writes them from StableHLO text."""

from __future__ import annotations

from jaxlib.mlir.dialects import stablehlo


def artifact(text: str, version: str = "1.17.0") -> bytes:
    """The artifact of a program for readers of StableHLO's `version`."""
    return stablehlo.serialize_portable_artifact_str(text, version)

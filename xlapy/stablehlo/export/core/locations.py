"""Metadata of HLO as locations of MLIR: the reverse of `xlapy.stablehlo.importing.core.locations`.

Owns: names, places and call stacks. Must not know: operations.
"""

from __future__ import annotations

from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import StackFrames
from xlapy.stablehlo import ir

_DEEPEST = 256


class Locations:
    """The locations of one module's instructions."""

    def __init__(self, frames: StackFrames | None) -> None:
        self.frames = frames
        self._known: dict[OpMetadata, ir.FileLocation] = {}

    def of(self, metadata: OpMetadata | None) -> ir.FileLocation:
        """The location that metadata tell."""
        if metadata is None:
            return ir.UNKNOWN_LOCATION
        known = self._known.get(metadata)
        if known is None:
            known = self._known[metadata] = self._make(metadata)
        return known

    def _make(self, metadata: OpMetadata) -> ir.FileLocation:
        names = [name for name in (metadata.op_type and f"{metadata.op_type}:", metadata.op_name) if name]
        stack = self._stack(metadata.stack_frame_id)
        if not stack:
            return ir.FileLocation(metadata.source_file, metadata.source_line, metadata.source_column, tuple(names))
        nearest, *callers = stack
        return ir.FileLocation(nearest.file, nearest.line, nearest.column, (*names, *nearest.names), tuple(callers))

    def _stack(self, frame_id: int) -> list[ir.FileLocation]:
        """The frames of a call stack, the innermost first."""
        stack: list[ir.FileLocation] = []
        frames = self.frames
        while frames is not None and 0 < frame_id <= len(frames.frames) and len(stack) < _DEEPEST:
            frame = frames.frames[frame_id - 1]
            place = frames.file_locations[frame.file_location_id - 1]
            file = frames.file_names[place.file_name_id - 1]
            function = frames.function_names[place.function_name_id - 1]
            stack.append(ir.FileLocation(file, place.line, place.column, (function,) if function else ()))
            frame_id = frame.parent_frame_id
        return stack

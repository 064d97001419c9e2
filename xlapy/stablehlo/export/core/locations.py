"""Exports HLO metadata as MLIR locations: the reverse of `xlapy.stablehlo.importing.core.locations`.

Responsible for names, source positions and call stacks. Does not depend on operations.
"""

from __future__ import annotations

from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import StackFrames
from xlapy.stablehlo import ir

_MAX_STACK_FRAMES = 256
"""Callers beyond this depth of a call stack are left out."""


class LocationExporter:
    """Converts the metadata of one module's instructions to locations."""

    def __init__(self, frames: StackFrames | None) -> None:
        self.frames = frames
        self._cache: dict[OpMetadata, ir.FileLocation] = {}

    def location_of(self, metadata: OpMetadata | None) -> ir.FileLocation:
        """Returns the location that metadata describe, or the unknown location for None."""
        if metadata is None:
            return ir.UNKNOWN_LOCATION
        location = self._cache.get(metadata)
        if location is None:
            location = self._cache[metadata] = self._convert(metadata)
        return location

    def _convert(self, metadata: OpMetadata) -> ir.FileLocation:
        names = [name for name in (metadata.op_type and f"{metadata.op_type}:", metadata.op_name) if name]
        stack = self._stack(metadata.stack_frame_id)
        if not stack:
            return ir.FileLocation(metadata.source_file, metadata.source_line, metadata.source_column, tuple(names))
        nearest, *callers = stack
        return ir.FileLocation(nearest.file, nearest.line, nearest.column, (*names, *nearest.names), tuple(callers))

    def _stack(self, frame_id: int) -> list[ir.FileLocation]:
        """Returns the frames of a call stack, innermost first."""
        stack: list[ir.FileLocation] = []
        frames = self.frames
        while frames is not None and 0 < frame_id <= len(frames.frames) and len(stack) < _MAX_STACK_FRAMES:
            frame = frames.frames[frame_id - 1]
            position = frames.file_locations[frame.file_location_id - 1]
            file = frames.file_names[position.file_name_id - 1]
            function = frames.function_names[position.function_name_id - 1]
            stack.append(ir.FileLocation(file, position.line, position.column, (function,) if function else ()))
            frame_id = frame.parent_frame_id
        return stack

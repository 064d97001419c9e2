"""`OpMetadata`, the origin of an instruction, and its text form: `{op_type="add" op_name="jit(f)/add" source_line=3}`.

Responsible for reading the text from an `HloCursor`, for writing it as XLA does, and for the paths that messages show.
Does not depend on instructions.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.hlo_cursor import HloCursor
from xlapy.opcodes.attributes.codecs import INTEGERS, AttributeCodec, escape


@checked_class
@dataclass(frozen=True, slots=True)
class OpMetadata:
    """The origin of an instruction: the framework's op and the user's source line (1-based; 0 if unknown).

    >>> text = 'ENTRY e { ROOT x = f32[] parameter(0), metadata={op_name="jit(f)/x" source_line=3} }'
    >>> xla.parse_hlo(text).entry_computation.root_instruction.metadata.op_name
    'jit(f)/x'
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: tuple[int, ...] = ()
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    metadata_payload: str = ""


_STRING_FIELDS = frozenset(
    ["op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name", "metadata_payload"]
)
_INTEGER_FIELDS = frozenset(["source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"])
_FIELD_ORDER = (
    "op_type",
    "op_name",
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "profile_type",
    "deduplicated_name",
    "scheduling_name",
    "stack_frame_id",
    "metadata_payload",
)
_PRINTED_FIELDS = ("op_type", "op_name", "source_file", "scheduling_name", "stack_frame_id", "metadata_payload")
_KEY = re.compile(r"([a-z_]+)=")


class MetadataCodec(AttributeCodec[OpMetadata]):
    """`{op_name="jit(f)/add" source_line=3}`; commas between the entries are accepted but not written."""

    def read(self, cursor: HloCursor) -> OpMetadata:
        values: dict[str, Any] = {}
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.accept(",")
            match = cursor.match(_KEY)
            if match is None:
                cursor.fail(codes.TOKEN, 'expected a metadata field such as op_name="add", or }')
            if match[1] in values:
                cursor.fail(codes.REPEATED_KEY, f"metadata entry {match[1]!r} is given twice")
            values[match[1]] = self._entry(cursor, match[1])
        return OpMetadata(**values)

    def write(self, value: OpMetadata) -> str:
        return f"{{{metadata_text(value)}}}"

    @staticmethod
    def _entry(cursor: HloCursor, key: str) -> Any:
        if key in _STRING_FIELDS:
            return cursor.string()
        if key in _INTEGER_FIELDS:
            number = cursor.integer()
            if not -(2**31) <= number < 2**31:
                cursor.fail(codes.INTEGER_RANGE, f"metadata entry {key} = {number} does not fit in 32 bits")
            return number
        if key == "profile_type":
            return INTEGERS.read(cursor)
        return cursor.fail(
            codes.UNKNOWN_KEY, f"unknown metadata entry {key!r}; expected one of {', '.join(_FIELD_ORDER)}"
        )


def metadata_text(metadata: OpMetadata, *, only_op_name: bool = False) -> str:
    """The text of the fields that are set, in XLA's order, without the braces."""
    if only_op_name:
        return f'op_name="{escape(metadata.op_name)}"' if metadata.op_name else ""
    parts: list[str] = []
    for key in _FIELD_ORDER:
        value = getattr(metadata, key)
        if not value:
            continue
        if isinstance(value, str):
            value = f'"{value if key == "scheduling_name" else escape(value)}"'
        elif isinstance(value, tuple):
            value = INTEGERS.write(value)
        parts.append(f"{key}={value}")
    return " ".join(parts)


def is_printed(metadata: OpMetadata) -> bool:
    """Whether XLA prints the metadata of an instruction; it does not if only line numbers are set."""
    return any(getattr(metadata, key) for key in _PRINTED_FIELDS)


METADATA = MetadataCodec()


def shown_path(file: str) -> str:
    """Returns the path relative to the working directory if the file is inside of it, else the path."""
    try:
        return _relative(file, os.getcwd())
    except OSError:  # the working directory no longer exists
        return file


@lru_cache(maxsize=4096)
def _relative(file: str, folder: str) -> str:
    try:
        relative = os.path.relpath(file, folder)
    except ValueError:  # on another drive, or a null character
        return file
    return file if relative.startswith(os.pardir) else relative

"""Annotations of instructions as messages: metadata, frontend attributes, statistics, original values, accuracy.

Responsible for translating between these messages and the IR's objects or texts. Does not depend on ops.
Source: xla_data.proto.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.errors import ProtoError
from xlapy.hlo.metadata import OpMetadata
from xlapy.opcodes.attributes.codecs import FLOAT, integers_from_text
from xlapy.proto.messages import Message

Payloads = Sequence[bytes]
"""The payload table of a module, which payloads may index."""

METADATA_FIELDS = (
    "op_type",
    "op_name",
    "source_file",
    "source_line",
    "source_end_line",
    "source_column",
    "source_end_column",
    "deduplicated_name",
    "scheduling_name",
    "stack_frame_id",
)


def as_text(data: bytes) -> str:
    """Decodes bytes to the IR's strings; bytes that are not UTF-8 survive a round trip."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def read_payload(source: Message, payloads: Payloads) -> str:
    """Returns the text of a payload, given inline or as an index into the module's table."""
    if not source.HasField("id"):
        return as_text(source.value)
    if not 0 <= source.id < len(payloads):
        raise ProtoError(proto_codes.PROTO_REFERENCE, f"payload {source.id} is not one of the module's {len(payloads)}")
    return as_text(payloads[source.id])


def write_metadata(target: Message, metadata: OpMetadata) -> None:
    """Writes metadata to an OpMetadata."""
    target.SetInParent()
    for name in METADATA_FIELDS:
        value = getattr(metadata, name)
        if value:
            setattr(target, name, value)
    target.profile_type.extend(metadata.profile_type)
    if metadata.metadata_payload:
        target.metadata_payload.value = as_bytes(metadata.metadata_payload)


def read_metadata(source: Message, payloads: Payloads = ()) -> OpMetadata:
    """Reads an OpMetadata and clears what it read; unknown fields stay in the message."""
    values = {name: getattr(source, name) for name in METADATA_FIELDS}
    payload = read_payload(source.metadata_payload, payloads) if source.HasField("metadata_payload") else ""
    return OpMetadata(**values, profile_type=tuple(source.profile_type), metadata_payload=payload)


def write_frontend(target: Message, attributes: Mapping[str, str]) -> None:
    for key, value in attributes.items():
        target.map[key] = value


def read_frontend(source: Message) -> dict[str, str]:
    return {key: source.map[key] for key in sorted(source.map)}


# -- statistics


def write_statistics(target: Message, text: str) -> None:
    """Writes `visualizing_index=1,count_nan=100` to a StatisticsViz."""
    index, *entries = text.split(",")
    target.stat_index_to_visualize = int(index.partition("=")[2])
    for entry in entries:
        name, _, value = entry.partition("=")
        target.statistics.add(stat_name=name, stat_val=float(value))


def read_statistics(source: Message) -> str:
    if not source.statistics:
        return ""
    entries = [f"{each.stat_name}={FLOAT.write(each.stat_val)}" for each in source.statistics]
    return ",".join([f"visualizing_index={source.stat_index_to_visualize}", *entries])


# -- result accuracy

_TOLERANCE = re.compile(r"tolerance=\{atol=(.*),rtol=(.*),ulps=(.*)\}")


def write_accuracy(target: Message, text: str) -> None:
    """Writes `mode=highest` or `tolerance={atol=0,rtol=0.5,ulps=2}` to a ResultAccuracy."""
    match = _TOLERANCE.fullmatch(text)
    if match is None:
        target.mode = text.removeprefix("mode=").upper()
        return
    target.tolerance.atol, target.tolerance.rtol = float(match[1]), float(match[2])
    target.tolerance.ulps = int(float(match[3]))


def read_accuracy(source: Message) -> str:
    if source.HasField("tolerance"):
        given = source.tolerance
        parts = (f"atol={FLOAT.write(given.atol)}", f"rtol={FLOAT.write(given.rtol)}", f"ulps={given.ulps}")
        return f"tolerance={{{','.join(parts)}}}"
    if source.mode not in (0, 1):
        raise ProtoError(proto_codes.PROTO_VALUE, f"there is no result accuracy of mode {source.mode}")
    return "mode=highest" if source.mode else ""


# -- original values

_SYNTHETIC = "[synthetic_call]"
_TOKEN = re.compile(r'(\()|(\))|, |(\{(?:"(.*?)"(?: \{([\d,]*)\})?)?\})', re.DOTALL)
_MOST_NESTED = 64


def write_original_value(target: Message, text: str) -> None:
    """Writes `({"p0"}, {"p1" {1}}, {})` to an OriginalValueProto: one element per leaf, with its index in the tuple."""
    if text == _SYNTHETIC:
        target.is_synthetic_call = True
        return
    place: list[int] = []
    for match in _TOKEN.finditer(text):
        if match[1]:
            place.append(0)
        elif match[2]:
            place.pop()
        elif match[3]:
            added = target.elements.add(shape_index=place)
            if match[4] is not None:
                added.original_array.instruction_name = match[4]
                added.original_array.shape_index.extend(integers_from_text(match[5] or ""))
        elif place:
            place[-1] += 1


def read_original_value(source: Message) -> str:
    """Returns the text of an OriginalValueProto, whose elements must be the leaves of a tuple, in order."""
    if source.is_synthetic_call:
        return _SYNTHETIC
    elements = sorted(source.elements, key=lambda each: tuple(each.shape_index))
    parts: list[str] = []
    previous: tuple[int, ...] | None = None
    for element in elements:
        place = tuple(element.shape_index)
        parts.append(_step(previous, place) + original_array_text(element))
        previous = place
    return "".join(parts) + ")" * len(previous or ())


def original_array_text(element: Message) -> str:
    if not element.HasField("original_array"):
        return "{}"
    array = element.original_array
    index = f" {{{','.join(map(str, array.shape_index))}}}" if array.shape_index else ""
    return f'{{"{array.instruction_name}"{index}}}'


def _step(before: tuple[int, ...] | None, place: tuple[int, ...]) -> str:
    """Returns the text between two leaves: `({a}, ({b}))` has `, (` between those at (0) and (1, 0)."""
    if len(place) > _MOST_NESTED:
        raise ProtoError(text_codes.NESTING, f"an original value nests deeper than {_MOST_NESTED} levels")
    if before is None:
        if any(place):
            raise ProtoError(proto_codes.PROTO_LEAVES, f"the original value begins at {place}, not at its first leaf")
        return "(" * len(place)
    common = next((i for i, (a, b) in enumerate(zip(before, place, strict=False)) if a != b), None)
    if common is None or place[common] != before[common] + 1 or any(place[common + 1 :]):
        raise ProtoError(proto_codes.PROTO_LEAVES, f"in an original value leaf {place} follows leaf {before}")
    return f"{')' * (len(before) - common - 1)}, {'(' * (len(place) - common - 1)}"

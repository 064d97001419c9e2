"""Annotations that any instruction may carry: metadata, frontend attributes, statistics, original value, accuracy.

Owns: reading each of them from text, in the form in which the IR keeps it. Must not know: ops, computations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xlapy.base.hlo_cursor import HloCursor, is_json
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import METADATA, OpMetadata
from xlapy.hlo.sharding import SHARDING, Sharding
from xlapy.opcodes.attributes.codecs import FLOAT, entries, escape

_METADATA_TEXT = re.compile(r'\{(?:[^{}"/]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}"/]*+\}|/)*+\}', re.DOTALL)
_SHARDING_TEXT = re.compile(r'\{[^{}"/]*+\}')
_KEY = re.compile(r"([A-Za-z_][\w.\-]*)\s*=", re.ASCII)
_INDEX = re.compile(r"\{\s*(\d*(?:\s*,\s*\d+)*)\s*\}")
T = TypeVar("T")

_CACHE_LIMIT = 1 << 14
_METADATA: dict[str, OpMetadata] = {}
_SHARDINGS: dict[str, Sharding] = {}


def annotate(instruction: Instruction, notes: Mapping[str, Any]) -> None:
    """Puts annotations into their slots; a sharding takes the form that the shape asks for."""
    for slot, value in notes.items():
        setattr(instruction, slot, value.for_shape(instruction.shape) if slot == "sharding" else value)


def read_metadata(reader: HloCursor) -> OpMetadata:
    """`{op_name="jit(f)/add" source_line=3}`; equal texts give the same object."""
    return _cached(reader, _METADATA_TEXT, _METADATA, METADATA.read)


def read_sharding(reader: HloCursor) -> Sharding:
    """`{devices=[2,1]<=[2]}`; equal texts give the same object."""
    return _cached(reader, _SHARDING_TEXT, _SHARDINGS, SHARDING.read)


def _cached(reader: HloCursor, pattern: re.Pattern[str], cache: dict[str, T], read: Callable[[HloCursor], T]) -> T:
    whole = pattern.match(reader.text, reader.skip())
    found = cache.get(whole[0]) if whole else None
    if whole is None or found is None:
        found = read(reader)
        if whole is not None and reader.position == whole.end():
            if len(cache) >= _CACHE_LIMIT:
                cache.clear()
            cache[whole[0]] = found
        return found
    reader.position = whole.end()
    return found


def read_frontend_attributes(reader: HloCursor) -> Mapping[str, str]:
    """`{key="value",other={"json":1}}`"""
    attributes: dict[str, str] = {}
    for _ in entries(reader):
        key = _read_key(reader, 'a frontend attribute such as key="value"')
        attributes[key] = reader.string_or_json()
    return attributes


def frontend_attributes_text(attributes: Mapping[str, str]) -> str:
    """The braced text, sorted by key, dictionaries bare and everything else in quotes."""
    return f"{{{','.join(f'{key}={config_text(attributes[key])}' for key in sorted(attributes))}}}"


def config_text(config: str) -> str:
    """A configuration as XLA writes it: bare if it is a braced dictionary, else in quotes with escapes."""
    return config if is_json(config) else f'"{escape(config)}"'


def read_backend_config(reader: HloCursor) -> str:
    """A string in quotes or a braced dictionary; the entry of XLA:GPU that XLA itself drops on reading is dropped."""
    config = reader.string_or_json()
    return _EMPTY_WAIT.sub("", config) if "wait_on_operation_queues" in config else config


_EMPTY_WAIT = re.compile(r'"wait_on_operation_queues"[ \t\n\f\r]*:[ \t\n\f\r]*\[[ \t\n\f\r]*\][ \t\n\f\r]*,')


def _read_key(reader: HloCursor, what: str) -> str:
    match = reader.match(_KEY)
    if match is None:
        reader.fail(f"expected {what}, found {reader.describe_next()}")
    return match[1]


def read_statistics(reader: HloCursor) -> str:
    """`{visualizing_index=1,count_nan=100}` as XLA writes it; empty if there are no statistics."""
    reader.expect("{")
    if reader.accept("}"):
        return ""
    if _read_key(reader, "visualizing_index=") != "visualizing_index":
        reader.fail("statistics must begin with visualizing_index=")
    parts = [f"visualizing_index={reader.integer()}"]
    while reader.accept(","):
        parts.append(f"{_read_key(reader, 'the name of a statistic')}={FLOAT.write(FLOAT.read(reader))}")
    reader.expect("}")
    return ",".join(parts) if len(parts) > 1 else ""


def read_original_value(reader: HloCursor) -> str:
    """`{({"p0"}, {"p1" {1}})}` as XLA writes it, without the outer braces."""
    reader.expect("{")
    if reader.accept("["):
        if reader.word() != "synthetic_call":
            reader.fail("expected synthetic_call")
        reader.expect("]")
        reader.expect("}")
        return "[synthetic_call]"
    parts: list[str] = []
    depth = 0
    while depth or not reader.peek("}"):
        if reader.accept("("):
            parts.append("(")
            depth += 1
        elif depth and reader.accept(")"):
            parts.append(")")
            depth -= 1
        elif depth and reader.accept(","):
            parts.append(", ")
        elif reader.peek("{"):
            parts.append(read_original_array(reader))
        else:
            reader.fail(
                f'expected original arrays such as {{"p0"}} in balanced parentheses, found {reader.describe_next()}'
            )
    reader.expect("}")
    return "".join(parts)


def read_original_array(reader: HloCursor) -> str:
    """`{"name" {0,1}}` as XLA writes it."""
    reader.expect("{")
    if reader.accept("}"):
        return "{}"
    name = reader.string()
    index = reader.match(_INDEX)
    reader.expect("}")
    numbers = "".join(index[1].split()) if index else ""
    return f'{{"{name}" {{{numbers}}}}}' if numbers else f'{{"{name}"}}'


_MODES = ("default", "highest")  # in any mix of capitals
_TOLERANCES = ("atol", "rtol", "ulps")


def read_result_accuracy(reader: HloCursor) -> str:
    """`{mode=highest}` or `{tolerance={atol=0,rtol=0.5,ulps=2}}` as XLA writes it; empty for the default mode."""
    reader.expect("{")
    key = _read_key(reader, "mode= or tolerance=")
    if key == "mode":
        mode = reader.word().lower()
        if mode not in _MODES:
            reader.fail(f"expected one of {', '.join(_MODES)}; found {mode!r}")
        text = "" if mode == "default" else f"mode={mode}"
    elif key == "tolerance":
        text = f"tolerance={_read_tolerances(reader)}"
    else:
        reader.fail(f"expected mode= or tolerance=, found {key!r}")
    reader.expect("}")
    return text


def _read_tolerances(reader: HloCursor) -> str:
    values = dict.fromkeys(_TOLERANCES, 0.0)
    for _ in entries(reader):
        key = _read_key(reader, "atol=, rtol= or ulps=")
        if key not in values:
            reader.fail(f"expected one of {', '.join(_TOLERANCES)}; found {key!r}")
        values[key] = FLOAT.read(reader)
    return f"{{{','.join(f'{key}={FLOAT.write(value)}' for key, value in values.items())}}}"

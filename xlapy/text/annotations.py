"""Reads the annotations that any instruction may have: metadata, sharding, frontend attributes, statistics, origin.

The value of an annotation is read in the form that the IR stores. Does not depend on ops or computations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from xlapy.base.error_codes.formats import hlo_text as codes
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

_MAX_CACHED_TEXTS = 1 << 12
_METADATA: dict[str, OpMetadata] = {}
_SHARDINGS: dict[str, Sharding] = {}


def set_annotations(instruction: Instruction, annotations: Mapping[str, Any]) -> None:
    """Stores annotations, by the name of their field, in the instruction. A sharding is adapted to a tuple shape."""
    for slot, value in annotations.items():
        setattr(instruction, slot, value.for_shape(instruction.shape) if slot == "sharding" else value)


def read_metadata(cursor: HloCursor) -> OpMetadata:
    """Reads `{op_name="jit(f)/add" source_line=3}`. Equal texts give the same object."""
    return _read_cached(cursor, _METADATA_TEXT, _METADATA, METADATA.read)


def read_sharding(cursor: HloCursor) -> Sharding:
    """Reads `{devices=[2,1]<=[2]}`. Equal texts give the same object."""
    return _read_cached(cursor, _SHARDING_TEXT, _SHARDINGS, SHARDING.read)


def _read_cached(cursor: HloCursor, pattern: re.Pattern[str], cache: dict[str, T], read: Callable[[HloCursor], T]) -> T:
    """Reads a value; a text that `pattern` matches as a whole is read once and then taken from `cache`."""
    whole = pattern.match(cursor.text, cursor.skip())
    found = cache.get(whole[0]) if whole else None
    if whole is None or found is None:
        found = read(cursor)
        if whole is not None and cursor.position == whole.end():
            if len(cache) >= _MAX_CACHED_TEXTS:
                cache.clear()
            cache[whole[0]] = found
        return found
    cursor.position = whole.end()
    return found


def read_frontend_attributes(cursor: HloCursor) -> Mapping[str, str]:
    """Reads `{key="value",other={"json":1}}`."""
    attributes: dict[str, str] = {}
    for _ in entries(cursor):
        key = _read_key(cursor, 'a frontend attribute such as key="value"')
        attributes[key] = cursor.string_or_json()
    return attributes


def frontend_attributes_text(attributes: Mapping[str, str]) -> str:
    """The text in braces, sorted by key; JSON dictionaries are printed without quotes."""
    return f"{{{','.join(f'{key}={config_text(attributes[key])}' for key in sorted(attributes))}}}"


def config_text(config: str) -> str:
    """A configuration as XLA prints it: a JSON dictionary unchanged, anything else in quotes with escapes."""
    return config if is_json(config) else f'"{escape(config)}"'


def read_backend_config(cursor: HloCursor) -> str:
    """Reads a string in quotes or a JSON dictionary. As XLA does, drops an empty `wait_on_operation_queues` entry."""
    config = cursor.string_or_json()
    return _EMPTY_WAIT.sub("", config) if "wait_on_operation_queues" in config else config


_EMPTY_WAIT = re.compile(r'"wait_on_operation_queues"[ \t\n\f\r]*:[ \t\n\f\r]*\[[ \t\n\f\r]*\][ \t\n\f\r]*,')


def _read_key(cursor: HloCursor, what: str) -> str:
    match = cursor.match(_KEY)
    if match is None:
        cursor.fail(codes.TOKEN, f"expected {what}, found {cursor.describe_next()}")
    return match[1]


def read_statistics(cursor: HloCursor) -> str:
    """Reads `{visualizing_index=1,count_nan=100}`; returns XLA's text of it, "" if there are no statistics."""
    cursor.expect("{")
    if cursor.accept("}"):
        return ""
    if _read_key(cursor, "visualizing_index=") != "visualizing_index":
        cursor.fail(codes.TOKEN, "statistics must begin with visualizing_index=")
    parts = [f"visualizing_index={cursor.integer()}"]
    while cursor.accept(","):
        parts.append(f"{_read_key(cursor, 'the name of a statistic')}={FLOAT.write(FLOAT.read(cursor))}")
    cursor.expect("}")
    return ",".join(parts) if len(parts) > 1 else ""


def read_original_value(cursor: HloCursor) -> str:
    """Reads `{({"p0"}, {"p1" {1}})}`; returns XLA's text of it without the outer braces."""
    cursor.expect("{")
    if cursor.accept("["):
        if cursor.word() != "synthetic_call":
            cursor.fail(codes.TOKEN, "expected synthetic_call")
        cursor.expect("]")
        cursor.expect("}")
        return "[synthetic_call]"
    parts: list[str] = []
    depth = 0
    while depth or not cursor.peek("}"):
        if cursor.accept("("):
            parts.append("(")
            depth += 1
        elif depth and cursor.accept(")"):
            parts.append(")")
            depth -= 1
        elif depth and cursor.accept(","):
            parts.append(", ")
        elif cursor.peek("{"):
            parts.append(read_original_array(cursor))
        else:
            cursor.fail(
                codes.TOKEN,
                f'expected original arrays such as {{"p0"}} in balanced parentheses, found {cursor.describe_next()}',
            )
    cursor.expect("}")
    return "".join(parts)


def read_original_array(cursor: HloCursor) -> str:
    """Reads `{"name" {0,1}}`, an instruction and a tuple index; returns XLA's text of it."""
    cursor.expect("{")
    if cursor.accept("}"):
        return "{}"
    name = cursor.string()
    index = cursor.match(_INDEX)
    cursor.expect("}")
    numbers = "".join(index[1].split()) if index else ""
    return f'{{"{name}" {{{numbers}}}}}' if numbers else f'{{"{name}"}}'


_MODES = ("default", "highest")  # in any mix of capitals
_TOLERANCES = ("atol", "rtol", "ulps")


def read_result_accuracy(cursor: HloCursor) -> str:
    """Reads `{mode=highest}` or `{tolerance={atol=0,rtol=0.5,ulps=2}}`.

    Returns XLA's text of it without the braces; "" for the default mode.
    """
    cursor.expect("{")
    key = _read_key(cursor, "mode= or tolerance=")
    if key == "mode":
        mode = cursor.word().lower()
        if mode not in _MODES:
            cursor.fail(codes.TOKEN, f"expected one of {', '.join(_MODES)}; found {mode!r}")
        text = "" if mode == "default" else f"mode={mode}"
    elif key == "tolerance":
        text = f"tolerance={_read_tolerances(cursor)}"
    else:
        cursor.fail(codes.UNKNOWN_KEY, f"expected mode= or tolerance=, found {key!r}")
    cursor.expect("}")
    return text


def _read_tolerances(cursor: HloCursor) -> str:
    values = dict.fromkeys(_TOLERANCES, 0.0)
    for _ in entries(cursor):
        key = _read_key(cursor, "atol=, rtol= or ulps=")
        if key not in values:
            cursor.fail(codes.UNKNOWN_KEY, f"expected one of {', '.join(_TOLERANCES)}; found {key!r}")
        values[key] = FLOAT.read(cursor)
    return f"{{{','.join(f'{key}={FLOAT.write(value)}' for key, value in values.items())}}}"

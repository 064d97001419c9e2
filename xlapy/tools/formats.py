"""The file formats of programs, and how a file's format is determined.

Responsible for `Format`, for recognizing formats by name and contents, and for reading and writing each. Does not
depend on commands or files.

| format | files | contents |
|---|---|---|
| hlo | `.hlo`, `.txt` | HLO text |
| proto | `.pb` | HloModuleProto; HloProto and HloSnapshot are read too |
| hlo-proto | `.hlo.pb` | HloProto, as XLA dumps programs |
| proto-text | `.pbtxt`, `.textproto`, `.prototxt` | HloModuleProto as text; HloProto and HloSnapshot are read too |
| stablehlo | `.mlir` | StableHLO as MLIR text |
| stablehlo-bytecode | `.mlirbc`, `.bc` | StableHLO as a portable artifact |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from importlib import import_module
from types import ModuleType

from xlapy.base.container import is_container
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, ProtoError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.recognition import is_bytecode, is_stablehlo_text
from xlapy.text import PrintOptions, parse_hlo, print_module


class Format(Enum):
    """A format of programs; the value is its name on the command line."""

    HLO = "hlo"
    PROTO = "proto"
    HLO_PROTO = "hlo-proto"
    PROTO_TEXT = "proto-text"
    STABLEHLO = "stablehlo"
    BYTECODE = "stablehlo-bytecode"


STABLEHLO_FORMATS = frozenset({Format.STABLEHLO, Format.BYTECODE})

_ENDINGS = {
    ".hlo.pb": Format.HLO_PROTO,
    ".hlo": Format.HLO,
    ".txt": Format.HLO,
    ".pb": Format.PROTO,
    ".pbtxt": Format.PROTO_TEXT,
    ".textproto": Format.PROTO_TEXT,
    ".prototxt": Format.PROTO_TEXT,
    ".mlir": Format.STABLEHLO,
    ".mlirbc": Format.BYTECODE,
    ".bc": Format.BYTECODE,
}
"""The suffix of each format; the first match counts."""

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_MESSAGE = re.compile(r"(?:\s|#[^\n]*\n)*(?:name|hlo_module|hlo|id|entry_computation_\w+|computations)\s*[:{]")
_LOOKED_AT = 4096


def format_of_name(path: str) -> Format | None:
    """Returns the format of a file name; None if the suffix is unknown."""
    lower = path.lower()
    return next((form for ending, form in _ENDINGS.items() if lower.endswith(ending)), None)


def format_of_content(data: bytes) -> Format:
    """Returns the format that the contents look like."""
    if is_bytecode(data):
        return Format.BYTECODE
    if _CONTROL.search(data[:_LOOKED_AT]):
        return Format.PROTO
    text = data[:_LOOKED_AT].decode("utf-8", "replace")
    if is_stablehlo_text(text):
        return Format.STABLEHLO
    return Format.PROTO_TEXT if _MESSAGE.match(text) else Format.HLO


def format_of(path: str, data: bytes) -> Format:
    """Returns the format of a file. The name decides, except for `.txt` and unknown suffixes, where the contents
    decide.
    """
    if is_bytecode(data):
        return Format.BYTECODE
    named = None if path.lower().endswith(".txt") else format_of_name(path)
    return format_of_content(data) if named is None else named


def read_module(
    name: str, data: bytes, form: Format, verify: bool = True, argument_shapes: Sequence[Shape] | None = None
) -> Module:
    """Parses a module from bytes in a format; messages call it `name`.

    argument_shapes: the shapes of the arguments, for StableHLO with dynamic shapes.
    """
    if is_container(data):
        raise InvalidArgumentError(
            codes.PROGRAM_FILE, f"{name} is compiled: xlapy run takes it, it is not HLO text, a message or StableHLO"
        )
    if form in (Format.PROTO, Format.HLO_PROTO):
        return _message(name, lambda: _proto().read_module(data, verify))
    if form is Format.BYTECODE or (form is Format.STABLEHLO and is_bytecode(data)):
        return _stablehlo(data, name, argument_shapes)
    text = _decoded(name, data, form)
    if form is Format.PROTO_TEXT:
        return _message(name, lambda: _proto().read_module_text(text, verify))
    if form is Format.STABLEHLO:
        return _stablehlo(text, name, argument_shapes)
    return parse_hlo(text, verify=verify, filename=name)


def _proto() -> ModuleType:
    return import_module("xlapy.proto")  # imports protobuf, which most commands do not need


def _message(name: str, read: Callable[[], Module]) -> Module:
    try:
        return read()
    except ProtoError as error:
        raise ProtoError(error.code, f"{name}: {error.message}") from error


def _stablehlo(program: str | bytes, name: str, argument_shapes: Sequence[Shape] | None) -> Module:
    from xlapy.stablehlo.parse import parse_stablehlo

    return parse_stablehlo(program, argument_shapes, filename=name)


def _decoded(name: str, data: bytes, form: Format) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = {Format.HLO: "HLO text", Format.STABLEHLO: "MLIR text", Format.PROTO_TEXT: "text"}[form]
        raise InvalidArgumentError(
            codes.PROGRAM_FILE, f"{name} is not {what}: byte {error.start} is not UTF-8"
        ) from error


def write_module(module: Module, form: Format) -> bytes:
    """Returns a module as bytes in a format; constants are written in full."""
    if form is Format.PROTO:
        return module.to_proto()
    if form is Format.HLO_PROTO:
        whole: bytes = _proto().HloProto(module).to_proto()
        return whole
    if form is Format.PROTO_TEXT:
        text: str = _proto().to_text_format(module)
        return text.encode()
    if form is Format.HLO:
        return print_module(module, PrintOptions(print_large_constants=True)).encode("utf-8", "surrogateescape")
    from xlapy.passes.composites import with_composites
    from xlapy.stablehlo.export import export_program

    portable = with_composites(module) if form is Format.BYTECODE else module
    return write_operation(export_program(portable), form)


def read_operation(name: str, data: bytes, form: Format) -> ir.Operation:
    """Reads a StableHLO program, as text or bytecode, into objects."""
    if is_bytecode(data):
        from xlapy.stablehlo.bytecode import read_bytecode

        return read_bytecode(data)
    from xlapy.stablehlo.text import parse_text

    return parse_text(_decoded(name, data, form), name)


def write_operation(program: ir.Operation, form: Format) -> bytes:
    """Writes a StableHLO program as text or bytecode."""
    if form is Format.BYTECODE:
        from xlapy.stablehlo.bytecode import write_bytecode

        return write_bytecode(program)
    from xlapy.stablehlo.text.custom_printers import CUSTOM_PRINTERS
    from xlapy.stablehlo.text.printer import print_text

    return print_text(program, CUSTOM_PRINTERS).encode("utf-8", "surrogateescape")

"""HloModuleProto in protobuf's text format (`.pbtxt`).

Responsible for translating to and from the text. Does not depend on the meaning of messages.
"""

from __future__ import annotations

import re

from google.protobuf import text_format

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.errors import ProtoError
from xlapy.hlo.module import Module
from xlapy.proto.messages import Message, message_class
from xlapy.proto.read import module_of
from xlapy.proto.write import module_message

_MAX_NESTING = 100
"""Limit on the nesting of messages, as in the binary format. protobuf's reader of text calls itself for each level."""
_MARK = re.compile(r"""[{}<>]|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?|#[^\n]*+""")


def to_text_format(module: Module) -> str:
    """Returns the HloModuleProto of a module in text format."""
    return text_format.MessageToString(module_message(module))


def from_text_format(text: str, verify: bool = True) -> Module:
    """Reads an HloModuleProto in text format; raises the errors of `from_proto`."""
    return module_of(parse_message("HloModuleProto", text), verify)


def parse_message(name: str, text: str, *, allow_unknown_field: bool = False) -> Message:
    """Parses a message such as `HloModuleProto`. Raises `ProtoError`."""
    _check_characters(name, text)
    _check_nesting(name, text)
    message = message_class(name)()
    try:
        text_format.Parse(text, message, allow_unknown_field=allow_unknown_field)
    except (text_format.ParseError, ValueError) as error:  # ValueError: a string with escaped bytes that are not UTF-8
        raise ProtoError(proto_codes.PROTO_ENCODING, f"the text is no {name}: {error}") from error
    return message


def _check_characters(name: str, text: str) -> None:
    """Checks that a text can be written as UTF-8. protobuf passes names to C without checking them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        character = f"U+{ord(text[error.start]):04X}"
        raise ProtoError(
            text_codes.CHARACTERS, f"the text is no {name}: line {line}: {character} cannot be written as UTF-8"
        ) from None


def _check_nesting(name: str, text: str) -> None:
    depth = 0
    for mark in _MARK.finditer(text):
        if mark[0] in "{<":
            depth += 1
            if depth > _MAX_NESTING:
                line = text.count("\n", 0, mark.start()) + 1
                raise ProtoError(
                    text_codes.NESTING,
                    f"the text is no {name}: line {line}: messages nest deeper than {_MAX_NESTING} levels",
                )
        elif mark[0] in "}>":
            depth -= 1

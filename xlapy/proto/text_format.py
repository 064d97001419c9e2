"""HloModuleProto in protobuf's text format (`.pbtxt`).

Owns: translation to and from the text. Must not know: what messages mean.
"""

from __future__ import annotations

from google.protobuf import text_format

from xlapy.base.errors import ProtoError
from xlapy.hlo.module import Module
from xlapy.proto.messages import message_class
from xlapy.proto.read import module_of
from xlapy.proto.write import module_message


def to_text_format(module: Module) -> str:
    """The HloModuleProto of a module as text."""
    return text_format.MessageToString(module_message(module))


def from_text_format(text: str, verify: bool = True) -> Module:
    """The module of an HloModuleProto in text format; raises as `from_proto` does."""
    message = message_class("HloModuleProto")()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise ProtoError(f"the text is no HloModuleProto: {error}") from error
    return module_of(message, verify)

"""HloModuleProto in protobuf's text format (`.pbtxt`).

Responsible for translating to and from the text. Does not depend on the meaning of messages.
"""

from __future__ import annotations

from google.protobuf import text_format

from xlapy.base.errors import ProtoError
from xlapy.hlo.module import Module
from xlapy.proto.messages import message_class
from xlapy.proto.read import module_of
from xlapy.proto.write import module_message


def to_text_format(module: Module) -> str:
    """Returns the HloModuleProto of a module in text format."""
    return text_format.MessageToString(module_message(module))


def from_text_format(text: str, verify: bool = True) -> Module:
    """Reads an HloModuleProto in text format; raises the errors of `from_proto`."""
    message = message_class("HloModuleProto")()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise ProtoError(f"the text is no HloModuleProto: {error}") from error
    return module_of(message, verify)

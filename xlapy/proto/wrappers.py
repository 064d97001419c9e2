"""The messages that XLA wraps around a module: HloProto, the format of its dumps (`.hlo.pb`), and HloSnapshot.

Responsible for `HloProto` and for detecting which of the three messages a file holds. Buffer assignments are kept as
bytes.
Source: hlo.proto of XLA.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.base.error_codes.formats import protos as codes
from xlapy.base.errors import ProtoError
from xlapy.hlo.module import Module
from xlapy.proto.messages import Message, decode, encode, message_class
from xlapy.proto.read import module_of
from xlapy.proto.text_format import parse_message
from xlapy.proto.write import module_message


@dataclass(frozen=True, slots=True)
class HloProto:
    """A module, and the other fields of its HloProto as bytes: XLA's buffer assignment."""

    module: Module
    rest: bytes = field(default=b"", repr=False)

    def to_proto(self) -> bytes:
        """Returns the serialized HloProto."""
        target = message_class("HloProto")()
        target.MergeFromString(self.rest)
        target.hlo_module.CopyFrom(module_message(self.module))
        return encode(target)

    @staticmethod
    def from_proto(data: bytes, verify: bool = True) -> HloProto:
        """Reads a serialized HloProto; raises the errors of `xlapy.proto.from_proto`."""
        source = decode("HloProto", data)
        module = module_of(source.hlo_module, verify)
        source.ClearField("hlo_module")
        return HloProto(module, source.SerializeToString(deterministic=True))


def read_module(data: bytes, verify: bool = True) -> Module:
    """Reads a serialized HloModuleProto, HloProto or HloSnapshot and returns its module.

    The bytes do not name their message: the first message whose module has computations is used.
    """
    for name in ("HloSnapshot", "HloProto"):
        try:
            inner = _inner(decode(name, data))
        except ProtoError:
            continue
        if inner.computations:
            return module_of(inner, verify)
    return module_of(decode("HloModuleProto", data), verify)


def read_module_text(text: str, verify: bool = True) -> Module:
    """Reads an HloModuleProto, HloProto or HloSnapshot in text format and returns its module. Raises `ProtoError` for
    other texts.
    """
    problem: ProtoError | None = None
    for name in ("HloModuleProto", "HloProto", "HloSnapshot"):
        try:
            message = parse_message(name, text, allow_unknown_field=name != "HloModuleProto")
        except ProtoError as error:
            problem = problem or error
            continue
        inner = message if name == "HloModuleProto" else _inner(message)
        if inner.computations or name == "HloModuleProto":
            return module_of(inner, verify)
    raise problem or ProtoError(codes.PROTO_ENCODING, "the text is no HloModuleProto: it has no computations")


def _inner(message: Message) -> Message:
    """Returns the HloModuleProto inside a message."""
    return message.hlo.hlo_module if message.DESCRIPTOR.name == "HloSnapshot" else message.hlo_module

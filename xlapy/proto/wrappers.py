"""The messages that XLA puts around a module: HloProto, as its dumps (`.hlo.pb`) are, and HloSnapshot.

Owns: `HloProto`, telling which of the three a file holds. Must not know: buffer assignments, which are kept as bytes.
Source: hlo.proto of XLA.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf import text_format

from xlapy.base.errors import ProtoError
from xlapy.hlo.module import Module
from xlapy.proto.messages import Message, decode, encode, message_class
from xlapy.proto.read import module_of
from xlapy.proto.write import module_message


@dataclass(frozen=True, slots=True)
class HloProto:
    """A module, and the rest of its HloProto as bytes: XLA's buffer assignment."""

    module: Module
    rest: bytes = field(default=b"", repr=False)

    def to_proto(self) -> bytes:
        """The serialized HloProto."""
        target = message_class("HloProto")()
        target.MergeFromString(self.rest)
        target.hlo_module.CopyFrom(module_message(self.module))
        return encode(target)

    @staticmethod
    def from_proto(data: bytes, verify: bool = True) -> HloProto:
        """The module of a serialized HloProto; raises as `xlapy.proto.from_proto` does."""
        source = decode("HloProto", data)
        module = module_of(source.hlo_module, verify)
        source.ClearField("hlo_module")
        return HloProto(module, source.SerializeToString(deterministic=True))


def read_module(data: bytes, verify: bool = True) -> Module:
    """The module in a serialized HloModuleProto, HloProto or HloSnapshot, whichever it is.

    Bytes do not tell of which message they are: they are of the first whose module has computations.
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
    """The module of an HloModuleProto, HloProto or HloSnapshot in text format; `ProtoError` if it is none of them."""
    problem: text_format.ParseError | None = None
    for name in ("HloModuleProto", "HloProto", "HloSnapshot"):
        message = message_class(name)()
        try:
            text_format.Parse(text, message, allow_unknown_field=name != "HloModuleProto")
        except text_format.ParseError as error:
            problem = problem or error
            continue
        inner = message if name == "HloModuleProto" else _inner(message)
        if inner.computations or name == "HloModuleProto":
            return module_of(inner, verify)
    raise ProtoError(f"the text is no HloModuleProto: {problem}") from problem


def _inner(message: Message) -> Message:
    """The HloModuleProto inside."""
    return message.hlo.hlo_module if message.DESCRIPTOR.name == "HloSnapshot" else message.hlo_module

"""Message classes, created from `schema.SCHEMA` on first use.

Responsible for the descriptors, in a pool of their own (other packages may register XLA's messages too), and for
decoding with clear errors. Does not depend on the meaning of messages.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.formats import protos as codes
from xlapy.base.errors import ProtoError
from xlapy.proto.schema import SCHEMA

Message = Any
"""A protobuf message; its class is created at run time."""

_FIELD = re.compile(r"(\w+)=(\d+):(?:map<(\w+),([\w.]+)>|([\w.]+)([*?]?))")
_Proto = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "double": _Proto.TYPE_DOUBLE,
    "float": _Proto.TYPE_FLOAT,
    "int64": _Proto.TYPE_INT64,
    "uint64": _Proto.TYPE_UINT64,
    "int32": _Proto.TYPE_INT32,
    "uint32": _Proto.TYPE_UINT32,
    "bool": _Proto.TYPE_BOOL,
    "string": _Proto.TYPE_STRING,
    "bytes": _Proto.TYPE_BYTES,
}


@SingleFlight
def message_class(name: str) -> Any:
    """Returns the class of a message such as `HloModuleProto`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"xla.{name}"))


def decode(name: str, data: bytes) -> Message:
    """Decodes a message. Raises `ProtoError` if the bytes are not one."""
    message = message_class(name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ProtoError(codes.PROTO_ENCODING, f"{len(data)} bytes are no {name}: {error}") from error
    return message


def encode(message: Message) -> bytes:
    """Encodes a message; equal messages give the same bytes. Raises `ProtoError` above two gigabytes."""
    try:
        data: bytes = message.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ProtoError(codes.PROTO_FIELDS, f"a {message.DESCRIPTOR.name} cannot be written: {error}") from error
    return data


@SingleFlight
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="xlapy/hlo.proto", package="xla", syntax="proto3")
    entries = [entry.replace("\n", " ").partition(": ") for entry in re.split(r"\n(?! )", SCHEMA.strip())]
    enums = {head.removeprefix("enum ") for head, _, _ in entries if head.startswith("enum ")}
    messages: dict[str, Any] = {}
    for head, _, body in entries:
        kind, _, name = head.partition(" ")
        outer, _, own = name.rpartition(".")
        scope: Any = messages[outer] if outer else file
        if kind == "message":
            place = scope.nested_type if outer else scope.message_type
            messages[name] = place.add(name=own)
            for field in body.split():
                _add_field(messages[name], name, field, enums)
        else:
            _add_enum(scope, own, body)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_enum(scope: Any, name: str, body: str) -> None:
    enum = scope.enum_type.add(name=name)
    for value in body.split():
        word, _, number = value.partition("=")
        enum.value.add(name=word, number=int(number))


def _add_field(message: Any, owner: str, text: str, enums: set[str]) -> None:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    name, number, key, value, single, mark = match.groups()
    field = message.field.add(name=name, number=int(number), label=_Proto.LABEL_OPTIONAL)
    if key is not None:
        entry = message.nested_type.add(name=f"{''.join(word.capitalize() for word in name.split('_'))}Entry")
        entry.options.map_entry = True
        for place, (part, of) in enumerate((("key", key), ("value", value)), 1):
            _set_type(entry.field.add(name=part, number=place, label=_Proto.LABEL_OPTIONAL), of, enums)
        field.label, field.type = _Proto.LABEL_REPEATED, _Proto.TYPE_MESSAGE
        field.type_name = f".xla.{owner}.{entry.name}"
        return
    _set_type(field, single, enums)
    if mark == "*":
        field.label = _Proto.LABEL_REPEATED
    elif mark == "?":
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _set_type(field: Any, name: str, enums: set[str]) -> None:
    if name in _SCALARS:
        field.type = _SCALARS[name]
        return
    field.type = _Proto.TYPE_ENUM if name in enums else _Proto.TYPE_MESSAGE
    field.type_name = f".xla.{name}"

"""HLO as text, as binary and text protos, and literals.

The corpora are the samples of all operations. Texts are mutated as text. Protos are mutated as bytes, as text, or as
messages: fields are set to extreme numbers, removed, repeated, exchanged with fields of the same type elsewhere, and
nested in themselves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from xlapy import opcodes
from xlapy.base.errors import ProtoError
from xlapy.base.literal_parser import parse_shaped_literal
from xlapy.debugging.hostile.formats import HostileFormat
from xlapy.debugging.hostile.mutations import BYTE_MUTATIONS, MAX_BYTES, TEXT_MUTATIONS, mutated
from xlapy.debugging.hostile.use import use_module
from xlapy.proto.messages import Message, decode, encode
from xlapy.proto.text_format import to_text_format
from xlapy.proto.wrappers import read_module, read_module_text
from xlapy.testing.samples import all_samples
from xlapy.text import parse_hlo

_LONGEST = 4_000
"""Characters of a sample; mutations of longer ones are mostly without effect."""
_INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    63,
    64,
    65,
    255,
    65536,
    10**6,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
)
_DEPTHS = (1, 2, 10, 63, 64, 65, 90)


@cache
def _modules() -> tuple[Any, ...]:
    return tuple(parse_hlo(sample.text) for sample in all_samples() if len(sample.text) <= _LONGEST)


def _texts() -> list[bytes]:
    return [module.to_text(print_large_constants=True).encode() for module in _modules()]


def _protos() -> list[bytes]:
    return [module.to_proto() for module in _modules()]


def _proto_texts() -> list[bytes]:
    return [to_text_format(module).encode() for module in _modules()]


def _literals() -> list[bytes]:
    constants = [i for module in _modules() for i in module.instructions() if i.op is opcodes.CONSTANT]
    found = {constant.literal.to_text(shape=True, layout=True).encode(): None for constant in constants}
    return list(found)


def _damaged_text(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    return mutated(rng.choice(corpus), rng, corpus, TEXT_MUTATIONS)


def _damaged_proto(rng: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = rng.choice(corpus)
    way = rng.random()
    if way < 0.2:
        return mutated(data, rng, corpus, BYTE_MUTATIONS)
    if way < 0.3:
        place = rng.randrange(len(data))
        return data[:place] + _varint(rng.choice(_INTEGERS) % 2**64) + data[place + 1 :]
    message, other = decode("HloModuleProto", data), decode("HloModuleProto", rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 10))):
        _mutate_message(message, other, rng)
        if message.ByteSize() > MAX_BYTES:
            break
    try:
        return encode(message)
    except ProtoError:  # it is nested deeper than protobuf writes
        return mutated(data, rng, corpus, BYTE_MUTATIONS)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


# -- messages


def _mutate_message(message: Message, other: Message, rng: random.Random) -> None:
    """Changes one field somewhere in a message. Pieces come from the message itself or from another."""
    owner, field = rng.choice([*_fields(message)])
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        owner.ClearField(field.name)
        return
    if field.message_type is None:
        _mutate_scalar(owner, field, rng)
        return
    way = rng.randrange(5)
    same = [
        value
        for source in (message, other)
        for parent, place in _fields(source)
        if place.message_type is field.message_type
        for value in _values(parent, place)
    ]
    if way == 0:
        owner.ClearField(field.name)
    elif way == 1 and same:
        _put(owner, field, rng.choice(same), rng)
    elif way == 2 and field.is_repeated:
        values = getattr(owner, field.name)
        copy = rng.choice(values)
        for _ in range(rng.choice((1, 2, 50, 1000)) if copy.ByteSize() < 200 else 1):
            values.add().CopyFrom(copy)
    elif way == 3 and field.is_repeated:
        values = getattr(owner, field.name)
        first, second = rng.randrange(len(values)), rng.randrange(len(values))
        kept = type(values[first])()
        kept.CopyFrom(values[first])
        values[first].CopyFrom(values[second])
        values[second].CopyFrom(kept)
    else:
        _nest(rng.choice(_values(owner, field)), rng)


def _mutate_scalar(owner: Message, field: Any, rng: random.Random) -> None:
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        text = rng.choice(("", "x", "%", "a.1", "{", '{"a":', "\0", "é" * 10, "1" * 5000))
        new: Any = text if field.type == field.TYPE_STRING else text.encode() * rng.choice((1, 2, 100))
    elif field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        new = rng.choice((0.0, -0.0, 1e300, float("inf"), float("nan"), -1.5))
    elif field.type == field.TYPE_BOOL:
        new = rng.random() < 0.5
    else:
        new = rng.choice(_INTEGERS)
        values = _values(owner, field)
        if values and isinstance(values[0], int) and rng.random() < 0.4:
            new = rng.choice(values) + rng.choice((-1, 1))
    values = getattr(owner, field.name)
    try:
        if not field.is_repeated:
            setattr(owner, field.name, new)
        elif rng.random() < 0.7 and len(values):
            values[rng.randrange(len(values))] = new
        elif rng.random() < 0.5 and len(values):
            del values[rng.randrange(len(values))]
        else:
            values.extend([new] * rng.choice((1, 1, 2, 70, 10_000)))
    except ValueError:
        return  # the number does not fit in the type of the field


def _put(owner: Message, field: Any, value: Message, rng: random.Random) -> None:
    copy = type(value)()
    copy.CopyFrom(value)  # the value may contain the owner, or be in it
    if not field.is_repeated:
        getattr(owner, field.name).CopyFrom(copy)
        return
    values = getattr(owner, field.name)
    (values[rng.randrange(len(values))] if len(values) and rng.random() < 0.6 else values.add()).CopyFrom(copy)


def _nest(message: Message, rng: random.Random) -> None:
    """Puts a message into a field of its own type many times, so that it is nested in copies of itself."""
    own = [field for field in message.DESCRIPTOR.fields if field.message_type is message.DESCRIPTOR]
    if not own:
        return
    field = rng.choice(own)
    for _ in range(rng.choice(_DEPTHS)):
        inner = type(message)()
        inner.CopyFrom(message)
        message.ClearField(field.name)
        for _ in range(rng.choice((1, 1, 2)) if field.is_repeated else 1):
            _put(message, field, inner, rng)
        if message.ByteSize() > MAX_BYTES:
            return


def _fields(message: Message) -> Iterator[tuple[Message, Any]]:
    """Yields each field that is set, of the message and of all messages in it, with its owner."""
    pending = [message]
    while pending:
        owner = pending.pop()
        for field, _ in owner.ListFields():
            yield owner, field
            if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                pending.extend(_values(owner, field))


def _values(owner: Message, field: Any) -> list[Any]:
    value = getattr(owner, field.name)
    return list(value) if field.is_repeated else [value]


# -- reading


def _consume_text(data: bytes) -> None:
    use_module(parse_hlo(data.decode("utf-8", "surrogateescape")))


def _consume_proto(data: bytes) -> None:
    use_module(read_module(data))


def _consume_proto_text(data: bytes) -> None:
    use_module(read_module_text(data.decode("utf-8", "surrogateescape")))


def _consume_literal(data: bytes) -> None:
    literal = parse_shaped_literal(data.decode("utf-8", "surrogateescape"))
    literal.to_text(shape=True)


FORMATS = (
    HostileFormat("hlo-text", _texts, _damaged_text, _consume_text),
    HostileFormat("proto", _protos, _damaged_proto, _consume_proto),
    HostileFormat("proto-text", _proto_texts, _damaged_text, _consume_proto_text),
    HostileFormat("literal", _literals, _damaged_text, _consume_literal),
)

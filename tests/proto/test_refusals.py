"""Invalid protos give an error with the position in the message; no other exception is raised."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

import xlapy
from tests.raising import Wanted, raises
from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import InvalidArgumentError, ProtoError, XlaError
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.dimensions import ConvDimensions
from xlapy.proto import Snapshot, from_text_format, read_module_text
from xlapy.proto.messages import decode, encode
from xlapy.proto.write import module_message
from xlapy.testing.samples.sample import all_samples

TEXT = """HloModule m
sum { x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT a = f32[] add(x, y) }
ENTRY e { p = f32[4] parameter(0)
 z = f32[] constant(0)
 s = f32[4] sine(p), sharding={replicated}
 ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=sum }
"""


def constant_of(computation: Any) -> Any:
    return next(i for i in computation.instructions if i.opcode == "constant")


Change = Callable[[Any, Any, Any], object]
CHANGES: list[tuple[str, Change, Wanted]] = [
    (
        "operand",
        lambda m, e, r: r.operand_ids.__setitem__(0, 77),
        (proto_codes.PROTO_REFERENCE, "'r'", "(reduce)", "operand 77"),
    ),
    (
        "itself",
        lambda m, e, r: r.operand_ids.__setitem__(0, r.id),
        (proto_codes.PROTO_REFERENCE, "'r'"),
    ),
    (
        "control",
        lambda m, e, r: r.control_predecessor_ids.append(9),
        (proto_codes.PROTO_REFERENCE, "predecessor 9"),
    ),
    (
        "callee",
        lambda m, e, r: r.called_computation_ids.__setitem__(0, 1),
        (proto_codes.PROTO_REFERENCE, "'r'", "computation 1"),
    ),
    (
        "calls",
        lambda m, e, r: r.called_computation_ids.append(0),
        (operand_codes.CALLED_COMPUTATIONS, "calls 2", "needs 1"),
    ),
    (
        "no call",
        lambda m, e, r: r.ClearField("called_computation_ids"),
        (operand_codes.CALLED_COMPUTATIONS, "calls 0", "needs 1"),
    ),
    (
        "same id",
        lambda m, e, r: setattr(r, "id", e.instructions[0].id),
        (proto_codes.PROTO_UNIQUE_ID, "'r'", "(reduce)"),
    ),
    ("same computation", lambda m, e, r: setattr(e, "id", 0), (proto_codes.PROTO_UNIQUE_ID, "'sum'", "'e'", "id 0")),
    ("root", lambda m, e, r: setattr(e, "root_id", 5), (proto_codes.PROTO_REFERENCE, "'e'", "instruction 5")),
    ("entry", lambda m, e, r: setattr(m, "entry_computation_id", 5), (proto_codes.PROTO_REFERENCE, "computation 5")),
    ("no shape", lambda m, e, r: r.ClearField("shape"), (value_codes.ARRAY_ELEMENT_TYPE, "'r'")),
    ("type", lambda m, e, r: setattr(r.shape, "element_type", 99), (value_codes.ELEMENT_TYPE, "number 99")),
    ("size", lambda m, e, r: r.shape.dimensions.extend([2**62, 2**62]), (value_codes.ARRAY_BYTES, "'r'")),
    ("layout", lambda m, e, r: r.shape.layout.minor_to_major.extend([3]), (value_codes.LAYOUT_ORDER, "minor_to_major")),
    (
        "literal",
        lambda m, e, r: constant_of(e).literal.f32s.append(1),
        (value_codes.LITERAL_SHAPE, "f32[]", "has 1", "given 2"),
    ),
    ("no literal", lambda m, e, r: constant_of(e).ClearField("literal"), (proto_codes.PROTO_ATTRIBUTE, "'literal'")),
    (
        "schedule",
        lambda m, e, r: m.schedule.sequences[1].instruction_ids.append(3),
        (proto_codes.PROTO_SCHEDULE, "computation 'e'"),
    ),
    ("sharding", lambda m, e, r: setattr(r.sharding, "type", 9), (proto_codes.PROTO_VALUE, "type 9")),
    ("accuracy", lambda m, e, r: setattr(r.result_accuracy, "mode", 9), (proto_codes.PROTO_VALUE, "mode 9")),
    (
        "original value",
        lambda m, e, r: [r.original_value.elements.add(shape_index=[n]) for n in (0, 2)],
        (proto_codes.PROTO_LEAVES, "(2,)", "(0,)"),
    ),
]


@pytest.fixture
def message() -> Any:
    return decode("HloModuleProto", xlapy.parse_hlo(TEXT).to_proto())


@pytest.mark.parametrize(("change", "expected"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_errors_describe_the_mistake(message: Any, change: Change, expected: Wanted):
    with raises(ProtoError, *expected):
        read_changed(message, change)


def read_changed(message: Any, change: Change) -> Module:
    entry = next(c for c in message.computations if c.name == "e")
    change(message, entry, next(i for i in entry.instructions if i.name == "r"))
    return Module.from_proto(encode(message))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda m, e, r: setattr(r, "opcode", "reduze"), "'reduze'; did you mean reduce"),
        (lambda m, e, r: setattr(r, "opcode", ""), "without opcode"),
        (lambda m, e, r: r.text_attributes.update(dimensions="{a}"), r"text attribute dimensions=\{a\}: .*\{0,1\}"),
    ],
)
def test_unknown_operations_and_malformed_attributes(message: Any, change: Change, complaint: str):
    with pytest.raises(ProtoError, match=complaint):
        read_changed(message, change)


def test_nesting_has_a_limit(message: Any):
    shape = message.computations[0].instructions[0].shape
    for _ in range(70):
        shape.element_type = 13
        shape = shape.tuple_shapes.add()
    with raises(ProtoError, value_codes.SHAPE_DEPTH, "64 levels"):
        Module.from_proto(encode(message))


def test_bytes_that_are_not_a_message():
    with raises(ProtoError, proto_codes.PROTO_ENCODING, "5 bytes"):
        Module.from_proto(b"\x0a\xffxyz")
    with raises(ProtoError, proto_codes.PROTO_REFERENCE, "computation 0"):
        Module.from_proto(b"")
    with raises(InvalidArgumentError, call_codes.ARGUMENT_TYPE, "HloModuleProto", "str"):
        Module.from_proto("HloModule m")  # type: ignore[arg-type]
    with raises(ProtoError, proto_codes.PROTO_ENCODING):
        from_text_format("name: 3")
    with raises(ProtoError, proto_codes.PROTO_ENCODING):
        Snapshot.from_proto(b"\xff")


def test_modules_that_cannot_be_written():
    with raises(ProtoError, module_codes.ENTRY_COMPUTATION, "module m"):
        Module("m").to_proto()
    module = xlapy.parse_hlo(TEXT)
    module.name = "\udcff"
    with raises(ProtoError, text_codes.CHARACTERS):
        module.to_proto()


def test_mutated_bytes_give_a_module_or_an_error_of_xlapy():
    rng = random.Random(7)
    corpus = [xlapy.parse_hlo(sample.text).to_proto() for sample in rng.sample(list(all_samples()), 60)]
    refused = accepted = 0
    for _ in range(3000):
        data = bytearray(rng.choice(corpus))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 1, 1, 4))] = bytes(
                rng.randrange(256) for _ in range(rng.choice((0, 1, 1, 5)))
            )
            data = data or bytearray(b"x")
        try:
            module = Module.from_proto(bytes(data))
        except XlaError:
            refused += 1
            continue
        accepted += 1
        text = module.to_text(print_large_constants=True)
        assert Module.from_proto(module.to_proto()).to_text(print_large_constants=True) == text
    assert refused > 1000
    assert accepted > 50


CONVOLUTION = """ENTRY main {
  p = f32[2,3,8] parameter(0)
  k = f32[4,3,2] parameter(1)
  ROOT v = f32[2,4,7] convolution(p, k), window={size=2}, dim_labels=bf0_oi0->bf0
}"""


@pytest.mark.parametrize("number", [-1, 256, 2**31 - 1, 2**63 - 1])
@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ConvDimensions)])
def test_dimension_numbers_are_bounded(field: str, number: int):
    message = module_message(xlapy.parse_hlo(CONVOLUTION))
    numbers = message.computations[0].instructions[-1].convolution_dimension_numbers
    if "spatial" in field:
        getattr(numbers, field)[0] = number
    else:
        setattr(numbers, field, number)
    with pytest.raises(ProtoError, match=rf"'v' \(convolution\).*{field} has the dimension {number}, which"):
        Module.from_proto(encode(message))


@pytest.mark.parametrize("brackets", ["{}", "<>"])
@pytest.mark.parametrize("depth", [101, 100_000])
def test_texts_that_nest_too_deep(brackets: str, depth: int):
    opening, closing = brackets
    shape = f"tuple_shapes {opening} # {{\n" * depth + f" {closing}\n" * depth
    text = f'name: "{{{{" computations {opening} instructions {opening} shape {opening}\n{shape} {closing * 3}'
    with raises(ProtoError, text_codes.NESTING, "line 99", "100"):
        from_text_format(text)
    with raises(ProtoError, text_codes.NESTING, "100 levels"):
        read_module_text(text)


def test_text_that_is_not_utf8():
    with raises(ProtoError, proto_codes.PROTO_ENCODING):
        from_text_format('name: "\\377"')


@pytest.mark.parametrize("character", ["\udc80", "\ud800"])
@pytest.mark.parametrize(
    "text",
    [
        "host_program_shape {{\n parameters {{ element_type: {} }} }}",
        "\nid: {}",
        "\n{}: 1",
        "\nname: '{}'",
        "name: 'm'\n# {}",
    ],
)
def test_characters_that_are_not_utf8(text: str, character: str):
    with raises(ProtoError, text_codes.CHARACTERS, f"line 2: U+{ord(character):04X}"):
        from_text_format(text.format(character))


def test_numbers_that_do_not_fit_in_their_fields():
    module = xlapy.parse_hlo(
        "ENTRY e { p = f32[4] parameter(0)\n"
        "ROOT r = f32[3] reduce-precision(p), exponent_bits=8, mantissa_bits=2147483648 }",
        verify=False,
    )
    with raises(ProtoError, proto_codes.PROTO_FIELDS, "(reduce-precision)", "'e'", "2147483648"):
        module.to_proto()

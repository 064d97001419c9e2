"""Malicious StableHLO is read in proportion to its length, or rejected with a position.

Each input made a reader of an earlier version die, hang, recurse without end or fill memory.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from tests.raising import raises
from xlapy.base.element_types import S32
from xlapy.base.error_codes.compilation.compiling import ELIDED_CONSTANT
from xlapy.base.errors import ParseError, ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import MAX_ARRAY_RANK
from xlapy.debugging.hostile.examiner import Outcome, Verdict, examine
from xlapy.debugging.hostile.formats import HostileFormat
from xlapy.hlo.sharding import Sharding
from xlapy.opcodes.attributes.mesh import MAX_AXIS_REFERENCES, MAX_MESH_AXES, AxisRef, Mesh, check_axes
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import bytecode_file, read_bytecode, write_bytecode, writer
from xlapy.stablehlo.bytecode.encoding_emitter import EncodingEmitter
from xlapy.stablehlo.bytecode.legalize_to_vhlo import required_version
from xlapy.stablehlo.export import to_stablehlo
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.importing.core.constant_evaluation import ConstantEvaluator
from xlapy.stablehlo.importing.core.locations import LocationImporter
from xlapy.stablehlo.text import parse_text, parse_type
from xlapy.testing.stablehlo.dynamic import DYNAMIC
from xlapy.text import parse_hlo

F32 = "tensor<f32>"


def function(
    body: str, signature: str = f"%a: {F32}", result: str = F32, returned: str = "%a", before: str = ""
) -> str:
    return f"{before}\nfunc.func @main({signature}) -> {result} {{\n{body}\nreturn {returned} : {result}\n}}\n"


def outcome_of(read: Callable[[], object]) -> Outcome:
    """Returns what reading leads to, with the time and memory that it takes."""
    return examine(HostileFormat("test", lambda: [b""], lambda rng, corpus: b"", lambda data: read()), b"")


def read_text(text: str) -> Outcome:
    return outcome_of(lambda: import_program(parse_text(text), text=text))


def assert_rejected(outcome: Outcome, message: str) -> None:
    assert outcome.verdict is Verdict.REJECTED, outcome
    assert re.search(message, outcome.message), outcome.message
    assert outcome.memory < 100 << 20


# -- bytecode: announced numbers


class Announcing(writer._OperationWriter):
    """Writes a program whose inner regions announce other numbers of blocks and values, in the order of the regions."""

    def __init__(self, module: ir.Operation, blocks: int | None, values: int | None) -> None:
        super().__init__(required_version(module))
        self.blocks, self.values, self.depth = blocks, values, 0

    def _region(self, emitter: EncodingEmitter, region: ir.Region, first: int) -> None:
        start = len(emitter.data)
        self.depth += 1
        super()._region(emitter, region, first)
        self.depth -= 1
        if self.depth < 2:
            return
        written = bytes(emitter.data[start:])
        del emitter.data[start:]
        emitter.varint(self.blocks or written[0] >> 1)  # both numbers take a byte here
        emitter.varint(self.values or written[1] >> 1)
        emitter.data += written[2:]


def nested_cases(levels: int) -> ir.Operation:
    body = f"%r{levels} = stablehlo.negate %arg0 : {F32}\nstablehlo.return %r{levels} : {F32}\n"
    for level in reversed(range(levels)):
        body = f'%r{level} = "stablehlo.case"(%arg1) ({{\n{body}}}) : (tensor<i32>) -> {F32}\n'
        body += f"stablehlo.return %r{level} : {F32}\n"
    body = body.rsplit("stablehlo.return", 1)[0]
    return parse_text(function(body, f"%arg0: {F32}, %arg1: tensor<i32>", returned="%r0"))


def announced(
    levels: int, padding: int, *, blocks: int | None = None, values: int | None = None, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """Returns bytecode whose regions announce these numbers, which `padding` bytes at the end make possible."""
    module = nested_cases(levels)
    section = EncodingEmitter.section
    last = [0]

    def padded(self: EncodingEmitter, kind: int, data: bytes) -> None:
        last[0] += 1
        section(self, kind, data + b"\x01" * padding if last[0] == 1 else data)

    with monkeypatch.context() as context:
        context.setattr(EncodingEmitter, "section", padded)
        return Announcing(module, blocks, values).file(module)


def test_announced_numbers_are_read_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_bytecode(announced(3, 0, monkeypatch=monkeypatch)).name == "builtin.module"


@pytest.mark.parametrize("announcement", ["values", "blocks"])
def test_announced_values_and_blocks_take_no_memory(announcement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1_000_000
    data = announced(90, size, **{announcement: size}, monkeypatch=monkeypatch)
    outcome = outcome_of(lambda: read_bytecode(data))
    assert outcome.verdict is Verdict.REJECTED
    assert re.search("byte [0-9]+: (value 92 is used before|there is no operation name)", outcome.message)
    assert outcome.memory < 32 << 20
    assert outcome.seconds < 0.5


def test_empty_blocks_take_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    # The closing of the outer regions is missing, so that the padding becomes the blocks of the innermost one.
    outcome = outcome_of(lambda: read_bytecode(announced(1, 200_000, blocks=200_000, monkeypatch=monkeypatch)))
    assert not outcome.verdict.is_fault, outcome


# -- bytecode: references


def file_with_entries(
    attributes: list[bytes],
    types: list[bytes],
    body: bytes = b"\x01",
    *,
    dialect: bytes = b"builtin",
    more: Sequence[tuple[int, bytes]] = (),
) -> bytes:
    """Returns a file with encoded attributes and types of a dialect, a section of operations and more sections."""
    strings = EncodingEmitter()
    strings.varint_list([len(dialect) + 1])
    strings.data += dialect + b"\0"
    dialects = EncodingEmitter()
    dialects.varint(1)
    dialects.varint_with_flag(0, False)
    dialects.varint(1)
    dialects.varints(0, 1)
    dialects.varint_with_flag(0, True)
    offsets = EncodingEmitter()
    offsets.varints(len(attributes), len(types))
    for table in (attributes, types):
        if table:
            offsets.varints(0, len(table))
            for entry in table:
                offsets.varint_with_flag(len(entry), True)
    file = EncodingEmitter()
    file.data += bytecode_file.MAGIC
    file.varint(bytecode_file.MAX_SUPPORTED_VERSION)
    file.null_terminated("test")
    for kind, data in (
        (bytecode_file.STRINGS, bytes(strings.data)),
        (bytecode_file.DIALECTS, bytes(dialects.data)),
        (bytecode_file.ATTRIBUTE_TYPE_OFFSETS, bytes(offsets.data)),
        (bytecode_file.ATTRIBUTES_AND_TYPES, b"".join(attributes + types)),
        *more,
        (bytecode_file.IR, body),
    ):
        file.section(kind, data)
    return bytes(file.data)


def encoded(*numbers: int) -> bytes:
    emitter = EncodingEmitter()
    emitter.varints(*numbers)
    return bytes(emitter.data)


def module_with_location(index: int) -> bytes:
    """Returns a block of one operation whose location is the attribute with a number."""
    return encoded(1 << 1, 0) + b"\0" + encoded(index)


ARRAY, CALL_SITE, UNKNOWN = 0, 10, 15
TUPLE, INDEX, CONSTANT = 15, 1, 18


def test_arrays_of_arrays_that_share_do_not_double() -> None:
    attributes = [encoded(UNKNOWN), *(encoded(ARRAY, 2, index, index) for index in range(60))]
    data = file_with_entries(attributes, [], module_with_location(60))
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "BytecodeError: .*stand for too many")


def test_arrays_nest_to_a_limit() -> None:
    attributes = [encoded(UNKNOWN), *(encoded(ARRAY, 1, index) for index in range(5_000))]
    data = file_with_entries(attributes, [], module_with_location(5_000))
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "BytecodeError: .*nests deeper than 100")


def test_call_stacks_that_share_do_not_double() -> None:
    attributes = [encoded(UNKNOWN), *(encoded(CALL_SITE, index, index) for index in range(200))]
    data = file_with_entries(attributes, [], module_with_location(200))
    outcome = outcome_of(lambda: read_bytecode(data))
    assert_rejected(outcome, "BytecodeError")
    assert outcome.seconds < 0.5


def test_tuples_of_tuples_that_share_do_not_double() -> None:
    types = [encoded(INDEX), *(encoded(TUPLE, 2, index, index) for index in range(60))]
    constant = encoded(6, 60)  # a type as an attribute
    data = file_with_entries([constant], types, module_with_location(0))
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "BytecodeError: .*(stand for too many|65536 is the most)")


def test_long_chains_of_unread_attributes_are_not_read_again_and_again() -> None:
    """An array of many deep chains is begun anew for each of them; the work is counted."""
    chains, depth = 400, 60
    attributes = [encoded(UNKNOWN)]
    ends = []
    for _ in range(chains):
        attributes.append(encoded(CALL_SITE, 0, 0))
        attributes += [encoded(CALL_SITE, 0, len(attributes) + step - 1) for step in range(depth)]
        ends.append(len(attributes) - 1)
    attributes.append(encoded(ARRAY, chains, *ends))
    outcome = outcome_of(
        lambda: read_bytecode(file_with_entries(attributes, [], module_with_location(len(attributes) - 1)))
    )
    assert_rejected(outcome, "expected a location|too many")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [([-5], "size of dimension 0 is -5"), ([2**61, 4], "64-bit byte count"), ([1] * 65, "at most 64 dimensions")],
)
def test_sizes_of_bytecode_are_checked(sizes: list[int], message: str) -> None:
    tensor = EncodingEmitter()
    tensor.varint(13)
    tensor.signed_varint_list(sizes)
    tensor.varint(0)
    constant = encoded(CONSTANT, 1, 8) + bytes(8)
    data = file_with_entries([constant], [encoded(INDEX), bytes(tensor.data)], module_with_location(0))
    assert_rejected(outcome_of(lambda: read_bytecode(data)), f"BytecodeError: .*{message}")


def test_entries_without_bytes_are_rejected() -> None:
    data = file_with_entries([b""] * 100_000, [])
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "BytecodeError: .*an attribute or type has no bytes")


def test_tables_take_memory_in_proportion() -> None:
    properties = encoded(500_000) + encoded(0) * 500_000
    attributes = [encoded(UNKNOWN)] * 500_000
    data = file_with_entries(attributes, [], more=[(bytecode_file.PROPERTIES, properties)])
    outcome = outcome_of(lambda: read_bytecode(data))
    assert outcome.verdict is Verdict.REJECTED
    assert outcome.memory < 40 * len(data)


def test_names_of_dialects_are_bounded() -> None:
    data = file_with_entries([encoded(UNKNOWN)], [], dialect=b"x" * 1_000)
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "name of a dialect has 1000 characters, more than 200")


def test_elements_of_a_resource_are_made_once() -> None:
    """A reference to a resource takes a few bytes, and its booleans a byte each."""
    blob = encoded(1, 200_000) + bytes(200_000)
    resources = [
        (bytecode_file.RESOURCES, blob),
        (bytecode_file.RESOURCE_OFFSETS, encoded(0, 0, 1, 0, len(blob)) + b"\0"),
    ]
    tensor = EncodingEmitter()
    tensor.varint(13)
    tensor.signed_varint_list([200_000])
    tensor.varint(0)
    attributes = [encoded(16, 1, 0)] * 200
    attributes.append(encoded(ARRAY, 200, *range(200)))
    data = file_with_entries(
        attributes, [encoded(0, 1 << 2), bytes(tensor.data)], module_with_location(200), more=resources
    )
    outcome = outcome_of(lambda: read_bytecode(data))
    assert_rejected(outcome, "expected a location, found")
    assert outcome.memory < 16 << 20


def test_an_array_attribute_is_no_splat() -> None:
    array = encoded(17, 0, 2**40, 8) + bytes(8)
    data = file_with_entries([array], [encoded(INDEX)], module_with_location(0))
    assert_rejected(outcome_of(lambda: read_bytecode(data)), "BytecodeError: .*array of 1099511627776 elements has one")


# -- text: splats

HUGE = 2**60 + 1


def reduce_window(padding: str) -> str:
    return function(
        f"""%c = stablehlo.constant dense<1.0> : tensor<2xf32>
        %0 = "stablehlo.reduce_window"(%c, %a) ({{
        ^bb0(%x: {F32}, %y: {F32}): "stablehlo.return"(%x) : ({F32}) -> () }})
        {{window_dimensions = array<i64: 1>, padding = {padding}}} : (tensor<2xf32>, {F32}) -> tensor<2xf32>"""
    )


def broadcast(dimensions: str) -> str:
    return function(
        f'%0 = "stablehlo.broadcast_in_dim"(%a) {{broadcast_dimensions = {dimensions}}} : ({F32}) -> tensor<4xf32>'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (broadcast(f"dense<1> : tensor<{HUGE}xi64>"), "64-bit byte count"),
        (broadcast(f"dense<1> : tensor<{2**40}xi64>"), "1099511627776 equal elements are not listed"),
        (broadcast(f"dense<1> : tensor<{'1x' * 65}i64>"), "at most 64 dimensions, not 65"),
        (broadcast(f"dense<> : tensor<0x{2**62}x{2**62}xi64>"), "64-bit byte count"),
        (reduce_window(f"dense<0> : tensor<{2**40}x2xi64>"), "2199023255552 equal elements are not listed"),
        (function(f"%0 = stablehlo.constant dense<1.0> : tensor<{HUGE}x{HUGE}xf32>"), "64-bit byte count"),
        (function(f"%0 = stablehlo.constant dense<1.0> : tensor<{2**64}xf32>"), "is not in 0 to 2\\*\\*63"),
    ],
)
def test_splats_are_not_spelled_out(text: str, message: str) -> None:
    assert_rejected(read_text(text), f"ParseError(.|\n)*{message}")


def test_a_huge_splat_is_a_constant() -> None:
    text = function(f"%0 = stablehlo.constant dense<1.0> : tensor<{2**50}xf32>")
    outcome = read_text(text)
    assert outcome.verdict is Verdict.ACCEPTED
    assert outcome.memory < 16 << 20


def test_defaults_of_bytecode_are_recognized_in_splats() -> None:
    splat = parse_text(reduce_window("dense<0> : tensor<1x2xi64>"))
    assert read_bytecode(write_bytecode(splat)).name == "builtin.module"


def test_a_resource_is_decoded_once() -> None:
    data = "00" * 200_000
    body = "\n".join(f"%{i} = stablehlo.constant dense_resource<r> : tensor<50000xf32>" for i in range(3_000))
    text = function(body) + f'{{-# dialect_resources: {{ builtin: {{ r: "0x04000000{data}" }} }} #-}}'
    outcome = read_text(text)
    assert not outcome.verdict.is_fault, outcome
    assert outcome.memory < 64 << 20


# -- text: sharing and nesting


def doubled(sign: str, first: str, form: str, levels: int = 60) -> str:
    lines = [f"{sign}a0 = {first}"]
    lines += [f"{sign}a{level} = " + form.format(f"{sign}a{level - 1}") for level in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (doubled("!", F32, "tuple<{0}, {0}>"), "65536 is the most"),
        (doubled("!", F32, "({0}, {0}) -> ()"), "65536 is the most"),
        (doubled("!", F32, "!stablehlo.future<{0}, {0}>"), "65536 is the most"),
        (doubled("!", F32, "tuple<{0}>", 5_000), "nest 65 deep"),
        (doubled("#", "[]", "[{0}, {0}]", 49), "stand for too many"),
        (doubled("#", "{a}", "{{a = {0}, b = {0}}}", 49), "stand for too many"),
        (doubled("#", "1 : i32", "#stablehlo.channel_handle<handle = {0}, type = {0}>", 49), "stand for too many"),
        (doubled("#", "[]", "[{0}]", 5_000), "nested more than 50 levels"),
    ],
)
def test_aliases_do_not_double_nor_nest_without_end(text: str, message: str) -> None:
    assert_rejected(read_text(text + "\n" + function("")), f"ParseError(.|\n)*{message}")


@pytest.mark.parametrize("value", [f'"{"x" * 50_000}"', f"dense<{list(range(5_000))}> : tensor<5000xi64>"])
def test_aliases_do_not_multiply_long_attributes(value: str) -> None:
    uses = "\n".join('"x.y"() {a = #a} : () -> ()' for _ in range(3_000))
    assert_rejected(outcome_of(lambda: parse_text(f"#a = {value}\n{uses}")), "ParseError(.|\n)*stand for too many")
    assert parse_text(f"#a = {value}\n{uses[:300]}"[:-1].rsplit("\n", 1)[0]).name == "builtin.module"


def test_digits_are_ascii() -> None:
    assert_rejected(read_text(function("%0 = stablehlo.negate %a : tensor<\u0664xf32>")), "expected a type")
    mesh = 'sdy.mesh @m = <["x"=\u0664]>\n'
    use = '%0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding<@m, [{"x"}]>} : tensor<f32>'
    assert_rejected(read_text(function(use, before=mesh)), "axis|cannot parse|rank|mesh")


def test_frames_of_call_stacks_are_bounded() -> None:
    body = "\n".join(f"%{i} = stablehlo.negate %a : {F32} loc(#l{i})" for i in range(2_000))
    stack = "\n".join(f'#l{i} = loc(callsite("f{i}"("x":{i}:1) at #l{i - 1}))' for i in range(1, 2_000))
    module = import_program(parse_text(f'{function(body)}#l0 = loc("f"("a":1:2))\n{stack}'))
    assert module.stack_frames is not None
    assert 2_000 < len(module.stack_frames.frames) < 140_000


@pytest.mark.parametrize("sign", "!#")
def test_aliases_are_defined_once(sign: str) -> None:
    text = f"{sign}a = f32\n{sign}a = f64\n" + function("")
    assert_rejected(read_text(text), f"ParseError(.|\n)*alias '{sign}a' is defined twice")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("tuple<", ">"),
        ("complex<", ">"),
        ("() -> ", ""),
        ("tensor<4xf32, ", ">"),
        ("#stablehlo.mesh<axes = ", ">"),
        ("#stablehlo.mesh<axes = [<name = ", ">]>"),
        ("{a = ", "}"),
        ("#stablehlo<mesh<axes = ", ">>"),
        ("tensor<4x!quant.uniform<i8:f32, {", "}>>"),
        ("loc(callsite(", "))"),
    ],
)
def test_nesting_ends_in_an_error_and_not_on_the_stack(opening: str, closing: str) -> None:
    for levels in (49, 20_000):
        text = f'module {{\n"x.y"() {{a = {opening * levels}f32{closing * levels}}} : () -> ()\n}}'
        outcome = outcome_of(partial(parse_text, text))
        assert not outcome.verdict.is_fault, outcome


def test_composite_types_are_one_object_if_equal() -> None:
    pair = "tuple<tensor<f32>, tuple<tensor<4xf32>>>"
    text = f'!t = {pair}\n%0 = "x.y"() : () -> !t\n"x.y"(%0) : ({pair}) -> ()'
    first, second = parse_text(text).regions[0].blocks[0].operations
    assert second.operands[0].type is first.results[0].type
    assert parse_type(pair) == first.results[0].type
    assert hash(parse_type(pair)) == hash(first.results[0].type)


# -- text: scans


@pytest.mark.parametrize(
    "text",
    [
        "%" + " " * 200_000,
        "%a" + "," * 200_000,
        'module attributes {a = #b<"' + '\\"' * 100_000,
        "module attributes {a = #b<" + '"' * 99_999,
        'module { "a.b"() : () -> () loc(' + '"\\"' * 50_000,
        f"%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f, {', '.join(map(str, range(20_000)))}]x[0]",
        "tensor<" + "1x" * 100_000,
        'module { "a.b"() {a = ' + "9" * 100_000 + "} : () -> () }",
        'module { "a.b"() {a = dense<' + "9" * 100_000 + "> : tensor<1xi64>} : () -> () }",
        'module { "a.b"() {a = #stablehlo.axis_ref<name = "x", sub_axis_info = (1)' + "9" * 9_999 + ">} : () -> () }",
    ],
)
def test_texts_are_scanned_once(text: str) -> None:
    outcome = outcome_of(lambda: parse_text(text))
    assert not outcome.verdict.is_fault, outcome


# -- import


def chain(levels: int, calls: int, is_dynamic: bool) -> str:
    """Returns functions that each call the next, so often; with unknown sizes, they are inlined."""
    type_ = "tensor<?xf32>" if is_dynamic else "tensor<4xf32>"
    text = function(
        f"%x = stablehlo.convert %a : (tensor<4xf32>) -> {type_}\n%y = call @f0(%x) : ({type_}) -> {type_}",
        "%a: tensor<4xf32>",
        "tensor<4xf32>",
    )
    for level in range(levels + 1):
        called = "".join(
            f"%{i + 1} = call @f{level + 1}(%{i}) : ({type_}) -> {type_}\n" for i in range(calls * (level < levels))
        )
        text += f"func.func private @f{level}(%p: {type_}) -> {type_} {{\n%0 = stablehlo.negate %p : {type_}\n{called}"
        text += f"return %0 : {type_}\n}}\n"
    return text


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_deep_calls_end_in_an_error(is_dynamic: bool) -> None:
    assert_rejected(read_text(chain(1000, 1, is_dynamic)), "UnsupportedError(.|\n)*calls nest deeper than 100 levels")
    assert read_text(chain(60, 1, is_dynamic)).verdict is Verdict.ACCEPTED


def test_inlined_calls_that_double_end_in_an_error() -> None:
    with pytest.raises(UnsupportedError, match=r"are repeated more than [0-9]+ times"):
        import_program(parse_text(chain(40, 2, True)))
    assert import_program(parse_text(chain(6, 2, True))).instruction_count == 2**7


def test_inlined_calls_that_only_call_are_counted() -> None:
    text = chain(40, 2, True).replace("%0 = stablehlo.negate %p : tensor<?xf32>\n", "").replace("%0", "%p")
    assert_rejected(read_text(text), "are repeated more than [0-9]+ times")


def test_calls_that_double_are_not_evaluated() -> None:
    text = "HloModule m\nc60 { p = s32[] parameter(0)  ROOT a = s32[] negate(p) }\n"
    for level in reversed(range(60)):
        text += f"c{level} {{ p = s32[] parameter(0)  a = s32[] call(p), to_apply=c{level + 1}\n"
        text += f"  ROOT b = s32[] call(a), to_apply=c{level + 1} }}\n"
    module = parse_hlo(f"{text}ENTRY e {{ a = s32[] constant(1)  ROOT b = s32[] call(a), to_apply=c0 }}")
    outcome = outcome_of(lambda: ConstantEvaluator().value_of(module.entry_computation.root_instruction))
    assert outcome.verdict is Verdict.ACCEPTED, outcome


def test_huge_windows_are_not_evaluated() -> None:
    text = """HloModule m
sum { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
ENTRY e { a = s32[1] constant({1})  z = s32[] constant(0)
  ROOT r = s32[2] reduce-window(a, z), window={size=1000000000000 pad=1000000000000_0}, to_apply=sum }"""
    root = parse_hlo(text).entry_computation.root_instruction
    outcome = outcome_of(lambda: ConstantEvaluator().value_of(root))
    assert outcome.verdict is Verdict.ACCEPTED, outcome
    assert ConstantEvaluator().value_of(root) is None


def test_regions_nest_to_a_limit_in_operations_that_are_inlined() -> None:
    body = f"stablehlo.return %a : {F32}\n"
    for level in range(2_000):
        region = f"({{\n^bb0(%x{level}: {F32}):\n{body}}})"
        body = f'%r{level} = "sdy.named_computation"(%a) {region} {{name = "n"}} : ({F32}) -> {F32}\n'
        body += f"stablehlo.return %r{level} : {F32}\n"
    outcome = read_text(function(body.rsplit("stablehlo.return", 1)[0]))
    assert_rejected(outcome, "nest deeper than 100 levels|too deep")


def test_long_names_are_not_copied_for_each_instruction() -> None:
    body = "\n".join(f"%{i} = stablehlo.negate %a : {F32} loc(#l)" for i in range(2_000))
    text = function(body) + f'#l = loc("{"x" * 500_000}")\n'
    outcome = read_text(text)
    assert outcome.verdict is Verdict.ACCEPTED
    assert outcome.memory < 64 << 20


def test_locations_keep_first_and_last_names() -> None:
    location = ir.UNKNOWN_LOCATION
    for number in range(200):
        location = ir.named_location(f"n{number}", location)
    assert (location.names[0], location.names[-1], len(location.names)) == ("n199", "n0", ir.MAX_NAMES)
    assert LocationImporter().metadata_and_name(location)[1] == "n199"


def test_shardings_share_their_mesh() -> None:
    devices = random.Random(0).sample(range(4096), 4096)
    mesh = f'sdy.mesh @m = <["x"=4096], device_ids={devices}>\n'
    body = "\n".join(
        f"%{i} = stablehlo.negate %a {{sdy.sharding = #sdy.sharding<@m, []{' ' * i}>}} : {F32}" for i in range(750)
    )
    outcome = read_text(function(body, before=mesh))
    assert outcome.verdict is Verdict.ACCEPTED, outcome


def test_sharding_over_a_mesh() -> None:
    mesh = Mesh.make(["x", "y"], [2, 4])
    assert Sharding.over_mesh(mesh, "[{'x'}, {?}], replicated={'y'}}") == Sharding.parse(
        "{mesh['x'=2,'y'=4], [{'x'}, {?}], replicated={'y'}}"
    )
    with pytest.raises(ParseError):
        Sharding.over_mesh(mesh, "[{'x'}]} {")


def test_axes_are_bounded() -> None:
    names = [f"a{i}" for i in range(MAX_MESH_AXES + 1)]
    with pytest.raises(ShapeError, match="a mesh has at most 128 axes, not 129"):
        Mesh.make(names, [1] * len(names))
    mesh = Mesh.make(["x"], [4])
    with pytest.raises(ShapeError, match="at most 1024 axes and sub-axes, not 1025"):
        check_axes([AxisRef(0)] * (MAX_AXIS_REFERENCES + 1), mesh)


def test_types_check_their_sizes() -> None:
    for sizes, bounds in (((-1,), ()), ((2**63,), ()), ((None,), (-3,)), ((None,), (1, 2))):
        with pytest.raises(ShapeError):
            ir.TensorType(sizes, ir.IndexType(), bounds)


# -- what the import rules rely on


@pytest.mark.parametrize("name", DYNAMIC)
def test_programs_of_unknown_sizes_are_read(name: str) -> None:
    assert import_program(parse_text(DYNAMIC[name])).instruction_count > 1


def all_reduce(groups: str) -> str:
    region = f"({{ ^bb0(%x: {F32}, %y: {F32}): stablehlo.return %x : {F32} }})"
    return function(f'%0 = "stablehlo.all_reduce"(%a) <{{replica_groups = {groups}}}> {region} : ({F32}) -> {F32}')


def mesh_groups(axes: str, used: str = '#stablehlo.axis_ref<name = "x">') -> str:
    mesh = f"#stablehlo.mesh<axes = {axes}>"
    return all_reduce(f"#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [{used}]>")


def custom_call(target: str, operands: str, types: str, results: str, attributes: str = "") -> str:
    constants = "%k = stablehlo.constant dense<[]> : tensor<0xi64>\n%c = stablehlo.constant dense<2> : tensor<i64>\n"
    constants += "%t = stablehlo.create_token : !stablehlo.token\n"
    call = f"stablehlo.custom_call @{target}({operands}) {{{attributes}}} : ({types}) -> {results}"
    return function(constants + call)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (mesh_groups('[<name = "x", size = 16777216>]'), "16777216 device ids, more than"),
        (mesh_groups('[<name = "x">]'), "size below 1"),
        (mesh_groups("[<name = [1], size = 2>]"), "name of a mesh axis must be a string"),
        (mesh_groups('[<name = "x", size = "y">]'), "mesh_axis.size must be an integer"),
        (mesh_groups("[1]"), "must be a list of structs"),
        (mesh_groups("unit"), "must be a list"),
        (mesh_groups('[<name = "x", size = 2>]', "1"), "must be a list of structs"),
        (
            mesh_groups('[<name = "x", size = 2>]', '#stablehlo.axis_ref<name = "x", sub_axis_info = unit>'),
            "sub_axis_info of 'x' must be a struct",
        ),
        (custom_call("stablehlo.dynamic_top_k", "%a", F32, "()"), "takes 2 operands, but has 1"),
        (custom_call("stablehlo.dynamic_top_k", "%a, %c", f"{F32}, tensor<i64>", F32), "takes 2 results, but has 1"),
        (custom_call("stablehlo.dynamic_top_k", "%a, %k", f"{F32}, tensor<0xi64>", f"({F32}, {F32})"), "one integer"),
        (custom_call("stablehlo.dynamic_rng_bit_generator", "", "", "()"), "takes 2 operands, but has 0"),
        (custom_call("stablehlo.dynamic_reduce_window", "%a", F32, "()"), "at least 5 operands"),
        (custom_call("mhlo.topk", "", "", "()", "mhlo.attributes = {k = 1 : i64}"), "takes 1 operands, but has 0"),
        (custom_call("mhlo.erf", "%t", "!stablehlo.token", F32), "operand 0 must be an array, but is token"),
        (custom_call("shape_assertion", "", "", "()"), "takes a condition"),
        (custom_call("x", "", "", "()", "custom_call_schedule = {}, backend_config = [1]"), "backend_config must be"),
        (
            custom_call("x", "", "", F32, "result_accuracy = #stablehlo.result_accuracy<atol = [1], mode = TOLERANCE>"),
            "",
        ),
        (function('%0 = "arith.select"() : () -> tensor<f32>'), "select"),
        (function('%0 = "arith.divui"(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>'), "takes integers, not f32"),
        (
            function('%0 = "shape.num_elements"(%a) : (tensor<f32>) -> index'),
            "a shape is a vector of at most 256 sizes",
        ),
        (
            function(
                f"%v = stablehlo.iota dim = 0 : tensor<{2**40}xi64>\n"
                f'%0 = "shape.num_elements"(%v) : (tensor<{2**40}xi64>) -> index'
            ),
            "a shape is a vector of at most 256 sizes, not s64",
        ),
        (
            function(
                "%v = stablehlo.constant dense<1> : tensor<2xi64>\n"
                '%0 = "tensor.dim"(%a, %v) : (tensor<f32>, tensor<2xi64>) -> index'
            ),
            "must be one integer",
        ),
        (
            function('%0 = "tensor.collapse_shape"(%a) {reassociation = 1 : i64} : (tensor<f32>) -> tensor<f32>'),
            "reassociation must be an array",
        ),
        (
            function(
                f'%0 = "stablehlo.all_to_all"(%a) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, '
                f"split_count = {2**60} : i64, replica_groups = dense<> : tensor<0x0xi64>}}> : ({F32}) -> {F32}"
            ),
            "split_count must be from 1",
        ),
        (
            function("%t = stablehlo.tuple %a : tuple<tensor<f32>>\n%0 = stablehlo.negate %t : tuple<tensor<f32>>"),
            r"operand 0 must be an array, but is \(f32",
        ),
        (function("", f"%a: {F32} {{mhlo.memory_kind = {{}}}}"), "mhlo.memory_kind {}"),
        (function("", f"%a: {F32} {{mhlo.layout_mode = [1]}}"), "mhlo.layout_mode must be a string"),
    ],
)
def test_operands_and_attributes_are_checked(text: str, message: str) -> None:
    assert_rejected(read_text(text), message)


def test_arrays_have_a_largest_rank() -> None:
    with pytest.raises(ShapeError, match="an array has at most 256 dimensions, not 257"):
        Shape.array(S32, (1,) * 257)
    assert Shape.array(S32, (1,) * MAX_ARRAY_RANK).rank == 256
    many = "1x" * 20_000
    text = function(f"%0 = stablehlo.transpose %a, dims = [0] : (tensor<{many}f32>) -> tensor<{many}f32>")
    assert_rejected(read_text(text), "ParseError(.|\n)*a tensor has at most 256 dimensions, not 20000")


def test_pairs_of_a_collective_permute_are_counted_once() -> None:
    pairs = [[i, i] for i in range(20_000)]
    groups = f"source_target_pairs = dense<{pairs}> : tensor<20000x2xi64>"
    outcome = read_text(function(f'%0 = "stablehlo.collective_permute"(%a) <{{{groups}}}> : ({F32}) -> {F32}'))
    assert not outcome.verdict.is_fault, outcome


def test_captured_values_are_not_copied_without_end() -> None:
    """A value that the innermost of nested regions reads is an operand of all of them."""
    body = "\n".join(f"%n{i} = stablehlo.negate %v{i} : {F32}" for i in range(600)) + f"\nstablehlo.return %a : {F32}\n"
    for level in range(90):
        regions = f"({{\n{body}}}, {{ stablehlo.return %a : {F32} }})"
        body = f'%w{level} = "stablehlo.if"(%p) {regions} : (tensor<i1>) -> {F32}\nstablehlo.return %w{level} : {F32}\n'
    values = "\n".join(f"%v{i} = stablehlo.sine %a : {F32}" for i in range(600))
    text = function(values + "\n" + body.rsplit("stablehlo.return", 1)[0], f"%a: {F32}, %p: tensor<i1>")
    assert_rejected(read_text(text), "values that regions capture, are repeated more than")


def test_functions_of_hundreds_of_instructions_are_accepted() -> None:
    body = "\n".join(f"%{i} = chlo.polygamma %a, %a : {F32}, {F32} -> {F32}" for i in range(60))
    assert import_program(parse_text(function(body))).instruction_count > 20_000


def test_many_arguments_are_accepted() -> None:
    arguments = ", ".join(f"%a{i}: {F32}" for i in range(12_000))
    assert import_program(parse_text(function("", arguments, returned="%a0"))).instruction_count == 12_000


def doubling(operation: str, start: str) -> str:
    """Returns HLO of 40 computations, each of which has the one before it twice, by an operation on `p`."""
    text = f"HloModule m\nc0 {{ {start} }}\n"
    for level in range(1, 40):
        first, second = (
            operation.replace("OPERAND", operand).replace("INNER", f"c{level - 1}") for operand in ("p", "a")
        )
        text += f"c{level} {{ p = f32[] parameter(0)  a = {first}\n  ROOT b = {second} }}\n"
    return f"{text}ENTRY e {{ p = f32[] parameter(0)  ROOT b = f32[] call(p), to_apply=c39 }}"


@pytest.mark.parametrize(
    "operation",
    [
        "f32[] map(OPERAND), dimensions={}, to_apply=INNER",
        "f32[] fusion(OPERAND), kind=kLoop, calls=INNER",
    ],
)
def test_computations_that_double_are_not_exported(operation: str) -> None:
    module = parse_hlo(doubling(operation, "p = f32[] parameter(0)  ROOT n = f32[] negate(p)"))
    with pytest.raises(UnsupportedError, match=r"a copy of a computation for each .* more than [0-9,]+ instructions"):
        to_stablehlo(module)


def test_an_elided_constant_is_refused_without_its_elements() -> None:
    text = "HloModule m\nENTRY e { ROOT c = f32[1000000,1000000] constant({...}) }"
    with raises(UnsupportedError, ELIDED_CONSTANT, "c (constant)"):
        to_stablehlo(parse_hlo(text))

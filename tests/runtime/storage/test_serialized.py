"""Serialized executables: results and properties are those of the original."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import limited_to
from tests.raising import raises
from xlapy.base.container import pack, unpack
from xlapy.base.error_codes.execution import custom_calls as custom_calls_codes
from xlapy.base.error_codes.execution import devices as devices_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError, XlaError
from xlapy.cpu.serialization import executable as image_module

PROGRAM = """HloModule shown
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
body { s = (s32[], f32[8]) parameter(0)  n = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)  m = s32[] add(n, one)  k = f32[8] constant({1,2,3,4,5,6,7,8})  w = f32[8] add(v, k)
  ROOT t = (s32[], f32[8]) tuple(m, w) }
condition { s = (s32[], f32[8]) parameter(0)  n = s32[] get-tuple-element(s), index=0  limit = s32[] constant(3)
  ROOT less = pred[] compare(n, limit), direction=LT }
ENTRY e {
  x = f32[64,1000] parameter(0)
  y = f32[8] parameter(1)
  zero = f32[] constant(0)
  e = f32[64,1000] exponential(x)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  i = s32[] constant(0)
  start = (s32[], f32[8]) tuple(i, y)
  end = (s32[], f32[8]) while(start), condition=condition, body=body
  r = f32[8] get-tuple-element(end), index=1
  n = s32[] get-tuple-element(end), index=0
  p = (f32[8], s32[]) tuple(r, n)
  ROOT q = (f32[64], (f32[8], s32[])) tuple(s, p), metadata={op_name="out"}
}"""
X = np.linspace(-1, 1, 64000, dtype=np.float32).reshape(64, 1000)
Y = np.arange(8, dtype=np.float32)
INCREMENT = "HloModule i\nENTRY e { x = f32[1024] parameter(0)  ROOT y = f32[1024] add(x, x) }"


@pytest.fixture(scope="module")
def client() -> xla.Client:
    return xla.Client("cpu")


@pytest.fixture(scope="module")
def executable(client) -> xla.Executable:
    return client.compile(PROGRAM)


def test_results_are_the_same_bits(client, executable):
    again = client.deserialize(executable.serialize())
    first, second = executable(X, Y), again(X, Y)
    assert np.asarray(first[0]).tobytes() == np.asarray(second[0]).tobytes()
    np.testing.assert_array_equal(second[1][0], Y + 3 * np.arange(1, 9, dtype=np.float32))
    assert int(np.asarray(second[1][1])) == 3


def test_a_loaded_executable_has_the_same_properties(client, executable):
    again = client.deserialize(executable.serialize())
    assert again.as_hlo_text() == executable.as_hlo_text()
    assert again.as_hlo_text(optimized=True) == executable.as_hlo_text(optimized=True)
    assert again.cost_analysis() == executable.cost_analysis()
    assert again.memory_analysis() == executable.memory_analysis()
    assert repr(again) == repr(executable)
    assert again.serialize() == executable.serialize()


def test_loaded_fusions_keep_their_decisions(client, executable):
    again = client.deserialize(executable.serialize()).program.stages()["fusion.txt"]
    assert again == executable.program.stages()["fusion.txt"]
    assert "e (exponential) is fused into s" in again


def test_loading_compiles_nothing(client, executable, monkeypatch):
    data = executable.serialize()
    monkeypatch.setattr("xlapy.runtime.backends.cpu.compile_module", lambda *_: pytest.fail("it is compiled"))
    monkeypatch.setattr(image_module, "passes", lambda *_: pytest.fail("it is optimized"))
    assert np.asarray(client.deserialize(data)(X, Y)[0]).shape == (64,)


def test_loading_and_running_reads_no_module(client, executable, monkeypatch):
    data, text = executable.serialize(), executable.as_hlo_text()
    monkeypatch.setattr("xlapy.runtime.storage.serialized.parse_hlo", lambda *_: pytest.fail("it is read"))
    again = client.deserialize(data)
    assert np.asarray(again(X, Y)[0]).shape == (64,)
    assert (again.name, again.program_shape) == (executable.name, executable.program_shape)
    monkeypatch.undo()
    assert again.as_hlo_text() == text


@pytest.mark.parametrize(
    "module",
    [{}, {"name": "m", "parameters": [["x"]], "result": "f32[]"}, {"name": "m", "parameters": [], "result": "f32["}],
)
def test_malformed_module_descriptions(client, executable, module):
    outer = unpack("executable", executable.serialize())
    data = pack("executable", {**outer.header, "module": module}, [bytes(section) for section in outer.sections])
    with raises(InvalidArgumentError, codes.SERIALIZED_BYTES):
        client.deserialize(data)


def test_donation_is_kept(client):
    again = client.deserialize(client.compile(INCREMENT, donate=[0]).serialize())
    given = client.device_put(np.ones(1024, np.float32))
    np.testing.assert_array_equal(again(given), np.full(1024, 2, np.float32))
    assert given.is_deleted()


def test_element_types_that_numpy_lacks_and_empty_constants(client):
    text = (
        "HloModule t\nENTRY e { x = bf16[3] parameter(0)  c = bf16[3] constant({1, nan, -0})  "
        "k = f32[0,2] constant({})  p = pred[2] constant({true, false})  i = s4[3] constant({-8, 7, 1}) "
        "y = bf16[3] add(x, c)  ROOT t = (bf16[3], f32[0,2], pred[2], s4[3]) tuple(y, k, p, i) }"
    )
    executable = client.compile(text)
    x = np.zeros(3, xla.Shape.parse("bf16[3]").dtype)
    first, second = executable(x), client.deserialize(executable.serialize())(x)
    assert [np.asarray(r).tobytes() for r in second] == [np.asarray(r).tobytes() for r in first]
    assert [np.asarray(r).shape for r in second] == [(3,), (0, 2), (2,), (3,)]


def test_dynamic_dimensions(client):
    text = "HloModule d\nENTRY e { x = f32[<=5] parameter(0)  ROOT y = f32[<=5] add(x, x) }"
    again = client.deserialize(client.compile(text).serialize())
    np.testing.assert_array_equal(again(np.ones(3, np.float32)), np.full(3, 2, np.float32))


def test_replicas_and_their_numbers():
    text = "HloModule r, replica_count=3\nENTRY e { ROOT r = u32[] replica-id() }"
    client = xla.Client("cpu", devices=3)
    again = client.deserialize(client.compile(text).serialize())
    assert [int(np.asarray(r)) for r in again.execute_sharded([[], [], []])] == [0, 1, 2]
    with raises(InvalidArgumentError, devices_codes.RUN_DEVICES):
        xla.Client("cpu").deserialize(again.serialize())


# -- errors


def test_the_interpreter_has_nothing_to_serialize():
    with raises(UnsupportedError, codes.SERIALIZABLE_PROGRAM):
        xla.Client("interpreter").compile(INCREMENT).serialize()


def test_targets_must_be_registered_in_the_loading_process(client):
    xla.register_custom_call_target("twice", lambda x: x * 2)
    try:
        call = 'ROOT my.call = f32[2] custom-call(x), custom_call_target="twice"'
        data = client.compile(f"HloModule c\nENTRY e {{ x = f32[2] parameter(0)  {call} }}").serialize()
        np.testing.assert_array_equal(client.deserialize(data)(np.ones(2, np.float32)), [2, 2])
    finally:
        xla.unregister_custom_call_target("twice")
    with raises(UnsupportedError, custom_calls_codes.TARGET_REGISTERED, "my.call (custom-call)", "'twice'"):
        client.deserialize(data)


def test_other_platforms(executable):
    with raises(InvalidArgumentError, codes.SERIALIZED_PLATFORM):
        xla.Client("interpreter").deserialize(executable.serialize())


def test_every_kind_of_damage_is_an_error(client, executable):
    data = executable.serialize()
    for place in range(0, len(data), 211):
        flipped = bytearray(data)
        flipped[place] ^= 1
        for damaged in (bytes(flipped), data[:place]):
            with pytest.raises(InvalidArgumentError, match=r"executable (is damaged|does not begin)"):
                client.deserialize(damaged)
    for other in (b"", b"HloModule m", data + data):
        with pytest.raises(InvalidArgumentError, match="the executable"):
            client.deserialize(other)


def changed(data: bytes, **header: object) -> bytes:
    """An executable whose program has another header and a correct checksum."""
    outer = unpack("executable", data)
    inner = unpack("cpu program", outer.sections[1])
    image = pack("cpu program", {**inner.header, **header}, [bytes(section) for section in inner.sections])
    return pack("executable", outer.header, [bytes(outer.sections[0]), image])


def test_processors_without_the_required_features(client, executable):
    with raises(UnsupportedError, codes.SERIALIZED_PROCESSOR, "avx99"):
        client.deserialize(changed(executable.serialize(), features=["avx99", "sse2"]))


def test_fused_multiply_adds_without_an_instruction(client):
    with limited_to("SSE4_2"):  # whose code calls the C library
        data = client.compile("ENTRY e { x = f32[100] parameter(0)  ROOT y = f32[100] exponential(x) }").serialize()
    np.testing.assert_allclose(client.deserialize(data)(X[0, :100]), np.exp(X[0, :100]), rtol=1e-6)


def test_programs_for_older_processors_contain_no_shared_code_of_newer_ones(client, executable, monkeypatch):
    registered, newer = list[str](), executable.serialize()
    monkeypatch.setattr(image_module, "register_objects", registered.extend)
    with limited_to("SSE4_2"):
        older = client.compile(PROGRAM).serialize()
        client.deserialize(newer)
        assert not registered, "programs that are compiled and serialized afterwards would contain it"
        client.deserialize(older)
    assert registered
    registered.clear()
    client.deserialize(older)
    assert registered, "newer processors execute it"


@pytest.mark.parametrize("what", ["xlapy", "sources", "llvm"])
def test_other_versions(client, executable, what):
    made = {**image_module.compiler_identity(), what: "0.0"}
    with raises(InvalidArgumentError, codes.SERIALIZED_COMPILER, f"shown was compiled with {what} 0.0"):
        client.deserialize(changed(executable.serialize(), compiler=made))


@pytest.mark.parametrize(
    "header",
    [{"imports": ["system"]}, {"arguments": ["f32["]}, {"arena_size": None}, {"constants": []}, {"aliases": [1]}],
    ids=lambda header: next(iter(header)),
)
def test_malformed_headers(client, executable, header):
    with raises(InvalidArgumentError, codes.SERIALIZED_BYTES):
        client.deserialize(changed(executable.serialize(), **header))


def test_code_that_is_not_an_object_file(client, executable):
    outer = unpack("executable", executable.serialize())
    inner = unpack("cpu program", outer.sections[1])
    image = pack("cpu program", inner.header, [bytes(inner.sections[0]), b"no code", *map(bytes, inner.sections[2:])])
    with raises(InvalidArgumentError, codes.SERIALIZED_BYTES):
        client.deserialize(pack("executable", outer.header, [bytes(outer.sections[0]), image]))


# -- programs that involve the host and other devices

COLLECTIVES = """HloModule together, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[4] parameter(0)
  sum = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  swapped = f32[4] collective-permute(x), source_target_pairs={{0,1},{1,0}}
  all = f32[8] all-gather(x), dimensions={0}, replica_groups={{0,1}}
  counts = f32[4] collective-broadcast(sum), replica_groups={{1,0}}
  ROOT t = (f32[4], f32[4], f32[8], f32[4]) tuple(sum, swapped, all, counts)
}""".replace("  large = f32[300000] broadcast(sum), dimensions={}\n", "")


def test_collectives_of_loaded_programs():
    client = xla.Client("cpu", devices=2)
    executable = client.compile(COLLECTIVES)
    again = client.deserialize(executable.serialize())
    given = [[np.arange(4, dtype=np.float32)], [np.full(4, 10, np.float32)]]
    first, second = executable.execute_sharded(given), again.execute_sharded(given)
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(second[0][0], np.arange(10, 14))
    np.testing.assert_array_equal(second[0][1], np.full(4, 10))


def test_infeeds_and_outfeeds_of_loaded_programs(client):
    text = """HloModule feeds
ENTRY e { t = token[] after-all()  f = (f32[2], token[]) infeed(t)  x = f32[2] get-tuple-element(f), index=0
  u = token[] get-tuple-element(f), index=1  y = f32[2] add(x, x)  o = token[] outfeed(y, u), outfeed_shape=f32[2]
  ROOT r = f32[2] negate(y) }"""
    again = client.deserialize(client.compile(text).serialize())
    (device,) = again.devices
    for number in range(2):  # the second run meets what the first left
        device.transfer_to_infeed(np.full(2, number, np.float32))
        np.testing.assert_array_equal(again(), np.full(2, -2 * number))
        np.testing.assert_array_equal(device.transfer_from_outfeed(), np.full(2, 2 * number))


def repacked(data: bytes, *, module_text: bytes | None = None, **changes: object) -> bytes:
    """Returns an executable with another header or module, and the right checksum."""
    container = unpack("executable", data)
    text, program = map(bytes, container.sections)
    return pack("executable", {**container.header, **changes}, [text if module_text is None else module_text, program])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"module": {"name": "i", "parameters": [["x", "f32[1000000]"]], "result": "f32[1024]"}},
            "has other parameters",
        ),
        ({"module": {"name": "i", "parameters": [["x", "f32[1024]"]], "result": "(f32[1024])"}}, None),
        ({"module": {"name": "i", "parameters": [["x", "f32[1024]"]], "result": "f32[1025]"}}, "has other result than"),
        ({"donated": [[0, [3]]]}, "has no element at {3}"),
        ({"donated": [[-1, []]]}, "parameter -1 has no array"),
        ({"num_replicas": float("inf")}, "OverflowError"),
        ({"donated": 3}, "TypeError"),
        ({"module": []}, "TypeError"),
    ],
)
def test_headers_that_do_not_fit_the_machine_code(client, changes, message):
    data = repacked(client.compile(INCREMENT).serialize(), **changes)
    if message is None:
        client.deserialize(data)
        return
    with pytest.raises(XlaError, match=re.escape(message)):
        client.deserialize(data)


def test_a_module_that_expands_without_bound_is_refused(client):
    loaded = client.deserialize(
        repacked(client.compile(INCREMENT).serialize(), module_text=zlib.compress(b" " * 50_000_000, 9))
    )
    with pytest.raises(InvalidArgumentError, match=r"the module of the executable of \d+ bytes expands to more"):
        _ = loaded.module

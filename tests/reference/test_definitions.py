"""Definitions called directly, on explicit lists of values, and properties that hold whatever the sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.element_types import F32, PrimitiveType
from xlapy.base.error_codes.execution import custom_calls as custom_calls_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import annotations as codes
from xlapy.base.error_codes.structure import editing as editing_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.base.value import TOKEN
from xlapy.hlo.communicator import SingleDevice
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.reference import Device, definition_of, evaluate_computation
from xlapy.reference.elements import bits_of, element, element_of_bits, indices, number, tabulate
from xlapy.reference.random import philox_block, three_fry_block
from xlapy.text import parse_hlo

f32 = np.float32


def parse(entry: str, called: str = "") -> Module:
    return parse_hlo(f"HloModule m\n{called}\nENTRY e {{\n{entry}\n}}", verify=True)


def root_of(entry: str, called: str = "") -> Instruction:
    return parse(entry, called).entry_computation.root_instruction


def vector(*values: float) -> Any:
    return np.array(values, f32)


class TestElements:
    def test_indices_are_in_row_major_order(self) -> None:
        assert list(indices([2, 2])) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert list(indices([])) == [()]
        assert list(indices([2**40, 0])) == []

    def test_numbers_are_exact(self) -> None:
        assert number(np.uint64(2**64 - 1)) == 2**64 - 1
        assert number(ml_dtypes.bfloat16(1.5)) == 1.5
        assert number(np.bool_(True)) is True

    @pytest.mark.parametrize(
        ("value", "name", "expected"),
        [(128, "S8", -128), (-1, "U4", 15), (2**53 + 1, "F64", 2.0**53), (2**24 + 1, "F32", 2.0**24), (-9, "S4", 7)],
    )
    def test_integers_wrap_and_floats_are_rounded_once(self, value: int, name: str, expected: float) -> None:
        assert float(element(value, PrimitiveType.from_name(name))) == expected

    def test_a_long_integer_is_rounded_once(self) -> None:
        """2^62 + 2^54 + 1 is above the middle between two bf16 numbers; rounded to f64 first, it is the middle."""
        bf16 = PrimitiveType.from_name("BF16")
        assert float(element(2**62 + 2**54 + 1, bf16)) == 2.0**62 + 2.0**55
        assert float(element(2**62 + 2**54, bf16)) == 2.0**62
        assert float(element(-(2**62) - 2**54 - 1, bf16)) == -(2.0**62) - 2.0**55

    def test_bits(self) -> None:
        for t in ("F32", "S4", "F4E2M1FN", "BF16", "U64"):
            element_type = PrimitiveType.from_name(t)
            bits = (1 << (element_type.bits - 1)) - 2
            assert bits_of(element_of_bits(bits, element_type)) == bits

    def test_tabulate(self) -> None:
        assert tabulate(F32, [2, 3], lambda i: 10 * i[0] + i[1]).tolist() == [[0, 1, 2], [10, 11, 12]]


class TestCollectives:
    """Definitions take the operands of all members and return one result per member."""

    def results(self, entry: str, members: list[list[Any]], called: str = "", *functions: Any) -> list[Any]:
        root = root_of(entry, called)
        return [np.asarray(result).tolist() for result in definition_of(root.op)(root, *functions, members)]

    def test_all_gather(self) -> None:
        entry = "p = f32[1] parameter(0)\n ROOT r = f32[3] all-gather(p), dimensions={0}, replica_groups={{2,0,1}}"
        members = [[vector(1)], [vector(2)], [vector(3)]]
        assert self.results(entry, members) == [[1, 2, 3]] * 3

    def test_all_reduce_combines_from_the_first_member_to_the_last(self) -> None:
        called = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] subtract(a, b) }"
        entry = "p = f32[1] parameter(0)\n ROOT r = f32[1] all-reduce(p), to_apply=f"
        members = [[vector(10)], [vector(1)], [vector(2)]]
        assert self.results(entry, members, called, lambda a, b: a - b) == [[7]] * 3

    def test_all_to_all(self) -> None:
        entry = "p = f32[2] parameter(0)\n ROOT r = f32[2] all-to-all(p), dimensions={0}, replica_groups={{0,1}}"
        assert self.results(entry, [[vector(1, 2)], [vector(3, 4)]]) == [[1, 3], [2, 4]]

    def test_collective_permute_gives_zeros_to_others(self) -> None:
        entry = "p = f32[1] parameter(0)\n ROOT r = f32[1] collective-permute(p), source_target_pairs={{0,1},{1,2}}"
        assert self.results(entry, [[vector(1)], [vector(2)], [vector(3)]]) == [[0], [1], [2]]

    def test_collective_broadcast(self) -> None:
        entry = "p = f32[1] parameter(0)\n ROOT r = f32[1] collective-broadcast(p), replica_groups={{1,0}}"
        assert self.results(entry, [[vector(5)], [vector(6)]]) == [[5], [5]]

    def test_a_broadcast_leaves_devices_outside_its_groups_at_zero(self) -> None:
        text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>}> :
              (tensor<2xf32>) -> tensor<2xf32>
            return %0 : tensor<2xf32>
        }"""
        for platform in ("reference", "interpreter"):
            executable = xla.Client(platform, devices=4).compile(xla.parse_stablehlo(text), num_replicas=4)
            results = executable.execute_sharded([[vector(i, i)] for i in range(4)])
            assert [np.asarray(result).tolist() for result in results] == [[0, 0], [2, 2], [2, 2], [0, 0]]

    def test_an_unknown_id_is_refused(self) -> None:
        entry = "p = f32[1] parameter(0)\n ROOT r = f32[1] collective-permute(p), source_target_pairs={{0,4}}"
        with raises(ExecutionError, codes.PAIR_MEMBERS, "2 members"):
            self.results(entry, [[vector(1)], [vector(2)]])


class Lists(SingleDevice):
    """The communicator of one device whose queues are lists."""

    def __init__(self, *fed: Any) -> None:
        self.fed = list(fed)
        self.outfed: list[Any] = []
        self.sent: list[Any] = []
        self.sent_to_host: list[Any] = []

    def infeed(self, instruction: Instruction, shape: Shape) -> Any:
        return self.fed.pop(0)

    def outfeed(self, instruction: Instruction, value: Any) -> None:
        self.outfed.append(value)

    def send(self, instruction: Instruction, target: int | None, value: Any) -> None:
        self.sent.append(value)

    def send_to_host(self, instruction: Instruction, value: Any) -> None:
        self.sent_to_host.append(value)

    def start_receive(self, instruction: Instruction, source: int | None) -> int:
        return 7

    def finish_receive(self, instruction: Instruction, number: int, shape: Shape) -> Any:
        assert number == 7
        return self.sent.pop(0)


class TestHost:
    def run(self, lists: Lists, entry: str, *arguments: Any) -> Any:
        return evaluate_computation(Device(communicator=lists), parse(entry).entry_computation, arguments)

    def test_infeed_takes_values_in_order(self) -> None:
        lists = Lists(vector(1), vector(2))
        entry = """t = token[] after-all()
            a = (f32[1], token[]) infeed(t)
            u = token[] get-tuple-element(a), index=1
            ROOT b = (f32[1], token[]) infeed(u)"""
        assert self.run(lists, entry)[0].tolist() == [2] and lists.fed == []

    def test_an_empty_tuple_takes_nothing(self) -> None:
        lists = Lists(vector(1))
        assert self.run(lists, "t = token[] after-all()\n ROOT a = ((), token[]) infeed(t)") == ((), TOKEN)
        assert len(lists.fed) == 1

    def test_outfeed_appends(self) -> None:
        lists = Lists()
        entry = (
            "p = f32[1] parameter(0)\n t = token[] after-all()\n ROOT o = token[] outfeed(p, t), outfeed_shape=f32[1]"
        )
        assert self.run(lists, entry, vector(3)) is TOKEN
        assert [value.tolist() for value in lists.outfed] == [[3]]

    def test_a_send_does_not_wait_and_a_receive_gets_the_first_value(self) -> None:
        entry = """p = f32[1] parameter(0)
            t = token[] after-all()
            s = (f32[1], u32[], token[]) send(p, t), channel_id=1
            d = token[] send-done(s), channel_id=1
            r = (f32[1], u32[], token[]) recv(d), channel_id=1
            ROOT e = (f32[1], token[]) recv-done(r), channel_id=1"""
        lists = Lists()
        assert self.run(lists, entry, vector(4))[0].tolist() == [4] and lists.sent == []

    def test_a_device_that_is_no_target_receives_zeros(self) -> None:
        pairs = '{_xla_send_recv_source_target_pairs="{{0,1}}"}'
        entry = f"""t = token[] after-all()
            r = (f32[1], u32[], token[]) recv(t), channel_id=1, frontend_attributes={pairs}
            ROOT e = (f32[1], token[]) recv-done(r), channel_id=1, frontend_attributes={pairs}"""
        assert self.run(Lists(), entry)[0].tolist() == [0]

    def test_a_host_transfer_goes_to_the_host(self) -> None:
        lists = Lists()
        entry = """p = f32[1] parameter(0)
            t = token[] after-all()
            s = (f32[1], u32[], token[]) send(p, t), channel_id=1, is_host_transfer=true
            ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true"""
        self.run(lists, entry, vector(5))
        assert [value.tolist() for value in lists.sent_to_host] == [[5]] and not lists.sent

    def test_without_a_client_there_is_no_host(self) -> None:
        module = parse("t = token[] after-all()\n ROOT r = (f32[], token[]) infeed(t)")
        with raises(ExecutionError, editing_codes.CONNECTION, "a host"):
            evaluate_computation(Device(), module.entry_computation, [])

    def test_without_a_client_no_target_is_registered(self) -> None:
        module = parse('ROOT r = f32[] custom-call(), custom_call_target="nobody"')
        with raises(UnsupportedError, custom_calls_codes.TARGET_REGISTERED, "'nobody'"):
            evaluate_computation(Device(), module.entry_computation, [])


class TestRandomBits:
    """The known answers of the authors of the generators, for keys and counters of 0."""

    def test_three_fry(self) -> None:
        assert three_fry_block(0, 0) == (0x6B200159, 0x99BA4EFE)

    def test_philox(self) -> None:
        assert philox_block(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


SQUARES = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] multiply(b, b)\n ROOT r = f32[] add(a, c) }"


def test_a_reducer_that_may_not_be_reordered() -> None:
    """a + b * b over n ones is n: partial results are not combined with each other, however many there are."""
    entry = """p = f32[16384] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f"""
    result = xla.Client("reference").compile(parse(entry, SQUARES))(np.ones(16384, f32))
    assert float(np.asarray(result)) == 16384


def test_the_platform_names_an_instruction_that_it_cannot_run() -> None:
    module = parse("p = f32[<=4] parameter(0)\n ROOT r = f32[<=4] all-reduce(p), to_apply=f", SQUARES)
    with raises(UnsupportedError, shared.SUPPORTED_OPERATION, "devices may have different sizes"):
        xla.Client("reference").compile(module)(np.ones(3, f32))


def test_the_command_line_shows_a_definition() -> None:
    from click.testing import CliRunner

    from xlapy.tools.command_line import cli

    shown = CliRunner().invoke(cli, ["ops", "transpose"]).output
    assert "From xlapy/reference/movement.py:" in shown
    assert "operand[with_values(index, dimensions, index)]" in shown


def test_definitions_are_short() -> None:
    """Some ten lines; few have more than 25, with their docstring."""
    from inspect import getsource

    from xlapy.opcodes.registry import REGISTRY

    lengths = sorted(len(getsource(definition_of(op)).splitlines()) for op in REGISTRY.values())
    assert lengths[-1] <= 33 and lengths[-8] <= 25 and lengths[len(lengths) // 2] <= 6

"""What processes send each other in collectives: the least bytes, the same lists on both sides."""

from __future__ import annotations

import pytest

import xlapy as xla
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.communication.process_plans import Base, plan_processes
from xlapy.cpu.program.thunks import Block, RemoteRead, merged

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
DIRECT = 1 << 20
"""Elements of arrays that are too large for staging memory."""


def transfers(instruction: str, operand: str, processes: tuple[int, ...]) -> dict[tuple[int, int], list[Block]]:
    """Returns the blocks that go from one process to another, as each of the two plans them."""
    entry = f"ENTRY e {{ x = {operand} parameter(0) ROOT r = {instruction} }}"
    text = f"HloModule m, replica_count={len(processes)}\n{SUM}\n{entry}"
    program = compile_module(xla.parse_hlo(text), (), len(processes), spans_processes=True).program
    sent: dict[tuple[int, int], list[Block]] = {}
    received: dict[tuple[int, int], list[Block]] = {}
    for own in sorted(set(processes)):
        for group in plan_processes(program, ProcessTopology(own, processes)).groups:
            for one in group.transfers:
                pair = (one.peer, own) if one.is_receive else (own, one.peer)
                (received if one.is_receive else sent).setdefault(pair, []).append(one.block)
                assert one.base is not Base.RECEIVED or one.block.offset >= 0
    sizes = ({pair: [b.byte_count for b in blocks] for pair, blocks in side.items()} for side in (sent, received))
    assert next(sizes) == next(sizes), "both sides have the same list"
    return sent


def bytes_between(instruction: str, operand: str, processes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    found = transfers(instruction, operand, processes)
    return {pair: sum(block.byte_count for block in blocks) for pair, blocks in found.items()}


def test_a_large_all_reduce_sends_each_block_once_to_be_reduced_and_once_reduced() -> None:
    shape = f"f32[{DIRECT}]"
    found = bytes_between(f"{shape} all-reduce(x), to_apply=sum, replica_groups={{}}", shape, (0, 1, 2, 3))
    assert set(found.values()) == {2 * DIRECT} and len(found) == 12  # two quarters of four bytes each


def test_devices_of_a_process_share_what_they_receive() -> None:
    shape = f"f32[{DIRECT}]"
    gather = f"f32[{4 * DIRECT}] all-gather(x), dimensions={{0}}, replica_groups={{}}"
    found = bytes_between(gather, shape, (0, 0, 1, 1))
    assert found == {(0, 1): 2 * 4 * DIRECT, (1, 0): 2 * 4 * DIRECT}


@pytest.mark.parametrize("processes", [(0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 0, 1)])
@pytest.mark.parametrize("rows", [4, DIRECT // 4])
def test_a_reduce_scatter_sends_the_blocks_of_the_readers(processes: tuple[int, ...], rows: int) -> None:
    for instruction in (
        f"f32[{rows // 4},8] reduce-scatter(x), to_apply=sum, dimensions={{0}}, replica_groups={{}}",
        f"f32[{rows},2] reduce-scatter(x), to_apply=sum, dimensions={{1}}, replica_groups={{}}",
        f"f32[{rows},8] all-to-all(x), dimensions={{1}}, replica_groups={{}}",
    ):
        found = bytes_between(instruction, f"f32[{rows},8]", processes)
        half = rows * 8 * 4 // 2
        assert found == {(0, 1): 2 * half, (1, 0): 2 * half}, "two members send halves of their arrays"


def test_a_permute_sends_to_targets_only() -> None:
    found = transfers("f32[8] collective-permute(x), source_target_pairs={{0,2},{1,0}}", "f32[8]", (0, 0, 1, 1))
    assert {pair: [block.byte_count for block in blocks] for pair, blocks in found.items()} == {(0, 1): [32]}


def test_groups_within_processes_exchange_nothing() -> None:
    reduce = "f32[8] all-reduce(x), to_apply=sum, replica_groups={{0,1},{2,3}}"
    assert transfers(reduce, "f32[8]", (0, 0, 1, 1)) == {}
    assert bytes_between(reduce, "f32[8]", (0, 1, 1, 1)) == {(0, 1): 32, (1, 0): 32}


def test_blocks_that_touch_are_merged() -> None:
    assert merged([Block(8, 1, 8, 8), Block(0, 1, 8, 8), Block(4, 1, 6, 6)]) == [Block(0, 1, 16, 16)]
    assert merged([Block(0, 4, 8, 32), Block(8, 4, 8, 32)]) == [Block(0, 4, 16, 32)]
    assert merged([Block(0, 4, 8, 16), Block(8, 4, 8, 16)]) == [Block(0, 1, 64, 64)]
    assert merged([Block(0, 4, 8, 32), Block(16, 4, 8, 32)]) == [Block(0, 4, 8, 32), Block(16, 4, 8, 32)]


def test_rules_say_who_reads_what() -> None:
    assert RemoteRead(0, 8, per_reader=8).block(2, 1) == Block(16, 1, 8, 8)
    assert RemoteRead(0, 8, per_member=8, last=10).block(2, 3) == Block(10, 1, 8, 8)
    assert RemoteRead(1, 4, sources=(-1, 0)).block(0, 0) is None
    assert RemoteRead(1, 4, only_root=True).block(1, 0) is None
    assert RemoteRead(0, 4, follows_rank=True).array_of(3) == 3
    for read in (RemoteRead(0, 8, 2, 16, per_reader=8, last=9), RemoteRead(1, 4, sources=(-1, 0), only_root=True)):
        assert RemoteRead.from_json(read.to_json()) == read

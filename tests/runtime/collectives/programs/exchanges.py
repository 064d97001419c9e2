"""Exchanges of 4 processes: each check runs in all of them, and process 0 prints the results."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.error_codes.execution import processes as codes
from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, ExchangeStatus, Transfer
from xlapy.runtime.collectives.mpi.cliques import MpiClique
from xlapy.runtime.collectives.mpi.transport import MpiTransport
from xlapy.runtime.collectives.process_group import ExchangeKey, ProcessGroup, current_process_group

xla.distributed.initialize()
group = current_process_group()
assert isinstance(group, ProcessGroup)
transport = group.transport
assert isinstance(transport, MpiTransport)
ME, COUNT = group.process_index, group.process_count
OTHERS = [one for one in range(COUNT) if one != ME]
PROGRAM = transport.program_identity(0x1234, "step_of_training")


class Request:
    """A request as native code fills it: transfers are (is_receive, peer, tag, address, count, block, stride)."""

    def __init__(self, clique: MpiClique, key: ExchangeKey, transfers: Sequence[tuple[int, ...]]) -> None:
        names = ("is_receive", "peer", "tag", "address", "count", "block_bytes", "stride_bytes")
        self.transfers = (ctypes.c_int64 * (len(transfers) * Transfer.byte_size() // 8 or 1))()
        for number, values in enumerate(transfers):
            for name, value in zip(names, values, strict=True):
                self.transfers[(number * Transfer.byte_size() + Transfer.offsets()[name]) // 8] = value
        self.word = ctypes.c_int32(7)
        self.record = (ctypes.c_int64 * (ExchangeRequest.byte_size() // 8))()
        fields = {
            "clique": clique.address,
            "program": PROGRAM,
            "launch": key.launch,
            "exchange": key.exchange,
            "step": key.step,
            "transfers": ctypes.addressof(self.transfers),
            "transfer_count": len(transfers),
            "word": ctypes.addressof(self.word),
            "value": 8,
        }
        for name, value in fields.items():
            self.record[ExchangeRequest.offsets()[name] // 8] = value
        self.address = ctypes.addressof(self.record)

    def post(self) -> Request:
        transport.call("post_exchange", transport.address, self.address)
        return self

    def start(self) -> Request:
        transport.call("start_exchange", transport.address, self.address)
        return self

    def wait(self) -> int:
        """Sleeps on the word as a device does; returns the status."""
        deadline = time.monotonic() + 20
        while not (status := transport.call("await_word", self.address, 500_000_000)):
            assert time.monotonic() < deadline, "the request does not complete"
        transport.await_exchange(self.address)
        assert self.word.value == 8
        return int(status)


def pattern(source: int, target: int, size: int) -> np.ndarray[Any, Any]:
    return ((np.arange(size, dtype=np.int64) * 7 + 31 * source + 101 * target) % 251).astype(np.uint8)


def values_of_the_host() -> None:
    assert group.allgather((ME, "x" * ME), what="a value") == [(one, "x" * one) for one in range(COUNT)]


def other_values_of_the_host() -> None:
    """A process that calls for something else is an error in all processes, which stay in step."""
    what = "the seed" if ME == 2 else "a barrier"
    text = expect(codes.DIFFERENT_PROGRAMS, lambda: group.allgather(ME, what=what))
    assert "process 1: a barrier; process 2: the seed; process 3: a barrier" in text, text
    assert group.allgather(ME, what="a value") == list(range(COUNT))


def sizes() -> None:
    """Data that is carried by its message, data that follows it, and none at all."""
    clique = transport.clique(range(COUNT), b"sizes")
    launch = clique.begin_launch(PROGRAM)
    for step, size in enumerate((0, 1, 3839, 3840, 3841, 65536, 1_000_003, 9_000_000)):
        sent = {peer: pattern(ME, peer, size) for peer in OTHERS}
        received = {peer: np.zeros(size, np.uint8) for peer in OTHERS}
        transfers = [(0, peer, 0, sent[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
        transfers += [(1, peer, 0, received[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
        assert Request(clique, ExchangeKey(launch, 1, step), transfers).post().wait() == ExchangeStatus.DONE
        for peer in OTHERS:
            np.testing.assert_array_equal(received[peer], pattern(peer, ME, size))


def strides() -> None:
    """Columns of a matrix go to rows of another, without a copy by the caller, in pieces of other sizes."""
    clique = transport.clique(range(COUNT), b"strides")
    launch = clique.begin_launch(PROGRAM)
    for step, (rows, width) in enumerate(((3, 8), (700, 24))):
        matrix = np.arange(rows * COUNT * width, dtype=np.float64).reshape(rows, COUNT * width) + 1000 * ME
        result = np.full((COUNT, rows * width), -1.0)
        transfers = []
        for peer in OTHERS:
            block, stride = width * 8, COUNT * width * 8
            transfers.append((0, peer, 5, matrix[:, peer * width :].ctypes.data, rows, block, stride))
            transfers.append((1, peer, 5, result[peer].ctypes.data, rows * 2, block // 2, block // 2))
        assert Request(clique, ExchangeKey(launch, 1, step), transfers).post().wait() == ExchangeStatus.DONE
        for peer in OTHERS:
            expected = np.arange(rows * COUNT * width, dtype=np.float64).reshape(rows, COUNT * width) + 1000 * peer
            np.testing.assert_array_equal(result[peer].reshape(rows, width), expected[:, ME * width : (ME + 1) * width])
        assert (result[ME] == -1).all()


def order() -> None:
    """Requests that are posted in different orders, with several transfers between the same processes."""
    clique = transport.clique(range(COUNT), b"order")
    launch = clique.begin_launch(PROGRAM)
    numbers = np.random.default_rng(ME).permutation(24)
    sent, received, requests = {}, {}, []
    for number in map(int, numbers):
        size = (5, 5000, 300_000)[number % 3]
        transfers = []
        for peer in OTHERS:
            for tag in range(2):
                sent[number, peer, tag] = pattern(ME + tag, peer + number, size)
                received[number, peer, tag] = np.zeros(size, np.uint8)
                transfers.append((0, peer, tag, sent[number, peer, tag].ctypes.data, 1, size, 0))
                transfers.append((1, peer, tag, received[number, peer, tag].ctypes.data, 1, size, 0))
        requests.append(Request(clique, ExchangeKey(launch, number), transfers).start())
    assert [one.wait() for one in requests] == [ExchangeStatus.DONE] * 24
    for (number, peer, tag), data in received.items():
        np.testing.assert_array_equal(data, pattern(peer + tag, ME + number, data.size))


def threads() -> None:
    """Threads that post at once, each with a clique of its own."""
    results: dict[int, int] = {}

    def run(number: int) -> None:
        clique = transport.clique(range(COUNT), b"thread %d" % number)
        launch = clique.begin_launch(PROGRAM)
        good = 0
        for step in range(40):
            size = 10 if step % 2 else 20_000
            sent = {peer: pattern(ME, peer + step, size) for peer in OTHERS}
            received = {peer: np.zeros(size, np.uint8) for peer in OTHERS}
            transfers = [(0, peer, 0, sent[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
            transfers += [(1, peer, 0, received[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
            assert Request(clique, ExchangeKey(launch, 1, step), transfers).post().wait() == ExchangeStatus.DONE
            good += all((received[peer] == pattern(peer, ME + step, size)).all() for peer in OTHERS)
        results[number] = good

    workers = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == dict.fromkeys(range(4), 40)


def pairs() -> None:
    """Cliques of some of the processes."""
    clique = transport.clique((ME, ME ^ 1))
    launch = clique.begin_launch(PROGRAM)
    key = ExchangeKey(launch, 3)
    received = transport.exchange_messages(clique, PROGRAM, key, {ME ^ 1: b"%d" % ME}, [ME ^ 1], what="a pair")
    assert received == {ME ^ 1: b"%d" % (ME ^ 1)}


def waiting_sleeps() -> None:
    """A process that waits uses little of a processor."""
    group.barrier()
    if ME == 0:
        time.sleep(1.0)
        group.barrier()
        return
    before, begin = time.process_time(), time.monotonic()
    group.barrier()
    used, waited = time.process_time() - before, time.monotonic() - begin
    assert waited > 0.8 and used < 0.25 * waited, (used, waited)


def expect(code: object, action: Callable[[], Any]) -> str:
    try:
        action()
    except xla.XlaError as error:
        assert error.code == code, error
        return str(error)
    raise AssertionError("no error")


def other_program() -> None:
    """One process executes another program: all fail at once, both programs are named, and later launches fail."""
    clique = transport.clique(range(COUNT), b"programs", {one: f"cpu:{2 * one}" for one in range(COUNT)})
    other = transport.program_identity(0x9999, "step_of_evaluation")
    begin = time.monotonic()

    def launch() -> None:
        mine = other if ME == 2 else PROGRAM
        key = ExchangeKey(clique.begin_launch(mine), 1)
        transport.exchange_messages(clique, mine, key, dict.fromkeys(OTHERS, b"x" * 9999), OTHERS, what="all-reduce r")

    def check(text: str) -> bool:
        named = "step_of_training (0000000000001234)" in text and "step_of_evaluation (0000000000009999)" in text
        return named and "process 2 (cpu:4)" in text

    try:
        launch()
        raise AssertionError("no error")
    except xla.XlaError as error:
        assert error.code in (codes.DIFFERENT_PROGRAMS, codes.PROCESS_FAILED), error
        named = check(str(error))
    texts = group.allgather(named, what="results")
    assert texts[2] or any(texts), texts
    assert time.monotonic() - begin < 5
    begin = time.monotonic()
    assert expect(clique.failure.code if clique.failure else None, launch)
    assert time.monotonic() - begin < 0.1


def other_sizes() -> None:
    clique = transport.clique(range(COUNT), b"other sizes")
    launch = clique.begin_launch(PROGRAM)
    group.barrier()
    size = 100 if ME == 1 else 104
    data = np.zeros(104, np.uint8)
    into = np.full((COUNT, 104), 9, np.uint8)
    transfers = [(0, peer, 0, data.ctypes.data, 1, size, 0) for peer in OTHERS]
    transfers += [(1, peer, 0, into[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
    assert Request(clique, ExchangeKey(launch, 1), transfers).post().wait() == ExchangeStatus.FAILED
    failure = clique.failure
    assert failure is not None and failure.code in (codes.DIFFERENT_SIZES, codes.PROCESS_FAILED)
    if ME == 1:
        assert (into == 9).all(), "data of another size has been stored"


def told_failure() -> None:
    """A process that fails a clique tells the others why; another clique of the same processes goes on."""
    clique, other = transport.clique(range(COUNT), b"told"), transport.clique(range(COUNT), b"untold")
    launch = clique.begin_launch(PROGRAM)
    into = np.zeros((COUNT, 5_000_000), np.uint8)
    transfers = [(1, peer, 0, into[peer].ctypes.data, 1, 5_000_000, 0) for peer in OTHERS]
    request = Request(clique, ExchangeKey(launch, 1), transfers).post()
    group.barrier()
    if ME == 3:
        clique.fail("add.7: a NaN has appeared")
    assert request.wait() == ExchangeStatus.FAILED
    assert "process 3 has failed: add.7: a NaN has appeared" in str(clique.failure), clique.failure
    key = ExchangeKey(other.begin_launch(PROGRAM), 1)
    received = transport.exchange_messages(other, PROGRAM, key, dict.fromkeys(OTHERS, b"y"), OTHERS, what="a value")
    assert received == dict.fromkeys(OTHERS, b"y")


def late_data_of_a_failed_clique() -> None:
    """Memory of a request that has failed is not written afterwards: large data was on its way."""
    clique = transport.clique(range(COUNT), b"late")
    launch = clique.begin_launch(PROGRAM)
    group.barrier()
    size = 3_000_000
    sent, into = np.full(size, 5, np.uint8), np.zeros((COUNT, size), np.uint8)
    transfers = [(0, peer, 0, sent.ctypes.data, 1, size, 0) for peer in OTHERS]
    transfers += [(1, peer, 0, into[peer].ctypes.data, 1, size, 0) for peer in OTHERS]
    request = Request(clique, ExchangeKey(launch, 1), transfers).start()
    clique.fail(f"process {ME} gives up")
    begin = time.monotonic()
    request.wait()
    assert time.monotonic() - begin < 3
    into[:] = 1
    group.barrier()
    time.sleep(0.05)
    group.barrier()
    assert (into == 1).all()


def time_out() -> None:
    clique = transport.clique(range(COUNT), b"time-out", {one: f"cpu:{one}" for one in range(COUNT)})
    key = ExchangeKey(clique.begin_launch(PROGRAM), 1)
    group.barrier()
    if ME == 1:
        group.barrier()
        return
    sources = [1]
    begin = time.monotonic()
    try:
        transport.exchange_messages(clique, PROGRAM, key, {}, sources, what="all-to-all x.3", timeout=0.5)
        raise AssertionError("no error")
    except xla.XlaError as error:
        assert 0.4 < time.monotonic() - begin < 3
        assert "process 1 (cpu:1)" in str(error) and "all-to-all x.3" in str(error), error
        assert error.code in (codes.PROCESS_TIMEOUT, codes.PROCESS_FAILED)
    group.barrier()


def fork() -> None:
    """The child of a fork is refused."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            group.barrier()
        except BaseException as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 4096).decode()
    assert str(codes.PROCESS_FORKED) in text and "child" in text, text


def twice() -> None:
    assert "initialize is called once" in expect(codes.ALREADY_INITIALIZED, xla.distributed.initialize)
    assert (xla.distributed.process_index(), xla.distributed.process_count()) == (ME, COUNT)
    assert xla.distributed.is_initialized()


CHECKS = (
    values_of_the_host,
    other_values_of_the_host,
    sizes,
    strides,
    order,
    threads,
    pairs,
    waiting_sleeps,
    other_program,
    other_sizes,
    told_failure,
    late_data_of_a_failed_clique,
    time_out,
    fork,
    twice,
)

if __name__ == "__main__":
    chosen = sys.argv[1:] or [check.__name__ for check in CHECKS]
    for check in CHECKS:
        if check.__name__ not in chosen:
            continue
        problem = ""
        try:
            check()
        except BaseException:
            problem = traceback.format_exc()
        problems = group.allgather(problem, what=f"the result of {check.__name__}", timeout=40)
        if ME == 0:
            found = "\n".join(f"process {one}: {text}" for one, text in enumerate(problems) if text)
            print(f"{check.__name__}: {found or 'passed'}", flush=True)

"""The function with which a device waits until a word of shared memory changes.

    i32 @await_change(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %word, i32 %seen, i64 %aim, ptr %sleepers,
      i64 %slice)

returns 0 once the word differs from the value seen, and 1 if the run has ended. A device first spins, unless spinning
has failed recently, and then sleeps on the word (futex). It sleeps either without limit or for slices of time, in
nanoseconds, after each of which it calls the host to check for deadlock; of the devices that wait for the same event,
one must do so. When a run ends, all words change and all devices wake up.

Meanwhile the device's wait record says which thunk waits (its number plus one), for which value (the aim), and how
often the device has slept. The record also holds, for the device itself, how many times it will skip spinning, and how
many times it skipped spinning after the last failure.

The host reads wait records at any time. A device writes the number of the thunk last, and takes it back first, so that
a reader that finds the same record twice knows that the device has waited all the time between.

Responsible for waiting, for wait records and for ending the waits of a run. Does not depend on what devices wait for or
on the host's decision.
"""

from __future__ import annotations

from xlapy.cpu.program.shared_records import WAIT_RECORD_BYTES
from xlapy.native import futex
from xlapy.native.function import Function, external, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.llvm import function_text
from xlapy.native.records import Atomic, Owned, Record, Trailing
from xlapy.native.values import Address, Bool, Int32, Word

SLICE = 50_000_000
"""The nanoseconds of sleep after which the device calls the host."""

_SPINS = 400
"""The number of iterations that a device spins, some ten microseconds. They are wasted if the missing device waits for
this very processor. Spinning does not call sched_yield: on a busy machine that gives up the time slice to other
processes, whereas a sleeping thread runs as soon as it is woken."""

_MOST_SKIPPED = 127
"""The largest number of waits without spinning after spinning has failed repeatedly."""

DECLARATIONS = {
    futex.DECLARATION,
    "declare void @llvm.x86.sse2.pause()",
}


class CancellationWord(Record):
    """The first word of the memory that the devices of a run share: not 0 once the run has ended early."""

    is_canceled: Atomic[Int32]


class WaitRecord(Record):
    """What a device waits for; see above. skips: how many waits will not spin; skipped: how many did not after the last
    failure. Only the device accesses these two."""

    thunk: Atomic[Word]
    aim: Atomic[Word]
    times: Atomic[Word]
    skips: Owned[Int32]
    skipped: Owned[Int32]


class WaitSnapshot(Record):
    """A copy of the shared fields of a wait record, in the memory of the host."""

    thunk: Owned[Word]
    aim: Owned[Word]
    times: Owned[Word]


class WordOffsets(Record):
    """Offsets of words in shared memory. They are not written while native code runs."""

    items: Trailing[Word]


class AwaitedWord(Record):
    """A word that changes when what devices wait for has happened."""

    value: Atomic[Int32]


class Sleepers(Record):
    """How many devices sleep on a word, or are about to."""

    count: Atomic[Int32]


@external
def host_callback(f: Function, table: Address, number: Word) -> Int32:  # type: ignore[empty-body]
    """Calls the host for a thunk; not 0 if the run is to end."""


CHANGED = 1 << 30
"""The bit of a word that the end of a run inverts: devices that wait for a change wake up, and no value that devices
store has it."""


def wait_record(shared: CancellationWord, device: Word) -> WaitRecord:
    """The record of what a device waits for."""
    return shared.offset(device * WAIT_RECORD_BYTES + WAIT_RECORD_BYTES).cast(WaitRecord)


@native
def await_change(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    word: AwaitedWord,
    seen: Int32,
    aim: Word,
    sleepers: Sleepers,
    slice: Word,
) -> Int32:
    """Waits until a word changes; see above."""
    record = wait_record(shared, device)
    with f.when(spins_until_changed(f, record, word, seen)):
        f.ret((shared.is_canceled.load(RELAXED) != 0).to(Int32))
    record.aim.store(aim, RELAXED)
    record.times.store(record.times.load(RELAXED) + 1, RELAXED)
    record.thunk.store(number + 1, RELEASE)
    sleepers.count.fetch_add(1, SEQ_CST)
    is_over = f.variable(Bool, False)
    with f.loop() as loop:
        with f.when(shared.is_canceled.load(RELAXED) != 0):  # if it is too old, the word has changed
            is_over.set(True)
            loop.leave()
        with f.when(slice == 0) as is_unlimited:
            word.value.wait(seen)
        with is_unlimited.otherwise():
            word.value.wait(seen, slice)
        with f.when(word.value.load(ACQUIRE) != seen):
            is_over.set(shared.is_canceled.load(RELAXED) != 0)
            loop.leave()
        with f.when(slice != 0), f.when(host_callback(f, table, number) != 0):
            is_over.set(True)
            loop.leave()
    record.thunk.store(0, SEQ_CST)
    sleepers.count.fetch_sub(1, RELAXED)
    return is_over.get().to(Int32)


@native
def spins_until_changed(f: Function, record: WaitRecord, word: AwaitedWord, seen: Int32) -> Bool:
    """Polls a word for a short time; returns whether it has changed. Each time it has not, twice as many later waits
    skip this polling."""
    skips = record.skips
    with f.when(skips != 0):
        record.skips = skips - 1
        f.ret(False)
    with f.count(f.spins(_SPINS)):
        with f.when(word.value.load(ACQUIRE) != seen):
            record.skipped = 0
            f.ret(True)
        f.pause()
    following = (record.skipped + record.skipped + 1) & _MOST_SKIPPED
    record.skipped = following
    record.skips = following
    return f.constant(Bool, False)


# --- the host


@native
def cancel_waits(f: Function, shared: CancellationWord, offsets: WordOffsets, count: Word) -> None:
    """Makes native code stop at its next safepoint poll, and wakes the devices that wait.

    offsets: those of the words on which devices wait. A device that is about to sleep finds its word changed.
    """
    with f.when(shared.is_canceled.exchange(1, RELAXED) != 0):
        f.ret()
    with f.count(count) as one:
        word = shared.offset(offsets.items[one.index]).cast(AwaitedWord)
        word.value.fetch_xor(CHANGED, RELEASE)
        word.value.wake()


@native
def read_wait(f: Function, shared: CancellationWord, device: Word, snapshot: WaitSnapshot) -> None:
    """Reads what a device waits for. The fields may be of two waits; then the next snapshot differs."""
    record = wait_record(shared, device)
    snapshot.thunk = record.thunk.load(SEQ_CST)
    snapshot.aim = record.aim.load(RELAXED)
    snapshot.times = record.times.load(RELAXED)


@native
def read_word(f: Function, word: AwaitedWord) -> Int32:
    """Reads a word on which devices wait, or a member's counter. `read_wait` has acquired what a
    device did before it waits."""
    return word.value.load(RELAXED)


def await_text() -> str:
    """The LLVM text of `await_change`, which calls `host_callback`."""
    functions = (await_change, spins_until_changed)
    return "\n\n".join("\n".join(function_text(one.built(), attributes="noinline #0")) for one in functions)

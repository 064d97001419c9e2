"""Emits the function with which a device waits until a word of shared memory changes.

    i32 @await(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %word, i32 %seen, i64 %aim, ptr %asleep,
      ptr %slice)

returns 0 once the word differs from the value seen, and 1 if the run has ended. A device first spins, unless spinning
has failed recently, and then sleeps on the word (futex). It sleeps either without limit or for slices of time, after
each of which it calls the host to check for deadlock; of the devices that wait for the same event, one must do so. When
a run ends, all words change and all devices wake up.

Meanwhile the device's wait record says which thunk waits (its number plus one), for which value (the aim), and how
often the device has slept. The record also holds, for the device itself, how many times it will skip spinning, and how
many times it skipped spinning after the last failure.

Responsible for waiting and for wait records. Does not depend on what devices wait for or on the host's decision.
"""

from __future__ import annotations

from xlapy.cpu.program.shared_records import WAIT_RECORD_BYTES
from xlapy.native import futex

_SPINS = 400
"""The number of iterations that a device spins, some ten microseconds. They are wasted if the missing device waits for
this very processor. Spinning does not call sched_yield: on a busy machine that gives up the time slice to other
processes, whereas a sleeping thread runs as soon as it is woken."""

_MOST_SKIPPED = 127
"""The largest number of waits without spinning after spinning has failed repeatedly."""

_SLICE = 50_000_000
"""The nanoseconds of sleep after which the device calls the host."""

DECLARATIONS = {
    futex.DECLARATION,
    "declare void @llvm.x86.sse2.pause()",
}


def await_text() -> str:
    """Returns the text of `await` and of the time slice. It calls `host_callback`."""
    return _TEXT.format(
        wait=futex.wait_text("%word", "%seen", "%slice"),
        spins=_SPINS,
        skipped=_MOST_SKIPPED,
        nanoseconds=_SLICE,
        record=WAIT_RECORD_BYTES,
    )


_TEXT = """@slice = internal constant [2 x i64] [i64 0, i64 {nanoseconds}]

define internal i32 @await(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %word, i32 %seen, i64 %aim,
  ptr %asleep, ptr %slice) noinline #0 {{
entry:
  %records = getelementptr inbounds i8, ptr %shared, i64 {record}
  %offset = mul i64 %device, {record}
  %record = getelementptr inbounds i8, ptr %records, i64 %offset
  %skips = getelementptr inbounds i32, ptr %record, i64 6
  %skipped = getelementptr inbounds i32, ptr %record, i64 7
  %left = load i32, ptr %skips
  %patient = icmp eq i32 %left, 0
  br i1 %patient, label %spin, label %skip
skip:
  %fewer = sub i32 %left, 1
  store i32 %fewer, ptr %skips
  br label %lie
spin:
  %spins = phi i32 [ 0, %entry ], [ %more, %pause ]
  %now = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %stay, label %early
early:
  store i32 0, ptr %skipped
  %over = load atomic i32, ptr %shared monotonic, align 4
  %is.over = icmp ne i32 %over, 0
  %quick = zext i1 %is.over to i32
  ret i32 %quick
stay:
  %more = add i32 %spins, 1
  %long = icmp ugt i32 %more, {spins}
  br i1 %long, label %spun_too_long, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  br label %spin
spun_too_long:
  %before = load i32, ptr %skipped
  %twice = shl i32 %before, 1
  %grown = or i32 %twice, 1
  %following = and i32 %grown, {skipped}
  store i32 %following, ptr %skipped
  store i32 %following, ptr %skips
  br label %lie
lie:
  %aims = getelementptr inbounds i64, ptr %record, i64 1
  %times = getelementptr inbounds i64, ptr %record, i64 2
  store atomic i64 %aim, ptr %aims monotonic, align 8
  %earlier = load atomic i64, ptr %times monotonic, align 8
  %again = add i64 %earlier, 1
  store atomic i64 %again, ptr %times monotonic, align 8
  %named = add i64 %number, 1
  store atomic i64 %named, ptr %record seq_cst, align 8
  %one.more = atomicrmw add ptr %asleep, i32 1 seq_cst, align 4
  br label %sleep
sleep:
  %canceled = load atomic i32, ptr %shared seq_cst, align 4
  %ended = icmp ne i32 %canceled, 0
  br i1 %ended, label %rise, label %rest
rest:
  %slept = {wait}
  %read = load atomic i32, ptr %word seq_cst, align 4
  %still = icmp eq i32 %read, %seen
  br i1 %still, label %ask, label %changed
ask:
  %timed = icmp ne ptr %slice, null
  br i1 %timed, label %judge, label %sleep
judge:
  %judged = call i32 @host_callback(ptr %table, i64 %number)
  %hopeless = icmp ne i32 %judged, 0
  br i1 %hopeless, label %rise, label %sleep
changed:
  %last = load atomic i32, ptr %shared monotonic, align 4
  %is.last = icmp ne i32 %last, 0
  %quiet = zext i1 %is.last to i32
  br label %rise
rise:
  %status = phi i32 [ 1, %sleep ], [ 1, %judge ], [ %quiet, %changed ]
  store atomic i64 0, ptr %record seq_cst, align 8
  %one.less = atomicrmw sub ptr %asleep, i32 1 seq_cst, align 4
  ret i32 %status
}}"""

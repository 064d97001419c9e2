"""Kernels that measure the limits of the processor: vector arithmetic, and reading, writing and copying
memory.

Each is `void (ptr block, i64 begin, i64 end)`, as `xlapy_parallel` runs it; the block says how much work a chunk does.

Responsible for the kernels. Does not decide how often they run or how the figures are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.instrumentation.counters import READ_CLOCK
from xlapy.cpu.llvm.jit import Code, compile_text
from xlapy.cpu.llvm.text import llvm_type, suffix
from xlapy.loops import F32, F64, I8, I16, I32, I64, ScalarType

ARITHMETIC: Mapping[str, ScalarType] = {f"arithmetic_{t.name}": t for t in (F32, F64, I8, I16, I32, I64)}
"""Kernels whose chunks do block[0] rounds of `OPERATIONS` operations in each of `lanes_of(type)` lanes.

Chain k starts with the vector at block[2 + k], uses the vector at block[1], and the sum of all chains is stored at
block[SUM].
"""

SUM, BLOCK = 32, 40
"""The index of the sum in the block, and the length of the block, in i64 words."""

CHAINS = 12
"""The number of independent chains of operations, which exceeds what a processor executes at a time."""

OPERATIONS = 2 * CHAINS


@dataclass(frozen=True, slots=True)
class Stream:
    """A kernel that goes through arrays. reads: the number of arrays that it reads. in_place: whether it writes to the
    first of them. past_caches: whether it stores without reading the line of the cache first (nontemporal stores)."""

    reads: int
    writes: bool
    in_place: bool = False
    past_caches: bool = False
    at_once: bool = False
    """Whether it is one call of `memmove` or `memset`, in which libraries use special instructions."""

    @property
    def arrays(self) -> int:
        """The number of arrays that it touches."""
        return self.reads + (self.writes and not self.in_place)

    @property
    def moved(self) -> int:
        """The number of arrays that it reads or writes: one that it updates in place counts twice."""
        return self.reads + self.writes


STREAMS: Mapping[str, Stream] = {
    "read": Stream(1, writes=False),
    "write": Stream(0, writes=True),
    "copy": Stream(1, writes=True),
    "add": Stream(2, writes=True),
    "update": Stream(1, writes=True, in_place=True),
    "accumulate": Stream(2, writes=True, in_place=True),
    "write_at_once": Stream(0, writes=True, at_once=True),
    "copy_at_once": Stream(1, writes=True, at_once=True),
    "write_past_caches": Stream(0, writes=True, past_caches=True),
    "copy_past_caches": Stream(1, writes=True, past_caches=True),
    "add_past_caches": Stream(2, writes=True, past_caches=True),
}
"""Kernels whose chunk n goes block[4] times through block[3] bytes, from n block[3] on, of the arrays at block[0] and
block[1], which it reads, and block[2], which it writes."""

_VECTOR = 64
STREAM_STEP = 8 * _VECTOR
"""The number of bytes of an array that an iteration of a stream goes through; sizes are multiples of it."""


def lanes_of(type: ScalarType) -> int:
    """Returns the number of lanes of the vectors that are measured."""
    return _VECTOR // type.byte_size


_DECLARATIONS = (
    "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "!0 = !{i32 1}",
)


@SingleFlight
def roofline_kernels() -> Code:
    """Returns the kernels by name, and `ticks`, which reads the clock."""
    functions = [_arithmetic(name, type) for name, type in ARITHMETIC.items()]
    clock = f"define i64 @ticks() {{\n  %now = {READ_CLOCK}\n  ret i64 %now\n}}\ndeclare i64 @llvm.readcyclecounter()"
    streams = [_stream(name, stream) for name, stream in STREAMS.items()]
    text = "\n".join([*functions, *streams, clock, *_DECLARATIONS])
    return compile_text(text, [*ARITHMETIC, *STREAMS, "ticks"], {})


def _arithmetic(name: str, type: ScalarType) -> str:
    """Returns a kernel with chains of fused multiply-adds of floats, or of additions and exclusive ors of integers."""
    lanes = lanes_of(type)
    vector = llvm_type(type, lanes)
    fma = f"@llvm.fma.{suffix(type, lanes)}"
    lines = [
        f"define void @{name}(ptr %block, i64 %begin, i64 %end) {{",
        "entry:",
        "  %place = getelementptr i64, ptr %block, i64 1",
        f"  %x = load {vector}, ptr %place, align 8",
        *_beginnings(vector),
        "  %each = load i64, ptr %block",
        "  %chunks = sub i64 %end, %begin",
        "  %rounds = mul i64 %each, %chunks",
        "  br label %loop",
        "loop:",
        "  %n = phi i64 [ 0, %entry ], [ %next, %loop ]",
    ]
    lines += [f"  %a{k} = phi {vector} [ %i{k}, %entry ], [ %b{k}, %loop ]" for k in range(CHAINS)]
    for k in range(CHAINS):
        if type.is_float:
            lines.append(f"  %b{k} = call {vector} {fma}({vector} %a{k}, {vector} %x, {vector} %x)")
        else:
            lines += [f"  %s{k} = add {vector} %a{k}, %x", f"  %b{k} = xor {vector} %s{k}, %x"]
    lines += [
        "  %next = add i64 %n, 1",
        "  %more = icmp ult i64 %next, %rounds",
        "  br i1 %more, label %loop, label %out",
    ]
    lines.append("out:")
    total = "%b0"
    for k in range(1, CHAINS):
        lines.append(f"  %t{k} = {'fadd' if type.is_float else 'add'} {vector} {total}, %b{k}")
        total = f"%t{k}"
    lines.append(f"  %sum = getelementptr i64, ptr %block, i64 {SUM}")
    lines += [f"  store {vector} {total}, ptr %sum, align 8", "  ret void", "}"]
    if type.is_float:
        lines.append(f"declare {vector} {fma}({vector}, {vector}, {vector})")
    return "\n".join(lines)


def _beginnings(vector: str) -> Iterator[str]:
    """Yields instructions that load the start of each chain. The starts differ, or LLVM would merge the chains."""
    for k in range(CHAINS):
        yield f"  %place{k} = getelementptr i64, ptr %block, i64 {2 + k}"
        yield f"  %i{k} = load {vector}, ptr %place{k}, align 8"


def _stream(name: str, stream: Stream) -> str:
    """Returns a kernel that goes through arrays eight vectors at a time.

    What is read and not written is added up, so that no load is removed.
    """
    vector = "<16 x i32>"
    lines = [f"define void @{name}(ptr %block, i64 %begin, i64 %end) {{", "entry:"]
    lines.append(f"  %unused = alloca [8 x {vector}]")
    parameters = [("x", "ptr"), ("y", "ptr"), ("out", "ptr"), ("size", "i64"), ("times", "i64")]
    for number, (register, type) in enumerate(parameters):
        lines.append(f"  %p{number} = getelementptr i64, ptr %block, i64 {number}")
        lines.append(f"  %{register} = load {type}, ptr %p{number}")
    lines += [
        "  %start = mul i64 %begin, %size",
        "  %stop = mul i64 %end, %size",
        "  br label %again",
        "again:",
        "  %time = phi i64 [ 0, %entry ], [ %later, %over ]",
        "  %lane = trunc i64 %time to i32",
        "  %length = sub i64 %stop, %start",
        "  %begin.x = getelementptr i8, ptr %x, i64 %start",
        "  %begin.out = getelementptr i8, ptr %out, i64 %start",
        "  %byte = trunc i64 %time to i8",
        *_at_once(stream),
        f"  %first = insertelement {vector} zeroinitializer, i32 %lane, i32 0",
        "  br label %loop",
        "loop:",
        "  %at = phi i64 [ %start, %again ], [ %next, %loop ]",
    ]
    lines += [f"  %a{k} = phi {vector} [ %first, %again ], [ %b{k}, %loop ]" for k in range(8)]
    for k in range(8):
        lines += [f"  %o{k} = add i64 %at, {k * _VECTOR}", *_stream_step(k, stream, vector)]
    lines += [
        f"  %next = add i64 %at, {'%length' if stream.at_once else STREAM_STEP}",
        "  %more = icmp ult i64 %next, %stop",
        "  br i1 %more, label %loop, label %over",
        "over:",
        "  %later = add i64 %time, 1",
    ]
    for k in range(8):
        lines.append(f"  %u{k} = getelementptr {vector}, ptr %unused, i64 {k}")
        lines.append(f"  store volatile {vector} %b{k}, ptr %u{k}")
    lines += ["  %repeat = icmp ult i64 %later, %times", "  br i1 %repeat, label %again, label %done"]
    lines += ["done:", *(["  fence seq_cst"] if stream.past_caches else []), "  ret void", "}"]
    return "\n".join(lines)


def _at_once(stream: Stream) -> list[str]:
    """Returns the call that copies or fills the whole piece, if the stream is one."""
    if not stream.at_once:
        return []
    if stream.reads:
        return ["  call void @llvm.memmove.p0.p0.i64(ptr %begin.out, ptr %begin.x, i64 %length, i1 false)"]
    return ["  call void @llvm.memset.p0.i64(ptr %begin.out, i8 %byte, i64 %length, i1 false)"]


def _stream_step(k: int, stream: Stream, vector: str) -> Iterator[str]:
    """Yields the loads and the store of one vector. What is stored differs from what is there, and what is accumulated
    is kept."""
    if stream.at_once:
        yield f"  %b{k} = add {vector} %a{k}, zeroinitializer"
        return
    value = f"%a{k}"
    for number in range(stream.reads):
        yield f"  %f{number}.{k} = getelementptr i8, ptr %{'xy'[number]}, i64 %o{k}"
        yield f"  %v{number}.{k} = load {vector}, ptr %f{number}.{k}, align 64"
        yield f"  %s{number}.{k} = add {vector} {value}, %v{number}.{k}"
        value = f"%s{number}.{k}"
    if not stream.writes:
        yield f"  %b{k} = add {vector} {value}, zeroinitializer"
        return
    yield f"  %b{k} = add {vector} %a{k}, zeroinitializer"
    yield f"  %g{k} = getelementptr i8, ptr %{'x' if stream.in_place else 'out'}, i64 %o{k}"
    yield f"  store {vector} {value}, ptr %g{k}, align 64{', !nontemporal !0' if stream.past_caches else ''}"

"""Kernels that measure the limits of the processor: vector arithmetic, and reading and copying memory.

Each is `void (ptr block, i64 begin, i64 end)`, as `xlapy_parallel` runs it; the block says how much work a chunk does.

Responsible for the kernels. Does not decide how often they run or how the figures are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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

STREAMS = ("read", "copy")
"""Kernels whose chunk n goes block[3] times through block[2] bytes, from block[0] + n block[2] on; copies go to
block[1]."""

_VECTOR = 64
_STEP = 8 * _VECTOR


def lanes_of(type: ScalarType) -> int:
    """Returns the number of lanes of the vectors that are measured."""
    return _VECTOR // type.byte_size


@SingleFlight
def roofline_kernels() -> Code:
    """Returns the kernels by name, and `ticks`, which reads the clock."""
    functions = [_arithmetic(name, type) for name, type in ARITHMETIC.items()]
    clock = f"define i64 @ticks() {{\n  %now = {READ_CLOCK}\n  ret i64 %now\n}}\ndeclare i64 @llvm.readcyclecounter()"
    text = "\n".join([*functions, *map(_stream, STREAMS), clock])
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


def _stream(name: str) -> str:
    """Returns a kernel that reads or copies eight vectors at a time. What is read is added up, so that no load is
    removed."""
    vector = "<16 x i32>"
    lines = [f"define void @{name}(ptr %block, i64 %begin, i64 %end) {{", "entry:"]
    lines.append(f"  %unused = alloca [8 x {vector}]")
    for number, (register, type) in enumerate([("from", "ptr"), ("to", "ptr"), ("size", "i64"), ("times", "i64")]):
        lines.append(f"  %p{number} = getelementptr i64, ptr %block, i64 {number}")
        lines.append(f"  %{register} = load {type}, ptr %p{number}")
    lines += [
        "  %start = mul i64 %begin, %size",
        "  %stop = mul i64 %end, %size",
        "  br label %again",
        "again:",
        "  %time = phi i64 [ 0, %entry ], [ %later, %over ]",
        "  br label %loop",
        "loop:",
        "  %at = phi i64 [ %start, %again ], [ %next, %loop ]",
    ]
    lines += [f"  %a{k} = phi {vector} [ zeroinitializer, %again ], [ %b{k}, %loop ]" for k in range(8)]
    for k in range(8):
        lines += [
            f"  %o{k} = add i64 %at, {k * _VECTOR}",
            f"  %f{k} = getelementptr i8, ptr %from, i64 %o{k}",
            f"  %v{k} = load {vector}, ptr %f{k}, align 64",
            f"  %b{k} = add {vector} %a{k}, %v{k}",
        ]
        if name == "copy":
            lines += [f"  %g{k} = getelementptr i8, ptr %to, i64 %o{k}", f"  store {vector} %v{k}, ptr %g{k}, align 64"]
    lines += [
        f"  %next = add i64 %at, {_STEP}",
        "  %more = icmp ult i64 %next, %stop",
        "  br i1 %more, label %loop, label %over",
        "over:",
        "  %later = add i64 %time, 1",
    ]
    for k in range(8):
        lines.append(f"  %u{k} = getelementptr {vector}, ptr %unused, i64 {k}")
        lines.append(f"  store volatile {vector} %b{k}, ptr %u{k}")
    lines += ["  %repeat = icmp ult i64 %later, %times", "  br i1 %repeat, label %again, label %done"]
    lines += ["done:", "  ret void", "}"]
    return "\n".join(lines)

"""Custom-call targets in machine code, one for each calling convention: each writes x + 1 for its operand x, an f32."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from xlapy.cpu.llvm.jit import Code, compile_text

_TEXT = """
define internal void @add_one(ptr %in, ptr %out) {
  %x = load float, ptr %in
  %y = fadd float %x, 1.0
  store float %y, ptr %out
  ret void
}
define void @original(ptr %out, ptr %operands) {
  %in = load ptr, ptr %operands
  call void @add_one(ptr %in, ptr %out)
  ret void
}
define void @status(ptr %out, ptr %operands, ptr %status) {
  %in = load ptr, ptr %operands
  call void @add_one(ptr %in, ptr %out)
  %x = load float, ptr %in
  %failed = fcmp ogt float %x, 2.5
  %code = zext i1 %failed to i32
  %place = getelementptr i8, ptr %status, i64 60
  store i32 %code, ptr %place
  ret void
}
define void @unified(ptr %out, ptr %operands, ptr %opaque, i64 %length, ptr %status) {
  %in = load ptr, ptr %operands
  %x = load float, ptr %in
  %wide = uitofp i64 %length to float
  %y = fadd float %x, %wide
  store float %y, ptr %out
  ret void
}
define ptr @typed(ptr %frame) {
entry:
  %extension.at = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %extension.at
  %asks = icmp ne ptr %extension, null
  br i1 %asks, label %tell, label %run
tell:
  %metadata.at = getelementptr i8, ptr %extension, i64 24
  %metadata = load ptr, ptr %metadata.at
  %major = getelementptr i8, ptr %metadata, i64 24
  store i32 0, ptr %major
  %minor = getelementptr i8, ptr %metadata, i64 28
  store i32 3, ptr %minor
  ret ptr null
run:
  %arguments.at = getelementptr i8, ptr %frame, i64 72
  %arguments = load ptr, ptr %arguments.at
  %results.at = getelementptr i8, ptr %frame, i64 112
  %results = load ptr, ptr %results.at
  %argument = load ptr, ptr %arguments
  %result = load ptr, ptr %results
  %in.at = getelementptr i8, ptr %argument, i64 24
  %in = load ptr, ptr %in.at
  %out.at = getelementptr i8, ptr %result, i64 24
  %out = load ptr, ptr %out.at
  call void @add_one(ptr %in, ptr %out)
  ret ptr null
}
"""


@functools.cache
def _code() -> Code:
    return compile_text(_TEXT, ["original", "status", "unified", "typed"], {})


def targets() -> Mapping[str, int]:
    """Returns the addresses of `original`, `status` (it fails above 2.5), `unified` (it adds the length of the opaque
    text) and `typed`.
    """
    return _code().addresses

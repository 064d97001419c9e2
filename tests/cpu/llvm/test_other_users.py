"""Other users of llvmlite in the process get the same code before and after xlapy has compiled programs."""

from __future__ import annotations

import subprocess
import sys

_PROCESS = r'''
import llvmlite.binding as llvm

TEXT = """
define void @sums(ptr %rows, ptr %out, i64 %count, i64 %pitch) {
entry:
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %first = mul i64 %i, %pitch
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j.next, %inner ]
  %sum = phi double [ 0.0, %outer ], [ %sum.next, %inner ]
  %least = phi i64 [ 9, %outer ], [ %least.next, %inner ]
  %at = add i64 %first, %j
  %scaled = mul i64 %at, 3
  %place = getelementptr double, ptr %rows, i64 %scaled
  %value = load double, ptr %place
  %bits = load i64, ptr %place
  %is.less = icmp slt i64 %bits, %least
  %least.next = select i1 %is.less, i64 %bits, i64 %least
  %sum.next = fadd double %sum, %value
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %count
  br i1 %more, label %inner, label %after
after:
  %result = getelementptr double, ptr %out, i64 %i
  store double %sum.next, ptr %result
  %place.2 = getelementptr i64, ptr %out, i64 %least.next
  store i64 81985529216486895, ptr %place.2
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %count
  br i1 %again, label %outer, label %end
end:
  ret void
}
"""


def assembly():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return [
        target.create_target_machine(cpu=cpu, opt=level).emit_assembly(llvm.parse_assembly(TEXT))
        for cpu in ("", "znver4", "skylake-avx512")
        for level in (0, 1, 2, 3)
    ]


before = assembly()
import numpy as np
import xlapy as xla

module = """HloModule m
ENTRY e {
  a = f32[64,64] parameter(0)
  ROOT d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
result = xla.Client("cpu").compile(module)(np.eye(64, dtype=np.float32))
assert np.array_equal(result, np.eye(64, dtype=np.float32))
assert before == assembly(), "the code of other users has changed"
assert len(set(before)) > 2
'''


def test_code_of_other_users_is_the_same_after_a_compilation() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROCESS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr

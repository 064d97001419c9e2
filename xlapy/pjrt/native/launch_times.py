"""Launch times of instrumented programs, as LLVM text: when each device started and finished a launch, and on which
thread.

Rows of the time table are taken in order. Its count includes the rows that did not fit.

Responsible for recording times. Does not depend on their readers, or on the thunk events that instrumented programs
record themselves.
"""

from __future__ import annotations

from xlapy.pjrt.objects.records import SIZES

TEXT = f"""
@time_table = internal global ptr null, align 64

declare i64 @llvm.readcyclecounter()
declare ptr @llvm.thread.pointer.p0()

; Reads the processor's tick counter.
define i64 @ticks() {{
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}}

; Sets the table in which times are recorded; null for none. Launches that are finishing may still write to the
; previous table.
define void @set_time_table(ptr %table) {{
  store atomic ptr %table, ptr @time_table release, align 8
  ret void
}}

define internal void @record_time(i64 %program, i64 %begin, i64 %end) {{
entry:
  %table = load atomic ptr, ptr @time_table acquire, align 8
  %none = icmp eq ptr %table, null
  br i1 %none, label %out, label %take
take:
  %count = at time_table.count of %table
  %number = atomicrmw add ptr %count, i64 1 monotonic, align 8
  %places = get i64 time_table.capacity of %table
  %fits = icmp ult i64 %number, %places
  br i1 %fits, label %write, label %out
write:
  %rows = getelementptr i8, ptr %table, i64 {SIZES["time_table"]}
  %bytes = mul i64 %number, {SIZES["time_row"]}
  %row = getelementptr i8, ptr %rows, i64 %bytes
  %thread = call ptr @llvm.thread.pointer.p0()
  put ptr %thread time_row.thread of %row
  put i64 %begin time_row.begin of %row
  put i64 %end time_row.end of %row
  %last = at time_row.trace_id of %row
  store atomic i64 %program, ptr %last release, align 8
  br label %out
out:
  ret void
}}
"""

"""What the engine and Python call of each other, as LLVM text.

A call of Python preserves the pending Python exception (JAX destroys objects while one propagates), enables denormal
numbers (jaxlib compiles in a mode without them), and does nothing once the interpreter is shutting down. Native code
keeps working then.

Responsible for calls of Python from any thread, and for processor registers. Must not know what is called.
"""

from __future__ import annotations

from xlapy.cpu.llvm.shared_code import ATTRIBUTES, MXCSR_DECLARATIONS, RESET_MXCSR_FUNCTION

PYTHON_FUNCTIONS = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_Fetch", "PyErr_Restore")
"""Functions of Python's C API that the text calls, besides `Py_IsFinalizing`."""

_TEXT = """
declare i64 @llvm.readcyclecounter()
declare ptr @llvm.thread.pointer.p0()

; Reads the processor's tick counter.
define i64 @ticks() {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}

define internal ptr @thread_pointer() {
  %pointer = call ptr @llvm.thread.pointer.p0()
  ret ptr %pointer
}

declare i32 @Py_IsFinalizing()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)

; Calls a function in Python, which returns an error or null.
define ptr @call_python(ptr %function, ptr %args) {
entry:
  %ends = call i32 @Py_IsFinalizing()
  %closed = icmp ne i32 %ends, 0
  br i1 %closed, label %out, label %go
out:
  ret ptr null
go:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  %mode = alloca i32
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  call void @reset_mxcsr(ptr %mode)
  %error = call ptr %function(ptr %args)
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  %set = load ptr, ptr %type
  %by = load ptr, ptr %value
  %from = load ptr, ptr %traceback
  call void @PyErr_Restore(ptr %set, ptr %by, ptr %from)
  call void @PyGILState_Release(i32 %state)
  ret ptr %error
}

declare ptr @check_deadlocks_function(ptr)

define ptr @check_deadlocks_in_python(ptr %argument) {
  %error = call ptr @call_python(ptr @check_deadlocks_function, ptr %argument)
  ret ptr %error
}

declare ptr @host_launch_function(ptr)

define ptr @run_on_host(ptr %frame) {
  %error = call ptr @call_python(ptr @host_launch_function, ptr %frame)
  ret ptr %error
}
"""

TEXT = "\n".join([_TEXT, RESET_MXCSR_FUNCTION, *sorted(MXCSR_DECLARATIONS), ATTRIBUTES])

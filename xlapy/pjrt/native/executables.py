"""The lifetime of executables, as LLVM text.

Responsible for the number of handles of an executable, and for the list of executables without handles. Does not depend
on what executables do.
"""

from __future__ import annotations

TEXT = """
@destroyed = internal global ptr null
@destroyed_lock = internal global i64 0, align 64

declare i32 @Py_AddPendingCall(ptr, ptr)

define ptr @LoadedExecutable_GetExecutable(ptr %args) {
  %executable = need LoadedExecutable_GetExecutable.loaded_executable of %args
  %owners = at executable.owners of %executable
  %before = atomicrmw add ptr %owners, i64 1 monotonic, align 8
  put ptr %executable LoadedExecutable_GetExecutable.executable of %args
  ret ptr null
}

; A framework thread must not wait here for the interpreter's lock: if the interpreter is shutting down, that would
; end the process. The last handle therefore adds the executable to a list, and schedules a sweep of that list in
; Python.
define ptr @Executable_Destroy(ptr %args) {
entry:
  %executable = get ptr Executable_Destroy.executable of %args
  %none = icmp eq ptr %executable, null
  br i1 %none, label %out, label %count
count:
  %owners = at executable.owners of %executable
  %before = atomicrmw sub ptr %owners, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %leave, label %out
leave:
  call void @lock(ptr @destroyed_lock)
  %others = load ptr, ptr @destroyed
  put ptr %others executable.next of %executable
  store ptr %executable, ptr @destroyed
  call void @unlock(ptr @destroyed_lock)
  %ends = call i32 @Py_IsFinalizing()
  %closed = icmp ne i32 %ends, 0
  br i1 %closed, label %out, label %ask
ask:
  %requested = call i32 @Py_AddPendingCall(ptr @sweep_destroyed_function, ptr %executable)
  br label %out
out:
  ret ptr null
}

define ptr @LoadedExecutable_Destroy(ptr %args) {
  %result = call ptr @Executable_Destroy(ptr %args)
  ret ptr %result
}

; Frees the spare frames and the spare shared memory of an executable.
define void @free_spare_memory(ptr %executable) {
entry:
  %count = get i64 executable.device_program_count of %executable
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  call void @free_spare_frame(ptr %program)
  end one
  %at = at executable.spare_shared of %executable
  %shared = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %shared, null
  br i1 %none, label %out, label %drop
drop:
  call void @release(ptr %shared)
  br label %out
out:
  ret void
}

; Returns the list of executables without handles, and empties it.
define ptr @take_destroyed() {
  call void @lock(ptr @destroyed_lock)
  %first = load ptr, ptr @destroyed
  store ptr null, ptr @destroyed
  call void @unlock(ptr @destroyed_lock)
  ret ptr %first
}
"""

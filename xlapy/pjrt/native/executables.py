"""Entries for the lifetime of executables, as LLVM text.

Responsible for these entries. Does not depend on what executables do; see `runtime.engine.core.executables`.
"""

from __future__ import annotations

TEXT = """
define ptr @LoadedExecutable_GetExecutable(ptr %args) {
  %executable = need LoadedExecutable_GetExecutable.loaded_executable of %args
  call void @retain_executable(ptr %executable)
  put ptr %executable LoadedExecutable_GetExecutable.executable of %args
  ret ptr null
}

; A framework thread must not wait here for the interpreter's lock: if the interpreter is shutting down, that would
; end the process. The last handle therefore adds the executable to a list, which a thread of Python empties.
define ptr @Executable_Destroy(ptr %args) {
entry:
  %executable = get ptr Executable_Destroy.executable of %args
  %none = icmp eq ptr %executable, null
  br i1 %none, label %out, label %leave
leave:
  call void @release_executable(ptr %executable)
  br label %out
out:
  ret ptr null
}

define ptr @LoadedExecutable_Destroy(ptr %args) {
  %result = call ptr @Executable_Destroy(ptr %args)
  ret ptr %result
}
"""

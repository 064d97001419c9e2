"""The entry that calls an executable, as LLVM text.

Calls that the engine does not handle go to Python before anything has changed: programs with callbacks other than
custom calls of Python, arguments that do not match, and donated buffers whose memory has other owners. While a trace is
taken, the instrumented copy of an executable runs instead.

Responsible for choosing between the engine and Python. Does not depend on how calls run; see
`runtime.engine.core.execute`.
"""

from __future__ import annotations

from xlapy.pjrt.c_api.structs import least_size
from xlapy.runtime.engine.core.execute import CANCELED, DONE

TEXT = f"""
; Whether native code can run the call: the program runs natively, the number of arguments matches, and the call
; neither names a device, nor has callbacks, nor exempts arguments of a program with donations. Options of an older API
; are left to Python.
define internal i1 @can_run_natively(ptr %args, ptr %executable) {{
entry:
  %is_fast = call i1 @allows_native_calls(ptr %executable)
  %argument_count = get i64 executable.argument_count of %executable
  %given = get i64 LoadedExecutable_Execute.num_args of %args
  %part_count = get i64 executable.device_program_count of %executable
  %device_count = get i64 LoadedExecutable_Execute.num_devices of %args
  %options = get ptr LoadedExecutable_Execute.options of %args
  %device = get ptr LoadedExecutable_Execute.execute_device of %args
  %size = load i64, ptr %options
  %is_sized = icmp uge i64 %size, {least_size("ExecuteOptions")}
  br i1 %is_sized, label %read, label %older
older:
  ret i1 false
read:
  %sends = get i64 ExecuteOptions.num_send_ops of %options
  %receives = get i64 ExecuteOptions.num_recv_ops of %options
  %outputs = get i64 ExecuteOptions.num_hlo_output_callbacks of %options
  %kept = get i64 ExecuteOptions.num_non_donatable_input_indices of %options
  %donated = get i64 executable.donated_count of %executable
  %fits = icmp eq i64 %given, %argument_count
  %placed = icmp eq i64 %device_count, %part_count
  %keeps = icmp ne i64 %kept, 0
  %donates = icmp ne i64 %donated, 0
  %mixed = and i1 %keeps, %donates
  %unmixed = xor i1 %mixed, true
  %whole = and i1 %fits, %placed
  %plain = and i1 %is_fast, %whole
  %simple = and i1 %plain, %unmixed
  %exchanged = add i64 %sends, %receives
  %callbacks = add i64 %exchanged, %outputs
  %is_silent = icmp eq i64 %callbacks, 0
  %is_everywhere = icmp eq ptr %device, null
  %is_common = and i1 %is_silent, %is_everywhere
  %is_native = and i1 %simple, %is_common
  ret i1 %is_native
}}

define ptr @LoadedExecutable_Execute(ptr %args) {{
entry:
  %requested = need LoadedExecutable_Execute.executable of %args
  %options = need LoadedExecutable_Execute.options of %args
  %instrumented = call ptr @instrumented_executable(ptr %requested)
  %untraced = icmp eq ptr %instrumented, null
  %executable = select i1 %untraced, ptr %requested, ptr %instrumented
  %plain = call i1 @can_run_natively(ptr %args, ptr %executable)
  br i1 %plain, label %ask, label %slow
ask:
  %large = get i64 executable.checks_memory of %executable
  %is_small = icmp eq i64 %large, 0
  br i1 %is_small, label %begin, label %make_room
make_room:
  %refused = call ptr @check_memory_in_python(ptr %args)
  %granted = icmp eq ptr %refused, null
  br i1 %granted, label %begin, label %refuse
refuse:
  ret ptr %refused
begin:
  %arguments = get ptr LoadedExecutable_Execute.argument_lists of %args
  %results = get ptr LoadedExecutable_Execute.output_lists of %args
  %events = get ptr LoadedExecutable_Execute.device_complete_events of %args
  %status = call i64 @execute(ptr %executable, ptr %arguments, ptr %results, ptr %events)
  switch i64 %status, label %slow [ i64 {DONE}, label %out  i64 {CANCELED}, label %cancel ]
out:
  ret ptr null
cancel:
  %calls_python = get i64 executable.calls_python of %executable
  %is_native = icmp eq i64 %calls_python, 0
  br i1 %is_native, label %interrupt, label %raise
interrupt:
  %canceled = call ptr @canceled_error()
  ret ptr %canceled
raise:
  %raised = call ptr @callback_error_in_python(ptr %args)
  ret ptr %raised
slow:
  %result = call ptr @LoadedExecutable_Execute_in_python(ptr %args)
  ret ptr %result
}}
"""

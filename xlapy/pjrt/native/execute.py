"""Calls of executables, as LLVM text.

An executable has a device program per device, and a call has an array of launch frames, one per device program. A short
program whose arguments are ready runs in the caller's thread, one device after the other. All other launches are
enqueued on the streams of their devices, including all programs whose devices synchronize. Cases that native code does
not handle go to Python before anything has changed: programs with callbacks, arguments that do not match, and donated
buffers whose memory has other owners. While a trace is taken, the instrumented copy of an executable runs instead.

Responsible for choosing how a call runs, and for runs in the caller's thread. Does not depend on how programs are
compiled, or on when streams run frames.
"""

from __future__ import annotations

_FRAME_ARRAYS = """
define internal ptr @device_program_at(ptr %executable, i64 %number) {
  %parts = get ptr executable.device_programs of %executable
  %at = getelementptr ptr, ptr %parts, i64 %number
  %program = load ptr, ptr %at
  ret ptr %program
}

define internal ptr @frame_at(ptr %row, i64 %number) {
  %at = getelementptr ptr, ptr %row, i64 %number
  %frame = load ptr, ptr %at
  ret ptr %frame
}

; Acquires a frame per device, with holds on its arguments. Returns false, and keeps none, if an argument does not
; match.
define internal i1 @acquire_frames(ptr %args, ptr %executable, ptr %row, i64 %count) {
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %frame = call ptr @acquire_frame(ptr %program)
  %at = getelementptr ptr, ptr %row, i64 %number
  store ptr %frame, ptr %at
  %list = call ptr @argument_list(ptr %args, ptr %program)
  %taken = call i1 @hold_arguments(ptr %program, ptr %frame, ptr %list)
  br i1 %taken, label %one.next, label %undo
undo:
  call void @return_frame(ptr %program, ptr %frame)
  call void @release_frames(ptr %row, i64 %number)
  ret i1 false
  end one
  ret i1 true
}

define internal void @release_frames(ptr %row, i64 %count) {
  for %number below %count as one
  %frame = call ptr @frame_at(ptr %row, i64 %number)
  %program = get ptr launch_frame.program of %frame
  call void @release_frame(ptr %program, ptr %frame)
  end one
  ret void
}

define internal i1 @are_all_arguments_ready(ptr %args, ptr %executable, i64 %count) {
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %list = call ptr @argument_list(ptr %args, ptr %program)
  %there = call i1 @are_arguments_ready(ptr %program, ptr %list)
  br i1 %there, label %one.next, label %no
no:
  ret i1 false
  end one
  ret i1 true
}

; Allocates the results of all frames. Returns false, and keeps none, if donated memory has other owners (mask: see
; are_uniquely_owned) or if memory is exhausted.
define internal i1 @allocate_all_results(ptr %row, i64 %count, i64 %mask) {
  for %checked below %count as check
  %seen = call ptr @frame_at(ptr %row, i64 %checked)
  %checked_program = get ptr launch_frame.program of %seen
  %is_unique = call i1 @are_uniquely_owned(ptr %checked_program, ptr %seen, i64 %mask)
  br i1 %is_unique, label %check.next, label %refuse
refuse:
  ret i1 false
  end check
  for %number below %count as one
  %frame = call ptr @frame_at(ptr %row, i64 %number)
  %program = get ptr launch_frame.program of %frame
  %made = call i1 @allocate_results(ptr %program, ptr %frame)
  br i1 %made, label %one.next, label %undo
undo:
  call void @release_all_results(ptr %row, i64 %number)
  ret i1 false
  end one
  ret i1 true
}

define internal void @release_all_results(ptr %row, i64 %count) {
  for %number below %count as one
  %frame = call ptr @frame_at(ptr %row, i64 %number)
  %program = get ptr launch_frame.program of %frame
  call void @release_results(ptr %program, ptr %frame)
  end one
  ret void
}
"""

_IN_CALLER = """
; Runs frames in this thread. Returns 0 on success, 1 if nothing has run because memory is exhausted, 2 if a device
; was canceled.
define internal i32 @run_in_caller(ptr %args, ptr %row, i64 %count) {
  %made = call i1 @allocate_all_results(ptr %row, i64 %count, i64 0)
  br i1 %made, label %prepare, label %refuse
refuse:
  ret i32 1
prepare:
  for %number below %count as one
  %frame = call ptr @frame_at(ptr %row, i64 %number)
  %program = get ptr launch_frame.program of %frame
  %ready = call i1 @allocate_arena(ptr %program, ptr %frame)
  br i1 %ready, label %one.next, label %no_memory
no_memory:
  call void @release_all_results(ptr %row, i64 %count)
  ret i32 1
  end one
  for %index below %count as run
  %mine = call ptr @frame_at(ptr %row, i64 %index)
  %mine_program = get ptr launch_frame.program of %mine
  %status = call i32 @run_frame(ptr %mine_program, ptr %mine)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %run.next, label %ended
ended:
  call void @release_all_results(ptr %row, i64 %count)
  ret i32 2
  end run
  for %given below %count as give
  %done = call ptr @frame_at(ptr %row, i64 %given)
  %done_program = get ptr launch_frame.program of %done
  call void @return_results(ptr %args, ptr %done_program, ptr %done, ptr @ready_event)
  end give
  ret i32 0
}
"""

_EXECUTE = """
; Whether native code can run the call: the program runs natively, the number of arguments matches, and the call
; does not exempt arguments of a program with donations.
define internal i1 @can_run_natively(ptr %args, ptr %executable) {
  %fast = get i64 executable.runs_natively of %executable
  %argument_count = get i64 executable.argument_count of %executable
  %given = get i64 LoadedExecutable_Execute.num_args of %args
  %part_count = get i64 executable.device_program_count of %executable
  %device_count = get i64 LoadedExecutable_Execute.num_devices of %args
  %options = get ptr LoadedExecutable_Execute.options of %args
  %kept = get i64 ExecuteOptions.num_non_donatable_input_indices of %options
  %donated = get i64 executable.donated_count of %executable
  %is_fast = icmp ne i64 %fast, 0
  %fits = icmp eq i64 %given, %argument_count
  %placed = icmp eq i64 %device_count, %part_count
  %keeps = icmp ne i64 %kept, 0
  %donates = icmp ne i64 %donated, 0
  %mixed = and i1 %keeps, %donates
  %unmixed = xor i1 %mixed, true
  %whole = and i1 %fits, %placed
  %plain = and i1 %is_fast, %whole
  %simple = and i1 %plain, %unmixed
  ret i1 %simple
}

define ptr @LoadedExecutable_Execute(ptr %args) {
entry:
  %requested = need LoadedExecutable_Execute.executable of %args
  %options = need LoadedExecutable_Execute.options of %args
  %instrumented = get ptr executable.instrumented of %requested
  %untraced = icmp eq ptr %instrumented, null
  %executable = select i1 %untraced, ptr %requested, ptr %instrumented
  %count = get i64 executable.device_program_count of %executable
  %row = alloca ptr, i64 %count
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
  %taken = call i1 @acquire_frames(ptr %args, ptr %executable, ptr %row, i64 %count)
  br i1 %taken, label %when, label %slow
when:
  %long = call i1 @is_asynchronous(ptr %executable)
  %there = call i1 @are_all_arguments_ready(ptr %args, ptr %executable, i64 %count)
  %short = xor i1 %long, true
  %now = and i1 %short, %there
  br i1 %now, label %execute, label %later
later:
  %queued = call i1 @enqueue_launch(ptr %args, ptr %executable, ptr %row, i64 %count)
  br i1 %queued, label %out, label %undo
execute:
  %status = call i32 @run_in_caller(ptr %args, ptr %row, i64 %count)
  switch i32 %status, label %cancel [ i32 0, label %done  i32 1, label %undo ]
done:
  call void @release_frames(ptr %row, i64 %count)
  br label %out
cancel:
  call void @release_frames(ptr %row, i64 %count)
  %canceled = call ptr @canceled_error()
  ret ptr %canceled
out:
  ret ptr null
undo:
  call void @release_frames(ptr %row, i64 %count)
  br label %slow
slow:
  %result = call ptr @LoadedExecutable_Execute_in_python(ptr %args)
  ret ptr %result
}
"""

TEXT = _FRAME_ARRAYS + _IN_CALLER + _EXECUTE

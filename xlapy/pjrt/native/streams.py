"""The stream of a device, as LLVM text: a FIFO of launch frames and the thread that runs them.

A queued frame owns the storages of its arguments and results, so buffers may be deleted before it runs. The launches of
a call are queued in the same order on all of its devices. Therefore arguments that earlier launches write are ready,
donated memory that only earlier launches use is free, and devices that synchronize run the same launch. A launch that
fails leaves its error in the event of its results and marks their storages, so that launches that read them fail too.

Streams never run Python: they do not wait for the interpreter's lock, so a thread that holds it may wait for streams.

Responsible for the threads, for running and finishing queued frames, and for their state after a fork and at exit. Does
not depend on what programs do.
"""

from __future__ import annotations

from xlapy.pjrt.native.stream_queues import QUEUE_CAPACITY

_OUT_OF_MEMORY = "out of memory for the temporaries of a program"
_CANCELED = "the program was canceled"
_FORKED = "the process was forked while the program ran"


def _message(name: str, text: str) -> str:
    return f'@{name}_text = internal constant [{len(text)} x i8] c"{text}"\n'


_HEAD = f"""
{_message("memory", _OUT_OF_MEMORY)}
{_message("canceled", _CANCELED)}
{_message("forked", _FORKED)}
@streams = internal global ptr null
@stopped = internal global i64 0
@canceled = internal global i64 0, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)

define internal ptr @out_of_memory_error() {{
  %error = call ptr @make_error(i64 8, ptr @memory_text, i64 {len(_OUT_OF_MEMORY)})
  ret ptr %error
}}

define internal ptr @canceled_error() {{
  %error = call ptr @make_error(i64 1, ptr @canceled_text, i64 {len(_CANCELED)})
  ret ptr %error
}}

define internal ptr @forked_error() {{
  %error = call ptr @make_error(i64 1, ptr @forked_text, i64 {len(_FORKED)})
  ret ptr %error
}}

; The address of the word that programs poll for cancellation.
define ptr @canceled_word() {{
  ret ptr @canceled
}}
"""

_RUN = """
; Runs a frame; returns null or an error.
define internal ptr @execute_frame(ptr %frame) {
  %program = get ptr launch_frame.program of %frame
  %launch = get ptr launch_frame.launch of %frame
  %failed = call ptr @failed_argument_event(ptr %program, ptr %frame)
  %given = icmp eq ptr %failed, null
  br i1 %given, label %ask, label %propagate
propagate:
  %cause = get ptr event.error of %failed
  %copy = call ptr @copy_of_error(ptr %cause)
  ret ptr %copy
ask:
  %requested = load atomic i64, ptr @canceled monotonic, align 8
  %not_canceled = icmp eq i64 %requested, 0
  %is_single = icmp eq ptr %launch, null
  br i1 %not_canceled, label %header, label %ended
header:
  br i1 %is_single, label %prepare, label %join
join:
  call void @set_device_state(ptr %launch, ptr %program, i64 1)
  %over = call i1 @is_launch_canceled(ptr %launch)
  br i1 %over, label %ended, label %prepare
prepare:
  %ready = call i1 @allocate_arena(ptr %program, ptr %frame)
  br i1 %ready, label %go, label %no_memory
no_memory:
  %missing = call ptr @out_of_memory_error()
  ret ptr %missing
go:
  %status = call i32 @run_frame(ptr %program, ptr %frame)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %well, label %ended
well:
  ret ptr null
ended:
  br i1 %is_single, label %cancel, label %report
cancel:
  %canceled = call ptr @canceled_error()
  ret ptr %canceled
report:
  %reported = call ptr @launch_error(ptr %launch)
  ret ptr %reported
}

; Returns the event of a failed launch that was to write an argument, or null.
define internal ptr @failed_argument_event(ptr %program, ptr %frame) {
  %count = get i64 device_program.argument_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  for %number below %count as one
  %at = getelementptr ptr, ptr %holds, i64 %number
  %storage = load ptr, ptr %at
  %failed = get ptr storage.failed of %storage
  %succeeded = icmp eq ptr %failed, null
  br i1 %succeeded, label %one.next, label %found
found:
  ret ptr %failed
  end one
  ret ptr null
}

; Finishes the frame of one device. The frames of failed devices are released with the last device of their launch.
define internal void @finish_device(ptr %frame, ptr %error) {
entry:
  %launch = get ptr launch_frame.launch of %frame
  %is_single = icmp eq ptr %launch, null
  br i1 %is_single, label %finish, label %note
finish:
  call void @finish_frame(ptr %frame, ptr %error)
  ret void
note:
  %program = get ptr launch_frame.program of %frame
  call void @set_device_state(ptr %launch, ptr %program, i64 2)
  %succeeded = icmp eq ptr %error, null
  br i1 %succeeded, label %leave, label %fail
fail:
  %copy = call ptr @copy_of_error(ptr %error)
  call void @fail_launch(ptr %launch, ptr %copy)
  put ptr %error launch_frame.error of %frame
  call void @lock(ptr @launches_lock)
  %others = get ptr launch.failed_frames of %launch
  put ptr %others launch_frame.next of %frame
  put ptr %frame launch.failed_frames of %launch
  call void @unlock(ptr @launches_lock)
  br label %leave
leave:
  %left = at launch.remaining of %launch
  %before = atomicrmw sub ptr %left, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %close, label %own
close:
  call void @close_launch(ptr %launch)
  br label %own
own:
  br i1 %succeeded, label %well, label %rest
well:
  call void @finish_frame(ptr %frame, ptr null)
  br label %rest
rest:
  br i1 %last, label %end, label %out
end:
  call void @finish_failed_frames(ptr %launch)
  call void @release_launch(ptr %launch)
  br label %out
out:
  ret void
}

define internal void @finish_failed_frames(ptr %launch) {
entry:
  %first = get ptr launch.failed_frames of %launch
  br label %header
header:
  %frame = phi ptr [ %first, %entry ], [ %next, %one ]
  %none = icmp eq ptr %frame, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr launch_frame.next of %frame
  %error = get ptr launch_frame.error of %frame
  call void @finish_frame(ptr %frame, ptr %error)
  br label %header
out:
  ret void
}

; Finishes a frame: releases what it holds, then completes its event.
define internal void @finish_frame(ptr %frame, ptr %error) {
entry:
  %program = get ptr launch_frame.program of %frame
  %event = get ptr launch_frame.event of %frame
  %argument_count = get i64 device_program.argument_count of %program
  %result_count = get i64 device_program.result_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  put ptr %error event.error of %event
  %succeeded = icmp eq ptr %error, null
  br i1 %succeeded, label %undo, label %mark
mark:
  call void @mark_results_failed(ptr %results, i64 %result_count, ptr %event)
  br label %undo
undo:
  call void @release_queued(ptr %holds, i64 %argument_count)
  call void @release_queued(ptr %results, i64 %result_count)
  call void @return_frame(ptr %program, ptr %frame)
  %waiting = at device_program.pending_launches of %program
  %before = atomicrmw sub ptr %waiting, i64 1 release, align 8
  call void @complete_event(ptr %event, ptr %error)
  ret void
}

define internal void @mark_results_failed(ptr %results, i64 %count, ptr %event) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %results, i64 %number
  %storage = load ptr, ptr %at
  %already = get ptr storage.failed of %storage
  %first = icmp eq ptr %already, null
  br i1 %first, label %mark, label %one.next
mark:
  call void @retain_event(ptr %event)
  put ptr %event storage.failed of %storage
  end one
  ret void
}

define internal ptr @stream_main(ptr %stream) {
entry:
  %wake = at stream.wake of %stream
  %room = at stream.free_slots of %stream
  %left = get ptr stream.running of %stream
  %forked = icmp ne ptr %left, null
  br i1 %forked, label %lost, label %wait
lost:
  %ended = call ptr @forked_error()
  put ptr null stream.running of %stream
  call void @finish_device(ptr %left, ptr %ended)
  %slot_released = call i32 @sem_post(ptr %room)
  br label %wait
wait:
  call void @wait_semaphore(ptr %wake)
  %frame = call ptr @pop_frame(ptr %stream)
  %none = icmp eq ptr %frame, null
  br i1 %none, label %wait, label %execute
execute:
  %error = call ptr @execute_frame(ptr %frame)
  put ptr null stream.running of %stream
  call void @finish_device(ptr %frame, ptr %error)
  %given = call i32 @sem_post(ptr %room)
  br label %wait
}
"""

_LIFETIME = f"""
define void @initialize_streams() {{
  call void @initialize_enqueue()
  call void @initialize_watchdog()
  ret void
}}

define void @initialize_stream(ptr %stream) {{
  %room = at stream.free_slots of %stream
  %wake = at stream.wake of %stream
  %first = call i32 @sem_init(ptr %room, i32 0, i32 {QUEUE_CAPACITY})
  %second = call i32 @sem_init(ptr %wake, i32 0, i32 0)
  %others = load ptr, ptr @streams
  put ptr %others stream.next of %stream
  store ptr %stream, ptr @streams
  ret void
}}

; Starts the thread of a stream if it is not running; returns whether it runs.
define internal i1 @start_stream(ptr %stream) {{
entry:
  %at = at stream.started of %stream
  %known = load atomic i64, ptr %at acquire, align 8
  %is_known = icmp ne i64 %known, 0
  br i1 %is_known, label %yes, label %header
header:
  call void @lock(ptr @queues_lock)
  %made = call i1 @start_stream_locked(ptr %stream)
  call void @unlock(ptr @queues_lock)
  ret i1 %made
yes:
  ret i1 true
}}

define internal i1 @start_stream_locked(ptr %stream) {{
entry:
  %thread = alloca i64
  %at = at stream.started of %stream
  %known = load i64, ptr %at
  %is_known = icmp ne i64 %known, 0
  br i1 %is_known, label %yes, label %new
new:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @stream_main, ptr %stream)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %note, label %no
note:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  store atomic i64 1, ptr %at release, align 8
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

; Stops asynchronous launches: from now on, programs run in the threads of their callers.
define void @stop_streams() {{
  store atomic i64 1, ptr @stopped seq_cst, align 8
  ret void
}}

define i64 @are_streams_idle() {{
entry:
  %value = alloca i32
  %first = load ptr, ptr @streams
  br label %header
header:
  %stream = phi ptr [ %first, %entry ], [ %next, %ask ]
  %none = icmp eq ptr %stream, null
  br i1 %none, label %yes, label %ask
ask:
  %next = get ptr stream.next of %stream
  %room = at stream.free_slots of %stream
  %reported = call i32 @sem_getvalue(ptr %room, ptr %value)
  %free = load i32, ptr %value
  %idle = icmp sge i32 %free, {QUEUE_CAPACITY}
  br i1 %idle, label %header, label %no
yes:
  ret i64 1
no:
  ret i64 0
}}

; Cancels running launches and fails queued ones while the value is not 0.
define void @set_canceled(i64 %value) {{
entry:
  store atomic i64 %value, ptr @canceled seq_cst, align 8
  %ends = icmp ne i64 %value, 0
  br i1 %ends, label %end, label %out
end:
  call void @cancel_launches()
  br label %out
out:
  ret void
}}

; --- forks

define void @before_fork() {{
  call void @lock(ptr @queues_lock)
  call void @lock(ptr @launches_lock)
  call void @lock(ptr @cache_lock)
  ret void
}}

; After a fork, the child has only the thread that forked. Running launches are lost; new threads run the queued
; ones.
define void @after_fork(i64 %is_child) {{
entry:
  %child = icmp ne i64 %is_child, 0
  call void @unlock(ptr @cache_lock)
  call void @unlock(ptr @launches_lock)
  br i1 %child, label %again, label %out
again:
  call void @initialize_streams()
  %first = load ptr, ptr @streams
  br label %header
header:
  %stream = phi ptr [ %first, %again ], [ %next, %one ]
  %none = icmp eq ptr %stream, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr stream.next of %stream
  call void @restart_stream(ptr %stream)
  br label %header
out:
  call void @unlock(ptr @queues_lock)
  ret void
}}

define internal void @restart_stream(ptr %stream) {{
entry:
  %running = get ptr stream.running of %stream
  %is_lost = icmp ne ptr %running, null
  %lost = zext i1 %is_lost to i32
  %first = get ptr stream.first of %stream
  br label %header
header:
  %frame = phi ptr [ %first, %entry ], [ %next, %one ]
  %count = phi i32 [ 0, %entry ], [ %more, %one ]
  %none = icmp eq ptr %frame, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr launch_frame.next of %frame
  %more = add i32 %count, 1
  br label %header
out:
  %used = add i32 %count, %lost
  %free = sub i32 {QUEUE_CAPACITY}, %used
  %room = at stream.free_slots of %stream
  %wake = at stream.wake of %stream
  %slots_ready = call i32 @sem_init(ptr %room, i32 0, i32 %free)
  %ready = call i32 @sem_init(ptr %wake, i32 0, i32 %count)
  put i64 0 stream.started of %stream
  %idle = icmp eq i32 %used, 0
  br i1 %idle, label %end, label %start
start:
  %made = call i1 @start_stream_locked(ptr %stream)
  br label %end
end:
  ret void
}}
"""

TEXT = _HEAD + _RUN + _LIFETIME

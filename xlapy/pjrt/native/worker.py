"""The worker of a device, in LLVM text: a thread that runs, one after the other, what callers do not wait for.

What one device does in a run waits in the worker's list with the storages of its arguments and results, which it owns,
so that buffers may end before it begins. Runs of a device take turns in the order of their calls, which is the same on
all devices of a call: arguments that earlier runs make are there, donated memory that only earlier runs use is free,
and who meets on one device is met on the others. A run that fails leaves its error with the event of its results, and a
mark on their storages: whoever takes those fails too.

Nothing here touches Python: a worker never waits for the interpreter's lock, and who has that may wait for workers.

Owns: the threads, how they run and end what waits, what becomes of them at a fork and at the end. Must not know: what
programs do.
"""

from __future__ import annotations

from xlapy.pjrt.native.queues import MOST

_OUT_OF_MEMORY = "out of memory for the temporaries of a program"
_CANCELLED = "the program was cancelled"
_FORKED = "the process was forked while the program ran"


def _message(name: str, text: str) -> str:
    return f'@{name}_text = internal constant [{len(text)} x i8] c"{text}"\n'


_HEAD = f"""
{_message("memory", _OUT_OF_MEMORY)}
{_message("cancelled", _CANCELLED)}
{_message("forked", _FORKED)}
@workers = internal global ptr null
@stopped = internal global i64 0
@cancelled = internal global i64 0, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)

define internal ptr @out_of_memory() {{
  %error = call ptr @make_error(i64 8, ptr @memory_text, i64 {len(_OUT_OF_MEMORY)})
  ret ptr %error
}}

define internal ptr @is_cancelled() {{
  %error = call ptr @make_error(i64 1, ptr @cancelled_text, i64 {len(_CANCELLED)})
  ret ptr %error
}}

define internal ptr @is_forked() {{
  %error = call ptr @make_error(i64 1, ptr @forked_text, i64 {len(_FORKED)})
  ret ptr %error
}}

; Where programs look whether to end early.
define ptr @cancelled_word() {{
  ret ptr @cancelled
}}
"""

_RUN = """
; Runs a place; null, or the error.
define internal ptr @outcome(ptr %place) {
  %part = get ptr place.part of %place
  %run = get ptr place.run of %place
  %failed = call ptr @failed_argument(ptr %part, ptr %place)
  %given = icmp eq ptr %failed, null
  br i1 %given, label %ask, label %pass_on
pass_on:
  %cause = get ptr event.error of %failed
  %copy = call ptr @copy_of_error(ptr %cause)
  ret ptr %copy
ask:
  %asked = load atomic i64, ptr @cancelled monotonic, align 8
  %goes_on = icmp eq i64 %asked, 0
  %alone = icmp eq ptr %run, null
  br i1 %goes_on, label %look, label %ended
look:
  br i1 %alone, label %furnish, label %join
join:
  call void @note_state(ptr %run, ptr %part, i64 1)
  %over = call i1 @has_failed(ptr %run)
  br i1 %over, label %ended, label %furnish
furnish:
  %ready = call i1 @furnish(ptr %part, ptr %place)
  br i1 %ready, label %go, label %no_memory
no_memory:
  %missing = call ptr @out_of_memory()
  ret ptr %missing
go:
  %status = call i32 @run_place(ptr %part, ptr %place)
  %worked = icmp eq i32 %status, 0
  br i1 %worked, label %well, label %ended
well:
  ret ptr null
ended:
  br i1 %alone, label %cancel, label %tell
cancel:
  %cancelled = call ptr @is_cancelled()
  ret ptr %cancelled
tell:
  %told = call ptr @error_of_run(ptr %run)
  ret ptr %told
}

; The event of the run that was to make an argument and failed, or null.
define internal ptr @failed_argument(ptr %part, ptr %place) {
  %count = get i64 part.argument_count of %part
  %pins = call ptr @pins_of(ptr %place)
  for %number below %count as one
  %at = getelementptr ptr, ptr %pins, i64 %number
  %storage = load ptr, ptr %at
  %failed = get ptr storage.failed of %storage
  %worked = icmp eq ptr %failed, null
  br i1 %worked, label %one.next, label %found
found:
  ret ptr %failed
  end one
  ret ptr null
}

; Ends what one device did in a run. What failed parts own goes when the last of their run has ended.
define internal void @end_part(ptr %place, ptr %error) {
entry:
  %run = get ptr place.run of %place
  %alone = icmp eq ptr %run, null
  br i1 %alone, label %finish, label %note
finish:
  call void @finish(ptr %place, ptr %error)
  ret void
note:
  %part = get ptr place.part of %place
  call void @note_state(ptr %run, ptr %part, i64 2)
  %worked = icmp eq ptr %error, null
  br i1 %worked, label %leave, label %fail
fail:
  %copy = call ptr @copy_of_error(ptr %error)
  call void @fail_run(ptr %run, ptr %copy)
  put ptr %error place.error of %place
  call void @lock(ptr @runs_lock)
  %others = get ptr run.failed of %run
  put ptr %others place.next of %place
  put ptr %place run.failed of %run
  call void @unlock(ptr @runs_lock)
  br label %leave
leave:
  %left = at run.left of %run
  %before = atomicrmw sub ptr %left, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %close, label %own
close:
  call void @close_run(ptr %run)
  br label %own
own:
  br i1 %worked, label %well, label %rest
well:
  call void @finish(ptr %place, ptr null)
  br label %rest
rest:
  br i1 %last, label %end, label %out
end:
  call void @finish_failed(ptr %run)
  call void @give_up_run(ptr %run)
  br label %out
out:
  ret void
}

define internal void @finish_failed(ptr %run) {
entry:
  %first = get ptr run.failed of %run
  br label %look
look:
  %place = phi ptr [ %first, %entry ], [ %next, %one ]
  %none = icmp eq ptr %place, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr place.next of %place
  %error = get ptr place.error of %place
  call void @finish(ptr %place, ptr %error)
  br label %look
out:
  ret void
}

; Ends a run. What it owned is given up before anybody hears of it.
define internal void @finish(ptr %place, ptr %error) {
entry:
  %part = get ptr place.part of %place
  %event = get ptr place.event of %place
  %argument_count = get i64 part.argument_count of %part
  %result_count = get i64 part.result_count of %part
  %pins = call ptr @pins_of(ptr %place)
  %results = call ptr @results_of(ptr %part, ptr %place)
  put ptr %error event.error of %event
  %worked = icmp eq ptr %error, null
  br i1 %worked, label %give_up, label %mark
mark:
  call void @mark_failed(ptr %results, i64 %result_count, ptr %event)
  br label %give_up
give_up:
  call void @leave_row(ptr %pins, i64 %argument_count)
  call void @leave_row(ptr %results, i64 %result_count)
  call void @put_back(ptr %part, ptr %place)
  %waiting = at part.waiting of %part
  %before = atomicrmw sub ptr %waiting, i64 1 release, align 8
  call void @happen(ptr %event, ptr %error)
  ret void
}

define internal void @mark_failed(ptr %results, i64 %count, ptr %event) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %results, i64 %number
  %storage = load ptr, ptr %at
  %already = get ptr storage.failed of %storage
  %first = icmp eq ptr %already, null
  br i1 %first, label %mark, label %one.next
mark:
  call void @keep_event(ptr %event)
  put ptr %event storage.failed of %storage
  end one
  ret void
}

define internal ptr @work(ptr %worker) {
entry:
  %wake = at worker.wake of %worker
  %room = at worker.room of %worker
  %left = get ptr worker.running of %worker
  %forked = icmp ne ptr %left, null
  br i1 %forked, label %lost, label %wait
lost:
  %ended = call ptr @is_forked()
  put ptr null worker.running of %worker
  call void @end_part(ptr %left, ptr %ended)
  %roomier = call i32 @sem_post(ptr %room)
  br label %wait
wait:
  call void @wait_for(ptr %wake)
  %place = call ptr @pop(ptr %worker)
  %none = icmp eq ptr %place, null
  br i1 %none, label %wait, label %run
run:
  %error = call ptr @outcome(ptr %place)
  put ptr null worker.running of %worker
  call void @end_part(ptr %place, ptr %error)
  %given = call i32 @sem_post(ptr %room)
  br label %wait
}
"""

_LIFE = f"""
define void @set_up_workers() {{
  call void @set_up_launch()
  call void @set_up_doubts()
  ret void
}}

define void @set_up_worker(ptr %worker) {{
  %room = at worker.room of %worker
  %wake = at worker.wake of %worker
  %first = call i32 @sem_init(ptr %room, i32 0, i32 {MOST})
  %second = call i32 @sem_init(ptr %wake, i32 0, i32 0)
  %others = load ptr, ptr @workers
  put ptr %others worker.next of %worker
  store ptr %worker, ptr @workers
  ret void
}}

; Whether there is a thread.
define internal i1 @start(ptr %worker) {{
entry:
  %at = at worker.started of %worker
  %known = load atomic i64, ptr %at acquire, align 8
  %is_known = icmp ne i64 %known, 0
  br i1 %is_known, label %yes, label %look
look:
  call void @lock(ptr @queues_lock)
  %made = call i1 @start_locked(ptr %worker)
  call void @unlock(ptr @queues_lock)
  ret i1 %made
yes:
  ret i1 true
}}

define internal i1 @start_locked(ptr %worker) {{
entry:
  %thread = alloca i64
  %at = at worker.started of %worker
  %known = load i64, ptr %at
  %is_known = icmp ne i64 %known, 0
  br i1 %is_known, label %yes, label %new
new:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @work, ptr %worker)
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

; From now on callers run all programs themselves.
define void @stop_workers() {{
  store atomic i64 1, ptr @stopped seq_cst, align 8
  ret void
}}

define i64 @are_idle() {{
entry:
  %value = alloca i32
  %first = load ptr, ptr @workers
  br label %look
look:
  %worker = phi ptr [ %first, %entry ], [ %next, %ask ]
  %none = icmp eq ptr %worker, null
  br i1 %none, label %yes, label %ask
ask:
  %next = get ptr worker.next of %worker
  %room = at worker.room of %worker
  %told = call i32 @sem_getvalue(ptr %room, ptr %value)
  %free = load i32, ptr %value
  %idle = icmp sge i32 %free, {MOST}
  br i1 %idle, label %look, label %no
yes:
  ret i64 1
no:
  ret i64 0
}}

; Ends what is running early, and does not begin what waits, until it is told 0.
define void @set_cancelled(i64 %value) {{
entry:
  store atomic i64 %value, ptr @cancelled seq_cst, align 8
  %ends = icmp ne i64 %value, 0
  br i1 %ends, label %end, label %out
end:
  call void @cancel_runs()
  br label %out
out:
  ret void
}}

; --- forks

define void @before_fork() {{
  call void @lock(ptr @queues_lock)
  call void @lock(ptr @runs_lock)
  call void @lock(ptr @kept_lock)
  ret void
}}

; Only the thread that forked is in the child: what was running there is lost, what waited is run by another thread.
define void @after_fork(i64 %is_child) {{
entry:
  %child = icmp ne i64 %is_child, 0
  call void @unlock(ptr @kept_lock)
  call void @unlock(ptr @runs_lock)
  br i1 %child, label %again, label %out
again:
  call void @set_up_workers()
  %first = load ptr, ptr @workers
  br label %look
look:
  %worker = phi ptr [ %first, %again ], [ %next, %one ]
  %none = icmp eq ptr %worker, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr worker.next of %worker
  call void @renew(ptr %worker)
  br label %look
out:
  call void @unlock(ptr @queues_lock)
  ret void
}}

define internal void @renew(ptr %worker) {{
entry:
  %running = get ptr worker.running of %worker
  %is_lost = icmp ne ptr %running, null
  %lost = zext i1 %is_lost to i32
  %first = get ptr worker.first of %worker
  br label %look
look:
  %place = phi ptr [ %first, %entry ], [ %next, %one ]
  %count = phi i32 [ 0, %entry ], [ %more, %one ]
  %none = icmp eq ptr %place, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr place.next of %place
  %more = add i32 %count, 1
  br label %look
out:
  %used = add i32 %count, %lost
  %free = sub i32 {MOST}, %used
  %room = at worker.room of %worker
  %wake = at worker.wake of %worker
  %roomy = call i32 @sem_init(ptr %room, i32 0, i32 %free)
  %ready = call i32 @sem_init(ptr %wake, i32 0, i32 %count)
  put i64 0 worker.started of %worker
  %idle = icmp eq i32 %used, 0
  br i1 %idle, label %end, label %start
start:
  %made = call i1 @start_locked(ptr %worker)
  br label %end
end:
  ret void
}}
"""

TEXT = _HEAD + _RUN + _LIFE

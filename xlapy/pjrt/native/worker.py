"""The worker of a device, in LLVM text: a thread that runs, one after the other, what callers do not wait for.

A run waits in the worker's list with the storages of its arguments and results, which it owns, so that buffers may end
before it begins. Runs of a device take turns in the order of their calls: arguments that earlier runs make are there,
and donated memory that only earlier runs use is free. A run that fails leaves its error with the event of its results,
and a mark on their storages: whoever takes those fails too.

Nothing here touches Python: a worker never waits for the interpreter's lock, and who has that may wait for workers.

Owns: the lists, the threads, what becomes of them at a fork and at the end. Must not know: what programs do.
"""

from __future__ import annotations

MOST = 32
"""How many runs wait on a device; a call of more waits too."""

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

declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
declare i32 @sem_getvalue(ptr, ptr)
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

_QUEUE = """
; Whether a call of the program returns before it has run.
define internal i1 @is_to_wait(ptr %executable) {
  %long = get i64 executable.long of %executable
  %stopped = load atomic i64, ptr @stopped monotonic, align 8
  %is_long = icmp ne i64 %long, 0
  %open = icmp eq i64 %stopped, 0
  %result = and i1 %is_long, %open
  ret i1 %result
}

define internal void @enter_row(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  %queued = at storage.queued of %storage
  %before = atomicrmw add ptr %queued, i64 1 monotonic, align 8
  end one
  ret void
}

define internal void @leave_row(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  %queued = at storage.queued of %storage
  %before = atomicrmw sub ptr %queued, i64 1 monotonic, align 8
  call void @release(ptr %storage)
  end one
  ret void
}

define internal void @retain_row(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  call void @retain(ptr %storage)
  end one
  ret void
}

; Takes a place that has its arguments; false, and nothing has happened, if it must be run otherwise.
define internal i1 @run_later(ptr %args, ptr %executable, ptr %place, ptr %list) {
entry:
  %worker = get ptr executable.worker of %executable
  %started = call i1 @start(ptr %worker)
  %stopped = load atomic i64, ptr @stopped monotonic, align 8
  %open = icmp eq i64 %stopped, 0
  %works = and i1 %started, %open
  br i1 %works, label %wait, label %out
wait:
  %room = at worker.room of %worker
  call void @wait_for(ptr %room)
  %lock = at worker.lock of %worker
  call void @lock(ptr %lock)
  %queued = call i1 @enter_run(ptr %args, ptr %executable, ptr %place, ptr %list)
  br i1 %queued, label %push, label %give_up
push:
  call void @push(ptr %worker, ptr %place)
  call void @unlock(ptr %lock)
  %wake = at worker.wake of %worker
  %woken = call i32 @sem_post(ptr %wake)
  ret i1 true
give_up:
  call void @unlock(ptr %lock)
  %given = call i32 @sem_post(ptr %room)
  br label %out
out:
  ret i1 false
}

define internal i1 @enter_run(ptr %args, ptr %executable, ptr %place, ptr %list) {
entry:
  %argument_count = get i64 executable.argument_count of %executable
  %result_count = get i64 executable.num_outputs of %executable
  %pins = call ptr @pins_of(ptr %place)
  %results = call ptr @results_of(ptr %executable, ptr %place)
  %table = call ptr @table_of(ptr %executable, ptr %place)
  %alone = call i1 @are_alone(ptr %executable, ptr %pins, i64 -1)
  br i1 %alone, label %allocate, label %refuse
allocate:
  %made = call i64 @make_results(ptr %executable, ptr %pins, ptr %results, ptr %table, i64 %result_count)
  %enough = icmp eq i64 %made, %result_count
  br i1 %enough, label %go, label %no_memory
go:
  %event = call ptr @new_event(i64 1)
  put ptr %executable place.executable of %place
  put ptr %event place.event of %place
  call void @retain_row(ptr %results, i64 %result_count)
  call void @enter_row(ptr %pins, i64 %argument_count)
  call void @enter_row(ptr %results, i64 %result_count)
  %waiting = at executable.waiting of %executable
  %before = atomicrmw add ptr %waiting, i64 1 monotonic, align 8
  call void @hand_out(ptr %args, ptr %executable, ptr %place, ptr %list, ptr %event)
  ret i1 true
no_memory:
  call void @release_row(ptr %results, i64 %made)
  br label %refuse
refuse:
  ret i1 false
}

define internal void @push(ptr %worker, ptr %place) {
entry:
  put ptr null place.next of %place
  %last = get ptr worker.last of %worker
  put ptr %place worker.last of %worker
  %none = icmp eq ptr %last, null
  br i1 %none, label %first, label %behind
first:
  put ptr %place worker.first of %worker
  ret void
behind:
  put ptr %place place.next of %last
  ret void
}

; The place whose turn it is, which is running from now on; null if there is none.
define internal ptr @pop(ptr %worker) {
entry:
  %lock = at worker.lock of %worker
  call void @lock(ptr %lock)
  %place = get ptr worker.first of %worker
  %none = icmp eq ptr %place, null
  br i1 %none, label %out, label %take
take:
  %next = get ptr place.next of %place
  put ptr %next worker.first of %worker
  put ptr %place worker.running of %worker
  %empty = icmp eq ptr %next, null
  br i1 %empty, label %clear, label %out
clear:
  put ptr null worker.last of %worker
  br label %out
out:
  call void @unlock(ptr %lock)
  ret ptr %place
}
"""

_RUN = """
; Runs a place; null, or the error.
define internal ptr @outcome(ptr %place) {
  %executable = get ptr place.executable of %place
  %count = get i64 executable.argument_count of %executable
  %pins = call ptr @pins_of(ptr %place)
  for %number below %count as one
  %at = getelementptr ptr, ptr %pins, i64 %number
  %storage = load ptr, ptr %at
  %failed = get ptr storage.failed of %storage
  %worked = icmp eq ptr %failed, null
  br i1 %worked, label %one.next, label %pass_on
pass_on:
  %cause = get ptr event.error of %failed
  %copy = call ptr @copy_of_error(ptr %cause)
  ret ptr %copy
  end one
  %asked = load atomic i64, ptr @cancelled monotonic, align 8
  %goes_on = icmp eq i64 %asked, 0
  br i1 %goes_on, label %go, label %ended
go:
  %status = call i32 @run_place(ptr %executable, ptr %place)
  switch i32 %status, label %ended [ i32 0, label %well  i32 -1, label %no_memory ]
well:
  ret ptr null
no_memory:
  %missing = call ptr @out_of_memory()
  ret ptr %missing
ended:
  %cancelled = call ptr @is_cancelled()
  ret ptr %cancelled
}

; Ends a run. What it owned is given up before anybody hears of it.
define internal void @finish(ptr %place, ptr %error) {
entry:
  %executable = get ptr place.executable of %place
  %event = get ptr place.event of %place
  %argument_count = get i64 executable.argument_count of %executable
  %result_count = get i64 executable.num_outputs of %executable
  %pins = call ptr @pins_of(ptr %place)
  %results = call ptr @results_of(ptr %executable, ptr %place)
  put ptr %error event.error of %event
  %worked = icmp eq ptr %error, null
  br i1 %worked, label %give_up, label %mark
mark:
  call void @mark_failed(ptr %results, i64 %result_count, ptr %event)
  br label %give_up
give_up:
  call void @leave_row(ptr %pins, i64 %argument_count)
  call void @leave_row(ptr %results, i64 %result_count)
  call void @put_back(ptr %executable, ptr %place)
  %waiting = at executable.waiting of %executable
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
  call void @finish(ptr %left, ptr %ended)
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
  call void @finish(ptr %place, ptr %error)
  %given = call i32 @sem_post(ptr %room)
  br label %wait
}

; Signals may interrupt it.
define internal void @wait_for(ptr %semaphore) {
entry:
  br label %try
try:
  %failed = call i32 @sem_wait(ptr %semaphore)
  %again = icmp ne i32 %failed, 0
  br i1 %again, label %try, label %out
out:
  ret void
}
"""

_LIFE = f"""
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
  %lock = at worker.lock of %worker
  call void @lock(ptr %lock)
  %made = call i1 @start_locked(ptr %worker)
  call void @unlock(ptr %lock)
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
  store atomic i64 %value, ptr @cancelled seq_cst, align 8
  ret void
}}

; --- forks

define void @before_fork() {{
entry:
  %first = load ptr, ptr @workers
  br label %look
look:
  %worker = phi ptr [ %first, %entry ], [ %next, %one ]
  %none = icmp eq ptr %worker, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr worker.next of %worker
  %lock = at worker.lock of %worker
  call void @lock(ptr %lock)
  br label %look
out:
  call void @lock(ptr @kept_lock)
  ret void
}}

; Only the thread that forked is in the child: what was running there is lost, what waited is run by another thread.
define void @after_fork(i64 %is_child) {{
entry:
  %child = icmp ne i64 %is_child, 0
  call void @unlock(ptr @kept_lock)
  %first = load ptr, ptr @workers
  br label %look
look:
  %worker = phi ptr [ %first, %entry ], [ %next, %done ]
  %none = icmp eq ptr %worker, null
  br i1 %none, label %out, label %one
one:
  %next = get ptr worker.next of %worker
  br i1 %child, label %renew, label %done
renew:
  call void @renew(ptr %worker)
  br label %done
done:
  %lock = at worker.lock of %worker
  call void @unlock(ptr %lock)
  br label %look
out:
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

TEXT = _HEAD + _QUEUE + _RUN + _LIFE

"""What waits for the workers of devices, in LLVM text: a queue of places for each.

A call enters its places in the queues of all its devices at once, so that runs have the same order on all of them.

Owns: queues, room in them, what a call leaves there and hands out. Must not know: who takes from queues, what
becomes of it.
"""

from __future__ import annotations

from xlapy.pjrt.objects.records import SIZES

MOST = 32
"""How many runs wait on a device; a call of more waits too."""

_ROOM = f"""
@queues_lock = internal global i64 0, align 64
@launch = internal global [{SIZES["semaphore"]} x i8] zeroinitializer, align 64

declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
declare i32 @sem_getvalue(ptr, ptr)

define internal void @set_up_launch() {{
  %ready = call i32 @sem_init(ptr @launch, i32 0, i32 1)
  ret void
}}

; Signals may interrupt it.
define internal void @wait_for(ptr %semaphore) {{
entry:
  br label %try
try:
  %failed = call i32 @sem_wait(ptr %semaphore)
  %again = icmp ne i32 %failed, 0
  br i1 %again, label %try, label %out
out:
  ret void
}}

; Waits until there is room for one more run on each device. Calls of several devices do so in turn: two that have what
; the other one waits for would wait forever.
define internal void @take_room(ptr %executable, i64 %count) {{
  %several = icmp ugt i64 %count, 1
  br i1 %several, label %queue, label %go
queue:
  call void @wait_for(ptr @launch)
  br label %go
go:
  for %number below %count as one
  %part = call ptr @part_of(ptr %executable, i64 %number)
  %worker = get ptr part.worker of %part
  %room = at worker.room of %worker
  call void @wait_for(ptr %room)
  end one
  br i1 %several, label %leave, label %out
leave:
  %left = call i32 @sem_post(ptr @launch)
  br label %out
out:
  ret void
}}

define internal void @give_room(ptr %executable, i64 %count) {{
  for %number below %count as one
  %part = call ptr @part_of(ptr %executable, i64 %number)
  %worker = get ptr part.worker of %part
  %room = at worker.room of %worker
  %given = call i32 @sem_post(ptr %room)
  end one
  ret void
}}
"""

_ENTER = """
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

; Takes a row of places that have their arguments; false, and nothing has happened, if it must be run otherwise.
define internal i1 @run_later(ptr %args, ptr %executable, ptr %row, i64 %count) {
entry:
  %started = call i1 @start_all(ptr %executable, i64 %count)
  %stopped = load atomic i64, ptr @stopped monotonic, align 8
  %open = icmp eq i64 %stopped, 0
  %works = and i1 %started, %open
  br i1 %works, label %ask, label %refuse
ask:
  %meets = get i64 executable.meets of %executable
  %alone = icmp eq i64 %meets, 0
  br i1 %alone, label %wait, label %make
make:
  %made = call ptr @new_run(ptr %executable)
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %refuse, label %wait
wait:
  %run = phi ptr [ null, %ask ], [ %made, %make ]
  call void @take_room(ptr %executable, i64 %count)
  call void @lock(ptr @queues_lock)
  %fits = call i1 @make_row(ptr %row, i64 %count, i64 -1)
  br i1 %fits, label %enter, label %give_up
enter:
  call void @enter_parts(ptr %args, ptr %row, i64 %count, ptr %run)
  call void @unlock(ptr @queues_lock)
  call void @wake_all(ptr %executable, i64 %count)
  ret i1 true
give_up:
  call void @unlock(ptr @queues_lock)
  call void @give_room(ptr %executable, i64 %count)
  %shared = icmp eq ptr %run, null
  br i1 %shared, label %refuse, label %drop
drop:
  call void @close_run(ptr %run)
  call void @give_up_run(ptr %run)
  br label %refuse
refuse:
  ret i1 false
}

define internal i1 @start_all(ptr %executable, i64 %count) {
  for %number below %count as one
  %part = call ptr @part_of(ptr %executable, i64 %number)
  %worker = get ptr part.worker of %part
  %started = call i1 @start(ptr %worker)
  br i1 %started, label %one.next, label %no
no:
  ret i1 false
  end one
  ret i1 true
}

define internal void @wake_all(ptr %executable, i64 %count) {
  for %number below %count as one
  %part = call ptr @part_of(ptr %executable, i64 %number)
  %worker = get ptr part.worker of %part
  %wake = at worker.wake of %worker
  %woken = call i32 @sem_post(ptr %wake)
  end one
  ret void
}

; The queues are locked: so all devices have runs in the same order.
define internal void @enter_parts(ptr %args, ptr %row, i64 %count, ptr %run) {
  for %number below %count as one
  %place = call ptr @place_at(ptr %row, i64 %number)
  %part = get ptr place.part of %place
  call void @enter_part(ptr %args, ptr %part, ptr %place, ptr %run)
  %worker = get ptr part.worker of %part
  call void @push(ptr %worker, ptr %place)
  end one
  ret void
}

define internal void @enter_part(ptr %args, ptr %part, ptr %place, ptr %run) {
entry:
  %argument_count = get i64 part.argument_count of %part
  %result_count = get i64 part.result_count of %part
  %pins = call ptr @pins_of(ptr %place)
  %results = call ptr @results_of(ptr %part, ptr %place)
  %event = call ptr @new_event(i64 1)
  put ptr %event place.event of %place
  put ptr %run place.run of %place
  call void @retain_row(ptr %results, i64 %result_count)
  call void @enter_row(ptr %pins, i64 %argument_count)
  call void @enter_row(ptr %results, i64 %result_count)
  %waiting = at part.waiting of %part
  %before = atomicrmw add ptr %waiting, i64 1 monotonic, align 8
  call void @hand_out(ptr %args, ptr %part, ptr %place, ptr %event)
  %alone = icmp eq ptr %run, null
  br i1 %alone, label %out, label %share
share:
  %shared = get ptr run.shared of %run
  %data = getelementptr i8, ptr %shared, i64 64
  %index = get i64 part.shared_index of %part
  %table = call ptr @table_of(ptr %part, ptr %place)
  %at = getelementptr ptr, ptr %table, i64 %index
  store ptr %data, ptr %at
  br label %out
out:
  ret void
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
  call void @lock(ptr @queues_lock)
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
  call void @unlock(ptr @queues_lock)
  ret ptr %place
}
"""

TEXT = _ROOM + _ENTER

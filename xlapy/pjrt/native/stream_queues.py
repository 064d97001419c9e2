"""Enqueuing launches on streams, as LLVM text.

A call queues its frames on all of its devices at once, so that launches have the same order on every device.

Responsible for the queues, their capacity, and what a call returns when it enqueues. Does not depend on how streams run
frames.
"""

from __future__ import annotations

from xlapy.pjrt.objects.records import SIZES

QUEUE_CAPACITY = 32
"""Launches that a stream queues. A further call waits for a free slot."""

_SLOTS = f"""
@queues_lock = internal global i64 0, align 64
@multi_device_enqueue = internal global [{SIZES["semaphore"]} x i8] zeroinitializer, align 64

declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)
declare i32 @sem_getvalue(ptr, ptr)

define internal void @initialize_enqueue() {{
  %ready = call i32 @sem_init(ptr @multi_device_enqueue, i32 0, i32 1)
  ret void
}}

; Waits for a semaphore, again if a signal interrupts the wait.
define internal void @wait_semaphore(ptr %semaphore) {{
entry:
  br label %try
try:
  %failed = call i32 @sem_wait(ptr %semaphore)
  %again = icmp ne i32 %failed, 0
  br i1 %again, label %try, label %out
out:
  ret void
}}

; Waits for a free queue slot on each device. Calls on several devices do so one at a time, because two that each
; hold a slot the other one needs would deadlock.
define internal void @acquire_queue_slots(ptr %executable, i64 %count) {{
  %several = icmp ugt i64 %count, 1
  br i1 %several, label %queue, label %go
queue:
  call void @wait_semaphore(ptr @multi_device_enqueue)
  br label %go
go:
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %stream = get ptr device_program.stream of %program
  %room = at stream.free_slots of %stream
  call void @wait_semaphore(ptr %room)
  end one
  br i1 %several, label %leave, label %out
leave:
  %left = call i32 @sem_post(ptr @multi_device_enqueue)
  br label %out
out:
  ret void
}}

define internal void @release_queue_slots(ptr %executable, i64 %count) {{
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %stream = get ptr device_program.stream of %program
  %room = at stream.free_slots of %stream
  %given = call i32 @sem_post(ptr %room)
  end one
  ret void
}}
"""

_ENQUEUE = """
; Whether calls of the program return before it has run.
define internal i1 @is_asynchronous(ptr %executable) {
  %long = get i64 executable.is_asynchronous of %executable
  %stopped = load atomic i64, ptr @stopped monotonic, align 8
  %is_long = icmp ne i64 %long, 0
  %open = icmp eq i64 %stopped, 0
  %result = and i1 %is_long, %open
  ret i1 %result
}

define internal void @mark_queued(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  %queued = at storage.queued of %storage
  %before = atomicrmw add ptr %queued, i64 1 monotonic, align 8
  end one
  ret void
}

define internal void @release_queued(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  %queued = at storage.queued of %storage
  %before = atomicrmw sub ptr %queued, i64 1 monotonic, align 8
  call void @release(ptr %storage)
  end one
  ret void
}

define internal void @retain_storages(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  call void @retain(ptr %storage)
  end one
  ret void
}

; Enqueues frames that hold their arguments. Returns false, without effect, if the call must run in another way.
define internal i1 @enqueue_launch(ptr %args, ptr %executable, ptr %row, i64 %count) {
entry:
  %started = call i1 @start_streams(ptr %executable, i64 %count)
  %stopped = load atomic i64, ptr @stopped monotonic, align 8
  %open = icmp eq i64 %stopped, 0
  %can_enqueue = and i1 %started, %open
  br i1 %can_enqueue, label %ask, label %refuse
ask:
  %meets = get i64 executable.has_collectives of %executable
  %is_single = icmp eq i64 %meets, 0
  br i1 %is_single, label %wait, label %make
make:
  %made = call ptr @new_launch(ptr %executable)
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %refuse, label %wait
wait:
  %launch = phi ptr [ null, %ask ], [ %made, %make ]
  call void @acquire_queue_slots(ptr %executable, i64 %count)
  call void @lock(ptr @queues_lock)
  %fits = call i1 @allocate_all_results(ptr %row, i64 %count, i64 -1)
  br i1 %fits, label %enter, label %undo
enter:
  call void @enqueue_frames(ptr %args, ptr %row, i64 %count, ptr %launch)
  call void @unlock(ptr @queues_lock)
  call void @wake_streams(ptr %executable, i64 %count)
  ret i1 true
undo:
  call void @unlock(ptr @queues_lock)
  call void @release_queue_slots(ptr %executable, i64 %count)
  %shared = icmp eq ptr %launch, null
  br i1 %shared, label %refuse, label %drop
drop:
  call void @close_launch(ptr %launch)
  call void @release_launch(ptr %launch)
  br label %refuse
refuse:
  ret i1 false
}

define internal i1 @start_streams(ptr %executable, i64 %count) {
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %stream = get ptr device_program.stream of %program
  %started = call i1 @start_stream(ptr %stream)
  br i1 %started, label %one.next, label %no
no:
  ret i1 false
  end one
  ret i1 true
}

define internal void @wake_streams(ptr %executable, i64 %count) {
  for %number below %count as one
  %program = call ptr @device_program_at(ptr %executable, i64 %number)
  %stream = get ptr device_program.stream of %program
  %wake = at stream.wake of %stream
  %woken = call i32 @sem_post(ptr %wake)
  end one
  ret void
}

; The queues are locked, so that launches have the same order on all devices.
define internal void @enqueue_frames(ptr %args, ptr %row, i64 %count, ptr %launch) {
  for %number below %count as one
  %frame = call ptr @frame_at(ptr %row, i64 %number)
  %program = get ptr launch_frame.program of %frame
  call void @prepare_frame(ptr %args, ptr %program, ptr %frame, ptr %launch)
  %stream = get ptr device_program.stream of %program
  call void @push_frame(ptr %stream, ptr %frame)
  end one
  ret void
}

define internal void @prepare_frame(ptr %args, ptr %program, ptr %frame, ptr %launch) {
entry:
  %argument_count = get i64 device_program.argument_count of %program
  %result_count = get i64 device_program.result_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  %event = call ptr @new_event(i64 1)
  put ptr %event launch_frame.event of %frame
  put ptr %launch launch_frame.launch of %frame
  call void @retain_storages(ptr %results, i64 %result_count)
  call void @mark_queued(ptr %holds, i64 %argument_count)
  call void @mark_queued(ptr %results, i64 %result_count)
  %waiting = at device_program.pending_launches of %program
  %before = atomicrmw add ptr %waiting, i64 1 monotonic, align 8
  call void @return_results(ptr %args, ptr %program, ptr %frame, ptr %event)
  %is_single = icmp eq ptr %launch, null
  br i1 %is_single, label %out, label %share
share:
  %shared = get ptr launch.shared of %launch
  %data = getelementptr i8, ptr %shared, i64 64
  %index = get i64 device_program.shared_index of %program
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %at = getelementptr ptr, ptr %table, i64 %index
  store ptr %data, ptr %at
  br label %out
out:
  ret void
}

define internal void @push_frame(ptr %stream, ptr %frame) {
entry:
  put ptr null launch_frame.next of %frame
  %last = get ptr stream.last of %stream
  put ptr %frame stream.last of %stream
  %none = icmp eq ptr %last, null
  br i1 %none, label %first, label %append
first:
  put ptr %frame stream.first of %stream
  ret void
append:
  put ptr %frame launch_frame.next of %last
  ret void
}

; Removes the first frame of a queue and marks it as running; null if the queue is empty.
define internal ptr @pop_frame(ptr %stream) {
entry:
  call void @lock(ptr @queues_lock)
  %frame = get ptr stream.first of %stream
  %none = icmp eq ptr %frame, null
  br i1 %none, label %out, label %take
take:
  %next = get ptr launch_frame.next of %frame
  put ptr %next stream.first of %stream
  put ptr %frame stream.running of %stream
  %empty = icmp eq ptr %next, null
  br i1 %empty, label %clear, label %out
clear:
  put ptr null stream.last of %stream
  br label %out
out:
  call void @unlock(ptr @queues_lock)
  ret ptr %frame
}
"""

TEXT = _SLOTS + _ENQUEUE

"""Launches whose devices synchronize with each other, as LLVM text: their shared memory, and how all devices fail if
one does.

The memory that the devices share starts out as zeros, and returns to that state after a launch in which every device
succeeded; an executable keeps one spare. If a device fails, a flag in this memory cancels the others. The storages of
failed frames are kept until the last device has finished, because other devices may still read them.

A device that has waited long requests a deadlock check, which a separate thread performs in Python. Streams therefore
never wait for the interpreter's lock.

Responsible for launch records, the list of active launches, and deadlock checks. Does not depend on how devices
synchronize, or on which thread runs a frame.
"""

from __future__ import annotations

from xlapy.native import futex
from xlapy.pjrt.objects.records import SIZES

_LIFETIME = f"""
@launches = internal global ptr null
@launches_lock = internal global i64 0, align 64
@launch_numbers = internal global i64 0, align 64

declare ptr @memset(ptr, i32, i64)
{futex.DECLARATION}

; Returns shared memory that is all zeros or was used by a successful launch; null if memory is exhausted.
define internal ptr @acquire_shared_memory(ptr %executable) {{
entry:
  %at = at executable.spare_shared of %executable
  %kept = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %out
make:
  %bytes = get i64 executable.shared_bytes of %executable
  %made = call ptr @allocate(i64 %bytes)
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %out, label %clear
clear:
  %data = getelementptr i8, ptr %made, i64 64
  %cleared = call ptr @memset(ptr %data, i32 0, i64 %bytes)
  br label %out
out:
  %shared = phi ptr [ %kept, %entry ], [ null, %make ], [ %made, %clear ]
  ret ptr %shared
}}

define internal void @return_shared_memory(ptr %executable, ptr %shared) {{
entry:
  %word = getelementptr i8, ptr %shared, i64 64
  %canceled = load atomic i32, ptr %word acquire, align 4
  %was_canceled = icmp ne i32 %canceled, 0
  br i1 %was_canceled, label %drop, label %keep
keep:
  %at = at executable.spare_shared of %executable
  %pair = cmpxchg ptr %at, ptr null, ptr %shared acq_rel acquire, align 8
  %kept = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %kept, label %out, label %drop
drop:
  call void @release(ptr %shared)
  br label %out
out:
  ret void
}}

; Makes the record of a launch on all devices; null if memory is exhausted.
define internal ptr @new_launch(ptr %executable) {{
entry:
  %shared = call ptr @acquire_shared_memory(ptr %executable)
  %missing = icmp eq ptr %shared, null
  br i1 %missing, label %nothing, label %make
nothing:
  ret ptr null
make:
  %count = get i64 executable.device_program_count of %executable
  %words = mul i64 %count, 8
  %size = add i64 %words, {SIZES["launch"]}
  %launch = call ptr @malloc(i64 %size)
  %cleared = call ptr @memset(ptr %launch, i32 0, i64 %size)
  %number = atomicrmw add ptr @launch_numbers, i64 1 monotonic, align 8
  put i64 %number launch.number of %launch
  put i64 1 launch.owners of %launch
  put i64 %count launch.remaining of %launch
  put ptr %executable launch.executable of %launch
  put ptr %shared launch.shared of %launch
  call void @lock(ptr @launches_lock)
  %first = load ptr, ptr @launches
  put ptr %first launch.next of %launch
  put i64 1 launch.is_open of %launch
  store ptr %launch, ptr @launches
  call void @unlock(ptr @launches_lock)
  ret ptr %launch
}}

; Removes a launch from the active ones. From now on it cannot be failed from outside.
define internal void @close_launch(ptr %launch) {{
entry:
  call void @lock(ptr @launches_lock)
  put i64 0 launch.is_open of %launch
  br label %header
header:
  %at = phi ptr [ @launches, %entry ], [ %next_at, %on ]
  %found = load ptr, ptr %at
  %here = icmp eq ptr %found, %launch
  br i1 %here, label %take, label %on
on:
  %next_at = at launch.next of %found
  br label %header
take:
  %next = get ptr launch.next of %launch
  store ptr %next, ptr %at
  call void @unlock(ptr @launches_lock)
  %executable = get ptr launch.executable of %launch
  %shared = get ptr launch.shared of %launch
  call void @return_shared_memory(ptr %executable, ptr %shared)
  ret void
}}

define void @release_launch(ptr %launch) {{
entry:
  %owners = at launch.owners of %launch
  %before = atomicrmw sub ptr %owners, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %end, label %out
end:
  %error = get ptr launch.error of %launch
  call void @free(ptr %error)
  call void @free(ptr %launch)
  br label %out
out:
  ret void
}}

; Sets the state of a device: 0 not started, 1 running, 2 finished.
define internal void @set_device_state(ptr %launch, ptr %program, i64 %state) {{
  %number = get i64 device_program.number of %program
  %states = getelementptr i8, ptr %launch, i64 {SIZES["launch"]}
  %at = getelementptr i64, ptr %states, i64 %number
  store atomic i64 %state, ptr %at release, align 8
  ret void
}}
"""

_FAILURES = """
; Cancels the running devices of a launch and wakes those that wait. The launch must be open.
define internal void @cancel_launch(ptr %launch) {
  %shared = get ptr launch.shared of %launch
  %data = getelementptr i8, ptr %shared, i64 64
  %before = atomicrmw xchg ptr %data, i32 1 seq_cst, align 4
  %reported = icmp ne i32 %before, 0
  br i1 %reported, label %out, label %report
report:
  %executable = get ptr launch.executable of %launch
  %words = get ptr executable.wait_words of %executable
  %count = get i64 executable.wait_word_count of %executable
  for %number below %count as one
  %at = getelementptr i64, ptr %words, i64 %number
  %offset = load i64, ptr %at
  %word = getelementptr i8, ptr %data, i64 %offset
  %old = atomicrmw xor ptr %word, i32 1073741824 seq_cst, align 4
  %woken = {wake}
  end one
  br label %out
out:
  ret void
}

; Fails a launch that is still active. Takes ownership of the error; only the first error is kept.
define void @fail_launch(ptr %launch, ptr %error) {
entry:
  call void @lock(ptr @launches_lock)
  %open = get i64 launch.is_open of %launch
  %over = icmp eq i64 %open, 0
  %first = get ptr launch.error of %launch
  %known = icmp ne ptr %first, null
  %late = or i1 %over, %known
  br i1 %late, label %drop, label %enter
enter:
  put ptr %error launch.error of %launch
  call void @cancel_launch(ptr %launch)
  br label %out
drop:
  call void @free(ptr %error)
  br label %out
out:
  call void @unlock(ptr @launches_lock)
  ret void
}

define internal i1 @is_launch_canceled(ptr %launch) {
  %shared = get ptr launch.shared of %launch
  %data = getelementptr i8, ptr %shared, i64 64
  %canceled = load atomic i32, ptr %data acquire, align 4
  %failed = icmp ne i32 %canceled, 0
  ret i1 %failed
}

; The error that a device of a failed launch reports.
define internal ptr @launch_error(ptr %launch) {
entry:
  call void @lock(ptr @launches_lock)
  %first = get ptr launch.error of %launch
  %copy = call ptr @copy_of_error(ptr %first)
  call void @unlock(ptr @launches_lock)
  %none = icmp eq ptr %copy, null
  br i1 %none, label %plain, label %out
plain:
  %canceled = call ptr @canceled_error()
  ret ptr %canceled
out:
  ret ptr %copy
}

define internal void @cancel_launches() {
entry:
  call void @lock(ptr @launches_lock)
  %first = load ptr, ptr @launches
  br label %header
header:
  %launch = phi ptr [ %first, %entry ], [ %next, %one ]
  %none = icmp eq ptr %launch, null
  br i1 %none, label %out, label %one
one:
  call void @cancel_launch(ptr %launch)
  %next = get ptr launch.next of %launch
  br label %header
out:
  call void @unlock(ptr @launches_lock)
  ret void
}

; Copies pointers to the active launches into `row` (capacity `room`). Retains each launch and its shared memory;
; the caller releases them. Returns the number copied.
define i64 @active_launches(ptr %row, i64 %room) {
entry:
  call void @lock(ptr @launches_lock)
  %first = load ptr, ptr @launches
  br label %header
header:
  %launch = phi ptr [ %first, %entry ], [ %next, %one ]
  %count = phi i64 [ 0, %entry ], [ %more, %one ]
  %none = icmp eq ptr %launch, null
  %full = icmp uge i64 %count, %room
  %done = or i1 %none, %full
  br i1 %done, label %out, label %one
one:
  %owners = at launch.owners of %launch
  %before = atomicrmw add ptr %owners, i64 1 monotonic, align 8
  %at = getelementptr ptr, ptr %row, i64 %count
  store ptr %launch, ptr %at
  %shared = get ptr launch.shared of %launch
  call void @retain(ptr %shared)
  %more = add i64 %count, 1
  %next = get ptr launch.next of %launch
  br label %header
out:
  call void @unlock(ptr @launches_lock)
  ret i64 %count
}
""".replace("{wake}", futex.wake_text("%word"))

_WATCHDOG = f"""
@check_requested = internal global i64 0, align 64
@watchdog_started = internal global i64 0
@watchdog_semaphore = internal global [{SIZES["semaphore"]} x i8] zeroinitializer, align 64

; Programs call this when a device has waited long. It wakes the watchdog thread, which checks for deadlocks, and
; returns.
define i32 @request_deadlock_check(i64 %number) {{
entry:
  %thread = alloca i64
  %requested = atomicrmw xchg ptr @check_requested, i64 1 acq_rel, align 8
  %known = icmp ne i64 %requested, 0
  br i1 %known, label %out, label %ask
ask:
  %before = atomicrmw xchg ptr @watchdog_started, i64 1 acq_rel, align 8
  %there = icmp ne i64 %before, 0
  br i1 %there, label %post, label %start
start:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @watchdog_main, ptr null)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %let, label %none
let:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  br label %post
none:
  store atomic i64 0, ptr @watchdog_started release, align 8
  store atomic i64 0, ptr @check_requested release, align 8
  br label %out
post:
  %posted = call i32 @sem_post(ptr @watchdog_semaphore)
  br label %out
out:
  ret i32 0
}}

define internal ptr @watchdog_main(ptr %unused) {{
entry:
  br label %wait
wait:
  call void @wait_semaphore(ptr @watchdog_semaphore)
  store atomic i64 0, ptr @check_requested release, align 8
  %error = call ptr @check_deadlocks_in_python(ptr @watchdog_semaphore)
  call void @free(ptr %error)
  br label %wait
}}

define internal void @initialize_watchdog() {{
  %ready = call i32 @sem_init(ptr @watchdog_semaphore, i32 0, i32 0)
  store atomic i64 0, ptr @watchdog_started release, align 8
  store atomic i64 0, ptr @check_requested release, align 8
  ret void
}}
"""

TEXT = _LIFETIME + _FAILURES + _WATCHDOG

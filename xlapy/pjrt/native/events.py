"""Events and errors, as LLVM text.

The state of an event is 0 or a list of waiting callbacks while it is pending, and 1 when it is complete. A failed event
has an error, of which every reader gets a copy.

Responsible for errors, events and waiting. Does not depend on what completes events.
"""

from __future__ import annotations

TEXT = """
@ready_event = internal global [8 x i64] [i64 0, i64 1, i64 1, i64 0, i64 0, i64 0, i64 0, i64 0]

declare i32 @usleep(i32)

; --- errors

define ptr @make_error(i64 %code, ptr %message, i64 %size) {
  %bytes = add i64 %size, 33
  %error = call ptr @malloc(i64 %bytes)
  %text = getelementptr i8, ptr %error, i64 32
  %copied = call ptr @memcpy(ptr %text, ptr %message, i64 %size)
  %end = getelementptr i8, ptr %text, i64 %size
  store i8 0, ptr %end
  put i64 0 error.zero of %error
  put i64 %code error.code of %error
  put i64 %size error.message_size of %error
  put ptr %text error.message of %error
  ret ptr %error
}

@null_text = internal constant [16 x i8] c"a handle is null"

; The error of an entry whose handle is null.
define internal ptr @null_handle_error() {
  %error = call ptr @make_error(i64 3, ptr @null_text, i64 16)
  ret ptr %error
}

define internal ptr @copy_of_error(ptr %error) {
entry:
  %none = icmp eq ptr %error, null
  br i1 %none, label %out, label %copy
copy:
  %code = get i64 error.code of %error
  %message = get ptr error.message of %error
  %size = get i64 error.message_size of %error
  %made = call ptr @make_error(i64 %code, ptr %message, i64 %size)
  br label %out
out:
  %result = phi ptr [ null, %entry ], [ %made, %copy ]
  ret ptr %result
}

define void @free_error(ptr %error) {
  call void @free(ptr %error)
  ret void
}

define ptr @Error_Destroy(ptr %args) {
  %error = get ptr Error_Destroy.error of %args
  call void @free_error(ptr %error)
  ret ptr null
}

; --- lifetime

define internal ptr @new_event(i64 %owners) {
  %event = call ptr @malloc(i64 32)
  put i64 0 event.zero of %event
  put i64 0 event.state of %event
  put i64 %owners event.owners of %event
  put ptr null event.error of %event
  ret ptr %event
}

define ptr @ready_event_handle() {
  ret ptr @ready_event
}

define internal void @retain_event(ptr %event) {
entry:
  %constant = icmp eq ptr %event, @ready_event
  br i1 %constant, label %out, label %count
count:
  %owners = at event.owners of %event
  %before = atomicrmw add ptr %owners, i64 1 monotonic, align 8
  br label %out
out:
  ret void
}

define internal void @release_event(ptr %event) {
entry:
  %constant = icmp eq ptr %event, @ready_event
  br i1 %constant, label %out, label %count
count:
  %owners = at event.owners of %event
  %before = atomicrmw sub ptr %owners, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %end, label %out
end:
  %error = get ptr event.error of %event
  call void @free(ptr %error)
  call void @free(ptr %event)
  br label %out
out:
  ret void
}

define ptr @Event_Destroy(ptr %args) {
entry:
  %event = get ptr Event_Destroy.event of %args
  %none = icmp eq ptr %event, null
  br i1 %none, label %out, label %end
end:
  call void @release_event(ptr %event)
  br label %out
out:
  ret ptr null
}

; --- completion

; Completes an event and calls the waiting callbacks. Takes ownership of the error, which may be null, and releases
; the ownership of the caller.
define internal void @complete_event(ptr %event, ptr %error) {
entry:
  put ptr %error event.error of %event
  %state = at event.state of %event
  %before = atomicrmw xchg ptr %state, i64 1 acq_rel, align 8
  %first = inttoptr i64 %before to ptr
  br label %header
header:
  %node = phi ptr [ %first, %entry ], [ %next, %call ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %out, label %call
call:
  %next = get ptr event_callback.next of %node
  %callback = get ptr event_callback.callback of %node
  %argument = get ptr event_callback.argument of %node
  call void @free(ptr %node)
  %given = call ptr @copy_of_error(ptr %error)
  call void %callback(ptr %given, ptr %argument)
  br label %header
out:
  call void @release_event(ptr %event)
  ret void
}

define internal i1 @is_event_complete(ptr %event) {
  %at = at event.state of %event
  %state = load atomic i64, ptr %at acquire, align 8
  %happened = icmp eq i64 %state, 1
  ret i1 %happened
}

; Whether the event is complete and has not failed.
define internal i1 @is_event_successful(ptr %event) {
  %happened = call i1 @is_event_complete(ptr %event)
  %error = get ptr event.error of %event
  %succeeded = icmp eq ptr %error, null
  %well = and i1 %happened, %succeeded
  ret i1 %well
}

; Calls `callback(error, argument)` when the event completes, or now if it is complete. The callback owns the error.
define internal void @when_complete(ptr %event, ptr %callback, ptr %argument) {
entry:
  %at = at event.state of %event
  %state = load atomic i64, ptr %at acquire, align 8
  %happened = icmp eq i64 %state, 1
  br i1 %happened, label %now, label %later
now:
  %error = get ptr event.error of %event
  %given = call ptr @copy_of_error(ptr %error)
  call void %callback(ptr %given, ptr %argument)
  ret void
later:
  %node = call ptr @malloc(i64 24)
  put ptr %callback event_callback.callback of %node
  put ptr %argument event_callback.argument of %node
  br label %try
try:
  %seen = phi i64 [ %state, %later ], [ %found, %lost ]
  put i64 %seen event_callback.next of %node
  %new = ptrtoint ptr %node to i64
  %pair = cmpxchg ptr %at, i64 %seen, i64 %new acq_rel acquire, align 8
  %found = extractvalue { i64, i1 } %pair, 0
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %out, label %lost
lost:
  %completed_meanwhile = icmp eq i64 %found, 1
  br i1 %completed_meanwhile, label %drop, label %try
drop:
  call void @free(ptr %node)
  br label %now
out:
  ret void
}

; Waits for an event; returns a copy of its error, or null.
define ptr @await_event(ptr %event) {
entry:
  br label %header
header:
  %happened = call i1 @is_event_complete(ptr %event)
  br i1 %happened, label %out, label %sleep
sleep:
  %slept = call i32 @usleep(i32 50)
  br label %header
out:
  %error = get ptr event.error of %event
  %copy = call ptr @copy_of_error(ptr %error)
  ret ptr %copy
}

define ptr @Event_IsReady(ptr %args) {
  %event = need Event_IsReady.event of %args
  %happened = call i1 @is_event_complete(ptr %event)
  %byte = zext i1 %happened to i8
  put i8 %byte Event_IsReady.is_ready of %args
  ret ptr null
}

define ptr @Event_Error(ptr %args) {
  %event = need Event_Error.event of %args
  %error = get ptr event.error of %event
  %copy = call ptr @copy_of_error(ptr %error)
  ret ptr %copy
}

define ptr @Event_Await(ptr %args) {
  %event = need Event_Await.event of %args
  %error = call ptr @await_event(ptr %event)
  ret ptr %error
}

define ptr @Event_OnReady(ptr %args) {
  %event = need Event_OnReady.event of %args
  %callback = need Event_OnReady.callback of %args
  %argument = get ptr Event_OnReady.user_arg of %args
  call void @when_complete(ptr %event, ptr %callback, ptr %argument)
  ret ptr null
}
"""

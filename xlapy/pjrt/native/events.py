"""Entries of errors and events, as LLVM text.

Responsible for these entries. Does not depend on what completes events; see `runtime.engine.core.events`.
"""

from __future__ import annotations

TEXT = """
define ptr @Error_Destroy(ptr %args) {
  %error = get ptr Error_Destroy.error of %args
  call void @free_error(ptr %error)
  ret ptr null
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

define ptr @Event_IsReady(ptr %args) {
  %event = need Event_IsReady.event of %args
  %happened = call i1 @is_event_complete(ptr %event)
  %byte = zext i1 %happened to i8
  put i8 %byte Event_IsReady.is_ready of %args
  ret ptr null
}

define ptr @Event_Error(ptr %args) {
  %event = need Event_Error.event of %args
  %error = call ptr @event_error(ptr %event)
  ret ptr %error
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

define ptr @Event_Create(ptr %args) {
entry:
  %event = call ptr @new_host_event()
  %missing = icmp eq ptr %event, null
  br i1 %missing, label %refuse, label %report
report:
  put ptr %event Event_Create.event of %args
  ret ptr null
refuse:
  %error = call ptr @out_of_memory_error()
  ret ptr %error
}

; The error that a caller passes as a code and a message; null for the code 0.
define internal ptr @given_error(i32 %code, ptr %message, i64 %size) {
entry:
  %none = icmp eq i32 %code, 0
  br i1 %none, label %out, label %make
make:
  %word = zext i32 %code to i64
  %silent = icmp eq ptr %message, null
  %length = select i1 %silent, i64 0, i64 %size
  %error = call ptr @make_error(i64 %word, ptr %message, i64 %length)
  ret ptr %error
out:
  ret ptr null
}

; Callbacks make errors with this function.
define ptr @callback_error(i32 %code, ptr %message, i64 %size) {
  %error = call ptr @given_error(i32 %code, ptr %message, i64 %size)
  ret ptr %error
}

; Deletes a chunk that was sent to the host.
define void @free_chunk(ptr %data, ptr %argument) {
  call void @free(ptr %data)
  ret void
}

define ptr @Event_Set(ptr %args) {
entry:
  %event = need Event_Set.event of %args
  %code = get i32 Event_Set.error_code of %args
  %message = get ptr Event_Set.error_message of %args
  %size = get i64 Event_Set.error_message_size of %args
  %error = call ptr @given_error(i32 %code, ptr %message, i64 %size)
  %done = call i1 @set_host_event(ptr %event, ptr %error)
  br i1 %done, label %out, label %refuse
out:
  ret ptr null
refuse:
  %refusal = call ptr @event_set_error()
  ret ptr %refusal
}

; The host lets a prepared copy of a buffer start, or fails it.
define void @start_copy_to_host(ptr %args) {
  %fill = get ptr Buffer_CopyRawToHostFuture_Callback.callback_data of %args
  %code = get i32 Buffer_CopyRawToHostFuture_Callback.error_code of %args
  %message = get ptr Buffer_CopyRawToHostFuture_Callback.error_message of %args
  %size = get i64 Buffer_CopyRawToHostFuture_Callback.error_message_size of %args
  %target = get ptr Buffer_CopyRawToHostFuture_Callback.dst of %args
  %error = call ptr @given_error(i32 %code, ptr %message, i64 %size)
  call void @start_fill(ptr %fill, ptr %target, ptr %error)
  ret void
}

; The event is complete on which a donated buffer depends.
define void @complete_dependency(ptr %args) {
  %fill = get ptr Buffer_DonateWithControlDependency_Callback.callback_data of %args
  %code = get i32 Buffer_DonateWithControlDependency_Callback.error_code of %args
  %message = get ptr Buffer_DonateWithControlDependency_Callback.error_message of %args
  %size = get i64 Buffer_DonateWithControlDependency_Callback.error_message_size of %args
  %error = call ptr @given_error(i32 %code, ptr %message, i64 %size)
  call void @start_fill(ptr %fill, ptr null, ptr %error)
  ret void
}
"""

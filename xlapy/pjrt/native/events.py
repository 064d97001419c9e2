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
"""

"""Launch frames, as LLVM text: the state of a launch on one device.

A frame consists of its record, the storages that hold its arguments, the storages of its results, and the address table
that the program reads. It also owns the arena. A device program keeps one spare frame; concurrent launches allocate
their own.

Responsible for frames, storages of arguments and results, and the result buffers. Does not depend on which thread runs
a frame.
"""

from __future__ import annotations

from xlapy.pjrt.objects.records import SIZES

_FRAMES = f"""
define internal ptr @acquire_frame(ptr %program) {{
entry:
  %at = at device_program.spare_frame of %program
  %free = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %free, null
  br i1 %none, label %new, label %out
new:
  %made = call ptr @new_frame(ptr %program)
  br label %out
out:
  %frame = phi ptr [ %free, %entry ], [ %made, %new ]
  ret ptr %frame
}}

define internal ptr @new_frame(ptr %program) {{
  %arguments = get i64 device_program.argument_count of %program
  %results = get i64 device_program.result_count of %program
  %bytes = get i64 device_program.table_bytes of %program
  %words = add i64 %arguments, %results
  %rows = mul i64 %words, 8
  %head = add i64 %rows, {SIZES["launch_frame"]}
  %size = add i64 %head, %bytes
  %frame = call ptr @malloc(i64 %size)
  %table = getelementptr i8, ptr %frame, i64 %head
  %template = get ptr device_program.table of %program
  %copied = call ptr @memcpy(ptr %table, ptr %template, i64 %bytes)
  put ptr %program launch_frame.program of %frame
  put ptr null launch_frame.launch of %frame
  put ptr null launch_frame.arena of %frame
  ret ptr %frame
}}

define internal ptr @argument_holds(ptr %frame) {{
  %holds = getelementptr i8, ptr %frame, i64 {SIZES["launch_frame"]}
  ret ptr %holds
}}

define internal ptr @result_storages(ptr %program, ptr %frame) {{
  %holds = call ptr @argument_holds(ptr %frame)
  %count = get i64 device_program.argument_count of %program
  %results = getelementptr ptr, ptr %holds, i64 %count
  ret ptr %results
}}

define internal ptr @address_table(ptr %program, ptr %frame) {{
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  %count = get i64 device_program.result_count of %program
  %table = getelementptr ptr, ptr %results, i64 %count
  ret ptr %table
}}

define internal void @free_spare_frame(ptr %program) {{
entry:
  %at = at device_program.spare_frame of %program
  %frame = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %frame, null
  br i1 %none, label %out, label %drop
drop:
  call void @free_frame(ptr %frame)
  br label %out
out:
  ret void
}}

define internal void @free_frame(ptr %frame) {{
entry:
  %arena = get ptr launch_frame.arena of %frame
  %none = icmp eq ptr %arena, null
  br i1 %none, label %out, label %give
give:
  call void @release(ptr %arena)
  br label %out
out:
  call void @free(ptr %frame)
  ret void
}}

define internal void @return_frame(ptr %program, ptr %frame) {{
entry:
  %at = at device_program.spare_frame of %program
  %pair = cmpxchg ptr %at, ptr null, ptr %frame acq_rel acquire, align 8
  %kept = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %kept, label %out, label %drop
drop:
  call void @free_frame(ptr %frame)
  br label %out
out:
  ret void
}}

; Allocates the arena of a frame, unless it has one; returns false if memory is exhausted.
define internal i1 @allocate_arena(ptr %program, ptr %frame) {{
entry:
  %kept = get ptr launch_frame.arena of %frame
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %there
make:
  %bytes = get i64 device_program.arena_bytes of %program
  %made = call ptr @allocate(i64 %bytes)
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %fail, label %enter
enter:
  put ptr %made launch_frame.arena of %frame
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %data = getelementptr i8, ptr %made, i64 64
  store ptr %data, ptr %table
  br label %there
there:
  ret i1 true
fail:
  ret i1 false
}}

; Runs the program on a frame that has its arena; returns 0 on success.
define internal i32 @run_frame(ptr %program, ptr %frame) {{
entry:
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %entry_point = get ptr device_program.entry of %program
  %number = get i64 device_program.trace_id of %program
  %plain = icmp eq i64 %number, 0
  br i1 %plain, label %execute, label %note
execute:
  %status = call i32 %entry_point(ptr %table)
  ret i32 %status
note:
  %begin = call i64 @ticks()
  %noted = call i32 %entry_point(ptr %table)
  %end = call i64 @ticks()
  call void @record_time(i64 %number, i64 %begin, i64 %end)
  ret i32 %noted
}}
"""

_ARGUMENTS = """
; The argument buffers of a device.
define internal ptr @argument_list(ptr %args, ptr %program) {
  %number = get i64 device_program.number of %program
  %lists = get ptr LoadedExecutable_Execute.argument_lists of %args
  %at = getelementptr ptr, ptr %lists, i64 %number
  %list = load ptr, ptr %at
  ret ptr %list
}

; Releases the argument storages of a frame, and the frame itself.
define internal void @release_frame(ptr %program, ptr %frame) {
  %count = get i64 device_program.argument_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  call void @release_storages(ptr %holds, i64 %count)
  call void @return_frame(ptr %program, ptr %frame)
  ret void
}

; Releases the storages in an array.
define internal void @release_storages(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  call void @release(ptr %storage)
  end one
  ret void
}

; Acquires holds on the storages of the arguments. Returns false, and keeps none, if an argument does not match.
define internal i1 @hold_arguments(ptr %program, ptr %frame, ptr %list) {
  %count = get i64 device_program.argument_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %addresses = getelementptr ptr, ptr %table, i64 1
  %expected = get ptr device_program.arguments of %program
  for %number below %count as one
  %at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %at
  %type = get i64 buffer.type of %buffer
  %size = get i64 buffer.on_device_size_in_bytes of %buffer
  %layout = get i64 buffer.layout of %buffer
  %triple = mul i64 %number, 3
  %type_at = getelementptr i64, ptr %expected, i64 %triple
  %type_wanted = load i64, ptr %type_at
  %size_at = getelementptr i64, ptr %type_at, i64 1
  %size_wanted = load i64, ptr %size_at
  %layout_at = getelementptr i64, ptr %type_at, i64 2
  %layout_wanted = load i64, ptr %layout_at
  %same_type = icmp eq i64 %type, %type_wanted
  %same_size = icmp eq i64 %size, %size_wanted
  %same_layout = icmp eq i64 %layout, %layout_wanted
  %alike = and i1 %same_type, %same_size
  %same = and i1 %alike, %same_layout
  br i1 %same, label %take, label %one.end
take:
  %storage = call ptr @acquire_hold(ptr %buffer)
  %none = icmp eq ptr %storage, null
  br i1 %none, label %one.end, label %fits
fits:
  %hold_at = getelementptr ptr, ptr %holds, i64 %number
  store ptr %storage, ptr %hold_at
  %data = get ptr buffer.data of %buffer
  %address_at = getelementptr ptr, ptr %addresses, i64 %number
  store ptr %data, ptr %address_at
  end one
  %all = icmp eq i64 %number, %count
  br i1 %all, label %out, label %undo
undo:
  call void @release_storages(ptr %holds, i64 %number)
  br label %out
out:
  ret i1 %all
}

; Whether the elements of all arguments are ready.
define internal i1 @are_arguments_ready(ptr %program, ptr %list) {
  %count = get i64 device_program.argument_count of %program
  for %number below %count as one
  %at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %at
  %event = get ptr buffer.event of %buffer
  %there = call i1 @is_event_successful(ptr %event)
  br i1 %there, label %one.next, label %one.end
  end one
  %all = icmp eq i64 %number, %count
  ret i1 %all
}

; Whether the call is the unique owner of the donated arguments' memory. mask: -1 if queued launches do not count as
; owners, else 0.
define internal i1 @are_uniquely_owned(ptr %program, ptr %frame, i64 %mask) {
  %holds = call ptr @argument_holds(ptr %frame)
  %count = get i64 device_program.donated_count of %program
  %donated = get ptr device_program.donated of %program
  for %number below %count as one
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %hold_at = getelementptr ptr, ptr %holds, i64 %argument
  %storage = load ptr, ptr %hold_at
  %owners = get i64 storage.owners of %storage
  %queued = get i64 storage.queued of %storage
  %event = get ptr storage.event of %storage
  %external = get i64 storage.external of %storage
  %before = and i64 %queued, %mask
  %expected = add i64 %before, 2
  %expected_owners = icmp eq i64 %owners, %expected
  %is_allocated = icmp eq ptr %event, null
  %not_shared = icmp eq i64 %external, 0
  %both = and i1 %expected_owners, %is_allocated
  %is_unique = and i1 %both, %not_shared
  br i1 %is_unique, label %one.next, label %one.end
  end one
  %all = icmp eq i64 %number, %count
  ret i1 %all
}

define internal void @delete_donated_buffers(ptr %program, ptr %list) {
  %count = get i64 device_program.donated_count of %program
  %donated = get ptr device_program.donated of %program
  for %number below %count as one
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %buffer_at = getelementptr ptr, ptr %list, i64 %argument
  %buffer = load ptr, ptr %buffer_at
  call void @delete_buffer(ptr %buffer)
  end one
  ret void
}
"""

_RESULTS = """
define internal void @release_results(ptr %program, ptr %frame) {
  %count = get i64 device_program.result_count of %program
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  call void @release_storages(ptr %results, i64 %count)
  ret void
}

; Allocates the storages of the results. Returns false, and keeps none, if memory is exhausted.
define internal i1 @allocate_results(ptr %program, ptr %frame) {
  %count = get i64 device_program.result_count of %program
  %holds = call ptr @argument_holds(ptr %frame)
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %outputs = get ptr device_program.outputs of %program
  %aliases = get ptr device_program.aliases of %program
  %first = get i64 device_program.first_result of %program
  for %number below %count as one
  %alias_at = getelementptr i64, ptr %aliases, i64 %number
  %alias = load i64, ptr %alias_at
  %own = icmp slt i64 %alias, 0
  br i1 %own, label %new, label %shared
shared:
  %hold_at = getelementptr ptr, ptr %holds, i64 %alias
  %given = load ptr, ptr %hold_at
  call void @retain(ptr %given)
  br label %owned
new:
  %output_at = getelementptr ptr, ptr %outputs, i64 %number
  %output = load ptr, ptr %output_at
  %bytes = get i64 buffer.on_device_size_in_bytes of %output
  %made = call ptr @allocate(i64 %bytes)
  %none = icmp eq ptr %made, null
  br i1 %none, label %one.end, label %enter
enter:
  %data = getelementptr i8, ptr %made, i64 64
  %entry_number = add i64 %first, %number
  %entry_at = getelementptr ptr, ptr %table, i64 %entry_number
  store ptr %data, ptr %entry_at
  br label %owned
owned:
  %storage = phi ptr [ %given, %shared ], [ %made, %enter ]
  %result_at = getelementptr ptr, ptr %results, i64 %number
  store ptr %storage, ptr %result_at
  end one
  %all = icmp eq i64 %number, %count
  br i1 %all, label %out, label %undo
undo:
  call void @release_storages(ptr %results, i64 %number)
  br label %out
out:
  ret i1 %all
}

; Makes the buffers of the results, which become ready with the event.
define internal void @make_result_buffers(ptr %program, ptr %frame, ptr %list, ptr %event) {
  %outputs = get ptr device_program.outputs of %program
  %aliases = get ptr device_program.aliases of %program
  %count = get i64 device_program.result_count of %program
  %results = call ptr @result_storages(ptr %program, ptr %frame)
  %table = call ptr @address_table(ptr %program, ptr %frame)
  %addresses = getelementptr ptr, ptr %table, i64 1
  for %number below %count as one
  %output_at = getelementptr ptr, ptr %outputs, i64 %number
  %output = load ptr, ptr %output_at
  %result_at = getelementptr ptr, ptr %results, i64 %number
  %storage = load ptr, ptr %result_at
  %alias_at = getelementptr i64, ptr %aliases, i64 %number
  %alias = load i64, ptr %alias_at
  %own = icmp slt i64 %alias, 0
  br i1 %own, label %new, label %shared
shared:
  %address_at = getelementptr ptr, ptr %addresses, i64 %alias
  %there = load ptr, ptr %address_at
  br label %make
new:
  %new_data = getelementptr i8, ptr %storage, i64 64
  br label %make
make:
  %data = phi ptr [ %there, %shared ], [ %new_data, %new ]
  %buffer = call ptr @make_buffer(ptr %output, ptr %storage, ptr %data)
  call void @retain_event(ptr %event)
  put ptr %event buffer.event of %buffer
  %list_at = getelementptr ptr, ptr %list, i64 %number
  store ptr %buffer, ptr %list_at
  end one
  ret void
}

; Returns the result buffers to the caller, and the event if it is requested; deletes the donated buffers.
define internal void @return_results(ptr %args, ptr %program, ptr %frame, ptr %event) {
entry:
  %number = get i64 device_program.number of %program
  %output_lists = get ptr LoadedExecutable_Execute.output_lists of %args
  %output_list_at = getelementptr ptr, ptr %output_lists, i64 %number
  %output_list = load ptr, ptr %output_list_at
  call void @make_result_buffers(ptr %program, ptr %frame, ptr %output_list, ptr %event)
  %list = call ptr @argument_list(ptr %args, ptr %program)
  call void @delete_donated_buffers(ptr %program, ptr %list)
  %events = get ptr LoadedExecutable_Execute.device_complete_events of %args
  %not_requested = icmp eq ptr %events, null
  br i1 %not_requested, label %out, label %report
report:
  call void @retain_event(ptr %event)
  %event_at = getelementptr ptr, ptr %events, i64 %number
  store ptr %event, ptr %event_at
  br label %out
out:
  ret void
}
"""

TEXT = _FRAMES + _ARGUMENTS + _RESULTS

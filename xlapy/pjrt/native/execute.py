"""A run of a program on one device, in LLVM text.

A place is memory of one run: its arena, a word an argument for the storage that the run owns meanwhile, a word a
result, then the table of addresses that the program reads. An executable keeps one place that no run uses; runs at the
same time make their own.

A short program whose arguments are there runs in the caller's thread; all else is left to the worker of the device.
What is not plain goes to Python, before anything has happened: programs with callbacks or for several devices,
arguments that do not fit, donated buffers whose memory somebody else has.

Owns: this way of running. Must not know: how programs are compiled, when workers run what.
"""

from __future__ import annotations

from xlapy.pjrt.records import SIZES

_PLACES = f"""
define internal ptr @take_place(ptr %executable) {{
entry:
  %at = at executable.place of %executable
  %free = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %free, null
  br i1 %none, label %new, label %out
new:
  %made = call ptr @new_place(ptr %executable)
  br label %out
out:
  %place = phi ptr [ %free, %entry ], [ %made, %new ]
  ret ptr %place
}}

define internal ptr @new_place(ptr %executable) {{
  %arguments = get i64 executable.argument_count of %executable
  %results = get i64 executable.num_outputs of %executable
  %bytes = get i64 executable.table_bytes of %executable
  %words = add i64 %arguments, %results
  %rows = mul i64 %words, 8
  %head = add i64 %rows, {SIZES["place"]}
  %size = add i64 %head, %bytes
  %place = call ptr @malloc(i64 %size)
  %table = getelementptr i8, ptr %place, i64 %head
  %template = get ptr executable.table of %executable
  %copied = call ptr @memcpy(ptr %table, ptr %template, i64 %bytes)
  put ptr null place.arena of %place
  ret ptr %place
}}

define internal ptr @pins_of(ptr %place) {{
  %pins = getelementptr i8, ptr %place, i64 {SIZES["place"]}
  ret ptr %pins
}}

define internal ptr @results_of(ptr %executable, ptr %place) {{
  %pins = call ptr @pins_of(ptr %place)
  %count = get i64 executable.argument_count of %executable
  %results = getelementptr ptr, ptr %pins, i64 %count
  ret ptr %results
}}

define internal ptr @table_of(ptr %executable, ptr %place) {{
  %results = call ptr @results_of(ptr %executable, ptr %place)
  %count = get i64 executable.num_outputs of %executable
  %table = getelementptr ptr, ptr %results, i64 %count
  ret ptr %table
}}

define void @end_place(ptr %executable) {{
entry:
  %at = at executable.place of %executable
  %place = atomicrmw xchg ptr %at, ptr null acq_rel, align 8
  %none = icmp eq ptr %place, null
  br i1 %none, label %out, label %drop
drop:
  call void @drop_place(ptr %place)
  br label %out
out:
  ret void
}}

define internal void @drop_place(ptr %place) {{
entry:
  %arena = get ptr place.arena of %place
  %none = icmp eq ptr %arena, null
  br i1 %none, label %out, label %give
give:
  call void @release(ptr %arena)
  br label %out
out:
  call void @free(ptr %place)
  ret void
}}

define internal void @put_back(ptr %executable, ptr %place) {{
entry:
  %at = at executable.place of %executable
  %pair = cmpxchg ptr %at, ptr null, ptr %place acq_rel acquire, align 8
  %kept = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %kept, label %out, label %drop
drop:
  call void @drop_place(ptr %place)
  br label %out
out:
  ret void
}}

; Runs the program with a place; what it returns, 0 if all went well, or -1 if there is no memory for the arena.
define internal i32 @run_place(ptr %executable, ptr %place) {{
entry:
  %table = call ptr @table_of(ptr %executable, ptr %place)
  %kept = get ptr place.arena of %place
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %go
make:
  %bytes = get i64 executable.arena_bytes of %executable
  %made = call ptr @allocate(i64 %bytes)
  %missing = icmp eq ptr %made, null
  br i1 %missing, label %fail, label %enter
enter:
  put ptr %made place.arena of %place
  %data = getelementptr i8, ptr %made, i64 64
  store ptr %data, ptr %table
  br label %go
go:
  %program = get ptr executable.entry of %executable
  %status = call i32 %program(ptr %table)
  ret i32 %status
fail:
  ret i32 -1
}}
"""

_ENDS = """
@ended = internal global ptr null
@ended_lock = internal global i64 0, align 64

declare i32 @Py_AddPendingCall(ptr, ptr)

define ptr @LoadedExecutable_GetExecutable(ptr %args) {
  %executable = get ptr LoadedExecutable_GetExecutable.loaded_executable of %args
  %owners = at executable.owners of %executable
  %before = atomicrmw add ptr %owners, i64 1 monotonic, align 8
  put ptr %executable LoadedExecutable_GetExecutable.executable of %args
  ret ptr null
}

; A thread of the framework that waited here for the interpreter's lock while that ends would end the process. So the
; last handle leaves the executable in a list, and asks for somebody to look there.
define ptr @Executable_Destroy(ptr %args) {
entry:
  %executable = get ptr Executable_Destroy.executable of %args
  %none = icmp eq ptr %executable, null
  br i1 %none, label %out, label %count
count:
  %owners = at executable.owners of %executable
  %before = atomicrmw sub ptr %owners, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %leave, label %out
leave:
  call void @lock(ptr @ended_lock)
  %others = load ptr, ptr @ended
  put ptr %others executable.next of %executable
  store ptr %executable, ptr @ended
  call void @unlock(ptr @ended_lock)
  %ends = call i32 @Py_IsFinalizing()
  %closed = icmp ne i32 %ends, 0
  br i1 %closed, label %out, label %ask
ask:
  %asked = call i32 @Py_AddPendingCall(ptr @sweep_function, ptr %executable)
  br label %out
out:
  ret ptr null
}

define ptr @LoadedExecutable_Destroy(ptr %args) {
  %result = call ptr @Executable_Destroy(ptr %args)
  ret ptr %result
}

; The list of executables that nobody has any more, which is empty then.
define ptr @take_ended() {
  call void @lock(ptr @ended_lock)
  %first = load ptr, ptr @ended
  store ptr null, ptr @ended
  call void @unlock(ptr @ended_lock)
  ret ptr %first
}
"""

_ARGUMENTS = """
; Gives up the storages that a row of words owns.
define internal void @release_row(ptr %row, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  call void @release(ptr %storage)
  end one
  ret void
}

; Takes the storages of the arguments; how many that are: all, or those before one that does not fit.
define internal i64 @take_arguments(ptr %executable, ptr %list, ptr %pins, ptr %addresses, i64 %count) {
  %expected = get ptr executable.arguments of %executable
  for %number below %count as one
  %at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %at
  %type = get i64 buffer.type of %buffer
  %size = get i64 buffer.on_device_size_in_bytes of %buffer
  %double = mul i64 %number, 2
  %type_at = getelementptr i64, ptr %expected, i64 %double
  %type_wanted = load i64, ptr %type_at
  %size_at = getelementptr i64, ptr %type_at, i64 1
  %size_wanted = load i64, ptr %size_at
  %same_type = icmp eq i64 %type, %type_wanted
  %same_size = icmp eq i64 %size, %size_wanted
  %same = and i1 %same_type, %same_size
  br i1 %same, label %take, label %one.end
take:
  %storage = call ptr @pin(ptr %buffer)
  %none = icmp eq ptr %storage, null
  br i1 %none, label %one.end, label %fits
fits:
  %pin_at = getelementptr ptr, ptr %pins, i64 %number
  store ptr %storage, ptr %pin_at
  %data = get ptr buffer.data of %buffer
  %address_at = getelementptr ptr, ptr %addresses, i64 %number
  store ptr %data, ptr %address_at
  end one
  ret i64 %number
}

; Whether the elements of all arguments are there.
define internal i1 @are_there(ptr %list, i64 %count) {
  for %number below %count as one
  %at = getelementptr ptr, ptr %list, i64 %number
  %buffer = load ptr, ptr %at
  %event = get ptr buffer.event of %buffer
  %there = call i1 @is_well(ptr %event)
  br i1 %there, label %one.next, label %one.end
  end one
  %all = icmp eq i64 %number, %count
  ret i1 %all
}

; Whether nobody else has the memory of the donated arguments. mask: -1 if runs that wait for their turn do not count.
define internal i1 @are_alone(ptr %executable, ptr %pins, i64 %mask) {
  %count = get i64 executable.donated_count of %executable
  %donated = get ptr executable.donated of %executable
  for %number below %count as one
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %pin_at = getelementptr ptr, ptr %pins, i64 %argument
  %storage = load ptr, ptr %pin_at
  %owners = get i64 storage.owners of %storage
  %queued = get i64 storage.queued of %storage
  %event = get ptr storage.event of %storage
  %external = get i64 storage.external of %storage
  %before = and i64 %queued, %mask
  %expected = add i64 %before, 2
  %few = icmp eq i64 %owners, %expected
  %ours = icmp eq ptr %event, null
  %unseen = icmp eq i64 %external, 0
  %both = and i1 %few, %ours
  %alone = and i1 %both, %unseen
  br i1 %alone, label %one.next, label %one.end
  end one
  %all = icmp eq i64 %number, %count
  ret i1 %all
}

define internal void @end_donated(ptr %executable, ptr %list) {
  %count = get i64 executable.donated_count of %executable
  %donated = get ptr executable.donated of %executable
  for %number below %count as one
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %buffer_at = getelementptr ptr, ptr %list, i64 %argument
  %buffer = load ptr, ptr %buffer_at
  call void @end(ptr %buffer)
  end one
  ret void
}
"""

_RESULTS = """
; Storages of the results; how many there are: all, or those before one for which there is no memory.
define internal i64 @make_results(ptr %executable, ptr %pins, ptr %results, ptr %table, i64 %count) {
  %outputs = get ptr executable.outputs of %executable
  %aliases = get ptr executable.aliases of %executable
  %first = get i64 executable.first_result of %executable
  for %number below %count as one
  %alias_at = getelementptr i64, ptr %aliases, i64 %number
  %alias = load i64, ptr %alias_at
  %own = icmp slt i64 %alias, 0
  br i1 %own, label %new, label %shared
shared:
  %pin_at = getelementptr ptr, ptr %pins, i64 %alias
  %given = load ptr, ptr %pin_at
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
  ret i64 %number
}

; Buffers of the results, which are there when the event happens.
define internal void @make_outputs(ptr %executable, ptr %place, ptr %list, ptr %event) {
  %outputs = get ptr executable.outputs of %executable
  %aliases = get ptr executable.aliases of %executable
  %count = get i64 executable.num_outputs of %executable
  %results = call ptr @results_of(ptr %executable, ptr %place)
  %table = call ptr @table_of(ptr %executable, ptr %place)
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
  %behind = getelementptr i8, ptr %storage, i64 64
  br label %make
make:
  %data = phi ptr [ %there, %shared ], [ %behind, %new ]
  %buffer = call ptr @make_buffer(ptr %output, ptr %storage, ptr %data)
  call void @keep_event(ptr %event)
  put ptr %event buffer.event of %buffer
  %list_at = getelementptr ptr, ptr %list, i64 %number
  store ptr %buffer, ptr %list_at
  end one
  ret void
}

; Everything that a caller is given: buffers of the results, an event if one is asked for; donated buffers end.
define internal void @hand_out(ptr %args, ptr %executable, ptr %place, ptr %list, ptr %event) {
entry:
  %output_lists = get ptr LoadedExecutable_Execute.output_lists of %args
  %output_list = load ptr, ptr %output_lists
  call void @make_outputs(ptr %executable, ptr %place, ptr %output_list, ptr %event)
  call void @end_donated(ptr %executable, ptr %list)
  %events = get ptr LoadedExecutable_Execute.device_complete_events of %args
  %unasked = icmp eq ptr %events, null
  br i1 %unasked, label %out, label %tell
tell:
  call void @keep_event(ptr %event)
  store ptr %event, ptr %events
  br label %out
out:
  ret void
}
"""

_EXECUTE = """
; Whether native code may run it: a plain program with as many arguments as it takes, all or none of them to be kept.
define internal i1 @is_plain(ptr %args, ptr %executable) {
  %fast = get i64 executable.fast of %executable
  %argument_count = get i64 executable.argument_count of %executable
  %given = get i64 LoadedExecutable_Execute.num_args of %args
  %options = get ptr LoadedExecutable_Execute.options of %args
  %kept = get i64 ExecuteOptions.num_non_donatable_input_indices of %options
  %donated = get i64 executable.donated_count of %executable
  %is_fast = icmp ne i64 %fast, 0
  %fits = icmp eq i64 %given, %argument_count
  %keeps = icmp ne i64 %kept, 0
  %donates = icmp ne i64 %donated, 0
  %mixed = and i1 %keeps, %donates
  %unmixed = xor i1 %mixed, true
  %plain = and i1 %is_fast, %fits
  %simple = and i1 %plain, %unmixed
  ret i1 %simple
}

define ptr @LoadedExecutable_Execute(ptr %args) {
entry:
  %executable = get ptr LoadedExecutable_Execute.executable of %args
  %plain = call i1 @is_plain(ptr %args, ptr %executable)
  br i1 %plain, label %ask, label %slow
ask:
  %large = get i64 executable.large of %executable
  %is_small = icmp eq i64 %large, 0
  br i1 %is_small, label %begin, label %make_room
make_room:
  %refused = call ptr @make_room_in_python(ptr %args)
  %granted = icmp eq ptr %refused, null
  br i1 %granted, label %begin, label %refuse
refuse:
  ret ptr %refused
begin:
  %place = call ptr @take_place(ptr %executable)
  %argument_count = get i64 executable.argument_count of %executable
  %result_count = get i64 executable.num_outputs of %executable
  %pins = call ptr @pins_of(ptr %place)
  %results = getelementptr ptr, ptr %pins, i64 %argument_count
  %table = getelementptr ptr, ptr %results, i64 %result_count
  %addresses = getelementptr ptr, ptr %table, i64 1
  %lists = get ptr LoadedExecutable_Execute.argument_lists of %args
  %list = load ptr, ptr %lists
  %taken = call i64 @take_arguments(ptr %executable, ptr %list, ptr %pins, ptr %addresses, i64 %argument_count)
  %all = icmp eq i64 %taken, %argument_count
  br i1 %all, label %when, label %give_up
when:
  %long = call i1 @is_to_wait(ptr %executable)
  %there = call i1 @are_there(ptr %list, i64 %argument_count)
  %short = xor i1 %long, true
  %now = and i1 %short, %there
  br i1 %now, label %check, label %later
later:
  %queued = call i1 @run_later(ptr %args, ptr %executable, ptr %place, ptr %list)
  br i1 %queued, label %out, label %give_up
check:
  %alone = call i1 @are_alone(ptr %executable, ptr %pins, i64 0)
  br i1 %alone, label %allocate, label %give_up
allocate:
  %made = call i64 @make_results(ptr %executable, ptr %pins, ptr %results, ptr %table, i64 %result_count)
  %enough = icmp eq i64 %made, %result_count
  br i1 %enough, label %go, label %no_memory
go:
  %status = call i32 @run_place(ptr %executable, ptr %place)
  %worked = icmp eq i32 %status, 0
  br i1 %worked, label %done, label %no_memory
done:
  call void @hand_out(ptr %args, ptr %executable, ptr %place, ptr %list, ptr @ready_event)
  call void @release_row(ptr %pins, i64 %argument_count)
  call void @put_back(ptr %executable, ptr %place)
  br label %out
out:
  ret ptr null
no_memory:
  call void @release_row(ptr %results, i64 %made)
  br label %give_up
give_up:
  call void @release_row(ptr %pins, i64 %taken)
  call void @put_back(ptr %executable, ptr %place)
  br label %slow
slow:
  %result = call ptr @LoadedExecutable_Execute_in_python(ptr %args)
  ret ptr %result
}
"""

TEXT = _PLACES + _ENDS + _ARGUMENTS + _RESULTS + _EXECUTE

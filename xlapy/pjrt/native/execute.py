"""A run of a program on one device, in LLVM text.

A place is memory of one run: a word for the arena, a word an argument for the storage that the run owns meanwhile, a
word a result, then the table of addresses that the program reads. An executable keeps one place that no run uses; runs
at the same time make their own.

What is not plain goes to Python, before anything has happened: programs with callbacks or for several devices,
arguments that do not fit, donated buffers whose memory somebody else has.

Owns: this way of running. Must not know: how programs are compiled.
"""

from __future__ import annotations

TEXT = """
define internal ptr @new_place(ptr %executable) {
entry:
  %arguments = get i64 executable.argument_count of %executable
  %results = get i64 executable.num_outputs of %executable
  %bytes = get i64 executable.table_bytes of %executable
  %both = add i64 %arguments, %results
  %words = add i64 %both, 1
  %head = mul i64 %words, 8
  %size = add i64 %head, %bytes
  %place = call ptr @malloc(i64 %size)
  %table = getelementptr i8, ptr %place, i64 %head
  %template = get ptr executable.table of %executable
  %copied = call ptr @memcpy(ptr %table, ptr %template, i64 %bytes)
  %arena_bytes = get i64 executable.arena_bytes of %executable
  %arena = call ptr @allocate(i64 %arena_bytes)
  store ptr %arena, ptr %place
  %none = icmp eq ptr %arena, null
  br i1 %none, label %fail, label %done
done:
  %data = getelementptr i8, ptr %arena, i64 64
  store ptr %data, ptr %table
  ret ptr %place
fail:
  call void @free(ptr %place)
  ret ptr null
}

define void @end_place(ptr %executable) {
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
}

define internal void @drop_place(ptr %place) {
  %arena = load ptr, ptr %place
  call void @release(ptr %arena)
  call void @free(ptr %place)
  ret void
}

define internal void @put_back(ptr %executable, ptr %place) {
entry:
  %at = at executable.place of %executable
  %pair = cmpxchg ptr %at, ptr null, ptr %place acq_rel acquire, align 8
  %kept = extractvalue { ptr, i1 } %pair, 1
  br i1 %kept, label %out, label %drop
drop:
  call void @drop_place(ptr %place)
  br label %out
out:
  ret void
}

; Gives up the storages that a row of words owns.
define internal void @release_row(ptr %row, i64 %count) {
entry:
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %out, label %one
one:
  %at = getelementptr ptr, ptr %row, i64 %number
  %storage = load ptr, ptr %at
  call void @release(ptr %storage)
  %following = add i64 %number, 1
  br label %loop
out:
  ret void
}

; Takes the storages of the arguments; how many that are: all, or those before one that does not fit.
define internal i64 @take_arguments(ptr %executable, ptr %list, ptr %pins, ptr %addresses, i64 %count) {
entry:
  %expected = get ptr executable.arguments of %executable
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %fits ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %out, label %one
one:
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
  br i1 %same, label %take, label %out
take:
  %storage = call ptr @pin(ptr %buffer)
  %none = icmp eq ptr %storage, null
  br i1 %none, label %out, label %fits
fits:
  %pin_at = getelementptr ptr, ptr %pins, i64 %number
  store ptr %storage, ptr %pin_at
  %data = get ptr buffer.data of %buffer
  %address_at = getelementptr ptr, ptr %addresses, i64 %number
  store ptr %data, ptr %address_at
  %following = add i64 %number, 1
  br label %loop
out:
  ret i64 %number
}

; Whether nobody else has the memory of the donated arguments.
define internal i1 @are_alone(ptr %executable, ptr %pins) {
entry:
  %count = get i64 executable.donated_count of %executable
  %donated = get ptr executable.donated of %executable
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %yes, label %one
one:
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %pin_at = getelementptr ptr, ptr %pins, i64 %argument
  %storage = load ptr, ptr %pin_at
  %owners = get i64 storage.owners of %storage
  %event = get ptr storage.event of %storage
  %external = get i64 storage.external of %storage
  %two = icmp eq i64 %owners, 2
  %ours = icmp eq ptr %event, null
  %unseen = icmp eq i64 %external, 0
  %both = and i1 %two, %ours
  %alone = and i1 %both, %unseen
  %following = add i64 %number, 1
  br i1 %alone, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Storages of the results; how many there are: all, or those before one for which there is no memory.
define internal i64 @make_results(ptr %executable, ptr %pins, ptr %results, ptr %table, i64 %count) {
entry:
  %outputs = get ptr executable.outputs of %executable
  %aliases = get ptr executable.aliases of %executable
  %first = get i64 executable.first_result of %executable
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %owned ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %out, label %one
one:
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
  br i1 %none, label %out, label %enter
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
  %following = add i64 %number, 1
  br label %loop
out:
  ret i64 %number
}

define internal void @make_outputs(ptr %executable, ptr %results, ptr %addresses, i64 %count, ptr %list) {
entry:
  %outputs = get ptr executable.outputs of %executable
  %aliases = get ptr executable.aliases of %executable
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %make ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %out, label %one
one:
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
  %list_at = getelementptr ptr, ptr %list, i64 %number
  store ptr %buffer, ptr %list_at
  %following = add i64 %number, 1
  br label %loop
out:
  ret void
}

define internal void @end_donated(ptr %executable, ptr %list) {
entry:
  %count = get i64 executable.donated_count of %executable
  %donated = get ptr executable.donated of %executable
  br label %loop
loop:
  %number = phi i64 [ 0, %entry ], [ %following, %one ]
  %done = icmp eq i64 %number, %count
  br i1 %done, label %out, label %one
one:
  %at = getelementptr i64, ptr %donated, i64 %number
  %argument = load i64, ptr %at
  %buffer_at = getelementptr ptr, ptr %list, i64 %argument
  %buffer = load ptr, ptr %buffer_at
  call void @end(ptr %buffer)
  %following = add i64 %number, 1
  br label %loop
out:
  ret void
}

define ptr @LoadedExecutable_Execute(ptr %args) {
entry:
  %executable = get ptr LoadedExecutable_Execute.executable of %args
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
  br i1 %simple, label %ask, label %slow
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
  %place_at = at executable.place of %executable
  %free = atomicrmw xchg ptr %place_at, ptr null acq_rel, align 8
  %none = icmp eq ptr %free, null
  br i1 %none, label %new, label %ready
new:
  %fresh = call ptr @new_place(ptr %executable)
  %missing = icmp eq ptr %fresh, null
  br i1 %missing, label %slow, label %ready
ready:
  %place = phi ptr [ %free, %begin ], [ %fresh, %new ]
  %result_count = get i64 executable.num_outputs of %executable
  %pins = getelementptr ptr, ptr %place, i64 1
  %results = getelementptr ptr, ptr %pins, i64 %argument_count
  %table = getelementptr ptr, ptr %results, i64 %result_count
  %addresses = getelementptr ptr, ptr %table, i64 1
  %lists = get ptr LoadedExecutable_Execute.argument_lists of %args
  %list = load ptr, ptr %lists
  %taken = call i64 @take_arguments(ptr %executable, ptr %list, ptr %pins, ptr %addresses, i64 %argument_count)
  %all = icmp eq i64 %taken, %argument_count
  br i1 %all, label %check, label %give_up
check:
  %alone = call i1 @are_alone(ptr %executable, ptr %pins)
  br i1 %alone, label %allocate, label %give_up
allocate:
  %made = call i64 @make_results(ptr %executable, ptr %pins, ptr %results, ptr %table, i64 %result_count)
  %enough = icmp eq i64 %made, %result_count
  br i1 %enough, label %go, label %no_memory
go:
  %program = get ptr executable.entry of %executable
  %status = call i32 %program(ptr %table)
  %output_lists = get ptr LoadedExecutable_Execute.output_lists of %args
  %output_list = load ptr, ptr %output_lists
  call void @make_outputs(ptr %executable, ptr %results, ptr %addresses, i64 %result_count, ptr %output_list)
  call void @end_donated(ptr %executable, ptr %list)
  call void @release_row(ptr %pins, i64 %argument_count)
  call void @put_back(ptr %executable, ptr %place)
  %events = get ptr LoadedExecutable_Execute.device_complete_events of %args
  %unasked = icmp eq ptr %events, null
  br i1 %unasked, label %out, label %tell
tell:
  store ptr @ready_event, ptr %events
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

"""Entries of buffers, as LLVM text.

A buffer is a record followed by its dimensions. Its elements are dense, in the order of its layout. Who owns them is
decided in `runtime.engine.core.buffers`.

Responsible for these entries, and for transfers that copy dense arrays. Does not depend on programs.
"""

from __future__ import annotations

from xlapy.pjrt.objects.records import SIZES
from xlapy.runtime.engine.core.memory import STORAGE_BYTES

REGISTERED_RANKS = 64
"""Native code knows the row-major layouts of lower ranks."""

ZERO_COPY = 2
"""The first of PJRT_HostBufferSemantics that allows borrowing host memory."""

HOST_BUFFER_SEMANTICS_COUNT = 4
"""Number of values of PJRT_HostBufferSemantics."""

MIN_BORROWED_BYTES = 1 << 14
"""Host memory of at least this many bytes is borrowed if the caller allows it. Smaller arrays are copied faster."""

TEXT = f"""
@element_sizes = internal global [64 x i64] zeroinitializer

@row_major_layouts = internal global [{REGISTERED_RANKS} x ptr] zeroinitializer

define void @set_row_major_layout(i64 %rank, ptr %layout) {{
  %place = getelementptr ptr, ptr @row_major_layouts, i64 %rank
  store ptr %layout, ptr %place
  ret void
}}

; The row-major layout of a rank; null for ranks that are not registered.
define internal ptr @row_major_layout(i64 %rank) {{
entry:
  %known = icmp ult i64 %rank, {REGISTERED_RANKS}
  br i1 %known, label %find, label %none
find:
  %place = getelementptr ptr, ptr @row_major_layouts, i64 %rank
  %layout = load ptr, ptr %place
  ret ptr %layout
none:
  ret ptr null
}}

define ptr @Layouts_Client_GetDefaultLayout(ptr %args) {{
entry:
  %rank = get i64 Layouts_Client_GetDefaultLayout.num_dims of %args
  %layout = call ptr @row_major_layout(i64 %rank)
  %unknown = icmp eq ptr %layout, null
  br i1 %unknown, label %slow, label %report
report:
  put ptr %layout Layouts_Client_GetDefaultLayout.layout of %args
  ret ptr null
slow:
  %result = call ptr @Layouts_Client_GetDefaultLayout_in_python(ptr %args)
  ret ptr %result
}}

; The arguments are those of Layouts_Client_GetDefaultLayout, except for the first.
define ptr @Layouts_Topology_GetDefaultLayout(ptr %args) {{
  %result = call ptr @Layouts_Client_GetDefaultLayout(ptr %args)
  ret ptr %result
}}

define void @set_element_size(i64 %type, i64 %size) {{
  %place = getelementptr i64, ptr @element_sizes, i64 %type
  store i64 %size, ptr %place
  ret void
}}

define ptr @Buffer_Delete(ptr %args) {{
  %buffer = need Buffer_Delete.buffer of %args
  call void @delete_buffer(ptr %buffer)
  ret ptr null
}}

define ptr @Buffer_Destroy(ptr %args) {{
entry:
  %buffer = get ptr Buffer_Destroy.buffer of %args
  %none = icmp eq ptr %buffer, null
  br i1 %none, label %out, label %give
give:
  call void @destroy_buffer(ptr %buffer)
  br label %out
out:
  ret ptr null
}}

define ptr @Buffer_IsDeleted(ptr %args) {{
  %buffer = need Buffer_IsDeleted.buffer of %args
  %deleted = call i1 @is_deleted(ptr %buffer)
  %byte = zext i1 %deleted to i8
  put i8 %byte Buffer_IsDeleted.is_deleted of %args
  ret ptr null
}}

; The event of a buffer that was deleted or donated has failed.
define ptr @Buffer_ReadyEvent(ptr %args) {{
entry:
  %buffer = need Buffer_ReadyEvent.buffer of %args
  %deleted = call i1 @is_deleted(ptr %buffer)
  br i1 %deleted, label %fail, label %find
find:
  %event = get ptr buffer.event of %buffer
  %there = call i1 @is_event_successful(ptr %event)
  br i1 %there, label %known, label %report
known:
  %ready = call ptr @ready_event_handle()
  put ptr %ready Buffer_ReadyEvent.event of %args
  ret ptr null
report:
  call void @retain_event(ptr %event)
  put ptr %event Buffer_ReadyEvent.event of %args
  ret ptr null
fail:
  %error = call ptr @deleted_error()
  %failed = call ptr @failed_event(ptr %error)
  %missing = icmp eq ptr %failed, null
  br i1 %missing, label %refuse, label %answer
answer:
  put ptr %failed Buffer_ReadyEvent.event of %args
  ret ptr null
refuse:
  %exhausted = call ptr @out_of_memory_error()
  ret ptr %exhausted
}}

; --- elements

; NumPy arrays that share the memory of a buffer keep it alive after deletion, and prevent its reuse by donation.
define ptr @Buffer_IncreaseExternalReferenceCount(ptr %args) {{
  %buffer = need Buffer_IncreaseExternalReferenceCount.buffer of %args
  %added = call i1 @add_external_reference(ptr %buffer)
  br i1 %added, label %out, label %deleted
out:
  ret ptr null
deleted:
  %error = call ptr @deleted_error()
  ret ptr %error
}}

define ptr @Buffer_DecreaseExternalReferenceCount(ptr %args) {{
  %buffer = need Buffer_DecreaseExternalReferenceCount.buffer of %args
  %removed = call i1 @remove_external_reference(ptr %buffer)
  br i1 %removed, label %out, label %refuse
out:
  ret ptr null
refuse:
  %error = call ptr @no_reference_error()
  ret ptr %error
}}

define ptr @Buffer_OpaqueDeviceMemoryDataPointer(ptr %args) {{
  %buffer = need Buffer_OpaqueDeviceMemoryDataPointer.buffer of %args
  %none = call i1 @is_deleted(ptr %buffer)
  br i1 %none, label %deleted, label %report
report:
  %data = get ptr buffer.data of %buffer
  put ptr %data Buffer_OpaqueDeviceMemoryDataPointer.device_memory_ptr of %args
  ret ptr null
deleted:
  %error = call ptr @deleted_error()
  ret ptr %error
}}

define ptr @Buffer_UnsafePointer(ptr %args) {{
  %buffer = need Buffer_UnsafePointer.buffer of %args
  %none = call i1 @is_deleted(ptr %buffer)
  br i1 %none, label %deleted, label %report
report:
  %data = get ptr buffer.data of %buffer
  put ptr %data Buffer_UnsafePointer.buffer_pointer of %args
  ret ptr null
deleted:
  %error = call ptr @deleted_error()
  ret ptr %error
}}

; --- transfers

; Whether byte strides are those of a dense row-major array. Dimensions of size 1 may have any stride.
define internal i1 @is_dense(ptr %dims, i64 %rank, ptr %strides, i64 %size) {{
entry:
  %dense = alloca i64
  store i64 %size, ptr %dense
  %free = icmp eq ptr %strides, null
  %count = select i1 %free, i64 0, i64 %rank
  for %number below %count as one
  %left = sub i64 %rank, %number
  %place = sub i64 %left, 1
  %dim_at = getelementptr i64, ptr %dims, i64 %place
  %dim = load i64, ptr %dim_at
  %stride_at = getelementptr i64, ptr %strides, i64 %place
  %stride = load i64, ptr %stride_at
  %expected = load i64, ptr %dense
  %same = icmp eq i64 %stride, %expected
  %single = icmp ule i64 %dim, 1
  %fits = or i1 %same, %single
  %grown = mul i64 %expected, %dim
  store i64 %grown, ptr %dense
  br i1 %fits, label %one.next, label %one.end
  end one
  %all = icmp eq i64 %number, %count
  ret i1 %all
}}

define internal i64 @element_count(ptr %dims, i64 %rank) {{
entry:
  %total = alloca i64
  store i64 1, ptr %total
  for %place below %rank as one
  %at = getelementptr i64, ptr %dims, i64 %place
  %dim = load i64, ptr %at
  %before = load i64, ptr %total
  %grown = mul i64 %before, %dim
  store i64 %grown, ptr %total
  end one
  %result = load i64, ptr %total
  ret i64 %result
}}

; Native code handles dense arrays; Python handles all others.
define ptr @Client_BufferFromHostBuffer(ptr %args) {{
entry:
  %memory = get ptr Client_BufferFromHostBuffer.memory of %args
  %layout = get ptr Client_BufferFromHostBuffer.device_layout of %args
  %type = get i32 Client_BufferFromHostBuffer.type of %args
  %semantics = get i32 Client_BufferFromHostBuffer.host_buffer_semantics of %args
  %source = get ptr Client_BufferFromHostBuffer.data of %args
  %dims = get ptr Client_BufferFromHostBuffer.dims of %args
  %rank = get i64 Client_BufferFromHostBuffer.num_dims of %args
  %strides = get ptr Client_BufferFromHostBuffer.byte_strides of %args
  %stride_count = get i64 Client_BufferFromHostBuffer.num_byte_strides of %args
  %no_memory_given = icmp eq ptr %memory, null
  %special = icmp ne ptr %layout, null
  %known = icmp ult i32 %type, 64
  %known_semantics = icmp ult i32 %semantics, {HOST_BUFFER_SEMANTICS_COUNT}
  %known_arguments = and i1 %known, %known_semantics
  %unknown = xor i1 %known_arguments, true
  %needs_python = or i1 %no_memory_given, %special
  %refused = or i1 %needs_python, %unknown
  br i1 %refused, label %slow, label %typed
typed:
  %type_word = zext i32 %type to i64
  %size_at = getelementptr i64, ptr @element_sizes, i64 %type_word
  %element = load i64, ptr %size_at
  %unknown_type = icmp eq i64 %element, 0
  %order = call ptr @row_major_layout(i64 %rank)
  %unknown_rank = icmp eq ptr %order, null
  %slow_path = or i1 %unknown_type, %unknown_rank
  br i1 %slow_path, label %slow, label %shaped
shaped:
  %has_strides = icmp eq i64 %stride_count, %rank
  %used_strides = select i1 %has_strides, ptr %strides, ptr null
  %dense = call i1 @is_dense(ptr %dims, i64 %rank, ptr %used_strides, i64 %element)
  br i1 %dense, label %fast, label %slow
fast:
  %count = call i64 @element_count(ptr %dims, i64 %rank)
  %bytes = mul i64 %count, %element
  %ready = call ptr @ready_event_handle()
  %may_lend = icmp uge i32 %semantics, {ZERO_COPY}
  %large = icmp uge i64 %bytes, {MIN_BORROWED_BYTES}
  %address = ptrtoint ptr %source to i64
  %below = and i64 %address, 15
  %aligned = icmp eq i64 %below, 0
  %expected = and i1 %may_lend, %large
  %borrowed = and i1 %expected, %aligned
  br i1 %borrowed, label %lend, label %copy
lend:
  %event = call ptr @new_event(i64 2)
  %no_event = icmp eq ptr %event, null
  br i1 %no_event, label %slow, label %borrow
borrow:
  %header = call ptr @borrow_host_memory(ptr %event)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop_event, label %made
drop_event:
  call void @free(ptr %event)
  br label %slow
copy:
  %storage = call ptr @allocate(i64 %bytes)
  %missing = icmp eq ptr %storage, null
  br i1 %missing, label %slow, label %fill
fill:
  %elements = getelementptr i8, ptr %storage, i64 {STORAGE_BYTES}
  %copied = call ptr @memcpy(ptr %elements, ptr %source, i64 %bytes)
  br label %made
made:
  %owner = phi ptr [ %header, %borrow ], [ %storage, %fill ]
  %data = phi ptr [ %source, %borrow ], [ %elements, %fill ]
  %done = phi ptr [ %event, %borrow ], [ %ready, %fill ]
  %devices = get ptr memory.devices of %memory
  %device = load ptr, ptr %devices
  %record = call ptr @new_buffer(i64 %type_word, ptr %dims, i64 %rank, i64 %bytes, ptr %device, ptr %memory, ptr %order,
    ptr %owner, ptr %data, ptr %ready)
  %no_record = icmp eq ptr %record, null
  br i1 %no_record, label %give_back, label %report
give_back:
  call void @release(ptr %owner)
  call void @release_event(ptr %done)
  br label %slow
report:
  put ptr %done Client_BufferFromHostBuffer.done_with_host_buffer of %args
  put ptr %record Client_BufferFromHostBuffer.buffer of %args
  ret ptr null
slow:
  %result = call ptr @Client_BufferFromHostBuffer_in_python(ptr %args)
  ret ptr %result
}}

; Borrows foreign memory, and calls the callback when it is released. Null, without effect, if memory is exhausted.
define ptr @borrow_foreign_memory(ptr %data, ptr %callback, ptr %argument) {{
entry:
  %event = call ptr @new_event(i64 1)
  %no_event = icmp eq ptr %event, null
  br i1 %no_event, label %refuse, label %borrow
borrow:
  %storage = call ptr @borrow_host_memory(ptr %event)
  %no_storage = icmp eq ptr %storage, null
  br i1 %no_storage, label %drop_event, label %prepare
prepare:
  %no_callback = icmp eq ptr %callback, null
  br i1 %no_callback, label %out, label %report
report:
  %owner = call ptr @malloc(i64 {SIZES["view_callback"]})
  %no_owner = icmp eq ptr %owner, null
  br i1 %no_owner, label %drop_storage, label %remember
remember:
  put ptr %data view_callback.data of %owner
  put ptr %callback view_callback.callback of %owner
  put ptr %argument view_callback.argument of %owner
  call void @when_complete(ptr %event, ptr @notify_view_owner, ptr %owner)
  br label %out
out:
  ret ptr %storage
drop_storage:
  call void @free(ptr %storage)
  br label %drop_event
drop_event:
  call void @free(ptr %event)
  br label %refuse
refuse:
  ret ptr null
}}

define internal void @notify_view_owner(ptr %error, ptr %owner) {{
  %data = get ptr view_callback.data of %owner
  %callback = get ptr view_callback.callback of %owner
  %argument = get ptr view_callback.argument of %owner
  call void @free(ptr %owner)
  call void %callback(ptr %data, ptr %argument)
  ret void
}}

; Native code copies to the host in the layout of the buffer; Python handles requests for another layout.
define ptr @Buffer_ToHostBuffer(ptr %args) {{
entry:
  %layout = get ptr Buffer_ToHostBuffer.host_layout of %args
  %target = get ptr Buffer_ToHostBuffer.dst of %args
  %buffer = need Buffer_ToHostBuffer.src of %args
  %bytes = get i64 buffer.on_device_size_in_bytes of %buffer
  %free = icmp eq ptr %layout, null
  br i1 %free, label %dense, label %slow
dense:
  %asks = icmp eq ptr %target, null
  br i1 %asks, label %report, label %copy
report:
  put i64 %bytes Buffer_ToHostBuffer.dst_size of %args
  ret ptr null
copy:
  %room = get i64 Buffer_ToHostBuffer.dst_size of %args
  %small = icmp ult i64 %room, %bytes
  br i1 %small, label %slow, label %take
take:
  %storage = call ptr @acquire_hold(ptr %buffer)
  %deleted = icmp eq ptr %storage, null
  br i1 %deleted, label %slow, label %go
go:
  %event = get ptr buffer.event of %buffer
  %there = call i1 @is_event_successful(ptr %event)
  br i1 %there, label %now, label %later
now:
  %data = get ptr buffer.data of %buffer
  %copied = call ptr @memcpy(ptr %target, ptr %data, i64 %bytes)
  call void @release(ptr %storage)
  %ready = call ptr @ready_event_handle()
  put ptr %ready Buffer_ToHostBuffer.event of %args
  ret ptr null
later:
  %done = call ptr @copy_when_ready(ptr %buffer, ptr %storage, ptr %target)
  %no_memory = icmp eq ptr %done, null
  br i1 %no_memory, label %slow, label %pending
pending:
  put ptr %done Buffer_ToHostBuffer.event of %args
  ret ptr null
slow:
  %result = call ptr @Buffer_ToHostBuffer_in_python(ptr %args)
  ret ptr %result
}}
"""

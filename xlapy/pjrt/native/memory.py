"""Memory of buffers, as LLVM text.

A storage is a header of 64 bytes followed by its elements, aligned to 64 bytes; it is freed with its last owner. Freed
blocks are cached in lists by size class (`runtime.engine.size_classes`). A storage of size 0 is a header only and
stands for borrowed host memory; its event tells the host when it is released.

Responsible for allocation and cached memory. Does not depend on buffers or programs.
"""

from __future__ import annotations

from xlapy.runtime.engine.size_classes import CLASS_BITS, MIN_CACHED_BYTES, MIN_STEP_BITS

_MIN_CACHED_BITS = MIN_CACHED_BYTES.bit_length() - 1
_SLOTS_PER_POWER = 16
"""Free lists per power of two: the bits below the leading one of a size class, twice as many as needed."""

_FREE_LISTS = (64 - _MIN_CACHED_BITS) * _SLOTS_PER_POWER

TEXT = f"""
@cached_blocks = internal global [{_FREE_LISTS} x ptr] zeroinitializer, align 64
@cache_lock = internal global i64 0, align 64
@cached_bytes = internal global i64 0
@cache_limit = internal global i64 0
@used_bytes = internal global i64 0, align 64
@peak_bytes = internal global i64 0

declare ptr @malloc(i64)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare ptr @memcpy(ptr, ptr, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)

define internal void @lock(ptr %lock) {{
entry:
  br label %try
try:
  %before = atomicrmw xchg ptr %lock, i64 1 acquire, align 8
  %taken = icmp ne i64 %before, 0
  br i1 %taken, label %wait, label %acquired
wait:
  %yielded = call i32 @sched_yield()
  br label %try
acquired:
  ret void
}}

define internal void @unlock(ptr %lock) {{
  store atomic i64 0, ptr %lock release, align 8
  ret void
}}

; --- blocks

define internal i64 @round_to_size_class(i64 %size) {{
  %zeros = call i64 @llvm.ctlz.i64(i64 %size, i1 true)
  %shift = sub i64 {63 - CLASS_BITS}, %zeros
  %step_shift = call i64 @llvm.umax.i64(i64 %shift, i64 {MIN_STEP_BITS})
  %step = shl i64 1, %step_shift
  %less = sub i64 %step, 1
  %more = add i64 %size, %less
  %mask = sub i64 0, %step
  %result = and i64 %more, %mask
  ret i64 %result
}}

define internal ptr @size_class(i64 %rounded) {{
  %zeros = call i64 @llvm.ctlz.i64(i64 %rounded, i1 true)
  %power = sub i64 {63 - _MIN_CACHED_BITS}, %zeros
  %above = mul i64 %power, {_SLOTS_PER_POWER}
  %shift = sub i64 59, %zeros
  %top = lshr i64 %rounded, %shift
  %low = and i64 %top, 15
  %class = add i64 %above, %low
  %place = getelementptr ptr, ptr @cached_blocks, i64 %class
  ret ptr %place
}}

define internal ptr @pop_cached_block(i64 %rounded) {{
  %place = call ptr @size_class(i64 %rounded)
  call void @lock(ptr @cache_lock)
  %head = load ptr, ptr %place
  %none = icmp eq ptr %head, null
  br i1 %none, label %out, label %take
take:
  %next = get ptr storage.next of %head
  store ptr %next, ptr %place
  %kept = load i64, ptr @cached_bytes
  %left = sub i64 %kept, %rounded
  store i64 %left, ptr @cached_bytes
  br label %out
out:
  call void @unlock(ptr @cache_lock)
  ret ptr %head
}}

; Allocates a storage for that many bytes, with one owner; null if memory is exhausted.
define ptr @allocate(i64 %size) {{
entry:
  %pointer = alloca ptr
  %whole = add i64 %size, 64
  %large = icmp uge i64 %whole, {MIN_CACHED_BYTES}
  br i1 %large, label %header, label %new
header:
  %rounded = call i64 @round_to_size_class(i64 %whole)
  %found = call ptr @pop_cached_block(i64 %rounded)
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %ready
new:
  %bytes = phi i64 [ %whole, %entry ], [ %rounded, %header ]
  %failed = call i32 @posix_memalign(ptr %pointer, i64 64, i64 %bytes)
  %missing = icmp ne i32 %failed, 0
  br i1 %missing, label %nothing, label %made
nothing:
  ret ptr null
made:
  %fresh = load ptr, ptr %pointer
  br label %ready
ready:
  %storage = phi ptr [ %found, %header ], [ %fresh, %made ]
  %taken = phi i64 [ %rounded, %header ], [ %bytes, %made ]
  put i64 1 storage.owners of %storage
  put ptr null storage.event of %storage
  put i64 0 storage.external of %storage
  put i64 0 storage.queued of %storage
  put ptr null storage.failed of %storage
  put i64 %taken storage.size of %storage
  %before = atomicrmw add ptr @used_bytes, i64 %taken monotonic, align 8
  %used = add i64 %before, %taken
  %highest = atomicrmw umax ptr @peak_bytes, i64 %used monotonic, align 8
  ret ptr %storage
}}

; Makes the storage of borrowed host memory, with one owner: a header with the event that tells the host of its
; release.
define internal ptr @borrow_host_memory(ptr %event) {{
  %storage = call ptr @malloc(i64 64)
  put i64 1 storage.owners of %storage
  put ptr %event storage.event of %storage
  put i64 0 storage.external of %storage
  put i64 0 storage.queued of %storage
  put ptr null storage.failed of %storage
  put i64 0 storage.size of %storage
  ret ptr %storage
}}

define internal void @retain(ptr %storage) {{
  %owners = at storage.owners of %storage
  %before = atomicrmw add ptr %owners, i64 1 monotonic, align 8
  ret void
}}

define void @release(ptr %storage) {{
entry:
  %owners = at storage.owners of %storage
  %before = atomicrmw sub ptr %owners, i64 1 acq_rel, align 8
  %last = icmp eq i64 %before, 1
  br i1 %last, label %end, label %out
end:
  %failed = get ptr storage.failed of %storage
  %succeeded = icmp eq ptr %failed, null
  br i1 %succeeded, label %find_owner, label %failure
failure:
  call void @release_event(ptr %failed)
  br label %find_owner
find_owner:
  %event = get ptr storage.event of %storage
  %size = get i64 storage.size of %storage
  %is_allocated = icmp eq ptr %event, null
  br i1 %is_allocated, label %block, label %borrowed
borrowed:
  call void @complete_event(ptr %event, ptr null)
  br label %give
block:
  %used = atomicrmw sub ptr @used_bytes, i64 %size monotonic, align 8
  %small = icmp ult i64 %size, {MIN_CACHED_BYTES}
  br i1 %small, label %give, label %keep
keep:
  %limit = load i64, ptr @cache_limit
  %fits = icmp ule i64 %size, %limit
  br i1 %fits, label %room, label %give
room:
  %now = load i64, ptr @cached_bytes
  %more = add i64 %now, %size
  %full = icmp ugt i64 %more, %limit
  br i1 %full, label %empty, label %add
empty:
  %trimmed = call i64 @trim()
  br label %add
add:
  %place = call ptr @size_class(i64 %size)
  call void @lock(ptr @cache_lock)
  %head = load ptr, ptr %place
  put ptr %head storage.next of %storage
  store ptr %storage, ptr %place
  %kept = load i64, ptr @cached_bytes
  %sum = add i64 %kept, %size
  store i64 %sum, ptr @cached_bytes
  call void @unlock(ptr @cache_lock)
  ret void
give:
  call void @free(ptr %storage)
  br label %out
out:
  ret void
}}

; Frees cached blocks; returns their size in bytes.
define i64 @trim() {{
entry:
  call void @lock(ptr @cache_lock)
  %bytes = load i64, ptr @cached_bytes
  store i64 0, ptr @cached_bytes
  for %class below {_FREE_LISTS} as list
  %place = getelementptr ptr, ptr @cached_blocks, i64 %class
  %first = load ptr, ptr %place
  store ptr null, ptr %place
  br label %block
block:
  %storage = phi ptr [ %first, %list.body ], [ %next, %drop ]
  %none = icmp eq ptr %storage, null
  br i1 %none, label %done, label %drop
drop:
  %next = get ptr storage.next of %storage
  call void @free(ptr %storage)
  br label %block
done:
  end list
  call void @unlock(ptr @cache_lock)
  ret i64 %bytes
}}

define void @set_cache_limit(i64 %bytes) {{
  store i64 %bytes, ptr @cache_limit
  ret void
}}

; Stores the bytes in use and their peak.
define void @memory_usage(ptr %used, ptr %peak) {{
  %now = load i64, ptr @used_bytes
  store i64 %now, ptr %used
  %most = load i64, ptr @peak_bytes
  store i64 %most, ptr %peak
  ret void
}}

define void @reset_peak_memory() {{
  %now = load i64, ptr @used_bytes
  store i64 %now, ptr @peak_bytes
  ret void
}}
"""

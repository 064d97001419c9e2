"""Whether a kernel may write a result to memory that it reads.

Responsible for this analysis of loop IR. Does not depend on where arrays lie or on when they are needed.
"""

from __future__ import annotations

from collections.abc import Collection

from xlapy.loops.ir import (
    Affine,
    Block,
    Buffer,
    Kernel,
    Statement,
    Store,
    TransposeStatement,
    Value,
    inner_blocks,
)


def may_overwrite(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether a kernel may write a result to memory that it also reads as the buffers `read`.

    It may if it reads each element, or each row, for the last time before it writes it, and writes it once. Example:
    the sums of a tile of a dot are added to the same tile of another operand, which the result may overwrite.
    """
    if any(buffer.written for buffer in read):
        return False
    if any((buffer.size, buffer.type.byte_size) != (written.size, written.type.byte_size) for buffer in read):
        return False
    if kernel.read_first.issuperset(read):
        return True
    if kernel.stores_repeatedly:
        return False
    if _transposes(kernel, read):
        return False
    if _stores_what_it_loads(kernel, written, read):
        return True
    return _accesses_same_row(_offsets(kernel, written, read)) and _reads_before_writing(kernel, written, read)


def _stores_what_it_loads(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether each load from `read` is followed, in its block, by the store to the same offset of `written`.

    The store must happen wherever the load does: an offset out of bounds may belong to an element of another iteration.
    """
    loads = sum(_is_load(statement, read) for statement in kernel.statements())
    blocks = [kernel.body, *(block for statement in kernel.statements() for block in inner_blocks(statement))]
    return 0 < loads == sum(_stored_loads(block, written, read) for block in blocks)


def _stored_loads(block: Block, written: Buffer, read: Collection[Buffer]) -> int:
    """The number of loads of a block from `read` that a store to the same offset of `written` follows in it."""
    found = 0
    loaded: dict[Affine, list[Value | None]] = {}
    """The masks of the loads from each offset that no store has followed yet."""
    for statement in block.statements:
        if isinstance(statement, Value) and _is_load(statement, read):
            place, is_masked = statement.attribute
            if statement.type is not place.buffer.type:
                continue  # it also loads neighbors, which other iterations may have stored
            loaded.setdefault(place.offset, []).append(statement.args[-2] if is_masked else None)
        elif isinstance(statement, Store) and statement.location.buffer is written:
            masks = loaded.pop(statement.location.offset, [])
            found += sum(statement.mask is None or mask is statement.mask for mask in masks)
    return found


def _reads_before_writing(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> bool:
    """Whether no load from `read` follows a store to `written` in the text of the kernel.

    A kernel with several results may compute one after it has stored another.
    """
    stored = False
    for statement in kernel.statements():
        if isinstance(statement, Store):
            stored |= statement.location.buffer is written
        elif stored and _is_load(statement, read):
            return False
    return True


def _is_load(statement: Statement, buffers: Collection[Buffer]) -> bool:
    return isinstance(statement, Value) and statement.op == "load" and statement.attribute[0].buffer in buffers


def _transposes(kernel: Kernel, read: Collection[Buffer]) -> bool:
    """Whether the kernel reads one of the buffers in tiles to transpose them."""
    return any(isinstance(s, TransposeStatement) and s.source.buffer in read for s in kernel.statements())


def _offsets(kernel: Kernel, written: Buffer, read: Collection[Buffer]) -> set[Affine]:
    """Returns the offsets at which the kernel writes `written` or reads the other buffers."""
    offsets: set[Affine] = set()
    for statement in kernel.statements():
        if isinstance(statement, Store) and statement.location.buffer is written:
            offsets.add(statement.location.offset)
        elif isinstance(statement, Value) and _is_load(statement, read):
            offsets.add(statement.attribute[0].offset)
        elif isinstance(statement, TransposeStatement) and statement.source.buffer in read:
            offsets.add(statement.source.offset)
    return offsets


def _accesses_same_row(offsets: set[Affine]) -> bool:
    """Whether all offsets are equal, or consecutive (not nested) loops go through the same row of their own.

    Without offsets nothing is known: other statements than loads and stores access the buffers.
    """
    if not offsets:
        return False
    if len(offsets) == 1:
        return True
    axes = [_innermost_axis(offset) for offset in offsets]
    if any(axis is None or axis.range is None for axis in axes):
        return False
    known = [axis for axis in axes if axis is not None]
    rows = {offset.without(axis) for offset, axis in zip(offsets, known, strict=True)}
    length = 1 + max(axis.range[1] for axis in known if axis.range is not None)
    if len(rows) > 1 or any(_is_inside(a.block, b.block) for a in known for b in known if a is not b):
        return False
    (row,) = rows
    return len(row.terms) < 2 and all(axis.op == "axis" and stride >= length for axis, stride in row.terms)


def _innermost_axis(offset: Affine) -> Value | None:
    """Returns the axis of the innermost loop that an offset depends on, if each iteration adds one element."""
    value, coefficient = max(offset.terms, key=lambda term: term[0].block.depth, default=(None, 0))
    return value if value is not None and value.op == "axis" and coefficient == 1 else None


def _is_inside(block: Block, outer: Block) -> bool:
    """Whether a block is `outer` or nested in it."""
    at: Block | None = block
    while at is not None and at is not outer:
        at = at.parent
    return at is outer

"""What the devices of a group read of each other's arrays in a rendezvous, as rules.

If the members of a group belong to several processes, each process receives the blocks that its devices read. Example:
member r of a reduce-scatter of f32[8] over 4 members reads elements 2r and 2r+1 of every member's operand 0:

    RemoteRead(array=0, size=8, per_reader=8)      # offsets and sizes in bytes

Responsible for these records. Does not depend on processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Parts of an array: `count` times `size` bytes, which begin every `stride` bytes from `offset` on."""

    offset: int
    count: int
    size: int
    stride: int

    @property
    def end(self) -> int:
        """The end of the last part."""
        return self.offset + (self.count - 1) * self.stride + self.size

    @property
    def byte_count(self) -> int:
        return self.count * self.size


@dataclass(frozen=True, slots=True)
class RemoteRead:
    """A rule for which block of which array each member reads from which member.

    array: the number of the array among the operands of the thunk; plus the rank of the reader if `follows_rank`.
    sources: for each rank, the rank of the member from which it reads, or -1; None if each reads from all members.
    per_reader, per_member: bytes between the blocks of consecutive readers and members. last: the largest offset.
    only_root: whether only the member of rank 0 reads.
    """

    array: int
    size: int
    count: int = 1
    stride: int = 0
    per_reader: int = 0
    per_member: int = 0
    last: int | None = None
    follows_rank: bool = False
    only_root: bool = False
    sources: tuple[int, ...] | None = None

    def array_of(self, reader: int) -> int:
        """The number of the array that a member reads."""
        return self.array + (reader if self.follows_rank else 0)

    def block(self, reader: int, member: int) -> Block | None:
        """What one member reads from another; None if nothing."""
        if not self.size or not self.count or (self.only_root and reader):
            return None
        if self.sources is not None and self.sources[reader] != member:
            return None
        offset = reader * self.per_reader + member * self.per_member
        if self.last is not None:
            offset = min(offset, self.last)
        if self.count == 1 or self.stride == self.size:
            return Block(offset, 1, self.size * self.count, self.size * self.count)
        return Block(offset, self.count, self.size, self.stride)

    def to_json(self) -> list[Any]:
        return [
            self.array,
            self.size,
            self.count,
            self.stride,
            self.per_reader,
            self.per_member,
            self.last,
            self.follows_rank,
            self.only_root,
            self.sources,
        ]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> RemoteRead:
        array, size, count, stride, per_reader, per_member = map(int, data[:6])
        last, follows_rank, only_root, sources = data[6:]
        return cls(
            array,
            size,
            count,
            stride,
            per_reader,
            per_member,
            None if last is None else int(last),
            bool(follows_rank),
            bool(only_root),
            None if sources is None else tuple(map(int, sources)),
        )


def merged(blocks: Iterable[Block]) -> list[Block]:
    """Returns disjoint blocks, in ascending order, with the same bytes as the given ones.

    Blocks with parts at different strides stay separate even if they overlap.
    """
    result: list[Block] = []
    for block in sorted(set(blocks)):
        before = result[-1] if result else None
        if before is not None and (before.count, before.count > 1 and before.stride) == (
            block.count,
            block.count > 1 and block.stride,
        ):
            size = max(before.offset + before.size, block.offset + block.size) - before.offset
            is_adjacent = block.offset <= before.offset + before.size
            if is_adjacent and (block.count == 1 or size <= block.stride):
                whole = block.count > 1 and size == block.stride
                result[-1] = (
                    Block(before.offset, 1, block.count * size, block.count * size)
                    if whole
                    else Block(before.offset, block.count, size, block.stride if block.count > 1 else size)
                )
                continue
        result.append(block)
    return result

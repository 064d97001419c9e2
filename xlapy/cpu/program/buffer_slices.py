"""Buffer slices: the memory of each array of a native program.

A slice belongs to an argument, a result, a constant, or a temporary with an offset in the arena. Tuples do not exist at
this level: a tuple value is a tree of slices.

Responsible for the record of a slice. Does not depend on thunks or HLO operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from xlapy.base.shape import Shape


class StorageClass(Enum):
    """The kind of memory that a buffer slice lies in."""

    ARGUMENT = "argument"
    RESULT = "result"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    STACK = "stack"
    """A temporary that a single outlined function uses: it lies on the stack of that function, or in registers."""
    SHARED = "shared"
    """An array in another device's memory or in memory shared by devices. Each rendezvous sets its address anew."""


@dataclass(eq=False, slots=True)
class BufferSlice:
    """The memory of one array. `number` is the index of the argument, result or constant.

    Only the size in bytes and the layout of `shape` hold for every array in the slice. Arrays that share memory may
    have other dimensions (a reshape of f32[4,8] to f32[32]) or another element type (a convert of f32 to s32 in place),
    so thunks of an instruction take the shapes of its operands and results from the instruction.

    Elements are in row-major order, whatever layout the instruction declares, except in slices whose shape has a
    layout: those that custom calls read and write.
    A temporary lies at `offset` in the arena or, before the result `number` is computed, at `offset` in the memory of
    that result.
    """

    shape: Shape
    storage: StorageClass = StorageClass.TEMPORARY
    number: int = -1
    offset: int = -1
    data: np.ndarray[Any, Any] | None = None
    """The elements of a constant; None for other slices."""
    name: str = ""

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.shape.size * self.shape.element_type.byte_size

    @property
    def location(self) -> str:
        """Where a temporary lies, as text: `+64` in the arena, `@result0+64` in the memory of result 0."""
        return f"+{self.offset}" if self.number < 0 else f"@result{self.number}+{self.offset}"

    def __str__(self) -> str:
        if self.storage is StorageClass.STACK:
            return f"stack {self.name}:{self.shape.to_text(layout=False)}"
        location = self.location if self.storage is StorageClass.TEMPORARY else str(self.number)
        return f"{self.storage.value}{location}:{self.shape.to_text(layout=False)}"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """An array value of a program, by its number, and the slice that it lies in."""

    slice: BufferSlice
    number: int


@dataclass(frozen=True, slots=True)
class AccessedRange:
    """`size` bytes from `offset` on, in memory of `capacity` bytes."""

    what: str
    offset: int
    size: int
    capacity: int


Replacements = Mapping[BufferSlice, BufferSlice]
"""New slices by the slices that they replace."""


def join_slices(slices: Iterable[BufferSlice]) -> str:
    """Returns slices as text, separated by commas."""
    return ", ".join(map(str, slices))


def replaced(slices: Iterable[BufferSlice], mapping: Replacements) -> list[BufferSlice]:
    """Returns the slices, with those in the mapping replaced."""
    return [mapping.get(slice_, slice_) for slice_ in slices]

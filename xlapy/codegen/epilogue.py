"""Epilogues: the operations that the kernel of a dot or convolution applies to each sum before it stores the result.

A region with an epilogue has one contraction, and each of its results takes one element of it per element: through
elementwise operations, reshapes and transposes. Example, a dense layer:

    sums   = f32[512,768] dot(x, w)
    biased = f32[512,768] add(sums, broadcast(bias))
    ROOT r = f32[512,12,64] reshape(tanh(biased))

The path of `r` is (reshape): the operations between the contraction and `r` that change an element's index. Does not
depend on how the sums are computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy import opcodes
from xlapy.analysis.aliasing import is_alias
from xlapy.analysis.cost import element_cost
from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Buffer, Builder, Location, Value
from xlapy.lower import Element, Lowering, Source, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import load_element

CONTRACTIONS = frozenset({opcodes.DOT, opcodes.CONVOLUTION, opcodes.RAGGED_DOT})
"""The opcodes whose kernels take an epilogue."""

MIN_RUN_ELEMENTS = 16
"""The smallest last dimension of a result whose rows are stored in another order. Shorter runs waste memory
bandwidth."""

MAX_UNROLLED_EPILOGUE_COST = 256
"""The largest cost of the epilogues of a tile, in additions per lane, that are code of their own for each vector of the
tile. A tile with a longer epilogue is written to scratch memory, and read again by a loop with the epilogue."""

Path: TypeAlias = tuple[Instruction, ...]
"""The reshapes and transposes between a contraction and a result, in the order of the computation."""


def contraction_of(region: Region) -> Instruction | None:
    """Returns the only dot or convolution of a region, if what follows it is an epilogue; else None."""
    found = [i for i in region.instructions if i.op in CONTRACTIONS]
    paths = epilogue_paths(found[0], region.instructions) if len(found) == 1 else None
    return found[0] if paths is not None and all(result in paths for result in region.results) else None


def epilogue_paths(contraction: Instruction, instructions: Collection[Instruction]) -> dict[Instruction, Path] | None:
    """Returns the path of each instruction that takes elements of a contraction, one for each of its own.

    Returns None if an instruction takes its elements in another way, so that the region has no epilogue.
    instructions: those of the region, operands before users.
    """
    paths: dict[Instruction, Path] = {contraction: ()}
    for instruction in instructions:
        found = {paths[operand] for operand in instruction.operands if operand in paths}
        if instruction is contraction or not found or instruction.op is opcodes.TUPLE:
            continue
        if len(found) > 1:
            return None
        (path,) = found
        if instruction.op in (opcodes.RESHAPE, opcodes.TRANSPOSE) or is_alias(instruction):
            paths[instruction] = (*path, instruction)
        elif instruction.op.elementwise and _has_dimensions_of_operands(instruction, paths):
            paths[instruction] = path
        else:
            return None
    return paths


def _has_dimensions_of_operands(instruction: Instruction, paths: Collection[Instruction]) -> bool:
    dimensions = instruction.shape.dimensions
    return all(o.shape.dimensions == dimensions for o in instruction.operands if o in paths)


def reason_against_path(result: Instruction, path: Path) -> str:
    """Why a kernel should not store elements along a path; "" if it stores them in runs of the last dimension."""
    inner, _ = _split_at_end(result, path)
    transposes = [number for number, step in enumerate(path) if step.op is opcodes.TRANSPOSE]
    for step in path[: max([len(inner), *(number + 1 for number in transposes)])]:
        if not keeps_rows(step):
            return f"{step.name} ({step.op.name}) divides its rows"
    if transposes and _row_length(path[0].operands[0]) < MIN_RUN_ELEMENTS:
        return f"{path[transposes[0]].name} has rows of less than {MIN_RUN_ELEMENTS} elements"
    return ""


def keeps_rows(step: Instruction) -> bool:
    """Whether a reshape or transpose leaves the last dimension of more than one element as it is."""
    sizes = step.operands[0].shape.dimensions
    if step.op is not opcodes.TRANSPOSE:
        return _row_length(step) == _row_length(step.operands[0])
    order = [d for d in step.dimensions if sizes[d] > 1]
    return not order or order[-1] == max(order)


def _row_length(instruction: Instruction) -> int:
    return next((size for size in reversed(instruction.shape.dimensions) if size > 1), 1)


def _split_at_end(result: Instruction, path: Path) -> tuple[Path, Path]:
    """Splits a path before the reshapes and transposes that follow the last elementwise operation."""
    count = 0
    while count < len(path) and result is path[len(path) - 1 - count]:
        count += 1
        result = result.operands[0]
    return path[: len(path) - count], path[len(path) - count :]


def moved_index(builder: Builder, path: Path, index: Index) -> Index:
    """The index in the last instruction of a path of the element at an index before the path."""
    for step in path:
        before, after = step.operands[0].shape.dimensions, step.shape.dimensions
        if step.op is opcodes.TRANSPOSE:
            index = tuple(index[d] for d in step.dimensions)
        elif before != after:
            index = delinear(builder, linear(index, before), after)
    return index


@dataclass(frozen=True, slots=True)
class _Result:
    """A result of the region: the last operation that computes it, its path, and the path from there to the result."""

    buffer: Buffer
    shape_dimensions: tuple[int, ...]
    instruction: Instruction
    inner: Path
    outer: Path


class Epilogue:
    """Computes and stores the results of a region, given the elements of its contraction."""

    def __init__(
        self,
        region: Region,
        contraction: Instruction,
        builder: Builder,
        sources: Mapping[Instruction, Source],
        buffers: Sequence[Buffer],
    ) -> None:
        paths = epilogue_paths(contraction, region.instructions)
        assert paths is not None, region.name
        self._builder = builder
        self._contraction = contraction
        self._bound: dict[Instruction, Element] = {}
        self._lowering = Lowering(builder, sources, self._bound)
        self._results = [
            _result(result, paths[result], buffer) for result, buffer in zip(region.results, buffers, strict=True)
        ]
        self.cost = sum(element_cost(i) for i in paths if i is not contraction)
        """The cost of one element, as of `element_cost`."""
        self._prefetched = [s for s in _arrays_read(contraction, paths, sources) if _bytes(s) > region.target.l2_bytes]

    def prefetch(self, index: Index) -> None:
        """Prefetches what `store` reads, of arrays beyond the level-2 cache, for the element of the contraction at an
        index."""
        for source in self._prefetched:
            self._builder.prefetch(Location(source.buffer, self._in_buffer(source, source.offset(index))))

    def _in_buffer(self, source: Source, offset: Affine) -> Affine:
        """The offset itself, or the last one of the buffer if a tile ends behind the array."""
        bounds, last = offset.bounds(), source.buffer.size - 1
        is_inside = bounds is not None and bounds[1] <= last
        return offset if is_inside else self._builder.clamped(self._builder.value_of(offset), last)

    def store(self, index: Index, element: Element, mask: Value | None) -> None:
        """Stores the results that depend on the element of the contraction at an index, where the mask is true."""
        self._bound[self._contraction] = element
        found = [self._computed(result, index, mask) for result in self._results]
        for result, (offset, computed) in zip(self._results, found, strict=True):
            t = result.instruction.shape.element_type
            store_element(self._builder, result.buffer, offset, computed, t, mask)

    @property
    def is_trivial(self) -> bool:
        """Whether the only result is the contraction itself."""
        return [result.instruction for result in self._results] == [self._contraction]

    def result_of_type(self, t: PrimitiveType) -> _Result | None:
        """The first result with elements of a type; its memory can hold a sum before the result is computed."""
        return next((r for r in self._results if r.instruction.shape.element_type is t), None)

    def store_sum(self, index: Index, total: Element, mask: Value | None) -> None:
        """Stores a sum where the element of a result of the contraction's type will be."""
        result, t = self._result_for_sums()
        store_element(self._builder, result.buffer, self._offset(result, index), total, t, mask)

    def load_sum(self, index: Index, mask: Value | None) -> Element:
        """Loads what `store_sum` has stored."""
        result, t = self._result_for_sums()
        return load_element(self._builder, result.buffer, self._offset(result, index), t, mask)

    def locations(self, index: Index) -> list[tuple[Location, int]]:
        """Where the elements of all results are that depend on the contraction's element at an index; of each, also
        the number of elements between two rows."""
        found = []
        for result in self._results:
            parts = 2 if result.instruction.shape.element_type.is_complex else 1
            pitch = result.shape_dimensions[-1] if result.shape_dimensions else 1
            found.append((Location(result.buffer, self._offset(result, index) * parts), pitch * parts))
        return found

    def _result_for_sums(self) -> tuple[_Result, PrimitiveType]:
        t = self._contraction.shape.element_type
        result = self.result_of_type(t)
        assert result is not None
        return result, t

    def _offset(self, result: _Result, index: Index) -> Affine:
        """The offset in the buffer of a result of the element at an index of the contraction."""
        path = (*result.inner, *result.outer)
        return linear(moved_index(self._builder, path, index), result.shape_dimensions)

    def _computed(self, result: _Result, index: Index, mask: Value | None) -> tuple[Affine, Element]:
        """The offset of an element in the buffer of a result, and the element."""
        lowering = self._lowering
        at = moved_index(self._builder, result.inner, index)
        if mask is None:
            element = lowering.element(result.instruction, at)
        else:
            with lowering.where(mask):
                element = lowering.element(result.instruction, at)
        return self._offset(result, index), element


def _arrays_read(
    contraction: Instruction, paths: Mapping[Instruction, Path], sources: Mapping[Instruction, Source]
) -> list[Source]:
    """The arrays in memory of which an epilogue reads the element at the index of each sum."""
    users = [user for user, path in paths.items() if user is not contraction and not path]
    operands = dict.fromkeys(operand for user in users for operand in user.operands)
    dimensions = contraction.shape.dimensions
    return [sources[o] for o in operands if o in sources and o.shape.dimensions == dimensions]


def _bytes(source: Source) -> int:
    return source.buffer.size * source.buffer.type.byte_size


def _result(result: Instruction, path: Path, buffer: Buffer) -> _Result:
    inner, outer = _split_at_end(result, path)
    instruction = outer[0].operands[0] if outer else result
    while outer and outer[-1].op is not opcodes.TRANSPOSE:
        outer = outer[:-1]  # a reshape leaves an element where it is in memory
    last = outer[-1] if outer else instruction
    return _Result(buffer, last.shape.dimensions, instruction, inner, outer)

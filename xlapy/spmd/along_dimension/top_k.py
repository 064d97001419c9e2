"""Top-k along a split dimension.

Responsible for top-k of split rows. Does not depend on how an array is resharded.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.sorting import TopKAttributes
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.tile_group import Rows
from xlapy.spmd.array_sharding import are_independent
from xlapy.spmd.resharding import PartitionedArray


def top_k_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a top-k of split rows: k elements of each tile, gathered, and the k largest of these.

    Equal elements are taken in the order of the row: tiles are gathered in their order, and each selection is stable.
    """
    instruction, write = split.instruction, split.resharder.write
    (operand,) = split.operands
    dimension, shape = instruction.operands[0].shape.rank - 1, instruction.operands[0].shape
    sharding = operand.sharding.with_partial_sums(None)
    if sharding.tilings[dimension] is None or not are_independent([*sharding.all_tilings, *split.manual_axes]):
        return None
    if not split.is_even(sharding, dimension):
        return None
    group, k = split.group(sharding, dimension), instruction.attributes_as(TopKAttributes).k
    size = shape.dimensions[dimension] // group.size
    taken = min(k, size)
    if not k or taken * (shape.element_type.byte_size + S32.byte_size) > size * shape.element_type.byte_size:
        return None  # gathering the rows takes fewer bytes
    values, places = _top_k(write, split.local(0, sharding), instruction, taken)
    offset = write.add(opcodes.MULTIPLY, group.tile_index(), write.scalar(size, S32))
    indices = write.add(opcodes.ADD, places, write.broadcast(offset, places.shape))
    rows = Rows(values.shape.dimensions, dimension)
    gathered = [group.joined(write, rows.of(write, each)) for each in (values, indices)]
    best, order = _top_k(write, gathered[0], instruction, k)
    found = [rows.restore(write, each) for each in (best, _taken_along(write, gathered[1], order))]
    return split.results(found, sharding.with_tiling(dimension, None))


def _top_k(write: Writer, operand: Instruction, like: Instruction, k: int) -> list[Instruction]:
    """Writes a stable top-k of another operand; returns the values and their indices."""
    attributes = like.attributes_as(TopKAttributes).replace(k=k, is_stable=True)
    result = write.add(opcodes.TOPK, operand, attributes=attributes)
    return [write.get_tuple_element(result, number) for number in range(2)]


def _taken_along(write: Writer, rows: Instruction, order: Instruction) -> Instruction:
    """Returns `rows[i, order[i, j]]`."""
    attributes = GatherAttributes.make(
        offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,), index_vector_dim=2, slice_sizes=(1, 1),
    )  # fmt: skip
    return write.add(opcodes.GATHER, rows, order, attributes=attributes)

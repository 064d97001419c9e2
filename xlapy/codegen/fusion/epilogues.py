"""Decides which instructions become the epilogue of a dot, convolution or pooling.

Does not depend on how the epilogue is computed (`codegen.epilogue`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xlapy import opcodes
from xlapy.codegen.emitters.pooling import is_pooling
from xlapy.codegen.epilogue import CONTRACTIONS, epilogue_paths, reason_against_path
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.convolution import ConvolutionAttributes

MAX_EPILOGUE_ARRAYS = 1
"""The largest number of arrays of the size of the result that an epilogue reads or writes besides it. A tile has a few
cache lines of each row, so that reading several arrays in tiles takes longer than a kernel that reads them in order
(`benchmarks.transformers`, "block training step": 0.93x with any number of them)."""

MAX_EPILOGUE_ARRAY_BYTES = 1 << 21
"""The largest size in bytes of such an array. A larger one is read from memory, where the order matters most
(`benchmarks.transformers`, "block training step": 0.97x if products are added to momenta of 2 to 9 MB). There is no
limit for an array that is smaller than the sums: a residual in s8 takes less memory than sums in s32, which another
kernel would read. Nor is there one for convolutions of single elements with one result, which residuals follow: their
kernels prefetch these (`benchmarks.networks`, "resnet50, 8 images" and its training step: 1.01x and 1.03x)."""


def reason_against_epilogue(results: Sequence[Instruction], members: Sequence[Instruction]) -> str:
    """Why the kernel of the dot, convolution or pooling among members cannot compute results; "" if it can, or there is
    none.

    members: users before their operands.
    """
    contractions = [member for member in members if takes_epilogue(member)]
    if not contractions:
        return ""
    contraction, root = contractions[0], results[0].name
    name = f"{contraction.name} ({contraction.op.name})"
    if len(contractions) > 1:
        return f"{name} and {contractions[1].name} need a kernel each"
    reduction = next((member for member in members if member.op is opcodes.REDUCE), None)
    if reduction is not None and results[0] is contraction:
        return f"{reduction.name} (reduce) must be complete before {name} begins"
    if reduction is not None:
        return f"{root} needs more than one element of {name} at a time"
    paths = epilogue_paths(contraction, members[::-1])
    if paths is None or any(result not in paths for result in results):
        return f"{root} needs other elements of {name} than it computes at a time"
    if is_pooling(contraction) and any(paths[result] for result in results):
        return f"{name} stores its elements in their order"
    arrays = _large_arrays(contraction, results, members, paths)
    if len(arrays) > MAX_EPILOGUE_ARRAYS:
        return f"tiles of {name} would go through {len(arrays)} more arrays of its size, out of order"
    size = max((_bytes(array) for array in arrays), default=0)
    is_prefetched = len(results) == 1 and _has_single_elements(contraction)
    if size > MAX_EPILOGUE_ARRAY_BYTES and size >= _bytes(contraction) and not is_prefetched:
        return f"tiles of {name} would go through one more array of {size} bytes, out of order"
    return next(filter(None, (reason_against_path(result, paths[result]) for result in results)), "")


def takes_epilogue(instruction: Instruction) -> bool:
    """Whether the kernel of an instruction applies operations to each element before it stores the result."""
    return instruction.op in CONTRACTIONS or is_pooling(instruction)


def _has_single_elements(contraction: Instruction) -> bool:
    """Whether an instruction is a convolution of one group that reads one position of its input for each result."""
    if contraction.op is not opcodes.CONVOLUTION:
        return False
    attributes: ConvolutionAttributes = contraction.attributes_as(ConvolutionAttributes)
    is_one_group = attributes.feature_group_count == attributes.batch_group_count == 1
    return is_one_group and all(window.is_identity for window in attributes.window.dimensions)


def _large_arrays(
    contraction: Instruction,
    results: Sequence[Instruction],
    members: Sequence[Instruction],
    paths: Collection[Instruction],
) -> list[Instruction]:
    """The arrays that an epilogue reads and writes besides one result, with the elements of its contraction or more."""
    epilogue = {member for member in paths if member is not contraction}
    for member in members:  # users before their operands
        if member is not contraction and member.users_in(epilogue):
            epilogue.add(member)
    inside = {*members, contraction}
    read = {o for member in epilogue for o in member.operands if o not in inside}
    return [o for o in read if o.shape.is_array and o.shape.size >= contraction.shape.size] + [*results[1:]]


def _bytes(array: Instruction) -> int:
    return array.shape.size * array.shape.element_type.byte_size


def contraction_that_stores(transpose: Instruction) -> Instruction | None:
    """The dot or convolution whose kernel can store its result in the order of a transpose; None if there is none."""
    if transpose.op is not opcodes.TRANSPOSE or transpose.user_count != 1:
        return None
    path, producer = [transpose], transpose.operands[0]
    while producer.op in (opcodes.RESHAPE, opcodes.TRANSPOSE) and producer.user_count == 1:
        path.insert(0, producer)
        producer = producer.operands[0]
    is_only_user = producer.op in CONTRACTIONS and producer.user_count == 1
    return producer if is_only_user and not reason_against_path(transpose, tuple(path)) else None

"""Limits that hold on every platform: the rank and size of arrays, constants elided from a text, nested calls.

Does not depend on how programs run.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.literal import check_numpy_limits
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order

MAX_RANK = 32
"""The largest supported rank. NumPy arrays allow 64 dimensions, but some NumPy functions crash the process above 32."""


def check_supported(module: Module, platform: str, call_depth_limit: int) -> None:
    """`UnsupportedError` if a module exceeds a limit. The message names the instruction and the `platform`."""
    _check_shapes(module, platform)
    check_constants(module)
    depth = call_depth(module)
    if depth > call_depth_limit:
        raise UnsupportedError(
            codes.CALL_DEPTH,
            f"computations call each other {depth} deep, {platform} follows at most {call_depth_limit} calls",
        )


def _check_shapes(module: Module, platform: str) -> None:
    for instruction in module.instructions():
        for _, leaf in instruction.shape.leaves():
            if leaf.is_array:
                _check_array(instruction, leaf, platform)


def _check_array(instruction: Instruction, shape: Shape, platform: str) -> None:
    if shape.rank > MAX_RANK:
        raise UnsupportedError(
            codes.ARRAY_RANK,
            f"{describe_instruction(instruction)} of shape {shape.to_text(layout=False)} has {shape.rank} dimensions, "
            f"{platform} takes at most {MAX_RANK}",
        )
    try:
        check_numpy_limits(shape)
    except ShapeError as error:
        raise UnsupportedError(
            error.code, f"{describe_instruction(instruction)}: {error.message}: not executable by {platform}"
        ) from error


def check_constants(module: Module) -> None:
    """`UnsupportedError` for elided constants: with zeros, the program would return wrong results without an error."""
    for instruction in module.instructions():
        if instruction.op is opcodes.CONSTANT and not has_all_elements(instruction.literal):
            raise UnsupportedError(
                codes.ELIDED_CONSTANT,
                f"{describe_instruction(instruction)} is written {{...}}, so its elements are unknown; print the "
                "program with print_large_constants=True",
            )


def call_depth(module: Module) -> int:
    """The length of the longest chain of computations that call each other, the entry included."""
    depth: dict[Computation, int] = {}
    for computation in computation_post_order(module):
        depth[computation] = 1 + max((depth[callee] for callee in called_computations(computation)), default=0)
    return depth[module.entry_computation]

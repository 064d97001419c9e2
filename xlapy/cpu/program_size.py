"""How large a program becomes when calls are expanded, and the errors for what is too large.

Nested calls make a short module very large: if each of 30 computations calls the one before it twice, the last one
stands for a billion instructions. Sizes are sums over computations, in time linear in the module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xlapy.analysis.aliasing import CONTROL_FLOW_OPS
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order

MAX_INSTRUCTIONS = 200_000
"""The largest program, counted with all calls expanded."""


def check_applied_computations(module: Module) -> None:
    """Refuses a module whose kernels would be too large, before anything expands the computations that they apply.

    Raises `UnsupportedError`, which names the largest application, if all of them together have more than
    `MAX_INSTRUCTIONS` instructions.
    """
    sizes = _expanded_sizes(module)
    applications = [
        (_size(sizes, instruction.computations), instruction)
        for computation in sizes
        for instruction in computation
        if instruction.computations and instruction.op not in CONTROL_FLOW_OPS  # those are code of their own
    ]
    total = sum(size for size, _ in applications)
    if total > MAX_INSTRUCTIONS:
        size, largest = max(applications, key=lambda application: application[0])
        raise UnsupportedError(
            codes.PROGRAM_SIZE,
            f"{describe_instruction(largest)} applies a computation of {size} instructions with all calls expanded, "
            f"{module.name} {total} in all, but cpu takes at most {MAX_INSTRUCTIONS}",
        )


def check_expanded_size(module: Module) -> None:
    """Raises `UnsupportedError` if a module has more than `MAX_INSTRUCTIONS` with all calls expanded."""
    size = _expanded_sizes(module)[module.entry_computation]
    if size > MAX_INSTRUCTIONS:
        raise UnsupportedError(
            codes.PROGRAM_SIZE,
            f"{module.name} has {size} instructions with all calls expanded, but cpu takes at most {MAX_INSTRUCTIONS}",
        )


def _expanded_sizes(module: Module) -> dict[Computation, int]:
    """Counts the instructions of each computation, those of a called computation once per call."""
    sizes: dict[Computation, int] = {}
    for computation in computation_post_order(module):
        sizes[computation] = len(computation) + sum(_size(sizes, i.computations) for i in computation)
    return sizes


def _size(sizes: Mapping[Computation, int], computations: Iterable[Computation]) -> int:
    return sum(sizes[computation] for computation in computations)

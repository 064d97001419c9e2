"""Custom calls whose partitioning a front end defines, as JAX's `custom_partitioning` does.

A custom partitioner is given the shardings of a call's operands and results. It chooses shardings, and returns the
program that each device runs on its local arrays.

Responsible for the interface of custom partitioners and for copying their programs. Does not depend on JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.traverse import computation_post_order


@dataclass(frozen=True)
class CustomPartition:
    """How a custom call is partitioned.

    program: what each device runs; its parameters are the local arrays of the operands, and its result the local array
    of the result, or a tuple of them. operands, results: the shardings of the whole arrays.
    """

    program: Module
    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


CustomPartitioner: TypeAlias = Callable[
    [Instruction, Sequence[Sharding], Sequence[Sharding] | None], CustomPartition | None
]
"""Partitions a custom call, given the shardings of its operands and those that the program requests for its results,
None if it requests none. Returns None for a custom call that it does not partition."""


def copy_program(program: Module, into: Module, source: Instruction, channels: Iterator[int]) -> Computation:
    """Appends the computations of a program to a module, with new channel numbers; returns its entry computation.

    source: the instruction that calls it. Copies have its metadata, because stack frames are numbered by module.
    """
    copies: dict[Computation, Computation] = {}
    for computation in computation_post_order(program):
        copy = copies[computation] = edit.clone_computation(computation, into, copies)
        for instruction in copy:
            instruction.sharding, instruction.metadata = None, source.metadata
            if getattr(instruction.attributes, "channel_id", None) is not None:
                instruction.attributes = instruction.attributes.replace(channel_id=next(channels))
    return copies[program.entry_computation]


def check_local_shapes(
    call: Instruction, entry: Computation, operands: Sequence[Shape], results: Sequence[Shape]
) -> None:
    """Raises `UnsupportedError` unless a program's parameters and results are the local arrays of a custom call."""
    parameters = [parameter.shape for parameter in entry.parameters]
    returned = [leaf for _, leaf in entry.root_instruction.shape.leaves()]
    for what, found, expected in (("operands", parameters, operands), ("results", returned, results)):
        if len(found) == len(expected) and all(a.compatible(b) for a, b in zip(found, expected, strict=True)):
            continue
        raise UnsupportedError(
            codes.CUSTOM_PARTITION_SHAPES,
            f"{describe_instruction(call)}, target {call.custom_call_target}: the local {what} are "
            f"{_listed(expected)}, its custom partitioner returned a program with {_listed(found)}",
        )


def _listed(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(shape.to_text(layout=False) for shape in shapes)})"

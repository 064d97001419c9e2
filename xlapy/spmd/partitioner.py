"""Partitions a module: from a program with shardings to the program that each device runs, with collectives.

XLA's counterpart is SpmdPartitioner. Shardings come from the program; `propagation.py` proposes missing ones, and
`strategy.py` decides operation by operation.

Responsible for `partition`, for the shardings of the entry computation and for the module's configuration. Does not
depend on how single instructions are split (`computation_partitioner.py`).
"""

from __future__ import annotations

import dataclasses

from xlapy.base import flags
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Alias, Module, ModuleConfig
from xlapy.passes.algebra import general, movement
from xlapy.passes.control_flow.inline_calls import InlineCalls
from xlapy.passes.expand.expand import Expand
from xlapy.passes.merge_common_subexpressions import MergeCommonSubexpressions
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.rewrite import editable_computations, remove_uncalled_computations
from xlapy.passes.simplify import simplify_computation
from xlapy.spmd.array_sharding import hlo_sharding_of
from xlapy.spmd.collectives.combiner import combine_collectives
from xlapy.spmd.collectives.loop_invariants import hoist_collectives
from xlapy.spmd.collectives.replicas import add_groups_of_replicas
from xlapy.spmd.collectives.rewrites import rewrite_collectives
from xlapy.spmd.collectives.windowed_dots import window_dots
from xlapy.spmd.computation_partitioner import partition_computation
from xlapy.spmd.context import CustomPartitioner, InspectSharding, PartitioningContext
from xlapy.spmd.entry.shardings import EntryShardings
from xlapy.spmd.halo.concatenations import collect_concatenated_ranges
from xlapy.spmd.partitioned_values import Placements, requested_shardings
from xlapy.spmd.propagation import propagate_shardings
from xlapy.spmd.sliced_pads import merge_slices_of_pads

_RULES_OF_EMPTY_ARRAYS = (
    general.result_without_elements,
    movement.pad_of_empty_operand,
    movement.concatenate_without_empty_operands,
    movement.dynamic_update_slice_without_elements,
)
"""Rewrites after which operations with windows have elements to exchange."""


def partition(
    module: Module,
    devices: int,
    per_device_targets: frozenset[str] = frozenset(),
    inspect: InspectSharding | None = None,
    custom_partitioner: CustomPartitioner | None = None,
    *,
    propagate: bool = True,
    windowed_dot_min_bytes: int | None = None,
) -> EntryShardings:
    """Rewrites a module for all devices into the module that each device runs.

    devices: the number of partitions. Each of the module's replicas has so many.
    per_device_targets: targets of custom calls without results that each device is to run on its own local operands.
    inspect: called with each custom call InspectSharding and the sharding of its operand.
    custom_partitioner: partitions the custom calls for which it returns a program.
    propagate: whether to derive shardings of values that have none; unnecessary if Shardy has done it.
    windowed_dot_min_bytes: the size from which on dots may be computed piece by piece; by default that of the flag.
    Raises `UnsupportedError` for infeeds, outfeeds and transfers, for unreduced values that are not sums, and for
    parameters and results with dynamic dimensions that are split.
    """
    program_shape = module.entry_computation.program_shape
    Expand(ops=("async-done",)).run(module)
    InlineCalls(composites=True).run(module)
    for computation in editable_computations(module):
        simplify_computation(computation, rules=_RULES_OF_EMPTY_ARRAYS)
    collect_concatenated_ranges(module)
    merge_slices_of_pads(module)
    RemoveDeadCode().run(module)
    if propagate:
        propagate_shardings(module, devices)
    before, old = list(module.computations), module.entry_computation
    context = PartitioningContext(module, devices, per_device_targets, inspect, custom_partitioner)
    parameters = [requested_shardings(parameter, devices) for parameter in old.parameters]
    results = requested_shardings(old.root_instruction, devices)
    for instruction, placements in zip((*old.parameters, old.root_instruction), (*parameters, results), strict=True):
        _check_static(instruction, placements)
    module.entry = partition_computation(context, old, parameters, results)
    remove_uncalled_computations([computation for computation in before if not computation.callers])
    module.config = _partitioned_config(module.config, module.entry)
    RemoveDeadCode().run(module)
    if windowed_dot_min_bytes is None:
        windowed_dot_min_bytes = int(flags.get("windowed_dot_min_size")) << 20
    _optimize_collectives(context, windowed_dot_min_bytes)
    return EntryShardings(
        tuple([hlo_sharding_of(leaf, devices) for leaves in parameters for leaf in leaves]),
        tuple([hlo_sharding_of(leaf, devices) for leaf in results]),
        program_shape,
        devices,
    )


def _optimize_collectives(context: PartitioningContext, windowed_dot_min_bytes: int) -> None:
    """Rewrites the collectives of a partitioned module so that they take less time, and adds the other replicas."""
    module, devices = context.module, context.devices
    MergeCommonSubexpressions().run(module)  # so that collectives of equal operands have the same
    hoist_collectives(module)
    for computation in list(module.computations):
        rewrite_collectives(computation, devices)
        window_dots(computation, devices, context.channels, windowed_dot_min_bytes)
        combine_collectives(computation)
    add_groups_of_replicas(module, module.config.replica_count, devices)


def _check_static(instruction: Instruction, placements: Placements) -> None:
    """`UnsupportedError` for an array of the entry that is split and whose sizes are known at run time only."""
    leaves = [leaf for _, leaf in instruction.shape.leaves()]
    for leaf, placement in zip(leaves, placements, strict=True):
        if leaf.is_dynamic and not placement.is_replicated:
            raise UnsupportedError(
                codes.DYNAMIC_SHARDED,
                f"{describe_instruction(instruction)} is split over devices and has the dynamic shape "
                f"{leaf.to_text(layout=False)}",
            )


def _partitioned_config(config: ModuleConfig, entry: Computation) -> ModuleConfig:
    """Drops what no longer holds for local shapes: the entry layout, aliases and donors of buffers of other sizes."""
    aliases = [alias for alias in config.input_output_alias if _has_equal_shapes(alias, entry)]
    sizes = {leaf.byte_size for _, leaf in entry.root_instruction.shape.leaves()}
    shapes = [parameter.shape for parameter in entry.parameters]
    donors = [
        d for d in config.buffer_donors if shapes[d.parameter_number].subshape(d.parameter_index).byte_size in sizes
    ]
    return dataclasses.replace(
        config, entry_computation_layout=None, input_output_alias=tuple(aliases), buffer_donors=tuple(donors)
    )


def _has_equal_shapes(alias: Alias, entry: Computation) -> bool:
    parameter = entry.parameters[alias.parameter_number].shape.subshape(alias.parameter_index)
    return parameter.compatible(entry.root_instruction.shape.subshape(alias.output_index))

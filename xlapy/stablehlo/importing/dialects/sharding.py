"""Import rules of `sdy` (Shardy), the dialect of shardings over meshes.

Responsible for sharding constraints and manual computations, in the form that XLA gives them. A constraint becomes the
custom call `Sharding` with the sharding on it. A manual computation is inlined: its operands go from full arrays to the
device's shards through the custom call `SPMDFullToShardShape`, its results back through `SPMDShardToFullShape`. Does
not depend on partitioning.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import describe, required
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder, single_block
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import is_compatible, known_shape, type_text

_QUOTED = re.compile(r'"([^"]*)"')
_SHARDING_TARGET, _TO_SHARD_TARGET, _TO_FULL_TARGET = "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"


def _emit_sharding_call(
    builder: ComputationBuilder, target: str, operand: Instruction, shape: Shape, sharding: Sharding
) -> Instruction:
    """Emits one of the custom calls above with a sharding on it."""
    attributes = CustomCallAttributes.make(custom_call_target=target)
    call = builder.emit(opcodes.CUSTOM_CALL, (operand,), attributes, shape=shape)
    sharding = sharding.for_shape(shape)
    sharding.check(shape)
    call.sharding = sharding
    return call


@rule(
    "sdy.sharding_constraint", "sdy.reshard", "sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.all_reduce",
    "sdy.collective_permute", "sdy.reduce_scatter", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced",
    operands=1, on_storage_type=True, any_operands=True,
)  # fmt: skip
def constraint(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports operations that change the sharding only: sdy's collectives do not change the values of full arrays."""
    (operand,) = builder.operands(operation)
    name = "sharding" if "sharding" in operation.attributes else "out_sharding"
    sharding = builder.context.annotations.meshes.sharding(required(operation, name))
    return _emit_sharding_call(builder, _SHARDING_TARGET, operand, operand.shape, sharding)


@rule("sdy.propagation_barrier", "sdy.data_flow_edge", results=None, on_storage_type=True, any_operands=True)
def identity(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Imports operations that matter to sharding propagation only as their operands."""
    return builder.operands(operation)


@rule("sdy.sharding_group", results=0, on_storage_type=True, any_operands=True)
def sharding_group(_: ComputationBuilder, __: ir.Operation) -> Sequence[Instruction]:
    """Drops a sharding group, which matters to sharding propagation only."""
    return ()


@rule("sdy.named_computation", results=None, regions=1, on_storage_type=True, any_operands=True)
def named_computation(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    block = single_block(operation.regions[0])
    return _inline_block(builder, block, builder.operands(operation))


@rule("sdy.manual_computation", results=None, regions=1, on_storage_type=True, any_operands=True)
def manual_computation(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    meshes = builder.context.annotations.meshes
    in_shardings = meshes.shardings(required(operation, "in_shardings"))
    out_shardings = meshes.shardings(required(operation, "out_shardings"))
    block = single_block(operation.regions[0])
    operands = builder.operands(operation)
    if len(in_shardings) != len(operands) or len(out_shardings) != len(operation.results):
        raise ShapeError(
            operation_codes.SHARDING_COUNT,
            f"it has {len(operands)} operands and {len(in_shardings)} in_shardings, "
            f"{len(operation.results)} results and {len(out_shardings)} out_shardings",
        )
    if len(block.arguments) != len(operands):
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region takes {len(block.arguments)} values, but got {len(operands)}"
        )
    axes = _manual_axes(operation)
    shards = [
        _full_to_shard(builder, operand, sharding, argument.type, axes)
        for operand, sharding, argument in zip(operands, in_shardings, block.arguments, strict=True)
    ]
    results = _inline_block(builder, block, shards)
    if len(results) != len(out_shardings):
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region returns {len(results)} values, but {len(out_shardings)} are declared"
        )
    return [
        _shard_to_full(builder, result, sharding, value.type, axes)
        for result, sharding, value in zip(results, out_shardings, operation.results, strict=True)
    ]


def _manual_axes(operation: ir.Operation) -> frozenset[str]:
    given = operation.attributes.get("manual_axes")
    if given is None:
        return frozenset()
    if not isinstance(given, ir.OpaqueAttribute):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"manual_axes must be #sdy.manual_axes<...>, but are {describe(given)}")
    return frozenset(_QUOTED.findall(given.text or ""))


def _full_to_shard(
    builder: ComputationBuilder, full: Instruction, sharding: Sharding, local: ir.Type, axes: frozenset[str]
) -> Instruction:
    """Returns this device's shard of a full array, with the shape that the region takes."""
    shape = known_shape(local)
    if shape is None:
        raise ShapeError(
            operation_codes.MANUAL_SHAPES, f"a manual computation takes static shapes, but got {type_text(local)}"
        )
    if _has_single_device(sharding) and shape.compatible(full.shape):
        return full
    annotated = _emit_sharding_call(builder, _SHARDING_TARGET, full, full.shape, sharding)
    return _emit_sharding_call(builder, _TO_SHARD_TARGET, annotated, shape, _manual_sharding(sharding, axes))


def _shard_to_full(
    builder: ComputationBuilder, shard: Instruction, sharding: Sharding, type_: ir.Type, axes: frozenset[str]
) -> Instruction:
    """Returns the full array whose shards the devices hold."""
    shape = known_shape(type_)
    if shape is None:
        raise ShapeError(
            operation_codes.MANUAL_SHAPES,
            f"a manual computation returns static shapes, but is declared {type_text(type_)}",
        )
    if _has_single_device(sharding) and shape.compatible(shard.shape):
        return shard
    annotated = _emit_sharding_call(builder, _SHARDING_TARGET, shard, shard.shape, _manual_sharding(sharding, axes))
    return _emit_sharding_call(builder, _TO_FULL_TARGET, annotated, shape, sharding)


def _has_single_device(sharding: Sharding) -> bool:
    """Returns whether the mesh has one device, so that a shard is the full array."""
    return sharding.named is not None and len(sharding.named.mesh.device_ids()) <= 1


def _manual_sharding(sharding: Sharding, axes: frozenset[str]) -> Sharding:
    """Returns the sharding inside the region: the given axes are manual and shard no dimension there."""
    named = sharding.named
    if named is None or named.form is NamedForm.DEVICE:
        return Sharding(ShardingKind.MANUAL)
    mesh = named.mesh
    numbers = [number for number, name in enumerate(mesh.axis_names) if name in axes]
    if len(numbers) == len(mesh.axis_names):
        return Sharding(ShardingKind.MANUAL)
    return dataclasses.replace(sharding, named=_without_axes(named, mesh, numbers))


def _without_axes(named: NamedSharding, mesh: Mesh, numbers: Sequence[int]) -> NamedSharding:
    return dataclasses.replace(
        named,
        dimensions=tuple(
            dataclasses.replace(d, axes=tuple(axis for axis in d.axes if axis.axis not in numbers))
            for d in named.dimensions
        ),
        replicated_axes=tuple(axis for axis in named.replicated_axes if axis.axis not in numbers),
        unreduced_axes=tuple(axis for axis in named.unreduced_axes if axis.axis not in numbers),
        manual_axes=tuple(AxisRef(number) for number in numbers if number < len(mesh.axis_names)),
    )


def _inline_block(builder: ComputationBuilder, block: ir.Block, operands: Sequence[Instruction]) -> list[Instruction]:
    """Imports the operations of a region into the enclosing computation."""
    if len(block.arguments) != len(operands):
        raise ShapeError(
            codes.REGION_SIGNATURE, f"its region takes {len(block.arguments)} values, but got {len(operands)}"
        )
    for argument, operand in zip(block.arguments, operands, strict=True):
        if not is_compatible(operand.shape, argument.type):
            raise ShapeError(
                codes.REGION_SIGNATURE,
                f"its region takes {type_text(argument.type)}, but got {operand.shape.to_text(layout=False)}",
            )
        builder.values[argument] = operand
    return builder.import_block(block)

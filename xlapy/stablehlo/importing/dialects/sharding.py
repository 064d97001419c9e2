"""Import rules: the dialect of shardings over meshes (`sdy`).

Owns: constraints, regions computed by hand on each device. Must not know: partitioning.

As XLA has them: a constraint is a custom call `Sharding` with the sharding on it. A region by hand goes from whole
arrays to this device's parts and back through the custom calls `SPMDFullToShardShape` and `SPMDShardToFullShape`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import required, shown
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope, only_block
from xlapy.stablehlo.importing.core.types import agrees, known_shape, type_text

_QUOTED = re.compile(r'"([^"]*)"')
_MARK, _TO_PART, _TO_WHOLE = "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"


def _marked(scope: Scope, target: str, operand: Instruction, shape: Shape, sharding: Sharding) -> Instruction:
    attributes = CustomCallAttributes.make(custom_call_target=target)
    made = scope.emit(opcodes.CUSTOM_CALL, (operand,), attributes, shape=shape)
    sharding = sharding.for_shape(shape)
    sharding.check(shape)
    made.sharding = sharding
    return made


@rule(
    "sdy.sharding_constraint", "sdy.reshard", "sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.all_reduce",
    "sdy.collective_permute", "sdy.reduce_scatter", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced",
    operands=1, stored=True,
)  # fmt: skip
def constraint(scope: Scope, operation: ir.Operation) -> Instruction:
    """What is sharded otherwise from here on; to values, an all-reduce or a gather of shardings does nothing."""
    (operand,) = scope.operands(operation)
    name = "sharding" if "sharding" in operation.attributes else "out_sharding"
    sharding = scope.program.annotations.meshes.sharding(required(operation, name))
    return _marked(scope, _MARK, operand, operand.shape, sharding)


@rule("sdy.propagation_barrier", "sdy.data_flow_edge", results=None, stored=True)
def passed_on(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """What only steers how shardings spread."""
    return scope.operands(operation)


@rule("sdy.sharding_group", results=0, stored=True)
def sharding_group(_: Scope, __: ir.Operation) -> Sequence[Instruction]:
    """Values that are to be sharded alike, a matter of spreading."""
    return ()


@rule("sdy.named_computation", results=None, regions=1, stored=True)
def named_computation(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    block = only_block(operation.regions[0])
    return _in_place(scope, block, scope.operands(operation))


@rule("sdy.manual_computation", results=None, regions=1, stored=True)
def manual_computation(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    meshes = scope.program.annotations.meshes
    given = meshes.shardings(required(operation, "in_shardings"))
    wanted = meshes.shardings(required(operation, "out_shardings"))
    block = only_block(operation.regions[0])
    operands = scope.operands(operation)
    if len(given) != len(operands) or len(wanted) != len(operation.results):
        raise ShapeError(f"it has {len(operands)} operands, {len(given)} in_shardings; {len(wanted)} out_shardings")
    if len(block.arguments) != len(operands):
        raise ShapeError(f"its region takes {len(block.arguments)} values, given are {len(operands)}")
    axes = _manual_axes(operation)
    parts = [
        _part(scope, operand, sharding, argument.type, axes)
        for operand, sharding, argument in zip(operands, given, block.arguments, strict=True)
    ]
    results = _in_place(scope, block, parts)
    if len(results) != len(wanted):
        raise ShapeError(f"its region gives {len(results)} values, declared are {len(wanted)}")
    return [
        _whole(scope, result, sharding, value.type, axes)
        for result, sharding, value in zip(results, wanted, operation.results, strict=True)
    ]


def _manual_axes(operation: ir.Operation) -> frozenset[str]:
    given = operation.attributes.get("manual_axes")
    if given is None:
        return frozenset()
    if not isinstance(given, ir.OpaqueAttribute):
        raise ShapeError(f"manual_axes must be #sdy.manual_axes<...>, they are {shown(given)}")
    return frozenset(_QUOTED.findall(given.text or ""))


def _part(scope: Scope, whole: Instruction, sharding: Sharding, local: ir.Type, axes: frozenset[str]) -> Instruction:
    """This device's part of an array, of the shape that the region takes."""
    shape = known_shape(local)
    if shape is None:
        raise ShapeError(f"a region computed by hand takes static shapes, here {type_text(local)}")
    if _is_everything(sharding) and shape.compatible(whole.shape):
        return whole
    marked = _marked(scope, _MARK, whole, whole.shape, sharding)
    return _marked(scope, _TO_PART, marked, shape, _by_hand(sharding, axes))


def _whole(scope: Scope, part: Instruction, sharding: Sharding, type_: ir.Type, axes: frozenset[str]) -> Instruction:
    """The array that the devices' parts make."""
    shape = known_shape(type_)
    if shape is None:
        raise ShapeError(f"a region computed by hand gives static shapes, here {type_text(type_)}")
    if _is_everything(sharding) and shape.compatible(part.shape):
        return part
    marked = _marked(scope, _MARK, part, part.shape, _by_hand(sharding, axes))
    return _marked(scope, _TO_WHOLE, marked, shape, sharding)


def _is_everything(sharding: Sharding) -> bool:
    """Whether the mesh has one device, so that a part is the whole."""
    return sharding.named is not None and len(sharding.named.mesh.device_ids()) <= 1


def _by_hand(sharding: Sharding, axes: frozenset[str]) -> Sharding:
    """The sharding inside the region: the axes by hand cut nothing there."""
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


def _in_place(scope: Scope, block: ir.Block, operands: Sequence[Instruction]) -> list[Instruction]:
    """The operations of a region among those around it."""
    if len(block.arguments) != len(operands):
        raise ShapeError(f"its region takes {len(block.arguments)} values, given are {len(operands)}")
    for argument, operand in zip(block.arguments, operands, strict=True):
        if not agrees(operand.shape, argument.type):
            raise ShapeError(
                f"its region takes {type_text(argument.type)}, given is {operand.shape.to_text(layout=False)}"
            )
        scope.values[argument] = operand
    return scope.run(block)

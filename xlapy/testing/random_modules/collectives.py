"""Random programs for several devices: collectives in every group mode and form of groups, among local operations.

Owns: `random_collective_module`, its arguments, and the op generators of collectives. Must not know: evaluation, other
implementations.

Results are the same bits everywhere: arguments are small whole numbers, and what is not exact on them (products of
floats, sums of sums in a narrow type) is not drawn. Every device takes the same way through the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import BF16, C64, F16, F32, F64, PRED, S8, S16, S32, S64, U8, U16, U32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes import collectives as ops
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh
from xlapy.opcodes.attributes.replica_groups import (
    ALL_REPLICAS,
    GroupList,
    GroupMode,
    IotaGroups,
    MeshGroups,
    ReplicaGroups,
)
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, CALL, WHILE
from xlapy.opcodes.elementwise import (
    ADD,
    AND,
    COMPARE,
    CONVERT,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    OR,
    CompareAttributes,
    ComparisonDirection,
)
from xlapy.opcodes.movement import (
    BROADCAST,
    RESHAPE,
    REVERSE,
    TRANSPOSE,
    BroadcastAttributes,
    DimensionsAttributes,
    ReshapeAttributes,
)
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes
from xlapy.testing.random_modules.generator import Choices, ModuleGenerator, OpGenerator, SkipDraw

TYPES = (PRED, S8, S16, S32, S64, U8, U16, U32, F16, BF16, F32, F64, C64)

_LARGEST = 8
"""Of an argument."""
_MODES = (GroupMode.CROSS_REPLICA, GroupMode.CROSS_REPLICA_AND_PARTITION, GroupMode.FLATTENED_ID)
"""Of collectives that have use_global_device_ids."""
_WITHOUT_GLOBAL_IDS = (GroupMode.CROSS_REPLICA, GroupMode.CROSS_PARTITION)
_ALWAYS_EXACT = (PRED, S8, S16, S32, S64, U8, U16, U32)


@dataclass(slots=True)
class Devices:
    """The devices that a module in the making is for. portable: only what XLA:CPU runs. asynchronous: -start, -done.

    grown: values that sums have made larger than arguments are.
    """

    replicas: int
    partitions: int
    portable: bool = True
    asynchronous: bool = False
    channels: int = 0
    grown: set[Instruction] = field(default_factory=set[Instruction])

    def ids(self, mode: GroupMode) -> int:
        """How many ids there are to be grouped."""
        if mode is GroupMode.FLATTENED_ID:
            return self.replicas * self.partitions
        return self.partitions if mode is GroupMode.CROSS_PARTITION else self.replicas

    def members(self, mode: GroupMode, group_size: int) -> int:
        """How many devices a group of ids has."""
        return group_size * (self.partitions if mode is GroupMode.CROSS_REPLICA_AND_PARTITION else 1)

    def channel(self, mode: GroupMode) -> int | None:
        """A channel that no other collective has, where the mode needs one."""
        if mode is GroupMode.CROSS_REPLICA:
            return None
        self.channels += 1
        return self.channels


# -- who takes part


def _groups(generator: ModuleGenerator, devices: Devices, mode: GroupMode) -> tuple[ReplicaGroups, int]:
    """Groups of one size that hold every id, in any of their forms, and the devices in each."""
    count = devices.ids(mode)
    form = generator.choice(("none", "list", "list", "iota", "mesh"))
    if form == "none" and mode is not GroupMode.FLATTENED_ID:
        return ALL_REPLICAS, devices.members(mode, count)
    if form == "mesh" and count > 1:  # XLA's parser wants two devices in a group along axes of a mesh
        groups: ReplicaGroups = _mesh_groups(generator, count)
    else:
        size = generator.choice([n for n in range(1, count + 1) if count % n == 0])
        dims = _factors(generator, count)
        order = generator.shuffled(range(len(dims)))
        groups = IotaGroups.make(count // size, size, dims, order)
        if form != "iota":
            groups = _written(generator.shuffled(range(count)), size)
    return groups, devices.members(mode, groups.group_size)


def _written(ids: Sequence[int], size: int) -> GroupList:
    return GroupList(tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size)))


def _factors(generator: ModuleGenerator, count: int) -> list[int]:
    """Sizes whose product is a count."""
    sizes: list[int] = []
    while count > 1:
        size = generator.choice([n for n in range(2, count + 1) if count % n == 0])
        sizes.append(size)
        count //= size
    return sizes or [1]


def _mesh_groups(generator: ModuleGenerator, count: int) -> MeshGroups:
    sizes = _factors(generator, count)
    names = [chr(ord("a") + number) for number in range(len(sizes))]
    order = Iota.make(sizes, generator.shuffled(range(len(sizes)))) if generator.chance(0.5) else None
    axes = generator.shuffled(generator.some(range(len(sizes)), 0.6)) or [0]
    references = [AxisRef(axis) for axis in axes]
    if len(axes) == 1 and sizes[axes[0]] % 4 == 0 and generator.chance(0.5):
        references = [AxisRef(axes[0], generator.choice((1, 2)), 2)]
    return MeshGroups.make(Mesh.make(names, sizes, order), references)


def _grouped(
    generator: ModuleGenerator, devices: Devices, modes: Sequence[GroupMode] = _MODES, written: bool = False
) -> tuple[dict[str, Any], int]:
    """The attributes that say who takes part, and the devices in a group; `written`: not by leaving groups out."""
    mode = generator.choice(modes)
    groups, members = _groups(generator, devices, mode)
    if written and groups is ALL_REPLICAS:
        groups = GroupList((tuple(range(devices.ids(mode))),))
    chosen: dict[str, Any] = {"channel_id": devices.channel(mode), "replica_groups": groups}
    if modes is _MODES:
        chosen["use_global_device_ids"] = mode is GroupMode.FLATTENED_ID
    return chosen, members


# -- operands and reducers


def _operand(
    generator: ModuleGenerator, least_rank: int = 0, types: Callable[[PrimitiveType], bool] = lambda _: True
) -> Instruction:
    """One of the arrays there are."""
    return generator.choice(
        [
            i
            for i in generator.pool
            if i.shape.is_array and i.shape.size and i.shape.rank >= least_rank and types(i.shape.element_type)
        ]
    )


def _another(generator: ModuleGenerator, value: Instruction) -> Instruction:
    """An array of the same shape."""
    return generator.choice([i for i in generator.pool if i.shape == value.shape])


def _operands(generator: ModuleGenerator, devices: Devices, least_rank: int = 0) -> list[Instruction]:
    """One array, or several of equal sizes (which XLA:CPU takes from programs of one partition alone)."""
    first = _operand(generator, least_rank)
    if generator.chance(0.7) or (devices.portable and devices.partitions > 1):
        return [first]
    same = [i for i in generator.pool if i.shape.is_array and i.shape.dimensions == first.shape.dimensions]
    return [first, *(generator.choice(same) for _ in range(generator.integer(1, 2)))]


def _reducer(generator: ModuleGenerator, devices: Devices, operands: Sequence[Instruction]) -> tuple[Computation, bool]:
    """A reducer of one element type that is exact on all operands, and whether results may be large."""
    t = operands[0].shape.element_type
    small = not any(operand in devices.grown for operand in operands)
    if t is PRED:
        choices = [AND, OR]
    elif t.is_complex:
        choices = [ADD] if small else []
    elif t.is_floating:
        choices = [MAXIMUM, MINIMUM, *([ADD, ADD] if small else [])]
    else:
        choices = [MAXIMUM, MINIMUM, ADD, ADD, MULTIPLY]
    op = generator.choice(choices)
    inner = generator.nested("reducer", [Shape.scalar(t)] * 2, scalars=True)
    return inner.finish(inner.add(op, inner.pool[:2])), op is ADD and t not in _ALWAYS_EXACT


def _of_one_type(operands: Sequence[Instruction]) -> list[Instruction]:
    return [o for o in operands if o.shape.element_type is operands[0].shape.element_type]


def _finished(
    generator: ModuleGenerator,
    devices: Devices,
    op: OpDef,
    operands: Sequence[Instruction],
    attributes: Any,
    computations: Sequence[Computation] = (),
    shape: Shape | None = None,
) -> Instruction:
    """A collective, at once or begun and ended; the elements of a tuple are put into the pool."""
    in_halves = generator.chance(0.7)  # drawn in any case: the same seed gives the same program without halves
    if devices.asynchronous and in_halves:
        made = _started(generator, op, operands, attributes, computations, shape)
    else:
        made = generator.add(op, operands, attributes, computations, shape)
    grown = any(operand in devices.grown for operand in operands)
    parts = [made]
    if made.shape.is_tuple:
        parts = [_element(generator, made, number) for number in range(len(made.shape.tuple_shapes))]
    if grown:
        devices.grown.update(parts)
    return made


def _element(generator: ModuleGenerator, value: Instruction, number: int) -> Instruction:
    return generator.add(GET_TUPLE_ELEMENT, (value,), GetTupleElementAttributes.make(index=number))


_HALVES = {
    opcodes.ALL_REDUCE: (opcodes.ALL_REDUCE_START, opcodes.ALL_REDUCE_DONE),
    opcodes.ALL_GATHER: (opcodes.ALL_GATHER_START, opcodes.ALL_GATHER_DONE),
    opcodes.COLLECTIVE_PERMUTE: (opcodes.COLLECTIVE_PERMUTE_START, opcodes.COLLECTIVE_PERMUTE_DONE),
}


def _started(
    generator: ModuleGenerator,
    op: OpDef,
    operands: Sequence[Instruction],
    attributes: Any,
    computations: Sequence[Computation],
    shape: Shape | None,
) -> Instruction:
    """The operation's own two halves, or the general ones around a computation that holds it."""
    shapes = [operand.shape for operand in operands]
    result = shape or op.result_shape(shapes, attributes, [c.program_shape for c in computations])
    if op not in _HALVES:
        inner = generator.nested("asynchronous", shapes)
        wrapped = inner.finish(inner.add(op, inner.pool[:], attributes, computations, result))
        whole = Shape.tuple([Shape.tuple(shapes), result, Shape.scalar(U32)])
        begun = edit.create(generator.computation, ASYNC_START, operands, None, (wrapped,), shape=whole)
        return generator.add(ASYNC_DONE, (begun,))
    start, done = _HALVES[op]
    both = Shape.tuple([shapes[0] if len(shapes) == 1 else Shape.tuple(shapes), result])
    whole = result if op is opcodes.ALL_REDUCE else both
    begun = edit.create(generator.computation, start, operands, attributes, computations, shape=whole)
    return generator.add(done, (begun,))


# -- collectives


def all_reduce(generator: ModuleGenerator, devices: Devices) -> None:
    operands = _of_one_type(_operands(generator, devices))
    computation, grows = _reducer(generator, devices, operands)
    chosen, _ = _grouped(generator, devices)
    if generator.chance(0.15):
        chosen["replica_groups"] = _uneven(generator, chosen["replica_groups"])
    attributes = ops.AllReduceAttributes.make(**chosen)
    _grow(
        generator,
        devices,
        grows,
        lambda: _finished(generator, devices, opcodes.ALL_REDUCE, operands, attributes, [computation]),
    )


def _grow(generator: ModuleGenerator, devices: Devices, grows: bool, make: Callable[[], Instruction]) -> None:
    before = len(generator.pool)
    make()
    if grows:
        devices.grown.update(generator.pool[before:])


def _uneven(generator: ModuleGenerator, groups: ReplicaGroups) -> ReplicaGroups:
    """The same ids in two groups of any sizes, which all-reduce alone may have."""
    ids = generator.shuffled([identifier for row in groups.groups for identifier in row])
    cut = generator.integer(1, max(1, len(ids) - 1))
    return GroupList((tuple(ids[:cut]), tuple(ids[cut:]))) if len(ids) > 1 else groups


def collective_reduce(generator: ModuleGenerator, devices: Devices) -> None:
    operands = _of_one_type(_operands(generator, devices))
    computation, grows = _reducer(generator, devices, operands)
    chosen, _ = _grouped(generator, devices)
    attributes = ops.CollectiveReduceAttributes.make(**chosen)
    _grow(
        generator,
        devices,
        grows,
        lambda: _finished(generator, devices, opcodes.COLLECTIVE_REDUCE, operands, attributes, [computation]),
    )


def all_gather(generator: ModuleGenerator, devices: Devices) -> None:
    operands = _operands(generator, devices, least_rank=1)
    dimension = generator.integer(0, operands[0].shape.rank - 1)
    if devices.portable and len(operands) > 1:
        dimension = 0  # XLA:CPU joins several arrays along their first dimension, whatever is asked for
    chosen, members = _grouped(generator, devices)
    if operands[0].shape.size * members > 4096:
        raise SkipDraw
    attributes = ops.AllGatherAttributes.make(all_gather_dimension=dimension, **chosen)
    shape = ops.all_gather_shape([operand.shape for operand in operands], dimension, members)
    _finished(generator, devices, opcodes.ALL_GATHER, operands, attributes, shape=shape)


def reduce_scatter(generator: ModuleGenerator, devices: Devices) -> None:
    operands = _of_one_type(_operands(generator, devices, least_rank=1))[: 1 if devices.portable else 3]
    chosen, members = _grouped(generator, devices)
    dimension = generator.choice([d for d, size in enumerate(operands[0].shape.dimensions) if size % members == 0])
    computation, grows = _reducer(generator, devices, operands)
    attributes = ops.ReduceScatterAttributes.make(scatter_dimension=dimension, **chosen)
    shape = ops.reduce_scatter_shape([operand.shape for operand in operands], dimension, members)
    _grow(
        generator,
        devices,
        grows,
        lambda: _finished(generator, devices, opcodes.REDUCE_SCATTER, operands, attributes, [computation], shape),
    )


def all_to_all(generator: ModuleGenerator, devices: Devices) -> None:
    """Of blocks, or (which crashes XLA:CPU) of operands."""
    chosen, members = _grouped(generator, devices, _WITHOUT_GLOBAL_IDS, devices.portable)
    operand = _operand(generator)
    if not devices.portable and generator.chance(0.4):
        others = [_another(generator, operand) for _ in range(members - 1)]
        attributes = ops.AllToAllAttributes.make(**chosen)
        _finished(generator, devices, opcodes.ALL_TO_ALL, [operand, *others], attributes)
        return
    dimension = generator.choice([d for d, size in enumerate(operand.shape.dimensions) if size % members == 0])
    attributes = ops.AllToAllAttributes.make(split_dimension=dimension, **chosen)
    _finished(generator, devices, opcodes.ALL_TO_ALL, [operand], attributes)


def collective_permute(generator: ModuleGenerator, devices: Devices) -> None:
    """Of some ids, to as many others."""
    mode = generator.choice(_WITHOUT_GLOBAL_IDS)
    ids = range(devices.ids(mode))
    sources = generator.some(generator.shuffled(ids), 0.8)
    pairs = tuple(zip(sources, generator.shuffled(ids), strict=False))
    attributes = ops.CollectivePermuteAttributes.make(
        channel_id=devices.channel(mode), source_target_pairs=pairs or ((0, 0),)
    )
    operands = _operands(generator, devices)[: 1 if devices.portable else 3]
    _finished(generator, devices, opcodes.COLLECTIVE_PERMUTE, operands, attributes)


def collective_broadcast(generator: ModuleGenerator, devices: Devices) -> None:
    """Ids behind the first may be in no group."""
    chosen, _ = _grouped(generator, devices, _WITHOUT_GLOBAL_IDS)
    if generator.chance(0.2):
        chosen["replica_groups"] = GroupList(((0,),))
    attributes = ops.CollectiveBroadcastAttributes.make(**chosen)
    _finished(generator, devices, opcodes.COLLECTIVE_BROADCAST, _operands(generator, devices), attributes)


# -- what happens on each device


def identifier(generator: ModuleGenerator, devices: Devices) -> None:
    """A number of the device, which makes devices differ."""
    made = generator.add(generator.choice((opcodes.REPLICA_ID, opcodes.PARTITION_ID)))
    generator.add(CONVERT, (made,), shape=Shape.scalar(generator.choice((S32, F32, S8))))


def movement(generator: ModuleGenerator, devices: Devices) -> None:
    operand = _operand(generator)
    shape = operand.shape
    dimensions = tuple(generator.shuffled(range(shape.rank)))
    how = generator.choice(("transpose", "reverse", "reshape", "broadcast"))
    if how == "transpose":
        made = generator.add(TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=dimensions))
    elif how == "reverse":
        made = generator.add(REVERSE, (operand,), DimensionsAttributes.make(dimensions=dimensions[:1]))
    elif how == "reshape":
        sizes = _factors(generator, prod(shape.dimensions))
        made = generator.add(
            RESHAPE, (operand,), ReshapeAttributes.make(), shape=Shape.array(shape.element_type, sizes)
        )
    else:
        if shape.size > 64:
            raise SkipDraw
        wide = Shape.array(shape.element_type, [4, *shape.dimensions])
        attributes = BroadcastAttributes.make(dimensions=tuple(range(1, shape.rank + 1)))
        made = generator.add(BROADCAST, (operand,), attributes, shape=wide)
    if operand in devices.grown:
        devices.grown.add(made)


def arithmetic(generator: ModuleGenerator, devices: Devices) -> None:
    operand = _operand(generator, types=lambda t: not t.is_complex and t is not PRED)
    other = _another(generator, operand)
    exact = operand.shape.element_type in _ALWAYS_EXACT
    made = generator.add(generator.choice((MAXIMUM, MINIMUM, *([ADD] if exact else []))), (operand, other))
    if operand in devices.grown or other in devices.grown:
        devices.grown.add(made)


def call(generator: ModuleGenerator, devices: Devices) -> None:
    """A collective in a computation of its own."""
    operand = _operand(generator)
    inner = generator.nested("called", [operand.shape])
    if operand in devices.grown:
        devices.grown.update(inner.pool)
    inner.grow(generator.integer(1, 2))
    _keep(devices, inner, generator.add(CALL, (operand,), None, (inner.finish(inner.pool[-1]),)))


def loop(generator: ModuleGenerator, devices: Devices) -> None:
    """As often on every device, once to three times: a collective in every turn."""
    if devices.portable and devices.partitions > 1:
        raise SkipDraw  # XLA finds the sharding of a loop's tuple on each of its arrays
    operand = _operand(generator, types=lambda t: t in _ALWAYS_EXACT)
    state = Shape.tuple([Shape.scalar(S32), operand.shape])
    condition = generator.nested("condition", [state], scalars=True)
    limit = condition.constant(np.array(generator.integer(1, 3), np.int32))
    below = CompareAttributes.make(direction=ComparisonDirection.LT)
    condition.finish(condition.add(COMPARE, (_element(condition, condition.pool[0], 0), limit), below))
    inner = generator.nested("body", [state])
    counter, value = _element(inner, inner.pool[0], 0), _element(inner, inner.pool[0], 1)
    inner.pool[:] = [value]
    inner.grow(2)
    fitting = [i for i in inner.pool if i.shape == operand.shape and i not in devices.grown]
    step = inner.add(ADD, (counter, inner.constant(np.array(1, np.int32))))
    body = inner.finish(inner.add(TUPLE, (step, fitting[-1])))
    start = generator.add(TUPLE, (generator.constant(np.array(0, np.int32)), operand))
    made = generator.add(WHILE, (start,), None, (condition.computation, body))
    _element(generator, made, 1)


def _keep(devices: Devices, inner: ModuleGenerator, made: Instruction) -> None:
    if inner.computation.root_instruction in devices.grown:
        devices.grown.add(made)


# -- the module

_DeviceOpGenerator = Callable[[ModuleGenerator, Devices], None]

_PORTABLE: tuple[tuple[OpDef, _DeviceOpGenerator], ...] = (
    (opcodes.ALL_REDUCE, all_reduce),
    (opcodes.ALL_REDUCE, all_reduce),
    (opcodes.ALL_GATHER, all_gather),
    (opcodes.REDUCE_SCATTER, reduce_scatter),
    (opcodes.ALL_TO_ALL, all_to_all),
    (opcodes.COLLECTIVE_PERMUTE, collective_permute),
)
_LOCAL: tuple[tuple[OpDef, _DeviceOpGenerator], ...] = (
    (opcodes.REPLICA_ID, identifier),
    (TRANSPOSE, movement),
    (ADD, arithmetic),
    (CALL, call),
    (WHILE, loop),
)


def op_generators(devices: Devices) -> list[tuple[OpDef, OpGenerator]]:
    """The op generators of collectives for some devices, as other families have them."""
    chosen = [*_PORTABLE]
    if not devices.portable:
        chosen += [(opcodes.COLLECTIVE_BROADCAST, collective_broadcast), (opcodes.COLLECTIVE_REDUCE, collective_reduce)]
    return [(op, _bound(op_generator, devices)) for op, op_generator in chosen]


def _bound(op_generator: _DeviceOpGenerator, devices: Devices) -> OpGenerator:
    return lambda generator: op_generator(generator, devices)


def random_collective_module(
    seed: int,
    replicas: int,
    partitions: int = 1,
    *,
    instructions: int = 8,
    element_types: Sequence[PrimitiveType] = TYPES,
    portable: bool = True,
    asynchronous: bool = False,
) -> Module:
    """A legal module for replicas * partitions devices, of which half of the `instructions` drawn are collectives.

    Equal arguments give equal modules, and all devices take the same way through one. The entry returns every value
    that nothing else uses. With several partitions every instruction is marked `sharding={manual}`: the program is
    partitioned already. portable: only what XLA:CPU runs; else also all-to-all and collective-permute of several
    operands, collective-broadcast and collective-reduce. asynchronous: most collectives of the same program are begun
    and ended by two instructions.
    """
    devices = Devices(replicas, partitions, portable, asynchronous)
    module = Module(f"collectives_{seed}")
    module.config.replica_count, module.config.num_partitions = replicas, partitions
    entry = edit.add_computation(module, "entry", entry=True)
    local = [_bound(op_generator, devices) for _, op_generator in _LOCAL]
    choices = Choices(
        tuple(element_types),
        {"collectives": [op_generator for _, op_generator in op_generators(devices)], "local": local},
        {"collectives": 1.0, "local": 0.8},
    )
    generator = ModuleGenerator(module, entry, np.random.default_rng(seed), choices, ("collectives", "local"))
    for _ in range(2):
        generator.parameter(Shape.array(generator.type(), [4 * replicas * partitions // generator.choice((1, 2)), 2]))
    generator.grow(instructions)
    generator.finish(generator.add(TUPLE, [i for i in generator.pool if not i.has_users and i.shape.is_array]))
    module.config.entry_computation_layout = entry.program_shape
    if partitions > 1:
        _mark_manual(entry)
    return module


def _mark_manual(entry: Computation) -> None:
    manual = Sharding(ShardingKind.MANUAL)
    for instruction in entry.instructions:
        shape = instruction.shape
        leaves = len(list(shape.leaves()))
        instruction.sharding = (
            Sharding(ShardingKind.TUPLE, elements=(manual,) * leaves) if shape.is_tuple and leaves else manual
        )


def device_arguments(module: Module, seed: int) -> list[list[np.ndarray[Any, Any]]]:
    """Small whole numbers for each parameter, others on each device."""
    rng = np.random.default_rng(seed)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    count = module.config.replica_count * module.config.num_partitions
    return [[_argument(shape, rng) for shape in shapes] for _ in range(count)]


def _argument(shape: Shape, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    t = shape.element_type
    if t is PRED:
        return rng.integers(0, 2, shape.dimensions).astype(bool)
    low = 0 if t.is_unsigned else -_LARGEST
    return rng.integers(low, _LARGEST, shape.dimensions, endpoint=True).astype(shape.dtype)

"""Op generators of collectives, for random modules that run on several devices.

Results have the same bits in every implementation: sums and products that would be rounded, such as products of floats
or sums of sums in a narrow type, are not drawn. Does not depend on device-local operations (`collective_module`) or on
how modules are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import PRED, S8, S16, S32, S64, U8, U16, U32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes import collectives as ops
from xlapy.opcodes.attributes.replica_groups import GroupList, ReplicaGroups
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, ASYNC_UPDATE
from xlapy.opcodes.elementwise import ADD, AND, MAXIMUM, MINIMUM, MULTIPLY, OR, SUBTRACT, XOR
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, GetTupleElementAttributes
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator, SkipDraw
from xlapy.testing.random_modules.replica_groups import MODES_WITHOUT_GLOBAL_IDS, Devices, random_group_attributes

EXACT_TYPES = (PRED, S8, S16, S32, S64, U8, U16, U32)
"""Element types whose sums and products have the same bits in every order, because they wrap around."""

# -- operands and reducers


def random_operand(
    generator: ModuleGenerator, min_rank: int = 0, types: Callable[[PrimitiveType], bool] = lambda _: True
) -> Instruction:
    """Draws an available array that is not empty and has an accepted rank and element type."""
    return generator.choice(
        [
            i
            for i in generator.pool
            if i.shape.is_array and i.shape.size and i.shape.rank >= min_rank and types(i.shape.element_type)
        ]
    )


def random_operand_like(generator: ModuleGenerator, value: Instruction) -> Instruction:
    """Draws an available array of the same shape."""
    return generator.choice([i for i in generator.pool if i.shape == value.shape])


def _random_operands(generator: ModuleGenerator, devices: Devices, min_rank: int = 0) -> list[Instruction]:
    """Draws one array, or several of equal dimensions, which XLA:CPU accepts only in programs of one partition."""
    first = random_operand(generator, min_rank)
    if generator.chance(0.7) or (devices.portable and devices.partitions > 1):
        return [first]
    same = [i for i in generator.pool if i.shape.is_array and i.shape.dimensions == first.shape.dimensions]
    return [first, *(generator.choice(same) for _ in range(generator.integer(1, 2)))]


def _random_reducer(
    generator: ModuleGenerator, devices: Devices, operands: Sequence[Instruction]
) -> tuple[Computation, bool]:
    """Draws a reducer, by default one that is exact on all operands; returns it and whether its results may be large.

    Reducers that are not exact need not be associative either: their results depend on the order of the members.
    """
    t = operands[0].shape.element_type
    small = not any(operand in devices.large_values for operand in operands)
    if t is PRED:
        choices = [AND, OR, *([] if devices.portable else [XOR])]
    elif t.is_complex:
        choices = [ADD] if small else []
    elif t.is_floating:
        choices = [MAXIMUM, MINIMUM, *([ADD, ADD] if small else [])]
    else:
        choices = [MAXIMUM, MINIMUM, ADD, ADD, MULTIPLY, *([] if devices.portable else [AND, OR, XOR])]
    if not devices.exact and t is not PRED:
        choices += [ADD, MULTIPLY, SUBTRACT]
    op = generator.choice(choices)
    inner = generator.nested("reducer", [Shape.scalar(t)] * 2, scalars=True)
    root = inner.add(op, inner.pool[:2])
    if not devices.exact and t is not PRED and generator.chance(0.3):  # a reducer that no library knows
        root = inner.add(generator.choice((ADD, MULTIPLY, SUBTRACT)), generator.shuffled([root, inner.pool[0]]))
    return inner.finish(root), op is ADD and t not in EXACT_TYPES


def _same_type_operands(operands: Sequence[Instruction]) -> list[Instruction]:
    return [o for o in operands if o.shape.element_type is operands[0].shape.element_type]


def _one_floating_type(operands: Sequence[Instruction]) -> list[Instruction]:
    """Returns the operands without floats of another type than the first float's, which ops of one precision refuse."""
    floats = [o.shape.element_type for o in operands if o.shape.element_type.is_floating]
    return [o for o in operands if not o.shape.element_type.is_floating or o.shape.element_type is floats[0]]


def add_collective(
    generator: ModuleGenerator,
    devices: Devices,
    op: OpDef,
    operands: Sequence[Instruction],
    attributes: Any,
    computations: Sequence[Computation] = (),
    shape: Shape | None = None,
) -> Instruction:
    """Adds a collective, synchronous or asynchronous, and the elements of its result if that is a tuple."""
    is_asynchronous = generator.chance(0.7)  # drawn even if unused: other draws do not depend on `asynchronous`
    updates = 0 if devices.portable else generator.choice((0, 0, 1, 2))
    if devices.asynchronous and is_asynchronous:
        added = _add_asynchronous(generator, op, operands, attributes, computations, shape, updates)
    else:
        added = generator.add(op, operands, attributes, computations, shape)
    may_be_large = any(operand in devices.large_values for operand in operands)
    parts = [added]
    if added.shape.is_tuple:
        parts = [add_tuple_element(generator, added, number) for number in range(len(added.shape.tuple_shapes))]
    if may_be_large:
        devices.large_values.update(parts)
    return added


def add_tuple_element(generator: ModuleGenerator, value: Instruction, number: int) -> Instruction:
    """Adds a get-tuple-element."""
    return generator.add(GET_TUPLE_ELEMENT, (value,), GetTupleElementAttributes.make(index=number))


_START_AND_DONE = {
    opcodes.ALL_REDUCE: (opcodes.ALL_REDUCE_START, opcodes.ALL_REDUCE_DONE),
    opcodes.ALL_GATHER: (opcodes.ALL_GATHER_START, opcodes.ALL_GATHER_DONE),
    opcodes.COLLECTIVE_PERMUTE: (opcodes.COLLECTIVE_PERMUTE_START, opcodes.COLLECTIVE_PERMUTE_DONE),
}


def _add_asynchronous(
    generator: ModuleGenerator,
    op: OpDef,
    operands: Sequence[Instruction],
    attributes: Any,
    computations: Sequence[Computation],
    shape: Shape | None,
    updates: int,
) -> Instruction:
    """Adds the -start and -done operations of the collective, or async-start, `updates` async-updates and async-done if
    it has none."""
    shapes = [operand.shape for operand in operands]
    result = shape or op.result_shape(shapes, attributes, [c.program_shape for c in computations])
    if op not in _START_AND_DONE:
        inner = generator.nested("asynchronous", shapes)
        wrapped = inner.finish(inner.add(op, inner.pool[:], attributes, computations, result))
        whole = Shape.tuple([Shape.tuple(shapes), result, Shape.scalar(U32)])
        begun = edit.create(generator.computation, ASYNC_START, operands, None, (wrapped,), shape=whole)
        for _ in range(updates):
            begun = edit.create(generator.computation, ASYNC_UPDATE, (begun,), shape=whole)
        return generator.add(ASYNC_DONE, (begun,))
    start, done = _START_AND_DONE[op]
    both = Shape.tuple([shapes[0] if len(shapes) == 1 else Shape.tuple(shapes), result])
    whole = result if op is opcodes.ALL_REDUCE else both
    begun = edit.create(generator.computation, start, operands, attributes, computations, shape=whole)
    return generator.add(done, (begun,))


# -- collectives


def all_reduce(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds an all-reduce of operands of one element type, sometimes in groups of different sizes."""
    operands = _same_type_operands(_random_operands(generator, devices))
    computation, may_be_large = _random_reducer(generator, devices, operands)
    chosen, _ = random_group_attributes(generator, devices)
    if generator.chance(0.15):
        chosen["replica_groups"] = _uneven_groups(generator, chosen["replica_groups"])
    attributes = ops.AllReduceAttributes.make(**chosen)
    _mark_sums(
        generator,
        devices,
        may_be_large,
        lambda: add_collective(generator, devices, opcodes.ALL_REDUCE, operands, attributes, [computation]),
    )


def _mark_sums(
    generator: ModuleGenerator, devices: Devices, may_be_large: bool, make: Callable[[], Instruction]
) -> None:
    """Adds a collective; if its results may be large, marks them."""
    before = len(generator.pool)
    make()
    if may_be_large:
        devices.large_values.update(generator.pool[before:])


def _uneven_groups(generator: ModuleGenerator, groups: ReplicaGroups) -> ReplicaGroups:
    """Splits the same ids into two groups of any sizes, which only all-reduce accepts."""
    ids = generator.shuffled([identifier for row in groups.groups for identifier in row])
    cut = generator.integer(1, max(1, len(ids) - 1))
    return GroupList((tuple(ids[:cut]), tuple(ids[cut:]))) if len(ids) > 1 else groups


def collective_reduce(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a collective-reduce of operands of one element type."""
    operands = _same_type_operands(_random_operands(generator, devices))
    computation, may_be_large = _random_reducer(generator, devices, operands)
    chosen, _ = random_group_attributes(generator, devices)
    attributes = ops.CollectiveReduceAttributes.make(**chosen)
    _mark_sums(
        generator,
        devices,
        may_be_large,
        lambda: add_collective(generator, devices, opcodes.COLLECTIVE_REDUCE, operands, attributes, [computation]),
    )


def all_gather(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds an all-gather, unless its result would be too large."""
    operands = _random_operands(generator, devices, min_rank=1)
    dimension = generator.integer(0, operands[0].shape.rank - 1)
    if devices.portable and len(operands) > 1:
        dimension = 0  # XLA:CPU concatenates several arrays along dimension 0, whatever the attribute says
    chosen, members = random_group_attributes(generator, devices)
    if operands[0].shape.size * members > devices.max_elements:
        raise SkipDraw
    attributes = ops.AllGatherAttributes.make(all_gather_dimension=dimension, **chosen)
    shape = ops.all_gather_shape([operand.shape for operand in operands], dimension, members)
    add_collective(generator, devices, opcodes.ALL_GATHER, operands, attributes, shape=shape)


def reduce_scatter(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a reduce-scatter along a dimension that the devices of a group divide."""
    operands = _same_type_operands(_random_operands(generator, devices, min_rank=1))[: 1 if devices.portable else 3]
    chosen, members = random_group_attributes(generator, devices)
    dimension = generator.choice([d for d, size in enumerate(operands[0].shape.dimensions) if size % members == 0])
    computation, may_be_large = _random_reducer(generator, devices, operands)
    attributes = ops.ReduceScatterAttributes.make(scatter_dimension=dimension, **chosen)
    shape = ops.reduce_scatter_shape([operand.shape for operand in operands], dimension, members)
    _mark_sums(
        generator,
        devices,
        may_be_large,
        lambda: add_collective(generator, devices, opcodes.REDUCE_SCATTER, operands, attributes, [computation], shape),
    )


def all_to_all(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds an all-to-all that splits one operand or, unless portable, exchanges operands, which crashes XLA:CPU."""
    chosen, members = random_group_attributes(generator, devices, MODES_WITHOUT_GLOBAL_IDS, devices.portable)
    operand = random_operand(generator)
    if not devices.portable and generator.chance(0.4):
        others = [random_operand_like(generator, operand) for _ in range(members - 1)]
        attributes = ops.AllToAllAttributes.make(**chosen)
        add_collective(generator, devices, opcodes.ALL_TO_ALL, [operand, *others], attributes)
        return
    dimension = generator.choice([d for d, size in enumerate(operand.shape.dimensions) if size % members == 0])
    attributes = ops.AllToAllAttributes.make(split_dimension=dimension, **chosen)
    add_collective(generator, devices, opcodes.ALL_TO_ALL, [operand], attributes)


def collective_permute(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a collective-permute from some ids to the same number of ids."""
    mode = generator.choice(MODES_WITHOUT_GLOBAL_IDS)
    ids = range(devices.ids(mode))
    sources = generator.random_subset(generator.shuffled(ids), 0.8)
    pairs = tuple(zip(sources, generator.shuffled(ids), strict=False))
    attributes = ops.CollectivePermuteAttributes.make(
        channel_id=devices.channel(mode), source_target_pairs=pairs or ((0, 0),)
    )
    operands = _random_operands(generator, devices)[: 1 if devices.portable else 3]
    add_collective(generator, devices, opcodes.COLLECTIVE_PERMUTE, operands, attributes)


def collective_broadcast(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a collective-broadcast; sometimes only id 0 is in a group."""
    chosen, _ = random_group_attributes(generator, devices, MODES_WITHOUT_GLOBAL_IDS)
    if generator.chance(0.2):
        chosen["replica_groups"] = GroupList(((0,),))
    attributes = ops.CollectiveBroadcastAttributes.make(**chosen)
    operands = _one_floating_type(_random_operands(generator, devices))
    add_collective(generator, devices, opcodes.COLLECTIVE_BROADCAST, operands, attributes)


DeviceOpGenerator = Callable[[ModuleGenerator, Devices], None]
"""An op generator of modules for several devices; it reads and updates the state in `Devices`."""

_PORTABLE_COLLECTIVES: tuple[tuple[OpDef, DeviceOpGenerator], ...] = (
    (opcodes.ALL_REDUCE, all_reduce),
    (opcodes.ALL_REDUCE, all_reduce),
    (opcodes.ALL_GATHER, all_gather),
    (opcodes.REDUCE_SCATTER, reduce_scatter),
    (opcodes.ALL_TO_ALL, all_to_all),
    (opcodes.COLLECTIVE_PERMUTE, collective_permute),
)


def op_generators(devices: Devices) -> list[tuple[OpDef, OpGenerator]]:
    """Returns pairs of a collective and its op generator for the given devices."""
    chosen = [*_PORTABLE_COLLECTIVES]
    if not devices.portable:
        chosen += [(opcodes.COLLECTIVE_BROADCAST, collective_broadcast), (opcodes.COLLECTIVE_REDUCE, collective_reduce)]
    return [(op, bind_devices(op_generator, devices)) for op, op_generator in chosen]


def bind_devices(op_generator: DeviceOpGenerator, devices: Devices) -> OpGenerator:
    """Returns an op generator without the parameter `devices`."""
    return lambda generator: op_generator(generator, devices)

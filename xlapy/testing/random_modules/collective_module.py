"""Random programs for several devices: collectives among device-local operations.

Responsible for `random_collective_module`, its arguments, and the op generators of local operations. Does not depend on
evaluation or on other implementations.

Results have the same bits in every implementation, since arguments are small integers and rounded results are not
drawn. All devices execute the same instructions in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from xlapy.opcodes.control import CALL, WHILE
from xlapy.opcodes.elementwise import (
    ADD,
    COMPARE,
    CONVERT,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
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
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.random_modules.collectives import (
    EXACT_TYPES,
    DeviceOpGenerator,
    add_tuple_element,
    bind_devices,
    op_generators,
    random_operand,
    random_operand_like,
)
from xlapy.testing.random_modules.device_exchanges import EXCHANGES
from xlapy.testing.random_modules.generator import Choices, ModuleGenerator, SkipDraw
from xlapy.testing.random_modules.replica_groups import Devices, random_factors

TYPES = (PRED, S8, S16, S32, S64, U8, U16, U32, F16, BF16, F32, F64, C64)

_MAX_ARGUMENT = 8
"""Largest absolute value of an argument's elements."""

# -- device-local operations


def identifier(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a replica or partition id, so that values differ between devices."""
    added = generator.add(generator.choice((opcodes.REPLICA_ID, opcodes.PARTITION_ID)))
    generator.add(CONVERT, (added,), shape=Shape.scalar(generator.choice((S32, F32, S8))))


def movement(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a transpose, reverse, reshape or broadcast."""
    operand = random_operand(generator)
    shape = operand.shape
    dimensions = tuple(generator.shuffled(range(shape.rank)))
    how = generator.choice(("transpose", "reverse", "reshape", "broadcast"))
    if how == "transpose":
        added = generator.add(TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=dimensions))
    elif how == "reverse":
        added = generator.add(REVERSE, (operand,), DimensionsAttributes.make(dimensions=dimensions[:1]))
    elif how == "reshape":
        sizes = random_factors(generator, prod(shape.dimensions))
        added = generator.add(
            RESHAPE, (operand,), ReshapeAttributes.make(), shape=Shape.array(shape.element_type, sizes)
        )
    else:
        if shape.size > devices.max_elements // 64:
            raise SkipDraw
        wide = Shape.array(shape.element_type, [4, *shape.dimensions])
        attributes = BroadcastAttributes.make(dimensions=tuple(range(1, shape.rank + 1)))
        added = generator.add(BROADCAST, (operand,), attributes, shape=wide)
    if operand in devices.large_values:
        devices.large_values.add(added)


def arithmetic(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a maximum, a minimum or, of integers, a sum; or any sum or product, if results may be rounded."""
    operand = random_operand(generator, types=lambda t: not t.is_complex and t is not PRED)
    other = random_operand_like(generator, operand)
    exact = operand.shape.element_type in EXACT_TYPES
    choices = (MAXIMUM, MINIMUM, *([ADD] if exact else []), *([] if devices.exact else [ADD, MULTIPLY]))
    added = generator.add(generator.choice(choices), (operand, other))
    if operand in devices.large_values or other in devices.large_values:
        devices.large_values.add(added)


def call(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a call of a computation with one or two operations, which may be collectives."""
    operand = random_operand(generator)
    inner = generator.nested("called", [operand.shape])
    if operand in devices.large_values:
        devices.large_values.update(inner.pool)
    inner.add_random_instructions(generator.integer(1, 2))
    _mark_if_large(devices, inner, generator.add(CALL, (operand,), None, (inner.finish(inner.pool[-1]),)))


def loop(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a while loop of one to three iterations, whose body may contain collectives."""
    if devices.portable and devices.partitions > 1:
        raise SkipDraw  # XLA applies the tuple sharding of a loop to each of its arrays, and fails
    operand = random_operand(generator, types=lambda t: t in EXACT_TYPES or not devices.exact)
    state = Shape.tuple([Shape.scalar(S32), operand.shape])
    condition = generator.nested("condition", [state], scalars=True)
    limit = condition.constant(np.array(generator.integer(1, 3), np.int32))
    below = CompareAttributes.make(direction=ComparisonDirection.LT)
    condition.finish(condition.add(COMPARE, (add_tuple_element(condition, condition.pool[0], 0), limit), below))
    inner = generator.nested("body", [state])
    counter, value = add_tuple_element(inner, inner.pool[0], 0), add_tuple_element(inner, inner.pool[0], 1)
    inner.pool[:] = [value]
    inner.add_random_instructions(2)
    fitting = [i for i in inner.pool if i.shape == operand.shape and not (devices.exact and i in devices.large_values)]
    step = inner.add(ADD, (counter, inner.constant(np.array(1, np.int32))))
    body = inner.finish(inner.add(TUPLE, (step, fitting[-1])))
    start = generator.add(TUPLE, (generator.constant(np.array(0, np.int32)), operand))
    added = generator.add(WHILE, (start,), None, (condition.computation, body))
    add_tuple_element(generator, added, 1)


def _mark_if_large(devices: Devices, inner: ModuleGenerator, added: Instruction) -> None:
    if inner.computation.root_instruction in devices.large_values:
        devices.large_values.add(added)


_LOCAL_OPERATIONS: tuple[tuple[OpDef, DeviceOpGenerator], ...] = (
    (opcodes.REPLICA_ID, identifier),
    (TRANSPOSE, movement),
    (ADD, arithmetic),
    (CALL, call),
    (WHILE, loop),
)


def random_collective_module(
    seed: int,
    replicas: int,
    partitions: int = 1,
    *,
    instructions: int = 8,
    element_types: Sequence[PrimitiveType] = TYPES,
    portable: bool = True,
    asynchronous: bool = False,
    exact: bool = True,
) -> Module:
    """Draws a valid module for replicas * partitions devices; about half of its instructions are collectives.

    Equal arguments give equal modules, and all devices execute the same instructions. The entry computation returns
    every value that has no users. If there are several partitions, every instruction has `sharding={manual}`, because
    the program is already partitioned.

    instructions: the number of draws. portable: draw only what XLA:CPU runs; otherwise also all-to-all and
    collective-permute of several operands, collective-broadcast, collective-reduce, ragged-all-to-all, send and recv,
    and conditionals. asynchronous: split most collectives into a -start and a -done instruction. exact: draw only what
    has the same bits in every implementation; otherwise also sums and products that are rounded, reducers that are not
    associative, and large arrays. Implementations then agree only if they combine members in the same order.
    """
    devices = Devices(replicas, partitions, portable, asynchronous, exact, 4096 if exact else 1 << 17)
    module = Module(f"collectives_{seed}")
    module.config.replica_count, module.config.num_partitions = replicas, partitions
    entry = edit.add_computation(module, "entry", entry=True)
    local = [bind_devices(op_generator, devices) for _, op_generator in _LOCAL_OPERATIONS]
    exchanges = [] if portable else [bind_devices(op_generator, devices) for op_generator in EXCHANGES]
    choices = Choices(
        tuple(element_types),
        {"collectives": [*(op_generator for _, op_generator in op_generators(devices)), *exchanges], "local": local},
        {"collectives": 1.0, "local": 0.8},
    )
    generator = ModuleGenerator(module, entry, np.random.default_rng(seed), choices, ("collectives", "local"))
    for _ in range(2):
        rows = 4 * replicas * partitions // generator.choice((1, 2))
        columns = 2 if exact else generator.choice((0, 1, 2, 2, 3, 67, 300))
        generator.parameter(Shape.array(generator.type(), [rows, columns]))
    generator.add_random_instructions(instructions)
    generator.finish(generator.add(TUPLE, [i for i in generator.pool if not i.has_users and i.shape.is_array]))
    module.config.entry_computation_layout = entry.program_shape
    if partitions > 1:
        _set_manual_sharding(entry)
    return module


def _set_manual_sharding(entry: Computation) -> None:
    manual = Sharding(ShardingKind.MANUAL)
    for instruction in entry.instructions:
        shape = instruction.shape
        leaves = len(list(shape.leaves()))
        instruction.sharding = (
            Sharding(ShardingKind.TUPLE, elements=(manual,) * leaves) if shape.is_tuple and leaves else manual
        )


def device_arguments(module: Module, seed: int) -> list[list[np.ndarray[Any, Any]]]:
    """Draws the arguments of each device: small integers, which differ between devices."""
    rng = np.random.default_rng(seed)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    count = module.config.replica_count * module.config.num_partitions
    return [[_argument(shape, rng) for shape in shapes] for _ in range(count)]


def _argument(shape: Shape, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    t = shape.element_type
    if t is PRED:
        return rng.integers(0, 2, shape.dimensions).astype(bool)
    low = 0 if t.is_unsigned else -_MAX_ARGUMENT
    return rng.integers(low, _MAX_ARGUMENT, shape.dimensions, endpoint=True).astype(shape.dtype)

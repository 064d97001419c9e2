"""The time of an instruction that one kernel computes, by the rates of a device.

Arithmetic and memory accesses overlap, so the longer of both counts. The rate of memory depends on how many bytes the
device has accessed since it last accessed an array (its reuse distance).

Responsible for this estimate, and for the work inside custom calls that the cost analysis does not know. Does not
depend on the order of instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost import Cost
from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, MIN_PARALLEL_CYCLES
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.base.element_types import F32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef

_MIN_PARALLEL_SECONDS: Final = MIN_PARALLEL_CYCLES / CYCLES_PER_MICROSECOND * 1e-6
"""A shorter kernel runs on one processor."""

_PRODUCTS = frozenset({opcodes.DOT, opcodes.SCALED_DOT, opcodes.RAGGED_DOT, opcodes.CONVOLUTION, opcodes.FFT})

_ATTENTION_WORDS = ("fused_attn", "fmha", "flash_attention", "FlashAttention")
"""Parts of names of custom calls that compute attention: queries are operand 0, keys operand 1."""

_BACKWARD_WORDS = ("backward", "bwd")
_FORWARD_PRODUCTS: Final = 2
"""Matrix products of attention: queries with keys, and probabilities with values."""
_BACKWARD_PRODUCTS: Final = 5
"""Those of its gradient: the first one again, and two for each product."""

FREE_OPS = frozenset({
    opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST,
    opcodes.OPT_BARRIER, opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY, opcodes.DOMAIN, opcodes.GET_DIMENSION_SIZE,
    opcodes.REPLICA_ID, opcodes.PARTITION_ID,
})  # fmt: skip
"""Operations without a kernel."""


def kernel_seconds(
    instruction: Instruction,
    cost: Cost,
    distances: Sequence[float],
    machine: MachineDescription,
    devices: int,
    arithmetic: float,
) -> float:
    """Returns the seconds of an instruction on a device while all devices run it.

    distances: the reuse distance of each operand in bytes. devices: the number of devices in an innermost unit, which
    share the processors if the machine says so. arithmetic: the seconds of all operations but matrix products.
    """
    rates = machine.rates
    if cost.products:
        curve = rates.products_of(*_product_of(instruction))
        arithmetic += cost.products / curve.at(cost.products)
    share = processor_share(machine, devices)
    # Devices that share a processor also share its caches.
    memory = cost.result / rates.bandwidth.at(cost.bytes_accessed * share)
    for size, distance in zip(cost.operands, distances, strict=False):
        memory += size / rates.bandwidth.at(distance * share)
    seconds = max(arithmetic, memory)
    if machine.processors:
        is_parallel = seconds >= _MIN_PARALLEL_SECONDS
        seconds *= devices / machine.processors if is_parallel else share
        return seconds + rates.kernel_overhead * share
    return seconds + rates.kernel_overhead


def copy_seconds(size: int, machine: MachineDescription, devices: int) -> float:
    """Returns the seconds in which a device copies so many bytes while all devices do."""
    share = processor_share(machine, devices)
    seconds = 2 * size / machine.rates.bandwidth.at(2 * size * share)
    return seconds * devices / machine.processors if machine.processors else seconds


def processor_share(machine: MachineDescription, devices: int) -> float:
    """Returns the number of devices that share a processor and its caches."""
    return max(1.0, devices / machine.processors) if machine.processors else 1.0


def is_free(instruction: Instruction) -> bool:
    """Whether an instruction has no kernel: those of `FREE_OPS`, and reshapes of arrays in row-major order."""
    if instruction.op in FREE_OPS:
        return True
    if instruction.op is not opcodes.RESHAPE:
        return False
    return all(_is_row_major(one.shape) for one in (instruction, instruction.operands[0]))


def _is_row_major(shape: Shape) -> bool:
    return shape.is_array and (shape.layout is None or shape == shape.with_default_layout())


def attention_cost(call: Instruction, cost: Cost) -> Cost | None:
    """Returns the cost of a custom call that computes attention or its gradient, without a mask; None for others.

    Queries have the shape [batch, length, heads, size], keys [batch, length, ...].
    """
    target = call.custom_call_target
    if not any(word in target for word in _ATTENTION_WORDS) or len(call.operands) < 2:
        return None
    queries, keys = (operand.shape for operand in call.operands[:2])
    if not queries.is_array or not keys.is_array or queries.rank != 4 or keys.rank < 4:
        return None
    is_backward = any(word in target for word in _BACKWARD_WORDS)
    count = _BACKWARD_PRODUCTS if is_backward else _FORWARD_PRODUCTS
    products = 2 * count * prod(queries.dimensions) * keys.dimensions[1]
    return Cost(products, 0, cost.operands, cost.result, products)


def computed_inside(computations: Sequence[Computation]) -> Iterator[Instruction]:
    """Yields the instructions of computations, and of those that they call."""
    for computation in computations:
        for instruction in computation:
            yield instruction
            yield from computed_inside(instruction.computations)


def _product_of(instruction: Instruction) -> tuple[OpDef, PrimitiveType]:
    """Returns the operation of a kernel that multiplies and adds, and the element type of its operands."""
    inside = [instruction] if instruction.op is not opcodes.FUSION else computed_inside(instruction.computations)
    product = next((one for one in inside if one.op in _PRODUCTS), instruction)
    shape = product.operands[0].shape if product.operands else product.shape
    return product.op, shape.element_type if shape.is_array else F32

"""Cost analysis: the arithmetic operations, transcendental functions and bytes accessed of a module.

Costs follow from shapes and attributes alone, as in XLA's HloCostAnalysis. An instruction reads its operands and writes
its result; inside a fusion only the arithmetic counts. A loop counts as one iteration, a conditional as its most
expensive branch. The inside of a custom call is unknown and counts nothing. XLA counts some things that do not exist
(tables of tuples, extra stages of a Fourier transform of several dimensions) and omits others (the start indices of a
dynamic-slice after the first); this module counts neither more nor less than what exists.

Responsible for one rule for each kind of operation, in tables by family. Does not depend on machines or on how a back
end runs an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil, log2, prod

import numpy as np

from xlapy import opcodes
from xlapy.analysis.cost.elements import TRANSCENDENTAL, array_bytes, element_count
from xlapy.analysis.cost.model import Cost
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.contraction import DotAttributes, RaggedDotAttributes
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.linalg import FftAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import Rules

CalledCosts = Mapping[Computation, Cost]
"""The costs of the computations that an instruction may call."""

CostRule = Callable[[Instruction, CalledCosts], Cost]

COSTS: Rules[CostRule] = Rules("the cost analysis")
"""The operations that do more, or less, than read their operands and write their results."""


def module_cost(module: Module) -> Cost:
    """Returns the cost of one execution of the entry computation."""
    costs = instruction_costs(module)
    return sum((costs[each] for each in module.entry_computation), Cost())


def instruction_costs(module: Module) -> dict[Instruction, Cost]:
    """Returns the cost of one execution of each instruction, including the computations that it calls."""
    called_costs: dict[Computation, Cost] = {}
    found: dict[Instruction, Cost] = {}
    for computation in computation_post_order(module):
        found.update((each, _cost(each, called_costs)) for each in computation)
        called_costs[computation] = sum((found[each] for each in computation), Cost())
    return found


def instruction_cost(instruction: Instruction) -> Cost:
    """Returns the cost of an instruction that calls no computation."""
    return _cost(instruction, {})


def _cost(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    if instruction.op in COSTS:
        return COSTS.find(instruction.op)(instruction, called_costs)
    return _cost_of_full_access(instruction)


def _cost_of_full_access(instruction: Instruction, flops: int = 0, transcendentals: int = 0) -> Cost:
    """Returns the cost of reading all operands, writing the whole result, and the given arithmetic."""
    operands = tuple(array_bytes(operand.shape) for operand in instruction.operands)
    return Cost(flops, transcendentals, operands, array_bytes(instruction.shape))


def _cost_of_products(instruction: Instruction, products: int) -> Cost:
    """Returns the cost of reading all operands, writing the whole result, and operations that multiply and add."""
    return replace(_cost_of_full_access(instruction, products), products=products)


def _cost_of_applications(
    instruction: Instruction, called_costs: CalledCosts, times: int, computation: int = 0
) -> Cost:
    """Returns the cost of reading all operands, writing the result, and applying a called computation `times` times."""
    called = called_costs[instruction.computations[computation]]
    return _cost_of_full_access(instruction, called.flops * times, called.transcendentals * times)


def _log2(size: int) -> int:
    return ceil(log2(size)) if size > 1 else 0


# -- elementwise


@COSTS.rule(*(op for op in opcodes.REGISTRY.values() if op.family == "elementwise"), opcodes.STOCHASTIC_CONVERT)
def _elementwise(instruction: Instruction, _: CalledCosts) -> Cost:
    count = element_count(instruction.shape)
    return (
        _cost_of_full_access(instruction, 0, count)
        if instruction.op in TRANSCENDENTAL
        else _cost_of_full_access(instruction, count)
    )


# -- operations without cost


@COSTS.rule(
    opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.OPT_BARRIER,
    opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY, opcodes.DOMAIN, opcodes.GET_DIMENSION_SIZE, opcodes.REPLICA_ID,
    opcodes.PARTITION_ID, opcodes.COPY_DONE, opcodes.ALL_GATHER_DONE, opcodes.ALL_REDUCE_DONE,
    opcodes.COLLECTIVE_PERMUTE_DONE, opcodes.SEND_DONE, opcodes.RECV_DONE, opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE,
)  # fmt: skip
def _no_cost(_: Instruction, __: CalledCosts) -> Cost:
    return Cost()


# -- movement, indexing: operands count as far as they are read


@COSTS.rule(opcodes.SLICE, opcodes.DYNAMIC_SLICE)
def _slice(instruction: Instruction, _: CalledCosts) -> Cost:
    size = array_bytes(instruction.shape)
    return Cost(operands=(size, *(array_bytes(o.shape) for o in instruction.operands[1:])), result=size)


@COSTS.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def _update(instruction: Instruction, _: CalledCosts) -> Cost:
    rest = tuple(array_bytes(operand.shape) for operand in instruction.operands[1:])
    return Cost(operands=(0, *rest), result=rest[0])


@COSTS.rule(opcodes.GATHER)
def _gather(instruction: Instruction, _: CalledCosts) -> Cost:
    size = array_bytes(instruction.shape)
    return Cost(operands=(size, array_bytes(instruction.operands[1].shape)), result=size)


@COSTS.rule(opcodes.SCATTER)
def _scatter(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    count = len(instruction.operands) // 2
    rest = [array_bytes(operand.shape) for operand in instruction.operands[count:]]
    called, times = called_costs[instruction.computations[0]], instruction.operands[-1].shape.size
    return Cost(called.flops * times, called.transcendentals * times, (*rest[1:], *rest), sum(rest[1:]))


# -- contraction, convolution


@COSTS.rule(opcodes.DOT, opcodes.SCALED_DOT)
def _dot(instruction: Instruction, _: CalledCosts) -> Cost:
    sizes = instruction.operands[0].shape.dimensions
    terms = prod(sizes[d] for d in instruction.attributes_as(DotAttributes).lhs_contracting_dims)
    return _cost_of_products(instruction, 2 * instruction.shape.size * terms)


@COSTS.rule(opcodes.RAGGED_DOT)
def _ragged_dot(instruction: Instruction, _: CalledCosts) -> Cost:
    """Each row belongs to one group; if the groups divide a contracting dimension, each term of a sum does."""
    attributes, lhs = instruction.attributes_as(RaggedDotAttributes), instruction.operands[0].shape.dimensions
    terms = prod(lhs[d] for d in attributes.lhs_contracting_dims)
    ragged = attributes.lhs_ragged_dims[0]
    groups = instruction.shape.dimensions[0] if ragged in attributes.lhs_contracting_dims else 1
    return _cost_of_products(instruction, 2 * instruction.shape.size * terms // max(1, groups))


@COSTS.rule(opcodes.CONVOLUTION)
def _convolution(instruction: Instruction, _: CalledCosts) -> Cost:
    """Two operations for each kernel element at a valid position: on an input element, not on padding or dilation."""
    attributes = instruction.attributes_as(ConvolutionAttributes)
    numbers = attributes.dim_labels
    lhs, rhs, out = instruction.operands[0].shape, instruction.operands[1].shape, instruction.shape
    positions = prod(
        _valid_positions(window, lhs.dimensions[d])
        for window, d in zip(attributes.window.dimensions, numbers.input_spatial_dimensions, strict=True)
    )
    batch = out.dimensions[numbers.output_batch_dimension] * out.dimensions[numbers.output_feature_dimension]
    return _cost_of_products(
        instruction, 2 * positions * batch * rhs.dimensions[numbers.kernel_input_feature_dimension]
    )


def _valid_positions(window: WindowDimension, size: int) -> int:
    """Returns how often an element of a window lies on an element of the base, over all positions of the window."""
    end = (size - 1) * window.base_dilation if size else -1
    first = np.arange(window.output_size(size)) * window.stride - window.padding_low
    count = 0
    for element in range(window.size):
        indices = first + element * window.window_dilation
        count += int(((indices >= 0) & (indices <= end) & (indices % window.base_dilation == 0)).sum())
    return count


# -- reduction


@COSTS.rule(opcodes.REDUCE)
def _reduce(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    """For each result, one application less than there are elements to reduce."""
    result = next(leaf for _, leaf in instruction.shape.leaves())
    return _cost_of_applications(instruction, called_costs, max(0, instruction.operands[0].shape.size - result.size))


def _window_size(instruction: Instruction) -> int:
    """The number of elements in a window."""
    return prod(instruction.attributes_as(WindowAttributes).window.sizes)


@COSTS.rule(opcodes.REDUCE_WINDOW)
def _reduce_window(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    result = next(leaf for _, leaf in instruction.shape.leaves())
    return _cost_of_applications(instruction, called_costs, result.size * (_window_size(instruction) - 1))


@COSTS.rule(opcodes.SELECT_AND_SCATTER)
def _select_and_scatter(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    """One element of each window is selected, and one is added."""
    windows = instruction.operands[1].shape.size
    chosen = _cost_of_applications(instruction, called_costs, windows * (_window_size(instruction) - 1))
    added = called_costs[instruction.computations[1]]
    return chosen + Cost(added.flops * windows, added.transcendentals * windows)


@COSTS.rule(opcodes.MAP)
def _map(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    return _cost_of_applications(instruction, called_costs, instruction.shape.size)


@COSTS.rule(opcodes.SCAN)
def _scan(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    """One application of the called computation for each slice."""
    sizes = instruction.operands[0].shape.dimensions
    return _cost_of_applications(instruction, called_costs, sizes[instruction.dimensions[0]])


# -- sorting


@COSTS.rule(opcodes.SORT)
def _sort(instruction: Instruction, _: CalledCosts) -> Cost:
    size = instruction.operands[0].shape.size
    return _cost_of_full_access(instruction, size * _log2(size))


# -- linalg, normalization, random


@COSTS.rule(opcodes.CHOLESKY)
def _cholesky(instruction: Instruction, _: CalledCosts) -> Cost:
    """One triangle is read and written."""
    shape = instruction.operands[0].shape
    half = array_bytes(shape) // 2
    return Cost(shape.size * shape.dimensions[-1] // 3, 0, (half,), half)


@COSTS.rule(opcodes.TRIANGULAR_SOLVE)
def _triangular_solve(instruction: Instruction, _: CalledCosts) -> Cost:
    """One triangle of the matrix is read."""
    matrix, right, result = instruction.operands[0].shape, instruction.operands[1].shape, instruction.shape
    return Cost(
        result.size * matrix.dimensions[-1] * 2, 0, (array_bytes(matrix) // 2, array_bytes(right)), array_bytes(result)
    )


@COSTS.rule(opcodes.FFT)
def _fft(instruction: Instruction, _: CalledCosts) -> Cost:
    """A complex multiplication for each element in each stage: four real ones, each with an addition."""
    stages = sum(_log2(length) for length in instruction.attributes_as(FftAttributes).fft_length)
    return _cost_of_products(instruction, 2 * 4 * instruction.operands[0].shape.size * stages)


_PER_ELEMENT = {opcodes.BATCH_NORM_TRAINING: 7, opcodes.BATCH_NORM_INFERENCE: 4, opcodes.BATCH_NORM_GRAD: 12}
"""Operations for each element of the operand, including those of means and variances."""


@COSTS.rule(*_PER_ELEMENT)
def _batch_norm(instruction: Instruction, _: CalledCosts) -> Cost:
    operand, scale = instruction.operands[0].shape, instruction.operands[1].shape
    return _cost_of_full_access(instruction, _PER_ELEMENT[instruction.op] * operand.size, scale.size)


@COSTS.rule(opcodes.RNG)
def _rng(instruction: Instruction, _: CalledCosts) -> Cost:
    return _cost_of_full_access(instruction, 0, instruction.shape.size)


# -- collectives


@COSTS.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.REDUCE_SCATTER, opcodes.COLLECTIVE_REDUCE)
def _all_reduce(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    return _cost_of_applications(instruction, called_costs, sum(operand.shape.size for operand in instruction.operands))


# -- control


@COSTS.rule(opcodes.CALL, opcodes.WHILE, opcodes.ASYNC_START)
def _call(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    return sum((called_costs[computation] for computation in instruction.computations), Cost())


@COSTS.rule(opcodes.CONDITIONAL)
def _conditional(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    branches = [called_costs[branch] for branch in instruction.computations]
    return max(branches, key=lambda cost: (cost.flops + cost.transcendentals, cost.bytes_accessed))


@COSTS.rule(opcodes.FUSION)
def _fusion(instruction: Instruction, called_costs: CalledCosts) -> Cost:
    """The arithmetic of the fused computation. An operand that is only sliced counts as the bytes of its slices."""
    (computation,) = instruction.computations
    called = called_costs[computation]
    operands = tuple(_bytes_read(parameter, called_costs) for parameter in computation.parameters)
    return replace(called, operands=operands, result=array_bytes(instruction.shape))


_PARTIAL_READS = frozenset(
    {opcodes.SLICE, opcodes.DYNAMIC_SLICE, opcodes.GATHER, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER}
)


def _bytes_read(parameter: Instruction, called_costs: CalledCosts) -> int:
    whole = array_bytes(parameter.shape)
    if not parameter.users or any(user.op not in _PARTIAL_READS for user in parameter.users):
        return whole
    return min(whole, sum(_bytes_read_by(user, parameter, called_costs) for user in parameter.users))


def _bytes_read_by(user: Instruction, operand: Instruction, called_costs: CalledCosts) -> int:
    costs = _cost(user, called_costs).operands
    return sum(size for size, each in zip(costs, user.operands, strict=True) if each is operand)

"""What a module costs to run, as XLA counts it: operations on numbers, transcendental functions, bytes moved.

Counted from shapes and attributes alone, as XLA's HloCostAnalysis does: an instruction reads its operands and writes
its result; inside a fusion only the arithmetic counts. A loop counts as one turn, a conditional as its dearest
branch. What a custom call does inside is not known and counts nothing. Where XLA counts what is not there (tables of
tuples, more rounds of a Fourier transform of several dimensions) or leaves something out (the starts of a dynamic
slice behind the first), this table counts what is there.

Owns: one rule a kind of operation, in tables by family. Must not know: machines, how a back end runs an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil, log2, prod

import numpy as np

from xlapy import opcodes
from xlapy.analysis.work import element_count
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.registry import Rules


@dataclass(frozen=True, slots=True)
class Cost:
    """What an instruction, or a computation, costs. operands: bytes read of operand 0, 1 ...; result: bytes written."""

    flops: int = 0
    transcendentals: int = 0
    operands: tuple[int, ...] = ()
    result: int = 0

    @property
    def bytes_accessed(self) -> int:
        """Bytes read and written."""
        return sum(self.operands) + self.result

    def __add__(self, other: Cost) -> Cost:
        pairs = zip_longest(self.operands, other.operands, fillvalue=0)
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            tuple(one + two for one, two in pairs),
            self.result + other.result,
        )

    def named(self) -> dict[str, float]:
        """Under XLA's names: `flops`, `bytes accessed`; `bytes accessed0{}` of operand 0, `bytes accessedout{}` ..."""
        parts = {f"bytes accessed{n}{{}}": float(size) for n, size in enumerate(self.operands) if size}
        return {
            "flops": float(self.flops),
            "transcendentals": float(self.transcendentals),
            "bytes accessed": float(self.bytes_accessed),
            **parts,
            "bytes accessedout{}": float(self.result),
        }


Inside = Mapping[Computation, Cost]
CostRule = Callable[[Instruction, Inside], Cost]

COSTS: Rules[CostRule] = Rules("the cost analysis")
"""What does not just read its operands, write its result and count nothing else."""


def module_cost(module: Module) -> Cost:
    """What one run of the entry computation costs."""
    costs = instruction_costs(module)
    return sum((costs[each] for each in module.entry_computation), Cost())


def instruction_costs(module: Module) -> dict[Instruction, Cost]:
    """What each instruction costs when it runs once, with what it calls."""
    inside: dict[Computation, Cost] = {}
    found: dict[Instruction, Cost] = {}
    for computation in computation_post_order(module):
        found.update((each, _cost(each, inside)) for each in computation)
        inside[computation] = sum((found[each] for each in computation), Cost())
    return found


def _cost(instruction: Instruction, inside: Inside) -> Cost:
    if instruction.op in COSTS:
        return COSTS.find(instruction.op)(instruction, inside)
    return _moved(instruction)


def size_of(shape: Shape) -> int:
    """The bytes of all arrays in a shape."""
    return sum(leaf.size * leaf.element_type.byte_size for _, leaf in shape.leaves() if leaf.is_array)


def _moved(instruction: Instruction, flops: int = 0, transcendentals: int = 0) -> Cost:
    """All operands read, the whole result written."""
    operands = tuple(size_of(operand.shape) for operand in instruction.operands)
    return Cost(flops, transcendentals, operands, size_of(instruction.shape))


def _applied(instruction: Instruction, inside: Inside, times: int, computation: int = 0) -> Cost:
    """All operands read, the result written, and a scalar computation applied so many times."""
    called = inside[instruction.computations[computation]]
    return _moved(instruction, called.flops * times, called.transcendentals * times)


def _log2(size: int) -> int:
    return ceil(log2(size)) if size > 1 else 0


# -- elementwise

_TRANSCENDENTAL = frozenset({
    opcodes.ACOS, opcodes.ACOSH, opcodes.ASIN, opcodes.ASINH, opcodes.ATAN, opcodes.ATAN2, opcodes.ATANH, opcodes.CBRT,
    opcodes.COSH, opcodes.COSINE, opcodes.ERF, opcodes.EXPONENTIAL, opcodes.EXPONENTIAL_MINUS_ONE, opcodes.LOG,
    opcodes.LOGISTIC, opcodes.LOG_PLUS_ONE, opcodes.POWER, opcodes.RSQRT, opcodes.SINE, opcodes.SINH, opcodes.SQRT,
    opcodes.TAN, opcodes.TANH,
})  # fmt: skip


@COSTS.rule(*(op for op in opcodes.REGISTRY.values() if op.family == "elementwise"), opcodes.STOCHASTIC_CONVERT)
def _elementwise(instruction: Instruction, _: Inside) -> Cost:
    count = element_count(instruction.shape)
    return _moved(instruction, 0, count) if instruction.op in _TRANSCENDENTAL else _moved(instruction, count)


# -- what computes and moves nothing


@COSTS.rule(
    opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BITCAST, opcodes.OPT_BARRIER,
    opcodes.AFTER_ALL, opcodes.ADD_DEPENDENCY, opcodes.DOMAIN, opcodes.GET_DIMENSION_SIZE, opcodes.REPLICA_ID,
    opcodes.PARTITION_ID, opcodes.COPY_DONE, opcodes.ALL_GATHER_DONE, opcodes.ALL_REDUCE_DONE,
    opcodes.COLLECTIVE_PERMUTE_DONE, opcodes.SEND_DONE, opcodes.RECV_DONE, opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE,
)  # fmt: skip
def _nothing(_: Instruction, __: Inside) -> Cost:
    return Cost()


# -- movement, indexing: as much of an operand as is used


@COSTS.rule(opcodes.SLICE, opcodes.DYNAMIC_SLICE)
def _slice(instruction: Instruction, _: Inside) -> Cost:
    size = size_of(instruction.shape)
    return Cost(operands=(size, *(size_of(o.shape) for o in instruction.operands[1:])), result=size)


@COSTS.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def _update(instruction: Instruction, _: Inside) -> Cost:
    rest = tuple(size_of(operand.shape) for operand in instruction.operands[1:])
    return Cost(operands=(0, *rest), result=rest[0])


@COSTS.rule(opcodes.GATHER)
def _gather(instruction: Instruction, _: Inside) -> Cost:
    size = size_of(instruction.shape)
    return Cost(operands=(size, size_of(instruction.operands[1].shape)), result=size)


@COSTS.rule(opcodes.SCATTER)
def _scatter(instruction: Instruction, inside: Inside) -> Cost:
    count = len(instruction.operands) // 2
    rest = [size_of(operand.shape) for operand in instruction.operands[count:]]
    called, times = inside[instruction.computations[0]], instruction.operands[-1].shape.size
    return Cost(called.flops * times, called.transcendentals * times, (*rest[1:], *rest), sum(rest[1:]))


# -- contraction, convolution


@COSTS.rule(opcodes.DOT, opcodes.SCALED_DOT)
def _dot(instruction: Instruction, _: Inside) -> Cost:
    sizes = instruction.operands[0].shape.dimensions
    terms = prod(sizes[d] for d in instruction.attributes.lhs_contracting_dims)
    return _moved(instruction, 2 * instruction.shape.size * terms)


@COSTS.rule(opcodes.RAGGED_DOT)
def _ragged_dot(instruction: Instruction, _: Inside) -> Cost:
    """Each row belongs to one group; where the groups divide the terms, each term does."""
    attributes, lhs = instruction.attributes, instruction.operands[0].shape.dimensions
    terms = prod(lhs[d] for d in attributes.lhs_contracting_dims)
    ragged = attributes.lhs_ragged_dims[0]
    groups = instruction.shape.dimensions[0] if ragged in attributes.lhs_contracting_dims else 1
    return _moved(instruction, 2 * instruction.shape.size * terms // max(1, groups))


@COSTS.rule(opcodes.CONVOLUTION)
def _convolution(instruction: Instruction, _: Inside) -> Cost:
    """Two for each element of the kernel that meets one of the input, and neither padding nor a hole."""
    numbers, attributes = instruction.attributes.dim_labels, instruction.attributes
    lhs, rhs, out = instruction.operands[0].shape, instruction.operands[1].shape, instruction.shape
    met = prod(
        _meetings(window, lhs.dimensions[d])
        for window, d in zip(attributes.window.dimensions, numbers.input_spatial_dimensions, strict=True)
    )
    batch = out.dimensions[numbers.output_batch_dimension] * out.dimensions[numbers.output_feature_dimension]
    return _moved(instruction, 2 * met * batch * rhs.dimensions[numbers.kernel_input_feature_dimension])


def _meetings(window: WindowDimension, size: int) -> int:
    """How often, over all positions of a window, an element of it meets one of the base."""
    end = (size - 1) * window.base_dilation if size else -1
    first = np.arange(window.output_size(size)) * window.stride - window.padding_low
    count = 0
    for element in range(window.size):
        places = first + element * window.window_dilation
        count += int(((places >= 0) & (places <= end) & (places % window.base_dilation == 0)).sum())
    return count


# -- reduction


@COSTS.rule(opcodes.REDUCE)
def _reduce(instruction: Instruction, inside: Inside) -> Cost:
    """One less than there are elements, for every result."""
    result = next(leaf for _, leaf in instruction.shape.leaves())
    return _applied(instruction, inside, max(0, instruction.operands[0].shape.size - result.size))


@COSTS.rule(opcodes.REDUCE_WINDOW)
def _reduce_window(instruction: Instruction, inside: Inside) -> Cost:
    result = next(leaf for _, leaf in instruction.shape.leaves())
    return _applied(instruction, inside, result.size * (prod(instruction.attributes.window.sizes) - 1))


@COSTS.rule(opcodes.SELECT_AND_SCATTER)
def _select_and_scatter(instruction: Instruction, inside: Inside) -> Cost:
    """In every window one element is chosen, and one added."""
    windows = instruction.operands[1].shape.size
    chosen = _applied(instruction, inside, windows * (prod(instruction.attributes.window.sizes) - 1))
    added = inside[instruction.computations[1]]
    return chosen + Cost(added.flops * windows, added.transcendentals * windows)


@COSTS.rule(opcodes.MAP)
def _map(instruction: Instruction, inside: Inside) -> Cost:
    return _applied(instruction, inside, instruction.shape.size)


@COSTS.rule(opcodes.SCAN)
def _scan(instruction: Instruction, inside: Inside) -> Cost:
    """A called computation for every slice."""
    sizes = instruction.operands[0].shape.dimensions
    return _applied(instruction, inside, sizes[instruction.attributes.dimensions[0]])


# -- sorting


@COSTS.rule(opcodes.SORT)
def _sort(instruction: Instruction, _: Inside) -> Cost:
    size = instruction.operands[0].shape.size
    return _moved(instruction, size * _log2(size))


# -- linalg, normalization, random


@COSTS.rule(opcodes.CHOLESKY)
def _cholesky(instruction: Instruction, _: Inside) -> Cost:
    """One triangle is read, and written."""
    shape = instruction.operands[0].shape
    half = size_of(shape) // 2
    return Cost(shape.size * shape.dimensions[-1] // 3, 0, (half,), half)


@COSTS.rule(opcodes.TRIANGULAR_SOLVE)
def _triangular_solve(instruction: Instruction, _: Inside) -> Cost:
    """One triangle of the matrix is read."""
    matrix, right, result = instruction.operands[0].shape, instruction.operands[1].shape, instruction.shape
    return Cost(result.size * matrix.dimensions[-1] * 2, 0, (size_of(matrix) // 2, size_of(right)), size_of(result))


@COSTS.rule(opcodes.FFT)
def _fft(instruction: Instruction, _: Inside) -> Cost:
    """A complex product for every element in every round: four real ones, each with an addition."""
    rounds = sum(_log2(length) for length in instruction.attributes.fft_length)
    return _moved(instruction, 2 * 4 * instruction.operands[0].shape.size * rounds)


_PER_ELEMENT = {opcodes.BATCH_NORM_TRAINING: 7, opcodes.BATCH_NORM_INFERENCE: 4, opcodes.BATCH_NORM_GRAD: 12}
"""Subtractions, products and sums, of means and variances too, that an element of the operand takes."""


@COSTS.rule(*_PER_ELEMENT)
def _batch_norm(instruction: Instruction, _: Inside) -> Cost:
    operand, scale = instruction.operands[0].shape, instruction.operands[1].shape
    return _moved(instruction, _PER_ELEMENT[instruction.op] * operand.size, scale.size)


@COSTS.rule(opcodes.RNG)
def _rng(instruction: Instruction, _: Inside) -> Cost:
    return _moved(instruction, 0, instruction.shape.size)


# -- collectives


@COSTS.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START, opcodes.REDUCE_SCATTER, opcodes.COLLECTIVE_REDUCE)
def _all_reduce(instruction: Instruction, inside: Inside) -> Cost:
    return _applied(instruction, inside, sum(operand.shape.size for operand in instruction.operands))


# -- control


@COSTS.rule(opcodes.CALL, opcodes.WHILE, opcodes.ASYNC_START)
def _call(instruction: Instruction, inside: Inside) -> Cost:
    return sum((inside[computation] for computation in instruction.computations), Cost())


@COSTS.rule(opcodes.CONDITIONAL)
def _conditional(instruction: Instruction, inside: Inside) -> Cost:
    branches = [inside[branch] for branch in instruction.computations]
    return max(branches, key=lambda cost: (cost.flops + cost.transcendentals, cost.bytes_accessed))


@COSTS.rule(opcodes.FUSION)
def _fusion(instruction: Instruction, inside: Inside) -> Cost:
    """The arithmetic of what is inside; of an operand that is only sliced, the slices."""
    (computation,) = instruction.computations
    called = inside[computation]
    operands = tuple(_read(parameter, inside) for parameter in computation.parameters)
    return Cost(called.flops, called.transcendentals, operands, size_of(instruction.shape))


_PARTIAL = frozenset(
    {opcodes.SLICE, opcodes.DYNAMIC_SLICE, opcodes.GATHER, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.SCATTER}
)


def _read(parameter: Instruction, inside: Inside) -> int:
    whole = size_of(parameter.shape)
    if not parameter.users or any(user.op not in _PARTIAL for user in parameter.users):
        return whole
    return min(whole, sum(_read_by(user, parameter, inside) for user in parameter.users))


def _read_by(user: Instruction, operand: Instruction, inside: Inside) -> int:
    costs = _cost(user, inside).operands
    return sum(size for size, each in zip(costs, user.operands, strict=True) if each is operand)

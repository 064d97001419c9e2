"""Fusion groups: the instructions of a future kernel, and the rules that say which instructions one kernel may compute.

Does not depend on the order in which instructions are offered to groups, or on how kernels are emitted.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.analysis.cost import MAX_RECOMPUTED_COST, STORED_ELEMENT_COST, element_cost
from xlapy.base.element_types import BF16, S8, S16, U8
from xlapy.codegen.epilogue import CONTRACTIONS, keeps_rows
from xlapy.codegen.fusion.epilogues import contraction_that_stores, reason_against_epilogue, takes_epilogue
from xlapy.codegen.fusion.prologues import reason_against_prologue
from xlapy.codegen.iteration_domain import (
    AccessPattern,
    IterationDomain,
    access_patterns,
    domain_of_reduction,
    domain_of_result,
    evaluation_count,
    evaluation_counts,
    first_array_shape,
    join_patterns,
    operand_pattern,
)
from xlapy.hlo.instruction import Instruction
from xlapy.lower import LOWERINGS
from xlapy.lower.cumulative import cumulative
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.indexing import GatherAttributes

ALWAYS_DUPLICATED = frozenset({opcodes.BROADCAST, opcodes.IOTA, opcodes.CONSTANT})
"""Opcodes that every consumer recomputes, because computing an element costs no more than loading it."""

NON_FUSIBLE_PRODUCERS = frozenset({*CONTRACTIONS, opcodes.REDUCE_WINDOW, opcodes.CONCATENATE})
"""Opcodes that always get a kernel of their own. Only cheap producers (reshapes, converts) are fused into them,
prologues into dots (`prologues`), and epilogues into contractions and pooling (`epilogues`)."""

MAX_RESULTS = 8
"""The largest number of results of one kernel; each is a separate stream of stores."""

MIN_PARALLEL_ROWS = 64
"""The smallest number of rows of a large kernel. Its parallel loop runs over rows, so fewer rows leave threads idle."""

MIN_PARALLEL_ELEMENTS = 1 << 17
"""The number of elements of a kernel above which several threads are faster than one: about 16 microseconds of f32 in a
level-2 cache, of which threads take one or two to start and to wait for each other."""

MAX_REPEATED_COST = 1 << 10
"""The largest cost of all repeated evaluations in a kernel that is always acceptable, because another kernel would take
longer to start."""

GROUPED_TYPES = frozenset({BF16, S8, S16, U8})
"""Element types of which dot instructions take groups of 32 bits as they lie in memory."""

MAX_CHAIN_INSTRUCTIONS = 64
"""The largest number of instructions that `_chain_cost` visits."""

MAX_UNROLLED_INSTRUCTIONS = 512
"""The largest product of the elements of an unrolled short row and the instructions of its kernel. Above it, the
instructions are not fused into one kernel."""


MIN_EXPANSION = 16
"""A broadcast to at least this many times the elements of its operand does not compute the operand again: such a small
array, as a mean of each row or channel, is stored if it is not cheap."""


@dataclass(eq=False)
class FusionGroup:
    """Instructions that one kernel computes."""

    results: list[Instruction]
    """The instructions whose values the kernel writes, the last one in the order of the computation first."""
    domain: IterationDomain
    members: dict[Instruction, AccessPattern] = field(default_factory=dict[Instruction, AccessPattern])
    """All instructions of the group, users before their operands."""
    counts: dict[Instruction, float] = field(default_factory=dict[Instruction, float])
    """How many elements of each member the kernel computes in all."""

    @staticmethod
    def of(instruction: Instruction) -> FusionGroup:
        """The group with a single member."""
        group = FusionGroup([instruction], domain_of_result(instruction.shape))
        if instruction.op is opcodes.REDUCE:
            group.domain = domain_of_reduction(instruction)
        group._set_members([instruction])
        return group

    @property
    def root(self) -> Instruction:
        """The instruction that the kernel is named after."""
        return self.results[0]

    @property
    def has_reductions(self) -> bool:
        return any(member.op is opcodes.REDUCE for member in self.members)

    @property
    def can_be_merged(self) -> bool:
        """Whether other groups may be merged with this one: no member has a kernel without epilogues."""
        return all(member.op in CONTRACTIONS for member in self.members if _needs_own_kernel(member))

    def add(self, instruction: Instruction) -> None:
        """Adds an instruction that `reason_not_to_fuse` accepts, or whose opcode is always duplicated."""
        if instruction.op is opcodes.REDUCE and not self.has_reductions:
            self.domain = domain_of_reduction(instruction)
            self._set_members([*self.members, instruction])
            return
        self.members[instruction] = pattern = self._pattern(instruction)
        self.counts[instruction] = evaluation_count(self.domain, instruction, pattern, self.counts)

    def _set_members(self, members: list[Instruction]) -> None:
        patterns = access_patterns(self.domain, self.results, members)
        assert not isinstance(patterns, str), patterns
        self.members = patterns
        self.counts = evaluation_counts(self.domain, members, patterns)

    def _pattern(self, instruction: Instruction) -> AccessPattern:
        users = instruction.users_in(self.members)
        return join_patterns(operand_pattern(self.domain, user, self.members[user], instruction) for user in users)

    # -- producers

    def reason_not_to_fuse(self, instruction: Instruction) -> str:
        """Why an instruction that members use cannot be a member; "" if it can."""
        if builds_gather_indices(instruction):
            return ""
        if takes_epilogue(instruction):
            return self._reason_against_epilogue(instruction)
        if instruction.op in NON_FUSIBLE_PRODUCERS or not instruction.shape.is_array:
            name = f"{instruction.name} ({instruction.op.name})"
            return f"{self.root.name} would recompute {name} for each of its elements"
        non_fusible = next((m for m in self.members if _needs_own_kernel(m) and cumulative(m) is None), None)
        if non_fusible is not None and self._feeds(instruction, non_fusible):
            is_cheap = _is_cheap_producer(non_fusible, instruction)
            if non_fusible.op is opcodes.DOT and (not is_cheap or instruction.op is opcodes.TRANSPOSE):
                reason = reason_against_prologue(non_fusible, self.members, instruction)
                if reason or not is_cheap:
                    return reason
            elif not is_cheap:
                return f"{non_fusible.name} ({non_fusible.op.name}) reads its elements more than once"
            if contraction := contraction_that_stores(instruction):
                return f"{contraction.name} ({contraction.op.name}) stores its elements in this order"
        elif non_fusible is not None and takes_epilogue(non_fusible):
            if reason := reason_against_epilogue(self.results, [*self.members, instruction]):
                return reason
        elif non_fusible is not None and instruction.op is opcodes.REDUCE:
            return f"{non_fusible.name} ({non_fusible.op.name}) has a kernel of its own"
        if instruction.op is opcodes.REDUCE:
            return self._reason_against_reduction(instruction)
        if _unrolls_too_much(self.domain, self.members):
            return f"the code of {self.domain} of {len(self.members)} instructions is long already"
        count = evaluation_count(self.domain, instruction, self._pattern(instruction), self.counts)
        return _reason_against_repetition(instruction, count, self.root)

    def _reason_against_prologue(self, other: FusionGroup) -> str:
        """Why the kernel of one group should not compute operands of the other's contraction; "" if it would not."""
        for group, added in ((self, other), (other, self)):
            for contraction in (member for member in group.members if member.op in CONTRACTIONS):
                if any(group._feeds(result, contraction) for result in added.results):
                    return f"{contraction.name} ({contraction.op.name}) reads its elements more than once"
        return ""

    def _feeds(self, instruction: Instruction, target: Instruction) -> bool:
        """Whether a member computes `target` from an instruction, directly or by way of other members."""
        seen, stack = set[Instruction](), [target]
        while stack:
            for operand in stack.pop().operands:
                if operand is instruction:
                    return True
                if operand in self.members and operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        return False

    def _reason_against_epilogue(self, contraction: Instruction) -> str:
        """Why the members cannot be the epilogue of a dot, convolution or pooling; "" if they can."""
        other = next(filter(_needs_own_kernel, self.members), None)
        if other is not None:
            name = f"{contraction.name} ({contraction.op.name})"
            return f"the kernel of {self.root.name} computes {other.name} ({other.op.name}), and {name} needs another"
        return reason_against_epilogue(self.results, [*self.members, contraction])

    def _reason_against_reduction(self, reduction: Instruction) -> str:
        domain = domain_of_reduction(reduction)
        if len(reduction.operands) != 2:
            return f"{reduction.name} has several results"
        if self.has_reductions and domain != self.domain:
            return f"{self.root.name} iterates over {self.domain}, {reduction.name} over {domain}"
        members = [*self.members, reduction]
        if _unrolls_too_much(domain, members):
            return f"the code of {domain} of {len(members)} instructions would be too long"
        patterns = access_patterns(domain, self.results, members)
        if isinstance(patterns, str):
            return patterns
        reason = _reason_of_few_rows(domain, self.results, patterns)
        return reason or _reason_of_repetitions(self.root, evaluation_counts(domain, members, patterns))

    # -- multi-output fusion

    def quick_reason_not_to_merge(self, other: FusionGroup, results: list[Instruction]) -> str:
        """Why two groups cannot become one with these results, as far as simple checks tell; "" otherwise."""
        if len(results) > MAX_RESULTS:
            return f"a kernel has at most {MAX_RESULTS} results"
        if self.has_reductions and other.has_reductions and self.domain != other.domain:
            return f"{self.root.name} iterates over {self.domain}, {other.root.name} over {other.domain}"
        if not self._share_rows(other) and len({_dimensions_without_ones(result) for result in results}) > 1:
            return "their results have other dimensions"
        return ""

    def merge(self, other: FusionGroup, results: list[Instruction], members: list[Instruction]) -> FusionGroup | str:
        """Returns one group that computes what both do, or the reason why they stay separate.

        results: what the new group writes. members: those of both groups, users before their operands. The caller has
        asked `quick_reason_not_to_merge`.
        """
        if not all(m.shape.is_array for m in members):
            return "a reduction has several results"
        reason = reason_against_epilogue(results, members) or self._reason_against_prologue(other)
        if reason:
            return reason
        domain = other.domain if other.has_reductions else self.domain
        if self._share_rows(other) and _unrolls_too_much(domain, members):
            return f"the code of {domain} of {len(members)} instructions would be too long"
        patterns = access_patterns(domain, results, members)
        if isinstance(patterns, str):
            return patterns
        reason = _reason_of_few_rows(domain, results, patterns) if self._share_rows(other) else ""
        counts = evaluation_counts(domain, members, patterns)
        reason = reason or _reason_of_repetitions(results[0], counts)
        return reason or FusionGroup(results, domain, patterns, counts)

    def _share_rows(self, other: FusionGroup) -> bool:
        """Whether the two groups together would iterate over rows, because one of them reduces rows."""
        domain = other.domain if other.has_reductions else self.domain
        return domain.length > 1 and (self.has_reductions or other.has_reductions)


# -- instructions that need a kernel of their own


def builds_gather_indices(instruction: Instruction) -> bool:
    """Whether a concatenation only assembles index vectors of gathers.

    Each gather reads the components of an index vector from the concatenated operands, so nothing has to be selected.
    """
    if instruction.op is not opcodes.CONCATENATE or not instruction.has_users:
        return False
    dimension = instruction.dimension
    return all(
        user.op is opcodes.GATHER
        and user.operands[0] is not instruction
        and user.attributes_as(GatherAttributes).index_vector_dim == dimension
        for user in instruction.users
    )


def _needs_own_kernel(instruction: Instruction) -> bool:
    return instruction.op in NON_FUSIBLE_PRODUCERS and not builds_gather_indices(instruction)


def _is_cheap_producer(user: Instruction, operand: Instruction) -> bool:
    """Whether a user that reads its elements more than once may as well compute this operand each time.

    A concatenation reads the slices of an array where they lie, as in a roll, instead of copying them twice.
    """
    if user.op is opcodes.DOT and operand.op in (opcodes.SLICE, opcodes.DYNAMIC_SLICE):
        return True
    if user.op is opcodes.CONCATENATE and operand.op is opcodes.SLICE:
        return True
    if user.op is opcodes.CONVOLUTION and _loads_groups(user, operand):
        return operand.op is opcodes.RESHAPE or (operand.op is opcodes.TRANSPOSE and keeps_rows(operand))
    if user.op is opcodes.CONVOLUTION and operand.op is opcodes.TRANSPOSE and not keeps_rows(operand):
        return not _reads_rows_in_vectors(user, operand)
    return operand.op in (opcodes.RESHAPE, opcodes.TRANSPOSE) or (
        operand.op is opcodes.CONVERT and not _narrows(operand)
    )


def _loads_groups(convolution: Instruction, operand: Instruction) -> bool:
    """Whether a convolution loads groups of two or four features of an operand for dot instructions.

    The groups must be contiguous in memory, which makes a convolution about twice as fast: a kernel that transposes or
    converts the operand before takes less. A processor without dot instructions gets the same kernels.
    """
    t, attrs = operand.shape.element_type, convolution.attributes_as(ConvolutionAttributes)
    if operand is not convolution.operands[0] or t not in GROUPED_TYPES:
        return False
    features = convolution.operands[1].shape.dimensions[attrs.dim_labels.kernel_input_feature_dimension]
    return features % (32 // t.bits) == 0


def _reads_rows_in_vectors(convolution: Instruction, operand: Instruction) -> bool:
    """Whether a convolution reads vectors of an operand where it lies, so that they must be contiguous.

    Other kernels of convolutions read one element for many products, or pack the operand once per task. The gradient
    of a kernel (a window that is larger than the result) and a convolution of many groups with few features do not.
    """
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    positions = math.prod(convolution.shape.dimensions[d] for d in attrs.dim_labels.output_spatial_dimensions)
    if math.prod(attrs.window.sizes) > positions:
        return True
    return attrs.feature_group_count > 1 and operand.shape.size > convolution.operands[1].shape.size


def _narrows(convert: Instruction) -> bool:
    """Whether a conversion makes elements smaller: converting repeatedly then costs more than reading less memory."""
    source, target = convert.operands[0].shape.element_type, convert.shape.element_type
    return target.byte_size < source.byte_size


# -- limits on code, rows and repeated evaluations


def _unrolls_too_much(domain: IterationDomain, members: Collection[Instruction]) -> bool:
    """Whether the rows are unrolled and their code would be too long."""
    if not domain.has_short_rows or domain.length * len(members) <= MAX_UNROLLED_INSTRUCTIONS:
        return False
    return domain.is_unrolled(sum(map(element_cost, members)))


def _reason_of_few_rows(
    domain: IterationDomain, results: list[Instruction], patterns: dict[Instruction, AccessPattern]
) -> str:
    """Why results should not share a kernel with reductions of rows, if the rows are too few for threads."""
    has_full_results = any(patterns[result] is AccessPattern.IDENTITY for result in results)
    is_large = domain.rows * domain.length > MIN_PARALLEL_ELEMENTS and has_full_results
    return f"{domain} are too few to be shared by threads" if domain.rows < MIN_PARALLEL_ROWS and is_large else ""


def _reason_of_repetitions(root: Instruction, counts: dict[Instruction, float]) -> str:
    """Why members would be computed too often; "" if the repeated evaluations cost little."""
    extra = {m: (t - _size(m)) * element_cost(m) for m, t in counts.items() if t > 1.5 * _size(m)}
    if _is_acceptable_repetition(sum(extra.values()), max(map(_size, counts))):
        return ""
    worst = max(extra, key=lambda m: extra[m])
    return _repetition(root, worst, counts[worst])


def _reason_against_repetition(instruction: Instruction, count: float, root: Instruction) -> str:
    size = _size(instruction)
    if count <= 1.5 * size:
        return ""
    cost = _chain_cost(instruction)
    repeated = (count - size) * cost
    if cost <= MAX_RECOMPUTED_COST or _is_acceptable_repetition(repeated, max(size, _size(root))):
        return ""
    return _repetition(root, instruction, count)


def _repetition(root: Instruction, instruction: Instruction, count: float) -> str:
    return f"{root.name} would compute each element of {instruction.name} {count / _size(instruction):.0f} times"


def _is_acceptable_repetition(cost: float, elements: int) -> bool:
    """Whether a kernel over `elements` elements may spend this cost on repeated evaluations."""
    return cost <= max(MAX_REPEATED_COST, STORED_ELEMENT_COST * elements)


def _size(instruction: Instruction) -> int:
    return max(1, first_array_shape(instruction.shape).size)


def _chain_cost(instruction: Instruction) -> int:
    """The cost of an element, with the costs of the producers that would be fused with it and have no other users."""
    chain, stack, total = {instruction}, [instruction], 0
    while stack and len(chain) <= MAX_CHAIN_INSTRUCTIONS:
        member = stack.pop()
        total += element_cost(member)
        for operand in member.operands:
            if operand in chain or _is_in_memory(operand) or operand.user_count > len(chain):
                continue
            if all(user in chain for user in operand.users):
                chain.add(operand)
                stack.append(operand)
    return total


def _dimensions_without_ones(instruction: Instruction) -> tuple[int, ...]:
    return tuple(size for size in instruction.shape.dimensions if size != 1)


# -- profitable rematerialization


def is_profitable_to_duplicate(instruction: Instruction, readers: int) -> bool:
    """Whether `readers` kernels should compute an instruction each, instead of loading it from memory.

    It is profitable if the instruction is cheap and computed from arrays that are in memory anyway, and if reading
    these arrays again takes no more memory traffic than writing the result once and reading it.
    """
    inputs = _inputs_in_memory(instruction)
    if inputs is None:
        return False
    result_bytes = instruction.shape.size * instruction.shape.element_type.byte_size
    if result_bytes <= 64:
        return True
    input_bytes = sum(array.shape.size * array.shape.element_type.byte_size for array in inputs)
    return (readers - 1) * input_bytes <= (readers + 1) * result_bytes


def _inputs_in_memory(instruction: Instruction) -> set[Instruction] | None:
    """The arrays in memory that an instruction is computed from; None if computing it is not cheap."""
    inputs: set[Instruction] = set()
    total, stack = 0, [instruction]
    while stack:
        member = stack.pop()
        total += element_cost(member)
        is_cheap = member.op.elementwise or member.op in ALWAYS_DUPLICATED or member.op is opcodes.RESHAPE
        if total > MAX_RECOMPUTED_COST or not is_cheap:
            return None
        for operand in member.operands:
            if not operand.shape.is_array:
                return None
            is_expanded = member.op is opcodes.BROADCAST and operand.shape.size * MIN_EXPANSION <= member.shape.size
            if is_expanded or _is_in_memory(operand):
                inputs.add(operand)
            else:
                stack.append(operand)
    return inputs


def _is_in_memory(instruction: Instruction) -> bool:
    """Whether an instruction never is part of the kernel of its users."""
    return (
        instruction.op not in LOWERINGS
        or instruction.op in NON_FUSIBLE_PRODUCERS
        or instruction.op in (opcodes.REDUCE, opcodes.PARAMETER)
    )

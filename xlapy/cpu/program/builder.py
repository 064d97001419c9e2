"""HLO to the thunks of a native program: one thunk for each instruction that computes, loops and branches as they are.

Every call is followed where it stands, so that each array has its own place in memory; the kernel of an instruction is
made once. The state of a loop lives in the memory of its initial values where those are not needed any more, and is
updated in place where nothing reads the old value later.

Owns: which memory an instruction's result goes to. Must not know: loops inside kernels, machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlapy import opcodes
from xlapy.analysis.aliasing import OPERAND_FORWARDING_OPS, AliasAnalysis, ArrayValue, array_leaves, is_alias
from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.base.errors import UnsupportedError
from xlapy.base.logging import logger
from xlapy.base.shape import Shape
from xlapy.codegen.emitters import random_state, scatter
from xlapy.codegen.emitters.column_reduction import column_reduction_kernel
from xlapy.codegen.emitters.concatenate import concatenate_kernels
from xlapy.codegen.emitters.convolution.im2col import convolution_kernel
from xlapy.codegen.emitters.elementwise import loop_kernel
from xlapy.codegen.emitters.interleaved import interleaved_kernel
from xlapy.codegen.emitters.matmul.dot import dot_kernel
from xlapy.codegen.emitters.scan import scan_kernel
from xlapy.codegen.emitters.sort import sort, top_k
from xlapy.codegen.emitters.transpose import transpose_kernel
from xlapy.codegen.region import Region, region_of
from xlapy.cpu.program import buffer_reuse
from xlapy.cpu.program.host_fallback import draws
from xlapy.cpu.program.nan_checks import add_checks
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CallbackThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    NativeProgram,
    StorageClass,
    Thunk,
    WhileThunk,
)
from xlapy.cpu.target import host_target
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ShapeIndex
from xlapy.hlo.traverse import computation_post_order
from xlapy.interpreter.core import rule_of
from xlapy.interpreter.random import check_random_instruction
from xlapy.loops import Buffer, Kernel
from xlapy.lower import LOWERINGS
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.opcodes.registry import AsyncRole, OpDef, Rules

_NOTHING = frozenset({opcodes.AFTER_ALL, opcodes.PARAMETER})

_Kept = TypeVar("_Kept")

ThunkRule = Callable[["Scope", Instruction], None]

THUNK_RULES: Rules[ThunkRule] = Rules("cpu")
"""Operations with thunks of their own; those in `LOWERINGS` are one kernel each."""


MAX_INSTRUCTIONS = 200_000
"""In a program whose calls are followed where they stand: calls of calls of calls may make a small text a huge one."""


def build_program(
    module: Module,
    donated: Collection[int] = (),
    replica_count: int = 1,
    partition_count: int = 1,
    *,
    watched: bool = False,
) -> NativeProgram:
    """The thunks of a module; `UnsupportedError` names what has no native form.

    donated: the numbers of the arguments, the leaves of the parameters, whose memory the program may overwrite.
    watched: whether the host looks at the value of every instruction.
    """
    size = _size_followed(module)
    if size > MAX_INSTRUCTIONS:
        raise UnsupportedError(
            f"{module.name} has {size} instructions when its calls are followed, cpu takes at most {MAX_INSTRUCTIONS}"
        )
    return _Maker(module, donated, replica_count, partition_count, watched).program


def _size_followed(module: Module) -> int:
    """Instructions, those of a called computation counted at each call."""
    sizes: dict[Computation, int] = {}
    for computation in computation_post_order(module):
        sizes[computation] = len(computation) + sum(sizes[c] for i in computation for c in i.computations)
    return sizes[module.entry_computation]


def runs() -> frozenset[OpDef]:
    """The operations with a native form."""
    return frozenset(
        {
            *THUNK_RULES,
            *LOWERINGS,
            *_NOTHING,
            *OPERAND_FORWARDING_OPS,
            opcodes.TUPLE,
            opcodes.GET_TUPLE_ELEMENT,
            opcodes.FUSION,
        }
    )


class _Maker:
    def __init__(
        self, module: Module, donated: Collection[int], replica_count: int, partition_count: int, watched: bool
    ) -> None:
        self.watched = watched
        self.program = NativeProgram(module.name, replica_count=replica_count, partition_count=partition_count)
        self._kernels: dict[Hashable, list[tuple[Kernel, int]]] = {}
        self._structure = StructuralNumbering(module)
        self._overwritten: dict[tuple[Buffer, frozenset[Buffer]], bool] = {}
        self._alias_analyses: dict[Computation, AliasAnalysis] = {}
        self._module = module
        self._kept: dict[Any, Any] = {}
        self._random_state: BufferSlice | None = None
        entry = module.entry_computation
        arguments: list[list[BufferSlice]] = []
        for parameter in entry.parameters:
            slices = [self._argument(leaf) for _, leaf in array_leaves(parameter.shape)]
            arguments.append(slices)
        given = [self.program.arguments[number] for number in sorted(donated)]
        results = self.computation(entry, arguments, self.program.thunks, owned=given)
        self._finish(results, entry.root_instruction.shape, given)

    def kept(self, make: Callable[[Module, NativeProgram], _Kept]) -> _Kept:
        """What rules make of the whole module, once."""
        if make not in self._kept:
            self._kept[make] = make(self._module, self.program)
        found: _Kept = self._kept[make]
        return found

    def kernels(self, instruction: Instruction) -> list[tuple[Kernel, int]]:
        """The kernels of an instruction; equal ones have the same, whatever memory they work on."""
        if instruction.op is opcodes.FUSION:
            key: Hashable = self._structure.number(instruction.computations[0])
        else:
            operands = tuple((operand.shape, instruction.operands.index(operand)) for operand in instruction.operands)
            key = self._structure.instruction_key(instruction), operands
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = kernels_of(region_of(instruction, host_target()))
        return found

    def may_overwrite(self, kernel: Kernel, written: Buffer, read: frozenset[Buffer]) -> bool:
        """As `updates.may_overwrite`; each kernel is looked through once for the same buffers."""
        key = written, read
        if key not in self._overwritten:
            self._overwritten[key] = buffer_reuse.may_overwrite(kernel, written, read)
        return self._overwritten[key]

    def alias_analysis(self, computation: Computation) -> AliasAnalysis:
        found = self._alias_analyses.get(computation)
        if found is None:
            found = self._alias_analyses[computation] = AliasAnalysis(computation)
        return found

    def computation(
        self,
        computation: Computation,
        arguments: Sequence[Sequence[BufferSlice]],
        thunks: list[Thunk],
        owned: Collection[BufferSlice] = (),
    ) -> list[BufferSlice]:
        """Appends the thunks of a computation on the slices of its arguments; returns those of its result's leaves.

        owned: the arguments that it may overwrite.
        """
        alias_analysis = self.alias_analysis(computation)
        scope = Scope(self, alias_analysis, thunks, set(owned))
        for parameter in computation.parameters:
            for (path, _), slice_ in zip(
                array_leaves(parameter.shape), arguments[parameter.attributes.number], strict=True
            ):
                scope.slices[ArrayValue(parameter, path)] = slice_
        for instruction in alias_analysis.order:
            if instruction.op not in _NOTHING and not is_alias(instruction):
                scope.add(instruction)
        root = computation.root_instruction
        return [scope.slices[alias_analysis.value(root, path)] for path, _ in array_leaves(root.shape)]

    def constant(self, array: np.ndarray[Any, Any], shape: Shape, name: str) -> BufferSlice:
        slice_ = BufferSlice(
            shape, StorageClass.CONSTANT, len(self.program.constants), data=np.ascontiguousarray(array), name=name
        )
        self.program.constants.append(slice_)
        return slice_

    def device_id(self, op: OpDef, shape: Shape) -> BufferSlice:
        """What the device or the run gives: an argument that no parameter stands for."""
        name = op.name
        if name not in self.program.ids:
            self.program.ids.append(name)
            self._argument(shape)
        return self.program.arguments[self.program.ids.index(name) - len(self.program.ids)]

    def random_state(self) -> BufferSlice:
        """The counter that draws move on, from the beginning to the end of a run; the run gives the first one."""
        if self._random_state is None:
            first = self.device_id(opcodes.RNG_GET_AND_UPDATE_STATE, random_state.STATE_SHAPE)
            self._random_state = BufferSlice(first.shape, name="random-state")
            self.program.thunks.insert(0, CopyThunk(first, self._random_state))
        return self._random_state

    def _argument(self, shape: Shape) -> BufferSlice:
        slice_ = BufferSlice(shape, StorageClass.ARGUMENT, len(self.program.arguments))
        self.program.arguments.append(slice_)
        return slice_

    def _finish(self, results: list[BufferSlice], shape: Shape, given: list[BufferSlice]) -> None:
        """Temporaries that hold results become the results' own memory; what is no temporary is copied.

        Memory of the arguments in `given` is that of a result where it holds one, or where one can be made in it.
        """
        leaves = [leaf for _, leaf in array_leaves(shape)]
        for slice_ in dict.fromkeys(results):
            if slice_ in given:
                self.program.aliases[results.index(slice_)] = slice_.number
                given.remove(slice_)
        moved: dict[BufferSlice, BufferSlice] = {}
        for number, (slice_, leaf) in enumerate(zip(results, leaves, strict=True)):
            place = moved.get(slice_, slice_)
            argument = self._argument_for(place, given) if place.kind is StorageClass.TEMPORARY else None
            if argument is not None:
                given.remove(argument)
                moved[slice_] = argument
                self.program.aliases[number] = argument.number
            if place.kind is StorageClass.TEMPORARY and argument is None:
                place.kind, place.number, place.shape = StorageClass.RESULT, number, leaf
                self.program.results.append(place)
                continue
            result = BufferSlice(leaf, StorageClass.RESULT, number)
            self.program.results.append(result)
            if number not in self.program.aliases:
                self.program.thunks.append(CopyThunk(place, result))

    def _argument_for(self, slice_: BufferSlice, given: list[BufferSlice]) -> BufferSlice | None:
        """The argument in whose memory a result is made from now on, if that can be."""
        alike = (a for a in given if a.size == slice_.size and a.shape.size == slice_.shape.size)
        return next(
            (argument for argument in alike if buffer_reuse.make_in(self.program.thunks, slice_, argument)), None
        )


class Scope:
    """One evaluation of a computation: the slice_ of each array in it."""

    def __init__(
        self, maker: _Maker, alias_analysis: AliasAnalysis, thunks: list[Thunk], owned: set[BufferSlice]
    ) -> None:
        self.maker = maker
        self.alias_analysis = alias_analysis
        self.thunks = thunks
        self.slices: dict[ArrayValue, BufferSlice] = {}
        self.owned = owned
        """The memory that is this evaluation's own, to be overwritten when what it holds is not needed any more."""
        self.entered = frozenset(owned)
        """What of it was there before: a loop's state, which the next state is to be made in."""

    def slice_of(self, instruction: Instruction, path: ShapeIndex = ()) -> BufferSlice:
        return self.slices[self.alias_analysis.value(instruction, path)]

    def slices_of(self, instruction: Instruction) -> list[BufferSlice]:
        return [self.slices[value] for value in self.alias_analysis.values(instruction)]

    def add(self, instruction: Instruction) -> None:
        """Appends the thunks that compute an instruction."""
        if applies_unlowerable_computation(instruction):
            self.callback(instruction)
        elif instruction.op in THUNK_RULES:
            THUNK_RULES.find(instruction.op)(self, instruction)
        elif instruction.op in LOWERINGS or instruction.op is opcodes.FUSION:
            self.kernel(instruction)
        elif instruction.op.async_role is AsyncRole.NONE:
            self.callback(instruction)
        else:
            name = f"{instruction.name} ({instruction.op.name})"
            raise UnsupportedError(f"{name} runs on cpu together with its other half only")
        if self.maker.watched:
            add_checks(self, instruction)

    def callback(self, instruction: Instruction) -> None:
        """The host carries out the instruction; `UnsupportedError` if the interpreter does not evaluate it."""
        rule_of(instruction)
        check_random_instruction(instruction)
        operands = [slice_ for operand in instruction.operands for slice_ in self.slices_of(operand)]
        callbacks = self.maker.program.callbacks
        thunk = CallbackThunk(len(callbacks), instruction, operands, self.fresh(instruction), instruction.name)
        if draws(instruction):
            thunk.draws = True
            thunk.operands.append(self.maker.random_state())
            thunk.results.append(self.maker.random_state())
        callbacks.append(thunk)
        self.thunks.append(thunk)
        logger.info("%s (%s) is left to the host", instruction.name, instruction.op.name)

    def define(
        self, instruction: Instruction, slices: Sequence[BufferSlice], borrowed: Collection[BufferSlice] = ()
    ) -> None:
        """Notes where the arrays of an instruction lie; temporaries are ours, but for what other arrays lie in as well.

        borrowed: the slices in which arrays of before may lie.
        """
        for (path, _), slice_ in zip(array_leaves(instruction.shape), slices, strict=True):
            self.slices[ArrayValue(instruction, path)] = slice_
            if slice_ in borrowed or slices.count(slice_) > 1:
                self.owned.discard(slice_)
            elif slice_.kind is StorageClass.TEMPORARY:
                self.owned.add(slice_)

    def fresh(self, instruction: Instruction) -> list[BufferSlice]:
        """New temporaries for the arrays of an instruction."""
        slices = [BufferSlice(leaf, name=instruction.name) for _, leaf in array_leaves(instruction.shape)]
        self.define(instruction, slices)
        return slices

    def kernel(self, instruction: Instruction) -> None:
        if not any(leaf.size for _, leaf in array_leaves(instruction.shape)):
            self.fresh(instruction)
            return
        try:
            found = self.maker.kernels(instruction)
        except UnsupportedError:
            self.callback(instruction)
            return
        operands = (
            instruction.operands if instruction.op is opcodes.FUSION else list(dict.fromkeys(instruction.operands))
        )
        slices = [self.slice_of(operand) for operand in operands]
        # several kernels make a part of the result each, and may read what others have written over
        results = self.results(instruction, operands, found[0][0]) if len(found) == 1 else self.fresh(instruction)
        for kernel, work in found:
            self.thunks.append(KernelThunk(kernel, [*slices, *results], work, instruction.name))

    def results(self, instruction: Instruction, operands: Sequence[Instruction], kernel: Kernel) -> list[BufferSlice]:
        """The memory that a kernel writes: that of an operand which dies with it, if it may be overwritten, or new."""
        given = [self.alias_analysis.value(operand) for operand in operands]
        results: list[BufferSlice] = []
        for (path, leaf), written in zip(array_leaves(instruction.shape), kernel.buffers[len(given) :], strict=False):
            slice_ = BufferSlice(leaf, name=instruction.name)
            if ArrayValue(instruction, path) not in self.alias_analysis.result_values:
                slice_ = self.overwritten(instruction, kernel, given, written) or slice_
            results.append(slice_)
        self.define(instruction, results)
        return results

    def overwritten(
        self, instruction: Instruction, kernel: Kernel, given: Sequence[ArrayValue], written: Buffer
    ) -> BufferSlice | None:
        """The memory of an operand in which a kernel may make a result."""
        for value in dict.fromkeys(given):
            slice_ = self.slices.get(value)
            if slice_ is None or slice_ in self.entered:
                continue
            read = frozenset(buffer for buffer, m in zip(kernel.buffers, given, strict=False) if m == value)
            if not self.maker.may_overwrite(kernel, written, read):
                continue
            taken = self.taken(value, instruction)
            if taken is not None:
                for buffer in (*read, written):
                    buffer.exclusive = False
                return taken
        return None

    def taken(self, value: ArrayValue, reader: Instruction) -> BufferSlice | None:
        """The memory of an array that the reader may overwrite: the last to read it, of what is ours to write.

        In watched programs none: the host looks at it with the reader's result.
        """
        slice_ = self.slices[value]
        if self.maker.watched or slice_ not in self.owned or not self.alias_analysis.is_last_use(value, reader):
            return None
        del self.slices[value]
        return slice_

    def own_copy(self, instruction: Instruction, operand: Instruction, path: ShapeIndex = ()) -> BufferSlice:
        """The memory of an operand's array if the instruction may overwrite it, else a copy."""
        value = self.alias_analysis.value(operand, path)
        source = self.slices[value]
        if sum(self.alias_analysis.values(o).count(value) for o in instruction.operands) == 1:
            taken = self.taken(value, instruction)
            if taken is not None:
                return taken
        copy = BufferSlice(source.shape, name=instruction.name)
        self.thunks.append(CopyThunk(source, copy))
        return copy


KERNELS: Sequence[Callable[[Region], tuple[Kernel, int] | None]] = (
    dot_kernel,
    convolution_kernel,
    scan_kernel,
    column_reduction_kernel,
    interleaved_kernel,
    transpose_kernel,
    loop_kernel,
)
"""What may make the kernel of a region: the first that suits; the last does always."""


def kernels_of(region: Region) -> list[tuple[Kernel, int]]:
    """The kernels that together compute a region, with the work of one parallel iteration of each."""
    several = concatenate_kernels(region)
    if several:
        return several
    return [next(found for kernel in KERNELS if (found := kernel(region)) is not None)]


# -- operations with thunks of their own


@THUNK_RULES.rule(opcodes.CONSTANT)
def _constant(scope: Scope, instruction: Instruction) -> None:
    slices = [
        scope.maker.constant(np.asarray(_literal_leaf(instruction.literal, path)), leaf, instruction.name)
        for path, leaf in array_leaves(instruction.shape)
    ]
    scope.define(instruction, slices)


def _literal_leaf(literal: Any, path: ShapeIndex) -> Any:
    for position in path:
        literal = literal.elements[position]
    return literal.array


@THUNK_RULES.rule(opcodes.CALL)
def _call(scope: Scope, instruction: Instruction) -> None:
    arguments = [scope.slices_of(operand) for operand in instruction.operands]
    given = [value for operand in instruction.operands for value in scope.alias_analysis.values(operand)]
    owned = {
        slice_ for value in given if given.count(value) == 1 and (slice_ := scope.taken(value, instruction)) is not None
    }
    results = scope.maker.computation(instruction.to_apply, arguments, scope.thunks, owned=owned)
    borrowed = {slice_ for slices in arguments for slice_ in slices if slice_ not in owned}
    scope.define(instruction, results, borrowed)


@THUNK_RULES.rule(opcodes.CONDITIONAL)
def _conditional(scope: Scope, instruction: Instruction) -> None:
    """Every branch leaves its results in the same slices."""
    index, *operands = instruction.operands
    results = scope.fresh(instruction)
    thunk = ConditionalThunk(scope.slice_of(index), origin=instruction.name)
    for branch, operand in zip(instruction.computations, operands, strict=True):
        thunks: list[Thunk] = []
        given = scope.maker.computation(branch, [scope.slices_of(operand)], thunks)
        move(thunks, given, results)
        thunk.branches.append(thunks)
    scope.thunks.append(thunk)


@THUNK_RULES.rule(opcodes.WHILE)
def _while(scope: Scope, instruction: Instruction) -> None:
    (operand,) = instruction.operands
    initial = scope.alias_analysis.values(operand)
    kept = _unchanged(scope.maker.alias_analysis(instruction.computation("body")))
    state: list[BufferSlice] = []
    borrowed: set[BufferSlice] = set()
    for number, value in enumerate(initial):
        source = scope.slices[value]
        if number in kept:
            state.append(source)
            borrowed.add(source)
            continue
        taken = scope.taken(value, instruction) if initial.count(value) == 1 else None
        state.append(taken or BufferSlice(source.shape, name=instruction.name))
        if taken is None:
            scope.thunks.append(CopyThunk(source, state[-1]))
    scope.define(instruction, state, borrowed)
    condition: list[Thunk] = []
    (decides,) = scope.maker.computation(instruction.computation("condition"), [state], condition)
    body: list[Thunk] = []
    after = scope.maker.computation(instruction.computation("body"), [state], body, owned=set(state) - borrowed)
    move(body, after, state)
    scope.thunks.append(WhileThunk(condition, decides, body, instruction.name))


def _unchanged(body: AliasAnalysis) -> set[int]:
    """The leaves of a loop's state that its body hands on as they are; they stay where their initial values lie."""
    (parameter,), root = body.computation.parameters, body.computation.root_instruction
    pairs = zip(body.values(root), body.values(parameter), strict=True)
    return {number for number, (after, before) in enumerate(pairs) if after == before}


def move(thunks: list[Thunk], sources: Sequence[BufferSlice], targets: Sequence[BufferSlice]) -> None:
    """Appends copies of the sources to the targets as if all took place at once.

    What a kernel makes for that alone it makes in the target, if nothing needs the target's old contents from there on.
    """
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s is not t]
    left = [
        (source, target)
        for source, target in pairs
        if target in sources
        or source in targets
        or sources.count(source) > 1
        or not buffer_reuse.make_in(thunks, source, target)
    ]
    overwritten = {target for _, target in left}
    safe = [_saved(thunks, source) if source in overwritten else source for source, _ in left]
    thunks += [CopyThunk(source, target) for source, (_, target) in zip(safe, left, strict=True)]


def _saved(thunks: list[Thunk], slice_: BufferSlice) -> BufferSlice:
    copy = BufferSlice(slice_.shape, name=slice_.name)
    thunks.append(CopyThunk(slice_, copy))
    return copy


@THUNK_RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def _update(scope: Scope, instruction: Instruction) -> None:
    operand, update, *_ = instruction.operands
    target = scope.own_copy(instruction, operand)
    scope.define(instruction, [target])
    if update.shape.size:
        kernel, work = buffer_reuse.update_kernel(instruction)
        slices = [scope.slice_of(o) for o in instruction.operands[1:]]
        scope.thunks.append(KernelThunk(kernel, [*slices, target], work, instruction.name))


@THUNK_RULES.rule(opcodes.SCATTER)
def _scatter(scope: Scope, instruction: Instruction) -> None:
    count = len(instruction.operands) // 2
    targets = [scope.own_copy(instruction, operand) for operand in instruction.operands[:count]]
    scope.define(instruction, targets)
    if instruction.operands[-1].shape.size:
        kernel = scatter.scatter_kernel(instruction, host_target())
        slices = [scope.slice_of(o) for o in instruction.operands[count:]]
        scope.thunks.append(KernelThunk(kernel, [*slices, *targets], 1, instruction.name))


@THUNK_RULES.rule(opcodes.SORT)
def _sort(scope: Scope, instruction: Instruction) -> None:
    """Sorts the operands where they lie, or copies of them, with as much memory again to merge into."""
    results = [scope.own_copy(instruction, operand) for operand in instruction.operands]
    scope.define(instruction, results)
    shape = instruction.operands[0].shape
    if shape.size and shape.dimensions[instruction.dimension] > 1:
        spare = [BufferSlice(slice_.shape, name=instruction.name) for slice_ in results]
        kernel = sort.sort_kernel(instruction, host_target())
        work = shape.dimensions[instruction.dimension]
        scope.thunks.append(
            KernelThunk(kernel, [*results, *spare], work * math.ceil(math.log2(work)), instruction.name)
        )


@THUNK_RULES.rule(opcodes.TOPK)
def _topk(scope: Scope, instruction: Instruction) -> None:
    results = scope.fresh(instruction)
    if results[0].shape.size:
        kernel = top_k.top_k_kernel(instruction, host_target())
        slices = [scope.slice_of(instruction.operands[0]), *results]
        scope.thunks.append(KernelThunk(kernel, slices, instruction.operands[0].shape.dimensions[-1], instruction.name))


@THUNK_RULES.rule(opcodes.PARTITION_ID, opcodes.REPLICA_ID)
def _device_id(scope: Scope, instruction: Instruction) -> None:
    scope.define(instruction, [scope.maker.device_id(instruction.op, instruction.shape)])


@THUNK_RULES.rule(opcodes.RNG_GET_AND_UPDATE_STATE)
def _counter(scope: Scope, instruction: Instruction) -> None:
    state = scope.maker.random_state()
    kernel = random_state.random_state_kernel(instruction, host_target())
    scope.thunks.append(KernelThunk(kernel, [*scope.fresh(instruction), state], 1, instruction.name))

"""Builds the native program of a module: lowers each HLO instruction to thunks on buffer slices.

Calls are expanded at every call site, so each array has its own memory; equal instructions share one kernel. The state
of a loop reuses the memory of its initial values if they are no longer needed, and is updated in place if nothing reads
the old value later.

Responsible for which memory the result of an instruction goes to. Does not depend on the loops inside kernels or on
machine code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlapy import opcodes
from xlapy.analysis.aliasing import OPERAND_FORWARDING_OPS, AliasAnalysis, ArrayValue, array_leaves, is_alias
from xlapy.analysis.effects import draws_random_numbers
from xlapy.analysis.integer_ranges import assumed_ranges
from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.base.element_types import U8
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.codegen.emitters import random_state
from xlapy.codegen.plan import record_plan
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import Choice, emit_kernels, plan_of
from xlapy.codegen.tuning import NO_TUNED_PLANS, TunedPlans
from xlapy.cpu.program import buffer_reuse
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass, StoredValue
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import CallbackThunk, CopyThunk, HostThunk, KernelThunk, Thunk
from xlapy.cpu.program.verification.value_records import ValueRecords, values_by_slice
from xlapy.cpu.program_size import check_expanded_size
from xlapy.cpu.target import host_target
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module, ShapeIndex
from xlapy.interpreter.core import rule_of
from xlapy.interpreter.random import check_random_instruction
from xlapy.loops import Buffer, Kernel, in_place
from xlapy.lower import LOWERINGS
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.opcodes.registry import AsyncRole, OpDef, Rules

_WITHOUT_THUNKS = frozenset({opcodes.AFTER_ALL, opcodes.PARAMETER})
"""Opcodes that need no code."""

CONTROL_FLOW_OPS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})
"""Opcodes whose computations run as parts of the program. Their rules record the values themselves."""

_State = TypeVar("_State")

ThunkRule = Callable[["LoweringContext", Instruction], None]
"""Appends the thunks of an instruction to those of the context."""

THUNK_RULES: Rules[ThunkRule] = Rules("cpu")
"""The rules of opcodes that are lowered to particular thunks. Opcodes in `LOWERINGS` become one kernel each."""

InstructionHook = Callable[["LoweringContext", Instruction], None]
"""Is called after each instruction is lowered, and may add thunks."""

PlanHook = Callable[[Instruction, Choice], None]
"""Is called with an instruction that kernels compute, before its plan is recorded."""


def build_program(
    module: Module,
    donated: Collection[int] = (),
    replica_count: int = 1,
    partition_count: int = 1,
    *,
    after_instruction: InstructionHook | None = None,
    records_values: bool = False,
    on_plan: PlanHook | None = None,
    tuned: TunedPlans = NO_TUNED_PLANS,
    spans_processes: bool = False,
) -> NativeProgram:
    """Returns the native program of a module, without outlined functions and buffer assignment.

    donated: the numbers of the arguments (leaves of the parameters) whose memory the program may overwrite.
    after_instruction: a hook that may read the operands and the result of each instruction, which are then kept.
    records_values: whether the program notes the values that its thunks read and write, for verification.
    on_plan: is called with each instruction that kernels compute, and its plan. The plans are recorded in the module.
    tuned: the plans of kernels that the module demands no plan for. spans_processes: whether other processes may run
    some of the devices.
    Raises `UnsupportedError`, which names the instruction, if something has no native form.
    """
    check_expanded_size(module)
    values = ValueRecords(records_values)
    hooks = after_instruction, on_plan
    program = NativeProgram(module.name, replica_count=replica_count, partition_count=partition_count)
    program.spans_processes = spans_processes
    return ProgramBuilder(module, donated, program, hooks, values, tuned).program


def native_opcodes() -> frozenset[OpDef]:
    """Returns the opcodes that are lowered to native code or need none."""
    structural = {*_WITHOUT_THUNKS, *OPERAND_FORWARDING_OPS, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.FUSION}
    return frozenset({*THUNK_RULES, *LOWERINGS, *structural})


class ProgramBuilder:
    """Builds the native program of one module; holds what its computations share. program: empty."""

    def __init__(
        self,
        module: Module,
        donated: Collection[int],
        program: NativeProgram,
        hooks: tuple[InstructionHook | None, PlanHook | None],
        values: ValueRecords,
        tuned: TunedPlans,
    ) -> None:
        self._tuned = tuned
        self.after_instruction, self._on_plan = hooks
        self.values = values
        self.program = program
        self.program.values = values if values.is_recording else None
        self._kernels: dict[Hashable, tuple[Choice, list[Kernel]]] = {}
        self._may_overwrite: dict[tuple[Buffer, frozenset[Buffer]], bool] = {}
        self._structure = StructuralNumbering()
        self._alias_analyses: dict[Computation, AliasAnalysis] = {}
        self._module = module
        self._module_state: dict[Any, Any] = {}
        self._random_state: BufferSlice | None = None
        self._first_thunks: list[Thunk] = []
        """What runs before all other thunks."""
        entry = module.entry_computation
        arguments = [
            [StoredValue(self._add_argument(leaf, p.name), values.new(p.name)) for _, leaf in array_leaves(p.shape)]
            for p in entry.parameters
        ]
        reusable = [self.program.arguments[number] for number in sorted(donated)]
        results = self.lower_computation(entry, arguments, self.program.thunks, reusable=reusable)
        self.program.thunks[:0] = self._first_thunks
        values.initial |= {a.slice: frozenset({a.number}) for leaves in arguments for a in leaves}
        values.results = [result.number for result in results]
        values.donated = frozenset(reusable)
        self._assign_results([result.slice for result in results], entry.root_instruction.shape, reusable)

    @property
    def keeps_operands(self) -> bool:
        """Whether the memory of operands must not be reused, because a hook reads it after each instruction."""
        return self.after_instruction is not None

    def module_state(self, make: Callable[[Module, NativeProgram], _State]) -> _State:
        """Returns the object that rules share for the whole module; `make` creates it at the first call."""
        if make not in self._module_state:
            self._module_state[make] = make(self._module, self.program)
        found: _State = self._module_state[make]
        return found

    def kernels(self, instruction: Instruction) -> list[Kernel]:
        """Returns the kernels of an instruction, and records their plan in its `backend_config`.

        Equal instructions get the same kernels if the same is known of their indices and divisors: kernels do not
        check those that are known to be within bounds.
        """
        if instruction.op is opcodes.FUSION:
            equal: Hashable = self._structure.number(instruction.computations[0]), instruction.backend_config
        else:
            operands = tuple((operand.shape, instruction.operands.index(operand)) for operand in instruction.operands)
            equal = self._structure.instruction_key(instruction), operands
        key = equal, assumed_ranges(instruction)
        found = self._kernels.get(key)
        if found is None:
            region = region_of(instruction, host_target())
            choice = plan_of(instruction, region, self._tuned)
            found = self._kernels[key] = choice, emit_kernels(choice.plan, region)
        choice, kernels = found
        if self._on_plan is not None:
            self._on_plan(instruction, choice)
        record_plan(instruction, choice.plan)
        return kernels

    def may_overwrite(self, kernel: Kernel, written: Buffer, read: frozenset[Buffer]) -> bool:
        """Returns the cached value of `in_place.may_overwrite`."""
        key = written, read
        if key not in self._may_overwrite:
            self._may_overwrite[key] = in_place.may_overwrite(kernel, written, read)
        return self._may_overwrite[key]

    def alias_analysis(self, computation: Computation) -> AliasAnalysis:
        found = self._alias_analyses.get(computation)
        if found is None:
            found = self._alias_analyses[computation] = AliasAnalysis(computation)
        return found

    def lower_computation(
        self,
        computation: Computation,
        arguments: Sequence[Sequence[StoredValue]],
        thunks: list[Thunk],
        reusable: Collection[BufferSlice] = (),
    ) -> list[StoredValue]:
        """Appends the thunks of a computation, and returns the leaves of its result.

        arguments: the leaves of each parameter. reusable: the argument slices that may be overwritten.
        """
        alias_analysis = self.alias_analysis(computation)
        context = LoweringContext(self, alias_analysis, thunks, set(reusable))
        for parameter in computation.parameters:
            leaves = zip(array_leaves(parameter.shape), arguments[parameter.parameter_number], strict=True)
            for (index, _), argument in leaves:
                context.slices[ArrayValue(parameter, index)] = argument.slice
                context.numbers[ArrayValue(parameter, index)] = argument.number
        for instruction in alias_analysis.order:
            if instruction.op not in _WITHOUT_THUNKS and not is_alias(instruction):
                context.lower(instruction)
        return context.stored_values(computation.root_instruction)

    # -- slices

    def add_constant(self, array: np.ndarray[Any, Any], shape: Shape, name: str) -> BufferSlice:
        number, data = len(self.program.constants), np.ascontiguousarray(array)
        slice_ = BufferSlice(shape.without_layout(), StorageClass.CONSTANT, number, data=data, name=name)
        self.program.constants.append(slice_)
        return slice_

    def implicit_argument(self, op: OpDef, shape: Shape) -> BufferSlice:
        """Returns the argument for a value that the device or the run provides, such as the replica id."""
        names = self.program.implicit_arguments
        if op.name not in names:
            names.append(op.name)
            self._add_argument(shape, op.name)
        return self.program.arguments[names.index(op.name) - len(names)]

    def random_state(self) -> BufferSlice:
        """Returns the counter that random draws advance during a run; the run provides its initial value."""
        if self._random_state is None:
            initial = self.implicit_argument(opcodes.RNG_GET_AND_UPDATE_STATE, random_state.STATE_SHAPE)
            self._random_state = BufferSlice(initial.shape, name="random-state")
            self._first_thunks.append(CopyThunk(initial, self._random_state))
        return self._random_state

    def _add_argument(self, shape: Shape, name: str) -> BufferSlice:
        number = len(self.program.arguments)
        slice_ = BufferSlice(shape.without_layout(), StorageClass.ARGUMENT, number, name=name)
        self.program.arguments.append(slice_)
        return slice_

    # -- results of the program

    def _assign_results(self, results: list[BufferSlice], shape: Shape, donated: list[BufferSlice]) -> None:
        """Makes result slices of the temporaries that hold results, and copies results that lie elsewhere.

        A result aliases a donated argument if it lies in the memory of that argument, or can be computed there.
        """
        leaves = [leaf.without_layout() for _, leaf in array_leaves(shape)]
        for slice_ in dict.fromkeys(results):
            if slice_ in donated:
                self.program.aliases[results.index(slice_)] = slice_.number
                donated.remove(slice_)
        redirected: dict[BufferSlice, BufferSlice] = {}
        for number, (slice_, leaf) in enumerate(zip(results, leaves, strict=True)):
            source = redirected.get(slice_, slice_)
            is_temporary = source.storage is StorageClass.TEMPORARY
            argument = self._redirect_to_argument(source, donated) if is_temporary else None
            if argument is not None:
                donated.remove(argument)
                redirected[slice_] = argument
                self.program.aliases[number] = argument.number
            elif is_temporary:
                source.storage, source.number, source.shape = StorageClass.RESULT, number, leaf
                self.program.results.append(source)
                continue
            result = BufferSlice(leaf, StorageClass.RESULT, number)
            self.program.results.append(result)
            if number not in self.program.aliases:
                self.program.thunks.append(CopyThunk(source, result))

    def _redirect_to_argument(self, slice_: BufferSlice, donated: list[BufferSlice]) -> BufferSlice | None:
        """Computes a result in the memory of a donated argument if possible; returns that argument."""
        fitting = [a for a in donated if a.size == slice_.size and a.shape.size == slice_.shape.size]
        sequence = buffer_reuse.ThunkSequence(self.program.thunks if fitting else [])
        return next((argument for argument in fitting if sequence.redirect(slice_, argument)), None)


class LoweringContext:
    """The state of lowering one computation at one call site: the slice of each array value."""

    def __init__(
        self,
        builder: ProgramBuilder,
        alias_analysis: AliasAnalysis,
        thunks: list[Thunk],
        reusable: set[BufferSlice],
    ) -> None:
        self.builder = builder
        self.alias_analysis = alias_analysis
        self.thunks = thunks
        self.slices: dict[ArrayValue, BufferSlice] = {}
        self.numbers: dict[ArrayValue, int] = {}
        """The number of each array value in the records of the program."""
        self.reusable = reusable
        """The slices that may be overwritten once the array in them is no longer needed."""
        self.initially_reusable = frozenset(reusable)
        """The reusable slices of arguments. In a loop body they hold the state, and the next state goes there too."""
        self.pending: dict[Instruction, Callable[[Instruction], None]] = {}
        """How to finish, at its done, each asynchronous instruction that has started."""

    def slice_of(self, instruction: Instruction, index: ShapeIndex = ()) -> BufferSlice:
        return self.slices[self.alias_analysis.value(instruction, index)]

    def slices_of(self, instruction: Instruction) -> list[BufferSlice]:
        return [self.slices[value] for value in self.alias_analysis.values(instruction)]

    def stored_values(self, instruction: Instruction) -> list[StoredValue]:
        return [StoredValue(self.slices[v], self.numbers[v]) for v in self.alias_analysis.values(instruction)]

    def lower(self, instruction: Instruction) -> None:
        """Appends the thunks of an instruction."""
        records, first = self.builder.values, len(self.thunks)
        is_recorded = records.is_recording and instruction.op not in CONTROL_FLOW_OPS
        operands = [o for operand in instruction.operands for o in self.stored_values(operand)] if is_recorded else []
        self._append_thunks(instruction)
        if is_recorded:
            before = values_by_slice((operand.slice, operand.number) for operand in operands)
            after = values_by_slice((result.slice, result.number) for result in self.stored_values(instruction))
            records.note(self.thunks[first:], before, after)
        if self.builder.after_instruction is not None:
            self.builder.after_instruction(self, instruction)

    def _append_thunks(self, instruction: Instruction) -> None:
        """Appends the thunks of an instruction by its rule. One without a native form falls back to the host."""
        if applies_unlowerable_computation(instruction):
            self.add_host_callback(instruction, "the computation that it applies has no expression for an element")
        elif instruction.op in THUNK_RULES:
            THUNK_RULES.find(instruction.op)(self, instruction)
        elif instruction.op in LOWERINGS or instruction.op is opcodes.FUSION:
            self.add_kernels(instruction)
        elif instruction.op.async_role is AsyncRole.NONE:
            self.add_host_callback(instruction, "its operation has no native form")
        else:
            name = describe_instruction(instruction)
            raise UnsupportedError(codes.ASYNC_HALF, f"{name} runs on cpu only together with its other half")

    def add_host_callback(self, instruction: Instruction, reason: str) -> None:
        """Lets the host compute an instruction; raises `UnsupportedError` if the interpreter does not evaluate it.

        reason: why native code does not, for the log and for profiles.
        """
        rule_of(instruction)
        check_random_instruction(instruction)
        operands = [slice_ for operand in instruction.operands for slice_ in self.slices_of(operand)]
        number = len(self.builder.program.host_calling_thunks)
        results = self.allocate(instruction)
        thunk = CallbackThunk(number, instruction, operands, results, instruction.name, reason=reason)
        if draws_random_numbers(instruction):
            thunk.draws_random = True
            thunk.operands.append(self.builder.random_state())
            thunk.results.append(self.builder.random_state())
        self.append_callback(thunk)

    def append_callback(self, thunk: HostThunk) -> None:
        """Appends a thunk that may call the host, and registers it with the program."""
        self.builder.program.host_calling_thunks.append(thunk)
        self.thunks.append(thunk)

    def define(
        self,
        instruction: Instruction,
        slices: Sequence[BufferSlice],
        borrowed: Collection[BufferSlice] = (),
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Records the slices of the arrays that an instruction defines. Temporaries that hold one array only become
        reusable.

        borrowed: the slices that may also hold arrays of earlier instructions. numbers: the numbers of the values, if
        they are not new ones.
        """
        counts = Counter(slices)
        for n, ((index, _), slice_) in enumerate(zip(array_leaves(instruction.shape), slices, strict=True)):
            value = ArrayValue(instruction, index)
            if self.alias_analysis.value(instruction, index) != value:
                continue
            self.slices[value] = slice_
            self.numbers[value] = self.builder.values.new(instruction.name) if numbers is None else numbers[n]
            if slice_ in borrowed or counts[slice_] > 1:
                self.reusable.discard(slice_)
            elif slice_.storage is StorageClass.TEMPORARY:
                self.reusable.add(slice_)

    def allocate(self, instruction: Instruction) -> list[BufferSlice]:
        """Returns new temporaries for the arrays of an instruction."""
        leaves = [leaf.without_layout() for _, leaf in array_leaves(instruction.shape)]
        slices = [BufferSlice(leaf, name=instruction.name) for leaf in leaves]
        self.define(instruction, slices)
        return slices

    def add_kernels(self, instruction: Instruction) -> None:
        if not any(leaf.size for _, leaf in array_leaves(instruction.shape)):
            self.allocate(instruction)
            return
        try:
            found = self.builder.kernels(instruction)
        except UnsupportedError as error:
            self.add_host_callback(instruction, str(error))
            return
        is_fusion = instruction.op is opcodes.FUSION
        operands = instruction.operands if is_fusion else list(dict.fromkeys(instruction.operands))
        slices = [self.slice_of(operand) for operand in operands]
        # If there are several kernels, each computes a part of the result, or what a later one needs: a later one may
        # read what an earlier one would have overwritten.
        is_single = len(found) == 1
        results = self.kernel_results(instruction, operands, found[0]) if is_single else self.allocate(instruction)
        further = found[0].buffers[len(slices) + len(results) :]
        sizes = [buffer.size * buffer.type.byte_size for buffer in further]
        temporaries = [BufferSlice(Shape.array(U8, (size,)), name=instruction.name) for size in sizes]
        for kernel in found:
            self.thunks.append(KernelThunk(kernel, [*slices, *results, *temporaries], instruction.name))

    # -- buffer reuse

    def kernel_results(
        self, instruction: Instruction, operands: Sequence[Instruction], kernel: Kernel
    ) -> list[BufferSlice]:
        """Returns the slices that a kernel writes: those of operands that are not needed any more, or temporaries."""
        values = [self.alias_analysis.value(operand) for operand in operands]
        results: list[BufferSlice] = []
        for (index, leaf), written in zip(array_leaves(instruction.shape), kernel.buffers[len(values) :], strict=False):
            slice_ = BufferSlice(leaf.without_layout(), name=instruction.name)
            if ArrayValue(instruction, index) not in self.alias_analysis.result_values:
                slice_ = self.reuse_operand(instruction, kernel, values, written) or slice_
            results.append(slice_)
        self.define(instruction, results)
        return results

    def reuse_operand(
        self, instruction: Instruction, kernel: Kernel, operands: Sequence[ArrayValue], written: Buffer
    ) -> BufferSlice | None:
        """Returns the slice of an operand that a kernel may overwrite with a result, if there is one."""
        for value in dict.fromkeys(operands):
            slice_ = self.slices.get(value)
            if slice_ is None or slice_ in self.initially_reusable:
                continue
            read = frozenset(buffer for buffer, v in zip(kernel.buffers, operands, strict=False) if v == value)
            if not self.builder.may_overwrite(kernel, written, read):
                continue
            reused = self.try_reuse(value, instruction)
            if reused is not None:
                for buffer in (*read, written):
                    buffer.exclusive = False
                return reused
        return None

    def try_reuse(self, value: ArrayValue, user: Instruction) -> BufferSlice | None:
        """Returns the slice of an array, if its last user may overwrite it, and forgets the array; else None."""
        slice_ = self.slices[value]
        is_needed = not self.alias_analysis.is_last_use(value, user)
        if self.builder.keeps_operands or slice_ not in self.reusable or is_needed:
            return None
        del self.slices[value]
        return slice_

    def reuse_or_copy(self, instruction: Instruction, operand: Instruction, index: ShapeIndex = ()) -> BufferSlice:
        """Returns a slice with the operand's array that the instruction may overwrite; inserts a copy if needed."""
        value = self.alias_analysis.value(operand, index)
        source = self.slices[value]
        if self.alias_analysis.use_count(value, instruction) == 1:
            reused = self.try_reuse(value, instruction)
            if reused is not None:
                return reused
        copy = BufferSlice(source.shape, name=instruction.name)
        self.thunks.append(CopyThunk(source, copy))
        return copy

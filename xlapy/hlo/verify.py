"""Verification of a module by the rules of XLA's HloVerifier.

Responsible for checks across instructions and computations. The requirements of an op on its operands are its shape
rule in `xlapy.opcodes`. Every failure is a `VerificationError` that names the computation, the instruction, the rule
and the values.
"""

from __future__ import annotations

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ShapeError, VerificationError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Alias, BufferDonor, Module, ShapeIndex
from xlapy.hlo.traverse import find_call_cycle, find_cycle
from xlapy.hlo.verification.annotations import verify_annotations
from xlapy.hlo.verification.asynchronous import verify_async
from xlapy.hlo.verification.buffers import verify_buffers
from xlapy.hlo.verification.failure import fail
from xlapy.opcodes.collectives import ALL_TO_ALL, COLLECTIVE_BROADCAST, REDUCE_SCATTER
from xlapy.opcodes.control import FUSION
from xlapy.opcodes.indexing import SCATTER
from xlapy.opcodes.reduction import MAP, REDUCE, SELECT_AND_SCATTER
from xlapy.opcodes.registry import Effect

_UNIFORM_PRECISION_OPS = frozenset(
    {
        ALL_TO_ALL,
        COLLECTIVE_BROADCAST,
        MAP,
        REDUCE,
        REDUCE_SCATTER,
        SCATTER,
        SELECT_AND_SCATTER,
    }
)
"""Ops whose floating-point operands must have one element type, although their shape rules let the types differ."""

MAX_MODULE_NODES = 1 << 22
"""Limit on the sum of `Shape.node_count` over the tuples that the instructions of a module have as shapes.

Compilation takes time in proportion to it. Instructions that repeat one large tuple reach it with a short text.
"""


def verify(module: Module) -> None:
    """Raises `VerificationError` at the first violated rule."""
    if module.entry is None:
        raise VerificationError(module_codes.ENTRY_COMPUTATION, f"module {module.name} has no entry computation")
    call_cycle = find_call_cycle(module)
    if call_cycle:
        raise VerificationError(
            module_codes.CALL_CYCLE,
            f"computations call each other in a cycle: {_cycle_text([c.name for c in call_cycle])}",
        )
    if module.entry.callers:
        raise VerificationError(
            module_codes.ENTRY_CALLED,
            f"entry computation {module.entry.name} is called by {describe_instruction(module.entry.callers[0])}",
        )
    _verify_names(module)
    _verify_tuples(module)
    for computation in module.computations:
        _verify_root(computation)  # first of all, because program shapes of called computations need the roots
    for computation in module.computations:
        verify_computation(computation)
    verify_async(module)
    verify_annotations(module)
    verify_buffers(module)
    _verify_entry_layout(module)
    verify_aliases(module)


def _cycle_text(names: list[str]) -> str:
    shown = names if len(names) <= 8 else [*names[:7], "..."]
    return " -> ".join([*shown, names[0]])


def verify_computation(computation: Computation) -> None:
    """Checks one computation: root, parameters, order, and each instruction."""
    _verify_root(computation)
    _verify_parameters(computation)
    _verify_order(computation)
    module = computation.module
    for instruction in computation:
        _verify_instruction(instruction)
        for called in instruction.computations:
            if called.module is not module:
                fail(
                    instruction, module_codes.CALLED_IN_MODULE, f"calls {called.name}, which is not part of the module"
                )


def _verify_root(computation: Computation) -> None:
    if computation.root is None:
        raise VerificationError(module_codes.ROOT, f"computation {computation.name} has no root")
    if computation.root not in computation:
        raise VerificationError(
            module_codes.ROOT, f"computation {computation.name} has the root {computation.root.name} of another one"
        )


def _verify_parameters(computation: Computation) -> None:
    for expected, parameter in enumerate(computation.parameters):
        number = parameter.parameter_number
        if number != expected:
            numbers = [p.parameter_number for p in computation.parameters]
            raise VerificationError(
                module_codes.PARAMETER_NUMBERS,
                f"computation {computation.name}: parameters must be numbered 0 to {len(numbers) - 1} without gaps "
                f"or repeats, found {numbers}",
            )


def _verify_order(computation: Computation) -> None:
    """Verifies that operands are in the same computation, that no cycle exists, and that a schedule is respected."""
    seen: set[Instruction] = set()
    has_order = False
    for instruction in computation:
        for operand in (*instruction.operands, *instruction.control_predecessors):
            if operand in seen:
                continue
            if operand.parent is not computation:
                fail(
                    instruction,
                    module_codes.SAME_COMPUTATION,
                    f"uses {operand.name}, which is not part of the computation",
                )
            if not has_order:
                _verify_acyclic(computation)
                has_order = True
            if computation.module is not None and computation.module.config.is_scheduled:
                fail(
                    instruction, module_codes.SCHEDULE_ORDER, f"is scheduled before {operand.name}, which it depends on"
                )
        seen.add(instruction)


def _verify_acyclic(computation: Computation) -> None:
    cycle = find_cycle(computation)
    if cycle:
        names = _cycle_text([i.name for i in cycle])
        raise VerificationError(
            module_codes.DEPENDENCY_CYCLE, f"computation {computation.name} has a dependency cycle: {names}"
        )


def _verify_instruction(instruction: Instruction) -> None:
    op = instruction.op
    operands = instruction.operands
    if instruction.shape.is_dynamic:
        _verify_bounded(instruction)
    programs = [called.program_shape for called in instruction.computations]
    _verify_called_computations(instruction)
    try:
        op.verify(instruction.shape, [operand.shape for operand in operands], instruction.attributes, programs)
    except ShapeError as error:
        fail(instruction, error.code, error.message)
    if op in _UNIFORM_PRECISION_OPS:
        _verify_precision(instruction)
    if op is FUSION:
        _verify_fused(instruction)


def _verify_bounded(instruction: Instruction) -> None:
    if any(UNBOUNDED in leaf.dimensions for _, leaf in instruction.shape.leaves()):
        fail(
            instruction,
            value_codes.BOUNDED_DIMENSIONS,
            f"has shape {instruction.shape.to_text(layout=False)}: a program that is run has no unbounded dimensions; "
            "give them a bound, as in f32[<=8], or a size",
        )


def _verify_precision(instruction: Instruction) -> None:
    first: Instruction | None = None
    seen: set[PrimitiveType] = set()
    for operand in instruction.operands:
        seen |= {leaf.element_type for _, leaf in operand.shape.leaves() if leaf.element_type.is_floating}
        first = first or (operand if seen else None)
        if len(seen) > 1 and first is not None:
            fail(
                instruction,
                module_codes.UNIFORM_PRECISION,
                f"takes floating-point operands of one type, {first.name} is {first.shape.to_text(layout=False)} "
                f"and {operand.name} is {operand.shape.to_text(layout=False)}; convert one of them",
            )


def _verify_fused(fusion: Instruction) -> None:
    """Verifies that the root of a fused computation has no users, and that all other instructions have users."""
    for fused in fusion.computations[0]:
        if fused.is_root and fused.has_users:
            fail(
                fusion,
                module_codes.FUSED_USERS,
                f"the root {fused.name} of the fused computation is used by {fused.users[0].name}",
            )
        is_unused = not fused.is_root and not fused.has_users
        if is_unused and fused.op.effect_of(fused.attributes) is not Effect.SIDE_EFFECT:
            fail(
                fusion,
                module_codes.FUSED_USERS,
                f"{describe_instruction(fused)} in the fused computation is neither its root nor used",
            )


def _verify_called_computations(instruction: Instruction) -> None:
    slots = instruction.op.computation_slots
    given = len(instruction.computations)
    if not slots:
        if given:
            fail(instruction, operand_codes.CALLED_COMPUTATIONS, f"calls no computation, given {given}")
        return
    least = sum(not slot.optional for slot in slots)
    most = None if any(slot.variadic for slot in slots) else len(slots)
    if given < least or (most is not None and given > most):
        keys = ", ".join(slot.key for slot in slots)
        fail(
            instruction, operand_codes.CALLED_COMPUTATIONS, f"needs {least} called computations ({keys}), given {given}"
        )


def _verify_names(module: Module) -> None:
    names: set[str] = set()
    for computation in module.computations:
        if computation.name in names:
            raise VerificationError(module_codes.UNIQUE_NAMES, f"two computations are named {computation.name}")
        names.add(computation.name)
        local: set[str] = set()
        for instruction in computation:
            if instruction.name in local:
                raise VerificationError(
                    module_codes.UNIQUE_NAMES,
                    f"computation {computation.name} has two instructions named {instruction.name}",
                )
            local.add(instruction.name)


def _verify_tuples(module: Module) -> None:
    nodes = 0
    for instruction in module.instructions():
        if instruction.shape.is_tuple:
            nodes += instruction.shape.node_count
            if nodes > MAX_MODULE_NODES:
                fail(
                    instruction,
                    module_codes.MODULE_SIZE,
                    f"has a tuple of {instruction.shape.node_count} tuples and leaves as its shape; together with the "
                    f"instructions before it, these are more than {MAX_MODULE_NODES}, the most that a module may have",
                )


def _verify_entry_layout(module: Module) -> None:
    layout = module.config.entry_computation_layout
    if layout is None:
        return
    program = module.entry_computation.program_shape
    if not layout.compatible(program):
        raise VerificationError(
            module_codes.ENTRY_LAYOUT,
            f"entry_computation_layout {layout.to_text()} does not fit the entry computation {program.to_text()}",
        )


def verify_aliases(module: Module) -> None:
    """Raises `VerificationError` unless aliases and donors name buffers of the entry, and each buffer only once."""
    program = module.entry_computation.program_shape
    outputs: set[tuple[int, ...]] = set()
    sources: set[tuple[int, tuple[int, ...]]] = set()
    for alias in module.config.input_output_alias:
        if alias.output_index in outputs:
            raise VerificationError(
                module_codes.ALIAS_ONCE, f"input_output_alias names output {list(alias.output_index)} twice"
            )
        if (alias.parameter_number, alias.parameter_index) in sources:
            raise VerificationError(
                module_codes.ALIAS_ONCE,
                f"input_output_alias names parameter {alias.parameter_number} at {list(alias.parameter_index)} twice",
            )
        outputs.add(alias.output_index)
        sources.add((alias.parameter_number, alias.parameter_index))
        where = (
            f"input_output_alias {list(alias.output_index)}: ({alias.parameter_number}, {list(alias.parameter_index)})"
        )
        try:
            output = _buffer(program.result, alias.output_index)
            source = _parameter_buffer(program, alias)
        except ShapeError as error:
            raise VerificationError(
                error.code, f"{where} names no buffer of {program.to_text()}: {error.message}"
            ) from error
        if output.byte_size != source.byte_size:
            raise VerificationError(
                module_codes.ALIAS_SIZE,
                f"{where} pairs {output.to_text(layout=False)} with "
                f"{source.to_text(layout=False)}, which differ in size",
            )
        _verify_same_buffer(module, alias, where)
    _verify_donors(module, program)


def _verify_same_buffer(module: Module, alias: Alias, where: str) -> None:
    """Verifies that an output that must share a parameter's buffer has its shape, layout and memory space."""
    layout = module.config.entry_computation_layout or module.entry_computation.program_shape
    output = layout.result.subshape(alias.output_index)
    source = layout.parameters[alias.parameter_number].subshape(alias.parameter_index)
    if alias.must and output != source:
        raise VerificationError(
            module_codes.ALIAS_MUST, f"{where} must share a buffer, which the entry has as {source} and {output}"
        )


def _parameter_buffer(program: ProgramShape, source: Alias | BufferDonor) -> Shape:
    if not 0 <= source.parameter_number < len(program.parameters):
        raise ShapeError(module_codes.ALIAS_BUFFER, f"there is no parameter {source.parameter_number}")
    return _buffer(program.parameters[source.parameter_number], source.parameter_index)


def _buffer(shape: Shape, index: ShapeIndex) -> Shape:
    try:
        found = shape.subshape(index)
    except ShapeError as error:
        raise ShapeError(module_codes.ALIAS_BUFFER, error.message) from error
    if not found.is_array:
        raise ShapeError(module_codes.ALIAS_BUFFER, f"{found.to_text(layout=False)} is not an array")
    return found


def _verify_donors(module: Module, program: ProgramShape) -> None:
    aliased = {(alias.parameter_number, alias.parameter_index) for alias in module.config.input_output_alias}
    for donor in module.config.buffer_donors:
        where = f"buffer_donor ({donor.parameter_number}, {list(donor.parameter_index)})"
        try:
            _parameter_buffer(program, donor)
        except ShapeError as error:
            raise VerificationError(
                error.code, f"{where} names no buffer of {program.to_text()}: {error.message}"
            ) from error
        if (donor.parameter_number, donor.parameter_index) in aliased:
            raise VerificationError(
                module_codes.DONOR_ALIASED,
                f"{where} is already aliased with an output, so no other output can reuse it",
            )

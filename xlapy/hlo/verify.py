"""Whole-module verification: what XLA's verifier demands of every module.

Owns: checks that span instructions and computations. What one op demands of its operands is its own shape rule in
`xlapy.ops`. Every failure is a `VerificationError` naming the computation, the instruction, the rule and the values.
"""

from __future__ import annotations

from xlapy.base.errors import ShapeError, VerificationError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import find_call_cycle, find_cycle


def verify(module: Module) -> None:
    """Raises `VerificationError` at the first broken rule; returns None if the module is sound."""
    if module.entry is None:
        raise VerificationError(f"module {module.name} has no entry computation")
    call_cycle = find_call_cycle(module)
    if call_cycle:
        raise VerificationError(f"computations call each other in a circle: {_circle([c.name for c in call_cycle])}")
    if module.entry.callers:
        raise VerificationError(f"entry computation {module.entry.name} is called by {module.entry.callers[0].name}")
    _verify_names(module)
    for computation in module.computations:
        verify_computation(computation)
    _verify_entry_layout(module)
    _verify_aliases(module)


def _circle(names: list[str]) -> str:
    shown = names if len(names) <= 8 else [*names[:7], "..."]
    return " -> ".join([*shown, names[0]])


def verify_computation(computation: Computation) -> None:
    """Checks one computation: root, parameters, order, and each instruction."""
    if computation.root is None or computation.root not in computation:
        raise VerificationError(f"computation {computation.name} has no root")
    _verify_parameters(computation)
    _verify_order(computation)
    module = computation.module
    for instruction in computation:
        _verify_instruction(instruction)
        for called in instruction.computations:
            if called.module is not module:
                _fail(instruction, f"calls {called.name}, which is not part of the module")


def _verify_parameters(computation: Computation) -> None:
    for expected, parameter in enumerate(computation.parameters):
        number = parameter.attributes.number
        if number != expected:
            numbers = [p.attributes.number for p in computation.parameters]
            raise VerificationError(
                f"computation {computation.name}: parameters must be numbered 0 to {len(numbers) - 1} without gaps "
                f"or repeats, found {numbers}"
            )


def _verify_order(computation: Computation) -> None:
    """Operands live in the same computation, precede their users, and nothing depends on itself."""
    seen: set[Instruction] = set()
    has_order = False
    for instruction in computation:
        for operand in (*instruction.operands, *instruction.control_predecessors):
            if operand in seen:
                continue
            if operand.parent is not computation:
                _fail(instruction, f"uses {operand.name}, which is not part of the computation")
            if not has_order:
                _verify_acyclic(computation)
                has_order = True
        seen.add(instruction)


def _verify_acyclic(computation: Computation) -> None:
    cycle = find_cycle(computation)
    if cycle:
        names = _circle([i.name for i in cycle])
        raise VerificationError(f"computation {computation.name} has a dependency cycle: {names}")


def _verify_instruction(instruction: Instruction) -> None:
    op = instruction.op
    operands = instruction.operands
    programs = [called.program_shape for called in instruction.computations]
    _verify_roles(instruction)
    try:
        op.verify(instruction.shape, [operand.shape for operand in operands], instruction.attributes, programs)
    except ShapeError as error:
        _fail(instruction, str(error))


def _verify_roles(instruction: Instruction) -> None:
    roles = instruction.op.roles
    given = len(instruction.computations)
    if not roles:
        if given:
            _fail(instruction, f"calls no computation, given {given}")
        return
    least = sum(not role.optional for role in roles)
    most = None if any(role.many for role in roles) else len(roles)
    if given < least or (most is not None and given > most):
        keys = ", ".join(role.key for role in roles)
        _fail(instruction, f"needs {least} called computations ({keys}), given {given}")


def _verify_names(module: Module) -> None:
    names: set[str] = set()
    for computation in module.computations:
        if computation.name in names:
            raise VerificationError(f"two computations are named {computation.name}")
        names.add(computation.name)
        local: set[str] = set()
        for instruction in computation:
            if instruction.name in local:
                raise VerificationError(f"computation {computation.name} has two instructions named {instruction.name}")
            local.add(instruction.name)


def _verify_entry_layout(module: Module) -> None:
    layout = module.config.entry_computation_layout
    if layout is None:
        return
    program = module.entry_computation.program_shape
    if not layout.compatible(program):
        raise VerificationError(
            f"entry_computation_layout {layout.to_text()} does not fit the entry computation {program.to_text()}"
        )


def _verify_aliases(module: Module) -> None:
    program = module.entry_computation.program_shape
    outputs: set[tuple[int, ...]] = set()
    for alias in module.config.input_output_alias:
        if alias.output_index in outputs:
            raise VerificationError(f"input_output_alias names output {list(alias.output_index)} twice")
        outputs.add(alias.output_index)
        where = (
            f"input_output_alias {list(alias.output_index)}: ({alias.parameter_number}, {list(alias.parameter_index)})"
        )
        try:
            output = program.result.subshape(alias.output_index)
            source = program.parameters[alias.parameter_number].subshape(alias.parameter_index)
        except (IndexError, ShapeError) as error:
            raise VerificationError(f"{where} names no buffer of {program.to_text()}") from error
        if output.is_array and source.is_array and output.byte_size != source.byte_size:
            raise VerificationError(f"{where} pairs {output.brief} with {source.brief}, which differ in size")


def _fail(instruction: Instruction, message: str) -> None:
    parent = instruction.parent
    where = "" if parent is None else f"{parent.name}: "
    raise VerificationError(f"{where}{instruction.name} ({instruction.op.name}): {message}")

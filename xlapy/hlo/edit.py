"""Functions that change the IR: operands, users, control edges, called computations, membership and roots.

No other module changes these edges. Every function keeps `users`, `callers`, `parameters` and the names consistent.
Does not depend on what ops mean.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy

from xlapy.base.error_codes.structure import editing as edit_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.registry import OpDef


def add_computation(module: Module, name: str, *, entry: bool = False) -> Computation:
    """Adds a new, empty computation to the module under a unique name."""
    computation = Computation(module.computation_names.unique(name))
    computation.module = module
    module._computations[computation] = None
    if entry:
        module.entry = computation
    return computation


def add_built_computation(module: Module, computation: Computation, *, entry: bool = False) -> None:
    """Appends a computation that was built outside of any module.

    Makes its name and then those of its instructions unique, in order, as XLA does when it adds a computation.
    """
    computation.name = module.computation_names.unique(computation.name)
    computation.module = module
    unique = module.instruction_names.unique
    for instruction in computation._instructions:
        instruction.name = unique(instruction.name)
    computation._program_shape = None
    module._computations[computation] = None
    if entry:
        module.entry = computation


def create(
    computation: Computation,
    op: OpDef,
    operands: Sequence[Instruction] = (),
    attributes: Attributes | None = None,
    computations: Sequence[Computation] = (),
    *,
    shape: Shape | None = None,
    name: str | None = None,
    metadata: OpMetadata | None = None,
) -> Instruction:
    """Appends a new instruction to a computation.

    If `shape` is None, the op infers it and raises `ShapeError` if the operands are illegal. If `attributes` is None,
    the op's defaults are used.
    """
    if attributes is None:
        attributes = op.attributes.make()
    shapes = [operand.shape for operand in operands]
    programs = [called.program_shape for called in computations]
    if shape is None:
        shape = op.result_shape(shapes, attributes, programs)
    if op.canonicalize_attributes is not None:
        attributes = op.canonicalize_attributes(attributes, shapes, shape)
    instruction = Instruction(op, shape, operands, attributes, computations, name or op.name, metadata)
    append(computation, instruction)
    return instruction


def append(computation: Computation, instruction: Instruction) -> None:
    """Appends an instruction that has no computation yet, adds its edges, and makes its name unique in the module."""
    if instruction.parent is not None:
        raise InvalidArgumentError(
            edit_codes.ONE_OWNER, f"{instruction.name} is already part of computation {instruction.parent.name}"
        )
    if computation.module is not None:
        instruction.name = computation.module.instruction_names.unique(instruction.name)
    append_with_name(computation, instruction)


def append_with_name(computation: Computation, instruction: Instruction) -> None:
    """Like `append`, but keeps the instruction's name; for parsers that make names unique later."""
    instruction.parent = computation
    computation._instructions[instruction] = None
    computation._post_order = computation._called = None
    for operand in instruction.operands:
        _add_user(operand, instruction)
    for called in instruction.computations:
        called._callers[instruction] = None
    if is_parameter(instruction):
        _add_parameter(computation, instruction)


def _add_parameter(computation: Computation, parameter: Instruction) -> None:
    insort(computation.parameters, parameter, key=lambda p: p.parameter_number)
    computation._program_shape = None


def _add_user(operand: Instruction, user: Instruction) -> None:
    if operand._users is None:
        operand._users = {}
    operand._users[user] = None


def set_root(computation: Computation, root: Instruction) -> None:
    """Makes an instruction the root of its computation."""
    if root not in computation:
        raise InvalidArgumentError(
            module_codes.SAME_COMPUTATION, f"{root.name} is not part of computation {computation.name}"
        )
    computation.root = root
    computation._program_shape = None


def set_shape(instruction: Instruction, shape: Shape) -> None:
    """Changes the declared shape of an instruction."""
    instruction.shape = shape
    if instruction.parent is not None:
        instruction.parent._program_shape = None


def set_computations(instruction: Instruction, computations: Sequence[Computation]) -> None:
    """Replaces the called computations of an instruction."""
    for called in set(instruction.computations):
        called._callers.pop(instruction, None)
    instruction.computations = tuple(computations)
    if instruction.parent is not None:
        instruction.parent._called = None
        for called in computations:
            called._callers[instruction] = None


def set_operands(instruction: Instruction, operands: Sequence[Instruction]) -> None:
    """Replaces all operands of an instruction."""
    before = instruction.operands
    instruction.operands = tuple(operands)
    if instruction.parent is None:
        return
    instruction.parent._post_order = None
    for old in set(before) - set(operands):
        if old._users:
            old._users.pop(instruction, None)
    for operand in operands:
        _add_user(operand, instruction)


def replace_operand(instruction: Instruction, index: int, operand: Instruction) -> None:
    """Replaces one operand of an instruction."""
    operands = list(instruction.operands)
    operands[index] = operand
    set_operands(instruction, operands)


def replace_uses(
    instruction: Instruction, replacement: Instruction, *, except_in: Collection[Instruction] = ()
) -> None:
    """Replaces an instruction in its users, and as the root. The shapes must be equal except for layouts."""
    if not instruction.shape.compatible(replacement.shape):
        raise InvalidArgumentError(
            edit_codes.REPLACEMENT_SHAPE,
            f"cannot replace {instruction.name} of shape {instruction.shape.to_text(layout=False)} "
            f"by {replacement.name} of shape {replacement.shape.to_text(layout=False)}",
        )
    for user in instruction.users:
        if user is not replacement and user not in except_in:
            _swap_operand(user, instruction, replacement)
    parent = instruction.parent
    if parent is not None and parent.root is instruction:
        set_root(parent, replacement)


MANY_OPERANDS = 64
"""Instructions with more operands are changed once for many replacements, if those go through `Replacements`."""


class Replacements:
    """Replacements of many instructions, one after another, as by `replace_uses`.

    A replacement takes time proportional to the number of operands of a user. Users with many operands, such as the
    tuple of all results, are therefore changed by `finish` only, and keep their old operands until then.
    """

    def __init__(self) -> None:
        self._delayed: dict[Instruction, dict[Instruction, Instruction]] = {}
        """For each user with many operands, the replacements of its operands."""

    def replace_uses(self, instruction: Instruction, replacement: Instruction) -> None:
        """Replaces an instruction in its users, and as the root. The shapes must be equal except for layouts."""
        wide = [user for user in instruction.users if len(user.operands) > MANY_OPERANDS and user is not replacement]
        if not wide:
            replace_uses(instruction, replacement)
            return
        for user in wide:
            self._delayed.setdefault(user, {})[instruction] = replacement
        replace_uses(instruction, replacement, except_in=wide)

    def finish(self, user: Instruction | None = None) -> None:
        """Carries out the replacements that were delayed, in one user or in all."""
        for each in list(self._delayed) if user is None else [user]:
            replaced = self._delayed.pop(each, {})
            if replaced and each.parent is not None:
                set_operands(each, [_last(operand, replaced) for operand in each.operands])


def _last(instruction: Instruction, replaced: Mapping[Instruction, Instruction]) -> Instruction:
    """Returns what takes the place of an instruction after all replacements."""
    while instruction in replaced:
        instruction = replaced[instruction]
    return instruction


def _swap_operand(user: Instruction, operand: Instruction, replacement: Instruction) -> None:
    """Replaces all uses of an operand in one user.

    A tuple may have thousands of operands that are replaced one after another, so a replacement must be cheap.
    """
    before = user.operands
    position = before.index(operand)
    after = (*before[:position], replacement, *before[position + 1 :])
    if operand in after:
        after = tuple([replacement if o is operand else o for o in after])
    user.operands = after
    _forget_order(user)
    if operand._users:
        operand._users.pop(user, None)
    _add_user(replacement, user)


def _forget_order(instruction: Instruction) -> None:
    if instruction.parent is not None:
        instruction.parent._post_order = None


def add_control_edge(before: Instruction, after: Instruction) -> None:
    """Adds a control edge: `after` runs after `before`, which is in the same computation."""
    if before.parent is not after.parent:
        raise InvalidArgumentError(
            module_codes.SAME_COMPUTATION, f"{before.name} and {after.name} are in different computations"
        )
    if after._control_predecessors is None:
        after._control_predecessors = {}
    if before._control_successors is None:
        before._control_successors = {}
    after._control_predecessors[before] = None
    before._control_successors[after] = None
    _forget_order(after)


def remove_control_edges(instruction: Instruction) -> None:
    """Removes all control edges to and from an instruction."""
    for before in instruction._control_predecessors or ():
        assert before._control_successors is not None
        del before._control_successors[instruction]
    for after in instruction._control_successors or ():
        assert after._control_predecessors is not None
        del after._control_predecessors[instruction]
    instruction._control_predecessors = instruction._control_successors = None
    _forget_order(instruction)


def remove(instruction: Instruction) -> None:
    """Removes an instruction from its computation.

    Raises `InvalidArgumentError` if it has users or control edges, or is a parameter or the root.
    """
    computation = instruction.parent
    if computation is None or instruction.has_users or computation.root is instruction:
        raise InvalidArgumentError(
            edit_codes.REMOVED_IN_USE,
            f"cannot remove {instruction.name}: it has users, is the root or is in no computation",
        )
    if is_parameter(instruction):
        raise InvalidArgumentError(
            edit_codes.REMOVED_IN_USE, f"cannot remove parameter {instruction.name}: it is part of the signature"
        )
    if instruction.has_control_edges:
        raise InvalidArgumentError(edit_codes.REMOVED_IN_USE, f"cannot remove {instruction.name}: it has control edges")
    set_operands(instruction, ())
    set_computations(instruction, ())
    del computation._instructions[instruction]
    computation._post_order = computation._called = None
    instruction.parent = None


def remove_parameter(parameter: Instruction, *, renumber: bool = True) -> None:
    """Removes an unused parameter and renumbers the parameters after it. Does not change the operands of callers.

    renumber: False if another parameter will get the number.
    """
    computation = parameter.parent
    if computation is None or not is_parameter(parameter) or parameter.has_users or parameter.is_root:
        raise InvalidArgumentError(
            edit_codes.REMOVED_IN_USE, f"cannot remove {parameter.name}: it is used, is the root or is not a parameter"
        )
    computation.parameters.remove(parameter)
    for behind in computation.parameters[parameter.parameter_number :] if renumber else ():
        behind.attributes = behind.attributes.replace(number=behind.parameter_number - 1)
    del computation._instructions[parameter]
    computation._post_order = None
    computation._program_shape = None
    parameter.parent = None


def remove_computation(computation: Computation) -> None:
    """Removes a computation from its module; raises `InvalidArgumentError` if it has callers or is the entry."""
    module = computation.module
    if module is None or computation._callers or module.entry is computation:
        raise InvalidArgumentError(
            edit_codes.REMOVED_IN_USE, f"cannot remove computation {computation.name}: it is called or is the entry"
        )
    for instruction in computation:
        set_computations(instruction, ())
    del module._computations[computation]
    computation.module = None


def reorder(computation: Computation, order: Iterable[Instruction]) -> None:
    """Reorders the instructions of a computation; `order` must contain each of them once."""
    ordered = dict.fromkeys(order)
    if ordered.keys() != computation._instructions.keys():
        raise InvalidArgumentError(
            edit_codes.COMPLETE_ORDER, f"the new order does not contain each instruction of {computation.name} once"
        )
    computation._instructions = ordered
    computation._post_order = computation._called = None


def reorder_computations(module: Module, order: Iterable[Computation]) -> None:
    """Reorders the computations of a module; `order` must contain each of them once."""
    ordered = dict.fromkeys(order)
    if ordered.keys() != module._computations.keys():
        raise InvalidArgumentError(
            edit_codes.COMPLETE_ORDER, f"the new order does not contain each computation of {module.name} once"
        )
    module._computations = ordered


def clone_instruction(
    instruction: Instruction,
    into: Computation,
    operands: Sequence[Instruction],
    computations: Sequence[Computation] | None = None,
) -> Instruction:
    """Appends a copy of an instruction with other operands (and called computations) to a computation.

    Copies annotations, but not control edges.
    """
    called = instruction.computations if computations is None else computations
    copy = Instruction(
        instruction.op,
        instruction.shape,
        operands,
        instruction.attributes,
        called,
        instruction.name,
        instruction.metadata,
    )
    copy_annotations(instruction, copy)
    append(into, copy)
    return copy


def copy_annotations(source: Instruction, target: Instruction) -> None:
    """Copies all annotations, such as sharding, frontend attributes and backend config, except for the metadata."""
    target.sharding = source.sharding
    target.frontend_attributes = source.frontend_attributes
    target.backend_config = source.backend_config
    target.original_value = source.original_value
    target.statistics = source.statistics
    target.result_accuracy = source.result_accuracy
    target.proto_fields = source.proto_fields


def clone_computation(
    computation: Computation, into: Module, computations: Mapping[Computation, Computation] | None = None
) -> Computation:
    """Appends a copy of a computation to a module. Calls of c become calls of `computations.get(c, c)`."""
    replaced = computations or {}
    copy = add_computation(into, computation.name)
    copy.execution_thread = computation.execution_thread
    made: dict[Instruction, Instruction] = {}
    for instruction in post_order(computation):
        called = [replaced.get(c, c) for c in instruction.computations]
        made[instruction] = clone_instruction(instruction, copy, [made[o] for o in instruction.operands], called)
    for original, clone in made.items():
        for before in original.control_predecessors:
            add_control_edge(made[before], clone)
    reorder(copy, [made[i] for i in computation])
    set_root(copy, made[computation.root_instruction])
    return copy


def clone_module(module: Module) -> Module:
    """Returns a copy of a module that shares no mutable object with the original."""
    copy = Module(module.name)
    copy.config = deepcopy(module.config)
    copy.stack_frames = deepcopy(module.stack_frames)
    made: dict[Computation, Computation] = {}
    for computation in computation_post_order(module):
        made[computation] = clone_computation(computation, copy, made)
    reorder_computations(copy, [made[c] for c in module.computations])
    copy.entry = made[module.entry_computation]
    return copy

"""Writes modules as HloModuleProto.

Responsible for `to_proto` and for numbering computations and instructions. Does not depend on ops and their attributes.

XLA lists operands before their users and encodes the order of a computation in the ids. An id is the number of the
computation, shifted left by 32 bits, plus the number of the instruction within it.
"""

from __future__ import annotations

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import ProtoError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module, StackFrames
from xlapy.hlo.traverse import callees_first, post_order
from xlapy.opcodes.control import FUSION, MAIN_THREAD, WHILE
from xlapy.proto.attributes import write_attributes
from xlapy.proto.meshes import read_sharding, write_sharding
from xlapy.proto.messages import Message, encode, message_class
from xlapy.proto.metadata import (
    as_bytes,
    read_original_value,
    write_accuracy,
    write_frontend,
    write_metadata,
    write_original_value,
    write_statistics,
)
from xlapy.proto.module_config import write_config
from xlapy.proto.values import write_program_shape, write_shape


def to_proto(module: Module) -> bytes:
    """Returns the serialized HloModuleProto of a module; equal modules give the same bytes.

    Raises `ProtoError` for a module without an entry computation, for strings that are not UTF-8 in text fields of XLA,
    and for numbers that do not fit in their fields.
    """
    return encode(module_message(module))


def module_message(module: Module) -> Message:
    """Returns the HloModuleProto of a module."""
    if module.entry is None or module.entry.root is None:
        raise ProtoError(module_codes.ENTRY_COMPUTATION, f"module {module.name} has no entry computation")
    target = message_class("HloModuleProto")()
    target.MergeFromString(module.config.proto_fields)
    try:
        return _Writer(module, target).write()
    except UnicodeEncodeError as error:
        raise ProtoError(
            text_codes.CHARACTERS, f"module {module.name}: {error.object!r} is not UTF-8, as text in a proto must be"
        ) from error
    except ValueError as error:  # a number of a module can have more bits than its field
        raise ProtoError(proto_codes.PROTO_FIELDS, f"module {module.name} has no proto: {error}") from error


class _Writer:
    """Writes one module."""

    def __init__(self, module: Module, target: Message) -> None:
        self.module = module
        self.target = target
        self.computations = {computation: number for number, computation in enumerate(module.computations)}
        self.ids: dict[Instruction, int] = {}

    def write(self) -> Message:
        module, target = self.module, self.target
        target.name = module.name
        entry = module.entry_computation
        target.entry_computation_name = entry.name
        target.entry_computation_id = self.computations[entry]
        for computation in callees_first(module):
            self._computation(target.computations.add(), computation)
        layout = module.config.entry_computation_layout or entry.program_shape
        names = tuple(parameter.name for parameter in entry.parameters)
        write_program_shape(target.host_program_shape, ProgramShape(layout.parameters, layout.result, names))
        write_config(target, module.config)
        if module.stack_frames is not None:
            _stack_frames(target.stack_frame_index, module.stack_frames)
        if module.config.is_scheduled:
            self._schedule()
        return target

    def _computation(self, target: Message, computation: Computation) -> None:
        number = self.computations[computation]
        for place, instruction in enumerate(computation):
            self.ids[instruction] = number << 32 | place
        target.name = computation.name
        target.id = number
        if computation.root is None:
            raise ProtoError(module_codes.ROOT, f"computation {computation.name} has no root")
        target.root_id = self.ids[computation.root]
        target.is_fusion_computation = _is_fused(computation)
        if computation.execution_thread != MAIN_THREAD:
            target.execution_thread = computation.execution_thread
        write_program_shape(target.program_shape, computation.program_shape)
        for instruction in post_order(computation):
            try:
                self._instruction(target.instructions.add(), instruction)
            except UnicodeEncodeError:
                raise
            except ValueError as error:
                what = f"instruction {describe_instruction(instruction)}"
                raise ProtoError(
                    proto_codes.PROTO_FIELDS, f"{what} in computation {computation.name!r} has no proto: {error}"
                ) from error

    def _instruction(self, target: Message, instruction: Instruction) -> None:
        if instruction.proto_fields:
            target.MergeFromString(instruction.proto_fields)
        target.name = instruction.name
        target.opcode = instruction.op.name
        target.id = self.ids[instruction]
        write_shape(target.shape, instruction.shape)
        target.operand_ids.extend([self.ids[operand] for operand in instruction.operands])
        if instruction.control_predecessors:
            target.control_predecessor_ids.extend([self.ids[before] for before in instruction.control_predecessors])
        if instruction.computations:
            called = instruction.computations[::-1] if instruction.op is WHILE else instruction.computations
            target.called_computation_ids.extend([self.computations[computation] for computation in called])
        write_attributes(target, instruction.attributes)
        _annotations(target, instruction)

    def _schedule(self) -> None:
        self.target.schedule.SetInParent()
        for computation, number in self.computations.items():
            if not _is_fused(computation):
                sequence = self.target.schedule.sequences[number]
                sequence.instruction_ids.extend([self.ids[instruction] for instruction in computation])


def _is_fused(computation: Computation) -> bool:
    return any(caller.op is FUSION for caller in computation.callers)


def _annotations(target: Message, instruction: Instruction) -> None:
    if instruction.metadata is not None:
        write_metadata(target.metadata, instruction.metadata)
    if instruction.backend_config:
        target.backend_config = as_bytes(instruction.backend_config)
    if instruction.frontend_attributes:
        write_frontend(target.frontend_attributes, instruction.frontend_attributes)
    if instruction.statistics:
        write_statistics(target.statistics_viz, instruction.statistics)
    if instruction.result_accuracy:
        write_accuracy(target.result_accuracy, instruction.result_accuracy)
    if instruction.original_value:
        write_original_value(target.original_value, instruction.original_value)
        if read_original_value(target.original_value) != instruction.original_value:
            target.text_attributes["origin"] = f"{{{instruction.original_value}}}"
    if instruction.sharding is not None:
        write_sharding(target.sharding, instruction.sharding)
        if read_sharding(target.sharding) != instruction.sharding:
            target.text_attributes["sharding"] = instruction.sharding.to_text()


def _stack_frames(target: Message, frames: StackFrames) -> None:
    target.file_names.extend(frames.file_names)
    target.function_names.extend(frames.function_names)
    for at in frames.file_locations:
        target.file_locations.add(
            file_name_id=at.file_name_id,
            function_name_id=at.function_name_id,
            line=at.line,
            end_line=at.end_line,
            column=at.column,
            end_column=at.end_column,
        )
    for frame in frames.frames:
        target.stack_frames.add(file_location_id=frame.file_location_id, parent_frame_id=frame.parent_frame_id)

"""Reads HloModuleProto into modules.

Responsible for `from_proto` and for checking that ids refer to existing objects. Does not depend on ops and their
attributes.

Message fields that the IR does not represent, including newer fields, are kept as bytes in `proto_fields`.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.base.error_codes.building import python_calls as call_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.error_codes.operations import operands as operand_codes
from xlapy.base.errors import InvalidArgumentError, ProtoError, XlaError, code_and_message
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.module import Module
from xlapy.hlo.names import sanitize
from xlapy.hlo.verify import verify as verify_module
from xlapy.opcodes.control import MAIN_THREAD, WHILE
from xlapy.opcodes.registry import OpDef, lookup
from xlapy.proto.attributes import fields_of, read_attributes
from xlapy.proto.meshes import read_sharding
from xlapy.proto.messages import Message, decode
from xlapy.proto.metadata import (
    METADATA_FIELDS,
    Payloads,
    as_text,
    read_accuracy,
    read_frontend,
    read_metadata,
    read_original_value,
    read_payload,
    read_statistics,
)
from xlapy.proto.module_config import attach_frames, read_config
from xlapy.proto.values import read_program_shape, read_shape
from xlapy.text.annotations import read_original_value as original_value_from_text
from xlapy.text.annotations import read_sharding as sharding_from_text

_OF_MODULE = frozenset(
    [
        "name",
        "entry_computation_name",
        "entry_computation_id",
        "computations",
        "host_program_shape",
        "schedule",
        "input_output_alias",
        "payloads",
        "buffer_donor",
        "stack_frame_index",
        "frontend_attributes",
        "text_attributes",
    ]
)
_OF_INSTRUCTION = frozenset(
    [
        "name",
        "opcode",
        "shape",
        "metadata",
        "id",
        "operand_ids",
        "control_predecessor_ids",
        "called_computation_ids",
        "sharding",
        "backend_config",
        "backend_config_payload",
        "frontend_attributes",
        "statistics_viz",
        "original_value",
        "result_accuracy",
        "text_attributes",
    ]
)


def from_proto(data: bytes, verify: bool = True) -> Module:
    """Reads a serialized HloModuleProto.

    Raises `ProtoError`, naming the instruction, for bytes that do not hold a module; with `verify`, raises
    `VerificationError` for a module that violates a rule.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidArgumentError(
            call_codes.ARGUMENT_TYPE, f"a serialized HloModuleProto is bytes, given {type(data).__name__}"
        )
    message = decode("HloModuleProto", bytes(data))
    return module_of(message, verify)


def module_of(message: Message, verify: bool = True) -> Module:
    """Reads an HloModuleProto; clears fields of the message as it reads them."""
    module = _Reader(message).read()
    if verify:
        verify_module(module)
    return module


class _Reader:
    """Reads one module."""

    def __init__(self, source: Message) -> None:
        self.source = source
        self.payloads: Payloads = source.payloads
        self.module = Module(source.name)
        self.computations: dict[int, Computation] = {}
        self.instructions: dict[Computation, dict[int, Instruction]] = {}

    def read(self) -> Module:
        source, module = self.source, self.module
        for message in source.computations:
            self._computation(message)
        entry = self.computations.get(source.entry_computation_id)
        if entry is None:
            raise ProtoError(
                proto_codes.PROTO_REFERENCE,
                f"module {source.name!r}: the entry is computation {source.entry_computation_id}, which is not there",
            )
        self._order()
        for _, computation in sorted(self.computations.items()):
            computation.name = sanitize(computation.name)
            edit.add_built_computation(module, computation, entry=computation is entry)
        self._configure(entry)
        attach_frames(source, module)
        _clear(source, _OF_MODULE)
        module.config.proto_fields = source.SerializeToString(deterministic=True)
        return module

    def _configure(self, entry: Computation) -> None:
        source = self.source
        try:
            config = read_config(source)
            config.entry_computation_layout = (
                read_program_shape(source.host_program_shape)
                if source.HasField("host_program_shape")
                else ProgramShape([p.shape for p in entry.parameters], entry.root_instruction.shape)
            )
        except XlaError as error:
            raise ProtoError(error.code, f"module {source.name!r}: {error.message}") from error
        config.is_scheduled = source.HasField("schedule")
        self.module.config = config

    def _order(self) -> None:
        """Returns the instructions in the order of their ids, or of the schedule if there is one."""
        sequences = dict(self.source.schedule.sequences)
        unknown = next((number for number in sequences if number not in self.computations), None)
        if unknown is not None:
            raise ProtoError(
                proto_codes.PROTO_REFERENCE,
                f"module {self.source.name!r}: the schedule orders computation {unknown}, which is not there",
            )
        for number, computation in self.computations.items():
            found = self.instructions[computation]
            ids: Iterable[int] = sequences[number].instruction_ids if number in sequences else sorted(found)
            order = [found[id_] for id_ in ids if id_ in found]
            if len(order) != len(found) or len(set(order)) != len(found):
                raise ProtoError(
                    proto_codes.PROTO_SCHEDULE,
                    f"computation {computation.name!r}: its schedule does not hold each instruction once",
                )
            edit.reorder(computation, order)

    def _computation(self, source: Message) -> None:
        if source.id in self.computations:
            other = self.computations[source.id].name
            raise ProtoError(
                proto_codes.PROTO_UNIQUE_ID, f"computations {other!r} and {source.name!r} have the same id {source.id}"
            )
        computation = Computation(source.name)
        computation.execution_thread = source.execution_thread or MAIN_THREAD
        found: dict[int, Instruction] = {}
        for message in source.instructions:
            if message.id in found:
                raise ProtoError(
                    proto_codes.PROTO_UNIQUE_ID,
                    f"{_named(message)} has the id {message.id}, and so has {found[message.id].name!r}",
                )
            try:
                instruction = self._instruction(message, found)
                edit.append_with_name(computation, instruction)
                for before in message.control_predecessor_ids:
                    edit.add_control_edge(self._instruction_of(before, found, "control predecessor"), instruction)
            except (XlaError, ValueError, OverflowError) as error:
                code, text = code_and_message(error, proto_codes.PROTO_VALUE)
                raise ProtoError(code, f"{_named(message)} in computation {source.name!r}: {text}") from error
            found[message.id] = instruction
        if source.root_id not in found:
            raise ProtoError(
                proto_codes.PROTO_REFERENCE,
                f"computation {source.name!r}: its root is instruction {source.root_id}, which is not there",
            )
        edit.set_root(computation, found[source.root_id])
        self.computations[source.id] = computation
        self.instructions[computation] = found

    @staticmethod
    def _instruction_of(number: int, found: dict[int, Instruction], what: str) -> Instruction:
        if number not in found:
            raise ProtoError(proto_codes.PROTO_REFERENCE, f"{what} {number} is not an instruction listed before it")
        return found[number]

    def _instruction(self, source: Message, found: dict[int, Instruction]) -> Instruction:
        op = lookup(source.opcode)
        operands = tuple([self._instruction_of(number, found, "operand") for number in source.operand_ids])
        op.check_arity(len(operands))
        shape = read_shape(source.shape)
        called = [self._called(number) for number in source.called_computation_ids]
        if op is WHILE:
            called.reverse()
        _check_called_computations(op, operands, called)
        attributes = read_attributes(source, op)
        if op.canonicalize_attributes is not None:
            attributes = op.canonicalize_attributes(attributes, [operand.shape for operand in operands], shape)
        instruction = Instruction(op, shape, operands, attributes, called, source.name)
        self._annotate(instruction, source)
        _keep(instruction, source)
        return instruction

    def _called(self, number: int) -> Computation:
        if number not in self.computations:
            raise ProtoError(
                proto_codes.PROTO_REFERENCE, f"it calls computation {number}, which is not listed before it"
            )
        return self.computations[number]

    def _annotate(self, instruction: Instruction, source: Message) -> None:
        texts = source.text_attributes
        metadata = read_metadata(source.metadata, self.payloads)
        if metadata != _NO_METADATA:
            instruction.metadata = metadata
        instruction.backend_config = as_text(source.backend_config)
        if source.HasField("backend_config_payload") and not source.backend_config:
            instruction.backend_config = read_payload(source.backend_config_payload, self.payloads)
        instruction.frontend_attributes = read_frontend(source.frontend_attributes) or None
        instruction.statistics = read_statistics(source.statistics_viz)
        instruction.result_accuracy = read_accuracy(source.result_accuracy)
        if "origin" in texts:
            instruction.original_value = original_value_from_text(HloCursor(texts["origin"]))
        elif source.HasField("original_value"):
            instruction.original_value = read_original_value(source.original_value)
        if "sharding" in texts:
            instruction.sharding = sharding_from_text(HloCursor(texts["sharding"]))
        elif source.HasField("sharding"):
            instruction.sharding = read_sharding(source.sharding, self.payloads).for_shape(instruction.shape)


_NO_METADATA = OpMetadata()


def _named(source: Message) -> str:
    return f"instruction {source.name!r} ({source.opcode or 'without opcode'})"


def _check_called_computations(op: OpDef, operands: Iterable[Instruction], called: list[Computation]) -> None:
    """Rejects called computations for which the op has no slot, and required slots without a computation."""
    slots = op.computation_slots_for([operand.shape for operand in operands])
    least = sum(not slot.optional for slot in slots)
    most = len(called) if any(slot.variadic for slot in slots) else len(slots)
    if not least <= len(called) <= most:
        raise ProtoError(
            operand_codes.CALLED_COMPUTATIONS,
            f"it calls {len(called)} computations, it needs {least if len(called) < least else most}",
        )


def _clear(message: Message, names: frozenset[str]) -> None:
    for descriptor, _ in message.ListFields():
        if descriptor.name in names:
            message.ClearField(descriptor.name)


def _keep(instruction: Instruction, source: Message) -> None:
    """Keeps the remaining fields of a message: those without an attribute, and those newer than this reader."""
    rest = type(source)()
    rest.CopyFrom(source)
    metadata = rest.metadata
    for name in (*METADATA_FIELDS, "profile_type", "metadata_payload"):
        metadata.ClearField(name)
    kept = metadata.SerializeToString()
    _clear(rest, _OF_INSTRUCTION)
    _clear(rest, fields_of(instruction.op.attributes))
    if kept:
        rest.metadata.MergeFromString(kept)
    instruction.proto_fields = rest.SerializeToString(deterministic=True)

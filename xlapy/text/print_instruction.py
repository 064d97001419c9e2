"""Prints one instruction as XLA does: `%add.1 = f32[2]{0} add(%a, %b), metadata={...}`.

Responsible for names, shapes, operands, attributes, annotations and their order. Does not depend on any particular op,
apart from the few that XLA's printer treats specially.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.literal import Literal
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata, is_printed, metadata_text
from xlapy.opcodes.attributes.codecs import LITERAL, Field, NoAttributes
from xlapy.opcodes.collectives import REDUCE_SCATTER
from xlapy.opcodes.control import ASYNC_START, CALL, CONDITIONAL, WHILE
from xlapy.opcodes.reduction import SCAN
from xlapy.opcodes.registry import AsyncRole, CalledComputationSlot, OpDef
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT
from xlapy.text.annotations import config_text, frontend_attributes_text
from xlapy.text.async_forms import ASYNC_OPS, has_short_form, wrapped_computation
from xlapy.text.options import PrintOptions, SubcomputationMode

BodyText = Callable[[Computation, int], str]
"""Returns the text of a called computation that is printed in full, at a depth of indentation."""

_SEQUENTIAL_OPS = frozenset([CALL, CONDITIONAL, WHILE])
_OPS_PRINTING_CALLS = frozenset([REDUCE_SCATTER, SCAN])
"""Ops whose `to_apply` XLA prints as `calls` when it prints bodies in full."""
_FEED_CONFIGS = frozenset(["infeed_config", "outfeed_config"])
_MAX_COMPACT_OPERANDS = 4
"""Operands printed with `compact_operands`; the rest is counted. XLA's figure, as are the next two."""
_MAX_CONSTANT_ELEMENTS = 10
"""Constants of more elements print as `{...}` unless `print_large_constants` is set."""
_MAX_ESSENTIAL_ELEMENTS = 500_000
"""Integer constants of more elements print as `{...}` even with `print_only_essential_constants`."""


def printed_name(name: str, options: PrintOptions) -> str:
    """The name as it is printed: without its numeric suffix if the options leave out ids."""
    return name if options.print_ids else name.partition(".")[0]


class InstructionPrinter:
    """Prints the instructions of one computation. Canonical names are numbered within it.

    is_nested: the computation is printed at its caller. prints_plain_names: names are printed as they are, with ids.
    wrapped_computations: async instruction -> the computation that its chain wraps.
    """

    def __init__(self, options: PrintOptions, is_nested: bool, indent: int, body_text: BodyText) -> None:
        self.options = options
        self.is_nested = is_nested
        self.indent = indent
        self.body_text = body_text
        self.print_layouts = options.include_layout_in_shapes
        self.percent = "%" if options.print_percent else ""
        self.prints_plain_names = options.print_ids and not options.canonicalize_instruction_names
        self.canonical_names: dict[Instruction, str] = {}
        self.wrapped_computations: dict[Instruction, Computation | None] = {}

    def text(self, instruction: Instruction) -> str:
        """The text of the instruction, without ROOT and without a line break."""
        options = self.options
        op = instruction.op
        opcode = op.name
        if op.async_role is not AsyncRole.NONE and options.syntax_sugar_async_ops:
            opcode = self._async_opcode(instruction)
        if self.prints_plain_names:
            name = f"{self.percent}{instruction.name} = "
        elif not options.canonicalize_instruction_names:
            name = f"{self._name(instruction.name)} = "
        else:
            name = f"{self._canonical_name(instruction)} = " if self.is_nested else ""
        shape = f"{instruction.shape.to_text(self.print_layouts)} " if options.print_result_shape else ""
        inside = self._operands(instruction) if op.parenthesized_attribute is None else self._parenthesized(instruction)
        return f"{name}{shape}{opcode}({inside}){self._attributes(instruction)}{self._annotations(instruction)}"

    def _async_opcode(self, instruction: Instruction) -> str:
        """The opcode of an async instruction, in the short form if it has one."""
        computation = self._wrapped(instruction)
        if computation is None or instruction.op not in ASYNC_OPS or not has_short_form(computation):
            return instruction.op.name
        return f"{computation.root_instruction.op.name}{instruction.op.name.removeprefix('async')}"

    def _wrapped(self, instruction: Instruction) -> Computation | None:
        """`wrapped_computation`, remembered, so that a long chain of async-updates is not walked for each of them."""
        operand = instruction.operands[0] if instruction.operands else instruction
        is_known = instruction.op is not ASYNC_START and operand in self.wrapped_computations
        found = self.wrapped_computations[operand] if is_known else wrapped_computation(instruction)
        self.wrapped_computations[instruction] = found
        return found

    # -- names and operands

    def _name(self, name: str) -> str:
        return f"{self.percent}{printed_name(name, self.options)}"

    def _canonical_name(self, instruction: Instruction) -> str:
        found = self.canonical_names.get(instruction)
        if found is None:
            found = self.canonical_names[instruction] = f"tmp_{len(self.canonical_names)}"
        return found

    def _operands(self, instruction: Instruction) -> str:
        operands = instruction.operands
        options = self.options
        if (
            self.prints_plain_names
            and options.print_operand_names
            and not (options.print_operand_shape or options.compact_gte)
        ):
            texts = [self.percent + operand.name for operand in operands]
        else:
            texts = [self._operand(operand) for operand in operands]
        interval = options.print_operand_index_annotation_interval
        if interval and len(texts) > interval:
            texts[interval::interval] = [f"/*index={i}*/{texts[i]}" for i in range(interval, len(texts), interval)]
        if options.compact_operands and len(texts) > _MAX_COMPACT_OPERANDS:
            texts[_MAX_COMPACT_OPERANDS:] = [f"...(+{len(texts) - _MAX_COMPACT_OPERANDS})"]
        return ", ".join(texts)

    def _operand(self, operand: Instruction) -> str:
        options = self.options
        shape = operand.shape.to_text(self.print_layouts) if options.print_operand_shape else ""
        shown = self.is_nested if options.canonicalize_instruction_names else options.print_operand_names
        if not shown:
            return shape
        suffix = ""
        if options.compact_gte:
            while operand.op is GET_TUPLE_ELEMENT:
                suffix = f"#{operand.tuple_index}{suffix}"
                operand = operand.operands[0]
        name = self._canonical_name(operand) if options.canonicalize_instruction_names else self._name(operand.name)
        return f"{shape}{' ' if shape else ''}{name}{suffix}"

    def _parenthesized(self, instruction: Instruction) -> str:
        """The attribute in place of operands: the number of a parameter, the literal of a constant."""
        op = instruction.op
        field = next(f for f in op.attributes.fields if f.name == op.parenthesized_attribute)
        value = getattr(instruction.attributes, field.name)
        if field.codec is LITERAL:
            return self._literal(value)
        return field.codec.write(value) if self.options.print_parameter_number else ""

    def _literal(self, literal: Literal) -> str:
        if self.options.print_only_essential_constants:
            return _essential_text(literal)
        shape = literal.shape
        if self.options.print_large_constants or (shape.is_array and shape.size <= _MAX_CONSTANT_ELEMENTS):
            return literal.to_text()
        return "{...}"

    # -- attributes

    def _attributes(self, instruction: Instruction, wrapper: Instruction | None = None) -> str:
        """`, key=value` for the op's attributes, its called computations and the annotations among the attributes.

        wrapper: the async-start that prints the instruction in its short form; annotations that it prints itself are
        left out here.
        """
        options = self.options
        op = instruction.op
        parts: list[str] = []
        after_computations: list[str] = []
        if op.attributes is not NoAttributes:
            self._print_fields(instruction, parts, after_computations)
        if instruction.computations:
            self._print_called_computations(instruction, parts)
        parts += after_computations
        if instruction.sharding is not None:
            parts.append(f", sharding={instruction.sharding.to_text(options.print_metadata)}")
        frontend = instruction.frontend_attributes if wrapper is None or not wrapper.frontend_attributes else None
        if options.print_frontend_attributes and frontend:
            parts.append(f", frontend_attributes={frontend_attributes_text(frontend)}")
        if options.print_control_dependencies and instruction.control_predecessors:
            names = ", ".join(self._name(predecessor.name) for predecessor in instruction.control_predecessors)
            parts.append(f", control-predecessors={{{names}}}")
        if instruction.statistics and (wrapper is None or not wrapper.statistics):
            parts.append(f", statistics={{{instruction.statistics}}}")
        if instruction.result_accuracy:
            parts.append(f", result_accuracy={{{instruction.result_accuracy}}}")
        return "".join(parts)

    def _print_fields(self, instruction: Instruction, parts: list[str], after_computations: list[str]) -> None:
        op = instruction.op
        attributes = instruction.attributes
        for field in op.attributes.fields:
            if field.name == op.parenthesized_attribute or self._is_suppressed(field):
                continue
            value = getattr(attributes, field.name)
            if field.is_printed(value):
                target = after_computations if field.after_computations else parts
                target.append(f", {field.key}={field.codec.write(value)}")
            if field.key == "async_execution_thread":
                self._print_wrapped_attributes(instruction, parts)

    def _is_suppressed(self, field: Field) -> bool:
        """Whether the options leave out a field, whatever its value."""
        options = self.options
        return (
            not (options.print_extra_attributes or field.after_computations)
            or (field.key == "channel_id" and not options.print_channel_id)
            or (field.key in _FEED_CONFIGS and not options.print_infeed_outfeed_config)
            or (field.key == "parameter_replication" and not options.print_ids)
        )

    def _print_wrapped_attributes(self, start: Instruction, parts: list[str]) -> None:
        """Prints the attributes of the wrapped instruction at an async-start in the short form."""
        computation = wrapped_computation(start)
        if self.options.syntax_sugar_async_ops and computation is not None and has_short_form(computation):
            parts.append(self._attributes(computation.root_instruction, wrapper=start))

    def _print_called_computations(self, instruction: Instruction, parts: list[str]) -> None:
        mode = self.options.print_subcomputation_mode
        op = instruction.op
        if mode is SubcomputationMode.NAME_ONLY:
            computation = instruction.computations[0]
            if op is ASYNC_START and self.options.syntax_sugar_async_ops and has_short_form(computation):
                return
            self._print_called_names(instruction, parts)
        elif mode is SubcomputationMode.FULL_BODIES or (
            mode is SubcomputationMode.NON_SEQUENTIAL_BODIES and op not in _SEQUENTIAL_OPS
        ):
            self._print_called_bodies(instruction, parts)

    def _print_called_names(self, instruction: Instruction, parts: list[str]) -> None:
        for slot, computations in _computations_by_slot(instruction):
            names = ", ".join(self._name(computation.name) for computation in computations)
            parts.append(f", {slot.key}={f'{{{names}}}' if slot.variadic else names}")

    def _print_called_bodies(self, instruction: Instruction, parts: list[str]) -> None:
        for slot, computations in _computations_by_slot(instruction):
            key = "calls" if instruction.op in _OPS_PRINTING_CALLS else slot.key
            texts = ",\n".join(self.body_text(computation, self.indent) for computation in computations)
            parts.append(f", {key}={'{' if slot.variadic else ''}\n{texts}{f'{chr(10)}}}' if slot.variadic else ''}")

    # -- annotations after the attributes

    def _annotations(self, instruction: Instruction) -> str:
        options = self.options
        text = ""
        if instruction.original_value and options.print_original_value:
            text = f", origin={{{instruction.original_value}}}"
        if instruction.metadata is not None and options.print_metadata and is_printed(instruction.metadata):
            text += f", metadata={{{self._metadata(instruction, instruction.metadata)}}}"
        if instruction.backend_config and options.print_backend_config:
            config = instruction.backend_config
            text += (
                f", backend_config={config_text(_with_sorted_keys(config) if options.sort_backend_config else config)}"
            )
        return text

    def _metadata(self, instruction: Instruction, metadata: OpMetadata) -> str:
        if self.options.print_inline_stack_frames and metadata.stack_frame_id:
            metadata = _with_location(instruction, metadata)
        return metadata_text(metadata, only_op_name=self.options.print_metadata_only_op_name)


def _computations_by_slot(instruction: Instruction) -> list[tuple[CalledComputationSlot, Sequence[Computation]]]:
    """Each called-computation slot that is filled, with its computations."""
    op: OpDef = instruction.op
    called = instruction.computations
    found: list[tuple[CalledComputationSlot, Sequence[Computation]]] = []
    start = 0
    for slot in op.computation_slots_for(instruction.operand_shapes):
        count = len(called) - start if slot.variadic else 1
        if called[start : start + count]:
            found.append((slot, called[start : start + count]))
        start += count
    return found


def _essential_text(literal: Literal) -> str:
    """`0` or `1` if every element has that value; the text of integers; `{...}` otherwise."""
    leaves = [literal] if literal.shape.is_array else list(literal.elements)
    if all(leaf.shape.is_array for leaf in leaves) and not any(leaf.is_elided for leaf in leaves):
        for number in (0, 1):
            if all(bool(np.all(leaf.array == number)) for leaf in leaves):
                return str(number)
        small = not literal.shape.is_array or literal.shape.size <= _MAX_ESSENTIAL_ELEMENTS
        if small and all(leaf.shape.element_type.is_integral for leaf in leaves):
            return literal.to_text()
    return "{...}"


def _with_sorted_keys(config: str) -> str:
    """A JSON configuration with sorted keys; any other text unchanged."""
    try:
        value: Any = json.loads(config)
    except (ValueError, RecursionError):
        return config
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _with_location(instruction: Instruction, metadata: OpMetadata) -> OpMetadata:
    """Metadata with the source location of its stack frame in place of the number of the frame."""
    module = instruction.parent.module if instruction.parent is not None else None
    if module is None or module.stack_frames is None or metadata.stack_frame_id > len(module.stack_frames.frames):
        return dataclasses.replace(metadata, stack_frame_id=0)
    tables = module.stack_frames
    at = tables.file_locations[tables.frames[metadata.stack_frame_id - 1].file_location_id - 1]
    return dataclasses.replace(
        metadata,
        stack_frame_id=0,
        source_file=tables.file_names[at.file_name_id - 1],
        source_line=at.line,
        source_column=at.column,
    )

"""Prints modules and computations as XLA does.

Responsible for the order of computations and instructions, for signatures and bodies. Does not depend on the text of
instructions (`print_instruction`) or on particular ops.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, post_order, print_order
from xlapy.opcodes.control import ASYNC_START, FUSION, MAIN_THREAD
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT
from xlapy.text.async_forms import has_short_form
from xlapy.text.options import PrintOptions, SubcomputationMode
from xlapy.text.print_header import header_text, stack_frames_text
from xlapy.text.print_instruction import BodyText, InstructionPrinter, printed_name

LONG = PrintOptions.long()
_MAX_UNNAMED_INSTRUCTIONS = 5
"""`print_name_after_closing_brace` names computations of more instructions. XLA's figure."""
_MAX_CALL_DEPTH = 256
"""Limit on the depth of calls whose bodies print in full, so that hostile modules do not exhaust the memory."""


def module_to_text(module: Module, **options: Any) -> str:
    """The text of a module; `options` are fields of `PrintOptions`. Implements `Module.to_text`."""
    return print_module(module, PrintOptions(**options))


def print_module(module: Module, options: PrintOptions = LONG) -> str:
    """The text of a module, which must have an entry computation."""
    bodies = _ComputationTexts(options)
    parts = [header_text(module, options)]
    if options.print_metadata and module.stack_frames is not None:
        parts.append(stack_frames_text(module.stack_frames))
    parts.append("\n\n")
    for computation in print_order(module):
        if options.syntax_sugar_async_ops and _is_wrapped_in_short_form(computation):
            continue
        order = computation if module.config.is_scheduled and not _is_fused(computation) else post_order(computation)
        parts.append(bodies.text(computation, order, options.is_in_nested_computation))
        parts.append("\n\n")
    return "".join(parts)


def print_computation(computation: Computation, options: PrintOptions = LONG) -> str:
    """The text of one computation, its instructions in post-order."""
    return _ComputationTexts(options).text(computation, post_order(computation), options.is_in_nested_computation)


def print_instruction(instruction: Instruction, options: PrintOptions = LONG) -> str:
    """The text of one instruction, as XLA prints it outside its computation."""
    bodies = _ComputationTexts(options)
    callees = [*instruction.computations, *(c for called in instruction.computations for c in _shown_callees(called))]
    bodies.prepare(callees, options.indent_amount)
    writer = InstructionPrinter(options, options.is_in_nested_computation, options.indent_amount, bodies.at_caller)
    return writer.text(instruction)


def _is_wrapped_in_short_form(computation: Computation) -> bool:
    """Whether an async-start that prints in the short form calls the computation, which is then not printed."""
    return any(c.op is ASYNC_START for c in computation.callers) and has_short_form(computation)


def _shown_callees(computation: Computation) -> list[Computation]:
    """The called computations, and those that a short async form prints because its wrapped instruction calls them."""
    callees = called_computations(computation)
    wrapped = [callee.root for callee in callees if callee.root is not None and _is_wrapped_in_short_form(callee)]
    return [*callees, *(inner for root in wrapped for inner in root.computations)]


def _is_fused(computation: Computation) -> bool:
    return any(caller.op is FUSION for caller in computation.callers)


class _ComputationTexts:
    """The texts of computations. Bodies that print at their callers are made once per depth, callees first."""

    def __init__(self, options: PrintOptions) -> None:
        self.options = options
        self.in_full = options.print_subcomputation_mode in (
            SubcomputationMode.FULL_BODIES,
            SubcomputationMode.NON_SEQUENTIAL_BODIES,
        )
        self.texts: dict[tuple[Computation, int], str] = {}

    def text(self, computation: Computation, order: Iterable[Instruction], is_nested: bool) -> str:
        """The text of a computation outside its callers."""
        indent = self.options.indent_amount
        self.prepare(_shown_callees(computation), indent + 1)
        return _body_text(computation, self.options, order, is_nested, indent, self.at_caller)

    def at_caller(self, computation: Computation, indent: int) -> str:
        """The text of a called computation at a depth that `prepare` was called for."""
        return self.texts[computation, indent]

    def prepare(self, computations: Iterable[Computation], indent: int) -> None:
        """Makes the texts of computations at a depth, and of all computations that they call, without recursion."""
        stack = [(computation, indent) for computation in computations] if self.in_full else []
        entered: set[tuple[Computation, int]] = set()
        while stack:
            key = stack[-1]
            computation, depth = key
            if key in self.texts:
                stack.pop()
            elif key in entered:
                stack.pop()
                self.texts[key] = _body_text(
                    computation, self.options, post_order(computation), True, depth, self.at_caller
                )
            elif depth - indent > _MAX_CALL_DEPTH:
                raise InvalidArgumentError(
                    codes.NESTING, f"calls nest deeper than {_MAX_CALL_DEPTH}, so {computation.name} has no full text"
                )
            else:
                entered.add(key)
                stack.extend((callee, depth + 1) for callee in _shown_callees(computation))


def _body_text(
    computation: Computation,
    options: PrintOptions,
    order: Iterable[Instruction],
    is_nested: bool,
    indent: int,
    at_caller: BodyText,
) -> str:
    """The text of a computation: signature, instructions, closing brace, execution thread."""
    tab = "  " * indent
    lines = [f"{tab}{_opening_line(computation, options, is_nested)}"]
    writer = InstructionPrinter(options, True, indent + 1, at_caller)
    for instruction in order:
        is_root = instruction is computation.root
        if options.compact_gte and not is_root and instruction.op is GET_TUPLE_ELEMENT:
            continue
        lines.append(f"{tab}  {'ROOT ' if is_root else ''}{writer.text(instruction)}")
    thread = computation.execution_thread
    suffix = f', execution_thread="{thread}"' if options.print_ids and thread != MAIN_THREAD else ""
    named = options.print_name_after_closing_brace and len(computation) > _MAX_UNNAMED_INSTRUCTIONS
    lines.append(f"{tab}}}{suffix}{f' // {computation.name}' if named else ''}")
    return "\n".join(lines)


def _opening_line(computation: Computation, options: PrintOptions, is_nested: bool) -> str:
    parts: list[str] = []
    if computation.is_entry:
        parts.append("ENTRY ")
    if not is_nested:
        parts.append("%" if options.print_percent else "")
        parts.append(f"{computation.name} " if options.print_ids else "")
    if options.print_program_shape:
        parts.append(f"{_signature_text(computation, options)} ")
    return f"{''.join(parts)}{{"


def _signature_text(computation: Computation, options: PrintOptions) -> str:
    parameters = [(printed_name(p.name, options), p.shape) for p in computation.parameters]
    result = computation.root.shape if computation.root is not None else Shape.tuple()
    return ProgramShape([s for _, s in parameters], result, [n for n, _ in parameters]).to_text()

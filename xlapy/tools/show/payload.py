"""Converts a module to the JSON data of the interactive page: lists of plain values that refer to each other by index.

`module_payload` returns the data that every view needs:

    {"name", "summary", "times": summary of the measurement, as lines,
     "computations": [[name, kind, signature, first instruction, count, root]],
     "instructions": [[name, op, shape, line, operands, called computations, control predecessors,
                       bytes, source line, framework's name, decisions, thunks, kernels, times]]}

`times` of an instruction is null, or [seconds, share of a run, its figures as text].

`native_payload` returns the compiler's output, which the page reads only on request:

    {"kernels": [[title, loops, function]],
     "functions": {name: [LLVM IR, optimized LLVM IR, assembly]}}

Responsible for the contents and the format of the data. Does not depend on HTML.
"""

from __future__ import annotations

from typing import Any

from xlapy.analysis.cost import array_bytes
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order, print_order
from xlapy.text.describe import framework_name_of, kind_of, line_of
from xlapy.tools.native_forms import NativeForms
from xlapy.tools.profile.report import Profile, figures_text
from xlapy.tools.profile.rows import Row, rows_by_instruction

MAX_LISTING_LINES = 1500
"""Maximum number of lines of one listing on the page; `--dump_to` writes listings in full."""


def module_payload(module: Module, native: NativeForms | None, profile: Profile | None = None) -> dict[str, Any]:
    """Returns the data of a module, with one list per instruction. The entry computation comes first."""
    times = rows_by_instruction(profile.rows) if profile is not None else {}
    computations = print_order(module)[::-1]
    numbers = {computation: number for number, computation in enumerate(computations)}
    orders = [post_order(computation) for computation in computations]
    instructions = [instruction for order in orders for instruction in order]
    positions = {instruction: number for number, instruction in enumerate(instructions)}
    kernels = _kernel_numbers(native)
    rows = []
    for computation, order in zip(computations, orders, strict=True):
        signature = computation.program_shape.to_text()
        root = positions[computation.root_instruction]
        rows.append([computation.name, kind_of(computation), signature, positions[order[0]], len(order), root])
    return {
        "name": module.name,
        "summary": f"{len(computations)} computations, {len(instructions)} instructions",
        "times": profile.summary if profile is not None else [],
        "computations": rows,
        "instructions": [
            [
                *_described(instruction),
                [positions[operand] for operand in instruction.operands],
                [numbers[called] for called in instruction.computations],
                [positions[before] for before in instruction.control_predecessors],
                *_origins(instruction),
                [one.text for one in native.decisions_on(instruction)] if native else [],
                native.thunks.get(instruction.name, []) if native else [],
                kernels.get(instruction.name, []),
                _times(times.get(instruction.name), profile),
            ]
            for instruction in instructions
        ],
    }


def _described(instruction: Instruction) -> list[Any]:
    return [instruction.name, instruction.op.name, instruction.shape.to_text(), line_of(instruction)]


def _origins(instruction: Instruction) -> list[Any]:
    return [array_bytes(instruction.shape), source_of(instruction), framework_name_of(instruction)]


def _times(row: Row | None, profile: Profile | None) -> list[Any] | None:
    if row is None or profile is None or not row.seconds:
        return None
    return [row.seconds, row.seconds / profile.wall, figures_text(row)]


def _kernel_numbers(native: NativeForms | None) -> dict[str, list[int]]:
    """Returns the indices in the list of kernels, by the name of the instruction."""
    found: dict[str, list[int]] = {}
    if native is not None:
        for origin, forms in native.kernels.items():
            first = sum(map(len, found.values()))
            found[origin] = list(range(first, first + len(forms)))
    return found


def native_payload(native: NativeForms | None) -> dict[str, Any]:
    """Returns the loop IR of all kernels and the code of their functions."""
    if native is None:
        return {"kernels": [], "functions": {}}
    return {
        "kernels": [
            [kernel.title, clip_lines(kernel.loops), kernel.function]
            for forms in native.kernels.values()
            for kernel in forms
        ],
        "functions": {
            name: [clip_lines(form.llvm), clip_lines(form.optimized), clip_lines(form.assembly)]
            for name, form in native.functions.items()
        },
    }


def clip_lines(text: str) -> str:
    """Returns the first `MAX_LISTING_LINES` lines of a text and, if there are more, a line with their number."""
    lines = text.splitlines()
    if len(lines) <= MAX_LISTING_LINES:
        return text
    return "\n".join(
        [*lines[:MAX_LISTING_LINES], f"... {len(lines) - MAX_LISTING_LINES} more lines; --dump_to writes them all"]
    )

"""HTML of a compiled program for notebooks: its platform, its memory, and what it runs.

Responsible for what Jupyter shows for an `Executable`. Does not depend on a back end: it reads the
optimized module and the memory statistics that every program has.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.codegen.plan import demanded_plan
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.runtime.backend import Program
from xlapy.runtime.engine.memory import MemoryStats, value_bytes
from xlapy.text.describe import byte_text, contents_of
from xlapy.text.html import STYLE, escape, shorten

MAX_ROWS = 60
"""Rows of the table; the number of the other instructions is shown below it."""

MAX_CELL_LENGTH = 80
"""Characters of a cell that are shown."""

_WITHOUT_WORK = frozenset({opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT})
"""Instructions of the entry that are no step of a run."""


def program_to_html(program: Program, name: str, shape: ProgramShape, platform: str, device_count: int) -> str:
    """Returns the program as HTML: platform and signature, memory, and the instructions of its optimized entry."""
    devices = f", {device_count} devices" if device_count > 1 else ""
    signature = escape(shorten(shape.to_text()))
    head = f"<div><b>{escape(name)}</b> on {escape(platform)}{devices} <span class='s'>{signature}</span></div>"
    memory = f"<div class='q'>{_memory_text(program.memory_stats())}</div>"
    return f"<div class='xlapy'>{STYLE}{head}{memory}{_table(program.optimized_module)}</div>"


def _memory_text(stats: MemoryStats) -> str:
    parts = {
        "arguments": stats.argument_size_in_bytes,
        "results": stats.output_size_in_bytes,
        "of them in arguments": stats.alias_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
    }
    return ", ".join(
        f"{name} {byte_text(size)}" for name, size in parts.items() if size or name in ("arguments", "results")
    )


def _table(module: Module) -> str:
    steps = [instruction for instruction in module.entry_computation if instruction.op not in _WITHOUT_WORK]
    rows = "".join(map(_row, steps[:MAX_ROWS]))
    more = f"<div class='q'>... {len(steps) - MAX_ROWS} more</div>" if len(steps) > MAX_ROWS else ""
    head = "<tr><th>runs</th><th>what</th><th>result</th><th class='r'>bytes</th><th>plan</th></tr>"
    return f"<table>{head}{rows}</table>{more}"


def _row(instruction: Instruction) -> str:
    what = contents_of(instruction) or instruction.op.name
    result = instruction.shape.to_text(layout=False)
    cells = [f"<td class='n'>{_cell(instruction.name)}</td><td>{_cell(what)}</td><td class='s'>{_cell(result)}</td>"]
    cells.append(f"<td class='r'>{value_bytes(instruction.shape):,}</td><td>{_cell(_plan(instruction))}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str) -> str:
    return escape(shorten(text, MAX_CELL_LENGTH))


def _plan(instruction: Instruction) -> str:
    """The strategy of the kernel that computes a fusion; "" if it states none."""
    try:
        plan = demanded_plan(instruction) if instruction.op is opcodes.FUSION else None
    except InvalidArgumentError:  # an entry that is no plan
        return ""
    return "" if plan is None else plan.strategy

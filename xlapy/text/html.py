"""HTML of a module for notebooks: its computations fold, and names, shapes and ops have colors.

Responsible for what Jupyter shows for a `Module`: short HTML without scripts, in which all text of the module is
escaped. Does not depend on the interactive page of `xlapy show`.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order, print_order
from xlapy.text.describe import kind_of, line_of

MAX_INSTRUCTIONS = 300
"""Instructions that are shown; the number of the others is shown in their place."""

MAX_LINE_LENGTH = 240
"""Characters of an instruction's line that are shown."""

STYLE = """<style>
.xlapy{font-family:monospace;font-size:90%;line-height:1.45}
.xlapy pre{margin:0 0 0 1.2em;background:none;font-size:inherit}
.xlapy summary{cursor:pointer}
.xlapy .n{color:#7c6fd0}
.xlapy .s{color:#1c8c8c}
.xlapy .o{font-weight:bold}
.xlapy .q{opacity:.65}
.xlapy table{border-collapse:collapse;margin:.3em 0 .3em 1.2em;font-size:inherit}
.xlapy td,.xlapy th{padding:.1em .8em .1em 0;text-align:left;border:none;background:none}
.xlapy td.r,.xlapy th.r{text-align:right}
</style>"""
"""Colors of a medium brightness, which can be read on light and on dark backgrounds."""


def module_to_html(module: Module) -> str:
    """Returns the module as HTML: the entry computation is open, the others fold below it."""
    counts = f"{len(module.computations)} computations, {module.instruction_count} instructions"
    head = f"<div><b>{escape(module.name)}</b> <span class='q'>{counts}</span></div>"
    computations = "".join(_computations(module)) if module.entry is not None else ""
    return f"<div class='xlapy'>{STYLE}{head}{computations}</div>"


def escape(text: str) -> str:
    """Returns text that HTML shows as it is, also in an attribute's value, and that has a form in UTF-8."""
    return html.escape(text.encode("utf-8", "backslashreplace").decode())


def _computations(module: Module) -> Iterator[str]:
    room = MAX_INSTRUCTIONS
    order = print_order(module)[::-1]
    for number, computation in enumerate(order):
        if room <= 0:
            yield f"<div class='q'>... {len(order) - number} more computations</div>"
            return
        yield _computation(computation, room)
        room -= len(computation)


def _computation(computation: Computation, room: int) -> str:
    has_root = computation.root is not None  # else it is being built
    instructions = post_order(computation) if has_root else list(computation)
    lines = [_line(instruction) for instruction in instructions[:room]]
    if len(instructions) > room:
        lines.append(f"<span class='q'>... {len(instructions) - room} more instructions</span>")
    signature = shorten(computation.program_shape.to_text()) if has_root else ""
    summary = (
        f"<b>{escape(computation.name)}</b> <span class='s'>{escape(signature)}</span> "
        f"<span class='q'>{escape(kind_of(computation))}, {len(computation)} instructions</span>"
    )
    state = " open" if computation.is_entry else ""
    return f"<details{state}><summary>{summary}</summary><pre>{chr(10).join(lines)}</pre></details>"


def _line(instruction: Instruction) -> str:
    root = "<b>ROOT</b> " if instruction.is_root else ""
    source = source_of(instruction)
    title = f" title='{escape(source)}'" if source else ""
    return f"<span{title}>{root}{_colored(instruction)}</span>"


def _colored(instruction: Instruction) -> str:
    """Returns the line of the instruction with its name, shape and op in elements of their own."""
    line = line_of(instruction)
    name, shape, op = instruction.name, instruction.shape.to_text(), instruction.op.name
    rest = line.removeprefix(f"{name} = {shape} {op}")
    if rest == line or len(line) - len(rest) > MAX_LINE_LENGTH:
        return escape(shorten(line))
    tail = escape(shorten(rest, MAX_LINE_LENGTH - len(line) + len(rest)))
    return (
        f"<span class='n'>{escape(name)}</span> = <span class='s'>{escape(shape)}</span> "
        f"<span class='o'>{escape(op)}</span>{tail}"
    )


def shorten(text: str, length: int = MAX_LINE_LENGTH) -> str:
    """Returns at most `length` characters of a text, and `...` if there are more."""
    return text if len(text) <= length else f"{text[:length]}..."

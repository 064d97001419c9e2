"""`xlapy explain`: follows one instruction from the user's source line to the assembly of its kernel, or shows what
takes the memory of a program.

Responsible for the command and for the sections of an explanation, as text and as HTML. Does not depend on how
instructions are followed through the passes or on what the compiler generates.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator
from dataclasses import dataclass

import click

from xlapy import opcodes
from xlapy.base.error_codes.structure import editing as editing_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.cpu.compiler import Compiled, passes
from xlapy.cpu.program.memory_report import timeline_lines
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.hlo.module import Module
from xlapy.passes import Pipeline
from xlapy.spmd.entry.automatic import module_of_each_device
from xlapy.text.describe import framework_name_of, kind_of, line_of
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.explain.instruction_tracker import InstructionTracker
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.loading import load_option
from xlapy.tools.memory import program_memory, value_lines
from xlapy.tools.native_forms import KernelForm, NativeForms, compiled_for_cpu, native_forms

LINES = 40
"""Lines of a listing in the terminal, unless --full is given."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an explanation: a title and lines; code is printed verbatim."""

    title: str
    lines: list[str]
    is_code: bool = False


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[NAME] FILE")
@click.option(
    "--html", "page", type=click.Path(dir_okay=False), help="Write an HTML page with full listings instead of text."
)
@click.option("--full", is_flag=True, help=f"Print full listings instead of their first {LINES} lines.")
@load_option("targets of custom calls")
@elided_constants_option
def explain(arguments: tuple[str, ...], page: str | None, full: bool, elided_constants: str) -> None:
    """Explain what the CPU compiler does with the instruction NAME of FILE (HLO or StableHLO; - for standard input).

    NAME is an instruction of FILE, or one of the optimized program (a fusion, or an instruction that a pass made), as
    `xlapy profile`, `xlapy show --optimized` and --check-nans print it: the instructions of FILE that it computes are
    shown, too.

    Shows its source line, the passes that changed it, the fusion decisions with their reasons, the thunks that compute
    it, the plan of each kernel with the strategies that were not chosen, and their loop IR, LLVM IR and assembly.

    Without NAME, explains why the program needs the memory that it needs: how much is live at each point of a run, and
    which values are live when it is most, with their source lines. The program does not run.

    A program with shardings that split values is partitioned first. NAME is then an instruction of the program that
    each device runs, such as `dot.1`.
    """
    if len(arguments) > 2:
        raise click.UsageError(f"give an instruction and a file, or a file alone, not {len(arguments)} arguments")
    if page is not None:
        check_writable(page)
    module = read_program(arguments[-1])
    provide_elided_constants(module, elided_constants)
    module = module_of_each_device(module)
    if len(arguments) == 2:
        title = arguments[0].removeprefix("%")
        sections = explanation_of_name(module, title)
    else:
        title, sections = f"{module.name}: memory", memory_explanation(compiled_for_cpu(module))
    if page is not None:
        text = explanation_page(title, sections)
        write_file(page, lambda sink: sink.write(text.encode("ascii")))
        return
    for line in explanation_lines(sections, None if full else LINES):
        click.echo(line)


def find_instruction(module: Module, name: str) -> Instruction:
    """Returns the instruction with a name, with or without `%`. Raises `InvalidArgumentError` with similar names."""
    wanted = name.removeprefix("%")
    names = {instruction.name: instruction for instruction in module.instructions()}
    if wanted in names:
        return names[wanted]
    close = difflib.get_close_matches(wanted[:100], names, n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise InvalidArgumentError(editing_codes.NAME_IN_MODULE, f"{module.name} has no instruction {name!r}{hint}")


def explanation_of_name(module: Module, name: str) -> list[Section]:
    """Returns the sections on the instruction of the module, or else of its optimized form, that has a name. Raises
    `InvalidArgumentError` if neither has one."""
    try:
        instruction = find_instruction(module, name)
    except InvalidArgumentError:
        sections = _explanation_of_optimized(module, name)
        if not sections:
            raise
        return sections
    return explanation(module, instruction)


def _explanation_of_optimized(module: Module, name: str) -> list[Section]:
    """Returns the sections on an instruction of the optimized program: those of the module that it computes, and its
    code. Returns none if there is no such instruction, or if the module does not run on cpu."""
    try:
        native = native_forms(module)
    except UnsupportedError:
        return []
    copy = edit.clone_module(module)
    tracker = InstructionTracker(copy, list(copy.instructions()))
    Pipeline(passes(copied=tracker.record_copy), on_pass=tracker.record_pass).run(copy)
    instruction = {one.name: one for one in copy.instructions()}.get(name)
    if instruction is None:
        return []
    parts = [instruction]
    if instruction.op is opcodes.FUSION:
        parts = [one for one in instruction.computations[0].instructions if one.op is not opcodes.PARAMETER]
    names = {origin for part in parts for origin in tracker.origins.get(part, {})}
    origins = [one for one in module.instructions() if one.name in names]
    sections = [Section("instruction of the optimized program", [line_of(instruction)])]
    if len(origins) == 1:
        return [*sections, *explanation(module, origins[0], native)]
    lines = [f"{line_of(one)}{f'  at {source_of(one)}' if source_of(one) else ''}" for one in origins]
    sections.append(Section("instructions of the program that it computes", lines or ["none: a pass made it"]))
    decisions = native.decisions_on(instruction)
    if decisions:
        sections.append(Section("fusion", [decision.text for decision in decisions]))
    return [*sections, *_native_sections([instruction], native)]


def explanation(module: Module, instruction: Instruction, native: NativeForms | None = None) -> list[Section]:
    """Returns all sections, from source to assembly. Raises `UnsupportedError` for a module that does not run on
    cpu.

    native: the output of the compiler for the module, if there is one.
    """
    native = native or native_forms(module)
    copy = edit.clone_module(module)
    tracker = InstructionTracker(copy, [find_instruction(copy, instruction.name)])
    Pipeline(passes(copied=tracker.record_copy), on_pass=tracker.record_pass).run(copy)
    sections = [Section("instruction", _facts(instruction))]
    sections.append(Section("passes", tracker.history or ["no pass changed it"]))
    decisions = dict.fromkeys(made for one in tracker.current for made in native.decisions_on(one))
    if decisions:
        sections.append(Section("fusion", [decision.text for decision in decisions]))
    return [*sections, *_native_sections(tracker.current, native)]


def memory_explanation(compiled: Compiled) -> list[Section]:
    """Returns the sections on the memory of a program: totals, the bytes live at each thunk, the values at the peak."""
    found = program_memory(compiled)
    return [
        Section("memory of a run on one device", [found.summary, found.peak_text]),
        Section("live bytes of results and temporaries", timeline_lines(compiled.program)),
        Section(f"live at the peak, in {found.peak_at or 'no thunk'}", list(value_lines(found.live, found.peak))),
        Section("arguments", list(value_lines(found.largest_arguments, found.arguments))),
    ]


def _facts(instruction: Instruction) -> list[str]:
    home = instruction.parent
    lines = [line_of(instruction)]
    if source_of(instruction):
        lines.append(f"source: {source_of(instruction)}")
    if framework_name_of(instruction):
        lines.append(f"framework: {framework_name_of(instruction)}")
    if home is not None:
        lines.append(f"in: {home.name} ({kind_of(home)})")
    if instruction.users:
        lines.append(f"users: {', '.join(user.name for user in instruction.users)}")
    return lines


def _native_sections(now: list[Instruction], native: NativeForms) -> Iterator[Section]:
    """Returns the sections on the thunks that compute the instruction, and their code."""
    if not now:
        yield Section("thunks", ["none: the instruction was removed"])
        return
    origins = list(dict.fromkeys(origin for one in now for origin in _origins(one, native)))
    titles = [title for origin in origins for title in native.thunks.get(origin, [])]
    yield Section("thunks", titles or ["none: it is a buffer, or part of another buffer"])
    for origin in origins:
        if origin in native.plans:
            yield Section(f"kernel plan of {origin}", native.plans[origin])
    for origin in origins:
        for kernel in native.kernels.get(origin, []):
            yield from _kernel_sections(kernel, native)


def _origins(instruction: Instruction, native: NativeForms) -> list[str]:
    """Returns the instructions that are thunks of the program: this one, or those that contain it."""
    found: dict[str, None] = {}
    seen: set[Instruction] = set()
    stack = [instruction]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.name in native.thunks:
            found[current.name] = None
        elif current.parent is not None:
            stack += current.parent.callers
    return list(found)


def _kernel_sections(kernel: KernelForm, native: NativeForms) -> Iterator[Section]:
    form = native.functions[kernel.function]
    yield Section(f"loop IR of {kernel.title}", kernel.loops.splitlines(), is_code=True)
    yield Section(f"LLVM IR of {kernel.function}", form.llvm.splitlines(), is_code=True)
    yield Section(f"optimized LLVM IR of {kernel.function}", form.optimized.splitlines(), is_code=True)
    yield Section(f"assembly of {kernel.function}", form.assembly.splitlines(), is_code=True)


# -- output


def explanation_lines(sections: list[Section], most: int | None) -> Iterator[str]:
    """Returns the lines for the terminal; listings are cut after `most` lines."""
    for section in sections:
        yield f"== {section.title}"
        lines = section.lines[:most] if section.is_code else section.lines
        yield from (f"  {line}" for line in lines)
        if len(lines) < len(section.lines):
            yield f"  ... {len(section.lines) - len(lines)} more lines (--full)"


_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}"
    "pre{background:#f4f5f7;padding:8px;overflow:auto;max-height:600px;font-size:12px}summary{font-weight:600}"
)


def explanation_page(name: str, sections: list[Section]) -> str:
    """Returns one self-contained ASCII HTML file; listings are folded."""
    title = html.escape(name)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>",
    ]
    for section in sections:
        text = html.escape("\n".join(section.lines))
        opened = "" if section.is_code else " open"
        parts.append(f"<details{opened}><summary>{html.escape(section.title)}</summary><pre>{text}</pre></details>")
    return "\n".join([*parts, "</body></html>", ""]).encode("ascii", "xmlcharrefreplace").decode("ascii")

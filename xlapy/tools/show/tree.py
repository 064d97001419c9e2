"""A module as a tree of lines: the computations that an instruction calls are indented below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlapy.analysis.cost import array_bytes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.text.describe import byte_text, kind_of, line_of
from xlapy.tools.native_forms import NativeForms
from xlapy.tools.profile.report import Profile, figures_text
from xlapy.tools.profile.rows import Row, rows_by_instruction

_INDENT = "  "


def tree_lines(module: Module, native: NativeForms | None = None, profile: Profile | None = None) -> Iterator[str]:
    """Returns the lines of the module, starting at its entry; a computation with several callers is shown below the
    first.

    native: the compiler's output for the module on cpu, which explains each instruction. profile: the times of the
    module as it runs.
    """
    rows = rows_by_instruction(profile.rows) if profile is not None else {}
    counts = f"{len(module.computations)} computations, {module.instruction_count} instructions"
    yield f"{module.name}: {counts}"
    if profile is not None:
        yield from (f"# {line}" for line in profile.summary)
    shown: set[Computation] = set()
    yield from _computation(module.entry_computation, shown, native, rows)
    for computation in module.computations:
        if not computation.callers and computation not in shown:
            yield from _computation(computation, shown, native, rows)


def _computation(
    root: Computation, shown: set[Computation], native: NativeForms | None, rows: Mapping[str, Row]
) -> Iterator[str]:
    """Iterative, because calls may be nested deeper than Python's stack."""
    shown.add(root)
    stack: list[tuple[int, Iterator[Instruction | Computation]]] = [(0, iter([root]))]
    while stack:
        depth, remaining = stack[-1]
        item = next(remaining, None)
        indent = _INDENT * depth
        if item is None:
            stack.pop()
        elif isinstance(item, Computation):
            yield f"{indent}{item.name}: {kind_of(item)}, {len(item)} instructions"
            stack.append((depth + 1, iter(post_order(item))))
        else:
            yield from (indent + line for line in _instruction(item, native, rows.get(item.name)))
            new = [called for called in dict.fromkeys(item.computations) if called not in shown]
            shown.update(new)
            stack.append((depth + 1, iter(new)))


def _instruction(instruction: Instruction, native: NativeForms | None, row: Row | None) -> Iterator[str]:
    root = "ROOT " if instruction.is_root else ""
    notes = [byte_text(array_bytes(instruction.shape)), source_of(instruction)]
    yield f"{root}{line_of(instruction)}  # {', '.join(note for note in notes if note)}"
    if row is not None:
        yield f"{_INDENT}time: {figures_text(row)}"
    if native is None:
        return
    for decision in native.decisions_on(instruction):
        yield f"{_INDENT}why: {decision}"
    for title in native.thunks.get(instruction.name, []):
        yield f"{_INDENT}step: {title}"
    for kernel in native.kernels.get(instruction.name, []):
        yield f"{_INDENT}code: function {kernel.function}, {_counted(native, kernel.function)}"


def _counted(native: NativeForms, function: str) -> str:
    form = native.functions[function]
    return f"{form.optimized.count(chr(10))} lines of LLVM, {form.assembly.count(chr(10))} of assembly"

"""`xlapy diff`: shows how two modules differ, or what each pass changes in one.

Responsible for the command and its output. Does not depend on how instructions are paired or what passes do.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from xlapy.analysis.correspondence import Correspondence, correspond
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.compiler import passes as cpu_passes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.passes import PassEvent, Pipeline, parse_passes, pass_text
from xlapy.text.describe import line_of
from xlapy.tools.files import read_program

_CONFIGURATION = (
    "entry_computation_layout", "is_scheduled", "replica_count", "num_partitions", "input_output_alias",
    "buffer_donors", "frontend_attributes", "other",
)  # fmt: skip


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("--passes", "by_pass", is_flag=True, help="Show what each pass of cpu changes in one module.")
@click.option("--pipeline", metavar="PASSES", help="With --passes: use these passes, as for `xlapy opt --passes`.")
def diff(files: tuple[str, ...], by_pass: bool, pipeline: str | None) -> int:
    """Compare the modules A and B (HLO or StableHLO; - for standard input) by structure; names do not matter.

    Exit code 1 if they differ.
    """
    if len(files) != (1 if by_pass else 2):
        raise click.UsageError("--passes takes one module" if by_pass else "two modules, or --passes and one")
    if pipeline is not None and not by_pass:
        raise click.UsageError("--pipeline goes with --passes")
    if by_pass:
        _show_passes(read_program(files[0]), pipeline)
        return 0
    if files == ("-", "-"):
        raise InvalidArgumentError(codes.STANDARD_INPUT, "standard input holds one module: give a file for the other")
    left, right = map(read_program, files)
    lines = list(difference_lines(left, right))
    click.echo("\n".join(lines) if lines else "no difference but in names")
    return 1 if lines else 0


def difference_lines(left: Module, right: Module) -> Iterator[str]:
    """Returns the differences: `~` changed, `-` only on the left, `+` only on the right. Empty if the modules are
    equal.
    """
    for name in _CONFIGURATION:
        before, after = getattr(left.config, name), getattr(right.config, name)
        if before != after:
            yield f"~ {name}: {_text(before)} -> {_text(after)}"
    found = correspond(left, right)
    changed = {one: words for one in found.instructions if (words := found.differences(one))}
    if changed or found.only_left or found.only_right:
        yield (
            f"{len(found.instructions) - len(changed)} instructions equal, {len(changed)} changed, "
            f"{len(found.only_left)} only on the left, {len(found.only_right)} only on the right"
        )
    yield from _changes(left, changed, found)


def _changes(left: Module, changed: dict[Instruction, list[str]], found: Correspondence) -> Iterator[str]:
    for computation in left.computations:
        counterpart = found.computations.get(computation)
        lines = [line for one in computation if one in changed for line in _changed(one, changed[one], found)]
        lines += [f"  - {line_of(one)}" for one in found.only_left if one.parent is computation]
        lines += [f"  + {line_of(one)}" for one in found.only_right if one.parent is counterpart]
        if lines:
            yield f"{computation.name}:"
            yield from lines
    yield from _new_computations(found)


def _new_computations(found: Correspondence) -> Iterator[str]:
    known = set(found.computations.values())
    for computation in dict.fromkeys(one.parent for one in found.only_right):
        if computation is not None and computation not in known:
            yield f"{computation.name}, which has no counterpart:"
            yield from (f"  + {line_of(one)}" for one in computation)


def _changed(left: Instruction, words: list[str], found: Correspondence) -> Iterator[str]:
    yield f"  ~ {line_of(left)}"
    yield f"    {line_of(found.instructions[left])}"
    yield from (f"      {word}" for word in words)


def _text(value: object) -> str:
    to_text = getattr(value, "to_text", None)
    return str(to_text() if to_text is not None else value)


# -- pass by pass


def _show_passes(module: Module, pipeline: str | None) -> None:
    chosen = cpu_passes() if pipeline is None else parse_passes(pipeline)
    before = _lines(module)

    def note(event: PassEvent) -> None:
        nonlocal before
        if not event.changed:
            return
        after = _lines(event.module)
        for line in pass_lines(event, before, after):
            click.echo(line)
        before = after

    Pipeline(chosen, on_pass=note).run(module)


def _lines(module: Module) -> dict[Instruction, str]:
    return {instruction: line_of(instruction) for instruction in module.instructions()}


def pass_lines(event: PassEvent, before: dict[Instruction, str], after: dict[Instruction, str]) -> Iterator[str]:
    """Returns what a pass removed, changed in place and created."""
    changed = [one for one in before if one in after and before[one] != after[one]]
    gone = [line for one, line in before.items() if one not in after]
    new = [line for one, line in after.items() if one not in before]
    counts = f"{len(gone)} removed, {len(changed)} changed, {len(new)} made"
    yield f"{event.number:03} {pass_text(event.pass_)}: {counts}, {len(after)} instructions"
    yield from (f"  - {line}" for line in gone)
    for one in changed:
        yield f"  ~ {before[one]}"
        yield f"    {after[one]}"
    yield from (f"  + {line}" for line in new)

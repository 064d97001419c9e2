"""Runs passes on modules and compares the results of the modules before and after, on the interpreter.

Responsible for running and comparing modules. Does not depend on any particular pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.interpreter import DynamicArray
from xlapy.passes import Pass, Pipeline, parse_passes
from xlapy.runtime.backends.interpreter import InterpreterBackend
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.testing.comparison import assert_close
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import PrintOptions, parse_hlo, print_module

ROUNDING = "rounding"
"""Not a rule of one operation: results may differ by the rounding errors of the program before the passes."""

SHORT = PrintOptions.short().replace(include_layout_in_shapes=False)


def run_passes(module: Module, passes: str | Sequence[Pass]) -> bool:
    """Runs passes with every check enabled; returns whether they changed the module."""
    chosen = parse_passes(passes) if isinstance(passes, str) else passes
    return Pipeline(chosen, verify_each=True, check_changes=True).run(module)


def body(module: Module, computation: str | None = None) -> str:
    """Returns a computation (by default the entry) in short form, without layouts, only the lines of the
    instructions."""
    text = print_module(module, SHORT)
    head = "ENTRY " if computation is None else f"\n{computation} {{"
    lines = text[text.index(head) :].strip().splitlines()[1:]
    return "\n".join(line.strip() for line in lines[: lines.index("}")])


def execute(module: Module, arguments: Sequence[Any]) -> Any:
    values = check_arguments(module.entry_computation.program_shape, arguments)
    return InterpreterBackend().compile(module).execute(values)


def arguments_of(module: Module, seed: int, special: bool = True) -> list[Any]:
    return random_arguments([p.shape for p in module.entry_computation.parameters], seed, special=special)


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, DynamicArray):
        return value.actual
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None  # a token


def is_executable(module: Module) -> bool:
    """Tells whether the interpreter runs the module on one device."""
    outward = {opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV}
    devices = module.config.replica_count * module.config.num_partitions
    if devices > 1 or any(i.op in outward for i in module.instructions()):
        return False
    try:
        InterpreterBackend().compile(module)
    except UnsupportedError:
        return False
    return True


def assert_same_results(
    before: Module, after: Module, rule: str = "bits", seeds: Sequence[int] = range(3), special: bool = True
) -> None:
    """Checks that both modules give the same results for random arguments, by a rule or up to `ROUNDING`.

    `special` arguments include NaN, infinities, zeros of both signs, and extreme values.
    """
    assert is_executable(before), f"{before.name} does not run on one device: its values are not compared"
    for seed in seeds:
        arguments = arguments_of(before, seed, special=special and seed != 1)
        actual, where = plain(execute(after, arguments)), f"{before.name}, seed {seed}"
        if rule == ROUNDING:
            program_tolerance(before, arguments).assert_close(actual, where)
        else:
            assert_close(actual, plain(execute(before, arguments)), rule=rule, where=where)


def rewritten(text: str, passes: str | Sequence[Pass], rule: str = "bits", computation: str | None = None) -> str:
    """Returns a module's computation after the passes; checks that results stay the same and that the passes
    converge."""
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, passes), "the passes change nothing"
    assert_same_results(before, after, rule)
    assert not run_passes(after, passes), "the passes change their own result"
    return body(after, computation)


def assert_unchanged(text: str, passes: str | Sequence[Pass]) -> None:
    """Checks that the passes change nothing and report no change."""
    module = parse_hlo(text)
    assert not run_passes(module, passes), body(module)


def program(*lines: str, name: str = "m", before: str = "") -> str:
    """Returns a module with these instructions as entry computation; `before` holds further computations."""
    return f"HloModule {name}\n\n{before}\n\nENTRY main {{\n  " + "\n  ".join(lines) + "\n}\n"

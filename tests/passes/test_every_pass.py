"""Each pass alone, over all samples, the programs of tests/programs and random modules.

The module stays valid, computes the same values and keeps its signature, and a second run changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from tests.passes.runner import arguments_of, execute, is_executable, plain, run_passes
from tests.programs.test_programs import NAMES, text_of
from tests.programs.test_programs import arguments_of as program_arguments
from xlapy import opcodes
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.hlo.verification.layouts import verify_layouts
from xlapy.passes import CATALOG, Fixpoint, Pass, parse_passes
from xlapy.passes.expand.expand import Expand
from xlapy.passes.layouts.assign_layouts import AssignLayouts
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.passes.verify_module import VerifyModule
from xlapy.testing.comparison import assert_close
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import REFUSED_AT_RUN, all_samples
from xlapy.text import parse_hlo

APART = (Fixpoint, Expand, VerifyModule, ResolveDynamicDimensions)
"""Passes that need options, change nothing, or change the signature; other tests cover them."""

PASSES: list[Pass] = [kind() for kind in CATALOG.values() if kind not in APART]
PASSES.append(Expand(ops=("all",)))
PASSES.append(
    Fixpoint(
        passes=tuple(
            parse_passes(
                "inline-calls,flatten-tuples,simplify-conditionals,simplify-loops,simplify,fold-constants,cse,"
                "hoist-loop-invariants,dce"
            )
        )
    )
)
INEXACT = {"expand"}
"""Passes that may change the last bits of a result, and which elements of a Fourier transform are infinite."""

every_pass = pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.name)


@cache
def samples() -> list[tuple[str, Module, bool]]:
    found = []
    for sample in all_samples():
        module = parse_hlo(sample.text)
        found.append((sample.name, module, sample.note != REFUSED_AT_RUN and is_executable(module)))
    return found


@cache
def expected_of(name: str, seed: int, special: bool, module: Module) -> Any:
    return plain(execute(module, arguments_of(module, seed, special)))


def check(pass_: Pass, name: str, module: Module, runs: bool, seed: int = 0) -> bool:
    """Runs the pass on a copy; compares results if the copy changed."""
    after = clone_module(module)
    changed = run_passes(after, [pass_])
    signature = after.entry_computation.program_shape
    assert signature.compatible(module.entry_computation.program_shape)
    assert signature.parameter_names == module.entry_computation.program_shape.parameter_names
    if isinstance(pass_, AssignLayouts):
        verify_layouts(after)
    assert after.config == module.config
    if changed and runs:
        is_exact = pass_.name not in INEXACT
        special = is_exact or all(i.op is not opcodes.FFT for i in module.instructions())
        result = plain(execute(after, arguments_of(module, seed, special)))
        if is_exact:
            assert_close(result, expected_of(name, seed, special, module), rule="bits", where=name)
        else:
            program_tolerance(module, arguments_of(module, seed, special)).assert_close(result, name)
    if changed:
        assert not run_passes(after, [pass_]), f"{pass_.name} changes its own result of {name}"
    return changed


@every_pass
def test_samples(pass_: Pass) -> None:
    for name, module, runs in samples():
        check(pass_, name, module, runs)


@cache
def random_modules(count: int) -> list[tuple[str, Module]]:
    return [(f"random_{seed}", random_module(seed)) for seed in range(count)]


@every_pass
def test_random_modules(pass_: Pass) -> None:
    for name, module in random_modules(30):
        check(pass_, name, module, runs=True)


@pytest.mark.slow
@every_pass
def test_many_random_modules(pass_: Pass) -> None:
    for name, module in random_modules(400):
        check(pass_, name, module, runs=True)


@cache
def program(name: str) -> tuple[Module, list[Any], Any]:
    module = parse_hlo(text_of(name))
    arguments = program_arguments(name, module)
    return module, arguments, plain(execute(module, arguments))


@every_pass
def test_some_programs(pass_: Pass) -> None:
    check_programs(pass_, NAMES[::7])


@pytest.mark.slow
@every_pass
def test_programs(pass_: Pass) -> None:
    check_programs(pass_, NAMES)


def check_programs(pass_: Pass, names: Sequence[str]) -> None:
    for name in names:
        module, arguments, expected = program(name)
        after = clone_module(module)
        if run_passes(after, [pass_]):
            result = plain(execute(after, arguments))
            if pass_.name in INEXACT:
                program_tolerance(module, arguments).assert_close(result, name)
            else:
                assert_close(result, expected, rule="bits", where=name)
            assert not run_passes(after, [pass_]), f"{pass_.name} changes its own result of {name}"


def long_module(count: int) -> Module:
    """Returns a chain of instructions of many kinds, including equal, dead, foldable and simplifiable ones."""
    lines = ["x = f32[4] parameter(0)", "v0 = f32[4] negate(x)"]
    for i in range(1, count // 4):
        lines += [
            f"k{i} = f32[4] constant({{{i % 7}, 1, 2, 3}})",
            f"n{i} = f32[4] negate(k{i})",
            f"a{i} = f32[4] add(v{i - 1}, n{i})",
            f"v{i} = f32[4] {'negate(a' if i % 3 else 'copy(a'}{i})",
        ]
    lines.append(f"ROOT r = f32[4] abs(v{count // 4 - 1})")
    return parse_hlo("HloModule long\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n")


@every_pass
def test_time_grows_with_the_module(pass_: Pass) -> None:
    """10,000 instructions take seconds, not minutes."""
    module = long_module(10_000)
    started = time.perf_counter()
    pass_.run(module)
    assert time.perf_counter() - started < 20


@every_pass
def test_a_module_with_a_wide_root(pass_: Pass) -> None:
    lines = ["x = f32[4] parameter(0)"]
    for i in range(3000):
        lines += [f"a{i} = f32[4] negate(x)", f"b{i} = f32[4] negate(a{i})"]
    lines.append(f"ROOT r = ({', '.join(['f32[4]'] * 3000)}) tuple({', '.join(f'b{i}' for i in range(3000))})")
    module = parse_hlo("HloModule wide\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n")
    started = time.perf_counter()
    pass_.run(module)
    assert time.perf_counter() - started < 20

"""Programs that XLA printed for JAX functions are parsed, printed, verified, run, and compared with XLA's CPU back end.

`README.md` in this folder lists them. For some of them there is also the output of XLA's CPU compiler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests import xla_reference
from tests.programs import inputs
from xlapy.testing.program_tolerance import program_tolerance

FOLDER = Path(__file__).parent
OPTIMIZED = sorted(path.name.removesuffix(".optimized.hlo") for path in FOLDER.glob("*.optimized.hlo"))
NAMES = sorted({path.name.split(".")[0] for path in FOLDER.glob("*.hlo")})


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.hlo").read_text()


def arguments_of(name: str, module: xla.Module) -> list[np.ndarray[Any, Any]]:
    parameters = module.entry_computation.program_shape.parameters
    return inputs.arguments(name, [(shape.dimensions, shape.dtype) for shape in parameters])


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, tuple) else np.asarray(value)


def test_corpus_is_large_enough() -> None:
    """The corpus has at least 40 programs, of which at least 20 have over 100 instructions."""
    sizes = [xla.parse_hlo(text_of(name), verify=False).instruction_count for name in NAMES]
    assert len(sizes) >= 40
    assert sum(size > 100 for size in sizes) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_interpreter_agrees_with_xla(name: str) -> None:
    text = text_of(name)
    module = xla.parse_hlo(text)
    arguments = arguments_of(name, module)
    expected = xla_reference.run_hlo(text, arguments, fast=True)
    program_tolerance(module, arguments, flush_denormals=True, excess_precision=True).assert_close(expected, name)


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}.optimized" for name in OPTIMIZED)])
def test_printed_text_equals_that_of_xla(name: str) -> None:
    """Checks a text and the text printed from it: reading a text may renumber its stack frames, in XLA and in xlapy."""
    text = text_of(name)
    for _ in range(2):
        printed = xla.parse_hlo(text).to_text(print_large_constants=True)
        assert printed == xla_reference.parse_and_print(text, print_large_constants=True)
        text = printed
    assert xla.parse_hlo(text).to_text(print_large_constants=True) == text


@pytest.mark.parametrize("name", OPTIMIZED)
def test_optimized_program_agrees_with_the_original(name: str) -> None:
    """XLA's fusions, bitcasts, layouts and library calls change no values: both texts give equal results."""
    original, optimized = xla.parse_hlo(text_of(name)), xla.parse_hlo(text_of(f"{name}.optimized"))
    arguments = arguments_of(name, original)
    result = xla.Client("interpreter").compile(optimized)(*arguments)
    program_tolerance(original, arguments, excess_precision=True).assert_close(plain(result), name)

"""Runs StableHLO text with xlapy and, converted to HLO by jaxlib, with XLA:CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib import _jax

import xlapy
from tests import xla_reference
from xlapy.base.shape import Shape
from xlapy.testing.comparison import assert_close
from xlapy.testing.program_tolerance import program_tolerance

Array = np.ndarray[Any, Any]


def run(text: str, *arguments: Any, platform: str = "interpreter", **options: Any) -> Any:
    """Returns the result of a program as an array, or as a tuple of arrays if there are several results."""
    module = xlapy.parse_stablehlo(text, **options)
    return _as_arrays(xlapy.Client(platform).compile(module)(*arguments))


def _as_arrays(value: Any) -> Any:
    return tuple(_as_arrays(each) for each in value) if isinstance(value, tuple) else np.asarray(value)


def run_with_xla(text: str, *arguments: Any) -> Any:
    """Returns the result of a program on XLA:CPU."""
    return xla_reference.run_hlo(hlo_of(text), arguments, fast=True)


def hlo_of(text: str) -> str:
    """Returns the HLO text that jaxlib converts a StableHLO program to."""
    computation = _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    options = xla_reference.print_options(print_large_constants=True)
    converted: str = computation.get_hlo_module().to_string(options)
    return converted


def arguments_of(module: xlapy.Module, seed: int = 0) -> list[Array]:
    """Returns small random arguments for the parameters of a module."""
    generator = np.random.default_rng(seed)
    return [_argument(generator, shape) for shape in module.entry_computation.program_shape.parameters]


def _argument(generator: np.random.Generator, shape: Shape) -> Array:
    kind = shape.element_type
    if kind.is_complex:
        parts = generator.uniform(0.2, 2, (2, *shape.dimensions))
        return (parts[0] + 1j * parts[1]).astype(shape.dtype)
    if kind.is_integral or kind.name == "PRED":
        return generator.integers(0, 2 if kind.name == "PRED" else 4, shape.dimensions).astype(shape.dtype)
    return generator.uniform(0.2, 0.9, shape.dimensions).astype(shape.dtype)


def assert_matches_xla(
    text: str,
    arguments: Sequence[Any] | None = None,
    platforms: Sequence[str] = ("interpreter", "cpu"),
    rule: str | None = None,
) -> None:
    """Asserts that xlapy's platforms and XLA:CPU agree on a program, by a rule or up to rounding errors."""
    module = xlapy.parse_stablehlo(text)
    given = arguments_of(module) if arguments is None else list(arguments)
    expected = run_with_xla(text, *given)
    tolerance = program_tolerance(module, given, flush_denormals=True, excess_precision=True)
    for platform in platforms:
        ours = _as_arrays(xlapy.Client(platform).compile(module)(*given))
        if rule is not None:
            assert_close(ours, expected, rule=rule, flush_denormals=True)
            continue
        tolerance.assert_close(expected, "XLA:CPU")
        tolerance.assert_close(ours, platform)

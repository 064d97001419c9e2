"""Defines a program of the corpus: a JAX function, its example arguments and how it is lowered.

Responsible for the registry that the `@program` decorator fills. Does not depend on particular programs and writes no
files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A JAX function, registered under its own name.

    `optimized`: the output of XLA:CPU is saved too. `x64`: traced with 64-bit defaults.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    optimized: bool
    x64: bool


def program(description: str, *arguments: Any, optimized: bool = False, x64: bool = False) -> Callable[..., Any]:
    """Registers the decorated function; `arguments` are ShapeDtypeStructs or nests of them."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name!r}")
        PROGRAMS[name] = Program(name, description, function, arguments, optimized, x64)
        return function

    return register


def spec(dtype: Any, *dimensions: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dimensions, np.dtype(dtype))


def f32(*dimensions: int) -> jax.ShapeDtypeStruct:
    return spec(np.float32, *dimensions)


def f64(*dimensions: int) -> jax.ShapeDtypeStruct:
    return spec(np.float64, *dimensions)


def s32(*dimensions: int) -> jax.ShapeDtypeStruct:
    return spec(np.int32, *dimensions)


def u32(*dimensions: int) -> jax.ShapeDtypeStruct:
    return spec(np.uint32, *dimensions)


def bf16(*dimensions: int) -> jax.ShapeDtypeStruct:
    return spec(jax.numpy.bfloat16, *dimensions)

"""Arguments for running the HLO programs of this folder.

Responsible for the parameters that need more than random numbers: indices in range, iteration counts, keys,
probabilities. Does not depend on JAX or on an HLO reader: the caller states the parameters of a program.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.testing.random_values import random_array

Draw = Callable[[tuple[int, ...], np.dtype[Any], np.random.Generator], np.ndarray[Any, Any]]


def integers(low: int, high: int) -> Draw:
    """Draws integers in [low, high)."""
    return lambda shape, dtype, rng: rng.integers(low, high, shape).astype(dtype)


def uniform(low: float, high: float) -> Draw:
    """Draws floats in [low, high)."""
    return lambda shape, dtype, rng: rng.uniform(low, high, shape).astype(dtype)


def value(number: float) -> Draw:
    """Fills the shape with one number."""
    return lambda shape, dtype, rng: np.full(shape, number).astype(dtype)


def values(*numbers: float) -> Draw:
    """Fills the shape with these numbers, truncated or repeated."""
    return lambda shape, dtype, rng: np.resize(np.array(numbers), shape).astype(dtype)


def dominant(weight: float) -> Draw:
    """Draws a diagonally dominant square matrix, for which elimination and iteration are well conditioned."""
    return lambda shape, dtype, rng: (rng.standard_normal(shape) + weight * np.eye(*shape)).astype(dtype)


def plane(radius: float) -> Draw:
    """Draws complex numbers with real and imaginary parts within +-radius."""

    def draw(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
        return (rng.uniform(-radius, radius, shape) + 1j * rng.uniform(-radius, radius, shape)).astype(dtype)

    return draw


# Program -> parameter number (as in the entry computation: leaves of nested arguments, dictionaries by sorted
# key) -> how to draw it. Other parameters are drawn from the normal distribution, or as integers within
# +-100.
OVERRIDES: dict[str, dict[int, Draw]] = {
    "batch_norm_by_hand": {4: uniform(0.5, 2)},
    "beam_search_step": {2: integers(0, 10)},
    "black_scholes": {0: uniform(50, 150), 1: uniform(50, 150), 2: uniform(0.1, 0.5)},
    "conditionals": {0: integers(0, 4)},
    "convnet_forward": {5: integers(0, 10)},
    "convnet_gradient": {5: integers(0, 10)},
    "cross_entropy_derivatives": {1: integers(0, 5)},
    "dynamic_slices": {1: integers(0, 8)},
    "edit_distance": {0: integers(0, 4), 1: integers(0, 4)},
    "embedding_gradient": {1: integers(0, 20)},
    "game_of_life": {0: integers(0, 2), 1: value(5)},
    "gathers": {1: integers(0, 5), 2: integers(0, 4)},
    "gaussian_elimination": {0: dominant(3)},
    "graph_convolution": {2: integers(0, 10), 3: integers(0, 10)},
    "heat_equation": {1: value(0.2)},
    "histograms": {1: integers(0, 10)},
    "integers_s32": {0: integers(-(2**31), 2**31), 1: integers(-(2**31), 2**31)},
    "ising_model": {0: values(1, -1, -1, 1, 1, 1, -1), 2: value(0.4)},
    "knapsack": {0: integers(1, 10), 1: uniform(0.5, 5)},
    "mandelbrot": {0: plane(1.5), 1: value(20)},
    "mapped_loops": {1: integers(0, 8)},
    "mlp_adam_step": dict.fromkeys(range(12, 18), uniform(0, 1)) | {18: value(3), 20: integers(0, 3)},
    "mlp_training_loop": {7: integers(0, 3)},
    "monte_carlo_pi": {1: value(10)},
    "nbody_step": {2: uniform(0.5, 2)},
    "nested_loops": {0: value(6)},
    "newton_iteration": {0: uniform(0.1, 10)},
    "number_theory": {0: integers(1, 100), 1: integers(1, 100)},
    "order_statistics": {2: integers(0, 6)},
    "pendulum_float64": {1: uniform(0.5, 2)},
    "quadrature_float64": {0: uniform(-1, 0), 1: uniform(1, 2)},
    "runge_kutta": {0: uniform(0.5, 2), 1: value(30)},
    "scatters": {1: integers(0, 6)},
    "segments": {1: integers(0, 8)},
    "signal_filters": {2: uniform(-0.3, 0.3)},
    "sorts": {1: integers(0, 5)},
    "special_bessel": {0: uniform(0.1, 6)},
    "special_betainc": {0: uniform(0.3, 4), 1: uniform(0.3, 4), 2: uniform(0.05, 0.95)},
    "special_gamma": {0: uniform(0.1, 8), 1: uniform(-0.9, 0.9)},
    "special_igamma": {0: uniform(0.2, 5), 1: uniform(0.2, 5)},
}


def arguments(
    program_name: str, parameter_shapes: Sequence[tuple[Sequence[int], Any]], seed: int = 0
) -> list[np.ndarray[Any, Any]]:
    """Returns one array per entry parameter of `program_name`, given as (dimensions, dtype) pairs.

    The same name and seed give the same arrays. Every value is finite. Unknown names get random arrays throughout.
    """
    rng = np.random.default_rng([seed, zlib.crc32(program_name.encode())])
    overrides = OVERRIDES.get(program_name, {})
    result: list[np.ndarray[Any, Any]] = []
    for number, (dimensions, dtype) in enumerate(parameter_shapes):
        target = np.dtype(dtype)
        draw = overrides.get(number, _default(target))
        result.append(np.asarray(draw(tuple(dimensions), target, rng)))
    return result


def _default(dtype: np.dtype[Any]) -> Draw:
    """Draws random bits for unsigned 32-bit parameters, which are keys and hashes, and moderate values for all
    others."""
    if dtype == np.uint32:
        return integers(0, 2**32)
    return lambda shape, target, rng: random_array(shape, target, rng, special=False)

"""Recurrent networks for `benchmarks/transformers.py`: layers of LSTM and GRU, one and many sequences, and training.

Weights lie as in torch, [columns, terms], so that its modules compute the same; gates are in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.workloads import normal


def lstm(inputs: Any, recurrent: Any, bias: Any, sequence: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        i, f, g, o = jnp.split(x @ inputs.T + hidden @ recurrent.T + bias, 4, -1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zero = jnp.zeros((sequence.shape[1], recurrent.shape[1]), sequence.dtype)
    return lax.scan(step, (zero, zero), sequence)[1]


def lstm_gradient(inputs: Any, recurrent: Any, bias: Any, sequence: Any) -> Any:
    return jax.grad(lambda *weights: (lstm(*weights, sequence) ** 2).mean(), (0, 1, 2))(inputs, recurrent, bias)


def gru(inputs: Any, recurrent: Any, bias: Any, sequence: Any) -> Any:
    def step(hidden: Any, x: Any) -> Any:
        reset, update, new = jnp.split(x @ inputs.T + bias, 3, -1)
        own_reset, own_update, own_new = jnp.split(hidden @ recurrent.T, 3, -1)
        update = jax.nn.sigmoid(update + own_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + own_reset) * own_new)
        hidden = (1 - update) * new + update * hidden
        return hidden, hidden

    return lax.scan(step, jnp.zeros((sequence.shape[1], recurrent.shape[1]), sequence.dtype), sequence)[1]


def weights(gates: int, length: int, batch: int, width: int, hidden: int) -> Callable[[], Sequence[Any]]:
    """Weights, and sequences [length, batch, width]."""
    return lambda: [
        normal(gates * hidden, width) / width**0.5,
        normal(gates * hidden, hidden, seed=1) / hidden**0.5,
        normal(gates * hidden, seed=2) / 8,
        normal(length, batch, width),
    ]


def _torch_module(torch: Any, kind: str, given: Any) -> Any:
    inputs, recurrent, bias, _ = given
    module = getattr(torch.nn, kind)(inputs.shape[1], recurrent.shape[1], dtype=inputs.dtype)
    with torch.no_grad():
        for name, value in (("weight_ih_l0", inputs), ("weight_hh_l0", recurrent), ("bias_ih_l0", bias)):
            getattr(module, name).copy_(value)
        module.bias_hh_l0.zero_()
    return module


def torch_layer(kind: str) -> Callable[[Any, Any], Callable[[], Any]]:
    def make(torch: Any, given: Any) -> Callable[[], Any]:
        module = _torch_module(torch, kind, given)

        def run() -> Any:
            with torch.no_grad():
                return module(given[3])[0]

        return run

    return make


def torch_lstm_gradient(torch: Any, given: Any) -> Callable[[], Any]:
    module = _torch_module(torch, "LSTM", given)

    def gradient() -> Any:
        module.zero_grad()
        (module(given[3])[0] ** 2).mean().backward()
        return [module.weight_ih_l0.grad, module.weight_hh_l0.grad, module.bias_ih_l0.grad]

    return gradient

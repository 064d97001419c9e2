"""The workloads of `benchmarks/cpu.py`: JAX functions with arguments, and the same functions in torch.

XLA and xlapy get the same HLO, which JAX lowers from each function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LARGE_ARRAY_SIZE = 1 << 24
"""The number of elements of the large f32 arrays: 64 MiB each."""

LARGE_MATRIX_SIZE = 4096
"""The number of rows, and of columns, of the large matrices."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """A function and its arguments.

    `torch` maps the module `torch` to the same function of tensors, if torch has one. `x64`: traced with JAX's 64-bit
    types.
    """

    group: str
    function: Function
    arguments: Callable[[], Sequence[Any]]
    torch: Callable[[Any], Function] | None = None
    x64: bool = False


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _vectors(count: int = 2) -> Callable[[], Sequence[np.ndarray]]:
    return lambda: [normal(LARGE_ARRAY_SIZE, seed=n) for n in range(count)]


def _square() -> Sequence[np.ndarray]:
    return [normal(LARGE_MATRIX_SIZE, LARGE_MATRIX_SIZE)]


# -- elementwise


def _gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=True)


def _bf16_chain(a: Any, b: Any) -> Any:
    return jnp.maximum((a + b) * a - b, 0) * 2 + a


def _bf16_arguments() -> Sequence[Any]:
    return [np.asarray(jnp.asarray(normal(LARGE_ARRAY_SIZE, seed=n), jnp.bfloat16)) for n in range(2)]


ELEMENTWISE = {
    "add": Workload("memory", lambda a, b: a + b, _vectors(), lambda t: t.add),
    "fused chain": Workload("memory", _bf16_chain, _vectors()),
    "bf16 chain": Workload("memory", _bf16_chain, _bf16_arguments),
    "exp": Workload("mathematics", jnp.exp, _vectors(1), lambda t: t.exp),
    "tanh": Workload("mathematics", jnp.tanh, _vectors(1), lambda t: t.tanh),
    "erf": Workload("mathematics", jax.scipy.special.erf, _vectors(1), lambda t: t.erf),
    "gelu": Workload(
        "mathematics", _gelu, _vectors(1), lambda t: lambda x: t.nn.functional.gelu(x, approximate="tanh")
    ),
    "sin": Workload("mathematics", jnp.sin, _vectors(1), lambda t: t.sin),
    "log": Workload("mathematics", lambda a: jnp.log(jnp.abs(a)), _vectors(1)),
    "pow": Workload("mathematics", lambda a, b: jnp.abs(a) ** b, _vectors()),
}

# -- reductions and rows


def _layer_norm(a: Any) -> Any:
    return (a - a.mean(-1, keepdims=True)) / jnp.sqrt(a.var(-1, keepdims=True) + 1e-5)


REDUCTIONS = {
    "sum of all": Workload("sums", jnp.sum, _square, lambda t: t.sum),
    "sums of rows": Workload("sums", lambda a: a.sum(1), _square, lambda t: lambda a: a.sum(1)),
    "sums of columns": Workload("sums", lambda a: a.sum(0), _square, lambda t: lambda a: a.sum(0)),
    "argmax of rows": Workload("rows", lambda a: a.argmax(1), _square, lambda t: lambda a: a.argmax(1)),
    "softmax": Workload("rows", lambda a: jax.nn.softmax(a, -1), _square, lambda t: lambda a: t.softmax(a, -1)),
    "layer norm": Workload(
        "rows", _layer_norm, _square, lambda t: lambda a: t.nn.functional.layer_norm(a, a.shape[-1:])
    ),
    "cumulative sums": Workload(
        "rows", lambda a: jnp.cumsum(a, 1), lambda: [normal(1024, 1024)], lambda t: lambda a: t.cumsum(a, 1)
    ),
    "cumulative sum of 1M": Workload("rows", jnp.cumsum, lambda: [normal(1 << 20)], lambda t: lambda a: t.cumsum(a, 0)),
    "top 1,000 of 1M": Workload(
        "rows", lambda a: jax.lax.top_k(a, 1000), lambda: [normal(1 << 20)], lambda t: lambda a: t.topk(a, 1000)
    ),
    "sort 262,144": Workload("rows", jnp.sort, lambda: [normal(1 << 18)], lambda t: lambda a: t.sort(a)[0]),
}

# -- movement


def _stencil(a: Any) -> Any:
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]


def _rows_to_gather() -> Sequence[np.ndarray]:
    return [normal(65536, 128), np.random.default_rng(2).integers(0, 65536, 65536).astype(np.int32)]


def _numbers(limit: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, limit, 1 << 20).astype(np.int32)


MOVEMENT = {
    "transpose": Workload("movement", lambda a: a.T, _square, lambda t: lambda a: a.T.contiguous()),
    "permute 3-D, times 2": Workload(
        "movement",
        lambda a: a.transpose(2, 0, 1) * 2,
        lambda: [normal(256, 256, 256)],
        lambda t: lambda a: (a.permute(2, 0, 1) * 2).contiguous(),
    ),
    "reverse": Workload("movement", lambda a: a[:, ::-1], _square, lambda t: lambda a: a.flip(1)),
    "concatenate": Workload(
        "movement", lambda a: jnp.concatenate([a, a], 1), _square, lambda t: lambda a: t.cat([a, a], 1)
    ),
    "pad": Workload(
        "movement",
        lambda a: jnp.pad(a, ((1, 2), (3, 4))),
        _square,
        lambda t: lambda a: t.nn.functional.pad(a, (3, 4, 1, 2)),
    ),
    "stencil": Workload("movement", _stencil, _square, lambda t: _stencil),
    "gather of rows": Workload("movement", lambda a, i: a[i], _rows_to_gather, lambda t: lambda a, i: a[i.long()]),
    "sums into 1M": Workload(
        "movement",
        lambda a, i, b: a.at[i].add(b),
        lambda: [normal(1 << 20), _numbers(1 << 20), normal(1 << 20, seed=1)],
        lambda t: lambda a, i, b: a.index_add(0, i, b),
    ),
    "histogram": Workload(
        "movement",
        lambda i: jnp.bincount(i, length=256),
        lambda: [_numbers(256)],
        lambda t: lambda i: t.bincount(i, minlength=256),
    ),
}

# -- loops with small bodies


def _repeated(count: int) -> Function:
    return lambda start: jax.lax.fori_loop(0, count, lambda _, v: v * 1.0001 + 1, start)


def _updates(a: Any) -> Any:
    return jax.lax.fori_loop(1, 10_000, lambda i, a: a.at[i].set(a[i - 1] * 0.5 + i), a)


def _recurrent(w: Any, h: Any, xs: Any) -> Any:
    return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h[0]), h, xs)


def _small_step(matrix: Any, x: Any, number: int) -> Any:
    """Applies five instructions that are not one elementwise chain: XLA needs minutes to compile long chains with
    reductions.
    """
    return jnp.maximum(matrix @ x + number % 7, 0.1) * 0.9 - x


def _tiny_operations(matrix: Any, x: Any) -> Any:
    def body(_: Any, x: Any) -> Any:
        for number in range(100):
            x = _small_step(matrix, x, number)
        return x

    return jax.lax.fori_loop(0, 1000, body, x)


def _three_bodies(position: Any, velocity: Any) -> Any:
    def acceleration(position: Any) -> Any:
        difference = position[None] - position[:, None]
        distance = (difference**2).sum(-1) + jnp.eye(3)
        return (difference / distance[..., None] ** 1.5).sum(1)

    def step(state: Any, _: Any) -> Any:
        position, velocity = state
        velocity = velocity + 1e-3 * acceleration(position)
        return (position + 1e-3 * velocity, velocity), None

    return jax.lax.scan(step, (position, velocity), length=10_000)[0]


def _scan_gradient(w: Any, h: Any, xs: Any) -> Any:
    def loss(w: Any) -> Any:
        return jax.lax.scan(lambda h, x: (jnp.tanh(w * h + x), None), h, xs)[0].sum()

    return jax.grad(loss)(w)


def _viterbi(transitions: Any, emissions: Any) -> Any:
    def forward(score: Any, emission: Any) -> Any:
        candidates = score[:, None] + transitions
        return candidates.max(0) + emission, candidates.argmax(0)

    last, pointers = jax.lax.scan(forward, emissions[0], emissions[1:])
    final = last.argmax()
    _, path = jax.lax.scan(lambda state, row: (row[state], state), final, pointers, reverse=True)
    return last.max(), path


def _bodies() -> Sequence[np.ndarray]:
    return [normal(3, 3).astype(np.float64), normal(3, 3, seed=1).astype(np.float64)]


LOOPS = {
    "while, 1M scalar steps": Workload("loops", _repeated(1_000_000), lambda: [np.float32(1)]),
    "while, 100k of 16": Workload("loops", _repeated(100_000), lambda: [np.ones(16, np.float32)]),
    "updates in a loop": Workload("loops", _updates, lambda: [normal(1 << 20)]),
    "recurrent network": Workload(
        "loops", _recurrent, lambda: [normal(64, 64) / 10, normal(8, 64), normal(256, 8, 64)]
    ),
    "500 tiny ops, 1,000 times": Workload("loops", _tiny_operations, lambda: [normal(4, 4) / 4, normal(4)]),
    "three bodies, f64": Workload("loops", _three_bodies, _bodies, x64=True),
    "gradient of a scan": Workload("loops", _scan_gradient, lambda: [normal(16), normal(16), normal(2000, 16)]),
    "Viterbi": Workload("loops", _viterbi, lambda: [normal(64, 64), normal(1000, 64)]),
}

# -- small programs, long programs, training


def _many_results(x: Any) -> Any:
    return [x * (n + 1) for n in range(20)]


def _straight_line(matrix: Any, x: Any) -> Any:
    for number in range(400):
        x = _small_step(matrix, x, number)
    return x


def _training_step(parameters: Any, momentum: Any, images: Any, labels: Any) -> Any:
    def loss(parameters: Any) -> Any:
        x = images
        for w, b in parameters[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = parameters[-1]
        return -(jax.nn.log_softmax(x @ w + b) * labels).sum(1).mean()

    value, gradient = jax.value_and_grad(loss)(parameters)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda p, m: p - 0.1 * m, parameters, momentum), momentum, value


def _training_arguments() -> Sequence[Any]:
    sizes = [784, 256, 256, 10]
    pairs = itertools.pairwise(sizes)
    parameters = [(normal(m, n, seed=m) / m**0.5, np.zeros(n, np.float32)) for m, n in pairs]
    momentum = [(w * 0, b * 0) for w, b in parameters]
    labels = np.eye(10, dtype=np.float32)[np.random.default_rng(0).integers(0, 10, 128)]
    return [parameters, momentum, normal(128, 784, seed=5), labels]


PROGRAMS = {
    "tiny add": Workload("dispatch", lambda a, b: a + b, lambda: [np.ones(4, np.float32)] * 2, lambda t: t.add),
    "20 small results": Workload("dispatch", _many_results, lambda: [np.ones(4, np.float32)]),
    "2,000 instructions in line": Workload("programs", _straight_line, lambda: [normal(4, 4) / 4, normal(4)]),
    "MLP training step": Workload("programs", _training_step, _training_arguments),
    "dot 512": Workload(
        "programs", lambda a, b: a @ b, lambda: [normal(512, 512), normal(512, 512, seed=1)], lambda t: t.matmul
    ),
}

# -- linear algebra and transforms


def _definite(*shape: int) -> np.ndarray:
    root = normal(*shape)
    return root @ root.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32)


def _complex(*shape: int) -> np.ndarray:
    return normal(*shape) + np.complex64(1j) * normal(*shape, seed=1)


LINEAR_ALGEBRA = {
    "cholesky 512": Workload(
        "linear algebra", jnp.linalg.cholesky, lambda: [_definite(512, 512)], lambda t: t.linalg.cholesky
    ),
    "solve 512": Workload(
        "linear algebra",
        jnp.linalg.solve,
        lambda: [normal(512, 512), normal(512, 64, seed=1)],
        lambda t: t.linalg.solve,
    ),
    "eigh 256": Workload("linear algebra", jnp.linalg.eigh, lambda: [_definite(256, 256)], lambda t: t.linalg.eigh),
    "svd 256": Workload(
        "linear algebra",
        lambda a: jnp.linalg.svd(a, full_matrices=False),
        lambda: [normal(256, 256)],
        lambda t: lambda a: t.linalg.svd(a, full_matrices=False),
    ),
    "1,000 inverses of 32 x 32": Workload(
        "linear algebra", jnp.linalg.inv, lambda: [normal(1000, 32, 32)], lambda t: t.linalg.inv
    ),
    "fft, 1,024 rows of 1,024": Workload(
        "transforms", jnp.fft.fft, lambda: [_complex(1024, 1024)], lambda t: t.fft.fft
    ),
    "fft of 1M": Workload("transforms", jnp.fft.fft, lambda: [_complex(1 << 20)], lambda t: t.fft.fft),
    "rfft, 1,024 rows of 1,024": Workload(
        "transforms", jnp.fft.rfft, lambda: [normal(1024, 1024)], lambda t: t.fft.rfft
    ),
    "fft 128 x 128 x 128": Workload(
        "transforms", jnp.fft.fftn, lambda: [_complex(128, 128, 128)], lambda t: t.fft.fftn
    ),
    "fft, 256 rows of 1,009": Workload("transforms", jnp.fft.fft, lambda: [_complex(256, 1009)], lambda t: t.fft.fft),
}

WORKLOADS = {**ELEMENTWISE, **REDUCTIONS, **MOVEMENT, **LOOPS, **PROGRAMS, **LINEAR_ALGEBRA}

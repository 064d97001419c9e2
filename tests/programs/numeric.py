"""Programs of the corpus from numerical computing: iterations, simulation, statistics, random numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special
from program import f32, f64, program, s32, spec, u32

Array = Any


@program("one step of k-means", f32(40, 2), f32(5, 2), optimized=True)
def kmeans_step(points: Array, centers: Array) -> Any:
    distance = ((points[:, None] - centers[None]) ** 2).sum(-1)
    nearest = jnp.argmin(distance, axis=1)
    member = jax.nn.one_hot(nearest, 5)
    count = member.sum(0)[:, None]
    return jnp.where(count > 0, member.T @ points / jnp.maximum(count, 1), centers), nearest


@program("square and cube roots by Newton's iteration until convergence", f32(8))
def newton_iteration(x: Array) -> Any:
    def solve(function: Any, start: Array) -> Array:
        slope = jax.vmap(jax.grad(function))

        def step(state: Any) -> Any:
            y, _, n = state
            new = y - jax.vmap(function)(y, x) / slope(y, x)
            return new, jnp.abs(new - y).max(), n + 1

        return lax.while_loop(lambda s: (s[1] > 1e-5) & (s[2] < 50), step, (start, jnp.float32(1), 0))[0]

    return solve(lambda y, a: y * y - a, x + 1), solve(lambda y, a: y**3 - a, x + 1)


@program("Mandelbrot set by a while loop on complex64", spec("complex64", 12, 12), s32())
def mandelbrot(c: Array, limit: Array) -> Array:
    def step(state: Any) -> Any:
        i, z, count = state
        z = jnp.where(jnp.abs(z) <= 2, z * z + c, z)
        return i + 1, z, count + (jnp.abs(z) <= 2)

    return lax.while_loop(lambda s: s[0] < limit, step, (0, jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[2]


@program("signal filters: FIR by convolution, IIR by scan, correlation, decimation", f32(64), f32(9), f32(3))
def signal_filters(signal: Array, taps: Array, poles: Array) -> Any:
    def recursive(state: Array, x: Array) -> Any:
        y = x - (poles * state).sum()
        return jnp.concatenate([y[None], state[:-1]]), y

    smooth = jnp.convolve(signal, taps, mode="same")
    return (
        smooth,
        jnp.correlate(signal, taps, mode="full"),
        lax.scan(recursive, jnp.zeros(3), signal)[1],
        smooth[::4],
    )


@program("one leapfrog step of N bodies", f32(10, 3), f32(10, 3), f32(10), optimized=True)
def nbody_step(position: Array, velocity: Array, mass: Array) -> Any:
    def acceleration(p: Array) -> Array:
        offset = p[None] - p[:, None]
        distance = (offset**2).sum(-1) + 0.01
        return (offset * (mass[None] * distance**-1.5)[..., None]).sum(1)

    velocity = velocity + 0.005 * acceleration(position)
    position = position + 0.01 * velocity
    velocity = velocity + 0.005 * acceleration(position)
    return position, velocity, 0.5 * (mass * (velocity**2).sum(-1)).sum()


@program("threefry bits, split and folded keys", u32(2), optimized=True)
def threefry_bits(key: Array) -> Any:
    left, right = jax.random.split(key)
    return (
        jax.random.bits(key, (7,)),
        jax.random.bits(left, (3, 4), jnp.uint8),
        jax.random.fold_in(right, 5),
        left,
    )


@program("random distributions: uniform, normal, integers, exponential, gumbel, categorical, permutation", u32(2))
def random_distributions(key: Array) -> Any:
    keys = jax.random.split(key, 8)
    return (
        jax.random.uniform(keys[0], (5,)),
        jax.random.normal(keys[1], (2, 3)),
        jax.random.randint(keys[2], (6,), -3, 9),
        jax.random.exponential(keys[3], (4,)),
        jax.random.gumbel(keys[4], (4,)),
        jax.random.bernoulli(keys[7], 0.3, (5,)),
        jax.random.categorical(keys[5], jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=(5,)),
        jax.random.permutation(keys[6], 9),
    )


@program("Monte Carlo integration in a loop", u32(2), s32())
def monte_carlo_pi(key: Array, rounds: Array) -> Array:
    def step(i: Array, inside: Array) -> Array:
        xy = jax.random.uniform(jax.random.fold_in(key, i), (50, 2))
        return inside + ((xy**2).sum(-1) < 1).sum()

    return 4 * lax.fori_loop(0, rounds, step, 0) / (50 * rounds)


@program("linear regression by conjugate gradients", f32(30, 6), f32(30))
def conjugate_gradient(features: Array, target: Array) -> Any:
    def product(v: Array) -> Array:
        return features.T @ (features @ v) + 0.1 * v

    def step(state: Any) -> Any:
        x, r, p, rr, n = state
        q = product(p)
        alpha = rr / (p @ q)
        x, r = x + alpha * p, r - alpha * q
        new = r @ r
        return x, r, r + new / rr * p, new, n + 1

    b = features.T @ target
    start = (jnp.zeros(6), b, b, b @ b, 0)
    return lax.while_loop(lambda s: (s[3] > 1e-8) & (s[4] < 20), step, start)[0]


def lotka_volterra(y: Array) -> Array:
    prey, hunters = y
    return jnp.stack([1.1 * prey - 0.4 * prey * hunters, 0.1 * prey * hunters - 0.4 * hunters])


@program("Lotka-Volterra equations by RK4 in a fori_loop", f32(2), s32())
def runge_kutta(state: Array, steps: Array) -> Array:
    def step(_: Array, y: Array) -> Array:
        h = 0.05
        k1 = lotka_volterra(y)
        k2 = lotka_volterra(y + h / 2 * k1)
        k3 = lotka_volterra(y + h / 2 * k2)
        k4 = lotka_volterra(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, steps, step, state)


@program("double pendulum energy, gradient and Hessian in float64", f64(4), f64(), x64=True)
def pendulum_float64(state: Array, length: Array) -> Any:
    def energy(s: Array) -> Array:
        a, b, u, v = s
        kinetic = 0.5 * u**2 + 0.5 * (u**2 + v**2 + 2 * u * v * jnp.cos(a - b))
        return length**2 * kinetic - 9.81 * length * (2 * jnp.cos(a) + jnp.cos(b))

    return energy(state), jax.grad(energy)(state), jax.hessian(energy)(state)


@program("quadrature by Simpson and Gauss in float64", f64(), f64(), x64=True)
def quadrature_float64(low: Array, high: Array) -> Any:
    x = jnp.linspace(low, high, 101)
    weights = jnp.where(jnp.arange(101) % 2 == 1, 4.0, 2.0).at[jnp.array([0, 100])].set(1.0)
    y = jnp.exp(-(x**2)) * jnp.cos(3 * x)
    return (weights * y).sum() * (high - low) / 300, jnp.trapezoid(y, x), jnp.cumsum(y)[::10]


@program("heat equation by explicit steps, periodic and fixed borders", f32(12, 12), f32(), optimized=True)
def heat_equation(field: Array, rate: Array) -> Array:
    def step(u: Array, _: Any) -> Any:
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        u = u + rate * (around - 4 * u)
        u = u.at[0].set(1.0).at[-1].set(0.0)
        return u, u.mean()

    return lax.scan(step, field, None, length=20)


@program("Conway's game of life by convolution", spec("int8", 16, 16), s32())
def game_of_life(board: Array, generations: Array) -> Array:
    def step(_: Array, cells: Array) -> Array:
        padded = jnp.pad(cells, 1, mode="wrap").astype(jnp.float32)
        kernel = jnp.ones((3, 3)).at[1, 1].set(0.0)
        around = lax.conv(padded[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]
        return ((around == 3) | ((cells == 1) & (around == 2))).astype(jnp.int8)

    return lax.fori_loop(0, generations, step, board)


@program("all shortest paths by Floyd and Warshall", f32(10, 10))
def floyd_warshall(weights: Array) -> Array:
    def step(k: Array, d: Array) -> Array:
        return jnp.minimum(d, d[:, k][:, None] + d[k][None])

    return lax.fori_loop(0, 10, step, jnp.abs(weights).at[jnp.arange(10), jnp.arange(10)].set(0.0))


@program("edit distance of two words by nested scans", s32(12), s32(9))
def edit_distance(left: Array, right: Array) -> Array:
    def row(previous: Array, letter: Array) -> Any:
        def cell(carry: Array, item: Any) -> Any:
            other, above, diagonal = item
            best = jnp.minimum(jnp.minimum(above, carry) + 1, diagonal + (letter != other))
            return best, best

        first = previous[0] + 1
        rest = lax.scan(cell, first, (right, previous[1:], previous[:-1]))[1]
        return jnp.concatenate([first[None], rest]), None

    return lax.scan(row, jnp.arange(10, dtype=jnp.int32), left)[0][-1]


@program("Viterbi decoding with traceback", f32(5, 5), f32(20, 5), f32(5))
def viterbi(transition: Array, emission: Array, start: Array) -> Any:
    def forward(score: Array, observed: Array) -> Any:
        candidates = score[:, None] + transition
        return candidates.max(0) + observed, jnp.argmax(candidates, 0)

    score, pointers = lax.scan(forward, start + emission[0], emission[1:])
    last = jnp.argmax(score)
    path = lax.scan(lambda state, pointer: (pointer[state], pointer[state]), last, pointers, reverse=True)[1]
    return score.max(), jnp.concatenate([path, last[None]])


@program("forward algorithm of a hidden Markov model and its gradient", f32(4, 4), f32(12, 4))
def markov_forward(transition: Array, emission: Array) -> Any:
    def likelihood(t: Array, e: Array) -> Array:
        log_t = jax.nn.log_softmax(t, axis=1)

        def step(alpha: Array, observed: Array) -> Any:
            return special.logsumexp(alpha[:, None] + log_t, axis=0) + observed, None

        return special.logsumexp(lax.scan(step, e[0], e[1:])[0])

    return jax.value_and_grad(likelihood, argnums=(0, 1))(transition, emission)


@program("Kalman filter in two dimensions with inverses by hand", f32(15, 2), f32(2), f32(2, 2))
def kalman_filter(observations: Array, state: Array, covariance: Array) -> Any:
    motion = jnp.array([[1.0, 0.1], [0.0, 1.0]])
    noise = 0.1 * jnp.eye(2)

    def inverse(m: Array) -> Array:
        (a, b), (c, d) = m
        return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)

    def step(carry: Any, z: Array) -> Any:
        x, p = carry
        x, p = motion @ x, motion @ p @ motion.T + noise
        gain = p @ inverse(p + noise)
        x, p = x + gain @ (z - x), (jnp.eye(2) - gain) @ p
        return (x, p), x

    return lax.scan(step, (state, covariance @ covariance.T), observations)


@program("Gaussian elimination with partial pivoting in a loop", f32(6, 6), f32(6))
def gaussian_elimination(matrix: Array, right: Array) -> Array:
    def eliminate(k: Array, a: Array) -> Array:
        rows = jnp.arange(6)
        pivot = jnp.argmax(jnp.where(rows >= k, jnp.abs(a[:, k]), -1.0))
        a = a.at[jnp.stack([k, pivot])].set(a[jnp.stack([pivot, k])])
        factor = jnp.where(rows > k, a[:, k] / a[k, k], 0.0)
        return a - factor[:, None] * a[k]

    def substitute(i: Array, x: Array) -> Array:
        k = 5 - i
        return x.at[k].set((upper[k, 6] - upper[k, :6] @ x) / upper[k, k])

    upper = lax.fori_loop(0, 6, eliminate, jnp.concatenate([matrix, right[:, None]], axis=1))
    return lax.fori_loop(0, 6, substitute, jnp.zeros(6))


@program("largest eigenvalue by power iteration, matrix exponential by squaring", f32(5, 5))
def matrix_functions(m: Array) -> Any:
    symmetric = m + m.T

    def step(v: Array, _: Any) -> Any:
        w = symmetric @ v
        return w / jnp.linalg.norm(w), v @ w

    vector, values = lax.scan(step, jnp.ones(5) / jnp.sqrt(5.0), None, length=15)
    term = total = jnp.eye(5)
    for n in range(1, 8):
        term = term @ (m / 16) / n
        total = total + term
    return vector, values, lax.fori_loop(0, 4, lambda _, e: e @ e, total)


@program("Black-Scholes prices and sensitivities", f32(6), f32(6), f32(6))
def black_scholes(spot: Array, strike: Array, volatility: Array) -> Any:
    def price(s: Array, k: Array, v: Array) -> Array:
        d1 = (jnp.log(s / k) + 0.5 * v**2) / v
        return s * special.ndtr(d1) - k * special.ndtr(d1 - v)

    return jax.vmap(price)(spot, strike, volatility), jax.vmap(jax.grad(price, (0, 1, 2)))(spot, strike, volatility)


@program("Fourier transform by matrix product in complex64", spec("complex64", 16), optimized=True)
def fourier_by_matrix(x: Array) -> Any:
    n = jnp.arange(16)
    matrix = jnp.exp(-2j * jnp.pi * n[:, None] * n[None] / 16).astype(jnp.complex64)
    spectrum = matrix @ x
    return spectrum, matrix.conj() @ spectrum / 16, jnp.abs(spectrum) ** 2


@program("image resizing: nearest, linear, cubic; Sobel edges", f32(8, 10), f32(3, 3))
def image_processing(image: Array, kernel: Array) -> Any:
    edges = tuple(jax.scipy.signal.convolve2d(image, k, mode="same") for k in (kernel, kernel.T))
    return (
        jax.image.resize(image, (16, 5), "nearest"),
        jax.image.resize(image, (12, 15), "linear"),
        jax.image.resize(image, (5, 20), "cubic"),
        jnp.hypot(*edges),
        jax.scipy.ndimage.map_coordinates(image, [jnp.linspace(0, 7, 6), jnp.linspace(0, 9, 6)], order=1),
    )


@program("log-gamma, digamma, error functions and their inverses", f32(12), f32(12))
def special_gamma(positive: Array, unit: Array) -> Any:
    return (
        special.gammaln(positive),
        special.digamma(positive),
        special.gamma(positive),
        special.erf(positive),
        special.erfc(positive),
        special.erfinv(unit),
        special.ndtri(0.5 + unit / 2),
        special.xlogy(positive, positive),
        special.entr(positive),
        special.logit(0.5 + unit / 2),
        special.betaln(positive, positive),
    )


@program("incomplete gamma functions", f32(8), f32(8))
def special_igamma(a: Array, x: Array) -> Any:
    return special.gammainc(a, x), special.gammaincc(a, x)


@program("incomplete beta function", f32(6), f32(6), f32(6))
def special_betainc(a: Array, b: Array, x: Array) -> Array:
    return special.betainc(a, b, x)


@program("Bessel functions and exponential integrals", f32(10))
def special_bessel(x: Array) -> Any:
    return (
        special.i0(x),
        special.i0e(x),
        special.i1(x),
        special.i1e(x),
        special.expi(x),
        special.zeta(x + 2, x + 1),
    )


@program("Rosenbrock's function: gradient, Hessian, a Newton step, line search", f32(4))
def rosenbrock_newton(x: Array) -> Any:
    def value(y: Array) -> Array:
        return (100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2).sum()

    gradient = jax.grad(value)(x)
    curvature = jnp.diagonal(jax.hessian(value)(x))
    direction = -gradient / jnp.maximum(jnp.abs(curvature), 1.0)

    def worse(state: Any) -> Array:
        return (value(x + state[0] * direction) > value(x) + 1e-4 * state[0] * gradient @ direction) & (state[1] < 30)

    rate, _ = lax.while_loop(worse, lambda s: (s[0] * 0.5, s[1] + 1), (jnp.float32(1), 0))
    return x + rate * direction, gradient, jax.jacfwd(jax.grad(value))(x)


@program("primes by sieve, Collatz lengths, greatest common divisors", s32(10), s32(10))
def number_theory(x: Array, y: Array) -> Any:
    def strike(i: Array, sieve: Array) -> Array:
        n = jnp.arange(60)
        return jnp.where(sieve[i] & (n > i) & (n % i == 0), False, sieve)

    def collatz(n: Array) -> Array:
        def step(state: Any) -> Any:
            return jnp.where(state[0] % 2 == 0, state[0] // 2, 3 * state[0] + 1), state[1] + 1

        return lax.while_loop(lambda s: (s[0] > 1) & (s[1] < 200), step, (n, 0))[1]

    sieve = lax.fori_loop(2, 8, strike, jnp.arange(60) > 1)
    return sieve, sieve.sum(), jax.vmap(collatz)(x), jnp.gcd(x, y), jnp.lcm(x, y)


@program("knapsack by dynamic programming", s32(8), f32(8))
def knapsack(weights: Array, values: Array) -> Array:
    def item(best: Array, pair: Any) -> Any:
        weight, value = pair
        capacity = jnp.arange(30)
        taken = jnp.where(capacity >= weight, best[jnp.maximum(capacity - weight, 0)] + value, -jnp.inf)
        return jnp.maximum(best, taken), taken.max()

    return lax.scan(item, jnp.zeros(30), (weights, values))[0]


@program("Metropolis sampling of an Ising model", spec("int32", 8, 8), u32(2), f32())
def ising_model(spins: Array, key: Array, beta: Array) -> Any:
    colour = (jnp.arange(8)[:, None] + jnp.arange(8)) % 2

    def sweep(s: Array, i: Array) -> Any:
        field = jnp.roll(s, 1, 0) + jnp.roll(s, -1, 0) + jnp.roll(s, 1, 1) + jnp.roll(s, -1, 1)
        chance = jnp.exp(-2.0 * beta * (s * field).astype(jnp.float32))
        draw = jax.random.uniform(jax.random.fold_in(key, i), (8, 8))
        s = jnp.where((draw < chance) & (colour == i % 2), -s, s)
        return s, s.mean()

    return lax.scan(sweep, spins, jnp.arange(10))


@program("statistics: covariance, correlation, standard scores, weighted moments", f32(20, 4), f32(20))
def statistics(x: Array, weights: Array) -> Any:
    w = jnp.abs(weights) / jnp.abs(weights).sum()
    mean = w @ x
    centred = (x - mean) / x.std(0)
    return jnp.cov(x.T), jnp.corrcoef(x.T), mean, (w[:, None] * centred**3).sum(0), (centred**4).mean(0)

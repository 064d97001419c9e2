"""Random valid modules on cpu against the interpreter: no death, no hang, no unexplained difference.

A unit is one module. By its seed it is one of four kinds: instruction by instruction on all types; a whole program of
exact operations; dynamic dimensions; several devices with collectives. The last three must agree in every bit; the
first by the tolerances of the operations, except for the known divergences. A module is compiled and run in a process
that may die, with limits on time and memory.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from tests.stress.harness import Amount, Run, Stress
from xlapy import opcodes
from xlapy.base.element_types import PRED, S8, S16, S32, S64, U8, U16, U32, U64
from xlapy.base.errors import XlaError
from xlapy.debugging.fuzzing.differential import arguments_of, compare
from xlapy.debugging.fuzzing.implementations import find_implementation, run_on_platform
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError, WorkerTimeout
from xlapy.hlo.module import Module
from xlapy.runtime import Client
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.random_modules.collective_module import device_arguments, random_collective_module
from xlapy.testing.random_modules.dynamic import random_dynamic_module

SECONDS = 60.0
"""The limit for a module on both implementations, on a machine with other work; none takes more than a few seconds."""
MEMORY = 12 << 30
"""Bytes of address space."""
MODULES_PER_PROCESS = 400

EXACT_TYPES = (PRED, S8, S16, S32, S64, U8, U16, U32, U64)
GRIDS = ((4, 1), (2, 2), (1, 4), (8, 1), (4, 2))


# -- in the child process


class _InThisProcess:
    """Calls an implementation without another process: this one may die already."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def call(self, *arguments: Any, **keywords: Any) -> Any:
        try:
            return self._function(*arguments, **keywords)
        except XlaError as error:
            raise WorkerError(error.code, error.message) from error


def instructions(seed: int) -> list[str]:
    """Every instruction of a module, on all element types, from operands that the interpreter computed."""
    cpu = find_implementation("cpu")
    module = random_module(seed, instructions=20, without=cpu.without)
    outcomes = compare(module, arguments_of(module, seed), cpu, _InThisProcess(run_on_platform))
    return [str(outcome) for outcome in outcomes if outcome.is_bad]


def whole_program(seed: int) -> list[str]:
    """A program whose instructions are fused, share buffers and are reordered; integers have the same bits."""
    module = random_module(seed, instructions=40, element_types=EXACT_TYPES, without=_inexact())
    return _different_bits(module, [random_arguments([p.shape for p in module.entry_computation.parameters], seed)])


@cache
def _inexact() -> tuple[Any, ...]:
    """Operations that compute with floating-point numbers whatever the element types are, and those not on cpu."""
    return (*find_implementation("cpu").without, opcodes.RNG)


def dynamic_dimensions(seed: int) -> list[str]:
    module = random_dynamic_module(seed)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, seed)
    return _different_bits(module, [arguments], without_padding)


def without_padding(values: Sequence[Any]) -> list[Any]:
    """Returns arrays without padding, and their sizes: each array is followed by as many sizes as it has dimensions."""
    rest, results = list(values), list[Any]()
    while rest:
        array = rest.pop(0)
        sizes = [rest.pop(0) for _ in range(array.ndim)]
        results += [array[tuple(map(slice, map(int, sizes)))], *sizes]
    return results


def devices(seed: int) -> list[str]:
    replicas, partitions = GRIDS[seed // 4 % len(GRIDS)]
    module = random_collective_module(seed, replicas, partitions, portable=False, asynchronous=seed % 8 == 3)
    return _different_bits(module, device_arguments(module, seed))


KINDS = (instructions, whole_program, dynamic_dimensions, devices)


def examine(seed: int) -> list[str]:
    """Returns the differences of a module's results; raises whatever else went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    return KINDS[seed % len(KINDS)](seed)


@cache
def _client(platform: str) -> Client:
    return Client(platform, devices=8)


def _different_bits(
    module: Module, arguments: Sequence[Sequence[Any]], defined: Callable[[Sequence[Any]], Sequence[Any]] = list
) -> list[str]:
    ours, theirs = (
        defined(_results(_client(platform).compile(module), arguments)) for platform in ("cpu", "interpreter")
    )
    assert len(ours) == len(theirs)
    return [
        f"result {number}: cpu {_described(left)}, interpreter {_described(right)}"
        for number, (left, right) in enumerate(zip(ours, theirs, strict=True))
        if not _same(left, right)
    ]


def _described(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)} {array.tolist()}"


def _results(executable: Any, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [leaf for result in executable.execute_sharded(arguments) for leaf in leaves(result)]


def leaves(value: Any) -> list[Any]:
    """Returns the arrays of a result."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [np.asarray(value)] if hasattr(value, "__array__") else []


def _same(left: Any, right: Any) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "biu":
        return bool(np.array_equal(left, right))
    return bool(np.all((left == right) | ((left != left) & (right != right))))


# -- the process that hands out modules


def run(run: Run) -> None:
    threads = 1 if run.short else 2
    seeds = iter(range(run.seed * 1_000_000, (run.seed + 1) * 1_000_000))

    def some(worker: Worker) -> None:
        while run.goes_on:
            for _ in range(MODULES_PER_PROCESS):
                if not run.goes_on:
                    break
                _one(run, worker, next(seeds))
            worker.close()

    workers = [Worker(f"{__name__}:examine", seconds=SECONDS) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(some, worker) for worker in workers]:
            future.result()


def _one(run: Run, worker: Worker, seed: int) -> None:
    kind = KINDS[seed % len(KINDS)].__name__.replace("_", " ")
    try:
        differences = worker.call(seed)
    except WorkerTimeout as error:
        run.count("hangs")
        run.fault(f"module {seed} ({kind}): {error}")
    except WorkerDied as error:
        run.count("deaths")
        run.fault(f"module {seed} ({kind}): {error}")
    except WorkerError as error:
        run.count("errors")
        run.fault(f"module {seed} ({kind}): {error}")
    else:
        if differences:
            run.count("unexplained differences")
            run.fault(f"module {seed} ({kind}): {'; '.join(differences)[:2000]}")
    run.count(kind)
    run.advance()


STRESS = Stress("random valid modules on cpu against the interpreter", Amount(40), Amount(20_000), run)

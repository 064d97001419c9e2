"""Trials: a kernel alone in a program, with one plan or another, on the same arguments.

Responsible for compiling and timing them, and for the check that a plan computes what the operations mean. Does not
depend on which plans are tried.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.errors import XlaError
from xlapy.base.logging import logger
from xlapy.codegen.extraction import kernel_module
from xlapy.codegen.plan import KernelPlan, record_plan
from xlapy.codegen.tuning import NO_TUNED_PLANS
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.target import host_target
from xlapy.hlo import edit
from xlapy.runtime import Executable, block_until_ready
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.buffer import copy_to_buffer
from xlapy.runtime.device import Device
from xlapy.testing.program_tolerance import ProgramTolerance, program_tolerance
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.tune.kernels import TunableKernel

MIN_SAMPLE_SECONDS = 2e-3
"""The minimum duration of one timed sample. Kernels that take less run several times per sample."""

HOPELESS = 1.5
"""A plan whose first calls take this many times as long as the best one is not measured any further."""

COLD = 8.0
"""How many times as long as later calls the first call of a plan may take, which loads its code."""

MAX_ARGUMENT_SETS = 64
"""The largest number of copies of the arguments of a kernel whose data the program finds in memory."""

Call = Callable[[], None]


class Bench:
    """A kernel alone: its module, its arguments, and the results of its default plan."""

    def __init__(self, kernel: TunableKernel, seed: int) -> None:
        self.module = kernel_module(kernel.instructions[0])
        shape = self.module.entry_computation.program_shape
        self._arguments = random_arguments(shape.parameters, seed)
        self._sets = [
            [copy_to_buffer(np.asarray(argument)) for argument in self._arguments]
            for _ in range(_argument_sets(kernel, sum(parameter.byte_size for parameter in shape.parameters)))
        ]
        self._next = 0
        self._tolerance: ProgramTolerance | None = None
        self.default = self.compiled(kernel.choice.plan)
        self._default_results = self.results(self.default)

    def compiled(self, plan: KernelPlan) -> Executable:
        """Returns the kernel with a plan."""
        copy = edit.clone_module(self.module)
        record_plan(copy.entry_computation.root_instruction, plan)
        compiled = compile_module(copy, optimized=True, tuned=NO_TUNED_PLANS)
        program = CpuProgram(compiled, copy.entry_computation.program_shape, (), 1)
        return Executable(copy, program, "cpu", [Device(0, "cpu")])

    def results(self, executable: Executable) -> list[np.ndarray[Any, Any]]:
        """Returns the arrays that a plan computes."""
        found = block_until_ready(executable(*self._arguments))
        return [np.array(array) for array in (found if isinstance(found, tuple) else (found,))]

    def is_right(self, executable: Executable) -> bool:
        """Whether a plan computes the bits of the default plan, or results within the tolerance of the kernel's
        operations, as the interpreter computes it. Results that cannot be checked are not right."""
        results = self.results(executable)
        pairs = zip(results, self._default_results, strict=True)
        if all(one.tobytes() == other.tobytes() for one, other in pairs):
            return True
        is_tuple = self.module.entry_computation.root_instruction.shape.is_tuple
        try:
            if self._tolerance is None:
                flushes = flags.get("denormals") == "flush"
                self._tolerance = program_tolerance(self.module, self._arguments, flush_denormals=flushes)
            self._tolerance.assert_close(tuple(results) if is_tuple else results[0])
        except AssertionError:
            return False
        except (XlaError, MemoryError) as error:
            logger.info("results of %s cannot be checked: %s", self.module.name, error)
            return False
        return True

    def run(self, executable: Executable) -> None:
        """Runs a plan once, and waits for its results."""
        self._next = (self._next + 1) % len(self._sets)
        block_until_ready(executable(*self._sets[self._next]))

    def seconds(self, executable: Executable, count: int) -> float:
        """Returns the mean seconds of some calls, one after the other."""
        begin = time.perf_counter()
        for _ in range(count):
            self.run(executable)
        return (time.perf_counter() - begin) / count

    def ratio(self, executable: Executable, reference: Executable, runs: int, limit: float = HOPELESS) -> float:
        """Returns the time of a plan divided by that of another one, measured alternately; of one that is hopeless, the
        ratio of single calls.

        The median of the samples' ratios or the ratio of the fastest samples, whichever says less of a difference.
        """
        own = min(self.seconds(reference, 1) for _ in range(2))
        first = self.seconds(executable, 1)
        if first <= COLD * limit * own:
            first = min(self.seconds(executable, 1) for _ in range(2))
        if first > limit * own:
            return first / own
        count = max(1, round(MIN_SAMPLE_SECONDS / max(own, 1e-7)))
        pairs = [(self.seconds(executable, count), self.seconds(reference, count)) for _ in range(runs)]
        median = statistics.median(one / other for one, other in pairs)
        fastest = min(one for one, _ in pairs) / min(other for _, other in pairs)
        return max(median, fastest) if median < 1 or fastest < 1 else min(median, fastest)


def _argument_sets(kernel: TunableKernel, size: int) -> int:
    """Returns how many copies of the arguments exceed the caches, if the program finds the data in memory; else 1."""
    if not kernel.is_in_memory or not size:
        return 1
    return max(1, min(MAX_ARGUMENT_SETS, 2 * host_target().l3_bytes // size))


def alternate(calls: Sequence[Call], runs: int) -> list[float]:
    """Returns the median seconds of each call; they alternate in every run."""
    counts: list[int] = []
    for call in calls:
        call()
        begin = time.perf_counter()
        call()
        counts.append(max(1, round(MIN_SAMPLE_SECONDS / max(time.perf_counter() - begin, 1e-7))))
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for call, count, found in zip(calls, counts, samples, strict=True):
            begin = time.perf_counter()
            for _ in range(count):
                call()
            found.append((time.perf_counter() - begin) / count)
    return [statistics.median(found) for found in samples]

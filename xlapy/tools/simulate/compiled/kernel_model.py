"""The time of one thunk on one thread of a machine that was measured: the longer of arithmetic and memory.

Responsible for the class of a kernel, by which its speed was measured, and for the time by these speeds. Does not
depend on how threads and devices share the processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xlapy import opcodes
from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND, L2_BYTES, TRANSPOSED_BYTES_PER_CYCLE
from xlapy.analysis.simulation.machine import CompiledRates
from xlapy.analysis.simulation.operation_time import index_elements
from xlapy.codegen.strategies import Choice
from xlapy.cpu.target import host_caches
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.loops.operations import kernel_operations
from xlapy.opcodes.sorting import SortAttributes
from xlapy.runtime.machine import Bandwidth, Roofline
from xlapy.text.describe import computing
from xlapy.tools.profile.reuse import Access
from xlapy.tools.simulate.compiled.kernel_cycles import ArithmeticCycles, Core

PRODUCT_CLASSES: Final = frozenset({
    "depthwise-gradient", "direct-convolution", "direct-gemm", "fft", "grouped-convolution", "im2col",
    "inner-products", "kernel-gradient", "packed-gemm", "ragged-gemm", "skinny-gemm", "skinny-inner-products",
    "tile-gemm", "winograd",
})  # fmt: skip
"""Kernels that count by their multiply-adds, which they compute at a part of the peak. All others count by cycles."""

TRANSPOSE: Final = "transpose"

_SIMILAR: Final = {
    "skinny-gemm": "inner-products", "skinny-inner-products": "inner-products", "im2col": "packed-gemm",
    "ragged-gemm": "packed-gemm", "kernel-gradient": "direct-convolution", "depthwise-gradient": "grouped-convolution",
    "grouped-convolution": "direct-convolution", "attention-gradient": "attention-f32",
    "attention-f64": "attention-f32", "attention-f16": "attention-bf16",
}  # fmt: skip
"""For classes that are not measured, the class whose speed they have; the others have that of `loops`."""

_SHUFFLING: Final = {opcodes.GATHER: "gather", opcodes.SCATTER: "scatter"}
"""Operations that access elements in an order which depends on data."""


class KernelModel:
    """The rates of compiled kernels of a machine."""

    def __init__(self, rates: CompiledRates) -> None:
        self.rates = rates
        self._core = Core(rates.division, rates.square_root, rates.window)
        self._roofline = Roofline(
            rates.threads, rates.operations, tuple(Bandwidth(int(size), *row) for size, *row in rates.memory)
        )
        self._l2_bytes = host_caches().get(2, L2_BYTES)
        self._cycles: dict[Kernel, ArithmeticCycles] = {}

    def cycles(self, kernel: Kernel) -> ArithmeticCycles:
        """Returns the cycles of a kernel, and the bytes that it touches."""
        found = self._cycles.get(kernel)
        if found is None:
            found = self._cycles[kernel] = ArithmeticCycles(kernel, self._core)
        return found

    def transpose_seconds(self, kernel: Kernel, accesses: Sequence[Access]) -> float:
        """Returns the seconds of one thread for a transpose with its accesses to memory, which are part of its speed.

        The speed depends on the bytes that were touched since the last access to the arrays: in samples, on the sizes
        of the arrays.
        """
        distance = max((access.distance for access in accesses), default=0.0)
        return self.arithmetic_seconds(kernel, TRANSPOSE, distance / TRANSPOSED_BYTES_PER_CYCLE)

    def arithmetic_seconds(self, kernel: Kernel, name: str, length: float = 0.0) -> float:
        """Returns the seconds of one thread for the arithmetic of a kernel.

        name: its class. length: the size on which the speed of the class depends; 0 for the estimated cycles.
        """
        estimate = self.estimated_seconds(kernel, name)
        curve = self.rates.speeds.get(name) or self.rates.speeds.get(_SIMILAR.get(name, "loops"))
        if curve is None:
            curve = self.rates.speeds["loops"]
        return estimate / curve.at(max(1.0, length or estimate * 1e6 * CYCLES_PER_MICROSECOND))

    def estimated_seconds(self, kernel: Kernel, name: str) -> float:
        """Returns the seconds of one thread at the speed 1."""
        if name in PRODUCT_CLASSES:
            operations = kernel_operations(kernel)
            if operations.is_known and operations.counts:
                return self._roofline.arithmetic_seconds(operations.counts) * self.rates.threads
        if name == TRANSPOSE:  # the extents of its tiles vary
            touched = sum(self.cycles(kernel).touched_bytes.values())
            return touched / TRANSPOSED_BYTES_PER_CYCLE / CYCLES_PER_MICROSECOND * 1e-6
        return self.cycles(kernel).arithmetic_cycles / CYCLES_PER_MICROSECOND * 1e-6

    def memory_seconds(self, accesses: Sequence[Access]) -> float:
        """Returns the seconds of one thread for accesses to memory while all threads are busy."""
        touched = sum(access.touched for access in accesses)
        if not touched:
            return 0.0
        written = sum(access.touched for access in accesses if access.is_written)
        updated = sum(access.touched for access in accesses if access.is_update)
        read = touched - written + updated
        whole = [self._whole_seconds(read, written, access.distance, updated) for access in accesses]
        return sum(one * access.touched / touched for one, access in zip(whole, accesses, strict=True))

    def combined_seconds(self, arithmetic: float, memory: float, accesses: Sequence[Access]) -> float:
        """Returns the seconds of one thread for both: the longer one, and of the shorter one the part that does not run
        beside it, as far as data come from beyond the level-2 cache."""
        touched = sum(access.touched for access in accesses)
        far = sum(access.touched for access in accesses if access.distance > self._l2_bytes)
        alone = (1 - self.rates.overlap) * far / touched if touched else 0.0
        return max(arithmetic, memory) + alone * min(arithmetic, memory)

    def _whole_seconds(self, read: float, written: float, distance: float, in_place: float) -> float:
        threads = self.rates.threads
        return self._roofline.memory_seconds(threads * read, threads * written, threads * distance, threads * in_place)


def class_of(plan: Choice | None, instruction: Instruction | None) -> str:
    """Returns the class of a kernel: its strategy or, without a plan, the opcode of its instruction."""
    if instruction is None:
        return "loops"
    name = instruction.op.name if plan is None else plan.plan.strategy
    if name == "sort":
        return "sort" if len(instruction.operands) == 1 else "sort-pairs"
    if name == "attention":
        return f"attention-{instruction.operands[0].shape.element_type}"
    if name in ("loops", "fusion"):
        found = shuffled(instruction)
        name = "loops" if found is None else _SHUFFLING[found.op]
    return name


def shuffled(instruction: Instruction | None) -> Instruction | None:
    """Returns the first gather or scatter of a kernel; None if it has none."""
    inside = () if instruction is None else computing(instruction)
    return next((one for one in inside if one.op in _SHUFFLING), None)


def length_of(instruction: Instruction | None) -> float:
    """Returns the size on which the speed of a class depends, beside its cycles; 0 if there is none."""
    if instruction is None:
        return 0.0
    for one in computing(instruction):
        attributes = one.attributes
        if isinstance(attributes, SortAttributes):
            return float(one.operands[0].shape.dimensions[attributes.dimension])
        if one.op in _SHUFFLING:
            return float(index_elements(one))
    return 0.0

"""Describes the machine of a simulation: the rates of a device, and the links between devices by level.

Responsible for these records and for the interpolation of rates. Does not depend on files, measurements or programs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import log2

from xlapy.base.element_types import PrimitiveType
from xlapy.opcodes.registry import OpDef


@dataclass(frozen=True, slots=True)
class Curve:
    """A rate that depends on a size: points (size, rate), the smallest size first.

    Between two points, the time per unit, 1 / rate, changes in proportion to the logarithm of the size. Outside, the
    rate is that of the nearest point.

    Example: with points (1024, 4e9) and (4096, 2e9), the rate at 2048 is 2.67e9.
    """

    points: tuple[tuple[float, float], ...]

    @staticmethod
    def constant(rate: float) -> Curve:
        return Curve(((1.0, rate),))

    def at(self, size: float) -> float:
        """Returns the rate at a size."""
        above = bisect_right([point[0] for point in self.points], size)
        if above == 0 or above == len(self.points):
            return self.points[max(0, above - 1)][1]
        (low, slow), (high, fast) = self.points[above - 1 : above + 1]
        part = log2(size / low) / log2(high / low)
        return 1 / ((1 - part) / slow + part / fast)


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """What a device does in a second; of a machine whose devices share processors, what one processor does."""

    products: Mapping[str, Curve]
    """Operations of matrix multiplications, convolutions and Fourier transforms per second, by element type of the
    operands, as `f32`, or by opcode and type, as `convolution-f32`. `default` stands for what is not listed. A curve
    over the operations of one kernel."""
    elementwise: float
    """Arithmetic operations on single elements per second."""
    transcendentals: float
    """Transcendental functions per second."""
    bandwidth: Curve
    """Bytes read and written per second: a curve over the bytes that the device accesses before it accesses an array
    again, which decide in which memory the array is."""
    kernel_overhead: float = 0.0
    """Seconds to start a kernel."""
    elements: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    """Elements of four bytes per second for single opcodes, as `tanh` or `sort`; those that are missing count by their
    operations. A curve over the length of rows for `sort`, over the elements of an index for `gather` and `scatter`,
    else over the number of elements. `reduce-window` is the rate of cumulative reductions."""
    chains: Curve = field(default_factory=lambda: Curve.constant(1.0))
    """The part of the rate of functions that a kernel reaches, over the number of functions that wait for each other:
    a processor overlaps fewer elements if each takes more instructions."""

    def products_of(self, op: OpDef, element_type: PrimitiveType) -> Curve:
        """Returns the rate of products by an operation on operands of an element type."""
        names = (f"{op.name}-{element_type}", str(element_type), "default")
        return next(self.products[name] for name in names if name in self.products)


class Algorithm(Enum):
    """How the devices of a level exchange data."""

    RING = "ring"
    """n - 1 steps to the next device, or 2 (n - 1) for an all-reduce."""
    HALVING = "halving"
    """log2 n steps with halved or doubled messages (recursive halving and doubling), or 2 log2 n for an all-reduce."""
    BEST = "best"
    """The faster of both."""
    SHARED_MEMORY = "shared-memory"
    """Devices of one process, which meet once and then copy through memory; all of them share its bandwidth."""


@dataclass(frozen=True, slots=True)
class Link:
    """latency: seconds of a step, or per device for `SHARED_MEMORY`. bandwidth: bytes per second that each device sends
    while it receives as many, a curve over the bytes of a device. For `SHARED_MEMORY`: those that all devices together
    move, a curve over the bytes of all."""

    latency: float
    bandwidth: Curve


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the hierarchy of links, such as a node: `size` units of the level below, or 0 if it has no bound."""

    name: str
    size: int
    link: Link
    algorithm: Algorithm = Algorithm.BEST
    collectives: Mapping[str, Link] = field(default_factory=dict[str, Link])
    """Links as they were measured by collectives of a kind, such as `all-reduce`."""

    def link_of(self, kind: str) -> Link:
        return self.collectives.get(kind, self.link)


@dataclass(frozen=True, slots=True)
class CompiledRates:
    """What the kernels of the CPU compiler take on a machine whose devices are threads of a process.

    With these rates, a program is lowered to kernels, and each of them counts by its statements and by the memory that
    it touches. Rates of `DeviceRates` are then used for nothing but custom calls.
    """

    processor: str
    """The processor that was measured: kernels of another one are different."""
    threads: int
    operations: Mapping[str, float]
    """Operations per second of all threads together, by the name of the type, as `f32`; `f64` etc."""
    memory: tuple[tuple[float, ...], ...]
    """Bytes per second of all threads together that each go through a working set: rows of its size in bytes and the
    rates of reading, writing, copying, adding two arrays, updating in place and accumulating in place."""
    division: float
    """Cycles of the reference machine that the division of a vector register of f32 takes."""
    square_root: float
    window: float
    """Instructions that a processor has under way at once, which bounds how many iterations of a loop overlap."""
    overlap: float
    """The part of the shorter of arithmetic and accesses to memory that runs beside the longer one, from 0 to 1, of
    data that come from beyond the level-2 cache. Within it, the longer one counts."""
    speeds: Mapping[str, Curve]
    """How many times as fast as estimated kernels are, by their strategy or opcode: a curve over the length of rows for
    `sort`, over the elements of an index for `gather` and `scatter`, else over the estimated cycles. Of products: the
    part of the peak of `operations` that they reach."""
    pace: float
    """How many times as long kernels take in a step of a program as by themselves, again and again: devices and threads
    have slept, and other kernels have used the caches and the tables of pages."""
    handover: float
    """Seconds in which threads that share a loop find each other."""
    meeting: float
    """Seconds that each device of a process adds when devices meet again and again in a loop."""
    line: Curve
    """Meetings per second of devices that have just met, outside of such a loop; as `waiting`."""
    waiting: Curve
    """Meetings of devices that have computed since: how many there are in the time of one, per second; a curve over
    the number of devices. Example: the rate 2e4 stands for 50 microseconds."""


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """A machine. processors: the number of processors that the devices of an innermost unit share; 0 if each device has
    its own. memory: bytes of memory of a device; 0 if unknown. levels: the innermost first. launch: seconds of a step
    that each device of an innermost unit adds before its program starts. wake_up: seconds of a step until devices run
    that exchange data. compiled: the rates of compiled kernels, of a machine that runs them."""

    name: str
    rates: DeviceRates
    levels: tuple[Level, ...]
    processors: int = 0
    memory: int = 0
    launch: float = 0.0
    wake_up: float = 0.0
    compiled: CompiledRates | None = None

    def with_sizes(self, sizes: Mapping[int, int]) -> MachineDescription:
        """Returns the machine with other sizes of some levels, by the number of the level."""
        levels = [replace(level, size=sizes.get(number, level.size)) for number, level in enumerate(self.levels)]
        return replace(self, levels=tuple(levels))

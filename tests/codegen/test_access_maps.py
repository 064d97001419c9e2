"""Access maps agree with lowering: the elements that they say an iteration reads are those that its kernel loads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.analysis.integer_ranges import integer_range
from xlapy.base.error_codes.execution.custom_calls import TARGET_REGISTERED
from xlapy.base.error_codes.operations.operands import SUPPORTED_OPERATION
from xlapy.base.errors import XlaError
from xlapy.codegen.access_maps import Access, accesses, evaluate, stride
from xlapy.codegen.access_rules import ACCESS_RULES
from xlapy.codegen.iteration_space import IterationSpace
from xlapy.codegen.region import Region, operand_source, region_of
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import passes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops import Affine, Builder, Value
from xlapy.loops import evaluate as run_kernel
from xlapy.lower import LOWERINGS, Lowering, components
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.passes.pipeline import Pipeline
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import FAMILIES, samples_of

TARGET = Target(vector_bytes=64, vector_registers=32)
MAX_TERMS = 2000
"""Positions of the axes that a test goes through for one element."""


class Recording:
    """An array whose loads are recorded. Its elements are small numbers."""

    def __init__(self, dtype: np.dtype, size: int) -> None:
        self.loads: set[int] = set()
        self.array = np.random.default_rng(size).integers(0, 4, max(size, 1)).astype(dtype)

    def __getitem__(self, offset: int) -> object:
        assert 0 <= offset < len(self.array)
        self.loads.add(offset)
        return self.array[offset]


def loads_of(region: Region, index: Sequence[int]) -> dict[Instruction, set[int]]:
    """The offsets that the computation of the region's results at an index loads."""
    builder = Builder(region.name)
    sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
    lowering = Lowering(builder, sources)
    at = tuple(Affine((), position) for position in index)
    for result in region.results:
        lowering.elements(result, at)
    memory = {b.name: Recording(b.type.dtype, b.size) for b in builder.kernel.buffers}
    for operand, source in sources.items():
        if (limits := integer_range(operand)) is not None:  # indices within bounds are not clamped
            recorded = memory[source.buffer.name]
            recorded.array = np.clip(recorded.array.astype(np.int64), *limits).astype(recorded.array.dtype)
    run_kernel(builder.kernel, memory)  # type: ignore[arg-type]
    sizes = {o: components(o.shape.element_type) for o in region.operands}
    return {o: {offset // sizes[o] for offset in memory[s.buffer.name].loads} for o, s in sources.items()}


def assignments(terms: Sequence[Value]) -> Iterator[Mapping[Value, int]]:
    """All values of some axes and data-dependent positions."""
    ranges = [range(term.range[0], term.range[1] + 1) for term in terms if term.range is not None]
    for numbers in itertools.product(*ranges):
        yield dict(zip(terms, numbers, strict=True))


def leaves_of(access: Access) -> list[Value]:
    """The axes and data-dependent values that an access depends on."""
    found: dict[Value, None] = {}
    positions = [*access.index, *(condition.position for condition in access.conditions)]
    stack = [value for position in positions for value, _ in position.terms]
    while stack:
        value = stack.pop()
        if value.op in ("div", "mod"):
            stack += value.args
        else:
            found[value] = None
    return list(found)


def check_region(region: Region, index: Sequence[int], axes: Sequence[Value], found: Sequence[Access]) -> int:
    """Compares maps and loads at one index; returns the number of loads."""
    loads, must, may = loads_of(region, index), dict[Instruction, set[int]](), dict[Instruction, set[int]]()
    for access in found:
        free = [value for value in leaves_of(access) if value not in axes]
        if math.prod(term.range[1] - term.range[0] + 1 for term in free if term.range is not None) > MAX_TERMS:
            return 0
        known = dict(zip(axes, index, strict=True))
        depends_on_data = any(value.op == "data" for value in free)
        for numbers in assignments(free):
            values = {**known, **numbers}
            if all(c.low <= evaluate(c.position, values) < c.high for c in access.conditions):
                at = [evaluate(position, values) for position in access.index]
                sizes = access.operand.shape.dimensions
                offset = evaluate(access.offset, values)
                is_inside = all(0 <= position < size for position, size in zip(at, sizes, strict=True))
                assert is_inside or depends_on_data, (region.name, access.operand.name, at)
                for kind in (may,) if depends_on_data else (may, must):
                    kind.setdefault(access.operand, set()).add(offset)
    for operand, loaded in loads.items():
        assert must.get(operand, set()) <= loaded <= may.get(operand, set()), (region.name, operand.name, index)
    return sum(map(len, loads.values()))


def indices(dimensions: Sequence[int]) -> list[tuple[int, ...]]:
    """A few indices: the first, the last, and some in between."""
    if 0 in dimensions:
        return []
    rng = np.random.default_rng(len(dimensions))
    ends = [tuple(0 for _ in dimensions), tuple(size - 1 for size in dimensions)]
    return list(dict.fromkeys([*ends, *(tuple(int(rng.integers(size)) for size in dimensions) for _ in range(4))]))


def regions(module: Module) -> Iterator[Region]:
    """The regions of an optimized module that kernels compute."""
    for computation in module.computations:
        if computation.is_entry or any(c.op in (opcodes.WHILE, opcodes.CONDITIONAL) for c in computation.callers):
            for instruction in computation:
                if instruction.op in (opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.CONSTANT, opcodes.CALL):
                    continue
                is_kernel = instruction.op in LOWERINGS or instruction.op is opcodes.FUSION
                if is_kernel and not applies_unlowerable_computation(instruction):
                    yield region_of(instruction, TARGET)


def check_module(module: Module) -> int:
    """Compares the maps and the loads of all regions of a module; returns the number of loads."""
    Pipeline(passes()).run(module)
    total = 0
    for region in regions(module):
        shapes = [shape for _, shape in region.root.shape.leaves()]
        dimensions = shapes[0].dimensions
        if any(shape.dimensions != dimensions for shape in shapes) or max(dimensions, default=0) > 1 << 16:
            continue
        space = IterationSpace()
        positions = tuple(space.axis(size) for size in dimensions)
        axes = [position.terms[0][0] for position in positions]
        try:
            loads_of(region, [0] * len(dimensions)) if 0 not in dimensions else None
        except XlaError:
            continue  # it has no native form
        found = accesses(space, [(result, positions) for result in region.results], set(region.operands))
        total += sum(check_region(region, index, axes, found) for index in indices(dimensions))
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_samples(family: str):
    loads = 0
    for sample in list(samples_of(family))[:: 8 if family in ("elementwise", "random") else 1]:
        try:
            loads += check_module(xla.parse_hlo(sample.text))
        except XlaError as error:
            assert error.code in (SUPPORTED_OPERATION, TARGET_REGISTERED), f"{sample.name}: {error}"
    assert loads > 0 or family in ("tuples", "custom")


@pytest.mark.parametrize("seed", range(12))
def test_random_modules(seed: int):
    assert check_module(random_module(seed)) >= 0


def test_every_lowered_opcode_has_a_map():
    assert {op for op in LOWERINGS if not op.elementwise and op is not opcodes.CALL} == set(ACCESS_RULES)


def entry(*lines: str) -> Module:
    reducer = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }"
    return xla.parse_hlo("\n".join(["HloModule m", reducer, "ENTRY e {", *lines, "}"]))


PROGRAMS = {
    "padded and dilated": ["ROOT r = f32[10,13] pad(x, zero), padding=1_2_1x-1_3_1"],
    "cropped": ["ROOT r = f32[2,4] pad(x, zero), padding=-1_-1x-1_-1"],
    "reshape across rows": ["ROOT r = f32[3,8] reshape(x)"],
    "reshape of a slice": ["s = f32[3,2] slice(x), slice={[0:3], [0:6:3]}", "ROOT r = f32[2,3] reshape(s)"],
    "transpose of a reverse": ["v = f32[4,6] reverse(x), dimensions={1}",
                               "ROOT r = f32[6,4] transpose(v), dimensions={1,0}"],
    "concatenate": ["c = f32[4,12] concatenate(x, x), dimensions={1}",
                    "ROOT r = f32[12,4] transpose(c), dimensions={1,0}"],
    "window with holes": ["ROOT r = f32[4,3] reduce-window(x, zero), to_apply=add, "
                          "window={size=2x3 stride=2x2 pad=1_1x2_1 lhs_dilate=2x1 rhs_dilate=1x2}"],
    "reduce of rows": ["ROOT r = f32[6] reduce(x, zero), dimensions={0}, to_apply=add"],
    "reduce of a reshape": ["y = f32[2,12] reshape(x)",
                            "ROOT r = f32[2] reduce(y, zero), dimensions={1}, to_apply=add"],
    "dot": ["ROOT r = f32[6,6] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str):
    assert check_module(entry("x = f32[4,6] parameter(0)", "zero = f32[] constant(0)", *PROGRAMS[name]))


CONVOLUTIONS = {
    "grouped": ("f32[1,5,6,4]", "f32[3,3,2,6]", "f32[1,5,6,6]",
                "window={size=3x3 pad=1_1x1_1}, feature_group_count=2"),
    "batch groups": ("f32[4,5,6,3]", "f32[2,3,3,4]", "f32[2,4,4,4]", "window={size=2x3}, batch_group_count=2"),
    "strided and dilated": ("f32[1,7,6,2]", "f32[3,2,2,3]", "f32[1,3,6,3]",
                            "window={size=3x2 stride=2x1 pad=2_1x0_1 rhs_dilate=2x1}"),
    "transposed": ("f32[1,4,5,2]", "f32[3,3,2,3]", "f32[1,9,15,3]",
                   "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x3 rhs_reversal=1x0}"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str):
    lhs, rhs, result, window = CONVOLUTIONS[name]
    text = f"convolution(x, k), {window}, dim_labels=b01f_01io->b01f"
    assert check_module(entry(f"x = {lhs} parameter(0)", f"k = {rhs} parameter(1)", f"ROOT r = {result} {text}"))


def test_strides_and_dependence():
    space = IterationSpace()
    i, j = space.axis(8), space.axis(100)
    (a,), (b,) = ([value for value, _ in p.terms] for p in (i, j))
    position = i * 100 + j
    assert space.quotient(position, 100) == i and space.remainder(position, 100) == j
    assert (stride(position, a), stride(position, b)) == (100, 1)
    split = space.quotient(position, 7)
    assert stride(split, a) is None and stride(split, b) is None
    assert split * 7 + space.remainder(position, 7) == position
    assert stride(space.data((i,), 5) + j, a) is None
    assert stride(space.data((), 5) + j, a) == 0

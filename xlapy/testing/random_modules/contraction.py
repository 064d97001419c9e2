"""Op generators for dots and convolutions: any dimension numbers, groups, windows, precisions and mixed element
types."""

from __future__ import annotations

from math import prod

from xlapy.base.element_types import BF16, F8E8M0FNU, F32, F64, PRED, S32, S64, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Precision, Window, WindowDimension, dilated
from xlapy.opcodes.contraction import DOT, RAGGED_DOT, SCALED_DOT, DotAttributes, RaggedDotAttributes
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw


def _types(generator: ModuleGenerator) -> tuple[PrimitiveType, PrimitiveType, PrimitiveType]:
    """Returns the element types of lhs, rhs and result: mostly equal, sometimes with a wider result or mixed
    operands."""
    if generator.exact:
        t = generator.type(lambda t: t.is_integral)
        return t, t, t
    lhs = generator.type()
    if lhs.is_complex or lhs is PRED or generator.chance(0.7):
        return lhs, lhs, lhs
    wide = [
        t for t in ((S32, S64) if lhs.is_integral else (F32, F64)) if t.bits > lhs.bits and t in generator.choices.types
    ]
    result = generator.choice(wide) if wide else lhs
    rhs = generator.type(lambda t: t.is_floating == lhs.is_floating and t.is_integral == lhs.is_integral)
    return (lhs, lhs, result) if generator.chance(0.6) or rhs.bits > result.bits else (lhs, rhs, result)


def _precision(generator: ModuleGenerator) -> tuple[Precision, ...]:
    levels = list(Precision)
    return (generator.choice(levels), generator.choice(levels)) if generator.chance(0.2) else ()


def dot(generator: ModuleGenerator) -> None:
    """Adds a dot with up to two batch, two contracting and two free dimensions per side, in any order."""
    lhs_type, rhs_type, result_type = _types(generator)
    batch, contracting, left, right = (
        [generator.size() for _ in range(generator.choice(counts))]
        for counts in ((0, 0, 1, 2), (0, 1, 1, 2), (0, 1, 2), (0, 1, 2))
    )
    if prod(batch) * prod(contracting) * prod(left) * prod(right) > 8 * MAX_ELEMENTS:
        raise SkipDraw
    result = [*batch, *left, *right]
    lhs, lhs_places = _permuted(generator, [*batch, *contracting, *left])
    rhs, rhs_places = _permuted(generator, [*batch, *contracting, *right])
    if max(prod(lhs), prod(rhs), prod(result)) > MAX_ELEMENTS:
        raise SkipDraw
    # free dimensions keep their order
    left_sizes = [lhs[d] for d in sorted(lhs_places[len(batch) + len(contracting) :])]
    right_sizes = [rhs[d] for d in sorted(rhs_places[len(batch) + len(contracting) :])]
    paired = slice(len(batch), len(batch) + len(contracting))
    attributes = DotAttributes.make(
        lhs_batch_dims=tuple(lhs_places[: len(batch)]),
        lhs_contracting_dims=tuple(lhs_places[paired]),
        rhs_batch_dims=tuple(rhs_places[: len(batch)]),
        rhs_contracting_dims=tuple(rhs_places[paired]),
        operand_precision=_precision(generator),
    )
    operands = (generator.array_of(lhs, lhs_type), generator.array_of(rhs, rhs_type))
    generator.add(DOT, operands, attributes, shape=Shape.array(result_type, [*batch, *left_sizes, *right_sizes]))


def _permuted(generator: ModuleGenerator, sizes: list[int]) -> tuple[list[int], list[int]]:
    """Returns the sizes in random order, and the new index of each."""
    positions = generator.shuffled(range(len(sizes)))
    result = [0] * len(sizes)
    for size, index in zip(sizes, positions, strict=True):
        result[index] = size
    return result, positions


def ragged_dot(generator: ModuleGenerator) -> None:
    """Adds a ragged dot. The ragged dimension is free, contracting or batch; the groups may not cover all of it."""
    types = _types(generator)
    batch, rows, inner, columns, groups = (generator.positive(3) for _ in range(5))
    mode = generator.choice(("free", "contracting", "batch"))
    batched = mode == "batch" or generator.chance(0.5)
    left, right, result = [rows, inner], [inner, columns], [rows, columns]
    if batched:
        left, right, result = [batch, *left], [batch, *right], [batch, *result]
    first = len(left) - 2
    attributes = RaggedDotAttributes.make(
        lhs_batch_dims=tuple(range(first)),
        lhs_contracting_dims=(first + 1,),
        rhs_batch_dims=tuple(range(1, first + 1) if mode == "free" else range(first)),
        rhs_contracting_dims=(first + 1 if mode == "free" else first,),
        lhs_ragged_dims=({"free": first, "contracting": first + 1, "batch": 0}[mode],),
        rhs_group_dims=(0,) if mode == "free" else (),
        operand_precision=_precision(generator),
    )
    if mode == "free":
        right = [groups, *right]
    elif mode == "contracting":
        result = [groups, *result]
    lists = [batch, groups] if batched and mode != "batch" and generator.chance(0.5) else [groups]
    sizes = generator.constant(generator.rng.integers(0, 3, lists).astype(generator.choice((S32, S64)).dtype))
    operands = (generator.array_of(left, types[0]), generator.array_of(right, types[1]), sizes)
    generator.add(RAGGED_DOT, operands, attributes, shape=Shape.array(types[2], result))


def scaled_dot(generator: ModuleGenerator) -> None:
    """Adds a scaled dot with a scale per block of one or both operands."""
    if generator.exact or F8E8M0FNU not in generator.choices.types:
        raise SkipDraw
    narrow = generator.type(lambda t: t.is_floating and t.bits <= 8 and t is not F8E8M0FNU)
    rows, inner, columns = generator.positive(4), generator.choice((2, 4, 6)), generator.positive(4)
    sides: list[tuple[list[int], PrimitiveType, list[int], PrimitiveType]] = []
    unscaled = generator.choice((None, None, 0, 1))
    for side, sizes in enumerate(([rows, inner], [inner, columns])):
        blocks = [generator.choice([d for d in range(1, size + 1) if size % d == 0]) for size in sizes]
        scaled = (sizes, narrow, blocks, F8E8M0FNU)
        sides.append((sizes, BF16, [1, 1], BF16) if side == unscaled else scaled)
    attributes = DotAttributes.make(
        lhs_contracting_dims=(1,), rhs_contracting_dims=(0,), operand_precision=_precision(generator)
    )
    operands = [generator.array_of(sizes, t) for sizes, t, _, _ in sides] + [
        generator.array_of(b, t) for _, _, b, t in sides
    ]
    t = generator.type(lambda t: t in (BF16, F32))
    generator.add(SCALED_DOT, operands, attributes, shape=Shape.array(t, [rows, columns]))


def window_dimension(generator: ModuleGenerator, base: int, size: int) -> WindowDimension:
    """Returns a window dimension of a size over `base` elements. Negative padding removes at most all of them."""
    entry = WindowDimension(
        size,
        stride=generator.choice((1, 1, 2, 3)),
        padding_low=generator.choice((0, 0, 0, 1, 2, -1)),
        padding_high=generator.choice((0, 0, 0, 1, 2, -1)),
        base_dilation=generator.choice((1, 1, 1, 2, 3)),
        window_dilation=generator.choice((1, 1, 1, 2)),
    )
    padded = dilated(base, entry.base_dilation) + entry.padding_low + entry.padding_high
    return entry if padded >= 0 else WindowDimension(size)


def convolution(generator: ModuleGenerator) -> None:
    spatial = generator.choice((0, 1, 1, 2, 2, 2, 3))
    groups = generator.choice((1, 1, 1, 2, 3))
    by_batch = generator.chance(0.3)
    kernel_features, out = generator.positive(3), groups * generator.positive(2)
    features = kernel_features * (1 if by_batch else groups)
    batch = generator.positive(2) * (groups if by_batch else 1)
    base = [generator.size() for _ in range(spatial)]
    kernel = [generator.positive(3) for _ in range(spatial)]
    windows = [window_dimension(generator, *sizes) for sizes in zip(base, kernel, strict=True)]
    if generator.chance(0.3):
        windows = [_reversed(generator, w) for w in windows]
    result = [w.output_size(size) for w, size in zip(windows, base, strict=True)]
    lhs, lhs_places = _permuted(generator, [batch, features, *base])
    rhs, rhs_places = _permuted(generator, [kernel_features, out, *kernel])
    shape, positions = _permuted(generator, [batch // (groups if by_batch else 1), out, *result])
    if max(prod(lhs), prod(rhs), prod(shape)) > MAX_ELEMENTS:
        raise SkipDraw
    lhs_type, rhs_type, result_type = _types(generator)
    attributes = ConvolutionAttributes.make(
        window=Window(tuple(windows)),
        dim_labels=ConvDimensions(
            lhs_places[0],
            lhs_places[1],
            tuple(lhs_places[2:]),
            rhs_places[0],
            rhs_places[1],
            tuple(rhs_places[2:]),
            positions[0],
            positions[1],
            tuple(positions[2:]),
        ),
        feature_group_count=1 if by_batch else groups,
        batch_group_count=groups if by_batch else 1,
        operand_precision=_precision(generator),
    )
    operands = (generator.array_of(lhs, lhs_type), generator.array_of(rhs, rhs_type))
    generator.add(CONVOLUTION, operands, attributes, shape=Shape.array(result_type, shape))


def _reversed(generator: ModuleGenerator, w: WindowDimension) -> WindowDimension:
    return WindowDimension(
        w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation, w.window_dilation, generator.chance(0.5)
    )


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    *((DOT, dot) for _ in range(4)),
    *((CONVOLUTION, convolution) for _ in range(4)),
    (RAGGED_DOT, ragged_dot),
    (SCALED_DOT, scaled_dot),
)

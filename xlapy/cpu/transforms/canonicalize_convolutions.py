"""Brings the dimensions of convolutions and of select-and-scatter to the orders for which kernels are fast.

| form | input | kernel | result |
|---|---|---|---|
| any convolution | batch, spatial, feature | spatial, input feature, output feature | batch, spatial, feature |
| gradient of a kernel | feature, spatial, batch | input feature, spatial, output feature | spatial, batch, feature |

The second form is for windows that are larger than the result, as in the gradient with respect to a kernel. There the
"features" that are summed are the images of a batch, the "batch" are input channels, and the window is an image.

A convolution stays as it is where moving its arrays costs more than it saves. The windows of a select-and-scatter get
one element along the last dimension, if another dimension is long enough to fill vectors and the last one is not. Does
not depend on kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.emitters.select_and_scatter.gathering_geometry import MAX_LANE_STRIDE
from xlapy.cpu.transforms.move_transposes import TransposeMover
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.dimensions import ConvDimensions, PaddingConfig, PaddingDimension, Window, WindowDimension
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig
from xlapy.opcodes.movement import PadAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

MIN_PRODUCTS_PER_MOVED_ELEMENT = 32
"""The smallest number of products per element that is transposed. With fewer, the transposes take longer than a slower
kernel (`benchmarks.convolutions`, "nchw 1x1 256-64 @56" has about 50)."""

MIN_PRODUCTS = 1 << 14
"""The smallest number of products of a convolution whose arrays are transposed: a kernel more is not worth less."""

MAX_FEATURES_PER_GROUP = 8
"""Convolutions with at most so many features per group always get the order in which their groups are vectors."""


MIN_CHANNELS = 16
"""The smallest number of channels of a select-and-scatter that are moved to the last dimension, because they fill
vectors. The kernel without vectors takes about four times as long as the three transposes. As many windows along the
last dimension fill vectors, too: then the transposes take four times as long as the kernel (`benchmarks.convolutions`,
"max-pool gradient nchw 2x2/2 64 @224")."""


@dataclass(frozen=True)
class CanonicalizeConvolutions:
    """Transposes the operands and results of convolutions and select-and-scatter in other orders of dimensions."""

    name: ClassVar[str] = "canonicalize-convolutions"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            mover = TransposeMover()
            for instruction in post_order(computation):
                if instruction.op is opcodes.CONVOLUTION:
                    pad = _pad_instead_of_holes(instruction)
                    changed |= pad is not None
                    changed |= _canonicalize(instruction if pad is None else pad.operands[0], mover)
                    changed |= pad is not None and mover.move(pad)
                elif mover.move(instruction):
                    changed = True
                elif instruction.op is opcodes.SELECT_AND_SCATTER:
                    changed |= _move_channels_last(instruction)
        return update_schedule(module, changed)


def _pad_instead_of_holes(convolution: Instruction) -> Instruction | None:
    """Replaces a convolution by a pad of one without holes; returns the pad, or None if the convolution stays.

    Where a window has one element, a position meets an element of a dilated input or a hole, for which the result is
    zero. The gradient of a 1 x 1 convolution with stride 2 is such a convolution: three of four positions are holes.
    """
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    windows, n = attrs.window.dimensions, attrs.dim_labels
    dilated = [d for d, w in enumerate(windows) if w.size == 1 and w.base_dilation > 1 and w.stride == 1]
    if not dilated or any(o.shape.is_dynamic or not o.shape.size for o in (*convolution.operands, convolution)):
        return None
    write, sizes = Writer(convolution), list(convolution.shape.dimensions)
    padding = [PaddingDimension(0, 0, 0)] * len(sizes)
    for d in dilated:
        w, at = windows[d], n.output_spatial_dimensions[d]
        sizes[at] = convolution.operands[0].shape.dimensions[n.input_spatial_dimensions[d]]
        padding[at] = PaddingDimension(w.padding_low, w.padding_high, w.base_dilation - 1)
    window = Window(tuple(WindowDimension(size=1) if d in dilated else w for d, w in enumerate(windows)))
    made = write.add(
        opcodes.CONVOLUTION,
        *convolution.operands,
        attributes=attrs.replace(window=window),
        shape=convolution.shape.with_dimensions(sizes),
    )
    zero = write.scalar(0, convolution.shape.element_type)
    attributes = PadAttributes.make(padding=PaddingConfig(tuple(padding)))
    pad = write.add(opcodes.PAD, made, zero, attributes=attributes, shape=convolution.shape)
    replace_with_new(convolution, pad)
    return pad


def _is_profitable(convolution: Instruction, mover: TransposeMover) -> bool:
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    arrays = [*convolution.operands, convolution]
    if any(array.shape.is_dynamic or not array.shape.size or array.shape.rank < 3 for array in arrays):
        return False
    if attrs.sparsity_config != SparsityConfig() or convolution.has_control_edges:
        return False
    kernel, result = convolution.operands[1].shape, convolution.shape
    output_features = kernel.dimensions[attrs.dim_labels.kernel_output_feature_dimension]
    products = result.size * (kernel.size // output_features)
    if products < MIN_PRODUCTS:
        return False
    inputs = kernel.dimensions[attrs.dim_labels.kernel_input_feature_dimension]
    if (
        attrs.feature_group_count > 1
        and max(inputs, output_features // attrs.feature_group_count) <= MAX_FEATURES_PER_GROUP
    ):
        return True
    orders = list(zip(arrays, _labels(attrs.dim_labels), _canonical(convolution), strict=True))
    moved = sum(array.shape.size for array, before, after in orders if before != after)
    for operand, before, after in orders[:2]:
        if mover.is_free(operand, [before.index(d) for d in after]):
            moved -= operand.shape.size
    return products >= MIN_PRODUCTS_PER_MOVED_ELEMENT * moved


def _labels(numbers: ConvDimensions) -> tuple[str, str, str]:
    """The order of the dimensions of the input, the kernel and the result, as letters and digits."""
    lhs, rest = numbers.to_text().split("_")
    rhs, result = rest.split("->")
    return lhs, rhs, result


def _canonical(convolution: Instruction) -> tuple[str, str, str]:
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    n = attrs.dim_labels
    spatial = "".join(map(str, range(len(n.input_spatial_dimensions))))
    positions = math.prod(convolution.shape.dimensions[d] for d in n.output_spatial_dimensions)
    if math.prod(attrs.window.sizes) > positions and attrs.feature_group_count == 1:
        return f"f{spatial}b", f"i{spatial}o", f"{spatial}bf"
    return f"b{spatial}f", f"{spatial}io", f"b{spatial}f"


def _canonicalize(convolution: Instruction, mover: TransposeMover) -> bool:
    if not _is_profitable(convolution, mover):
        return False
    attrs: ConvolutionAttributes = convolution.attributes_as(ConvolutionAttributes)
    before, after = _labels(attrs.dim_labels), _canonical(convolution)
    if before == after:
        return False
    write = Writer(convolution)
    operands = [
        operand if old == new else write.transpose(operand, [old.index(d) for d in new])
        for operand, old, new in zip(convolution.operands, before, after, strict=False)
    ]
    numbers = ConvDimensions.parse(f"{after[0]}_{after[1]}->{after[2]}")
    order = [before[2].index(d) for d in after[2]]
    shape = convolution.shape.with_dimensions([convolution.shape.dimensions[d] for d in order])
    made = write.add(opcodes.CONVOLUTION, *operands, attributes=attrs.replace(dim_labels=numbers), shape=shape)
    result = write.transpose(made, [after[2].index(d) for d in before[2]])
    replace_with_new(convolution, result)
    mover.add(result)
    return True


def _move_channels_last(instruction: Instruction) -> bool:
    """Moves the last of the dimensions that fill vectors and that windows do not extend over behind all others.

    A last dimension whose windows fill vectors themselves stays.
    """
    operand, source, initial = instruction.operands
    windows = instruction.attributes_as(WindowAttributes).window.dimensions
    one = WindowDimension(size=1)
    if any(o.shape.is_dynamic for o in instruction.operands) or instruction.has_control_edges:
        return False
    if not windows or windows[-1] == one or operand.shape.size < MIN_PRODUCTS or not source.shape.size:
        return False
    if _runs_in_vectors(windows[-1], source.shape.dimensions[-1]):
        return False
    channels = [d for d, w in enumerate(windows) if w == one and operand.shape.dimensions[d] >= MIN_CHANNELS]
    if not channels:
        return False
    order = [*(d for d in range(len(windows)) if d != channels[-1]), channels[-1]]
    write = Writer(instruction)
    moved = write.transpose(operand, order)
    made = write.add(
        opcodes.SELECT_AND_SCATTER,
        moved,
        write.transpose(source, order),
        initial,
        attributes=instruction.attributes.replace(window=Window(tuple(windows[d] for d in order))),
        computations=instruction.computations,
        shape=moved.shape.with_element_type(instruction.shape.element_type),
    )
    replace_with_new(instruction, write.transpose(made, [order.index(d) for d in range(len(order))]))
    return True


def _runs_in_vectors(window: WindowDimension, positions: int) -> bool:
    """Whether the windows of a select-and-scatter along the last dimension fill vectors."""
    is_dilated = window.base_dilation > 1 or window.window_dilation > 1
    return positions >= MIN_CHANNELS and window.stride <= MAX_LANE_STRIDE and not is_dilated

"""The factors of a convolution: elements of its operands, or groups of them for dot instructions.

A group holds two or four neighboring input features (`matmul.group_formats`). A kernel that reads the input where it
lies uses groups if neighboring features are contiguous in memory, so that a group is one load, and if the features of a
group of the convolution fill whole groups. A kernel that packs the input forms groups of any features, and completes
the last one by zeros. If the format has an offset, the factors from the input contain it (`matmul.left_offset`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from xlapy.base.element_types import S32
from xlapy.codegen.element_locations import element_location
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.emitters.convolution.register_tiles import convolution_type
from xlapy.codegen.emitters.matmul.group_formats import (
    GroupFormat,
    add_products,
    group_format,
    left_offset,
    with_left_offset,
)
from xlapy.codegen.emitters.matmul.group_loads import GroupLoads, is_group
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, Affine, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add
from xlapy.lower.core import Index
from xlapy.lower.elementwise import convert_element


def group_size(target: Target, convolution: Instruction) -> int:
    """The number of input features that a dot instruction multiplies at once; 1 if the machine has none that loads the
    operands of a convolution where they lie."""
    input, filter = (operand.shape.element_type for operand in convolution.operands)
    form = group_format(target, input, filter, convolution_type(convolution), convolution.operands[1].shape.size)
    is_loaded = form is not None and input.bits * form.instruction.terms == I32.bits
    return form.instruction.terms if form is not None and is_loaded else 1


class ConvolutionFactors:
    """Loads and multiplies the factors of a convolution in a kernel under construction."""

    def __init__(
        self, target: Target, geometry: ConvolutionGeometry, lowering: Lowering, *, packs_input: bool = False
    ) -> None:
        self.geometry, self.lowering, self.builder = geometry, lowering, lowering.builder
        self.type = self.factor_type = self._element = convolution_type(geometry.root)
        """The types of sums and of factors."""
        self.form = self._group_format(target, packs_input)
        self.terms = 1 if self.form is None else self.form.instruction.terms
        """The number of elements that a factor holds."""
        self._loads = GroupLoads(self.builder, self.terms, geometry.inputs)
        self.inputs = self._loads.count
        """The number of factors for each offset in the window."""
        if self.form is not None:
            self.type, self.factor_type, self._element = self.form.sum, S32, self.form.element

    def _group_format(self, target: Target, packs_input: bool) -> GroupFormat | None:
        g = self.geometry
        types = g.input.shape.element_type, g.filter.shape.element_type, self.type
        form = group_format(target, *types, g.filter.shape.size // max(1, g.outputs))
        if form is None or packs_input:
            return form if form and g.inputs >= form.instruction.terms else None
        terms, origin = form.instruction.terms, [Affine()] * len(g.dimensions)
        first = [g.input_index(Affine(), Affine(), Affine((), number), origin) for number in range(terms)]
        is_loaded = is_group([element_location(self.lowering, g.input, index) for index in first])
        return form if is_loaded and g.inputs % terms == 0 else None

    def from_input(self, group: Affine, batch: Affine, factor: Affine, spatial: Sequence[Affine]) -> Element:
        """The factor with a number from the input, at a position."""
        g = self.geometry

        def index(feature: Affine) -> Index:
            return g.input_index(group, batch, feature, spatial)

        def element(feature: Affine) -> Element:
            found = self.lowering.element(g.input, index(feature))
            return convert_element(self.builder, found, g.input.shape.element_type, self._element)

        if self.form is None:
            return element(factor)
        loaded = self._loads.load(factor, element, lambda f: element_location(self.lowering, g.input, index(f)))
        return with_left_offset(self.builder, self.form, loaded)

    def left_offset(self) -> Element | None:
        """What every factor from the input contains besides its value, as `MatmulProblem.left_offset`."""
        return None if self.form is None else left_offset(self.builder, self.form)

    def from_filter(
        self, group: Affine, factor: Affine, output: Affine, offsets: Sequence[Affine], mask: Value | None
    ) -> Element:
        """The factor with a number from the filter, where the mask is true."""
        filter = self.geometry.filter

        def index(feature: Affine) -> Index:
            return self.geometry.filter_index(group, feature, output, offsets)

        def element(feature: Affine) -> Element:
            with nullcontext() if mask is None else self.lowering.where(mask):
                found = self.lowering.element(filter, index(feature))
            return convert_element(self.builder, found, filter.shape.element_type, self._element)

        if self.form is None:
            return element(factor)
        return self._loads.load(factor, element, lambda f: element_location(self.lowering, filter, index(f)), mask)

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        """The sum of a total and the product of a factor from the input and one from the filter."""
        if self.form is None:
            return multiply_add(self.builder, self.type, left, right, total)
        return add_products(self.builder, self.form, left, right, total)

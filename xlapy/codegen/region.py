"""A region: the instructions that one kernel computes, and the buffers through which the kernel reaches memory.

Every emitter takes a `Region` and returns kernels of loop IR. Their buffers are the region's operands in order, then
one buffer for each array of the result. Does not depend on how an emitter arranges its loops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.target import Target
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.loops import Affine, Buffer, Builder, PositionArithmetic
from xlapy.lower import Element, Lowering, Source, components, storage_type
from xlapy.lower.core import Index, delinear

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Region:
    """The computation of one kernel: `instructions` in post order, which read `operands` from memory."""

    name: str
    root: Instruction
    operands: tuple[Instruction, ...]
    instructions: tuple[Instruction, ...]
    target: Target
    _derived: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False, compare=False)

    def derived(self, derive: Callable[[Region], T]) -> T:
        """Returns `derive(self)`, computed at the first call."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        found: T = self._derived[derive]
        return found

    def forget_derived(self) -> None:
        """Forgets what `derived` has computed."""
        self._derived.clear()

    @property
    def results(self) -> tuple[Instruction, ...]:
        """The instructions whose values the kernel writes: the root, or the operands of a root tuple."""
        return self.root.operands if self.root.op is opcodes.TUPLE else (self.root,)


def region_of(instruction: Instruction, target: Target) -> Region:
    """Returns the fused computation of a fusion as a region; any other instruction is a region by itself.

    Reshapes at the root are left out. They move no element in memory, and the loops follow the dimensions of the array
    that is computed: those of a transposed or repeated array are no longer visible in the reshaped one.
    """
    if instruction.op is not opcodes.FUSION:
        operands = tuple(dict.fromkeys(instruction.operands))
        return Region(instruction.name, instruction, operands, (instruction,), target)
    fused = instruction.computations[0]
    root, reshapes = fused.root_instruction, set[Instruction]()
    while root.op is opcodes.RESHAPE and not is_parameter(root.operands[0]):
        reshapes.add(root)
        root = root.operands[0]
    instructions = tuple(i for i in post_order(fused) if not is_parameter(i) and i not in reshapes)
    return Region(instruction.name, root, tuple(fused.parameters), instructions, target)


def kernel_builder(name: str, target: Target) -> Builder:
    """Returns a builder of a kernel whose vectors fill the target's registers."""
    return Builder(name, target.vector_bytes)


def operand_source(builder: Builder, operand: Instruction, name: str) -> Source:
    """Adds a buffer to the kernel and returns it as the source of an operand's elements."""
    t = operand.shape.element_type
    return Source(builder.buffer(name, storage_type(t), operand.shape.size * components(t)), operand.shape)


def result_buffer(builder: Builder, shape: Shape, name: str) -> Buffer:
    """A new buffer that the kernel writes a result of this shape to."""
    t = shape.element_type
    return builder.buffer(name, storage_type(t), shape.size * components(t), written=True)


def result_indices(
    arithmetic: PositionArithmetic, region: Region, index: Index, position: Affine
) -> list[tuple[Instruction, Index]]:
    """Each result with the index of its element at one row-major position. index: in the first array of the result."""
    dimensions = first_array_shape(region.root.shape).dimensions
    found: list[tuple[Instruction, Index]] = []
    for result in region.results:
        shape = first_array_shape(result.shape)
        is_alike = shape.dimensions == dimensions
        found.append((result, index if is_alike else delinear(arithmetic, position, shape.dimensions)))
    return found


def result_elements(lowering: Lowering, region: Region, index: Index, position: Affine) -> list[Element]:
    """The elements of all results at one row-major position.

    All of them are computed before the caller stores any: a result may share its buffer with an operand.
    """
    found: list[Element] = []
    for result, at in result_indices(lowering.builder, region, index, position):
        element = lowering.elements(result, at)
        found += element if isinstance(element, list) else [element]
    return found

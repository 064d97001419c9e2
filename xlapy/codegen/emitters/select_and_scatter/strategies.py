"""The strategies of select-and-scatter: windows scatter to elements, or elements gather from windows."""

from __future__ import annotations

import math

from xlapy import opcodes
from xlapy.codegen.emitters.select_and_scatter.gathering import gathering_kernel
from xlapy.codegen.emitters.select_and_scatter.gathering_geometry import pooled_gradient
from xlapy.codegen.emitters.select_and_scatter.scattering import scattering_kernel
from xlapy.codegen.kernel_cost import operation_cycles
from xlapy.codegen.plan import Candidate, NoParameters, Rejection, Strategy
from xlapy.codegen.region import Region
from xlapy.loops import Kernel
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.opcodes.reduction import WindowAttributes


class GatherSourcesStrategy(Strategy[NoParameters]):
    """Combines each element with the sources of the windows that select it; takes a pad before and a slice after it."""

    name = "gather-sources"
    required_opcodes = frozenset({opcodes.SELECT_AND_SCATTER})
    computes_elements = False

    def candidate(self, region: Region) -> Candidate | Rejection:
        problem = region.derived(pooled_gradient)
        if problem is None:
            return Rejection("it is not a select-and-scatter over small windows without dilation")
        if problem.selected_bytes(1) > MAX_SCRATCH_BYTES // 2:
            return Rejection(f"the windows of a row take {problem.selected_bytes(1)} bytes")
        windows = problem.scatter.operands[1].shape.size * problem.area
        return Candidate(operation_cycles(2 * windows + 3 * region.root.shape.size, problem.lanes))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        problem = region.derived(pooled_gradient)
        assert problem is not None
        return [gathering_kernel(problem)]


def gathers_sources(region: Region) -> bool:
    """Whether this strategy computes a region."""
    return isinstance(GatherSourcesStrategy().candidate(region), Candidate)


class ScatterSourcesStrategy(Strategy[NoParameters]):
    """Combines the source of each window with the element that it selects."""

    name = "scatter-sources"
    required_opcodes = frozenset({opcodes.SELECT_AND_SCATTER})
    computes_elements = False

    def candidate(self, region: Region) -> Candidate | Rejection:
        root = region.root
        if root.op is not opcodes.SELECT_AND_SCATTER or len(region.instructions) > 1:
            return Rejection("it is not a select-and-scatter alone")
        window = math.prod(root.attributes_as(WindowAttributes).window.sizes)
        operations = root.shape.size + 6 * window * root.operands[1].shape.size
        return Candidate(operation_cycles(operations, region.target.lanes(root.shape.element_type.byte_size)))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        return [scattering_kernel(region.root, region.target)]

"""Prepares a program for the simulator: partitions it if its shardings ask for that, and optimizes it.

Responsible for deciding both. Does not depend on machines.
"""

from __future__ import annotations

from xlapy.analysis.simulation.communication import DeviceCounts, device_counts
from xlapy.analysis.simulation.mesh import MeshShape, change_mesh, mesh_of, mesh_shapes
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.compiler import passes
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.passes.pipeline import Pipeline
from xlapy.spmd.entry.partition_count import check_partition_count, needs_partitioning, partition_count_of
from xlapy.spmd.partitioner import partition


def prepared(module: Module, devices: int | None, optimize: bool | None) -> tuple[Module, DeviceCounts]:
    """Returns the program that each device runs, and the numbers of devices. The module is changed."""
    if needs_partitioning(module):
        count = partition_count_of(module, devices)
        check_partition_count(module, count)
        module.config.num_partitions = count
        partition(module, count)
    counts = device_counts(module, devices)
    if optimize or (optimize is None and not module.config.is_scheduled):
        Pipeline(passes(devices=(counts.replicas, counts.partitions))).run(module)
    return module, counts


def meshes_of(module: Module, devices: int | None, mesh: MeshShape | None) -> list[MeshShape]:
    """Returns the meshes of a sweep; `InvalidArgumentError` if the program names no mesh and none is given."""
    given = mesh or mesh_of(module)
    if given is None:
        raise InvalidArgumentError(codes.MESH_AXES, f"the shardings of {module.name} name no mesh: give --mesh")
    return list(mesh_shapes(given, devices or given.devices))


def with_mesh(module: Module, mesh: MeshShape | None, wanted: MeshShape) -> Module:
    """Returns a copy of a program over another mesh. mesh: that of the program, unless its shardings name it."""
    copy = clone_module(module)
    change_mesh(copy, mesh or mesh_of(module) or wanted, wanted)
    return copy

"""Compiled programs as one of several processes runs them.

Responsible for which code may run on which topology. Does not depend on launches.
"""

from __future__ import annotations

import copy
import dataclasses

from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.compiler import Compiled
from xlapy.cpu.program.communication.process_placement import ProcessPlacement
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.serialization.executable import LoadedProgram


def place_program(compiled: Compiled | LoadedProgram, topology: ProcessTopology | None) -> Compiled | LoadedProgram:
    """Returns a compiled program as a process of a topology runs it; the program itself if it runs in one process.

    `InvalidArgumentError` if the number of devices differs, or if code of one process is to span several.
    """
    program = compiled.program
    count = program.replica_count * program.partition_count
    if topology is None or not topology.spans_processes:
        topology = ProcessTopology.single_process(count) if program.spans_processes else None
    if topology is None:
        return compiled
    if not program.spans_processes or topology.device_count != count:
        made = f"{count} devices of {'several processes' if program.spans_processes else 'one process'}"
        raise InvalidArgumentError(
            codes.RUN_DEVICES,
            f"{program.name} was compiled for {made}, it cannot run on {topology.device_count} devices of processes "
            f"{list(topology.processes)}; compile it with this topology",
        )
    placed, own = copy.copy(compiled), dataclasses.replace(program)
    own.placement = ProcessPlacement(own, topology)
    placed.program = own
    return placed


def connect_alike(program: NativeProgram, connected: NativeProgram) -> None:
    """Connects a program to the same processes as another one, if that is connected."""
    own, other = program.placement, connected.placement
    if own is not None and other is not None and other.connection is not None:
        own.connect(other.connection)

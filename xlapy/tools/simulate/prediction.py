"""Simulates a program: on a machine whose compiled kernels were measured by its kernels, else by rates of operations.

Responsible for that choice. Does not depend on how results are shown.
"""

from __future__ import annotations

from dataclasses import replace

from xlapy.analysis.simulation.communication import DeviceCounts
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.outcome import Outcome
from xlapy.analysis.simulation.simulator import Options, simulate
from xlapy.analysis.simulation.topology import make_topology
from xlapy.cpu.llvm.processor import host_processor
from xlapy.hlo.module import Module
from xlapy.tools.simulate.compiled.program_time import ProgramTime

MAX_INSTRUCTIONS = 50_000
"""The largest program whose kernels are made; a larger one counts by rates of operations, with a warning."""


def predicted(module: Module, machine: MachineDescription, counts: DeviceCounts, options: Options) -> Outcome:
    """Returns what a step of an optimized program takes."""
    rates = machine.compiled
    if rates is None:
        return simulate(module, machine, counts, options)
    topology = make_topology(machine, counts.devices)
    local = counts.devices if len(topology.levels) == 1 else topology.innermost_devices
    reason = _reason_against_kernels(module, rates.processor)
    if reason:
        outcome = simulate(module, machine, counts, options)
        outcome.warnings.append(f"times are those of rates of operations, not of kernels: {reason}")
        return outcome
    time = ProgramTime(module, counts, rates, local)
    outcome = simulate(module, machine, counts, replace(options, seconds=time.seconds(), wakes=time.at_once))
    if time.host_calls:
        outcome.warnings.append(f"the time of {', '.join(time.host_calls)}, which the host computes, is unknown")
    return outcome


def _reason_against_kernels(module: Module, processor: str) -> str:
    if processor != host_processor().name:
        return f"the description is that of {processor}, kernels are made for {host_processor().name}"
    count = module.instruction_count
    return f"the program has {count} instructions" if count > MAX_INSTRUCTIONS else ""

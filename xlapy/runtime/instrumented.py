"""Instrumented twins of executables: the same program with clocks in it. Must not know: what their figures are for."""

from __future__ import annotations

from xlapy.cpu.compiler import Instrument
from xlapy.runtime.backends.cpu import CpuBackend, CpuProgram
from xlapy.runtime.executable import Executable


def compile_instrumented(executable: Executable, instrument: Instrument) -> tuple[Executable, CpuProgram]:
    """The instrumented copy of an executable of cpu."""
    assert isinstance(executable.program, CpuProgram), "the executable runs on cpu"
    devices = executable.num_replicas, executable.num_partitions
    program = CpuBackend().compile_instrumented(executable.program, executable.module, instrument, devices)
    copy = Executable(executable.module, program, executable.platform, executable.devices, *devices, executable.donated)
    return copy, program

"""Compiles instrumented copies of executables, with profiling counters around their thunks."""

from __future__ import annotations

from xlapy.cpu.compiler import Instrument
from xlapy.runtime.backends.cpu import CpuBackend, CpuProgram
from xlapy.runtime.executable import Executable


def compile_instrumented(executable: Executable, instrument: Instrument) -> tuple[Executable, CpuProgram]:
    """Compiles an instrumented copy of an executable of the platform cpu; returns the copy and its program."""
    assert isinstance(executable.program, CpuProgram), "the executable runs on cpu"
    devices = executable.num_replicas, executable.num_partitions
    program = CpuBackend().compile_instrumented(executable.program, executable.module, instrument, devices)
    copy = Executable(executable.module, program, executable.platform, executable.devices, *devices, executable.donated)
    return copy, program

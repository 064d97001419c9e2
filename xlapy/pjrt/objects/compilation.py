"""Entries that compile programs: for the devices of the client, or ahead of time for a topology.

Responsible for what a compilation takes from its options. Does not depend on how programs are compiled or run.
"""

from __future__ import annotations

import hashlib
from typing import Any

from xlapy.analysis.cost.duration import is_long_running
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.cpu.target import host_target
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.compile.options import read_device_assignment, read_memory_limit
from xlapy.pjrt.compile.program_loader import load_program
from xlapy.pjrt.compile.targets import adopt_targets
from xlapy.pjrt.objects.executable import executable_at, load_executable
from xlapy.pjrt.objects.loaded_executable import ExecutableTraits, LoadedExecutable
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import read_bytes
from xlapy.pjrt.objects.topologies import own_topology, topology_at
from xlapy.runtime.client import Client


@entry("Client_Compile")
def client_compile(args: Any) -> None:
    args.executable = _compile(args, platform().client, is_loaded=True).record.address


@entry("Compile")
def compile_for_topology(args: Any) -> None:
    """Compiles a program for a topology, which may have more devices than the client."""
    topology = topology_at(args.topology)
    own = platform().client
    if topology == own_topology():
        client = own
    elif topology.process_count > 1:
        raise UnsupportedError(
            device_codes.TOPOLOGY,
            f"programs are compiled for devices of {topology.process_count} processes by these processes only",
        )
    else:
        client = Client(own.platform, devices=topology.device_count, single_process=True)
    args.executable = _compile(args, client, is_loaded=False).record.address


def _compile(args: Any, client: Client, is_loaded: bool) -> LoadedExecutable:
    """Compiles the program of an entry's arguments for devices of a client: those of the assignment if it is the
    client of the process."""
    program = structure("Program").from_address(args.program)
    code = read_bytes(program.code, program.code_size)
    options_bytes = read_bytes(args.compile_options, args.compile_options_size)
    assignment = read_device_assignment(options_bytes, platform().default_assignment)
    format = read_bytes(program.format, program.format_size).decode("utf-8", "replace")
    loaded_program = load_program(code, format, assignment.num_partitions)
    adopt_targets(loaded_program.module)
    own, devices = platform(), assignment.devices
    is_placed = client is own.client and len(devices) <= len(own.devices)  # else `compile` says what is wrong
    executable = client.compile(
        loaded_program.module,
        assignment.num_replicas,
        assignment.num_partitions,
        memory_limit=read_memory_limit(options_bytes),
        device_assignment=own.client_devices(devices) if is_placed else None,
    )
    fingerprint = hashlib.sha256(options_bytes + code).hexdigest()
    traits = ExecutableTraits(
        fingerprint, is_long_running(executable.program.optimized_module, len(assignment.devices), host_target().rates)
    )
    placement = loaded_program.placement
    return load_executable(executable, assignment, options_bytes, placement, traits, is_loaded=is_loaded)


@entry("Client_Load")
def client_load(args: Any) -> None:
    """Loads an executable on devices of the client. compile_options: options that replace those of the compilation, of
    which only the devices count."""
    compiled = executable_at(args.executable)
    given = read_bytes(args.compile_options, args.compile_options_size)
    assignment = read_device_assignment(given, platform().default_assignment) if given else compiled.assignment
    counts = assignment.num_replicas, assignment.num_partitions
    own = compiled.assignment.num_replicas, compiled.assignment.num_partitions
    if counts != own:
        raise InvalidArgumentError(
            codes.LOADED_COUNTS,
            f"{compiled.executable.name} was compiled for {own[0]} replicas of {own[1]} partitions, "
            f"the options for loading it have {counts[0]} of {counts[1]}",
        )
    executable = platform().client.place(compiled.executable, platform().client_devices(assignment.devices))
    loaded = load_executable(
        executable, assignment, given or compiled.options_bytes, compiled.placement, compiled.traits
    )
    args.loaded_executable = loaded.record.address

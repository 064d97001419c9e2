"""The devices of a program for `xlapy run`: compiling for them, files for all devices or for one, infeeds, outfeeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from xlapy import opcodes
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.runtime import Client, Executable
from xlapy.runtime.buffer import block_until_ready
from xlapy.runtime.collectives.device_names import device_name
from xlapy.runtime.collectives.launch import replica_and_partition_counts
from xlapy.runtime.device import Device
from xlapy.runtime.storage.serialized import is_serialized, platform_and_device_count
from xlapy.spmd.entry.partition_count import needs_partitioning, partition_count_of
from xlapy.tools.elided_constants import provide_elided_constants
from xlapy.tools.files import parse_program, read_bytes, read_infeeds
from xlapy.tools.run.processes import RunProcesses

_FOR_ONE = re.compile(r"(\d{1,6})=(.+)", re.DOTALL)
MAX_DEVICES = 1024
"""Maximum number of devices; each is a thread."""


def compile_for_devices(
    platform: str | None,
    module: Module,
    num_replicas: int | None,
    num_partitions: int | None,
    donate: Sequence[int] = (),
    *,
    check_nans: bool | None = None,
    check_infs: bool | None = None,
    processes: RunProcesses | None = None,
) -> Executable:
    """Compiles a program for the requested number of devices, or its own; without a platform, for the default one.

    A program that is written for all partitions together is partitioned, see `partition_count_of` for their number.

    processes: those that have the devices, the same number each; by default this one has them all.
    """
    is_whole = needs_partitioning(module)
    wanted = partition_count_of(module, num_partitions) if is_whole else num_partitions
    replicas, partitions = replica_and_partition_counts(module, num_replicas, wanted, MAX_DEVICES)
    devices = replicas * partitions
    own = devices if processes is None else processes.devices_per_process(module.name, devices)
    return Client(platform, devices=own).compile(
        module,
        replicas,
        partitions,
        donate,
        check_nans=check_nans,
        check_infs=check_infs,
        use_spmd_partitioning=is_whole and partitions > 1,
    )


@dataclass(frozen=True)
class LoadedProgram:
    """A program, ready to run. source: the module in its file; None if the file was compiled."""

    executable: Executable
    source: Module | None


def load_program(
    platform: str | None,
    file: str,
    num_replicas: int | None,
    num_partitions: int | None,
    elided_constants: str,
    *,
    check_nans: bool | None = None,
    check_infs: bool | None = None,
    processes: RunProcesses | None = None,
) -> LoadedProgram:
    """Loads the program in a file, in any format or compiled by `xlapy compile`, which records platform and devices.

    elided_constants: the choice of `provide_elided_constants`. processes: those that have the devices; by default this
    one has them all.
    """
    processes = RunProcesses(None) if processes is None else processes
    program = processes.together("reading the program", lambda: _read_program(file, elided_constants))
    counts = num_replicas, num_partitions
    executable = processes.together(
        "compiling the program",
        lambda: _load(platform, file, program, counts, processes, check_nans=check_nans, check_infs=check_infs),
    )
    return LoadedProgram(executable, program if isinstance(program, Module) else None)


def _read_program(file: str, elided_constants: str) -> Module | bytes:
    """Returns the module in a file, or the bytes of a compiled program."""
    data = read_bytes(file)
    if is_serialized(data):
        return data
    module = parse_program(file, data)
    provide_elided_constants(module, elided_constants)
    return module


def _load(
    platform: str | None,
    file: str,
    program: Module | bytes,
    counts: tuple[int | None, int | None],
    processes: RunProcesses,
    *,
    check_nans: bool | None,
    check_infs: bool | None,
) -> Executable:
    """Compiles or loads what `_read_program` returned. counts: numbers of replicas and partitions."""
    if isinstance(program, Module):
        return compile_for_devices(
            platform, program, *counts, check_nans=check_nans, check_infs=check_infs, processes=processes
        )
    if check_nans or check_infs:
        raise click.UsageError(f"{file} is compiled, and not to look for NaN or infinities: give the program's text")
    if counts != (None, None):
        raise click.UsageError(f"{file} is compiled: it runs on the replicas and partitions that it was compiled for")
    try:
        made_for, devices = platform_and_device_count(program)
        if devices > MAX_DEVICES:
            raise InvalidArgumentError(
                codes.CLIENT_DEVICES, f"it is for {devices} devices, at most {MAX_DEVICES} are run"
            )
        own = processes.devices_per_process("it", devices)
        return Client(platform or made_for, devices=own).deserialize(program)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(error.code, f"{file}: {error.message}") from error


def files_of_devices(option: str, values: Sequence[str], count: int, noun: str = "device") -> list[list[str]]:
    """Returns the files of each device: `2=FILE` is for device 2; files without a number are for the other devices.

    noun: what is counted, for errors.
    """
    for_all: list[str] = []
    for_one: dict[int, list[str]] = {}
    for value in values:
        match = _FOR_ONE.fullmatch(value)
        if match is None:
            for_all.append(value)
        else:
            for_one.setdefault(int(match[1]), []).append(match[2])
    beyond = [device for device in for_one if device >= count]
    if beyond:
        raise click.BadParameter(
            f"there is no {noun} {beyond[0]}, the program runs on {count} (0 to {count - 1})", param_hint=option
        )
    return [for_one.get(device, for_all) for device in range(count)]


def name_of(executable: Executable, number: int) -> str:
    """Returns the name of a device for messages and output."""
    return device_name(number, executable.num_replicas, executable.num_partitions)


# -- infeed, outfeed


def infeed_values(module: Module, files: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Returns the values for the infeed of each device, for every run."""
    shapes = [i.shape.tuple_shapes[0] for i in module.instructions() if i.op is opcodes.INFEED]
    return [[value for path in paths for value in read_infeeds(path, shapes)] for paths in files]


def with_feeds(
    devices: Sequence[Device], fed: Sequence[Sequence[Any]], execute: Callable[[], Any], outfed: list[list[Any]]
) -> Any:
    """Feeds values in, runs, and replaces `outfed` by the outfeed values of each device."""
    for device, values in zip(devices, fed, strict=True):
        for value in values:
            device.transfer_to_infeed(value)
    result = block_until_ready(execute())
    outfed[:] = [[device.transfer_from_outfeed() for _ in range(len(device.outfeed))] for device in devices]
    unused = {device.id: len(device.infeed) for device in devices if len(device.infeed)}
    if unused:
        raise InvalidArgumentError(
            command_codes.INPUT_UNUSED, f"the program did not take all that was fed in: {_listed(unused)}"
        )
    return result


def _listed(unused: Mapping[int, int]) -> str:
    return ", ".join(f"{count} values are left on device {device}" for device, count in unused.items())

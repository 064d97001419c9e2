"""`Client`, the public entry point of the runtime: compiles programs for a platform.

Responsible for the forms of programs that can be compiled. Does not depend on how a back end works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xlapy.base import flags
from xlapy.base.arguments.arrays import array_argument
from xlapy.base.arguments.checking import eager_class
from xlapy.base.arguments.copying import copied_by_reference
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.interfaces import commands as command_codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError, XlaError
from xlapy.base.garbage_collection import gc_paused
from xlapy.base.logging import logger
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.interpreter.checks import Checks
from xlapy.runtime.backend import MemoryLimited, ProcessSpanning, Program, default_platform, load_backend
from xlapy.runtime.buffer import Buffer, copy_to_buffer
from xlapy.runtime.client_processes import ClientProcesses, join_processes, placed_program
from xlapy.runtime.collectives.device_names import processes_text
from xlapy.runtime.collectives.launch import check_device_counts, replica_and_partition_counts
from xlapy.runtime.device import Device
from xlapy.runtime.dump import dump_module, dump_stages
from xlapy.runtime.engine.donation import DonatedLeaf, donated_leaves
from xlapy.runtime.executable import Executable
from xlapy.runtime.storage.serialized import SerializedExecutable, read_executable
from xlapy.runtime.storage.texts import CachedText, cached_program_key, cached_text
from xlapy.stablehlo.recognition import is_bytecode, is_stablehlo_text
from xlapy.text import parse_hlo

if TYPE_CHECKING:
    from xlapy.builder import XlaComputation
    from xlapy.spmd.entry.shardings import EntryShardings

MAX_DEVICES = 1 << 16
"""The largest number of devices of a client. Each device is an object with queues, and a thread while it runs."""
_FALLBACK = "interpreter"
"""Platform for programs that the default platform does not support."""


@copied_by_reference("it is a connection to this process's devices; make a Client where it is needed")
@eager_class
class Client:
    """A platform and its `devices`, which are threads of this process.

    After `xlapy.distributed.initialize`, all processes make the client together: each has the number of devices that is
    given, `devices` are those of all processes in the order of `process_index`, and `addressable_devices` are those of
    this one. A program on devices of several processes is compiled and launched by each of them, in the same order.
    Launches of different clients have no order, and do not wait for each other: threads without a common order use a
    client each, which are made in the same order. `single_process=True` makes a client of this process alone.

    Without a platform it is `cpu` if the compiler supports this machine, and programs that cpu does not support run on
    the interpreter: see `executable.platform` and the log. A platform that was requested by name never falls back to
    another.

    >>> client = xla.Client()
    >>> double = client.compile("ENTRY double { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }")
    >>> double(np.float32([1, 2, 3]))
    Buffer(f32[3], [2. 4. 6.])
    """

    def __init__(self, platform: str | None = None, devices: int = 1, *, single_process: bool = False) -> None:
        if not 1 <= devices <= MAX_DEVICES:
            raise InvalidArgumentError(
                codes.CLIENT_DEVICES, f"a client has 1 to {MAX_DEVICES} devices, given devices={devices}"
            )
        self.platform = default_platform() if platform is None else platform
        self._backend = load_backend(self.platform)
        self._has_fallback = platform is None and self.platform != _FALLBACK
        self._processes = ClientProcesses() if single_process else join_processes(self.platform, devices)
        self.process_index = self._processes.process_index
        self.process_count = self._processes.process_count
        self.devices = self._processes.make_devices(self.platform, devices)
        self.addressable_devices = tuple(device for device in self.devices if device.is_addressable)

    @gc_paused()
    def compile(
        self,
        program: XlaComputation | Module | str | bytes,
        num_replicas: int | None = None,
        num_partitions: int | None = None,
        donate: Iterable[int] = (),
        *,
        check_nans: bool | None = None,
        check_infs: bool | None = None,
        tuning_file: str | Path | None = None,
        memory_limit: int | str | None = None,
        device_assignment: Sequence[int] | None = None,
        use_spmd_partitioning: bool = False,
    ) -> Executable:
        """Verifies and compiles a program for `num_replicas` * `num_partitions` devices.

        `device_assignment` lists their ids, replica by replica. By default they are the first of this process, if it
        has so many, or else the first of all processes, in order.

        `program` is what `XlaBuilder.build` returns, a `Module`, HLO text, a serialized HloModuleProto, or StableHLO,
        as text or as the bytecode of a portable artifact. The defaults are the module's own replica_count and
        num_partitions. Raises `ParseError`, `ProtoError`, `BytecodeError`, `VerificationError`, `InvalidArgumentError`
        if there are too few devices, or `UnsupportedError` for operations that the platform cannot run and, without
        `use_spmd_partitioning`, for shardings that split values: a program for several partitions must then be
        partitioned already.

        `use_spmd_partitioning`, as in XLA, partitions a program that is written for all partitions together, by its
        shardings. The program itself is not changed. A call then takes and returns global arrays, and
        `entry_shardings` says which part of them each partition holds. If neither `num_partitions` nor the module says
        for how many partitions, its shardings do.

        `donate` lists parameters whose buffers the program may reuse for its results, in addition to the module's own
        input_output_alias and buffer_donor. A call deletes the buffers that it is given for these parameters. NumPy
        arrays and global arrays are not affected. Memory with another user, such as an array made from the buffer, is
        copied first.

        `check_nans` and `check_infs`, by default the flags of these names, make a run fail at the first instruction
        that produces a NaN or an infinity from operands without one: `ExecutionError` names it. Such programs are
        slower.

        `tuning_file`, by default the flag of this name, is a file of `xlapy tune` with plans of kernels; "" is none.
        The interpreter has no kernels and does not read it.

        `memory_limit`, by default the flag of this name, is the memory in bytes that a run on one device may need for
        arguments, results and temporaries (`memory_analysis().peak_memory_in_bytes`), or text such as "12GB". The
        platform cpu computes values again, instead of keeping them, to meet it; results have the same bits. If that is
        not enough, it logs a warning. Other platforms ignore the limit.

        >>> text = "ENTRY e { x = s32[] parameter(0)  id = u32[] replica-id()  ROOT t = (s32[], u32[]) tuple(x, id) }"
        >>> xla.Client("interpreter", devices=2).compile(text, num_replicas=2)
        <Executable module_e on interpreter: (x: s32[]) -> (s32[], u32[])>
        """
        donate, checks = tuple(donate), Checks.chosen(check_nans, check_infs)
        text: CachedText | None = None
        is_plain = not checks and tuning_file is None and memory_limit is None and self.process_count == 1
        is_plain = is_plain and device_assignment is None and not use_spmd_partitioning
        if isinstance(program, (str, bytes)) and is_plain and self.platform == "cpu":
            text = cached_text(program, [num_replicas, num_partitions, repr(donate)], lambda: _to_module(program))
            loaded = None if text is None else self._load_text(text)
            if loaded is not None:
                return loaded
        module = _to_module(program)
        verify(module)
        dumped = dump_module(module)
        if use_spmd_partitioning:
            num_partitions = _partition_count(module, num_partitions)
        replicas, partitions = replica_and_partition_counts(
            module, num_replicas, num_partitions, len(self.devices), self.process_count
        )
        devices = self._assigned_devices(module.name, replicas, partitions, device_assignment)
        topology = self._processes.topology(devices)
        shardings: EntryShardings | None = None
        if use_spmd_partitioning:
            module, shardings = _partitioned(module, replicas, partitions)
        donated = donated_leaves(module, donate)
        options: dict[str, Any] = {} if tuning_file is None else {"tuning_file": str(tuning_file)}
        if isinstance(self._backend, MemoryLimited):
            options["memory_limit"] = flags.memory_limit(memory_limit)
        if topology is not None:
            options["topology"] = topology
        platform, compiled = self._compile(module, replicas, partitions, donated, checks, options)
        if dumped is not None:
            dump_stages(dumped, compiled.stages())
        key = None if text is None else cached_program_key(compiled)
        if text is not None and key is not None:
            text.note(platform, module, (replicas, partitions), donated, key)
        self._processes.connect(compiled, devices)
        return Executable(module, compiled, platform, devices, replicas, partitions, donated, shardings)

    def _assigned_devices(
        self, name: str, replicas: int, partitions: int, assignment: Sequence[int] | None
    ) -> Sequence[Device]:
        """Returns the devices of a program, replica by replica: those with the ids of the assignment, or those that
        `compile` chooses. name: of the program, for errors."""
        count = replicas * partitions
        if assignment is None:
            own = self.addressable_devices
            return own[:count] if count <= len(own) else self.devices[:count]
        unknown = [number for number in assignment if not 0 <= number < len(self.devices)]
        if unknown or len(assignment) != count or len(set(assignment)) != count:
            raise InvalidArgumentError(
                codes.DEVICE_NUMBER,
                f"{name}: device_assignment must be {count} different ids (replica_count={replicas}, "
                f"num_partitions={partitions}) of the {len(self.devices)} devices, given {list(assignment)}",
            )
        return [self.devices[number] for number in assignment]

    def _compile(
        self,
        module: Module,
        replicas: int,
        partitions: int,
        donated: Sequence[DonatedLeaf],
        checks: Checks,
        options: Mapping[str, Any],
    ) -> tuple[str, Program]:
        """Returns the program and the platform that it runs on. options: further keywords of `Backend.compile`."""
        if "topology" in options and not isinstance(self._backend, ProcessSpanning):
            raise UnsupportedError(
                codes.PROCESSES,
                f"{module.name} runs on devices of {processes_text(options['topology'].processes)}: the platform "
                f"{self.platform} runs programs in one process only",
            )
        try:
            return self.platform, self._backend.compile(module, replicas, partitions, donated, checks, **options)
        except UnsupportedError as error:
            if not self._has_fallback:
                raise
            kept = {name: value for name, value in options.items() if name == "topology"}
            compiled = load_backend(_FALLBACK).compile(module, replicas, partitions, donated, checks, **kept)
            logger.info("%s runs on the %s: %s", module.name, _FALLBACK, error)
            return _FALLBACK, compiled

    def deserialize(self, data: bytes, device_assignment: Sequence[int] | None = None) -> Executable:
        """Loads the bytes that `Executable.serialize` returned, without compiling.

        `device_assignment` are the ids of the devices, as for `compile`. Code that was compiled for one process cannot
        run on several.

        The machine code in it runs with the rights of this process: load only data that you trust.
        `InvalidArgumentError` for damaged data, and for data of another version of xlapy or another platform;
        `UnsupportedError` if this processor lacks features that the code needs.
        """
        return self._load(read_executable(data), device_assignment)

    def _load_text(self, text: CachedText) -> Executable | None:
        """Returns the executable that was compiled from a text, if the cache has it and it can be used. Otherwise the
        text is compiled, which reports what is wrong."""
        try:
            found = text.find()
            return None if found is None else self._load(found)
        except XlaError:
            return None

    def _load(self, serialized: SerializedExecutable, device_assignment: Sequence[int] | None = None) -> Executable:
        source, donated = serialized.source, serialized.donated
        if serialized.platform != self.platform:
            raise InvalidArgumentError(
                command_codes.SERIALIZED_PLATFORM,
                f"{source.name} was compiled for the platform {serialized.platform}, this client is for "
                f"{self.platform}",
            )
        replicas, partitions = check_device_counts(
            source.name, serialized.num_replicas, serialized.num_partitions, len(self.devices), self.process_count
        )
        devices = self._assigned_devices(source.name, replicas, partitions, device_assignment)
        topology = self._processes.topology(devices)
        options: dict[str, Any] = {} if topology is None else {"topology": topology}
        program = self._backend.load(serialized.program, source, partitions, donated, **options)
        self._processes.connect(program, devices)
        shardings = serialized.entry_shardings
        return Executable(source, program, self.platform, devices, replicas, partitions, donated, shardings)

    def place(self, executable: Executable, device_assignment: Sequence[int]) -> Executable:
        """Returns an executable of the same code on other devices. device_assignment: their ids, as for `compile`."""
        devices = self._assigned_devices(
            executable.name, executable.num_replicas, executable.num_partitions, device_assignment
        )
        if tuple(devices) == executable.devices:
            return executable
        topology = self._processes.topology(devices)
        program = placed_program(executable.program, topology, executable.name)
        self._processes.connect(program, devices)
        return executable.on_devices(program, devices)

    def device_put(self, value: Any) -> Buffer:
        """Copies an array to a buffer. A call takes buffers faster than arrays, and can reuse their memory if they are
        donated.

        `value` is a NumPy array, an object with `__array__` or DLPack, or Python numbers.

        >>> xla.Client().device_put(np.float32([1, 2]))
        Buffer(f32[2], [1. 2.])
        """
        array = array_argument(value, "Client.device_put", "value")
        return copy_to_buffer(array, self._processes.number) if self.platform == "cpu" else Buffer(np.array(array))

    def trim(self) -> int:
        """Returns memory that is cached for results to the system; returns its size in bytes."""
        return self._backend.trim()

    def __repr__(self) -> str:
        return f"<Client {self.platform}>"


def _partition_count(module: Module, num_partitions: int | None) -> int:
    from xlapy.spmd.entry.partition_count import partition_count_of  # only programs to be partitioned need it

    return partition_count_of(module, num_partitions)


def _partitioned(module: Module, replicas: int, partitions: int) -> tuple[Module, EntryShardings]:
    """Returns the module that each partition runs, and the shardings of its arguments and results."""
    from xlapy.spmd.entry.automatic import partitioned_copy  # loads many modules, so only on demand

    copy, shardings = partitioned_copy(module, replicas, partitions)
    verify(copy)
    return copy, shardings


def _to_module(program: XlaComputation | Module | str | bytes) -> Module:
    if isinstance(program, Module):
        return program
    if isinstance(program, str):
        return _parse_stablehlo(program) if is_stablehlo_text(program) else parse_hlo(program, verify=False)
    if isinstance(program, bytes):
        return _parse_stablehlo(program) if is_bytecode(program) else Module.from_proto(program, verify=False)
    from xlapy.builder import XlaComputation  # loads the builder, which programs in other forms do not need

    if isinstance(program, XlaComputation):
        return program.module
    raise InvalidArgumentError(
        calls_codes.PROGRAM_TYPE,
        f"compile takes an XlaComputation, a Module, HLO or StableHLO text, the bytes of an HloModuleProto or of "
        f"StableHLO's bytecode, given {type(program).__name__}",
    )


def _parse_stablehlo(program: str | bytes) -> Module:
    from xlapy.stablehlo.parse import parse_stablehlo  # loads many modules, so only on demand

    return parse_stablehlo(program, verify=False)

"""The door for users: `Client` compiles programs for a platform.

Owns: what may be compiled. Must not know: how a back end works.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.garbage_collection import gc_paused
from xlapy.base.logging import logger
from xlapy.builder import XlaComputation
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.interpreter.checks import Checks
from xlapy.runtime.backend import Program, default_platform, load_backend
from xlapy.runtime.buffer import Buffer, put
from xlapy.runtime.collectives.launch import checked_counts, counts
from xlapy.runtime.device import Device
from xlapy.runtime.dump import dump_module, dump_stages
from xlapy.runtime.engine.donation import Donated, donated_leaves
from xlapy.runtime.executable import Executable
from xlapy.runtime.storage.serialized import read_executable
from xlapy.stablehlo.recognition import is_bytecode, is_stablehlo_text
from xlapy.text import parse_hlo

_LAST = "interpreter"
"""Runs what the default platform refuses."""


class Client:
    """A platform and its `devices`, as many as are asked for: they are threads of this process.

    Without a platform it is `cpu` where that compiles for the machine, and programs that cpu refuses run on the
    interpreter: `executable.platform` tells, and the log why. A platform asked for by name never gives way to another.

    >>> client = Client()
    >>> axpy = client.compile(computation)
    >>> axpy(x, y)
    """

    def __init__(self, platform: str | None = None, devices: int = 1) -> None:
        if devices < 1:
            raise InvalidArgumentError(f"a client has at least 1 device, given devices={devices}")
        self.platform = default_platform() if platform is None else platform
        self._backend = load_backend(self.platform)
        self._gives_way = platform is None and self.platform != _LAST
        self.devices = tuple([Device(number, self.platform) for number in range(devices)])

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
    ) -> Executable:
        """Verifies a program and makes it ready to run, on the first `num_replicas` * `num_partitions` devices.

        `program` is what `XlaBuilder.build` returns, a `Module`, HLO text, a serialized HloModuleProto, or StableHLO,
        as text or as the bytecode of a portable artifact. Its own replica_count and num_partitions count where none are
        given. Raises `ParseError`, `ProtoError`, `BytecodeError`, `VerificationError`, `InvalidArgumentError` if there
        are too few devices, or `UnsupportedError` for operations that the platform cannot run and for shardings: a
        program for several partitions is what each of them runs.

        `donate` are numbers of parameters whose buffers the program may use for its results, as the module's own
        input_output_alias and buffer_donor are: a buffer given for one of them is deleted by the call. Arrays of NumPy
        stay as they are. Memory that something else uses too, such as an array made of the buffer, is copied first.

        `check_nans` and `check_infs`, by default the flags of these names, make runs fail at the first instruction that
        makes a NaN or an infinity of operands without one: `ExecutionError` names it. Such programs are slower.
        """
        module = _module(program)
        verify(module)
        dumped = dump_module(module)
        replicas, partitions = counts(module, num_replicas, num_partitions, len(self.devices))
        donated = donated_leaves(module, donate)
        checks = Checks.chosen(check_nans, check_infs)
        platform, compiled = self._compiled(module, replicas, partitions, donated, checks)
        if dumped is not None:
            dump_stages(dumped, compiled.stages())
        devices = self.devices[: replicas * partitions]
        return Executable(module, compiled, platform, devices, replicas, partitions, donated)

    def _compiled(
        self, module: Module, replicas: int, partitions: int, donated: Sequence[Donated], checks: Checks
    ) -> tuple[str, Program]:
        """The program, and the platform that it runs on."""
        try:
            return self.platform, self._backend.compile(module, replicas, partitions, donated, checks)
        except UnsupportedError as error:
            if not self._gives_way:
                raise
            compiled = load_backend(_LAST).compile(module, replicas, partitions, donated, checks)
            logger.info("%s runs on the %s: %s", module.name, _LAST, error)
            return _LAST, compiled

    def deserialize(self, data: bytes) -> Executable:
        """The executable that `Executable.serialize` made `data` of, ready to run without compiling.

        Its machine code can do whatever this process can: take it from people whose programs you would run.
        `InvalidArgumentError` for damaged data, and for what another version of xlapy or another platform compiled;
        `UnsupportedError` if this processor lacks what the code was compiled for.
        """
        found = read_executable(data)
        source, donated = found.source, found.donated
        if found.platform != self.platform:
            raise InvalidArgumentError(
                f"{source.name} was compiled for the platform {found.platform}, this client is for {self.platform}"
            )
        replicas, partitions = checked_counts(source.name, found.num_replicas, found.num_partitions, len(self.devices))
        program = self._backend.load(found.image, source, partitions, donated)
        devices = self.devices[: replicas * partitions]
        return Executable(source, program, self.platform, devices, replicas, partitions, donated)

    def device_put(self, value: Any) -> Buffer:
        """A copy of an array as a buffer, which calls take faster than an array, and may take the memory of.

        `value` is what a call takes for an array: of NumPy, with `__array__` or DLPack, or Python numbers.
        """
        return put(value)

    def trim(self) -> int:
        """Gives memory that is kept for results to come back to the system; how many bytes that were."""
        return self._backend.trim()

    def __repr__(self) -> str:
        return f"<Client {self.platform}>"


def _module(program: XlaComputation | Module | str | bytes) -> Module:
    if isinstance(program, XlaComputation):
        return program.module
    if isinstance(program, Module):
        return program
    if isinstance(program, str):
        return _stablehlo(program) if is_stablehlo_text(program) else parse_hlo(program, verify=False)
    if isinstance(program, bytes):
        return _stablehlo(program) if is_bytecode(program) else Module.from_proto(program, verify=False)
    raise InvalidArgumentError(
        f"compile takes an XlaComputation, a Module, HLO or StableHLO text, the bytes of an HloModuleProto or of "
        f"StableHLO's bytecode, given {type(program).__name__}"
    )


def _stablehlo(program: str | bytes) -> Module:
    from xlapy.stablehlo.parse import parse_stablehlo  # many files, for those who need it

    return parse_stablehlo(program, verify=False)

"""Starting MPI in this process: under mpirun, or by hand through the coordinator address.

Responsible for who this process is, and for clear errors of everything that can be wrong at the start. An error that
all processes find is raised in process 0; the others end with exit code 1 and without a message.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from xlapy.base import flags
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.version import VERSION
from xlapy.runtime.collectives.mpi import coordinator
from xlapy.runtime.collectives.mpi.library import MpiLibrary, open_library
from xlapy.runtime.collectives.mpi.neighbors import connect_neighbors, memory_name, network_name, own_hosts
from xlapy.runtime.collectives.mpi.time_limit import time_limit
from xlapy.runtime.collectives.mpi.transport import MpiTransport
from xlapy.runtime.collectives.mpi.watch import PeerWatch
from xlapy.runtime.collectives.process_group import KeyValueStore, ProcessGroup


@dataclass(frozen=True, slots=True)
class Launcher:
    """Who has started this process, and what it says about it."""

    name: str
    process_index: int
    process_count: int

    @property
    def is_open_mpi(self) -> bool:
        return "Open MPI" in self.name


_LAUNCHERS: Final = (
    ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("mpirun of MPICH", "PMI_RANK", "PMI_SIZE"),
    ("mpirun of Intel MPI or MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
)
"""What launchers set in the environment of processes: index and number."""

_ADDRESS_KEY: Final = "xlapy/coordinator"

_RETRY_SECONDS: Final = 0.05

_SHARED_MEMORY: Final = "/dev/shm/mpich_shm_"
"""The beginning of the files through which MPICH's processes share memory."""


def find_launcher(environment: Mapping[str, str]) -> Launcher | None:
    """Returns the launcher that an environment tells of, or None."""
    for name, index, count in _LAUNCHERS:
        if environment.get(index, "").isdigit() and environment.get(count, "").isdigit():
            return Launcher(name, int(environment[index]), int(environment[count]))
    return None


def start_under_launcher(launcher: Launcher, timeout: float) -> MpiLibrary:
    """Initializes MPI in a process that mpirun has started."""
    mpi = load_mpi(launcher.process_index)
    if not mpi.Is_initialized() and is_open_mpi(mpi) != launcher.is_open_mpi and "PMIX_RANK" not in os.environ:
        refuse_library(mpi, launcher)
    if not mpi.Is_initialized() and not is_open_mpi(mpi) and launcher.is_open_mpi:
        refuse_library(mpi, launcher)
    initialize(mpi, launcher.process_index, timeout)
    size = mpi.COMM_WORLD.Get_size()
    if size != launcher.process_count:
        refuse_library(mpi, launcher, f", which sees {size}")
    return checked_library(mpi, timeout)


def refuse_library(mpi: Any, launcher: Launcher, seen: str = "") -> NoReturn:
    """Raises the error that the MPI library is not that of mpirun."""
    refuse(
        launcher.process_index,
        codes.MPI_BUILD,
        f"{launcher.name} has started {launcher.process_count} processes, but mpi4py has loaded {library_name(mpi)}"
        f"{seen}: the library is not that of mpirun",
    )


def start_by_hand(
    address: str | None, process_count: int, process_index: int, timeout: float, store: KeyValueStore | None
) -> MpiLibrary:
    """Initializes MPI in a process that was started by hand."""
    mpi = load_mpi(process_index)
    if process_count > 1 and not mpi.Is_initialized():
        if is_open_mpi(mpi):
            refuse(
                process_index,
                codes.LAUNCHER,
                f"mpi4py has loaded {library_name(mpi)}, whose processes cannot be started by hand: start them by "
                f"`mpirun -n {process_count}`, or install mpich in place of it",
            )
        host, port = join(address, process_count, process_index, timeout, store)
        os.environ["PMI_PORT"], os.environ["PMI_ID"] = f"{host}:{port}", str(process_index)
    initialize(mpi, process_index, timeout)
    size = mpi.COMM_WORLD.Get_size()
    if size != process_count:
        refuse(
            process_index,
            codes.PROCESS_COUNT,
            f"num_processes={process_count}, but {library_name(mpi)} sees {size}; MPI was initialized before "
            "xla.distributed.initialize, which is to be called first",
        )
    return checked_library(mpi, timeout)


# --- the coordinator address


def join(
    address: str | None, process_count: int, process_index: int, timeout: float, store: KeyValueStore | None
) -> tuple[str, int]:
    """Waits until all processes have joined; returns host and port of the server."""
    deadline = time.monotonic() + timeout
    host, port = split_address(address, process_index) if store is None else (own_host(address), 0)
    if process_index == 0:
        port = serve(host, port, process_count, timeout)
        if store is not None:
            store.put(_ADDRESS_KEY, f"{host}:{port}".encode())
    elif store is not None:
        host, port = split_address(store.get(_ADDRESS_KEY, timeout).decode(), process_index)
    own = {
        "index": process_index,
        "count": process_count,
        "version": VERSION,
        "host": socket.gethostname(),
        "machine": memory_name(),
        "pid": os.getpid(),
    }
    answer = ask(host, port, own, deadline, process_index)
    if answer:
        kinds = {
            "count": codes.PROCESS_COUNT,
            "version": codes.PROCESS_VERSIONS,
            "missing": codes.COORDINATOR,
            "host": codes.HOST_NAMES,
        }
        refuse(process_index, kinds[answer["kind"]], answer["message"])
    return host, port


def split_address(address: str | None, process_index: int) -> tuple[str, int]:
    """Splits HOST:PORT."""
    host, separator, port = (address or "").rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        refuse(process_index, codes.COORDINATOR, f"coordinator_address is HOST:PORT, not {address!r}")
    return host.strip("[]"), int(port)


def own_host(address: str | None) -> str:
    """A name of this machine that others reach: that of the given address, or its own."""
    host = (address or "").rpartition(":")[0].strip("[]")
    if host:
        return host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, 0)
    except OSError:
        return "127.0.0.1"
    return name


def serve(host: str, port: int, process_count: int, timeout: float) -> int:
    """Starts the server of the coordinator address; returns its port."""
    arguments = [sys.executable, "-S", "-E", coordinator.__file__]
    bound = host if host in ("localhost", "127.0.0.1") else ""
    standard_input, pipe = os.pipe()
    server = subprocess.Popen(
        [*arguments, bound, str(port), str(process_count), str(timeout)],
        stdin=standard_input,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # which others wait for the end of
        start_new_session=True,  # Ctrl-C is for the processes, which then end the server
    )
    os.close(standard_input)
    assert server.stdout is not None
    answer = json.loads(server.stdout.readline() or b'{"error": "it has ended"}')
    if "error" in answer:
        os.close(pipe)
        server.wait()
        refuse(0, codes.COORDINATOR, f"process 0 cannot serve {host}:{port}: {answer['error']}")
    _servers.append((server, pipe))
    return int(answer["port"])


_servers: Final[list[tuple[subprocess.Popen[bytes], int]]] = []
"""The server of this process, and the pipe to it. The pipe stays open until the process has ended, because MPI talks to
the server after the end of the interpreter."""


def ask(host: str, port: int, own: Mapping[str, Any], deadline: float, process_index: int) -> dict[str, str]:
    """Joins at the server; returns an error, or nothing."""
    reason: object = "it closes the connection"
    while True:
        left = deadline - time.monotonic()
        try:
            with socket.create_connection((host, port), timeout=max(0.1, left)) as connection:
                connection.settimeout(max(1.0, left + 2))
                connection.sendall(f"{json.dumps(own)}\n".encode())
                line = connection.makefile("rb").readline()
            if line:
                return dict(json.loads(line))
        except OSError as error:
            reason = error
        if time.monotonic() > deadline:
            raise ExecutionError(
                codes.COORDINATOR, f"process {process_index} does not reach process 0 at {host}:{port}: {reason}"
            )
        time.sleep(_RETRY_SECONDS)


# --- MPI


def load_mpi(process_index: int) -> Any:
    """Imports mpi4py. MPI is not initialized by that."""
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
            mpi4py.rc.finalize = False  # `finalize` does
            _loaded.append(True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "suspicious MPI execution environment")
            from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
        refuse(
            process_index,
            codes.MPI_MISSING,
            f"several processes need mpi4py and an MPI library: {str(error).splitlines()[0]}; "
            "`pip install 'xlapy[mpi]'` installs both",
        )
    return MPI


def initialize(mpi: Any, process_index: int, timeout: float) -> None:
    """Initializes MPI, unless the program has. The process ends if the others do not do so in `timeout` seconds."""
    if not mpi.Is_initialized():
        text = f"MPI is not initialized after {timeout:g} seconds: a process has ended, stands still or is missing"
        with time_limit(timeout, _limit_text(process_index, text, codes.COORDINATOR)):
            mpi.Init_thread(mpi.THREAD_MULTIPLE)  # SERIALIZED suffices, unless the program calls MPI, too


def _limit_text(process_index: int, text: str, code: ErrorCode) -> str:
    """What a process prints when it ends at a time limit: process 0 only."""
    return "" if process_index else f"xlapy: process 0: {text} [{code}]"


_loaded: Final[list[bool]] = []
"""Not empty if this module has imported mpi4py first."""


def finalize(process_index: int, have_all_left: bool) -> None:
    """Finalizes MPI at the end of the process, unless the program does so itself.

    have_all_left: whether all processes have left the process group. Otherwise finalizing would wait for ever. If
    mpi4py is to do it, the process ends here.

    Processes may differ in what they know of each other, so some may finalize MPI while another has ended: those end,
    with code 1, after the time of the flag `collective_timeout`.
    """
    import mpi4py
    from mpi4py import MPI

    # Unless the program has told mpi4py not to finalize MPI, mpi4py would do so later, without a time limit.
    is_own = bool(_loaded) or mpi4py.rc.finalize is not False
    if have_all_left:
        if is_own and not MPI.Is_finalized():
            seconds = float(flags.get("collective_timeout"))
            text = f"MPI is not finalized after {seconds:g} seconds: a process has ended or stands still"
            with time_limit(seconds, _limit_text(process_index, text, codes.PROCESS_LOST)):
                MPI.Finalize()
        return
    if not _loaded:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def is_open_mpi(mpi: Any) -> bool:
    """Whether the MPI library is Open MPI; else it is of the family of MPICH."""
    return "Open MPI" in mpi.Get_library_version()


def library_name(mpi: Any) -> str:
    """The name and the file of the MPI library."""
    first = mpi.Get_library_version().split("\n")[0].rstrip("\0")
    name = " ".join(first.split(",")[0].replace("Version:", "").split())
    return f"{name} ({library_file() or mpi.__file__})"


def library_file() -> str:
    """The file of the MPI library in this process; empty if it cannot be told."""
    try:
        with open("/proc/self/maps") as maps:
            files = {line.split()[-1] for line in maps if "/libmpi" in line}
    except OSError:
        return ""
    return min(files, default="")


def checked_library(mpi: Any, timeout: float) -> MpiLibrary:
    """Prepares MPI, and checks that all processes run the same version."""
    level = mpi.Query_thread()
    if level < mpi.THREAD_SERIALIZED:
        names = {mpi.THREAD_SINGLE: "MPI_THREAD_SINGLE", mpi.THREAD_FUNNELED: "MPI_THREAD_FUNNELED"}
        refuse(
            mpi.COMM_WORLD.Get_rank(),
            codes.THREAD_LEVEL,
            f"MPI is initialized with {names.get(level, level)}, and MPI_THREAD_SERIALIZED is needed; "
            "mpi4py.rc.thread_level sets the level before mpi4py.MPI is imported",
        )
    library = open_library(mpi, timeout)
    versions = library.exchange_texts(VERSION, timeout)
    unlink_shared_memory()
    for index, version in enumerate(versions):
        if version != versions[0]:
            message = f"process 0 runs xlapy {versions[0]}, process {index} xlapy {version}"
            refuse(library.process_index, codes.PROCESS_VERSIONS, message)
    return library


def unlink_shared_memory() -> None:
    """Deletes the name of the memory that MPICH shares between processes; all of them have attached it.

    MPICH deletes it when it is finalized, so it would be left on the machine by each job that ends otherwise.
    """
    try:
        with open("/proc/self/maps") as maps:
            files = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if _SHARED_MEMORY in line}
    except OSError:
        return
    for file in files:
        with contextlib.suppress(OSError):  # another process has deleted it
            os.unlink(file)


def start_group(library: MpiLibrary) -> ProcessGroup:
    """Starts the transport, and the watch of the other processes."""
    transport = MpiTransport(library)
    group = ProcessGroup(library.process_index, library.process_count, transport)

    def allgather(value: Any) -> list[Any]:
        return group.allgather(value, what="the addresses of the processes")

    if library.process_count > 1:
        connections = connect_neighbors(
            library.process_index, library.process_count, allgather, network_name(), own_hosts()
        )
        transport.watch(PeerWatch(connections, transport.lose_process))
    return group


def refuse(process_index: int, code: ErrorCode, message: str) -> NoReturn:
    """Raises an error that all processes find, in process 0; ends the others."""
    if process_index != 0:
        raise SystemExit(1)
    raise ExecutionError(code, message) from None  # the message says what was caught

"""Several processes that execute programs together.

Codes E6700 to E6799: starting processes, what they must agree on, and processes that fail.
"""

from xlapy.base.error_codes.code import ErrorCode

MPI_MISSING = ErrorCode(
    "E6700",
    "Processes communicate through MPI, which needs the package mpi4py and an MPI library.",
    remedy="Install both by `pip install 'xlapy[mpi]'`, or mpi4py beside the MPI of the cluster.",
    why_no_example="mpi4py must not be installed",
)
MPI_BUILD = ErrorCode(
    "E6701",
    "The MPI library that mpi4py loads is the one whose mpirun starts the processes.",
    remedy="Call the mpirun that stands beside the library in the message, or set MPI4PY_MPIABI or LD_LIBRARY_PATH so "
    "that mpi4py loads the library of mpirun.",
    why_no_example="two MPI libraries are needed",
)
PROCESS_COUNT = ErrorCode(
    "E6702",
    "The number and the index of a process are those that the other processes and mpirun give.",
    remedy="Leave the arguments out under mpirun; by hand, give each process the same `num_processes` and its own "
    "`process_id`, from 0 to `num_processes` less 1.",
    python="xla.distributed.initialize('localhost:9999', num_processes=2, process_id=5)",
)
THREAD_LEVEL = ErrorCode(
    "E6703",
    "MPI is initialized for calls from several threads, one at a time (MPI_THREAD_SERIALIZED).",
    remedy="Do not set `mpi4py.rc.thread_level` to less than 'serialized', and use an MPI library with threads.",
    why_no_example="MPI has to be initialized for one thread",
)
ALREADY_INITIALIZED = ErrorCode(
    "E6704",
    "A process initializes the process group once, and does not return to it after it has left.",
    remedy="Call `xla.distributed.initialize` once; `is_initialized` says whether it was called.",
    why_no_example="a process group is needed",
)
PROCESS_FORKED = ErrorCode(
    "E6705",
    "The child of a fork does not use the process group of its parent: MPI does not survive a fork.",
    remedy="Fork before `xla.distributed.initialize`, or start processes by `spawn`.",
    why_no_example="a process group is needed",
)
COORDINATOR = ErrorCode(
    "E6706",
    "Process 0 serves the coordinator address, and all other processes reach it within the time-out.",
    remedy="Give all processes the same address HOST:PORT, whose host is that of process 0 and whose port is free, and "
    "start all processes.",
    why_no_example="a process without the others waits for the time-out",
)
LAUNCHER = ErrorCode(
    "E6707",
    "Processes are started by mpirun, or by hand with MPICH, or a library of its family, whose processes can find each "
    "other by address.",
    remedy="Start the processes with mpirun, or install `mpich` in place of `openmpi`.",
    why_no_example="processes have to be started by hand with Open MPI",
)
DIFFERENT_PROGRAMS = ErrorCode(
    "E6708",
    "The processes of a launch execute the same program, and begin the launches of a client on the same devices in the "
    "same order.",
    remedy="Compare what the processes in the message do before this launch: conditions on the process index, random "
    "numbers without a common seed, the order of dictionaries and sets. Threads that launch programs without a common "
    "order use a client each: launches of different clients do not wait for each other.",
    why_no_example="several processes are needed",
)
DIFFERENT_SIZES = ErrorCode(
    "E6709",
    "A process receives as many bytes as the other process sends.",
    remedy="Check that all processes run the same versions of xlapy and of the program.",
    why_no_example="several processes are needed",
)
PROCESS_FAILED = ErrorCode(
    "E6710",
    "No process of a launch fails; if one does, the launch fails in all processes, and so do later launches on the "
    "same devices.",
    remedy="Look at the error of the process in the message.",
    why_no_example="several processes are needed",
)
PROCESS_TIMEOUT = ErrorCode(
    "E6711",
    "The other processes take part in an exchange within the time of the flag `collective_timeout`.",
    remedy="Look at what the processes in the message do, as by `py-spy dump`; raise the flag if they are merely slow.",
    why_no_example="several processes are needed",
)
MPI_CALL = ErrorCode(
    "E6712",
    "The calls of MPI succeed.",
    remedy="Look at the message of MPI, and at whether the other processes and the network still work.",
    why_no_example="MPI has to fail",
)
PROCESS_VERSIONS = ErrorCode(
    "E6713",
    "All processes run the same version of xlapy.",
    remedy="Install the same version on all machines.",
    why_no_example="two versions of xlapy are needed",
)
PROCESS_LOST = ErrorCode(
    "E6714",
    "No process ends before the others have left the process group.",
    remedy="Look at the output of the process in the message; the system ends processes for lack of memory, too.",
    why_no_example="several processes are needed",
)
HOST_NAMES = ErrorCode(
    "E6715",
    "Machines have different host names: MPI takes processes with the same host name for those of one machine, which "
    "share memory.",
    remedy="Give each machine or container a host name of its own, as by `hostnamectl set-hostname`.",
    why_no_example="two machines are needed",
)

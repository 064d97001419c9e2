"""Platforms, clients and devices.

Codes E6600 to E6699: names of platforms, numbers of devices, and topologies.
"""

from xlapy.base.error_codes.code import ErrorCode

PLATFORM = ErrorCode(
    "E6600",
    "A client is made for a platform that is built in, registered, or installed as an entry point.",
    remedy="Use one of the names in the message, or register the platform.",
    python="xla.Client('tpu')",
)
PLATFORM_NAME = ErrorCode(
    "E6601",
    "A platform that is registered has a name of its own: letters, digits, `-` and `_`.",
    remedy="Choose another name; `cpu` and `interpreter` are built in.",
    python="xla.runtime.backend.register_backend('cpu', lambda: None)",
)
PLATFORM_PACKAGE = ErrorCode(
    "E6602",
    "The package of an installed platform can be imported.",
    remedy="Import the package by itself to see what it lacks, and install that.",
    why_no_example="a broken package has to be installed",
)
CLIENT_DEVICES = ErrorCode(
    "E6603",
    "A client or a topology has 1 to 65536 devices.",
    remedy="Give a number in this range.",
    python="xla.Client(devices=0)",
)
RUN_DEVICES = ErrorCode(
    "E6604",
    "A program runs on at least 1 replica and 1 partition, and on at most as many devices as there are.",
    remedy="Make a client of more devices, as in `Client(devices=8)`, or set the flag `num_devices` for JAX.",
    python="xla.Client(devices=2).compile('HloModule m, replica_count=4 ENTRY e { ROOT x = f32[] parameter(0) }')",
)
DEVICE_NUMBER = ErrorCode(
    "E6605",
    "A device that is named exists, and is one of the devices of the program that is called.",
    remedy="Use a number from 0 to the number of devices less 1.",
    python="xla.Client().compile('ENTRY e { ROOT x = f32[] parameter(0) }', device_assignment=[1])",
)
MEMORY_KIND = ErrorCode(
    "E6606",
    "A memory that is named is of a kind that the devices have.",
    remedy="Use one of the kinds in the message.",
    stablehlo="""
        func.func @main(%x: tensor<2xf32> {mhlo.memory_kind = "moon"}) -> tensor<2xf32> {
          return %x : tensor<2xf32>
        }
    """,
)
TOPOLOGY = ErrorCode(
    "E6607",
    "The name of a topology is its number of devices; serialized, it is read on the machine and by the version that "
    "wrote it.",
    remedy="Make the topology again, as in `get_topology_desc('4', 'xlapy')`.",
    why_no_example="only a client of the C API makes topologies",
)
PROCESSES = ErrorCode(
    "E6608",
    "Processes that run a program together are connected by MPI, which counts as many as the framework does.",
    remedy="Install `xlapy[mpi]`, and start all processes with `mpirun`, or pass each the address, the number of "
    "processes and its index.",
    why_no_example="several processes are needed",
)
PROCESS_CLIENTS = ErrorCode(
    "E6609",
    "All processes make the same clients in the same order: of one platform, with the same number of devices each.",
    remedy="Give every process the same `Client(platform, devices=...)`, or the same flag `num_devices`; "
    "`single_process=True` makes a client of one process.",
    why_no_example="several processes are needed",
)
ADDRESSABLE_DEVICE = ErrorCode(
    "E6610",
    "A process launches programs that run on some of its devices, and exchanges values with its own devices only.",
    remedy="Let the process that the message names make the call, or compile the program for devices of this one "
    "(`device_assignment`).",
    why_no_example="several processes are needed",
)

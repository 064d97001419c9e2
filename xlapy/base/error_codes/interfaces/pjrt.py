"""JAX and PJRT.

Codes E8000 to E8199: uses of the C API of PJRT, and callbacks of JAX. JAX shows the code at the end of its exception.
"""

from xlapy.base.error_codes.code import ErrorCode

_CLIENT_OF_C = "only a client of the C API can show it"
_PROGRAM_OF_JAX = "only a program of JAX can show it"

NULL_POINTER = ErrorCode(
    "E8000",
    "An argument of the C API that points to data, to a structure or to an object is not null.",
    remedy="Set the field that the message names.",
    why_no_example=_CLIENT_OF_C,
)
HANDLE = ErrorCode(
    "E8001",
    "A handle is that of an object of its kind that is not destroyed.",
    remedy="Keep objects until their last use, and destroy each of them once.",
    why_no_example=_CLIENT_OF_C,
)
STRUCTURE_SIZE = ErrorCode(
    "E8002",
    "The field `struct_size` of the arguments of an entry has at least the size in the version that xlapy implements.",
    remedy="Build the client with headers of this version or a later one.",
    why_no_example=_CLIENT_OF_C,
)
UNSUPPORTED_ENTRY = ErrorCode(
    "E8003",
    "A client calls entries of the C API that xlapy implements.",
    remedy="Use what the message names in its place.",
    why_no_example=_CLIENT_OF_C,
)
BUFFER_TYPE = ErrorCode(
    "E8004",
    "Arrays have element types and dimensions that xlapy has arrays of.",
    remedy="Convert the array; sizes are at least 0 and fit in 64 bits.",
    why_no_example=_CLIENT_OF_C,
)
MEMORY_LAYOUT = ErrorCode(
    "E8005",
    "A layout that is requested orders the dimensions of its array, without tiles.",
    remedy="Give each dimension once, from minor to major, or leave the layout out.",
    why_no_example=_CLIENT_OF_C,
)
BUFFER_SIZE = ErrorCode(
    "E8006",
    "Data, strides and ranges have the sizes of the buffer that they are read from or written to.",
    remedy="Give the sizes of the buffer, in bytes and dimensions.",
    why_no_example=_CLIENT_OF_C,
)
BUFFER_ALIGNMENT = ErrorCode(
    "E8007",
    "Memory that a buffer views is aligned as the message says.",
    remedy="Allocate it with this alignment, or let xlapy copy the data.",
    why_no_example=_CLIENT_OF_C,
)
BUFFER_STATE = ErrorCode(
    "E8008",
    "The data of a buffer of a transfer manager are given once, and the buffer is retrieved once.",
    remedy="Make a transfer manager for each transfer.",
    why_no_example=_CLIENT_OF_C,
)
BUFFER_REFERENCES = ErrorCode(
    "E8009",
    "A client gives up no more references to the memory of a buffer than it has acquired.",
    remedy="Call PJRT_Buffer_DecreaseExternalReferenceCount once for each increase.",
    why_no_example=_CLIENT_OF_C,
)
PROGRAM_FORMAT = ErrorCode(
    "E8010",
    "A program that is compiled has the format `mlir` or `hlo`.",
    remedy="Write the program as StableHLO or as an HloModuleProto.",
    why_no_example=_CLIENT_OF_C,
)
PROGRAM_TEXT = ErrorCode(
    "E8011",
    "The StableHLO of a program can be read, and its shardings can be propagated.",
    remedy="Look at the message of MLIR, which says what is wrong and where.",
    why_no_example=_PROGRAM_OF_JAX,
)
COMPILER_OPTIONS = ErrorCode(
    "E8012",
    "The compiler options of a program are those of XLA, or `xlapy_memory_limit`.",
    remedy="Correct the option that the message names.",
    why_no_example=_PROGRAM_OF_JAX,
)
LOADED_COUNTS = ErrorCode(
    "E8013",
    "An executable is loaded for as many replicas and partitions as it was compiled for.",
    remedy="Compile it for the other numbers.",
    why_no_example=_CLIENT_OF_C,
)
RESULT_KIND = ErrorCode(
    "E8014",
    "The results of a program are arrays and tokens.",
    remedy="Return the elements of inner tuples as results of their own.",
    why_no_example=_CLIENT_OF_C,
)
EXECUTABLE_STATE = ErrorCode(
    "E8015",
    "An executable that is called is loaded on devices of a client, and not deleted.",
    remedy="Load it by PJRT_Client_Load, and delete it after its last call.",
    why_no_example=_CLIENT_OF_C,
)
SINGLE_CALL = ErrorCode(
    "E8016",
    "The devices of a program are called together if they depend on each other or on the host.",
    remedy="Call the executable once for all of its devices.",
    why_no_example=_CLIENT_OF_C,
)
ARGUMENT_PLACE = ErrorCode(
    "E8017",
    "An argument is on the device of its parameter, in the layout of the parameter.",
    remedy="Copy the buffer to the device, or make it with the layout that the program reports.",
    why_no_example=_CLIENT_OF_C,
)
OUTPUT_CALLBACKS = ErrorCode(
    "E8018",
    "Outputs of single instructions have no callbacks.",
    remedy="Use the flag `check_nans`, or `xla.runtime.trace` on the platform interpreter.",
    why_no_example=_CLIENT_OF_C,
)
HOST_CHANNEL = ErrorCode(
    "E8019",
    "Callbacks of a launch belong to channels on which the program exchanges values with the host.",
    remedy="Use the channels of the program's sends and receives.",
    why_no_example=_CLIENT_OF_C,
)
STREAM_END = ErrorCode(
    "E8020",
    "A stream to a device gets all bytes of its array before it is destroyed.",
    remedy="Add the missing bytes.",
    why_no_example=_CLIENT_OF_C,
)
CALLBACK = ErrorCode(
    "E8030",
    "A Python function that JAX calls back returns its results without an exception.",
    remedy="Look at the traceback in the message.",
    why_no_example=_PROGRAM_OF_JAX,
)
SHARDING_CALLBACK = ErrorCode(
    "E8031",
    "The function of `jax.debug.inspect_array_sharding` returns without an exception.",
    remedy="Look at the exception in the message.",
    why_no_example=_PROGRAM_OF_JAX,
)
SEMANTICS = ErrorCode(
    "E8032",
    "The semantics of a host buffer are a value of PJRT_HostBufferSemantics.",
    remedy="Use a value of the header.",
    why_no_example=_CLIENT_OF_C,
)
ERROR_CODE = ErrorCode(
    "E8033",
    "A code of an error that a client gives is one of absl::StatusCode, and not OK.",
    remedy="Use a code from 1 to 16.",
    why_no_example=_CLIENT_OF_C,
)
CLIENT_FAILURE = ErrorCode(
    "E8034",
    "A client fills the buffers that it has promised.",
    remedy="Look at the message, which the client has given.",
    why_no_example=_CLIENT_OF_C,
)
MAPPED_MEMORY = ErrorCode(
    "E8035",
    "Memory that is mapped is a range that is not mapped yet, and memory that is unmapped is mapped.",
    remedy="Map each range once, and unmap it by its first address.",
    why_no_example=_CLIENT_OF_C,
)
PROFILER_STATE = ErrorCode(
    "E8036",
    "A profiler is started, stopped and read in this order, and one trace is taken at a time.",
    remedy="Stop the other trace first, such as that of `jax.profiler`.",
    why_no_example=_CLIENT_OF_C,
)
CUSTOM_PARTITIONER = ErrorCode(
    "E8040",
    "The functions given to `custom_partitioning.def_partition` return without an exception, and `partition` returns "
    "shardings of the function's arguments and results.",
    remedy="Look at the exception in the message.",
    why_no_example=_PROGRAM_OF_JAX,
)

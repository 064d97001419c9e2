"""Custom calls.

Codes E6400 to E6599: registration of targets, their attributes, and errors of calls.
"""

from xlapy.base.error_codes.code import ErrorCode

TARGET_NAME = ErrorCode(
    "E6400",
    "A custom-call target has a name that is not empty.",
    remedy="Give the text that `custom_call_target` has in programs.",
    python="xla.register_custom_call_target('', lambda x: x)",
)
TARGET_CODE = ErrorCode(
    "E6401",
    "A custom-call target is a Python or ctypes function, an address, a PyCapsule, or a dictionary of such handlers.",
    remedy="Give one of these; handlers in a dictionary are native code.",
    python="xla.register_custom_call_target('target', 'a name')",
)
TARGET_PLATFORM = ErrorCode(
    "E6402",
    "A custom-call target is registered for a platform that has custom-call targets, or for all of them.",
    remedy="Give one of the platforms in the message, or leave `platform` out.",
    python="xla.register_custom_call_target('target', lambda x: x, platform='gpu')",
)
API_VERSION = ErrorCode(
    "E6403",
    "The `api_version` of a target is a CustomCallApiVersion that is specified, or its number from 1 to 4.",
    remedy="Leave it out for a Python function; give the version of the signature for native code.",
    python="xla.register_custom_call_target('target', lambda x: x, api_version=7)",
)
TARGET_STAGES = ErrorCode(
    "E6404",
    "Handlers by stage are of API_VERSION_TYPED_FFI; the stage `execute` is among them, and others are optional.",
    remedy="Use the keys `instantiate`, `prepare`, `initialize` and `execute`.",
    python="xla.register_custom_call_target('target', {'run': 4096})",
)
TARGET_ADDRESS = ErrorCode(
    "E6405",
    "An address of native code, of a type or of a PyCapsule is one that the process has memory for.",
    remedy="Keep the library loaded, and give the address of the symbol itself.",
    python="xla.register_custom_call_target('target', 1)",
)
TARGET_REGISTERED = ErrorCode(
    "E6406",
    "A target that is called or unregistered is registered for the platform.",
    remedy="Register it by `xlapy.register_custom_call_target` first; the message lists similar names.",
    python="xla.unregister_custom_call_target('target')",
)
INTERFACE_VERSION = ErrorCode(
    "E6407",
    "Native code of API_VERSION_TYPED_FFI is built for a supported version of the typed interface.",
    remedy="Build the library with headers of a supported version.",
    why_no_example="a library that was built for another version is needed",
)
REGISTERED_TYPE = ErrorCode(
    "E6408",
    "The name of a state type is registered with one type id.",
    remedy="Register each type once, before the targets that use it.",
    why_no_example="memory of native code is needed",
)
CALL_VERSION = ErrorCode(
    "E6409",
    "A call has the API version for which its target is registered.",
    remedy="Register the target with `api_version=` of the call, or declare the version of the target in the program.",
    python="""
        xla.register_custom_call_target("typed", lambda x: x, api_version=4)
        text = 'x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="typed"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
FAILED_TARGET = ErrorCode(
    "E6410",
    "A custom-call target returns without an error.",
    remedy="Look at the message of the target, and at the cause of the error if the target is a Python function.",
    python="""
        def target(x):
            raise ValueError("x is refused")
        xla.register_custom_call_target("refusing", target)
        text = 'x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="refusing"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")(1.0)
    """,
)
TARGET_FUTURE = ErrorCode(
    "E6411",
    "The future that a target returns is one that it made, and is completed within the timeout.",
    remedy="Complete the future on every path, or raise the flag `collective_timeout` (seconds).",
    why_no_example="native code of the typed interface is needed",
)
CALL_ATTRIBUTES = ErrorCode(
    "E6412",
    "The `backend_config` of a typed call is a dictionary `{name = value, ...}` of attributes in the syntax of MLIR.",
    remedy="Write numbers with their type, as in `{alpha = 0.5 : f32}`, strings in quotes, and arrays as "
    "`array<i64: 1, 2>`.",
    hlo="""
        HloModule m
        ENTRY e {
          x = f32[3,3] parameter(0)
          ROOT y = (f32[3,3], s32[3], s32[]) custom-call(x), custom_call_target="lapack_sgetrf_ffi",
            api_version=API_VERSION_TYPED_FFI, backend_config="alpha = 1"
        }
    """,
)
CALL_LAYOUT = ErrorCode(
    "E6413",
    "Arrays that native code reads or writes have layouts without tiles and packed elements.",
    remedy="Declare a plain layout, such as `{1,0}`, in `operand_layout_constraints` and in the result.",
    why_no_example="native code is needed",
)
LAPACK_CALL = ErrorCode(
    "E6414",
    "A call of LAPACK has the shapes, sizes and attributes of the signature of its routine.",
    remedy="Declare the shapes that the message lists.",
    hlo="""
        HloModule m
        ENTRY e {
          x = f32[3,3] parameter(0)
          ROOT y = f32[3,3] custom-call(x), custom_call_target="lapack_sgetrf_ffi", api_version=API_VERSION_TYPED_FFI
        }
    """,
)
DYNAMIC_CALL = ErrorCode(
    "E6415",
    "The operands and the result of a registered target have static shapes.",
    remedy="Read the sizes with get-dimension-size, and pass them with static arrays.",
    python="""
        xla.register_custom_call_target("static", lambda x: x)
        text = 'x = f32[<=2] parameter(0) ROOT y = f32[<=2] custom-call(x), custom_call_target="static"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
TARGET_RESULT = ErrorCode(
    "E6416",
    "A Python target returns values of the shape that the call declares.",
    remedy="Return an array, or a tuple of arrays, with the declared sizes and element types.",
    python="""
        xla.register_custom_call_target("shape", lambda x: np.zeros(3, np.float32))
        text = 'x = f32[] parameter(0) ROOT y = f32[2] custom-call(x), custom_call_target="shape"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")(1.0)
    """,
)
BUILT_IN_CALL = ErrorCode(
    "E6417",
    "A call of a built-in target has the operands, the result and the `backend_config` of its signature.",
    remedy="Declare the shapes that the message names.",
    hlo="""
        HloModule m
        ENTRY e { x = f32[8] parameter(0) ROOT y = f32[3] custom-call(x), custom_call_target="TopK" }
    """,
)
SPARSE_INDICES = ErrorCode(
    "E6418",
    "The row offsets of a sparse matrix ascend to at most the number of its elements; columns are within its width.",
    remedy="Sort the elements by row, and count them.",
    python='''
        text = """HloModule m
        ENTRY e {
          elements = f32[2] parameter(0)
          row_offsets = s32[2] constant({0, 2})
          columns = s32[2] constant({0, 9})
          dense = f32[3] parameter(1)
          ROOT r = f32[1] custom-call(elements, row_offsets, columns, dense),
            custom_call_target="cpu_csr_sparse_dense_ffi", api_version=API_VERSION_TYPED_FFI
        }"""
        xla.Client("interpreter").compile(text)(np.float32([1, 2]), np.float32([1, 2, 3]))
    ''',
)

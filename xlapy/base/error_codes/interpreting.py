"""Evaluating instructions.

Codes E5600 to E5699: values that the interpreter and the reference evaluate, as sizes, offsets and custom calls.
"""

from xlapy.base.error_codes.code import ErrorCode

CANCELED = ErrorCode(
    "E5600",
    "A program is evaluated to its end: no other device of the run fails, and no signal ends the process.",
    remedy="Look for the error of another device.",
    why_no_example="a signal or another device has to end the run",
)
OUT_OF_MEMORY = ErrorCode(
    "E5601",
    "The memory for the value of each instruction is available.",
    remedy="Run smaller pieces of the program, or use the platform cpu, which needs memory for fewer values.",
    why_no_example="the memory of a program is checked before it runs; see E6200",
)
INVALID_VALUE = ErrorCode(
    "E5602",
    "If `check_nans` is on, no instruction makes a NaN from operands without NaN; `check_infs` checks infinities.",
    remedy="Look at the operands in the message, and guard the operation, as by a maximum before a logarithm.",
    python="""
        text = "HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] log(x) }"
        xla.Client("interpreter").compile(text, check_nans=True)(-1.0)
    """,
)
DYNAMIC_SIZE = ErrorCode(
    "E5610",
    "The size of a dynamic dimension is from 0 to its bound.",
    remedy="Clamp the size before set-dimension-size or dynamic-reshape, or raise the bound.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[4] parameter(0)
          n = s32[] parameter(1)
          ROOT y = f32[<=4] set-dimension-size(x, n), dimensions={0}
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(4, np.float32), np.int32(9))
    ''',
)
RESHAPED_COUNT = ErrorCode(
    "E5611",
    "The sizes of a dynamic-reshape hold as many elements as the operand has.",
    remedy="Compute the sizes from those of the operand.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[4] parameter(0)
          n = s32[] parameter(1)
          ROOT y = f32[<=4] dynamic-reshape(x, n)
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(4, np.float32), np.int32(3))
    ''',
)
RESHAPED_SIZES = ErrorCode(
    "E5612",
    "A reshape or bitcast of dynamic dimensions determines the size of each dynamic dimension of its result.",
    remedy="Use dynamic-reshape, which takes the sizes as operands.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[4] parameter(0)
          n = s32[] parameter(1)
          y = f32[<=4] set-dimension-size(x, n), dimensions={0}
          ROOT z = f32[<=2,<=2] reshape(y)
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(4, np.float32), np.int32(3))
    ''',
)
DYNAMIC_KERNEL = ErrorCode(
    "E5613",
    "The spatial dimensions of the kernel of a convolution are static.",
    remedy="Pad the kernel with zeros to its bound, and pass it as static array.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[1,4,1] parameter(0)
          k = f32[3,1,1] parameter(1)
          n = s32[] parameter(2)
          d = f32[<=3,1,1] set-dimension-size(k, n), dimensions={0}
          ROOT y = f32[1,<=2,1] convolution(x, d), window={size=3}, dim_labels=b0f_0io->b0f
        }"""
        kernel = np.zeros((3, 1, 1), np.float32)
        xla.Client("interpreter").compile(text)(np.zeros((1, 4, 1), np.float32), kernel, np.int32(3))
    ''',
)
GROUP_MEMBER = ErrorCode(
    "E5620",
    "Each device that runs a collective is in one of its replica groups.",
    remedy="Name the device in `replica_groups`, or leave the groups empty for all devices.",
    why_no_example="groups that leave out a device are refused when the program is compiled",
)
PAIR_MEMBERS = ErrorCode(
    "E5621",
    "Source and target pairs name members of the group: ids that are less than the number of devices.",
    remedy="Correct the pairs, which count from 0.",
    python='''
        from xlapy.interpreter import Context, evaluate_computation
        text = """HloModule m
        ENTRY e { x = f32[] parameter(0) ROOT y = f32[] collective-permute(x), source_target_pairs={{0,1}} }"""
        evaluate_computation(Context(), xla.parse_hlo(text).entry_computation, [np.float32(1)])
    ''',
)
PAIR_LIST = ErrorCode(
    "E5622",
    "The source and target pairs of a send or recv are a list such as {{0,1},{1,0}}.",
    remedy="Correct the frontend attribute `_xla_send_recv_source_target_pairs`.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[2] parameter(0)
          t = token[] after-all()
          r = (f32[2], u32[], token[]) recv(t), frontend_attributes={_xla_send_recv_source_target_pairs="0,1"}
          s = (f32[2], u32[], token[]) send(x, t), frontend_attributes={_xla_send_recv_source_target_pairs="0,1"}
          sent = token[] send-done(s)
          ROOT d = (f32[2], token[]) recv-done(r)
        }"""
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[np.zeros(2, np.float32)]] * 2)
    ''',
)
REDUCED_SIZES = ErrorCode(
    "E5623",
    "A reducer that combines all operands at once takes operands of equal sizes.",
    remedy="Reduce each operand with a reducer of its own.",
    python='''
        text = """HloModule m, replica_count=2
        first {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          c = f32[] parameter(2)
          d = f32[] parameter(3)
          ROOT t = (f32[], f32[]) tuple(a, b)
        }
        ENTRY e {
          x = f32[3] parameter(0)
          y = f32[1] parameter(1)
          ROOT z = (f32[3], f32[1]) all-reduce(x, y), replica_groups={}, to_apply=first
        }"""
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[np.zeros(3, np.float32), np.zeros(1, np.float32)]] * 2)
    ''',
)
REDUCED_TYPE = ErrorCode(
    "E5624",
    "A reducer of complex operands is complex.",
    remedy="Let the reducer take complex numbers, or take `real` of the operands.",
    python='''
        text = """HloModule m, replica_count=2
        add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
        ENTRY e { x = c64[] parameter(0) ROOT y = c64[] all-reduce(x), replica_groups={}, to_apply=add }"""
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[np.complex64(1j)]] * 2)
    ''',
)
BROADCAST_ROOT = ErrorCode(
    "E5625",
    "All members of a group give the same roots, which are positions in the group.",
    remedy="Compute the root without partition-id and replica-id, or broadcast it first.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[] parameter(0)
          root = s32[1] parameter(1)
          ROOT y = f32[] collective-broadcast(x, root), replica_groups={{0,1}}, has_dynamic_root=true
        }"""
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[np.float32(1), np.array([2], np.int32)]] * 2)
    ''',
)
INTEGER_OFFSETS = ErrorCode(
    "E5626",
    "Offsets and sizes of the slices of a collective are integers.",
    remedy="Convert them to s32.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[3,2] parameter(0)
          y = f32[4,2] parameter(1)
          i = f32[] constant(0)
          o = (f32[], f32[]) tuple(i, i)
          ROOT z = f32[4,2] collective-permute(x, y, o, o), source_target_pairs={{0,1}}, slice_sizes={{2,2}}
        }"""
        xla.Client("interpreter", devices=2).compile(text)
    ''',
)
SLICE_COUNT = ErrorCode(
    "E5627",
    "A collective-permute of slices has one entry of slice_sizes for each slice of each buffer.",
    remedy="List sizes for all slices of the first buffer, then for those of the next.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[3,2] parameter(0)
          y = f32[4,2] parameter(1)
          i = s32[] constant(0)
          o = (s32[], s32[]) tuple(i, i)
          ROOT z = f32[4,2] collective-permute(x, y, o, o), source_target_pairs={{0,1}}, slice_sizes={{2,2},{2,2}}
        }"""
        xla.Client("interpreter", devices=2).compile(text)
    ''',
)
SLICE_SIZES = ErrorCode(
    "E5628",
    "A slice fits in the buffers that it is copied between, which have the same element type.",
    remedy="Give sizes that are at most those of both buffers, one for each dimension.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[3,2] parameter(0)
          y = f32[4,2] parameter(1)
          i = s32[] constant(0)
          o = (s32[], s32[]) tuple(i, i)
          ROOT z = f32[4,2] collective-permute(x, y, o, o), source_target_pairs={{0,1}}, slice_sizes={{4,2}}
        }"""
        xla.Client("interpreter", devices=2).compile(text)
    ''',
)
SLICE_BOUNDS = ErrorCode(
    "E5629",
    "A slice that a collective reads or writes is within its array.",
    remedy="Check offsets and sizes on the device that the message names, as by a clamp.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[3,2] parameter(0)
          y = f32[4,2] parameter(1)
          i = s32[] parameter(2)
          o = (s32[], s32[]) tuple(i, i)
          ROOT z = f32[4,2] collective-permute(x, y, o, o), source_target_pairs={{0,1}}, slice_sizes={{2,2}}
        }"""
        arrays = [np.zeros((3, 2), np.float32), np.zeros((4, 2), np.float32)]
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[*arrays, np.int32(2)]] * 2)
    ''',
)
RECEIVED_SIZES = ErrorCode(
    "E5630",
    "Each member of a ragged-all-to-all expects the number of rows that the other members send.",
    remedy="Exchange the sizes first, as by an all-to-all of send_sizes.",
    python='''
        text = """HloModule m, replica_count=2 ENTRY e {
          x = f32[3] parameter(0)
          y = f32[4] parameter(1)
          zero = s32[2] constant({0, 0})
          one = s32[2] constant({1, 1})
          two = s32[2] constant({2, 2})
          ROOT z = f32[4] ragged-all-to-all(x, y, zero, one, zero, two), replica_groups={}
        }"""
        program = xla.Client("interpreter", devices=2).compile(text)
        program.execute_sharded([[np.zeros(3, np.float32), np.zeros(4, np.float32)]] * 2)
    ''',
)
SPARSE_KERNEL = ErrorCode(
    "E5640",
    "A sparse kernel is a tuple of elements and their positions, as sparsity_config describes it.",
    remedy="Give both parts the same sizes, integers as positions, and a multiple of the stride of elements.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[1,4] parameter(0)
          elements = f32[2,1] parameter(1)
          positions = s32[2,1] parameter(2)
          kernel = (f32[2,1], s32[2,1]) tuple(elements, positions)
          ROOT y = f32[1,1] convolution(x, kernel), dim_labels=bf_io->bf,
            sparsity_config={rhs={sparsity=1x2 dimension=0 stride=4}}
        }"""
        positions = np.array([[0], [1]], np.int32)
        arrays = [np.zeros((1, 4), np.float32), np.zeros((2, 1), np.float32), positions]
        xla.Client("interpreter").compile(text)(*arrays)
    ''',
)
SPARSE_POSITION = ErrorCode(
    "E5641",
    "The position of an element of a sparse kernel is within its block.",
    remedy="Give positions from 0 to the block size less 1.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[1,4] parameter(0)
          elements = f32[2,1] parameter(1)
          positions = s32[2,1] parameter(2)
          kernel = (f32[2,1], s32[2,1]) tuple(elements, positions)
          ROOT y = f32[1,1] convolution(x, kernel), dim_labels=bf_io->bf,
            sparsity_config={rhs={sparsity=1x2 dimension=0 stride=1}}
        }"""
        positions = np.array([[0], [2]], np.int32)
        arrays = [np.zeros((1, 4), np.float32), np.zeros((2, 1), np.float32), positions]
        xla.Client("interpreter").compile(text)(*arrays)
    ''',
)
RANDOM_BITS_TYPE = ErrorCode(
    "E5642",
    "Random bits are integers or floating-point numbers.",
    remedy="Declare an unsigned integer, and convert it.",
    python='''
        text = """HloModule m ENTRY e {
          s = u64[2] parameter(0)
          ROOT y = (u64[2], pred[3]) rng-bit-generator(s), algorithm=rng_default
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(2, np.uint64))
    ''',
)
RANDOM_STATE = ErrorCode(
    "E5643",
    "The state of a random bit generator has the element type and size of its algorithm.",
    remedy="Pass a state of u64[2], or u64[3] for `rng_philox`.",
    python='''
        text = """HloModule m ENTRY e {
          s = u64[4] parameter(0)
          ROOT y = (u64[4], u32[3]) rng-bit-generator(s), algorithm=rng_default
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(4, np.uint64))
    ''',
)
STOCHASTIC_TYPE = ErrorCode(
    "E5644",
    "A stochastic-convert converts to signed integers.",
    remedy="Convert to a signed integer first, then to the other type.",
    python='''
        text = """HloModule m ENTRY e {
          x = f32[2] parameter(0)
          r = u32[2] parameter(1)
          ROOT y = u8[2] stochastic-convert(x, r)
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(2, np.float32), np.zeros(2, np.uint32))
    ''',
)
ELEMENT_FUNCTION = ErrorCode(
    "E5645",
    "An elementwise operation is defined for the element type of its operands.",
    remedy="Convert the operands to another element type.",
    why_no_example="the rules of shapes refuse other element types first",
)
TARGET_REGISTERED = ErrorCode(
    "E5650",
    "The target of a custom call is registered for the platform, or is built in.",
    remedy="Register it by `xlapy.register_custom_call_target` first; the message lists similar names.",
    python="""
        text = 'HloModule m ENTRY e { x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="f" }'
        xla.Client("interpreter").compile(text)
    """,
)
TARGET_DYNAMIC = ErrorCode(
    "E5651",
    "A registered target takes arrays of static shape.",
    remedy="Read the sizes with get-dimension-size, and pass static arrays.",
    python="""
        xla.register_custom_call_target("static", lambda x: x)
        text = 'x = f32[<=4] parameter(0) ROOT y = f32[<=4] custom-call(x), custom_call_target="static"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
TARGET_VERSION = ErrorCode(
    "E5652",
    "The api_version of a custom call is the one that its target is registered with.",
    remedy="Register the target with the version of the call.",
    python="""
        import ctypes
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        version = xla.CustomCallApiVersion.STATUS_RETURNING
        xla.register_custom_call_target("versioned", function(lambda *_: None), api_version=version)
        text = 'x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="versioned"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
TARGET_RAISED = ErrorCode(
    "E5653",
    "A Python function that is the target of a custom call returns without an exception.",
    remedy="Look at the cause of the error, which has the exception and its lines.",
    python="""
        def target(x):
            raise ValueError("x is refused")
        xla.register_custom_call_target("refusing", target)
        text = 'x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="refusing"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")(1.0)
    """,
)
TARGET_RESULT = ErrorCode(
    "E5654",
    "A Python target returns arrays of the declared shape and element type.",
    remedy="Convert the array with `.astype`, or declare the shape that the target returns.",
    python="""
        xla.register_custom_call_target("doubling", lambda x: np.float64(2) * x)
        text = 'x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="doubling"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")(1.0)
    """,
)
BUILTIN_SIGNATURE = ErrorCode(
    "E5655",
    "The call of a built-in target has the shapes of its signature.",
    remedy="Give the operands and declare the result as the message says.",
    python="""
        text = 'x = f32[4] parameter(0) ROOT y = f32[2] custom-call(x), custom_call_target="TopK"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
BUILTIN_CONFIG = ErrorCode(
    "E5656",
    "The backend_config of a built-in target has the form that the target reads.",
    remedy="Write the text that the message describes.",
    python="""
        text = 'x = f32[4] parameter(0) ROOT y = f32[4] custom-call(x), custom_call_target="xlapy.interpret"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + ', backend_config="abs" }')
    """,
)
PARTITIONED_ANNOTATION = ErrorCode(
    "E5657",
    "A custom call that annotates shardings keeps the shape of its operand if the program has one partition.",
    remedy="Compile the program for its partitions (`num_partitions`), or declare equal shapes.",
    python="""
        text = 'x = f32[4] parameter(0) ROOT y = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape"'
        xla.Client("interpreter").compile("HloModule m ENTRY e { " + text + " }")
    """,
)
SPARSE_INDICES = ErrorCode(
    "E5658",
    "The row offsets of a sparse matrix ascend, up to the number of elements, and its columns exist.",
    remedy="Check the offsets and columns; both count from 0.",
    python='''
        text = """HloModule m ENTRY e {
          elements = f32[2] constant({1, 2})
          offsets = s32[3] constant({0, 1, 9})
          columns = s32[2] constant({0, 1})
          x = f32[2] parameter(0)
          ROOT y = f32[2] custom-call(elements, offsets, columns, x), custom_call_target="cpu_csr_sparse_dense_ffi",
            api_version=API_VERSION_TYPED_FFI
        }"""
        xla.Client("interpreter").compile(text)(np.zeros(2, np.float32))
    ''',
)

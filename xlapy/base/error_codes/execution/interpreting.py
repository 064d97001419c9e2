"""Evaluating instructions.

Codes E5600 to E5699: values that the interpreter and the reference evaluate, as sizes, offsets and custom calls.
"""

from xlapy.base.error_codes.code import ErrorCode

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

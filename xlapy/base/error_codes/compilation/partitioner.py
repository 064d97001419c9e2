"""The SPMD partitioner.

Codes E5400 to E5499: programs that are split over several devices.
"""

from xlapy.base.error_codes.code import ErrorCode

UNREDUCED_SUMS = ErrorCode(
    "E5400",
    "Values that devices leave unreduced are parts of sums.",
    remedy="Reduce the value before its sharding, or use the reduction sum.",
    python='''
        from xlapy.spmd.partitioner import partition
        text = """HloModule m, num_partitions=2
        ENTRY e {
          x = f32[8] parameter(0), sharding={mesh['x'=2], [{}], unreduced=max{'x'}}
          ROOT y = f32[8] negate(x)
        }"""
        partition(xla.parse_hlo(text), 2)
    ''',
)
PARTITIONED_OPERATION = ErrorCode(
    "E5401",
    "The partitioner can split each operation of a program for several partitions, or copy it to all devices.",
    remedy="Move the operation out of the partitioned program, or run it with one partition.",
    python='''
        from xlapy.spmd.partitioner import partition
        text = """HloModule m, num_partitions=2
        ENTRY e { t = token[] after-all() ROOT x = (f32[4], token[]) infeed(t) }"""
        partition(xla.parse_hlo(text), 2)
    ''',
)
MANUAL_REGION_SHAPE = ErrorCode(
    "E5402",
    "The shard that a manual region declares has the shape of each device's part of the full array.",
    remedy="Divide the sizes of the full array by the numbers of devices along the manual axes.",
    python='''
        from xlapy.spmd.partitioner import partition
        text = """HloModule m, num_partitions=2
        ENTRY e {
          x = f32[8] parameter(0), sharding={devices=[2]0,1}
          s = f32[3] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
          ROOT y = f32[8] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]0,1}
        }"""
        partition(xla.parse_hlo(text), 2)
    ''',
)
PARTITION_COUNT = ErrorCode(
    "E5403",
    "Shardings that split values name each of the program's partitions once, and no other device.",
    remedy="Partition the program for the number of devices in its shardings, or change the shardings.",
    python='''
        text = """HloModule m
        ENTRY e { ROOT x = f32[8] parameter(0), sharding={devices=[4]<=[4]} }"""
        xla.Client(devices=8).compile(text, num_partitions=8, use_spmd_partitioning=True)
    ''',
)
DYNAMIC_SHARDED = ErrorCode(
    "E5404",
    "Parameters and results that are split over devices have no dynamic dimensions.",
    remedy="Replicate the array, or pad it to a static shape.",
    python='''
        from xlapy.spmd import partition
        text = """HloModule m
        ENTRY e { ROOT x = f32[<=8,4] parameter(0), sharding={devices=[1,2]<=[2]} }"""
        partition(xla.parse_hlo(text), 2)
    ''',
)
CUSTOM_PARTITION_SHAPES = ErrorCode(
    "E5410",
    "The program that a custom partitioner returns takes and returns the local arrays of the shardings it returns.",
    remedy="Compute local arrays, or return the shardings of the arrays that the program computes.",
    python='''
        from xlapy.spmd.context import CustomPartition
        from xlapy.spmd.partitioner import partition
        text = """HloModule m, num_partitions=2
        ENTRY e {
          x = f32[8] parameter(0), sharding={devices=[2]0,1}
          ROOT y = f32[8] custom-call(x), custom_call_target="f", sharding={devices=[2]0,1}
        }"""
        program = xla.parse_hlo("HloModule f ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }")
        partition(xla.parse_hlo(text), 2, custom_partitioner=lambda call, operands, results:
            CustomPartition(program, tuple(operands), tuple(results)))
    ''',
)

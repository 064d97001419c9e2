"""Simulation of clusters.

Codes E7200 to E7299: descriptions of machines, topologies, numbers of devices and mesh shapes of `xlapy simulate`.
"""

from xlapy.base.error_codes.code import ErrorCode

MACHINE_DESCRIPTION = ErrorCode(
    "E7200",
    "A description of a machine has the fields of the format, and its rates are positive numbers.",
    remedy="Start from the file that `xlapy simulate --calibrate --machine FILE` writes.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        echo '{"name": "mine"}' > mine.json
        xlapy simulate m.hlo --machine mine.json
    """,
)
TOPOLOGY = ErrorCode(
    "E7201",
    "A topology gives the size of each level of the machine's links, from the innermost: `8x4` or `node=8,rack=4`.",
    remedy="Give sizes of at least 1, and at most as many as the machine has levels.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy simulate m.hlo --machine h100 --topology 8x-4
    """,
)
TOPOLOGY_SIZE = ErrorCode(
    "E7202",
    "A topology has room for all devices.",
    remedy="Raise the size of the outermost level, or leave it out if the machine does not bound it.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy simulate m.hlo --machine h100 --devices 64 --topology 8x2x1
    """,
)
DEVICE_COUNT = ErrorCode(
    "E7203",
    "A module that is partitioned already is simulated for the devices that its collectives name.",
    remedy="Leave `--devices` out, or partition the module for that number of devices.",
    command=(
        "echo 'HloModule m ENTRY e { x = f32[2] parameter(0) "
        "ROOT y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,3}} }' > m.hlo\n"
        "xlapy simulate m.hlo --machine h100 --devices 6"
    ),
)
MESH_AXES = ErrorCode(
    "E7204",
    "A mesh has axes of one or more devices, as in `data=2,model=4`, each with a name of its own.",
    remedy="Give the mesh over which the shardings of the module are defined, the slowest axis first.",
    command="""
        echo 'HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }' > m.hlo
        xlapy simulate m.hlo --machine h100 --mesh data --sweep
    """,
)
MESH_SHARDING = ErrorCode(
    "E7205",
    "The shardings of a module whose mesh changes split dimensions along whole axes of the mesh that is given.",
    remedy="Give the axes and sizes of the mesh with which the module was written.",
    command=(
        "echo 'HloModule m, num_partitions=4 ENTRY e { "
        "x = f32[8] parameter(0), sharding={devices=[4]0,2,1,3} ROOT y = f32[8] negate(x) }' > m.hlo\n"
        "xlapy simulate m.hlo --machine h100 --mesh data=4 --sweep"
    ),
)
GLOBAL_PROGRAM = ErrorCode(
    "E7206",
    "A program whose mesh changes is written for all devices, without collectives and parts for single devices.",
    remedy="Sweep the program before it is partitioned; programs of `shard_map` are written for one mesh.",
    command=(
        "echo 'HloModule m, num_partitions=2 ENTRY e { x = f32[2] parameter(0) "
        "ROOT y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1}} }' > m.hlo\n"
        "xlapy simulate m.hlo --machine h100 --mesh data=2 --sweep"
    ),
)

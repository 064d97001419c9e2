"""Samples of operations that exchange data among replicas and partitions, and of those that return their ids.

Each module sets the numbers of replicas and partitions; its groups fit them.
"""

from __future__ import annotations

from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB, Sample

_INTEGERS = ("s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64")
_TYPES = ("pred", *_INTEGERS, *_FLOATS, "c64", "c128")
_ABORTS = "aborts XLA:CPU of jaxlib 0.10.2"


def _lines(text: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in text.strip().splitlines())


def _reducer(op: str, t: str = "f32") -> str:
    return f"reducer {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = {t}[] {op}(a, b)\n}}\n\n"


def _module(
    name: str,
    entry: str,
    reducer: str = "",
    replicas: int = 1,
    partitions: int = 1,
    layout: str = "",
    note: str = "",
) -> Sample:
    """Returns a module. `layout` is the entry's; without it, XLA assumes row-major in a module for several devices."""
    header = f", entry_computation_layout={{{layout}}}" if layout else ""
    header += f", replica_count={replicas}" if replicas > 1 else ""
    header += f", num_partitions={partitions}" if partitions > 1 else ""
    return Sample(name, f"HloModule {name}{header}\n\n{reducer}ENTRY main {{\n{_lines(entry)}\n}}\n", note)


def _unary(
    name: str,
    operand: str,
    result: str,
    instruction: str,
    op: str = "",
    replicas: int = 1,
    partitions: int = 1,
    layout: str = "",
    note: str = "",
) -> Sample:
    """Returns a module with an op of one parameter `p`. `op` is the op of its reducer, if it has one."""
    entry = f"p = {operand} parameter(0)\nROOT r = {result} {instruction}"
    reducer = _reducer(op, operand.split("[")[0]) if op else ""
    return _module(name, entry, reducer, replicas, partitions, layout, note)


def _of_type(t: str) -> Sample:
    """Returns a module that contains each exchange between two replicas once, with one element type."""
    sum_ = "or" if t == "pred" else "add"
    shapes = ("[8,3]", "[4,3]", "[2,3]", "[4,3]", "[4,3]", "[4,3]")
    return _module(
        f"collectives_{t}",
        f"""
        p = {t}[4,3] parameter(0)
        a = {t}[8,3] all-gather(p), replica_groups={{{{0,1}}}}, dimensions={{0}}
        b = {t}[4,3] all-reduce(p), replica_groups={{{{0,1}}}}, to_apply=reducer
        c = {t}[2,3] reduce-scatter(p), replica_groups={{{{0,1}}}}, dimensions={{0}}, to_apply=reducer
        d = {t}[4,3] all-to-all(p), replica_groups={{{{0,1}}}}, dimensions={{0}}
        e = {t}[4,3] collective-broadcast(p), replica_groups={{{{0,1}}}}
        f = {t}[4,3] collective-permute(p), source_target_pairs={{{{0,1}},{{1,0}}}}
        ROOT t = ({", ".join(t + shape for shape in shapes)}) tuple(a, b, c, d, e, f)
        """,
        _reducer(sum_, t),
        replicas=2,
    )


_GROUPS = {
    "everybody": "{}",
    "lists": "{{0,2},{1,3}}",
    "iota": "[2,2]<=[4]",
    "transposed_iota": "[2,2]<=[2,2]T(1,0)",
    "mesh": "mesh['a'=2,'b'=2] {'b'}",
    "mesh_of_devices": "mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'a'}",
    "sub_axis": "mesh['a'=4] {'a':(1)2}",
}
"""Groups of four replicas in every textual form."""

_GROUP_SAMPLES = [
    _unary(
        f"all_reduce_of_{name}",
        "f32[4]",
        "f32[4]",
        f"all-reduce(p), replica_groups={groups}, to_apply=reducer",
        "add",
        replicas=4,
    )
    for name, groups in _GROUPS.items()
]

_GATHERS = [
    _unary("all_gather_of_all", "f32[2,3]", "f32[8,3]", "all-gather(p), replica_groups={}, dimensions={0}", replicas=4),
    _unary(
        "all_gather_last",
        "f32[2,3]",
        "f32[2,6]",
        "all-gather(p), replica_groups=[2,2]<=[4], dimensions={1}",
        replicas=4,
    ),
    _unary(
        "all_gather_global",
        "f32[2]",
        "f32[8]",
        "all-gather(p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true",
        replicas=2,
        partitions=2,
    ),
    _unary(
        "all_gather_replicas_and_partitions",
        "f32[2]",
        "f32[8]",
        "all-gather(p), channel_id=2, replica_groups={{0,1}}, dimensions={0}",
        replicas=2,
        partitions=2,
    ),
    _unary(
        "all_gather_layout",
        "f32[2,3]{0,1}",
        "f32[4,3]{0,1}",
        "all-gather(p), replica_groups={{0,1}}, constrain_layout=true, dimensions={0}",
        replicas=2,
        layout="(f32[2,3]{0,1})->f32[4,3]{0,1}",
    ),
    _module(
        "all_gather_of_two",
        """
        p = f32[2] parameter(0)
        q = s32[3,2] parameter(1)
        ROOT r = (f32[4], s32[6,2]) all-gather(p, q), replica_groups={{0,1}}, dimensions={0}
        """,
        replicas=2,
    ),
    _module(
        "all_gather_start_and_done",
        """
        p = f32[2] parameter(0)
        s = (f32[2], f32[4]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}
        ROOT d = f32[4] all-gather-done(s)
        """,
        replicas=2,
    ),
    _module(
        "all_gather_start_of_two",
        """
        p = f32[2] parameter(0)
        q = s32[3] parameter(1)
        s = ((f32[2], s32[3]), (f32[4], s32[6])) all-gather-start(p, q), replica_groups={{0,1}}, dimensions={0}
        ROOT d = (f32[4], s32[6]) all-gather-done(s)
        """,
        replicas=2,
    ),
    _unary(
        "all_gather_dynamic",
        "f32[2,<=3]",
        "f32[4,<=3]",
        "all-gather(p), replica_groups={{0,1}}, dimensions={0}",
        replicas=2,
    ),
]

_REDUCTIONS = [
    *(
        _unary(
            f"all_reduce_{op}",
            f"{t}[4]",
            f"{t}[4]",
            "all-reduce(p), replica_groups={{0,1}}, to_apply=reducer",
            op,
            replicas=2,
        )
        for op, t in (
            ("multiply", "f32"),
            ("maximum", "bf16"),
            ("minimum", "s32"),
            ("and", "u8"),
            ("or", "pred"),
            ("xor", "s64"),
        )
    ),
    _unary(
        "all_reduce_scalar", "f32[]", "f32[]", "all-reduce(p), replica_groups={}, to_apply=reducer", "add", replicas=2
    ),
    _unary(
        "all_reduce_uneven_groups",
        "f32[4]",
        "f32[4]",
        "all-reduce(p), replica_groups={{0},{1,2}}, to_apply=reducer",
        "add",
        replicas=3,
    ),
    _unary(
        "all_reduce_global",
        "f32[4]",
        "f32[4]",
        "all-reduce(p), channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true, to_apply=reducer",
        "add",
        replicas=2,
        partitions=2,
    ),
    _unary(
        "all_reduce_replicas_and_partitions",
        "f32[4]",
        "f32[4]",
        "all-reduce(p), channel_id=1, replica_groups={{0},{1}}, to_apply=reducer",
        "add",
        replicas=2,
        partitions=2,
    ),
    _unary(
        "all_reduce_layout",
        "f32[2,3]{0,1}",
        "f32[2,3]{0,1}",
        "all-reduce(p), replica_groups={{0,1}}, constrain_layout=true, to_apply=reducer",
        "add",
        replicas=2,
        layout="(f32[2,3]{0,1})->f32[2,3]{0,1}",
    ),
    _unary("all_reduce_dynamic", "f32[<=4]", "f32[<=4]", "all-reduce(p), replica_groups={}, to_apply=reducer", "add"),
    _module(
        "all_reduce_of_two",
        """
        p = f32[4] parameter(0)
        q = f32[2,3] parameter(1)
        ROOT r = (f32[4], f32[2,3]) all-reduce(p, q), replica_groups={{0,1}}, to_apply=reducer
        """,
        _reducer("add"),
        replicas=2,
    ),
    _module(
        "all_reduce_start_and_done",
        """
        p = f32[4] parameter(0)
        s = f32[4] all-reduce-start(p), replica_groups={{0,1}}, to_apply=reducer
        ROOT d = f32[4] all-reduce-done(s)
        """,
        _reducer("add"),
        replicas=2,
    ),
    _module(
        "all_reduce_start_of_two",
        """
        p = f32[4] parameter(0)
        q = f32[2] parameter(1)
        s = (f32[4], f32[2]) all-reduce-start(p, q), channel_id=3, replica_groups={{0,1}}, use_global_device_ids=true, \
to_apply=reducer
        ROOT d = (f32[4], f32[2]) all-reduce-done(s)
        """,
        _reducer("add"),
        replicas=2,
    ),
    _unary(
        "reduce_scatter_of_all",
        "f32[8,3]",
        "f32[2,3]",
        "reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=reducer",
        "add",
        replicas=4,
    ),
    _unary(
        "reduce_scatter_global",
        "f32[2,8]",
        "f32[2,2]",
        "reduce-scatter(p), channel_id=1, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={1}, \
to_apply=reducer",
        "maximum",
        replicas=2,
        partitions=2,
    ),
    _unary(
        "reduce_scatter_layout",
        "f32[2,4]{0,1}",
        "f32[2,2]{0,1}",
        "reduce-scatter(p), replica_groups={{0,1}}, constrain_layout=true, dimensions={1}, to_apply=reducer",
        "add",
        replicas=2,
        layout="(f32[2,4]{0,1})->f32[2,2]{0,1}",
    ),
    _module(
        "reduce_scatter_of_two",
        """
        p = f32[4] parameter(0)
        q = f32[2,3] parameter(1)
        ROOT r = (f32[2], f32[1,3]) reduce-scatter(p, q), replica_groups={{0,1}}, dimensions={0}, to_apply=reducer
        """,
        _reducer("add"),
        replicas=2,
    ),
    _unary(
        "collective_reduce",
        "f32[4]",
        "f32[4]",
        "collective-reduce(p), replica_groups={{0,1}}, has_dynamic_root=false, to_apply=reducer",
        "add",
        replicas=2,
        note=NEWER_THAN_JAXLIB,
    ),
    _module(
        "collective_reduce_dynamic_root",
        """
        p = f32[4] parameter(0)
        q = f32[2] parameter(1)
        root = s32[2] parameter(2)
        ROOT r = (f32[4], f32[2]) collective-reduce(p, q, root), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, has_dynamic_root=true, to_apply=reducer
        """,
        _reducer("add"),
        replicas=2,
        note=NEWER_THAN_JAXLIB,
    ),
]

_EXCHANGES = [
    _unary(
        "all_to_all_last",
        "f32[3,8]",
        "f32[3,8]",
        "all-to-all(p), replica_groups={{0,1},{2,3}}, dimensions={1}",
        replicas=4,
    ),
    _unary("all_to_all_of_all", "f32[8]", "f32[8]", "all-to-all(p), replica_groups={}, dimensions={0}", replicas=4),
    _unary(
        "all_to_all_partitions",
        "f32[4]",
        "f32[4]",
        "all-to-all(p), channel_id=1, replica_groups={{1,0}}, dimensions={0}",
        partitions=2,
    ),
    _module(
        "all_to_all_of_operands",
        """
        p = f32[4,2] parameter(0)
        q = f32[4,2] parameter(1)
        ROOT r = (f32[4,2], f32[4,2]) all-to-all(p, q), replica_groups={{0,1}}
        """,
        replicas=2,
        note=_ABORTS,
    ),
    _module(
        "all_to_all_layout",
        """
        p = f32[4,2]{0,1} parameter(0)
        q = f32[4,2]{0,1} parameter(1)
        ROOT r = (f32[4,2]{0,1}, f32[4,2]{0,1}) all-to-all(p, q), channel_id=2, replica_groups={{0,1}}, \
constrain_layout=true
        """,
        partitions=2,
        layout="(f32[4,2]{0,1}, f32[4,2]{0,1})->(f32[4,2]{0,1}, f32[4,2]{0,1})",
        note=_ABORTS,
    ),
    _unary("all_to_all_of_one_operand", "f32[4]", "(f32[4])", "all-to-all(p), replica_groups={{0}}", note=_ABORTS),
    *(
        _module(
            f"ragged_all_to_all{name}",
            f"""
            x = f32[8,2] parameter(0)
            y = f32[16,2] parameter(1)
            a = {offsets} parameter(2)
            b = {offsets} parameter(3)
            c = {offsets} parameter(4)
            d = {offsets} parameter(5)
            ROOT r = f32[16,2] ragged-all-to-all(x, y, a, b, c, d), {members}
            """,
            replicas=replicas,
            partitions=partitions,
        )
        for name, offsets, members, replicas, partitions in (
            ("", "s32[2]", "replica_groups={{0,1}}", 2, 1),
            ("_of_several_slices", "s64[2,3]", "replica_groups={{0,1}}", 2, 1),
            ("_of_partitions", "s32[2]", "channel_id=1, replica_groups=[1,2]<=[2]", 1, 2),
            ("_of_all", "s32[2]", "replica_groups={}", 2, 1),
        )
    ),
]

_COPIES = [
    _unary(
        "collective_broadcast_groups",
        "f32[4]",
        "f32[4]",
        "collective-broadcast(p), replica_groups={{1,0},{3,2}}",
        replicas=4,
    ),
    _unary(
        "collective_broadcast_partitions",
        "f32[4]",
        "f32[4]",
        "collective-broadcast(p), channel_id=1, replica_groups={{0,1}}",
        partitions=2,
    ),
    _unary(
        "collective_permute_ring",
        "f32[4]",
        "f32[4]",
        "collective-permute(p), source_target_pairs={{0,1},{1,2},{2,0}}",
        replicas=3,
    ),
    _unary(
        "collective_permute_nobody", "f32[4]", "f32[4]", "collective-permute(p), source_target_pairs={}", replicas=2
    ),
    _unary("collective_permute_self", "s8[]", "s8[]", "collective-permute(p), source_target_pairs={{0,0}}", replicas=2),
    _unary(
        "collective_permute_partitions",
        "f32[4]",
        "f32[4]",
        "collective-permute(p), channel_id=1, source_target_pairs={{0,1}}",
        partitions=2,
    ),
    _module(
        "collective_permute_of_two",
        """
        p = f32[4] parameter(0)
        q = s32[2] parameter(1)
        ROOT r = (f32[4], s32[2]) collective-permute(p, q), source_target_pairs={{0,1},{1,0}}
        """,
        replicas=2,
    ),
    _module(
        "collective_permute_of_slices",
        """
        p = f32[2,4] parameter(0)
        q = f32[6,4] parameter(1)
        i = s32[] constant(0)
        at = (s32[], s32[]) tuple(i, i)
        ROOT r = f32[6,4] collective-permute(p, q, at, at), source_target_pairs={{0,1}}, slice_sizes={{1,4}}
        """,
        replicas=2,
    ),
    _module(
        "collective_permute_start_and_done",
        """
        p = f32[4] parameter(0)
        s = (f32[4], f32[4]) collective-permute-start(p), source_target_pairs={{0,1},{1,0}}
        ROOT d = f32[4] collective-permute-done(s)
        """,
        replicas=2,
    ),
    _module(
        "collective_permute_start_of_slices",
        """
        p = f32[2,4] parameter(0)
        q = f32[6,4] parameter(1)
        i = s32[] constant(0)
        at = (s32[], s32[]) tuple(i, i)
        s = (f32[2,4], f32[6,4], u32[], u32[]) collective-permute-start(p, q, at, at), channel_id=1, \
source_target_pairs={{0,1}}, slice_sizes={{1,4}}
        ROOT d = f32[6,4] collective-permute-done(s)
        """,
        partitions=2,
    ),
]

_IDENTIFIERS = [
    _module("replica_id", "ROOT r = u32[] replica-id()", replicas=2),
    _module("partition_id", "ROOT r = u32[] partition-id()", partitions=2),
    _module(
        "device_number",
        """
        r = u32[] replica-id()
        n = u32[] constant(2)
        p = u32[] partition-id()
        m = u32[] multiply(r, n)
        ROOT d = u32[] add(m, p)
        """,
        replicas=2,
        partitions=2,
    ),
]

SAMPLES = [
    *map(_of_type, _TYPES),
    *_GROUP_SAMPLES,
    *_GATHERS,
    *_REDUCTIONS,
    *_EXCHANGES,
    *_COPIES,
    *_IDENTIFIERS,
]

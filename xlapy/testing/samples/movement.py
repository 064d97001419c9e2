"""Samples of data movement operations."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, NEWER_THAN_JAXLIB, Sample


def _module(name: str, body: str, note: str = "") -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n", note)


def _unary(name: str, operand: str, result: str, instruction: str, note: str = "") -> Sample:
    """Returns a module with an op of one parameter `p`."""
    return _module(name, f"p = {operand} parameter(0)\nROOT r = {result} {instruction}", note)


def _of_every_type(t: str) -> Sample:
    """Returns a module that contains each op once, with one element type."""
    shapes = ("[2,4,3]", "[6]", "[3,2]", "[2,3]", "[2,6]", "[1,2]", "[4,6]", "[1,2]", "[2,3]", "[2,3]{0,1}")
    results = ", ".join(t + shape for shape in shapes)
    return _module(
        f"movement_{t}",
        f"""
        p = {t}[2,3]{{1,0}} parameter(0)
        q = {t}[] parameter(1)
        i = s32[] parameter(2)
        u = {t}[1,2]{{1,0}} parameter(3)
        a = {t}[2,4,3]{{2,1,0}} broadcast(p), dimensions={{0,2}}
        b = {t}[6]{{0}} reshape(p)
        c = {t}[3,2]{{1,0}} transpose(p), dimensions={{1,0}}
        d = {t}[2,3]{{1,0}} reverse(p), dimensions={{0,1}}
        e = {t}[2,6]{{1,0}} concatenate(p, d), dimensions={{1}}
        f = {t}[1,2]{{1,0}} slice(p), slice={{[1:2], [0:2]}}
        g = {t}[4,6]{{1,0}} pad(p, q), padding=1_0_1x-1_2_1
        h = {t}[1,2]{{1,0}} dynamic-slice(p, i, i), dynamic_slice_sizes={{1,2}}
        j = {t}[2,3]{{1,0}} dynamic-update-slice(p, u, i, i)
        k = {t}[2,3]{{0,1}} copy(p)
        ROOT t = ({results}) tuple(a, b, c, d, e, f, g, h, j, k)
        """,
    )


def _dynamic_slice(name: str, index_type: str) -> Sample:
    return _module(
        name,
        f"""
        p = f32[5,4]{{1,0}} parameter(0)
        i = {index_type}[] parameter(1)
        j = {index_type}[] parameter(2)
        ROOT r = f32[2,3]{{1,0}} dynamic-slice(p, i, j), dynamic_slice_sizes={{2,3}}
        """,
    )


_BROADCAST = [
    _unary("broadcast_scalar", "f32[]", "f32[2,3]{1,0}", "broadcast(p), dimensions={}"),
    _unary("broadcast_scalar_without_dimensions", "f32[]", "f32[2,3]{1,0}", "broadcast(p)"),
    _unary("broadcast_scalar_to_scalar", "f32[]", "f32[]", "broadcast(p), dimensions={}"),
    _unary("broadcast_row", "s32[3]{0}", "s32[2,3]{1,0}", "broadcast(p), dimensions={1}"),
    _unary("broadcast_column", "s32[2]{0}", "s32[2,3]{1,0}", "broadcast(p), dimensions={0}"),
    _unary("broadcast_transposes", "f32[2,3]{1,0}", "f32[3,4,2]{2,1,0}", "broadcast(p), dimensions={2,0}"),
    _unary("broadcast_to_empty", "f32[2]{0}", "f32[0,2]{1,0}", "broadcast(p), dimensions={1}"),
    _unary("broadcast_dynamic", "f32[<=2]{0}", "f32[3,<=2]{1,0}", "broadcast(p), dimensions={1}"),
]

_RESHAPE = [
    _unary("reshape_merge", "f32[2,3,4]{2,1,0}", "f32[6,4]{1,0}", "reshape(p)"),
    _unary("reshape_split", "f32[24]{0}", "f32[2,3,4]{2,1,0}", "reshape(p)"),
    _unary("reshape_scalar", "f32[1,1]{1,0}", "f32[]", "reshape(p)"),
    _unary("reshape_empty", "f32[0,3]{1,0}", "f32[5,0]{1,0}", "reshape(p)"),
    _unary("reshape_inferred", "f32[<=6]{0}", "f32[2,<=3]{1,0}", "reshape(p), inferred_dimension=1"),
    _unary("transpose_cube", "f32[2,3,4]{2,1,0}", "f32[4,2,3]{2,1,0}", "transpose(p), dimensions={2,0,1}"),
    _unary("transpose_scalar", "f32[]", "f32[]", "transpose(p), dimensions={}"),
    _unary("transpose_column_major", "f32[2,3]{1,0}", "f32[3,2]{0,1}", "transpose(p), dimensions={1,0}"),
    _unary("reverse_none", "f32[2,3]{1,0}", "f32[2,3]{1,0}", "reverse(p), dimensions={}"),
    _unary("reverse_last", "f32[2,3]{1,0}", "f32[2,3]{1,0}", "reverse(p), dimensions={1}"),
    _module(
        "dynamic_reshape",
        """
        p = f32[2,3]{1,0} parameter(0)
        n = s32[] constant(3)
        m = s32[] constant(2)
        ROOT r = f32[<=3,2]{1,0} dynamic-reshape(p, n, m)
        """,
    ),
    _module(
        "reshape_dynamic_merged",
        """
        p = f32[2,<=3]{1,0} parameter(0)
        ROOT r = f32[<=6]{0} reshape(p)
        """,
    ),
    _unary(
        "shuffle_rotate",
        "f32[4]{0}",
        "f32[4]{0}",
        "shuffle(p), dimensions={0}, mode=rotate, shifts={1}",
        NEWER_THAN_JAXLIB,
    ),
    _unary(
        "shuffle_rotate_matrix",
        "s8[2,3]{1,0}",
        "s8[2,3]{1,0}",
        "shuffle(p), dimensions={1,0}, mode=rotate, shifts={-2,1}",
        NEWER_THAN_JAXLIB,
    ),
    _unary(
        "shuffle_permute",
        "f32[4]{0}",
        "f32[4]{0}",
        "shuffle(p), dimensions={0}, mode=permute, indices=s32[4]{0} {3, 1, 0, 2}",
        NEWER_THAN_JAXLIB,
    ),
    _unary(
        "shuffle_permute_rows",
        "f32[3,2]{1,0}",
        "f32[3,2]{1,0}",
        "shuffle(p), dimensions={0}, mode=permute, indices=s32[3,1]{1,0} { {2}, {0}, {1} }",
        NEWER_THAN_JAXLIB,
    ),
    _unary(
        "shuffle_permute_elements",
        "f32[2,2]{1,0}",
        "f32[2,2]{1,0}",
        "shuffle(p), dimensions={1,0}, mode=permute, indices=s8[2,2,2]{2,1,0} { { {0,1}, {1,0} }, { {1,1}, {0,0} } }",
        NEWER_THAN_JAXLIB,
    ),
]

_SLICE = [
    _module(
        "concatenate_three",
        """
        p = s32[2,1]{1,0} parameter(0)
        q = s32[2,0]{1,0} parameter(1)
        r = s32[2,3]{1,0} parameter(2)
        ROOT c = s32[2,4]{1,0} concatenate(p, q, r), dimensions={1}
        """,
    ),
    _unary("concatenate_one", "f32[2,3]{1,0}", "f32[2,3]{1,0}", "concatenate(p), dimensions={0}"),
    _unary("concatenate_twice", "f32[2]{0}", "f32[4]{0}", "concatenate(p, p), dimensions={0}"),
    _module(
        "concatenate_dynamic",
        """
        p = f32[<=2,3]{1,0} parameter(0)
        q = f32[4,3]{1,0} parameter(1)
        ROOT c = f32[<=6,3]{1,0} concatenate(p, q), dimensions={0}
        """,
    ),
    _unary("slice_middle", "f32[5]{0}", "f32[3]{0}", "slice(p), slice={[1:4]}"),
    _unary("slice_strided", "f32[10,7]{1,0}", "f32[4,3]{1,0}", "slice(p), slice={[0:10:3], [1:7:2]}"),
    _unary("slice_mixed_strides", "f32[4,6]{1,0}", "f32[4,2]{1,0}", "slice(p), slice={[0:4], [0:6:3]}"),
    _unary("slice_empty", "f32[5]{0}", "f32[0]{0}", "slice(p), slice={[5:5]}"),
    _unary("slice_scalar", "f32[]", "f32[]", "slice(p), slice={}"),
    _unary("slice_dynamic_to_one", "f32[<=5,4]{1,0}", "f32[1,4]{1,0}", "slice(p), slice={[0:1], [0:4]}"),
]


def _pad(name: str, operand: str, result: str, padding: str) -> Sample:
    t = operand[: operand.index("[")]
    return _module(
        name,
        f"""
        p = {operand} parameter(0)
        v = {t}[] parameter(1)
        ROOT r = {result} pad(p, v), padding={padding}
        """,
    )


_PAD = [
    _pad("pad_edges", "f32[2,3]{1,0}", "f32[5,3]{1,0}", "1_2x0_0"),
    _pad("pad_interior", "f32[2,3]{1,0}", "f32[4,5]{1,0}", "0_0_2x0_0_1"),
    _pad("pad_negative", "s32[5]{0}", "s32[2]{0}", "-2_-1"),
    _pad("pad_crops_interior", "s32[3]{0}", "s32[4]{0}", "-1_-2_2"),
    _pad("pad_empty_operand", "f32[0]{0}", "f32[3]{0}", "1_2_5"),
    _pad("pad_to_empty", "f32[2]{0}", "f32[0]{0}", "-1_-1"),
    _pad("pad_crops_all_but_padding", "f32[2]{0}", "f32[3]{0}", "-3_4"),
]

_DYNAMIC = [
    *(_dynamic_slice(f"dynamic_slice_{t}_index", t) for t in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")),
    _module(
        "dynamic_slice_vector_index",
        """
        p = f32[5,4]{1,0} parameter(0)
        i = s32[2]{0} parameter(1)
        ROOT r = f32[2,3]{1,0} dynamic-slice(p, i), dynamic_slice_sizes={2,3}
        """,
    ),
    _unary("dynamic_slice_scalar", "f32[]", "f32[]", "dynamic-slice(p), dynamic_slice_sizes={}"),
    _module(
        "dynamic_slice_empty",
        """
        p = f32[5]{0} parameter(0)
        i = s32[] parameter(1)
        ROOT r = f32[0]{0} dynamic-slice(p, i), dynamic_slice_sizes={0}
        """,
    ),
    _module(
        "dynamic_update_slice_matrix",
        """
        p = f32[5,4]{1,0} parameter(0)
        u = f32[2,3]{1,0} parameter(1)
        i = u32[] parameter(2)
        j = u32[] parameter(3)
        ROOT r = f32[5,4]{1,0} dynamic-update-slice(p, u, i, j)
        """,
    ),
    _module(
        "dynamic_update_slice_vector_index",
        """
        p = f32[5,4]{1,0} parameter(0)
        u = f32[2,3]{1,0} parameter(1)
        i = s64[2]{0} parameter(2)
        ROOT r = f32[5,4]{1,0} dynamic-update-slice(p, u, i)
        """,
    ),
    _module(
        "dynamic_update_slice_scalar",
        """
        p = f32[] parameter(0)
        u = f32[] parameter(1)
        ROOT r = f32[] dynamic-update-slice(p, u)
        """,
    ),
]

_COPY = [
    _unary("copy_tuple", "(f32[2]{0}, s32[])", "(f32[2]{0}, s32[])", "copy(p)"),
    _unary("copy_to_column_major", "f32[2,3]{1,0}", "f32[2,3]{0,1}", "copy(p)"),
    _unary("bitcast_reshape", "f32[2,3]{1,0}", "f32[6]{0}", "bitcast(p)"),
    _unary("bitcast_transpose", "f32[2,3]{1,0}", "f32[3,2]{0,1}", "bitcast(p)"),
    _unary("bitcast_relayout", "f32[2,3]{1,0}", "f32[2,3]{0,1}", "bitcast(p)"),
    _unary("bitcast_cube", "f32[2,3,4]{0,2,1}", "f32[4,6]{0,1}", "bitcast(p)"),
    _unary("bitcast_type", "f32[2,3]{1,0}", "s32[2,3]{1,0}", "bitcast(p)"),
    _unary("bitcast_narrower", "s32[2]{0}", "u8[8]{0}", "bitcast(p)"),
    _unary("bitcast_scalar", "f32[1]{0}", "f32[]", "bitcast(p)"),
    _unary("bitcast_packed", "s4[4]{0:E(4)}", "s8[2]{0}", "bitcast(p)"),
    _unary("get_dimension_size", "f32[2,3]{1,0}", "s32[]", "get-dimension-size(p), dimensions={1}"),
    _unary("get_dimension_size_dynamic", "f32[<=2,3]{1,0}", "s32[]", "get-dimension-size(p), dimensions={0}"),
    _module(
        "set_dimension_size",
        """
        p = f32[2,3]{1,0} parameter(0)
        n = s32[] constant(2)
        ROOT r = f32[2,<=3]{1,0} set-dimension-size(p, n), dimensions={1}
        """,
    ),
    _module(
        "dynamic_movement",
        """
        p = f32[<=4,3]{1,0} parameter(0)
        q = f32[] parameter(1)
        i = s32[] parameter(2)
        u = f32[<=4,1]{1,0} parameter(3)
        a = f32[2,<=4,3]{2,1,0} broadcast(p), dimensions={1,2}
        b = f32[3,<=4]{1,0} transpose(p), dimensions={1,0}
        c = f32[<=4,3]{1,0} reverse(p), dimensions={0,1}
        d = f32[<=8,3]{1,0} concatenate(p, c), dimensions={0}
        e = f32[<=2,3]{1,0} slice(p), slice={[1:4:2], [0:3]}
        f = f32[<=9,4]{1,0} pad(p, q), padding=1_1_1x0_1
        g = f32[<=4,1]{1,0} dynamic-slice(p, i, i), dynamic_slice_sizes={4,1}
        h = f32[<=4,3]{1,0} dynamic-update-slice(p, u, i, i)
        j = f32[<=4,3]{1,0} copy(h)
        n = s32[] get-dimension-size(j), dimensions={0}
        s = (f32[2,<=4,3], f32[3,<=4], f32[<=8,3], f32[<=2,3]) tuple(a, b, d, e)
        ROOT t = ((f32[2,<=4,3], f32[3,<=4], f32[<=8,3], f32[<=2,3]), f32[<=9,4], f32[<=4,1], s32[]) tuple(s, f, g, n)
        """,
    ),
]

SAMPLES: list[Sample] = [
    *map(_of_every_type, ELEMENT_TYPES),
    *_BROADCAST,
    *_RESHAPE,
    *_SLICE,
    *_PAD,
    *_DYNAMIC,
    *_COPY,
]

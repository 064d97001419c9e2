"""Worked examples and refusals of data movement operations."""

from __future__ import annotations

from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import Example, Refusal
from xlapy.testing.samples.sample import NEWER_THAN_JAXLIB

_LAYOUTS = "jaxlib accepts a bitcast only if it changes nothing but the layout"

EXAMPLES = [
    Example(
        "broadcast",
        """
        x = f32[2] {1, 2}
        rows = f32[2,3] broadcast(x), dimensions={0}
        columns = f32[3,2] broadcast(x), dimensions={1}
        both = (f32[2,3], f32[3,2]) tuple(rows, columns)
        => f32[2,3] {{1, 1, 1}, {2, 2, 2}}
        => f32[3,2] {{1, 2}, {1, 2}, {1, 2}}
        """,
    ),
    Example(
        "reshape",
        """
        x = s32[2,3] {{1, 2, 3}, {4, 5, 6}}
        y = s32[3,2] reshape(x)
        => s32[3,2] {{1, 2}, {3, 4}, {5, 6}}
        """,
    ),
    Example(
        "dynamic-reshape",
        """
        x = f32[6] {1, 2, 3, 4, 5, 6}
        n = s32[] 3
        m = s32[] 2
        y = f32[<=3,<=2] dynamic-reshape(x, n, m)
        rows = s32[] get-dimension-size(y), dimensions={0}
        => s32[] 3
        """,
    ),
    Example(
        "transpose",
        """
        x = s32[2,3] {{1, 2, 3}, {4, 5, 6}}
        y = s32[3,2] transpose(x), dimensions={1,0}
        => s32[3,2] {{1, 4}, {2, 5}, {3, 6}}
        """,
    ),
    Example(
        "reverse",
        """
        x = s32[2,3] {{1, 2, 3}, {4, 5, 6}}
        y = s32[2,3] reverse(x), dimensions={1}
        => s32[2,3] {{3, 2, 1}, {6, 5, 4}}
        """,
    ),
    Example(
        "shuffle",
        """
        x = s32[5] {10, 20, 30, 40, 50}
        rotated = s32[5] shuffle(x), dimensions={0}, mode=rotate, shifts={2}
        picked = s32[5] shuffle(x), dimensions={0}, mode=permute, indices=s32[5]{0} {4, 3, 2, 1, 0}
        both = (s32[5], s32[5]) tuple(rotated, picked)
        => s32[5] {30, 40, 50, 10, 20}
        => s32[5] {50, 40, 30, 20, 10}
        """,
        xla_cpu=NEWER_THAN_JAXLIB,
    ),
    Example(
        "concatenate",
        """
        a = s32[3,2] {{1, 2}, {3, 4}, {5, 6}}
        b = s32[1,2] {{7, 8}}
        c = s32[4,2] concatenate(a, b), dimensions={0}
        => s32[4,2] {{1, 2}, {3, 4}, {5, 6}, {7, 8}}
        """,
    ),
    Example(
        "slice",
        """
        b = f32[4,3] {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}
        part = f32[2,2] slice(b), slice={[2:4], [1:3]}
        every_other = f32[2,3] slice(b), slice={[0:4:2], [0:3]}
        both = (f32[2,2], f32[2,3]) tuple(part, every_other)
        => f32[2,2] {{7, 8}, {10, 11}}
        => f32[2,3] {{0, 1, 2}, {6, 7, 8}}
        """,
    ),
    Example(
        "pad",
        """
        x = s32[3] {1, 2, 3}
        zero = s32[] 0
        wider = s32[8] pad(x, zero), padding=1_2_1
        shorter = s32[3] pad(x, zero), padding=-1_1
        both = (s32[8], s32[3]) tuple(wider, shorter)
        => s32[8] {0, 1, 0, 2, 0, 3, 0, 0}
        => s32[3] {2, 3, 0}
        """,
    ),
    Example(
        "dynamic-slice",
        """
        a = f32[5] {0, 1, 2, 3, 4}
        two = s32[] 2
        far = s32[] 9
        inside = f32[2] dynamic-slice(a, two), dynamic_slice_sizes={2}
        clamped = f32[2] dynamic-slice(a, far), dynamic_slice_sizes={2}
        both = (f32[2], f32[2]) tuple(inside, clamped)
        => f32[2] {2, 3}
        => f32[2] {3, 4}
        """,
    ),
    Example(
        "dynamic-update-slice",
        """
        b = f32[4,3] {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}
        u = f32[3,2] {{12, 13}, {14, 15}, {16, 17}}
        one = s32[] 1
        c = f32[4,3] dynamic-update-slice(b, u, one, one)
        => f32[4,3] {{0, 1, 2}, {3, 12, 13}, {6, 14, 15}, {9, 16, 17}}
        """,
    ),
    Example(
        "copy",
        """
        x = f32[2,2]{1,0} {{1, 2}, {3, 4}}
        y = f32[2,2]{0,1} copy(x)
        => f32[2,2] {{1, 2}, {3, 4}}
        """,
    ),
    Example(
        "bitcast",
        """
        x = f32[2,2]{1,0} {{1, 2}, {3, 4}}
        y = f32[2,2]{0,1} bitcast(x)
        => f32[2,2] {{1, 3}, {2, 4}}
        """,
        xla_cpu=_LAYOUTS,
    ),
    Example(
        "get-dimension-size",
        """
        x = f32[5] {1, 2, 3, 4, 5}
        n = s32[] get-dimension-size(x), dimensions={0}
        => s32[] 5
        """,
    ),
    Example(
        "set-dimension-size",
        """
        x = f32[5] {1, 2, 3, 4, 5}
        n = s32[] 3
        y = f32[<=5] set-dimension-size(x, n), dimensions={0}
        m = s32[] get-dimension-size(y), dimensions={0}
        => s32[] 3
        """,
    ),
]

REFUSALS = [
    Refusal("broadcast", 1, "f32[2] broadcast((f32[])), dimensions={}", (shared.ARRAY_OPERAND, "(f32[])")),
    Refusal("broadcast", 1, "s32[2] broadcast(f32[]), dimensions={}", (codes.KEPT_ELEMENT_TYPE, "f32[]")),
    Refusal("broadcast", 2, "f32[2,3] broadcast(f32[2]), dimensions={}", (shared.ENTRY_PER_DIMENSION, "f32[2]", "[]")),
    Refusal("broadcast", 3, "f32[2,2] broadcast(f32[2,2]), dimensions={0,0}", (shared.DISTINCT_DIMENSIONS, "[0, 0]")),
    Refusal(
        "broadcast", 3, "f32[2] broadcast(f32[2]), dimensions={1}", (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]")
    ),
    Refusal("broadcast", 4, "f32[2,3] broadcast(f32[2,1]), dimensions={0,1}", (codes.BROADCAST_SIZES, "sizes 1")),
    Refusal("reshape", 1, "f32[] reshape(token[])", (shared.ARRAY_OPERAND, "token[]")),
    Refusal("reshape", 1, "s32[6] reshape(f32[6])", (codes.KEPT_ELEMENT_TYPE, "f32[6]", "s32[6]")),
    Refusal("reshape", 2, "f32[5] reshape(f32[2,3])", (codes.ELEMENT_COUNT, "f32[2,3]", "f32[5]")),
    Refusal("reshape", 3, "f32[2,3] reshape(f32[6]), inferred_dimension=2", (codes.INFERRED_DIMENSION, "f32[2,3]")),
    Refusal(
        "dynamic-reshape", 1, "s32[<=6] dynamic-reshape(f32[6], s32[])", (codes.KEPT_ELEMENT_TYPE, "f32[6]", "s32[<=6]")
    ),
    Refusal("dynamic-reshape", 2, "f32[<=7] dynamic-reshape(f32[6], s32[])", (codes.ELEMENT_COUNT, "f32[<=7]")),
    Refusal("dynamic-reshape", 3, "f32[<=3,2] dynamic-reshape(f32[6], s32[])", (codes.SIZE_OPERANDS, "f32[<=3,2]")),
    Refusal(
        "dynamic-reshape",
        4,
        "f32[<=6] dynamic-reshape(f32[6], s64[])",
        (codes.SIZE_OPERAND, "s32[]", "size 0", "s64[]"),
    ),
    Refusal("transpose", 1, "f32[2] transpose(token[]), dimensions={0}", (shared.ARRAY_OPERAND, "token[]")),
    Refusal(
        "transpose", 2, "f32[2,3] transpose(f32[2,3]), dimensions={0,0}", (codes.PERMUTATION, "f32[2,3]", "[0, 0]")
    ),
    Refusal("reverse", 1, "f32[2] reverse((f32[2])), dimensions={0}", (shared.ARRAY_OPERAND, "(f32[2])")),
    Refusal("reverse", 2, "f32[2] reverse(f32[2]), dimensions={0,0}", (shared.DISTINCT_DIMENSIONS, "[0, 0]")),
    Refusal("reverse", 2, "f32[2] reverse(f32[2]), dimensions={1}", (shared.DIMENSION_NUMBER, "dimension 1")),
    Refusal(
        "shuffle",
        1,
        "f32[2] shuffle(token[]), dimensions={0}, mode=rotate, shifts={1}",
        (shared.ARRAY_OPERAND, "token[]"),
    ),
    Refusal(
        "shuffle",
        2,
        "f32[2] shuffle(f32[2]), dimensions={1}, mode=rotate, shifts={1}",
        (shared.DIMENSION_NUMBER, "dimension 1"),
    ),
    Refusal(
        "shuffle",
        3,
        "f32[2] shuffle(f32[2]), dimensions={0}, mode=rotate, shifts={}",
        (codes.SHUFFLE_PATTERN, "[0]", "[]"),
    ),
    Refusal(
        "shuffle",
        3,
        "f32[2] shuffle(f32[2]), dimensions={0}, mode=rotate, shifts={1}, indices=s32[2]{0} {0, 1}",
        (codes.SHUFFLE_PATTERN, "s32[2]"),
    ),
    Refusal("shuffle", 4, "f32[2] shuffle(f32[2]), dimensions={0}, mode=permute", (codes.SHUFFLE_PATTERN,)),
    Refusal(
        "shuffle",
        5,
        "f32[2] shuffle(f32[2]), dimensions={0}, mode=permute, indices=s32[3]{0} {0, 1, 1}",
        (codes.SHUFFLE_INDICES, "[2]", "s32[3]"),
    ),
    Refusal(
        "concatenate",
        1,
        "f32[4] concatenate(f32[2], s32[2]), dimensions={0}",
        (shared.SAME_ELEMENT_TYPE, "operand 0", "f32[2]", "operand 1"),
    ),
    Refusal(
        "concatenate",
        1,
        "f32[4] concatenate(f32[2], token[]), dimensions={0}",
        (shared.ARRAY_OPERAND, "operand 1", "token[]"),
    ),
    Refusal(
        "concatenate", 2, "f32[] concatenate(f32[]), dimensions={0}", (shared.DIMENSION_NUMBER, "dimension 0", "f32[]")
    ),
    Refusal(
        "concatenate",
        3,
        "f32[4,2] concatenate(f32[2,2], f32[2,3]), dimensions={0}",
        (codes.CONCATENATED_SIZES, "dimension 0"),
    ),
    Refusal("slice", 1, "f32[1] slice(token[]), slice={[0:1]}", (shared.ARRAY_OPERAND, "token[]")),
    Refusal("slice", 2, "f32[2,2] slice(f32[2,2]), slice={[0:2]}", (shared.ENTRY_PER_DIMENSION, "f32[2,2]")),
    Refusal("slice", 3, "f32[1] slice(f32[2]), slice={[-1:0]}", (codes.SLICE_RANGE, "start -1")),
    Refusal("slice", 3, "f32[3] slice(f32[2]), slice={[0:3]}", (codes.SLICE_RANGE, "limit 3", "size 2")),
    Refusal("slice", 3, "f32[0] slice(f32[2]), slice={[2:1]}", (codes.SLICE_RANGE, "start 2", "limit 1")),
    Refusal("slice", 4, "f32[2] slice(f32[2]), slice={[0:2:0]}", (codes.SLICE_STRIDE, "0")),
    Refusal("pad", 1, "f32[4] pad(f32[2], f32[1]), padding=1_1", (codes.PADDING_VALUE, "f32[1]")),
    Refusal("pad", 1, "f32[4] pad(f32[2], s32[]), padding=1_1", (shared.SAME_ELEMENT_TYPE, "f32[2]", "s32[]")),
    Refusal("pad", 1, "f32[4] pad(token[], f32[]), padding=1_1", (shared.ARRAY_OPERAND, "token[]")),
    Refusal(
        "pad", 2, "f32[4] pad(f32[2], f32[]), padding=1_1x0_0", (shared.ENTRY_PER_DIMENSION, "f32[2]", "'1_1x0_0'")
    ),
    Refusal("pad", 3, "f32[2] pad(f32[2], f32[]), padding=0_0_-1", (codes.INTERIOR_PADDING, "-1")),
    Refusal("pad", 4, "f32[] pad(f32[2], f32[]), padding=-2_-1", (codes.NEGATIVE_PADDING, "dimension 0", "size -1")),
    Refusal(
        "dynamic-slice",
        1,
        "f32[1] dynamic-slice(token[], s32[]), dynamic_slice_sizes={1}",
        (shared.ARRAY_OPERAND, "token[]"),
    ),
    Refusal(
        "dynamic-slice", 2, "f32[1] dynamic-slice(f32[2]), dynamic_slice_sizes={1}", (codes.START_INDEX_COUNT, "f32[2]")
    ),
    Refusal(
        "dynamic-slice",
        3,
        "f32[1] dynamic-slice(f32[2], f32[]), dynamic_slice_sizes={1}",
        (codes.START_INDEX_TYPE, "index 0", "f32[]"),
    ),
    Refusal(
        "dynamic-slice",
        3,
        "f32[1,1] dynamic-slice(f32[2,2], s32[], s64[]), dynamic_slice_sizes={1,1}",
        (codes.START_INDEX_TYPE, "index 0", "s32[]", "index 1", "s64[]"),
    ),
    Refusal(
        "dynamic-slice",
        4,
        "f32[1] dynamic-slice(f32[2], s32[]), dynamic_slice_sizes={}",
        (shared.ENTRY_PER_DIMENSION, "f32[2]", "[]"),
    ),
    Refusal(
        "dynamic-slice",
        4,
        "f32[3] dynamic-slice(f32[2], s32[]), dynamic_slice_sizes={3}",
        (codes.SLICE_SIZES, "size 3", "dimension 0"),
    ),
    Refusal(
        "dynamic-update-slice",
        1,
        "f32[2] dynamic-update-slice(f32[2], s32[1], s32[])",
        (shared.SAME_ELEMENT_TYPE, "f32[2]", "s32[1]"),
    ),
    Refusal(
        "dynamic-update-slice",
        2,
        "f32[2] dynamic-update-slice(f32[2], f32[], s32[])",
        (codes.UPDATE_SIZE, "f32[2]", "f32[]"),
    ),
    Refusal(
        "dynamic-update-slice",
        2,
        "f32[2] dynamic-update-slice(f32[2], f32[3], s32[])",
        (codes.UPDATE_SIZE, "f32[3]", "f32[2]", "dimension 0"),
    ),
    Refusal(
        "dynamic-update-slice", 3, "f32[2] dynamic-update-slice(f32[2], f32[1])", (codes.START_INDEX_COUNT, "f32[2]")
    ),
    Refusal(
        "dynamic-update-slice",
        4,
        "f32[2] dynamic-update-slice(f32[2], f32[1], f32[])",
        (codes.START_INDEX_TYPE, "index 0", "f32[]"),
    ),
    Refusal("bitcast", 1, "f32[2] bitcast(token[])", (shared.ARRAY_OPERAND, "token[]")),
    Refusal("bitcast", 1, "(f32[2]) bitcast(f32[2])", (shared.ARRAY_RESULT, "(f32[2])")),
    Refusal("bitcast", 2, "f32[3] bitcast(f32[2])", (codes.BITCAST_BYTES, "f32[3]{0}", "12")),
    Refusal(
        "get-dimension-size",
        1,
        "s32[] get-dimension-size(f32[2]), dimensions={1}",
        (shared.DIMENSION_NUMBER, "dimension 1"),
    ),
    Refusal(
        "get-dimension-size",
        2,
        "s32[] get-dimension-size(s8[2147483648]), dimensions={0}",
        (codes.DIMENSION_SIZE_LIMIT, "dimension 0", "s8[2147483648]", "2147483647"),
    ),
    Refusal(
        "set-dimension-size",
        1,
        "f32[<=2] set-dimension-size(f32[2], s32[]), dimensions={1}",
        (shared.DIMENSION_NUMBER, "dimension 1"),
    ),
    Refusal(
        "set-dimension-size",
        2,
        "f32[<=2] set-dimension-size(f32[2], s64[]), dimensions={0}",
        (codes.SIZE_OPERAND, "s32[]", "s64[]"),
    ),
    Refusal(
        "set-dimension-size",
        3,
        "s8[<=2147483648] set-dimension-size(s8[2147483648], s32[]), dimensions={0}",
        (codes.DIMENSION_SIZE_LIMIT, "s32"),
    ),
]

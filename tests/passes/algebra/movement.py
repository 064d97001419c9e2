"""Cases of the rewrites in `passes/algebra/movement.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "reshape_to_same_dimensions",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] reshape(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "reshape_of_reshape",
        """
        x = f32[2,3] parameter(0)
        a = f32[6] reshape(x)
        ROOT r = f32[3,2] reshape(a)
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT reshape = f32[3,2] reshape(x)
        """,
    ),
    Rewrites(
        "reshape_of_reshape",
        """
        x = f32[2,3] parameter(0)
        a = f32[6] reshape(x)
        ROOT r = f32[2,3] reshape(a)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "transpose_by_identity",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] transpose(x), dimensions={0,1}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "transpose_of_unit_dimensions",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] transpose(x), dimensions={0,1}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "transpose_of_unit_dimensions",
        """
        x = f32[2,1,3] parameter(0)
        ROOT r = f32[1,2,3] transpose(x), dimensions={1,0,2}
        """,
        """
        x = f32[2,1,3] parameter(0)
        ROOT reshape = f32[1,2,3] reshape(x)
        """,
    ),
    Rewrites(
        "transpose_of_transpose",
        """
        x = f32[2,3,4] parameter(0)
        a = f32[3,2,4] transpose(x), dimensions={1,0,2}
        ROOT r = f32[4,3,2] transpose(a), dimensions={2,0,1}
        """,
        """
        x = f32[2,3,4] parameter(0)
        ROOT transpose = f32[4,3,2] transpose(x), dimensions={2,1,0}
        """,
    ),
    Rewrites(
        "reverse_of_reverse_or_unit_dimensions",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] reverse(x), dimensions={0}
        """,
        """
        ROOT x = f32[1,3] parameter(0)
        """,
    ),
    Rewrites(
        "reverse_of_reverse_or_unit_dimensions",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] reverse(x), dimensions={0,1}
        """,
        """
        x = f32[1,3] parameter(0)
        ROOT reverse = f32[1,3] reverse(x), dimensions={1}
        """,
    ),
    Rewrites(
        "reverse_of_reverse_or_unit_dimensions",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3] reverse(x), dimensions={0}
        ROOT r = f32[2,3] reverse(a), dimensions={1,0}
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT reverse = f32[2,3] reverse(x), dimensions={1}
        """,
    ),
    Rewrites(
        "reverse_of_reverse_or_unit_dimensions",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3] reverse(x), dimensions={0}
        ROOT r = f32[2,3] reverse(a), dimensions={0}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "copy_in_same_layout",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] copy(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "copy_of_copy",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3]{0,1} copy(x)
        ROOT r = f32[2,3] copy(a)
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT copy = f32[2,3] copy(x)
        """,
    ),
    Rewrites(
        "bitcast_of_bitcast",
        """
        x = f32[2,3] parameter(0)
        a = f32[6] bitcast(x)
        ROOT r = f32[3,2]{0,1} bitcast(a)
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT bitcast = f32[3,2] bitcast(x)
        """,
    ),
    Rewrites(
        "bitcast_to_same_shape",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] bitcast(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "slice_of_all_elements",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[4] slice(x), slice={[0:4]}
        """,
        """
        ROOT x = f32[4] parameter(0)
        """,
    ),
    Rewrites(
        "slice_of_slice",
        """
        x = f32[20] parameter(0)
        a = f32[6] slice(x), slice={[3:19:3]}
        ROOT r = f32[2] slice(a), slice={[1:5:2]}
        """,
        """
        x = f32[20] parameter(0)
        ROOT slice = f32[2] slice(x), slice={[6:13:6]}
        """,
    ),
    Rewrites(
        "slice_of_slice",
        """
        x = f32[20] parameter(0)
        a = f32[6] slice(x), slice={[3:19:3]}
        ROOT r = f32[0] slice(a), slice={[6:6]}
        """,
        """
        x = f32[20] parameter(0)
        ROOT slice = f32[0] slice(x), slice={[0:0:3]}
        """,
    ),
    Rewrites(
        "slice_of_concatenate",
        """
        x = f32[4] parameter(0)
        y = f32[5] parameter(1)
        a = f32[9] concatenate(x, y), dimensions={0}
        ROOT r = f32[2] slice(a), slice={[5:9:2]}
        """,
        """
        x = f32[4] parameter(0)
        y = f32[5] parameter(1)
        ROOT slice = f32[2] slice(y), slice={[1:5:2]}
        """,
    ),
    Rewrites(
        "slice_of_concatenate",
        """
        x = f32[2,4] parameter(0)
        y = f32[3,4] parameter(1)
        a = f32[5,4] concatenate(x, y), dimensions={0}
        ROOT r = f32[2,2] slice(a), slice={[0:2], [1:3]}
        """,
        """
        y = f32[3,4] parameter(1)
        x = f32[2,4] parameter(0)
        ROOT slice = f32[2,2] slice(x), slice={[0:2], [1:3]}
        """,
    ),
    Rewrites(
        "slice_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[8] pad(x, v), padding=1_3
        ROOT r = f32[2] slice(a), slice={[1:5:2]}
        """,
        """
        v = f32[] parameter(1)
        x = f32[4] parameter(0)
        ROOT slice = f32[2] slice(x), slice={[0:3:2]}
        """,
    ),
    Rewrites(
        "slice_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[11] pad(x, v), padding=1_3_1
        ROOT r = f32[2] slice(a), slice={[8:10]}
        """,
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT broadcast = f32[2] broadcast(v), dimensions={}
        """,
    ),
    Rewrites(
        "slice_of_pad",
        """
        x = f32[2,4] parameter(0)
        v = f32[] parameter(1)
        a = f32[4,3] pad(x, v), padding=2_0x-1_0
        ROOT r = f32[2,2] slice(a), slice={[2:4], [1:3]}
        """,
        """
        v = f32[] parameter(1)
        x = f32[2,4] parameter(0)
        ROOT slice = f32[2,2] slice(x), slice={[0:2], [2:4]}
        """,
    ),
    Rewrites(
        "pad_by_zero",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[4] pad(x, v), padding=0_0
        """,
        """
        ROOT x = f32[4] parameter(0)
        v = f32[] parameter(1)
        """,
    ),
    Rewrites(
        "pad_of_empty_operand",
        """
        x = f32[0,2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[3,2] pad(x, v), padding=1_2x0_0
        """,
        """
        x = f32[0,2] parameter(0)
        v = f32[] parameter(1)
        ROOT broadcast = f32[3,2] broadcast(v), dimensions={}
        """,
    ),
    Rewrites(
        "pad_by_negative_edges",
        """
        x = f32[5,1] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[2,1] pad(x, v), padding=-1_-2x0_0_3
        """,
        """
        v = f32[] parameter(1)
        x = f32[5,1] parameter(0)
        ROOT slice = f32[2,1] slice(x), slice={[1:3], [0:1]}
        """,
    ),
    Rewrites(
        "pad_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[6] pad(x, v), padding=1_1
        ROOT r = f32[9] pad(a, v), padding=0_3
        """,
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT pad = f32[9] pad(x, v), padding=1_4
        """,
    ),
    Rewrites(
        "concatenate_without_empty_operands",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[4] concatenate(x), dimensions={0}
        """,
        """
        ROOT x = f32[4] parameter(0)
        """,
    ),
    Rewrites(
        "concatenate_without_empty_operands",
        """
        x = f32[4] parameter(0)
        y = f32[0] parameter(1)
        z = f32[2] parameter(2)
        ROOT r = f32[6] concatenate(y, x, z), dimensions={0}
        """,
        """
        y = f32[0] parameter(1)
        x = f32[4] parameter(0)
        z = f32[2] parameter(2)
        ROOT concatenate = f32[6] concatenate(x, z), dimensions={0}
        """,
    ),
    Rewrites(
        "concatenate_without_empty_operands",
        """
        x = f32[0] parameter(0)
        y = f32[0] parameter(1)
        ROOT r = f32[0] concatenate(x, y), dimensions={0}
        """,
        """
        ROOT x = f32[0] parameter(0)
        y = f32[0] parameter(1)
        """,
    ),
    Rewrites(
        "concatenate_of_concatenates",
        """
        x = f32[4] parameter(0)
        y = f32[3] parameter(1)
        a = f32[7] concatenate(x, y), dimensions={0}
        ROOT r = f32[10] concatenate(y, a), dimensions={0}
        """,
        """
        y = f32[3] parameter(1)
        x = f32[4] parameter(0)
        ROOT concatenate = f32[10] concatenate(y, x, y), dimensions={0}
        """,
    ),
    Rewrites(
        "concatenate_of_adjacent_slices",
        """
        x = f32[9] parameter(0)
        a = f32[3] slice(x), slice={[1:4]}
        b = f32[2] slice(x), slice={[4:6]}
        c = f32[3] slice(x), slice={[6:9]}
        ROOT r = f32[8] concatenate(a, b, c), dimensions={0}
        """,
        """
        x = f32[9] parameter(0)
        slice = f32[5] slice(x), slice={[1:6]}
        ROOT slice.1 = f32[8] slice(x), slice={[1:9]}
        """,
    ),
    Rewrites(
        "concatenate_of_adjacent_slices",
        """
        x = f32[2,9] parameter(0)
        a = f32[2,3] slice(x), slice={[0:2], [1:4]}
        b = f32[2,2] slice(x), slice={[0:2], [4:6]}
        ROOT r = f32[2,7] concatenate(a, b, b), dimensions={1}
        """,
        """
        x = f32[2,9] parameter(0)
        slice = f32[2,5] slice(x), slice={[0:2], [1:6]}
        b = f32[2,2] slice(x), slice={[0:2], [4:6]}
        ROOT concatenate = f32[2,7] concatenate(slice, b), dimensions={1}
        """,
    ),
    Rewrites(
        "concatenate_of_equal_broadcasts",
        """
        v = f32[] parameter(0)
        a = f32[2] broadcast(v), dimensions={}
        b = f32[3] broadcast(v), dimensions={}
        ROOT r = f32[5] concatenate(a, b), dimensions={0}
        """,
        """
        v = f32[] parameter(0)
        ROOT broadcast = f32[5] broadcast(v), dimensions={}
        """,
    ),
    Rewrites(
        "dynamic_slice_at_constant_indices",
        """
        x = f32[5,4] parameter(0)
        i = s32[] constant(4)
        j = s32[] parameter(1)
        ROOT r = f32[2,4] dynamic-slice(x, i, j), dynamic_slice_sizes={2,4}
        """,
        """
        j = s32[] parameter(1)
        x = f32[5,4] parameter(0)
        ROOT slice = f32[2,4] slice(x), slice={[3:5], [0:4]}
        """,
    ),
    Rewrites(
        "dynamic_slice_at_constant_indices",
        """
        x = f32[5] parameter(0)
        i = s32[] constant(-7)
        ROOT r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        """,
        """
        x = f32[5] parameter(0)
        ROOT slice = f32[2] slice(x), slice={[0:2]}
        """,
    ),
    Rewrites(
        "dynamic_slice_of_all_elements",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        ROOT r = f32[5] dynamic-slice(x, i), dynamic_slice_sizes={5}
        """,
        """
        ROOT x = f32[5] parameter(0)
        i = s32[] parameter(1)
        """,
    ),
    Rewrites(
        "dynamic_update_slice_of_all_elements",
        """
        x = f32[5] parameter(0)
        u = f32[5] parameter(1)
        i = s32[] parameter(2)
        ROOT r = f32[5] dynamic-update-slice(x, u, i)
        """,
        """
        x = f32[5] parameter(0)
        ROOT u = f32[5] parameter(1)
        i = s32[] parameter(2)
        """,
    ),
    Rewrites(
        "dynamic_update_slice_without_elements",
        """
        x = f32[5] parameter(0)
        u = f32[0] parameter(1)
        i = s32[] parameter(2)
        ROOT r = f32[5] dynamic-update-slice(x, u, i)
        """,
        """
        ROOT x = f32[5] parameter(0)
        u = f32[0] parameter(1)
        i = s32[] parameter(2)
        """,
    ),
    Rewrites(
        "dynamic_update_slice_with_old_contents",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        u = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        ROOT r = f32[5] dynamic-update-slice(x, u, i)
        """,
        """
        ROOT x = f32[5] parameter(0)
        i = s32[] parameter(1)
        """,
    ),
    Rewrites(
        "get_dimension_size_of_static",
        """
        x = f32[5,7] parameter(0)
        ROOT r = s32[] get-dimension-size(x), dimensions={1}
        """,
        """
        x = f32[5,7] parameter(0)
        ROOT constant = s32[] constant(7)
        """,
    ),
    Rewrites(
        "shuffle_by_zero_rotation",
        """
        x = f32[5,7] parameter(0)
        ROOT r = f32[5,7] shuffle(x), dimensions={1,0}, mode=rotate, shifts={14,-5}
        """,
        """
        ROOT x = f32[5,7] parameter(0)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "reshape_to_same_dimensions",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[6] reshape(x)
        """,
    ),
    NoMatch(
        "reshape_of_reshape",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[6] reshape(x)
        """,
    ),
    NoMatch(
        "transpose_by_identity",
        """
        x = f32[2,2] parameter(0)
        ROOT r = f32[2,2] transpose(x), dimensions={1,0}
        """,
    ),
    NoMatch(
        "transpose_of_unit_dimensions",
        """
        x = f32[2,2] parameter(0)
        ROOT r = f32[2,2] transpose(x), dimensions={1,0}
        """,
    ),
    NoMatch(
        "transpose_of_transpose",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3] abs(x)
        ROOT r = f32[3,2] transpose(a), dimensions={1,0}
        """,
    ),
    NoMatch(
        "reverse_of_reverse_or_unit_dimensions",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] reverse(x), dimensions={1,0}
        """,
    ),
    NoMatch(
        "copy_in_same_layout",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} copy(x)
        """,
    ),
    NoMatch(
        "copy_of_copy",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} copy(x)
        """,
    ),
    NoMatch(
        "bitcast_to_same_shape",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} bitcast(x)
        """,
    ),
    NoMatch(
        "bitcast_of_bitcast",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} bitcast(x)
        """,
    ),
    NoMatch(
        "slice_of_all_elements",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[3] slice(x), slice={[0:3]}
        """,
    ),
    NoMatch(
        "slice_of_slice",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[3] slice(x), slice={[0:3]}
        """,
    ),
    NoMatch(
        "slice_of_concatenate",
        """
        x = f32[4] parameter(0)
        y = f32[5] parameter(1)
        a = f32[9] concatenate(x, y), dimensions={0}
        ROOT r = f32[2] slice(a), slice={[3:5]}
        """,
    ),
    NoMatch(
        "slice_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[8] pad(x, v), padding=1_3
        ROOT r = f32[2] slice(a), slice={[0:2]}
        """,
    ),
    NoMatch(
        "slice_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[7] pad(x, v), padding=0_0_1
        ROOT r = f32[2] slice(a), slice={[0:2]}
        """,
    ),
    NoMatch(
        "pad_of_empty_operand",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[4] pad(x, v), padding=1_-1
        """,
    ),
    NoMatch(
        "pad_by_zero",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[4] pad(x, v), padding=1_-1
        """,
    ),
    NoMatch(
        "pad_by_negative_edges",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[4] pad(x, v), padding=1_-1
        """,
    ),
    NoMatch(
        "pad_of_empty_operand",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[7] pad(x, v), padding=0_0_1
        """,
    ),
    NoMatch(
        "pad_by_zero",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[7] pad(x, v), padding=0_0_1
        """,
    ),
    NoMatch(
        "pad_by_negative_edges",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[7] pad(x, v), padding=0_0_1
        """,
    ),
    NoMatch(
        "pad_of_empty_operand",
        """
        x = f32[2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[1] pad(x, v), padding=-3_2
        """,
    ),
    NoMatch(
        "pad_by_zero",
        """
        x = f32[2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[1] pad(x, v), padding=-3_2
        """,
    ),
    NoMatch(
        "pad_by_negative_edges",
        """
        x = f32[2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[1] pad(x, v), padding=-3_2
        """,
    ),
    NoMatch(
        "pad_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        w = f32[] parameter(2)
        a = f32[6] pad(x, v), padding=1_1
        ROOT r = f32[9] pad(a, w), padding=0_3
        """,
    ),
    NoMatch(
        "pad_of_pad",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[2] pad(x, v), padding=-1_-1
        ROOT r = f32[4] pad(a, v), padding=1_1
        """,
    ),
    NoMatch(
        "concatenate_without_empty_operands",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[8] concatenate(x, x), dimensions={0}
        """,
    ),
    NoMatch(
        "concatenate_of_concatenates",
        """
        x = f32[2,2] parameter(0)
        a = f32[4,2] concatenate(x, x), dimensions={0}
        ROOT r = f32[4,4] concatenate(a, a), dimensions={1}
        """,
    ),
    NoMatch(
        "concatenate_of_adjacent_slices",
        """
        x = f32[9] parameter(0)
        a = f32[3] slice(x), slice={[1:4]}
        b = f32[2] slice(x), slice={[5:7]}
        ROOT r = f32[5] concatenate(a, b), dimensions={0}
        """,
    ),
    NoMatch(
        "concatenate_of_adjacent_slices",
        """
        x = f32[9] parameter(0)
        a = f32[2] slice(x), slice={[0:4:2]}
        b = f32[2] slice(x), slice={[4:8:2]}
        ROOT r = f32[4] concatenate(a, b), dimensions={0}
        """,
    ),
    NoMatch(
        "concatenate_of_equal_broadcasts",
        """
        v = f32[] parameter(0)
        w = f32[] parameter(1)
        a = f32[2] broadcast(v), dimensions={}
        b = f32[3] broadcast(w), dimensions={}
        ROOT r = f32[5] concatenate(a, b), dimensions={0}
        """,
    ),
    NoMatch(
        "dynamic_slice_of_all_elements",
        """
        x = f32[5,4] parameter(0)
        i = s32[] constant(4)
        j = s32[] parameter(1)
        ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}
        """,
    ),
    NoMatch(
        "dynamic_slice_at_constant_indices",
        """
        x = f32[5,4] parameter(0)
        i = s32[] constant(4)
        j = s32[] parameter(1)
        ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}
        """,
    ),
    NoMatch(
        "dynamic_update_slice_of_all_elements",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        j = s32[] parameter(2)
        u = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        ROOT r = f32[5] dynamic-update-slice(x, u, j)
        """,
    ),
    NoMatch(
        "dynamic_update_slice_without_elements",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        j = s32[] parameter(2)
        u = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        ROOT r = f32[5] dynamic-update-slice(x, u, j)
        """,
    ),
    NoMatch(
        "dynamic_update_slice_with_old_contents",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        j = s32[] parameter(2)
        u = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        ROOT r = f32[5] dynamic-update-slice(x, u, j)
        """,
    ),
    NoMatch(
        "get_dimension_size_of_static",
        """
        x = f32[<=5] parameter(0)
        ROOT r = s32[] get-dimension-size(x), dimensions={0}
        """,
    ),
    NoMatch(
        "shuffle_by_zero_rotation",
        """
        x = f32[5,7] parameter(0)
        ROOT r = f32[5,7] shuffle(x), dimensions={1}, mode=rotate, shifts={1}
        """,
    ),
]

"""Cases of the rewrites in `passes/algebra/movement.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import Fires, Rests

FIRES = [
    Fires(
        "reshape_to_itself",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] reshape(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "reshape_to_itself",
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
    Fires(
        "reshape_to_itself",
        """
        x = f32[2,3] parameter(0)
        a = f32[6] reshape(x)
        ROOT r = f32[2,3] reshape(a)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "transpose_in_place",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] transpose(x), dimensions={0,1}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "transpose_in_place",
        """
        x = f32[2,1,3] parameter(0)
        ROOT r = f32[1,2,3] transpose(x), dimensions={1,0,2}
        """,
        """
        x = f32[2,1,3] parameter(0)
        ROOT reshape = f32[1,2,3] reshape(x)
        """,
    ),
    Fires(
        "transpose_twice",
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
    Fires(
        "reverse_nothing",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] reverse(x), dimensions={0}
        """,
        """
        ROOT x = f32[1,3] parameter(0)
        """,
    ),
    Fires(
        "reverse_nothing",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] reverse(x), dimensions={0,1}
        """,
        """
        x = f32[1,3] parameter(0)
        ROOT reverse = f32[1,3] reverse(x), dimensions={1}
        """,
    ),
    Fires(
        "reverse_nothing",
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
    Fires(
        "reverse_nothing",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3] reverse(x), dimensions={0}
        ROOT r = f32[2,3] reverse(a), dimensions={0}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "copy_of_the_same",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] copy(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "copy_of_the_same",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3]{0,1} copy(x)
        ROOT r = f32[2,3] copy(a)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "bitcast_twice",
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
    Fires(
        "bitcast_twice",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] bitcast(x)
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Fires(
        "slice_of_everything",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[4] slice(x), slice={[0:4]}
        """,
        """
        ROOT x = f32[4] parameter(0)
        """,
    ),
    Fires(
        "slice_of_everything",
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
    Fires(
        "slice_of_everything",
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
    Fires(
        "slice_of_concatenation",
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
    Fires(
        "slice_of_concatenation",
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
    Fires(
        "slice_of_padding",
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
    Fires(
        "slice_of_padding",
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
    Fires(
        "slice_of_padding",
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
    Fires(
        "pad_nothing",
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
    Fires(
        "pad_nothing",
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
    Fires(
        "pad_nothing",
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
    Fires(
        "pad_twice",
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
    Fires(
        "concatenate_little",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[4] concatenate(x), dimensions={0}
        """,
        """
        ROOT x = f32[4] parameter(0)
        """,
    ),
    Fires(
        "concatenate_little",
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
    Fires(
        "concatenate_little",
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
    Fires(
        "concatenate_concatenations",
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
    Fires(
        "concatenate_neighbours",
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
    Fires(
        "concatenate_neighbours",
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
    Fires(
        "concatenate_repeated",
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
    Fires(
        "dynamic_slice_at_known_place",
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
    Fires(
        "dynamic_slice_at_known_place",
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
    Fires(
        "dynamic_slice_at_known_place",
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
    Fires(
        "dynamic_update_of_everything",
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
    Fires(
        "dynamic_update_of_everything",
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
    Fires(
        "dynamic_update_of_everything",
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
    Fires(
        "known_dimension_size",
        """
        x = f32[5,7] parameter(0)
        ROOT r = s32[] get-dimension-size(x), dimensions={1}
        """,
        """
        x = f32[5,7] parameter(0)
        ROOT constant = s32[] constant(7)
        """,
    ),
    Fires(
        "shuffle_nothing",
        """
        x = f32[5,7] parameter(0)
        ROOT r = f32[5,7] shuffle(x), dimensions={1,0}, mode=rotate, shifts={14,-5}
        """,
        """
        ROOT x = f32[5,7] parameter(0)
        """,
    ),
]

RESTS = [
    Rests(
        "reshape_to_itself",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[6] reshape(x)
        """,
    ),
    Rests(
        "transpose_in_place",
        """
        x = f32[2,2] parameter(0)
        ROOT r = f32[2,2] transpose(x), dimensions={1,0}
        """,
    ),
    Rests(
        "transpose_twice",
        """
        x = f32[2,3] parameter(0)
        a = f32[2,3] abs(x)
        ROOT r = f32[3,2] transpose(a), dimensions={1,0}
        """,
    ),
    Rests(
        "reverse_nothing",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] reverse(x), dimensions={1,0}
        """,
    ),
    Rests(
        "copy_of_the_same",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} copy(x)
        """,
    ),
    Rests(
        "bitcast_twice",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3]{0,1} bitcast(x)
        """,
    ),
    Rests(
        "slice_of_everything",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[3] slice(x), slice={[0:3]}
        """,
    ),
    Rests(
        "slice_of_concatenation",
        """
        x = f32[4] parameter(0)
        y = f32[5] parameter(1)
        a = f32[9] concatenate(x, y), dimensions={0}
        ROOT r = f32[2] slice(a), slice={[3:5]}
        """,
    ),
    Rests(
        "slice_of_padding",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[8] pad(x, v), padding=1_3
        ROOT r = f32[2] slice(a), slice={[0:2]}
        """,
    ),
    Rests(
        "slice_of_padding",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[7] pad(x, v), padding=0_0_1
        ROOT r = f32[2] slice(a), slice={[0:2]}
        """,
    ),
    Rests(
        "pad_nothing",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[4] pad(x, v), padding=1_-1
        """,
    ),
    Rests(
        "pad_nothing",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[7] pad(x, v), padding=0_0_1
        """,
    ),
    Rests(
        "pad_nothing",
        """
        x = f32[2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[1] pad(x, v), padding=-3_2
        """,
    ),
    Rests(
        "pad_twice",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        w = f32[] parameter(2)
        a = f32[6] pad(x, v), padding=1_1
        ROOT r = f32[9] pad(a, w), padding=0_3
        """,
    ),
    Rests(
        "pad_twice",
        """
        x = f32[4] parameter(0)
        v = f32[] parameter(1)
        a = f32[2] pad(x, v), padding=-1_-1
        ROOT r = f32[4] pad(a, v), padding=1_1
        """,
    ),
    Rests(
        "concatenate_little",
        """
        x = f32[4] parameter(0)
        ROOT r = f32[8] concatenate(x, x), dimensions={0}
        """,
    ),
    Rests(
        "concatenate_concatenations",
        """
        x = f32[2,2] parameter(0)
        a = f32[4,2] concatenate(x, x), dimensions={0}
        ROOT r = f32[4,4] concatenate(a, a), dimensions={1}
        """,
    ),
    Rests(
        "concatenate_neighbours",
        """
        x = f32[9] parameter(0)
        a = f32[3] slice(x), slice={[1:4]}
        b = f32[2] slice(x), slice={[5:7]}
        ROOT r = f32[5] concatenate(a, b), dimensions={0}
        """,
    ),
    Rests(
        "concatenate_neighbours",
        """
        x = f32[9] parameter(0)
        a = f32[2] slice(x), slice={[0:4:2]}
        b = f32[2] slice(x), slice={[4:8:2]}
        ROOT r = f32[4] concatenate(a, b), dimensions={0}
        """,
    ),
    Rests(
        "concatenate_repeated",
        """
        v = f32[] parameter(0)
        w = f32[] parameter(1)
        a = f32[2] broadcast(v), dimensions={}
        b = f32[3] broadcast(w), dimensions={}
        ROOT r = f32[5] concatenate(a, b), dimensions={0}
        """,
    ),
    Rests(
        "dynamic_slice_at_known_place",
        """
        x = f32[5,4] parameter(0)
        i = s32[] constant(4)
        j = s32[] parameter(1)
        ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}
        """,
    ),
    Rests(
        "dynamic_update_of_everything",
        """
        x = f32[5] parameter(0)
        i = s32[] parameter(1)
        j = s32[] parameter(2)
        u = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
        ROOT r = f32[5] dynamic-update-slice(x, u, j)
        """,
    ),
    Rests(
        "known_dimension_size",
        """
        x = f32[<=5] parameter(0)
        ROOT r = s32[] get-dimension-size(x), dimensions={0}
        """,
    ),
    Rests(
        "shuffle_nothing",
        """
        x = f32[5,7] parameter(0)
        ROOT r = f32[5,7] shuffle(x), dimensions={1}, mode=rotate, shifts={1}
        """,
    ),
]

"""Cases of the rewrites in `passes/algebra/reduction.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "reduce_window_of_pad",
        """
        x = f32[3,5] parameter(0)
        v = f32[] constant(0)
        p = f32[3,11] pad(x, v), padding=0_0_0x1_1_1
        ROOT r = f32[3,10] reduce-window(p, v), window={size=1x3 pad=0_0x0_1}, to_apply=plus
        """,
        """
        x = f32[3,5] parameter(0)
        v = f32[] constant(0)
        ROOT reduce-window = f32[3,10] reduce-window(x, v), window={size=1x3 pad=0_0x1_2 lhs_dilate=1x2}, to_apply=plus
        """,
    ),
    Rewrites(
        "reduce_window_of_pad",
        """
        x = f32[9] parameter(0)
        v = f32[] constant(-inf)
        p = f32[9] pad(x, v), padding=2_-2
        ROOT r = f32[4] reduce-window(p, v), window={size=3 stride=2}, to_apply=most
        """,
        """
        x = f32[9] parameter(0)
        v = f32[] constant(-inf)
        ROOT reduce-window = f32[4] reduce-window(x, v), window={size=3 stride=2 pad=2_-2}, to_apply=most
        """,
    ),
    Rewrites(
        "window_larger_than_its_base",
        """
        x = f32[3,5] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[2,1] reduce-window(x, v), window={size=9x20 stride=1x3 pad=4_3x7_8}, to_apply=plus
        """,
        """
        x = f32[3,5] parameter(0)
        v = f32[] parameter(1)
        ROOT reduce-window = f32[2,1] reduce-window(x, v), window={size=4x5 stride=1x3 pad=1_1x0_0}, to_apply=plus
        """,
    ),
    Rewrites(
        "reduce_of_at_most_one_element",
        """
        x = f32[3,1] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[3] reduce(x, v), dimensions={1}, to_apply=plus
        """,
        """
        v = f32[] parameter(1)
        x = f32[3,1] parameter(0)
        ROOT reshape = f32[3] reshape(x)
        """,
    ),
    Rewrites(
        "reduce_of_at_most_one_element",
        """
        x = f32[3,0] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[3] reduce(x, v), dimensions={1}, to_apply=plus
        """,
        """
        x = f32[3,0] parameter(0)
        v = f32[] parameter(1)
        ROOT broadcast = f32[3] broadcast(v), dimensions={}
        """,
    ),
    Rewrites(
        "reduce_of_at_most_one_element",
        """
        x = f32[3] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[3] reduce(x, v), dimensions={}, to_apply=plus
        """,
        """
        ROOT x = f32[3] parameter(0)
        v = f32[] parameter(1)
        """,
    ),
    Rewrites(
        "reduce_of_at_most_one_element",
        """
        x = f32[3,1] parameter(0)
        y = s32[3,1] parameter(1)
        v = f32[] parameter(2)
        w = s32[] parameter(3)
        ROOT r = (f32[3], s32[3]) reduce(x, y, v, w), dimensions={1}, to_apply=pair
        """,
        """
        v = f32[] parameter(2)
        w = s32[] parameter(3)
        x = f32[3,1] parameter(0)
        reshape = f32[3] reshape(x)
        y = s32[3,1] parameter(1)
        reshape.1 = s32[3] reshape(y)
        ROOT tuple = (f32[3], s32[3]) tuple(reshape, reshape.1)
        """,
    ),
    Rewrites(
        "reduce_of_reduce",
        """
        x = s32[2,3,4] parameter(0)
        z = s32[] constant(0)
        v = s32[] parameter(1)
        a = s32[2,4] reduce(x, z), dimensions={1}, to_apply=plus_s32
        ROOT r = s32[2] reduce(a, v), dimensions={1}, to_apply=plus_s32
        """,
        """
        x = s32[2,3,4] parameter(0)
        v = s32[] parameter(1)
        ROOT reduce = s32[2] reduce(x, v), dimensions={1,2}, to_apply=plus_s32
        """,
    ),
    Rewrites(
        "reduce_of_reduce",
        """
        x = f32[2,3,4] parameter(0)
        v = f32[] parameter(1)
        a = f32[3,4] reduce(x, v), dimensions={0}, to_apply=most
        ROOT r = f32[4] reduce(a, v), dimensions={0}, to_apply=most
        """,
        """
        x = f32[2,3,4] parameter(0)
        v = f32[] parameter(1)
        ROOT reduce = f32[4] reduce(x, v), dimensions={0,1}, to_apply=most
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "window_larger_than_its_base",  # each element of the window meets the base area somewhere
        """
        x = f32[5] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[9] reduce-window(x, v), window={size=5 pad=4_4}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_window_of_pad",  # the padding is combined
        """
        x = f32[9] parameter(0)
        v = f32[] constant(1)
        p = f32[11] pad(x, v), padding=1_1
        ROOT r = f32[9] reduce-window(p, v), window={size=3}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_window_of_pad",  # zeros of another sign
        """
        x = f32[9] parameter(0)
        v = f32[] constant(0)
        w = f32[] constant(-0)
        p = f32[11] pad(x, v), padding=1_1
        ROOT r = f32[9] reduce-window(p, w), window={size=3}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_window_of_pad",  # strides over holes
        """
        x = f32[5] parameter(0)
        v = f32[] constant(0)
        p = f32[11] pad(x, v), padding=1_1_1
        ROOT r = f32[5] reduce-window(p, v), window={size=3 stride=2}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_of_at_most_one_element",
        """
        x = f32[3,2] parameter(0)
        v = f32[] parameter(1)
        ROOT r = f32[3] reduce(x, v), dimensions={1}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_of_reduce",
        """
        x = f32[2,3,4] parameter(0)
        v = f32[] constant(0)
        a = f32[3,4] reduce(x, v), dimensions={0}, to_apply=plus
        ROOT r = f32[4] reduce(a, v), dimensions={0}, to_apply=plus
        """,
    ),
    NoMatch(
        "reduce_of_reduce",
        """
        x = f32[2,3,4] parameter(0)
        v = f32[] parameter(1)
        w = f32[] parameter(2)
        a = f32[3,4] reduce(x, w), dimensions={0}, to_apply=most
        ROOT r = f32[4] reduce(a, v), dimensions={0}, to_apply=most
        """,
    ),
    NoMatch(
        "reduce_of_reduce",
        """
        x = s32[2,3,4] parameter(0)
        z = s32[] constant(1)
        a = s32[2,4] reduce(x, z), dimensions={1}, to_apply=plus_s32
        ROOT r = s32[2] reduce(a, z), dimensions={1}, to_apply=plus_s32
        """,
    ),
]

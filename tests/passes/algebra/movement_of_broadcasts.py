"""Cases of the rewrites in `passes/algebra/movement_of_broadcasts.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "broadcast_without_repetition",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[2,3] broadcast(x), dimensions={0,1}
        """,
        """
        ROOT x = f32[2,3] parameter(0)
        """,
    ),
    Rewrites(
        "broadcast_without_repetition",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[3,2] broadcast(x), dimensions={1,0}
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT transpose = f32[3,2] transpose(x), dimensions={1,0}
        """,
    ),
    Rewrites(
        "broadcast_without_repetition",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[1,3,1] broadcast(x), dimensions={1}
        """,
        """
        x = f32[3] parameter(0)
        ROOT reshape = f32[1,3,1] reshape(x)
        """,
    ),
    Rewrites(
        "broadcast_of_broadcast_or_transpose",
        """
        x = f32[3] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={1}
        ROOT r = f32[3,4,2] broadcast(a), dimensions={2,0}
        """,
        """
        x = f32[3] parameter(0)
        ROOT broadcast = f32[3,4,2] broadcast(x), dimensions={0}
        """,
    ),
    Rewrites(
        "broadcast_of_broadcast_or_transpose",
        """
        x = f32[2,3] parameter(0)
        a = f32[3,2]{0,1} transpose(x), dimensions={1,0}
        ROOT r = f32[3,4,2] broadcast(a), dimensions={0,2}
        """,
        """
        x = f32[2,3] parameter(0)
        ROOT broadcast = f32[3,4,2] broadcast(x), dimensions={2,0}
        """,
    ),
    Rewrites(
        "broadcast_of_inserted_dimensions",
        """
        x = f32[3] parameter(0)
        a = f32[1,3,1] reshape(x)
        ROOT r = f32[1,5,3,1] broadcast(a), dimensions={0,2,3}
        """,
        """
        x = f32[3] parameter(0)
        ROOT broadcast = f32[1,5,3,1] broadcast(x), dimensions={2}
        """,
    ),
    Rewrites(
        "transpose_of_broadcast",
        """
        x = f32[3] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={1}
        ROOT r = f32[3,2] transpose(a), dimensions={1,0}
        """,
        """
        x = f32[3] parameter(0)
        ROOT broadcast = f32[3,2] broadcast(x), dimensions={0}
        """,
    ),
    Rewrites(
        "reshape_of_broadcast_scalar",
        """
        x = f32[] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={}
        ROOT r = f32[6] reshape(a)
        """,
        """
        x = f32[] parameter(0)
        ROOT broadcast = f32[6] broadcast(x), dimensions={}
        """,
    ),
    Rewrites(
        "reverse_of_broadcast",
        """
        x = f32[3] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={1}
        ROOT r = f32[2,3] reverse(a), dimensions={0}
        """,
        """
        x = f32[3] parameter(0)
        ROOT a = f32[2,3] broadcast(x), dimensions={1}
        """,
    ),
    Rewrites(
        "slice_of_broadcast",
        """
        x = f32[3] parameter(0)
        a = f32[4,3] broadcast(x), dimensions={1}
        ROOT r = f32[2,3] slice(a), slice={[1:3], [0:3]}
        """,
        """
        x = f32[3] parameter(0)
        ROOT broadcast = f32[2,3] broadcast(x), dimensions={1}
        """,
    ),
    Rewrites(
        "slice_of_broadcast",
        """
        x = f32[] parameter(0)
        i = s32[] parameter(1)
        a = f32[4] broadcast(x), dimensions={}
        ROOT r = f32[2] dynamic-slice(a, i), dynamic_slice_sizes={2}
        """,
        """
        i = s32[] parameter(1)
        x = f32[] parameter(0)
        ROOT broadcast = f32[2] broadcast(x), dimensions={}
        """,
    ),
    Rewrites(
        "pad_of_broadcast_padding_value",
        """
        x = f32[] parameter(0)
        a = f32[4] broadcast(x), dimensions={}
        ROOT r = f32[9] pad(a, x), padding=1_1_1
        """,
        """
        x = f32[] parameter(0)
        ROOT broadcast = f32[9] broadcast(x), dimensions={}
        """,
    ),
    Rewrites(
        "slice_of_iota",
        """
        i = s32[5,4] iota(), iota_dimension=0
        ROOT r = s32[3,2] slice(i), slice={[0:3], [1:4:2]}
        """,
        """
        ROOT iota = s32[3,2] iota(), iota_dimension=0
        """,
    ),
    Rewrites(
        "transpose_of_iota",
        """
        i = s32[5,4] iota(), iota_dimension=0
        ROOT r = s32[4,5] transpose(i), dimensions={1,0}
        """,
        """
        ROOT iota = s32[4,5] iota(), iota_dimension=1
        """,
    ),
    Rewrites(
        "iota_of_unit_dimension",
        """
        ROOT i = f32[5,1] iota(), iota_dimension=1
        """,
        """
        constant = f32[] constant(0)
        ROOT broadcast = f32[5,1] broadcast(constant), dimensions={}
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "broadcast_without_repetition",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[2,3] broadcast(x), dimensions={1}
        """,
    ),
    NoMatch(
        "broadcast_of_broadcast_or_transpose",
        """
        x = f32[3] parameter(0)
        a = f32[3] abs(x)
        ROOT r = f32[2,3] broadcast(a), dimensions={1}
        """,
    ),
    NoMatch(
        "broadcast_of_inserted_dimensions",
        """
        x = f32[6] parameter(0)
        a = f32[2,1,3] reshape(x)
        ROOT r = f32[2,1,3,4] broadcast(a), dimensions={0,1,2}
        """,
    ),
    NoMatch(
        "transpose_of_broadcast",
        """
        x = f32[2,3] parameter(0)
        ROOT r = f32[3,2] transpose(x), dimensions={1,0}
        """,
    ),
    NoMatch(
        "reshape_of_broadcast_scalar",
        """
        x = f32[3] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={1}
        ROOT r = f32[6] reshape(a)
        """,
    ),
    NoMatch(
        "reverse_of_broadcast",
        """
        x = f32[3] parameter(0)
        a = f32[2,3] broadcast(x), dimensions={1}
        ROOT r = f32[2,3] reverse(a), dimensions={0,1}
        """,
    ),
    NoMatch(
        "slice_of_broadcast",
        """
        x = f32[3] parameter(0)
        a = f32[4,3] broadcast(x), dimensions={1}
        ROOT r = f32[4,2] slice(a), slice={[0:4], [0:2]}
        """,
    ),
    NoMatch(
        "pad_of_broadcast_padding_value",
        """
        x = f32[] parameter(0)
        y = f32[] parameter(1)
        a = f32[4] broadcast(x), dimensions={}
        ROOT r = f32[9] pad(a, y), padding=1_1_1
        """,
    ),
    NoMatch(
        "slice_of_iota",
        """
        i = s32[5,4] iota(), iota_dimension=0
        ROOT r = s32[3,4] slice(i), slice={[1:4], [0:4]}
        """,
    ),
    NoMatch(
        "transpose_of_iota",
        """
        x = s32[5,4] parameter(0)
        ROOT r = s32[4,5] transpose(x), dimensions={1,0}
        """,
    ),
    NoMatch(
        "iota_of_unit_dimension",
        """
        ROOT i = f32[5,2] iota(), iota_dimension=1
        """,
    ),
]

"""Cases of the rewrites in `passes/algebra/tuples.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import Fires, Rests

FIRES = [
    Fires(
        "element_of_tuple",
        """
        x = f32[3] parameter(0)
        y = s32[] parameter(1)
        t = (f32[3], s32[]) tuple(x, y)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
        """
        x = f32[3] parameter(0)
        ROOT y = s32[] parameter(1)
        """,
    ),
    Fires(
        "element_of_constant",
        """
        t = (f32[2], s32[]) constant(({1, 2}, 7))
        ROOT r = f32[2] get-tuple-element(t), index=0
        """,
        """
        ROOT constant = f32[2] constant({1, 2})
        """,
    ),
    Fires(
        "tuple_of_elements",
        """
        t = (f32[3], s32[]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        y = s32[] get-tuple-element(t), index=1
        ROOT r = (f32[3], s32[]) tuple(x, y)
        """,
        """
        ROOT t = (f32[3], s32[]) parameter(0)
        """,
    ),
]

RESTS = [
    Rests(
        "element_of_tuple",
        """
        t = (f32[3], s32[]) parameter(0)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
    ),
    Rests(
        "element_of_constant",
        """
        t = (f32[3], s32[]) parameter(0)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
    ),
    Rests(
        "tuple_of_elements",
        """
        t = (f32[3], f32[3]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        y = f32[3] get-tuple-element(t), index=1
        ROOT r = (f32[3], f32[3]) tuple(y, x)
        """,
    ),
    Rests(
        "tuple_of_elements",
        """
        t = (f32[3], s32[]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        ROOT r = (f32[3]) tuple(x)
        """,
    ),
]

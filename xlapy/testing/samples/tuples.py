"""Samples of tuple and get-tuple-element."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample


def _module(name: str, body: str) -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n")


def _of_type(t: str) -> Sample:
    return _module(
        f"tuple_{t}",
        f"""
        a = {t}[2,3] parameter(0)
        b = {t}[] parameter(1)
        t = ({t}[2,3], {t}[]) tuple(a, b)
        c = {t}[] get-tuple-element(t), index=1
        d = {t}[2,3] get-tuple-element(t), index=0
        ROOT r = ({t}[], {t}[2,3]) tuple(c, d)
        """,
    )


SAMPLES = [
    *map(_of_type, ELEMENT_TYPES),
    _module("tuple_of_none", "ROOT t = () tuple()"),
    _module(
        "tuple_of_seven",
        """
        a = s32[] parameter(0)
        b = f32[0] parameter(1)
        t = (s32[], f32[0], s32[], f32[0], s32[], /*index=5*/f32[0], s32[]) tuple(a, b, a, b, a, b, a)
        ROOT r = s32[] get-tuple-element(t), index=6
        """,
    ),
    _module(
        "tuple_nested",
        """
        p = ((f32[2], (s32[])), ()) parameter(0)
        a = (f32[2], (s32[])) get-tuple-element(p), index=0
        b = (s32[]) get-tuple-element(a), index=1
        c = s32[] get-tuple-element(b), index=0
        k = token[] after-all()
        ROOT r = (((f32[2], (s32[])), ()), s32[], token[]) tuple(p, c, k)
        """,
    ),
    _module(
        "tuple_layouts",
        """
        p = (f32[2,3]{0,1}, f32[2,3]{1,0}) parameter(0)
        a = f32[2,3]{0,1} get-tuple-element(p), index=0
        b = f32[2,3]{1,0} get-tuple-element(p), index=1
        ROOT r = (f32[2,3]{1,0}, f32[2,3]{0,1}) tuple(b, a)
        """,
    ),
    _module(
        "tuple_dynamic",
        """
        p = (f32[<=4], s32[]) parameter(0)
        a = f32[<=4] get-tuple-element(p), index=0
        ROOT r = (f32[<=4]) tuple(a)
        """,
    ),
]

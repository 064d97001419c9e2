"""Samples of sort and topk."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.testing.samples.sample import ELEMENT_TYPES, NEWER_THAN_JAXLIB, Sample

_TYPES = tuple(t for t in ELEMENT_TYPES if not t.startswith("c"))


def _lines(text: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in text.strip().splitlines())


def _sort(name: str, types: Sequence[str], sizes: str, comparator: str, attributes: str, note: str = "") -> Sample:
    """Returns a sort of one array of `sizes` per type. `comparator` uses p0, p1 (operand 0), p2, p3 (operand 1) ..."""
    parameters = "\n".join(f"p{i} = {types[i // 2]}[] parameter({i})" for i in range(2 * len(types)))
    arrays = "\n".join(f"a{i} = {t}[{sizes}] parameter({i})" for i, t in enumerate(types))
    shapes = ", ".join(f"{t}[{sizes}]" for t in types)
    names = ", ".join(f"a{i}" for i in range(len(types)))
    result = shapes if len(types) == 1 else f"({shapes})"
    entry = f"{arrays}\nROOT s = {result} sort({names}), {attributes}, to_apply=comparator"
    body = f"{parameters}\n{comparator.strip()}"
    text = f"HloModule {name}\n\ncomparator {{\n{_lines(body)}\n}}\n\nENTRY main {{\n{_lines(entry)}\n}}\n"
    return Sample(name, text, note)


def _topk(name: str, operand: str, result: str, attributes: str, note: str = "") -> Sample:
    body = f"p = {operand} parameter(0)\nROOT t = {result} topk(p), {attributes}"
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{_lines(body)}\n}}\n", note)


def _of_type(t: str) -> list[Sample]:
    order = ", type=TOTALORDER" if t.startswith(("f", "bf")) else ""
    less = f"ROOT r = pred[] compare(p0, p1), direction=LT{order}"
    return [
        _sort(f"sort_{t}", [t, "s32"], "3,5", less, "dimensions={1}, is_stable=true"),
        _topk(f"topk_{t}", f"{t}[3,5]", f"({t}[3,2], s32[3,2])", "k=2, largest=true"),
    ]


_FLOAT_KEY = """
    z = f32[] constant(0)
    n = f32[] constant(nan)
    zero.0 = pred[] compare(p0, z), direction=EQ
    some.0 = f32[] select(zero.0, z, p0)
    isnan.0 = pred[] compare(p0, p0), direction=NE
    key.0 = f32[] select(isnan.0, n, some.0)
    zero.1 = pred[] compare(p1, z), direction=EQ
    some.1 = f32[] select(zero.1, z, p1)
    isnan.1 = pred[] compare(p1, p1), direction=NE
    key.1 = f32[] select(isnan.1, n, some.1)
"""
_TWO_KEYS = f"""{_FLOAT_KEY}
    first = pred[] compare(key.0, key.1), direction=LT, type=TOTALORDER
    tie = pred[] compare(key.0, key.1), direction=EQ, type=TOTALORDER
    second = pred[] compare(p2, p3), direction=LT
    both = pred[] and(tie, second)
    ROOT r = pred[] or(first, both)
"""
_SELECTED = """
    tie = pred[] compare(p0, p1), direction=EQ
    first = pred[] compare(p0, p1), direction=GT
    second = pred[] compare(p3, p2), direction=GT
    ROOT r = pred[] select(tie, second, first)
"""
_BITS = """
    z = s32[] constant(0)
    m = s32[] constant(2147483647)
    b.0 = s32[] bitcast-convert(p0)
    x.0 = s32[] xor(b.0, m)
    negative.0 = pred[] compare(b.0, z), direction=LT
    key.0 = s32[] select(negative.0, x.0, b.0)
    b.1 = s32[] bitcast-convert(p1)
    x.1 = s32[] xor(b.1, m)
    negative.1 = pred[] compare(b.1, z), direction=LT
    key.1 = s32[] select(negative.1, x.1, b.1)
    ROOT r = pred[] compare(key.0, key.1), direction=LT
"""
_DIFFERENCE = """
    d = s32[] subtract(p0, p1)
    z = s32[] constant(0)
    ROOT r = pred[] compare(d, z), direction=LT
"""
_NAN_LAST = """
    nan.0 = pred[] compare(p0, p0), direction=NE
    nan.1 = pred[] compare(p1, p1), direction=NE
    number.0 = pred[] not(nan.0)
    only = pred[] and(number.0, nan.1)
    less = pred[] compare(p0, p1), direction=LT
    ROOT r = pred[] or(less, only)
"""
_PARTS = """
    re.0 = f32[] real(p0)
    re.1 = f32[] real(p1)
    ROOT r = pred[] compare(re.0, re.1), direction=LT, type=TOTALORDER
"""
_LESS = "ROOT r = pred[] compare(p0, p1), direction=LT"
_GREATER = "ROOT r = pred[] compare(p0, p1), direction=GT"

SAMPLES = [
    *(sample for t in _TYPES for sample in _of_type(t)),
    _sort("sort_bare", ["s32"], "7", _LESS, "dimensions={0}", note="one operand, not asked to be stable"),
    _sort("sort_descending", ["f32"], "4,6", _GREATER, "dimensions={0}, is_stable=true"),
    _sort("sort_middle", ["u8", "f64"], "2,5,3", _LESS, "dimensions={1}, is_stable=true"),
    _sort("sort_complex", ["c64", "s32"], "9", _PARTS, "dimensions={0}, is_stable=true"),
    _sort("sort_empty", ["f32"], "0", _LESS, "dimensions={0}"),
    _sort("sort_empty_rows", ["f32", "s32"], "0,4", _LESS, "dimensions={1}"),
    _sort("sort_single", ["f32", "s32"], "3,1", _LESS, "dimensions={1}"),
    _sort("sort_two_keys", ["f32", "s32", "bf16"], "40", _TWO_KEYS, "dimensions={0}, is_stable=true", note="as in JAX"),
    _sort("sort_selected", ["s8", "s32"], "40", _SELECTED, "dimensions={0}", note="descending, then ascending"),
    _sort("sort_bits", ["f32"], "20", _BITS, "dimensions={0}", note="the total order spelt out in integers"),
    _sort(
        "sort_difference",
        ["s32", "u16"],
        "3,33",
        _DIFFERENCE,
        "dimensions={1}, is_stable=true",
        note="compares no two like keys",
    ),
    _sort("sort_nan_last", ["f32", "s32"], "37", _NAN_LAST, "dimensions={0}, is_stable=true"),
    _sort("sort_dynamic", ["f32", "s32"], "4,<=6", _LESS, "dimensions={1}"),
    _topk("topk_smallest", "f32[2,3,9]", "(f32[2,3,4], s32[2,3,4])", "k=4, largest=false"),
    _topk("topk_vector", "f32[9]", "(f32[9], s32[9])", "k=9, largest=true"),
    _topk("topk_none", "f32[2,9]", "(f32[2,0], s32[2,0])", "k=0, largest=true"),
    _topk("topk_dynamic", "f32[<=2,<=9]", "(f32[<=2,3], s32[<=2,3])", "k=3, largest=true"),
    _topk("topk_unstable", "f32[9]", "(f32[3], s32[3])", "k=3, largest=true, is_stable=false", note=NEWER_THAN_JAXLIB),
]

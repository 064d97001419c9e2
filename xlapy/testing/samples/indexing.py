"""Samples of gather and scatter."""

from __future__ import annotations

from xlapy.testing.samples.sample import ELEMENT_TYPES, Sample

_ROWS = "collapsed_slice_dims={0}, start_index_map={0}"
_INTO_ROWS = "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"


def _lines(text: str) -> str:
    return "\n".join(f"  {line.strip()}" for line in text.strip().splitlines())


def _gather(name: str, operand: str, indices: str, result: str, attributes: str, note: str = "") -> Sample:
    body = f"""
        p = {operand} parameter(0)
        i = {indices} parameter(1)
        ROOT r = {result} gather(p, i), {attributes}
    """
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{_lines(body)}\n}}\n", note)


def _binary(t: str, op: str) -> str:
    """Returns the text of a computation that combines a current value and an update."""
    return f"a = {t}[] parameter(0)\nb = {t}[] parameter(1)\nROOT r = {t}[] {op}"


def _scatter(name: str, operand: str, indices: str, updates: str, body: str, attributes: str, note: str = "") -> Sample:
    """Returns a scatter of one operand. `body` is the text of the update computation."""
    entry = f"""
        p = {operand} parameter(0)
        i = {indices} parameter(1)
        u = {updates} parameter(2)
        ROOT s = {operand} scatter(p, i, u), {attributes}, to_apply=update
    """
    text = f"HloModule {name}\n\nupdate {{\n{_lines(body)}\n}}\n\nENTRY main {{\n{_lines(entry)}\n}}\n"
    return Sample(name, text, note)


def _of_type(t: str) -> list[Sample]:
    attributes = f"offset_dims={{1}}, {_ROWS}, index_vector_dim=1, slice_sizes={{1,3}}"
    choose = f"a = {t}[] parameter(0)\nROOT b = {t}[] parameter(1)"
    into = f"update_window_dims={{1}}, {_INTO_ROWS}, index_vector_dim=1"
    samples = [
        _gather(f"gather_{t}", f"{t}[4,3]", "s32[5]", f"{t}[5,3]", attributes),
        _scatter(f"scatter_set_{t}", f"{t}[4,3]", "s32[5]", f"{t}[5,3]", choose, into),
    ]
    if t not in ("pred", "f4e2m1fn"):
        body = _binary(t, "add(a, b)")
        samples.append(_scatter(f"scatter_add_{t}", f"{t}[4,3]", "s32[5,1]", f"{t}[5,3]", body, into))
    if t not in ("c64", "c128", "f4e2m1fn"):
        body = _binary(t, "maximum(a, b)")
        samples.append(_scatter(f"scatter_max_{t}", f"{t}[4,3]", "s32[5,1]", f"{t}[5,3]", body, into))
    return samples


_PAIR = """
    best = f32[] parameter(0)
    where = s32[] parameter(1)
    value = f32[] parameter(2)
    place = s32[] parameter(3)
    better = pred[] compare(value, best), direction=GT
    v = f32[] select(better, value, best)
    w = s32[] select(better, place, where)
    ROOT r = (f32[], s32[]) tuple(v, w)
"""
_VARIADIC = f"""HloModule scatter_variadic

update {{
{_lines(_PAIR)}
}}

ENTRY main {{
  p = f32[6] parameter(0)
  q = s32[6] parameter(1)
  i = s64[8,1] parameter(2)
  u = f32[8] parameter(3)
  v = s32[8] parameter(4)
  ROOT s = (f32[6], s32[6]) scatter(p, q, i, u, v), update_window_dims={{}}, {_INTO_ROWS}, index_vector_dim=1, to_apply=update
}}
"""  # noqa: E501

_WINDOWS = "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1"

SAMPLES = [
    *(sample for t in ELEMENT_TYPES for sample in _of_type(t)),
    *(
        _gather(
            f"gather_by_{t}",
            "f32[6]",
            f"{t}[3]",
            "f32[3]",
            f"offset_dims={{}}, {_ROWS}, index_vector_dim=1, slice_sizes={{1}}",
        )
        for t in ("s4", "u4", "s8", "u8", "s16", "u16", "u32", "s64", "u64")
    ),
    _gather(
        "gather_windows",
        "f32[16,11]",
        "s64[4,5,2]",
        "f32[4,5,8,6]",
        "offset_dims={2,3}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=2, slice_sizes={8,6}",
        note="the example of the specification",
    ),
    _gather(
        "gather_nd",
        "f32[16,11]",
        "s32[4,5,1]",
        "f32[4,5,11]",
        f"offset_dims={{2}}, {_ROWS}, index_vector_dim=2, slice_sizes={{1,11}}",
        note="the example of the specification",
    ),
    _gather(
        "gather_offset_dims_first",
        "f32[3,3]",
        "s32[2,2]",
        "f32[2,3,2]",
        "offset_dims={1}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1}",
    ),
    _gather(
        "gather_index_vectors_first",
        "f32[5,7]",
        "s32[2,4]",
        "f32[2,4,3]",
        "offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}",
        note="a permuted start_index_map",
    ),
    _gather(
        "gather_one_slice",
        "f32[5,7]",
        "s32[2]",
        "f32[2,3]",
        "offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={2,3}",
        note="a dynamic slice",
    ),
    _gather(
        "gather_batching",
        "f32[2,3,5]",
        "s32[3,4,2,1]",
        "f32[3,4,2,2]",
        "offset_dims={3}, collapsed_slice_dims={}, start_index_map={2}, operand_batching_dims={0,1}, "
        "start_indices_batching_dims={2,0}, index_vector_dim=3, slice_sizes={1,1,2}",
    ),
    _gather(
        "gather_sorted",
        "f32[6]",
        "s32[3,1]",
        "f32[3]",
        f"offset_dims={{}}, {_ROWS}, index_vector_dim=1, slice_sizes={{1}}, indices_are_sorted=true",
    ),
    _gather(
        "gather_of_nothing",
        "f32[0,3]",
        "s32[2,1]",
        "f32[2,3]",
        f"offset_dims={{1}}, {_ROWS}, index_vector_dim=1, slice_sizes={{0,3}}",
        note="slices of size 0 in a collapsed dimension: zeros",
    ),
    _gather(
        "gather_without_indices",
        "f32[4]",
        "s32[0,1]",
        "f32[0]",
        f"offset_dims={{}}, {_ROWS}, index_vector_dim=1, slice_sizes={{1}}",
    ),
    _gather(
        "gather_scalar_operand",
        "f32[]",
        "s32[3,0]",
        "f32[3]",
        "offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim=1, slice_sizes={}",
    ),
    _gather(
        "gather_dynamic",
        "f32[4,<=3]",
        "s32[<=5,1]",
        "f32[<=5,<=3]",
        f"offset_dims={{1}}, {_ROWS}, index_vector_dim=1, slice_sizes={{1,3}}",
    ),
    _scatter(
        "scatter_windows",
        "f32[6,5]",
        "s32[3,2]",
        "f32[3,2,3]",
        _binary("f32", "add(a, b)"),
        _WINDOWS,
        note="windows that may overlap partly",
    ),
    _scatter(
        "scatter_window_dims_first",
        "f32[6]",
        "s32[2,1]",
        "f32[3,2]",
        _binary("f32", "subtract(b, a)"),
        "update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    _scatter(
        "scatter_batching",
        "f32[2,3,5]",
        "s32[3,4,2,1]",
        "f32[3,4,2,2]",
        _binary("f32", "multiply(a, b)"),
        "update_window_dims={3}, inserted_window_dims={}, scatter_dims_to_operand_dims={2}, input_batching_dims={0,1}, "
        "scatter_indices_batching_dims={2,0}, index_vector_dim=3",
    ),
    _scatter(
        "scatter_promises",
        "s32[6]",
        "u32[3]",
        "s32[3]",
        _binary("s32", "minimum(b, a)"),
        f"update_window_dims={{}}, {_INTO_ROWS}, index_vector_dim=1, indices_are_sorted=true, unique_indices=true",
        note="random indices may violate these attributes; a minimum does not depend on them",
    ),
    _scatter(
        "scatter_one_window",
        "f32[5,7]",
        "s32[2]",
        "f32[2,3]",
        _binary("f32", "add(a, b)"),
        "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=0",
    ),
    _scatter(
        "scatter_without_updates",
        "f32[4]",
        "s32[0,1]",
        "f32[0]",
        _binary("f32", "add(a, b)"),
        f"update_window_dims={{}}, {_INTO_ROWS}, index_vector_dim=1",
    ),
    Sample("scatter_variadic", _VARIADIC, note="two operands with one update computation"),
]

"""Scalar computations that use every kind of op on arrays inside, and a module that maps such a computation."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.text import parse_hlo

CALLED = """
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
largest { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }
second { p = f32[] parameter(0) ROOT q = f32[] parameter(1) }
shifted_first { p = f32[] parameter(0) q = f32[] parameter(1) h = f32[] constant(0.5) ROOT r = f32[] multiply(p, h) }
at_least { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=GE }
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }
less_of_pairs { p = f32[] parameter(0) q = f32[] parameter(1) x = f32[] parameter(2) y = f32[] parameter(3)
  ROOT r = pred[] compare(p, q), direction=LT }
nearer { p = f32[] parameter(0) q = f32[] parameter(1) x = f32[] cosine(p) y = f32[] cosine(q)
  ROOT r = pred[] compare(x, y), direction=LT }
product { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] multiply(p, q) }
backwards { p = f32[4] parameter(0) ROOT r = f32[4] reverse(p), dimensions={0} }
doubled { p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }
running { p = f32[] parameter(0) q = f32[] parameter(1) s = f32[] subtract(p, q) ROOT r = (f32[], f32[]) tuple(s, s) }
counts_down { t = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(t), index=0 z = s32[] constant(0)
  ROOT r = pred[] compare(n, z), direction=GT }
step { t = (s32[], f32[4]) parameter(0) n = s32[] get-tuple-element(t), index=0 v = f32[4] get-tuple-element(t), index=1
  one = s32[] constant(1) m = s32[] subtract(n, one) bit = s32[] and(n, one)
  w = f32[4] conditional(bit, v, v), branch_computations={backwards, doubled}
  ROOT r = (s32[], f32[4]) tuple(m, w) }
"""

PARAMETERS = """
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  zero = f32[] constant(0)
  c = f32[4] constant({3, -1, 0.5, 2})
  e = f32[4] broadcast(a), dimensions={}
  d = f32[4] add(c, e)
  m = f32[2,2] reshape(d)
"""

BODIES = {
    "broadcast": "v = f32[4] broadcast(a), dimensions={}",
    "transpose": "t = f32[2,2] transpose(m), dimensions={1,0}\n v = f32[4] reshape(t)",
    "reverse": "v = f32[4] reverse(d), dimensions={0}",
    "shuffle": "v = f32[4] shuffle(d), dimensions={0}, mode=rotate, shifts={1}",
    "slice": "s = f32[2] slice(d), slice={[1:4:2]}\n v = f32[4] concatenate(s, s), dimensions={0}",
    "pad with a value per batch element": "s = f32[2] slice(d), slice={[0:2]}\n v = f32[4] pad(s, a), padding=1_0_1",
    "pad of what all share": "s = f32[2] constant({1, 2})\n v = f32[4] pad(s, a), padding=1_1_0",
    "concatenate with what all share": """
      s = f32[2] slice(d), slice={[2:4]}
      t = f32[2] slice(c), slice={[0:2]}
      v = f32[4] concatenate(t, s), dimensions={0}""",
    "copy, bitcast": "s = f32[2,2]{0,1} bitcast(d)\n t = f32[2,2] copy(s)\n v = f32[4]{0} reshape(t)",
    "bitcast-convert": "s = u8[4] bitcast-convert(a)\n v = f32[4] convert(s)",
    "bitcast-convert to fewer": """
      s = u8[4,4] bitcast-convert(d)
      t = u8[4,4] reverse(s), dimensions={0}
      v = f32[4] bitcast-convert(t)""",
    "dynamic-slice": """
      s = f32[2] dynamic-slice(d, i), dynamic_slice_sizes={2}
      v = f32[4] concatenate(s, s), dimensions={0}""",
    "dynamic-slice of what all share": """
      s = f32[2] dynamic-slice(c, i), dynamic_slice_sizes={2}
      v = f32[4] concatenate(s, s), dimensions={0}""",
    "dynamic-slice at the same place": """
      one = s32[] constant(1)
      s = f32[2,1] dynamic-slice(m, one, one), dynamic_slice_sizes={2,1}
      w = f32[2] reshape(s)
      v = f32[4] concatenate(w, w), dimensions={0}""",
    "dynamic-update-slice": "u = f32[2] slice(d), slice={[0:2]}\n v = f32[4] dynamic-update-slice(d, u, i)",
    "dynamic-update-slice into what all share": "u = f32[1] reshape(a)\n v = f32[4] dynamic-update-slice(c, u, i)",
    "dynamic-update-slice of what all share": "u = f32[1] constant({9})\n v = f32[4] dynamic-update-slice(c, u, i)",
    "dynamic-update-slice at the same place": """
      o = s32[] constant(3)
      u = f32[1] reshape(a)
      v = f32[4] dynamic-update-slice(c, u, o)""",
    "gather": """
      k = s32[4] constant({3, 0, 1, 1})
      b = s32[4] broadcast(i), dimensions={}
      j = s32[4] add(k, b)
      v = f32[4] gather(d, j), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}""",
    "gather from what all share": """
      b = s32[4] broadcast(i), dimensions={}
      v = f32[4] gather(c, b), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}""",
    "gather at the same places": """
      k = s32[2] constant({1, 0})
      s = f32[2,2] gather(m, k), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1},
        index_vector_dim=1, slice_sizes={2,1}
      v = f32[4] reshape(s)""",
    "scatter": """
      j = s32[1] reshape(i)
      u = f32[1] reshape(a)
      v = f32[4] scatter(c, j, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum""",
    "scatter at the same places": """
      j = s32[2] constant({2, 2})
      u = f32[2] slice(d), slice={[0:2]}
      v = f32[4] scatter(d, j, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second""",
    "dot": "s = f32[2,2] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n v = f32[4] reshape(s)",
    "dot with what all share on the right": """
      n = f32[2,2] reshape(c)
      s = f32[2,2] dot(m, n), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      v = f32[4] reshape(s)""",
    "dot with what all share on the left": """
      n = f32[2,2] reshape(c)
      s = f32[2,2] dot(n, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      v = f32[4] reshape(s)""",
    "dot with batches": """
      n = f32[2,2] reshape(c)
      s = f32[2] dot(m, n), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={0}, rhs_contracting_dims={1}
      t = f32[2] dot(n, m), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={0}, rhs_contracting_dims={1}
      v = f32[4] concatenate(s, t), dimensions={0}""",
    "convolution": """
      b = f32[1,1,4] reshape(d)
      k = f32[1,1,2] broadcast(a), dimensions={}
      s = f32[1,1,4] convolution(b, k), window={size=2 pad=1_0}, dim_labels=bf0_oi0->bf0
      v = f32[4] reshape(s)""",
    "convolution with one kernel": """
      b = f32[1,1,4] reshape(d)
      k = f32[1,1,2] constant({{{1,-2}}})
      s = f32[1,1,4] convolution(b, k), window={size=2 pad=1_0}, dim_labels=bf0_oi0->bf0
      v = f32[4] reshape(s)""",
    "reduce from an initial value per batch element": """
      s = f32[2] reduce(m, a), dimensions={0}, to_apply=largest
      v = f32[4] concatenate(s, s), dimensions={0}""",
    "reduce of what all share": """
      n = f32[2,2] reshape(c)
      s = f32[2] reduce(n, a), dimensions={1}, to_apply=sum
      v = f32[4] concatenate(s, s), dimensions={0}""",
    "reduce of one element": """
      n = f32[4,1] reshape(d)
      v = f32[4] reduce(n, a), dimensions={1}, to_apply=sum""",
    "reduce-window": "v = f32[4] reduce-window(d, a), window={size=3 pad=1_1}, to_apply=largest",
    "reduce-window of a scalar": """
      s = f32[] reduce-window(a, a), window={}, to_apply=sum
      v = f32[4] broadcast(s), dimensions={}""",
    "select-and-scatter": """
      s = f32[2] slice(d), slice={[0:2]}
      v = f32[4] select-and-scatter(d, s, a), window={size=2 stride=2}, select=at_least, scatter=sum""",
    "sort": "v = f32[4] sort(d), dimensions={0}, to_apply=less",
    "sort by any comparator": "v = f32[4] sort(d), dimensions={0}, to_apply=nearer",
    "sort of batched and shared operands": """
      n = f32[4] cosine(d)
      s = (f32[4], f32[4]) sort(n, c), dimensions={0}, to_apply=less_of_pairs
      v = f32[4] get-tuple-element(s), index=1""",
    "topk": """
      n = f32[4] cosine(d)
      s = (f32[4], s32[4]) topk(n), k=4, largest=true
      t = s32[4] get-tuple-element(s), index=1
      v = f32[4] convert(t)""",
    "map with a scalar per batch element": "v = f32[4] map(c, e), dimensions={0}, to_apply=product",
    "call, fusion": "s = f32[4] call(d), to_apply=backwards\n v = f32[4] fusion(s), kind=kLoop, calls=doubled",
    "asynchronous call": """
      s = ((f32[4]), f32[4]) async-start(d), calls=backwards
      u = ((f32[4]), f32[4]) async-update(s)
      v = f32[4] async-done(u)""",
    "conditional": "v = f32[4] conditional(i, c, d), branch_computations={backwards, doubled}",
    "conditional that all share": """
      o = s32[] constant(0)
      v = f32[4] conditional(o, d, c), branch_computations={backwards, doubled}""",
    "while": """
      t = (s32[], f32[4]) tuple(i, d)
      w = (s32[], f32[4]) while(t), condition=counts_down, body=step
      v = f32[4] get-tuple-element(w), index=1""",
    "while that all go through as often": """
      n = s32[] constant(3)
      t = (s32[], f32[4]) tuple(n, d)
      w = (s32[], f32[4]) while(t), condition=counts_down, body=step
      v = f32[4] get-tuple-element(w), index=1""",
    "while from what all share": """
      t = (s32[], f32[4]) tuple(i, c)
      w = (s32[], f32[4]) while(t), condition=counts_down, body=step
      v = f32[4] get-tuple-element(w), index=1""",
    "scan": """
      s = (f32[4], f32[]) scan(d, a), dimensions={0}, num_carries=1, to_apply=running
      v = f32[4] get-tuple-element(s), index=0""",
    "select by a scalar": "p = pred[] compare(a, zero), direction=GT\n v = f32[4] select(p, c, d)",
    "clamp by scalars": "n = f32[] negate(a)\n v = f32[4] clamp(n, d, a)",
    "get-dimension-size": """
      s = s32[] get-dimension-size(d), dimensions={0}
      t = f32[] convert(s)
      b = f32[] multiply(t, a)
      v = f32[4] broadcast(b), dimensions={}""",
    "opt-barrier": """
      t = (f32[4], f32[4]) tuple(c, d)
      b = (f32[4], f32[4]) opt-barrier(t)
      v = f32[4] get-tuple-element(b), index=1""",
    "rng-bit-generator": """
      j = u64[] convert(i)
      s = u64[3] broadcast(j), dimensions={}
      g = (u64[3], u32[4]) rng-bit-generator(s), algorithm=rng_philox
      b = u32[4] get-tuple-element(g), index=1
      v = f32[4] convert(b)""",
    "cholesky, triangular-solve": """
      s = f32[2,2] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
      l = f32[2,2] cholesky(s), lower=true
      n = f32[2,2] reshape(c)
      x = f32[2,2] triangular-solve(l, n), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
      v = f32[4] reshape(x)""",
    "fft": "s = c64[3] fft(d), fft_type=RFFT, fft_length={4}\n v = f32[4] fft(s), fft_type=IRFFT, fft_length={4}",
    "batch-norm-training": """
      s = f32[2] slice(d), slice={[0:2]}
      o = f32[2] slice(c), slice={[0:2]}
      n = (f32[2,2], f32[2], f32[2]) batch-norm-training(m, o, s), epsilon=0.5, feature_index=1
      w = f32[2,2] get-tuple-element(n), index=0
      v = f32[4] reshape(w)""",
}  # fmt: skip


def applied_by_map(lines: str) -> Module:
    """Returns a module that maps f32[6] and s32[6] by a computation whose root is a weighted sum of `v`, f32[4],
    computed by `lines`.
    """
    return parse_hlo(f"""HloModule m
{CALLED}
body {{{PARAMETERS}
  {lines}
  weights = f32[4] constant({{1, 10, 100, 1000}})
  weighted = f32[4] multiply(v, weights)
  ROOT result = f32[] reduce(weighted, zero), dimensions={{0}}, to_apply=sum
}}
ENTRY main {{
  x = f32[6] parameter(0)
  y = s32[6] parameter(1)
  ROOT r = f32[6] map(x, y), dimensions={{0}}, to_apply=body
}}
""")


def named(module: Module, name: str) -> Computation:
    return next(c for c in module.computations if c.name == name)


def run(module: Module, *arrays: Any) -> Any:
    return evaluate_computation(Context(), module.entry_computation, list(arrays))


X = np.array([0.5, -2.0, 3.0, 1.25, -0.75, 7.0], np.float32)
Y = np.array([0, 1, 5, -1, 2, 3], np.int32)

"""Programs of 2 to 8 devices for `benchmarks/simulation.py`, to which the simulator's model was not fitted.

Two sets: the model was improved in view of the classes of the first one (sorts, gathers, transforms ...), and checked
with the second one afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }\n"
LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"

Rows = Sequence[tuple[str, int, str]]
"""The name, the number of devices and the module without its first line."""


def _entry(*lines: str, before: str = "") -> str:
    return before + "ENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


def loop(shape: str, trips: int, body: Sequence[str], before: str = "", third: str = "") -> str:
    """Returns a loop that computes `y` of `x`, and of a value `w` of the shape `third`, which stays."""
    third = third or shape
    state = f"(s32[], {shape}, {third})"
    return f"""{before}condition {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = {shape} get-tuple-element(s), index=1
  w = {third} get-tuple-element(s), index=2
  {chr(10).join(body)}
  ROOT t = {state} tuple(j, y, w)
}}
ENTRY e {{
  zero = s32[] constant(0)
  x = {shape} parameter(0)
  w = {third} parameter(1)
  s = {state} tuple(zero, x, w)
  l = {state} while(s), condition=condition, body=body
  ROOT y = {shape} get-tuple-element(l), index=1
}}
"""


FIRST: Rows = [
    (
        "sort of rows, maximum of all",
        4,
        _entry(
            "x = f32[256,2048] parameter(0)",
            "s = f32[256,2048] sort(x), dimensions={1}, to_apply=less",
            "ROOT m = f32[256,2048] all-reduce(s), replica_groups={}, to_apply=max",
            before=LESS + MAX,
        ),
    ),
    (
        "sort of keys with values",
        2,
        _entry(
            "k = f32[131072] parameter(0)",
            "v = s32[131072] parameter(1)",
            "ROOT s = (f32[131072], s32[131072]) sort(k, v), dimensions={0}, to_apply=pairs",
            before="pairs { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  "
            "d = s32[] parameter(3)  ROOT l = pred[] compare(a, b), direction=LT }\n",
        ),
    ),
    (
        "sums into a table",
        4,
        _entry(
            "t = f32[16384,64] parameter(0)",
            "i = s32[8192,1] parameter(1)",
            "u = f32[8192,64] parameter(2)",
            "ROOT s = f32[16384,64] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
            before=ADD,
        ),
    ),
    (
        "rows of a table, all-gather",
        8,
        _entry(
            "t = f32[32768,64] parameter(0)",
            "i = s32[4096,1] parameter(1)",
            "g = f32[4096,64] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1,64}",
            "ROOT a = f32[32768,64] all-gather(g), replica_groups={}, dimensions={0}",
        ),
    ),
    (
        "Fourier transforms of rows",
        2,
        _entry(
            "x = c64[512,1024] parameter(0)",
            "f = c64[512,1024] fft(x), fft_type=FFT, fft_length={1024}",
            "g = c64[512,1024] multiply(f, x)",
            "ROOT y = c64[512,1024] fft(g), fft_type=IFFT, fft_length={1024}",
        ),
    ),
    (
        "convolutions of small images",
        4,
        _entry(
            "x = f32[4,32,32,32] parameter(0)",
            "k = f32[3,3,32,64] parameter(1)",
            "c = f32[4,32,32,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
            "z = f32[] constant(0)",
            "b = f32[4,32,32,64] broadcast(z), dimensions={}",
            "r = f32[4,32,32,64] maximum(c, b)",
            "m = f32[4,64] reduce(r, z), dimensions={1,2}, to_apply=add",
            "ROOT a = f32[4,64] all-reduce(m), replica_groups={}, to_apply=add",
            before=ADD,
        ),
    ),
    (
        "sums of columns",
        4,
        _entry(
            "x = f32[2048,1024] parameter(0)",
            "z = f32[] constant(0)",
            "s = f32[1024] reduce(x, z), dimensions={0}, to_apply=add",
            "ROOT a = f32[1024] all-reduce(s), replica_groups={}, to_apply=add",
            before=ADD,
        ),
    ),
    (
        "long chain of functions",
        8,
        _entry(
            "x = f32[131072] parameter(0)",
            "a = f32[131072] tanh(x)",
            "b = f32[131072] multiply(a, x)",
            "c = f32[131072] exponential(b)",
            "d = f32[131072] add(c, x)",
            "e = f32[131072] sqrt(d)",
            "f = f32[131072] divide(e, d)",
            "g = f32[131072] sine(f)",
            "h = f32[131072] multiply(g, b)",
            "i = f32[131072] subtract(h, a)",
            "j = f32[131072] maximum(i, e)",
            "k = f32[131072] log(j)",
            "ROOT l = f32[131072] add(k, c)",
        ),
    ),
    (
        "all-gather of an odd size",
        8,
        _entry(
            "x = f32[12345] parameter(0)",
            "g = f32[98760] all-gather(x), replica_groups={}, dimensions={0}",
            "n = f32[98760] negate(g)",
            "z = f32[] constant(0)",
            "s = f32[] reduce(n, z), dimensions={0}, to_apply=add",
            "b = f32[12345] broadcast(s), dimensions={}",
            "ROOT y = f32[12345] add(x, b)",
            before=ADD,
        ),
    ),
    (
        "matrix times vector in a loop",
        4,
        loop(
            "f32[512]",
            50,
            [
                f"d = f32[512] dot(w, x), {DOT}",
                "r = f32[512] all-reduce(d), replica_groups={}, to_apply=add",
                "y = f32[512] tanh(r)",
            ],
            before=ADD,
            third="f32[512,512]",
        ),
    ),
    (
        "products of eight devices",
        8,
        _entry(
            "x = f32[384,384] parameter(0)",
            "w = f32[384,384] parameter(1)",
            f"a = f32[384,384] dot(x, w), {DOT}",
            "t = f32[384,384] tanh(a)",
            f"ROOT b = f32[384,384] dot(t, w), {DOT}",
        ),
    ),
    (
        "transpose by all-to-all",
        8,
        _entry(
            "x = f32[128,1024] parameter(0)",
            "t = f32[1024,128] transpose(x), dimensions={1,0}",
            "r = f32[8,128,128] reshape(t)",
            "a = f32[8,128,128] all-to-all(r), replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}",
            "u = f32[128,8,128] transpose(a), dimensions={2,0,1}",
            "ROOT y = f32[128,1024] reshape(u)",
        ),
    ),
    (
        "attention of bf16",
        4,
        _entry(
            "q = bf16[8,256,64] parameter(0)",
            "k = bf16[8,256,64] parameter(1)",
            "v = bf16[8,256,64] parameter(2)",
            "s = f32[8,256,256] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={2}",
            "i = f32[] constant(-inf)",
            "z = f32[] constant(0)",
            "m = f32[8,256] reduce(s, i), dimensions={2}, to_apply=max",
            "b = f32[8,256,256] broadcast(m), dimensions={0,1}",
            "d = f32[8,256,256] subtract(s, b)",
            "x = f32[8,256,256] exponential(d)",
            "t = f32[8,256] reduce(x, z), dimensions={2}, to_apply=add",
            "c = f32[8,256,256] broadcast(t), dimensions={0,1}",
            "p = f32[8,256,256] divide(x, c)",
            "h = bf16[8,256,256] convert(p)",
            "o = f32[8,256,64] dot(h, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={1}",
            "ROOT r = f32[8,256,64] all-reduce(o), replica_groups={}, to_apply=add",
            before=ADD + MAX,
        ),
    ),
    (
        "cumulative sums of rows",
        2,
        _entry(
            "x = f32[256,4096] parameter(0)",
            "z = f32[] constant(0)",
            "c = f32[256,4096] reduce-window(x, z), window={size=1x4096 pad=0_0x4095_0}, to_apply=add",
            "ROOT n = f32[256,4096] negate(c)",
            before=ADD,
        ),
    ),
    (
        "random bits",
        2,
        _entry(
            "s = u64[2] parameter(0)",
            "r = (u64[2], u32[524288]) rng-bit-generator(s), algorithm=rng_three_fry",
            "ROOT b = u32[524288] get-tuple-element(r), index=1",
        ),
    ),
    (
        "many small products",
        4,
        _entry(
            "x = f32[512,32,32] parameter(0)",
            "w = f32[512,32,32] parameter(1)",
            "d = f32[512,32,32] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
            "rhs_contracting_dims={1}",
            "ROOT r = f32[512,32,32] add(d, x)",
        ),
    ),
]

SECOND: Rows = [
    (
        "top values of rows",
        4,
        _entry(
            "x = f32[128,4096] parameter(0)",
            "s = f32[128,4096] sort(x), dimensions={1}, to_apply=less",
            "t = f32[128,64] slice(s), slice={[0:128], [4032:4096]}",
            "ROOT g = f32[512,64] all-gather(t), replica_groups={}, dimensions={0}",
            before=LESS,
        ),
    ),
    (
        "layer norm of rows",
        8,
        _entry(
            "x = f32[512,512] parameter(0)",
            "z = f32[] constant(0)",
            "n = f32[] constant(0.001953125)",
            "ns = f32[512] broadcast(n), dimensions={}",
            "s = f32[512] reduce(x, z), dimensions={1}, to_apply=add",
            "m = f32[512] multiply(s, ns)",
            "b = f32[512,512] broadcast(m), dimensions={0}",
            "d = f32[512,512] subtract(x, b)",
            "q = f32[512,512] multiply(d, d)",
            "v = f32[512] reduce(q, z), dimensions={1}, to_apply=add",
            "w = f32[512] multiply(v, ns)",
            "r = f32[512] rsqrt(w)",
            "c = f32[512,512] broadcast(r), dimensions={0}",
            "ROOT y = f32[512,512] multiply(d, c)",
            before=ADD,
        ),
    ),
    (
        "gradients of three layers",
        2,
        _entry(
            "x = f32[128,768] parameter(0)",
            "w = f32[768,768] parameter(1)",
            f"h = f32[128,768] dot(x, w), {DOT}",
            "t = f32[128,768] logistic(h)",
            f"k = f32[128,768] dot(t, w), {DOT}",
            "e = f32[128,768] exponential(k)",
            "g = f32[768,768] dot(t, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            "r = f32[384,768] reduce-scatter(g), replica_groups={}, dimensions={0}, to_apply=add",
            "ROOT a = f32[768,768] all-gather(r), replica_groups={}, dimensions={0}",
            before=ADD,
        ),
    ),
    (
        "stencil in a ring",
        4,
        loop(
            "f32[256,512]",
            20,
            [
                "top = f32[1,512] slice(x), slice={[0:1], [0:512]}",
                "last = f32[1,512] slice(x), slice={[255:256], [0:512]}",
                "below = f32[1,512] collective-permute(top), source_target_pairs={{1,0},{2,1},{3,2},{0,3}}",
                "above = f32[1,512] collective-permute(last), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}",
                "e = f32[258,512] concatenate(above, x, below), dimensions={0}",
                "u = f32[256,512] slice(e), slice={[0:256], [0:512]}",
                "v = f32[256,512] slice(e), slice={[2:258], [0:512]}",
                "p = f32[256,512] add(u, v)",
                "half = f32[] constant(0.5)",
                "halves = f32[256,512] broadcast(half), dimensions={}",
                "y = f32[256,512] multiply(p, halves)",
            ],
        ),
    ),
    (
        "convolution with many channels",
        2,
        _entry(
            "x = f32[2,28,28,128] parameter(0)",
            "k = f32[3,3,128,128] parameter(1)",
            "c = f32[2,28,28,128] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
            "ROOT t = f32[2,28,28,128] tanh(c)",
        ),
    ),
    (
        "power of all, sum of all",
        8,
        _entry(
            "x = f32[65536] parameter(0)",
            "a = f32[65536] abs(x)",
            "t = f32[] constant(1.7)",
            "ts = f32[65536] broadcast(t), dimensions={}",
            "p = f32[65536] power(a, ts)",
            "z = f32[] constant(0)",
            "s = f32[] reduce(p, z), dimensions={0}, to_apply=add",
            "ROOT r = f32[] all-reduce(s), replica_groups={}, to_apply=add",
            before=ADD,
        ),
    ),
    (
        "transposed copy of a large matrix",
        2,
        _entry("x = f32[1536,1536] parameter(0)", "ROOT t = f32[1536,1536] transpose(x), dimensions={1,0}"),
    ),
    (
        "product of f64 in pairs",
        4,
        _entry(
            "x = f64[256,256] parameter(0)",
            "w = f64[256,256] parameter(1)",
            f"d = f64[256,256] dot(x, w), {DOT}",
            "g = f64[512,256] all-gather(d), replica_groups={{0,1},{2,3}}, dimensions={0}",
            f"ROOT e = f64[512,256] dot(g, w), {DOT}",
        ),
    ),
]

SETS = {"first": FIRST, "second": SECOND}

"""The cost of modules, compared with numbers computed by hand and with XLA's own."""

from __future__ import annotations

import jax
import pytest
from jax._src.lib import xla_client

from tests.xla_reference import parse
from xlapy.analysis.cost import Cost, module_cost
from xlapy.text import parse_hlo

CALLED = """
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
greater { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
power { a = f32[] parameter(0)
  e = f32[] exponential(a)
  ROOT r = f32[] add(e, a) }
chain { x = f32[8,16] parameter(0)
  e = f32[8,16] exponential(x)
  ROOT r = f32[8,16] add(e, x) }
twice { x = f32[8,16] parameter(0)
  ROOT r = f32[8,16] add(x, x) }
part { x = f32[8,16] parameter(0)
  s = f32[1,16] slice(x), slice={[2:3],[0:16]}
  ROOT r = f32[1,16] negate(s) }
never { x = f32[8,16] parameter(0)
  ROOT r = pred[] constant(false) }
"""
X = "x = f32[8,16] parameter(0)"
Y = "y = f32[8,16] parameter(1)"
Z = "z = f32[] parameter(2)"


def module(line: str) -> str:
    entry = "\n  ".join([X, Y, Z, "c = c64[8,16] parameter(3)", "i = s32[3] parameter(4)", "u = f32[3,16] parameter(5)",
                         "n = s32[] parameter(6)", "p = pred[] parameter(7)", "v = f32[4,16] parameter(8)",
                         "q = pred[8,16] parameter(9)", "w = f32[16,4] parameter(10)", "s = f32[8,8] parameter(11)",
                         f"ROOT r = {line}"])  # fmt: skip
    return f"HloModule m\n{CALLED}\nENTRY main {{\n  {entry}\n}}\n"


# line, flops, transcendentals, bytes
COSTS = [
    ("f32[8,16] negate(x)", 128, 0, 1024),
    ("f32[8,16] tanh(x)", 0, 128, 1024),
    ("f32[8,16] multiply(x, y)", 128, 0, 1536),
    ("f32[8,16] power(x, y)", 0, 128, 1536),
    ("pred[8,16] compare(x, y), direction=LT", 128, 0, 1152),
    ("f32[8,16] select(q, x, y)", 128, 0, 1664),
    ("f64[8,16] convert(x)", 128, 0, 1536),
    ("c64[8,16] multiply(c, c)", 128, 0, 3072),
    ("f32[16,8] transpose(x), dimensions={1,0}", 0, 0, 1024),
    ("f32[3,8,16] broadcast(x), dimensions={1,2}", 0, 0, 2048),
    ("f32[2,16] slice(x), slice={[0:2],[0:16]}", 0, 0, 256),
    ("f32[16,16] concatenate(x, y), dimensions={0}", 0, 0, 2048),
    ("f32[9,16] pad(x, z), padding=1_0x0_0", 0, 0, 1092),
    ("f32[128] bitcast(x)", 0, 0, 0),
    ("f32[8,16] iota(), iota_dimension=0", 0, 0, 512),
    ("f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 2 * 8 * 16 * 4, 0, 512 + 256 + 128),
    ("f32[8] reduce(x, z), dimensions={1}, to_apply=plus", 120, 0, 548),
    ("f32[7,16] reduce-window(x, z), window={size=2x1}, to_apply=plus", 112, 0, 964),
    ("f32[8,16] select-and-scatter(x, v, z), window={size=2x1 stride=2x1}, select=greater, scatter=plus", 128, 0, 1284),
    ("f32[8,16] map(x), dimensions={0,1}, to_apply=power", 128, 128, 1024),
    ("f32[3,16] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
     "slice_sizes={1,16}", 0, 0, 396),
    ("f32[8,16] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
     "index_vector_dim=1, to_apply=plus", 48, 0, 588),
    ("f32[8,16] sort(x), dimensions={1}, to_apply=greater", 128 * 7, 0, 1024),
    ("f32[8,8] cholesky(s), lower=true", 64 * 8 // 3, 0, 256),
    ("f32[8,16] triangular-solve(s, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", 128 * 8 * 2, 0, 1152),
    ("c64[8,16] fft(c), fft_type=FFT, fft_length={16}", 2 * 4 * 128 * 4, 0, 2048),
    ("f32[8,16] rng(z, z), distribution=rng_uniform", 0, 128, 520),
    ("f32[8,16] all-reduce(x), replica_groups={}, to_apply=plus", 128, 0, 1024),
    ("f32[16,16] all-gather(x), replica_groups={{0,1}}, dimensions={0}", 0, 0, 1536),
    ("f32[8,16] call(x), to_apply=chain", 128, 128, 1024 + 1536),
    ("f32[8,16] while(x), condition=never, body=chain", 128, 128, 1024 + 1536),
    ("f32[8,16] conditional(p, x, y), true_computation=twice, false_computation=chain", 128, 128, 1024 + 1536),
    ("f32[8,16] fusion(x), kind=kLoop, calls=chain", 128, 128, 1024),
    ("f32[1,16] fusion(x), kind=kLoop, calls=part", 16, 0, 128),
]  # fmt: skip
OURS = [
    ("f32[2,16] dynamic-slice(x, n, n), dynamic_slice_sizes={2,16}", 0, 0, 128 + 8 + 128),
    ("f32[8,16] dynamic-update-slice(x, v, n, n)", 0, 0, 256 + 8 + 256),
    ("c64[8,16] fft(c), fft_type=FFT, fft_length={8,16}", 2 * 4 * 128 * (3 + 4), 0, 2048),
    ("(f32[8,16], f32[8,16]) tuple(x, y)", 0, 0, 0),
    ('f32[8,16] custom-call(x), custom_call_target="unknown"', 0, 0, 1024),
]
"""Instructions whose cost XLA counts differently, as the docstring of the module with the table says."""

CONVOLUTIONS = [
    ("a = f32[1,8,16,2] parameter(0)\n w = f32[3,3,2,5] parameter(1)\n ROOT r = f32[1,8,16,5] convolution(a, w), "
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", 2 * (8 * 3 - 2) * (16 * 3 - 2) * 2 * 5),
    ("a = f32[2,5,4] parameter(0)\n w = f32[3,2,6] parameter(1)\n ROOT r = f32[2,5,6] convolution(a, w), "
     "window={size=3 pad=1_1 lhs_dilate=1 rhs_dilate=1}, dim_labels=b0f_0io->b0f, feature_group_count=2",
     2 * 13 * 2 * 6 * 2),
    ("a = f32[1,3,1] parameter(0)\n w = f32[3,1,1] parameter(1)\n ROOT r = f32[1,5,1] convolution(a, w), "
     "window={size=3 pad=1_1 lhs_dilate=2}, dim_labels=b0f_0io->b0f", 2 * (1 + 2 + 1 + 2 + 1)),
]  # fmt: skip


def cost(text: str) -> Cost:
    return module_cost(parse_hlo(text))


def xla_cost(text: str) -> dict[str, float]:
    found = xla_client._xla.hlo_module_cost_analysis(jax.devices("cpu")[0].client, parse(text))
    return {name: found.get(name, 0) for name in ("flops", "transcendentals", "bytes accessed")}


@pytest.mark.parametrize(("line", "flops", "transcendentals", "size"), COSTS + OURS, ids=[c[0] for c in COSTS + OURS])
def test_by_hand(line: str, flops: int, transcendentals: int, size: int):
    found = cost(module(line))
    assert (found.flops, found.transcendentals, found.bytes_accessed) == (flops, transcendentals, size)


@pytest.mark.parametrize("line", [c[0] for c in COSTS])
def test_xla_counts_the_same(line: str):
    ours = cost(module(line)).properties()
    assert {name: ours[name] for name in ("flops", "transcendentals", "bytes accessed")} == xla_cost(module(line))


@pytest.mark.parametrize(("lines", "flops"), CONVOLUTIONS)
def test_convolutions_count_only_positions_within_the_input(lines: str, flops: int):
    text = f"HloModule m\nENTRY main {{\n {lines}\n}}\n"
    assert cost(text).flops == flops
    assert xla_cost(text)["flops"] == flops


def test_names_and_parts():
    found = cost(module("f32[8] reduce(x, z), dimensions={1}, to_apply=plus")).properties()
    assert found == {
        "flops": 120, "transcendentals": 0, "bytes accessed": 548, "bytes accessed0{}": 512, "bytes accessed1{}": 4,
        "bytes accessedout{}": 32,
    }  # fmt: skip


def test_instructions_add_up():
    assert Cost(1, 2, (3,), 4) + Cost(10, 20, (30, 5), 40) == Cost(11, 22, (33, 5), 44)

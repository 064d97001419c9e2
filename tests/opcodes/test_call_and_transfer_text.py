"""Text of control flow, collectives, transfers, random numbers, linear algebra, normalization and custom calls.

Every line is an instruction as XLA prints it; xlapy's text after parsing must equal jaxlib's.
"""

from __future__ import annotations

import pytest

from tests import xla_reference
from xlapy.text import parse_hlo, print_module

PREFIX = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
same { ROOT a = f32[4] parameter(0) }
twice { a = f32[4] parameter(0) b = f32[4] parameter(1) ROOT c = f32[4] add(a, b) }
go_on { a = f32[4] parameter(0) ROOT b = pred[] constant(false) }
on_host { a = f32[4] parameter(0) b = f32[4] negate(a) ROOT c = f32[4] negate(b) }, execution_thread="host"
ENTRY e {
  p = f32[4] parameter(0)
  k = token[] parameter(1)
  n = s32[] parameter(2)
  t = pred[] parameter(3)
  m = f32[2,2] parameter(4)
  c = c64[8] parameter(5)
  u = u64[2] parameter(6)
  i = s32[2] parameter(7)
  s = f32[] parameter(8)
  w = u32[4] parameter(9)
"""

LINES = [
    "x = f32[4] call(p, p), to_apply=twice",
    'x = f32[4] call(p), to_apply=same, is_composite=true, frontend_attributes={composite.name="n"}',
    "x = f32[4] while(p), condition=go_on, body=same",
    "x = f32[4] conditional(t, p, p), true_computation=same, false_computation=same",
    "x = f32[4] conditional(n, p, p, p), branch_computations={same, same, same}",
    "x = f32[4] fusion(p), kind=kLoop, calls=same, output_to_operand_aliasing={{}: (0, {})}",
    "x = f32[4] opt-barrier(p)",
    "x = token[] after-all(k, k)",
    "x = token[] after-all()",
    "x = f32[4] add-dependency(p, k)",
    'x = f32[4] domain(p), domain={kind="sharding", entry={maximal device=0}, exit={devices=[2]0,1}}',
    'x = f32[4] domain(p), domain={exit={replicated}, kind="sharding", entry={devices=[2]<=[2]}}',
    'x = ((f32[4]), f32[4], u32[]) async-start(p), calls=on_host, async_execution_thread="host", '
    "output_to_operand_aliasing={{1}: (0, {})}",
    "x = (f32[4], (s32[], token[])) tuple(p, y)",
    "x = f32[4] all-reduce(p), channel_id=1, replica_groups={{0,1}}, constrain_layout=true, "
    "use_global_device_ids=true, to_apply=add",
    "x = f32[4] all-reduce(p), to_apply=add, mode=cross_replica",
    "x = f32[4] all-reduce(p), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=add",
    "x = f32[4] all-reduce-start(p), replica_groups=mesh['a'=2,'b'=4] {'b'}, to_apply=add",
    "x = f32[8] all-gather(p), dimensions={0}, replica_groups={{0,1}}, use_global_device_ids=true, channel_id=3",
    "x = (f32[4], f32[8]) all-gather-start(p), dimensions={0}, replica_groups={}",
    "x = f32[2] reduce-scatter(p), dimensions={0}, to_apply=add, replica_groups={{0,1}}",
    "x = f32[4] all-to-all(p), dimensions={0}, replica_groups={{0,1}}",
    "x = (f32[4], f32[4]) all-to-all(p, p), replica_groups={{0,1}}, constrain_layout=true",
    "x = f32[4] ragged-all-to-all(p, p, i, i, i, i), replica_groups={{0,1}}, dimensions={0}",
    "x = f32[4] collective-broadcast(p), replica_groups={{1,0}}, channel_id=2",
    "x = f32[4] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=0",
    "x = (f32[4], f32[4], u32[]) collective-permute-start(p), source_target_pairs={}",
    "x = u32[] replica-id()",
    "x = u32[] partition-id()",
    'x = (f32[4], token[]) infeed(k), infeed_config="a\\"b\\n"',
    'x = token[] outfeed(p, k), outfeed_config="c"',
    "x = token[] outfeed(m, k), outfeed_shape=f32[2,2]{0,1}",
    "x = (f32[4], u32[], token[]) send(p, k), channel_id=1, is_host_transfer=true",
    "x = (f32[4], u32[], token[]) recv(k), channel_id=2",
    "x = (f32[4], f32[4], u32[]) copy-start(p), cross_program_prefetch_index=0",
    "x = f32[3] rng(s, s), distribution=rng_uniform",
    "x = (u64[2], u32[5]) rng-bit-generator(u), algorithm=rng_three_fry",
    "x = u64[2] rng-get-and-update-state(), delta=7",
    "x = s8[4] stochastic-convert(p, w)",
    "x = f32[2,2] cholesky(m), lower=false",
    "x = f32[2,2] triangular-solve(m, m), unit_diagonal=true, lower=true, left_side=true, transpose_a=ADJOINT",
    "x = c64[8] fft(c), fft_type=IFFT, fft_length={8}",
    "x = (f32[4], f32[4], f32[4]) batch-norm-training(p, p, p), epsilon=1e-5, feature_index=0",
    'x = f32[4] custom-call(p), custom_call_target="f"',
    'x = f32[4] custom-call(p), custom_call_target="f", to_apply=same, operand_precision={default}, window={}',
    'x = f32[4] custom-call(), custom_call_target="f", operand_layout_constraints={}',
    'x = f32[4] custom-call(p, m), custom_call_target="f", operand_layout_constraints={f32[4]{0}, f32[2,2]{0,1}}',
    'x = f32[4] custom-call(p), custom_call_target="f", literal=f32[2,2]{1,0} {{1,2},{3,4}}',
    'x = f32[4] custom-call(p), custom_call_target="f", schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, '
    'backend_config={"x": 1}, padding_type=PADDING_SAME, literal=s32[2]{0} {1,2}, window={size=2}, '
    "operand_precision={high}, feature_group_count=2, called_computations={add, same}, batch_group_count=3, "
    "output_to_operand_aliasing={{}: (0, {})}, custom_call_has_side_effect=true, dim_labels=b0f_0io->b0f",
]


def module(line: str) -> str:
    before = "  y = (s32[], token[]) tuple(n, k)\n" if "y)" in line else ""
    return f"{PREFIX}{before}  ROOT {line}\n}}\n"


@pytest.mark.parametrize("line", LINES)
def test_prints_as_jaxlib_does(line: str) -> None:
    parsed = parse_hlo(module(line), verify=False)  # one half of an asynchronous pair, without the other
    printed = print_module(parsed)
    assert printed == xla_reference.parse_and_print(module(line))
    assert print_module(parse_hlo(printed, verify=False)) == printed


CHAINS = [
    "s = (f32[4], u32[], token[]) send(p, k), channel_id=1\n  ROOT x = token[] send-done(s), channel_id=1",
    "s = (f32[4], u32[], token[]) recv(k), channel_id=1, is_host_transfer=true\n"
    "  ROOT x = (f32[4], token[]) recv-done(s), channel_id=1, is_host_transfer=true",
    "s = (f32[4], f32[4], u32[]) copy-start(p)\n  ROOT x = f32[4] copy-done(s)",
    "s = f32[4] all-reduce-start(p), to_apply=add\n  ROOT x = f32[4] all-reduce-done(s)",
    "s = (f32[4], f32[8]) all-gather-start(p), dimensions={0}\n  ROOT x = f32[8] all-gather-done(s)",
    "s = (f32[4], f32[4]) collective-permute-start(p), source_target_pairs={{0,1}}\n"
    "  ROOT x = f32[4] collective-permute-done(s)",
    'a = ((f32[4]), f32[4], u32[]) async-start(p), calls=on_host, async_execution_thread="host"\n'
    "  b = ((f32[4]), f32[4], u32[]) async-update(a), calls=on_host\n"
    '  ROOT x = f32[4] async-done(b), async_execution_thread="host"',
]


@pytest.mark.parametrize("lines", CHAINS)
def test_chains_print_as_jaxlib_does(lines: str) -> None:
    text = (PREFIX + "  " + lines + "\n}\n").replace("  s = f32[] parameter(8)\n", "  o = f32[] parameter(8)\n")
    printed = print_module(parse_hlo(text, verify=True))
    assert printed == xla_reference.parse_and_print(text)
    assert print_module(parse_hlo(printed)) == printed

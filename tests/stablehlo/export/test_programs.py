"""The text of exported programs: signatures, annotations, functions, regions and constants."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import arguments_of, run, run_with_xla
from tests.stablehlo.text.comparison import same
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo.text import parse_text
from xlapy.stablehlo.text.custom_printers import CUSTOM_PRINTERS as PRINTED
from xlapy.stablehlo.text.printer import print_text
from xlapy.testing.comparison import assert_close
from xlapy.testing.stablehlo.forms import FORMS
from xlapy.testing.stablehlo.programs import PROGRAMS

TAKEN = [name for name in PROGRAMS if not name.startswith("functions of")][::3]


def function_line(text: str, name: str = "@main") -> str:
    return next(line.strip() for line in text.splitlines() if f"{name}(" in line and "func.func" in line)


@pytest.mark.parametrize("name", FORMS)
def test_printed_programs_parse_to_the_same_objects(name: str) -> None:
    module = parse_text(FORMS[name])
    for forms in (PRINTED, {}):
        text = print_text(module, forms)
        assert same(module, parse_text(text)) == "", text


@pytest.mark.parametrize("name", TAKEN)
def test_xla_runs_exported_programs(name: str) -> None:
    module = xlapy.parse_stablehlo(PROGRAMS[name])
    arguments = arguments_of(module)
    text = module.to_stablehlo()
    assert_close(run_with_xla(text, *arguments), run_with_xla(PROGRAMS[name], *arguments), rule="bits")


def test_a_jax_program_survives_the_round_trip() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        h = jax.nn.softmax(jnp.tanh(x @ w), axis=-1)
        return jax.lax.fori_loop(0, 3, lambda i, s: s * 0.5 + h.sum() * i, 0.0) + jnp.sort(h, axis=0)[0, 0]

    w, x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.ones((2, 3), np.float32)
    text = jax.jit(jax.value_and_grad(loss)).lower(w, x).as_text(debug_info=True)
    module = xlapy.parse_stablehlo(text)
    again = module.to_stablehlo()
    assert_close(run(again, w, x), run(text, w, x), rule="bits")
    assert_close(run_with_xla(again, w, x), run_with_xla(text, w, x), rule="bits")
    # The names of operations and the user's source lines are preserved.
    metadata = [i.metadata for i in xlapy.parse_stablehlo(again).instructions() if i.op.name == "tanh"]
    assert metadata == [i.metadata for i in module.instructions() if i.op.name == "tanh"] and metadata
    assert "loc(" not in module.to_stablehlo(locations=False)


SIGNED = """
HloModule signed, replica_count=2, num_partitions=2, input_output_alias={ {1}: (0, {1}, may-alias) }, \
buffer_donor={ (1, {}) }, frontend_attributes={who="me"}, \
entry_computation_layout={((f32[2,3]{0,1}, s32[4]{0}), f32[4]{0:S(5)})->(f32[4]{0}, s32[4]{0})}
ENTRY main {
  p = (f32[2,3]{0,1}, s32[4]) parameter(0), sharding={{devices=[2,1]0,1}, {replicated}}
  q = f32[4]{0:S(5)} parameter(1), frontend_attributes={kind="bias"}
  i = s32[4] get-tuple-element(p), index=1
  c = f32[4] convert(i), sharding={replicated}
  s = f32[4] exponential(c), result_accuracy={tolerance={atol=0,rtol=0,ulps=2}}, metadata={op_name="jit(f)/exp"}
  a = f32[4] add(s, q), frontend_attributes={b="2",a="1"}
  ROOT r = (f32[4], s32[4]) tuple(a, i)
}
"""


def test_signature_attributes_of_the_entry() -> None:
    text = xlapy.parse_hlo(SIGNED).to_stablehlo()
    head = function_line(text)
    assert text.startswith(
        'module @signed attributes {mhlo.frontend_attributes = {who = "me"}, mhlo.num_partitions = 2 : i32, '
        "mhlo.num_replicas = 2 : i32} {"
    )
    assert '%p.0: tensor<2x3xf32> {mhlo.layout_mode = "{0,1}", mhlo.sharding = "{devices=[2,1]0,1}"}' in head
    assert '%p.1: tensor<4xi32> {mhlo.sharding = "{replicated}", tf.aliasing_output = 1 : i32}' in head
    assert (
        '%q: tensor<4xf32> {jax.buffer_donor = true, mhlo.frontend_attributes = {kind = "bias"}, '
        'mhlo.memory_kind = "pinned_host"}'
    ) in head
    assert '%c = stablehlo.convert %p.1 {mhlo.sharding = "{replicated}"} : (tensor<4xi32>) -> tensor<4xf32>' in text
    assert "#stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>" in text
    assert '%a = stablehlo.add %s, %q {mhlo.frontend_attributes = {a = "1", b = "2"}} : tensor<4xf32>' in text
    assert '= loc("jit(f)/exp")' in text
    again = xlapy.parse_stablehlo(text)
    assert again.config.input_output_alias[0].output_index == (1,)
    assert again.config.replica_count == again.config.num_partitions == 2


def test_tuples_are_flattened() -> None:
    text = xlapy.parse_hlo("""
        HloModule loops
        body { t = (s32[], (f32[2], token[])) parameter(0)
          i = s32[] get-tuple-element(t), index=0
          u = (f32[2], token[]) get-tuple-element(t), index=1
          j = s32[] add(i, i)
          ROOT r = (s32[], (f32[2], token[])) tuple(j, u) }
        cond { t = (s32[], (f32[2], token[])) parameter(0)
          i = s32[] get-tuple-element(t), index=0
          c = s32[] constant(9)
          ROOT l = pred[] compare(i, c), direction=LT }
        ENTRY main { first = s32[] constant(1)
          x = f32[2] parameter(0)
          k = token[] after-all()
          pair = (f32[2], token[]) tuple(x, k)
          state = (s32[], (f32[2], token[])) tuple(first, pair)
          w = (s32[], (f32[2], token[])) while(state), condition=cond, body=body
          v = (f32[2], token[]) get-tuple-element(w), index=1
          ROOT y = f32[2] get-tuple-element(v), index=0 }
    """).to_stablehlo()
    assert re.search(r"%w:3 = stablehlo.while\(%\S+ = %first, %\S+ = %x, %\S+ = %k\)", text)
    assert "return %w#1 : tensor<2xf32>" in text
    np.testing.assert_array_equal(run(text, np.array([1, 2], np.float32)), [1, 2])


def test_fusions_are_inlined_and_calls_become_functions() -> None:
    text = xlapy.parse_hlo("""
        HloModule parts
        inside { a = f32[2] parameter(0)
          ROOT n = f32[2] negate(a) }
        called { a = f32[2] parameter(0)
          ROOT s = f32[2] sine(a) }
        ENTRY e { x = f32[2] parameter(0)
          f = f32[2] fusion(x), kind=kLoop, calls=inside
          c = f32[2] call(f), to_apply=called
          ROOT d = f32[2] call(c), to_apply=called }
    """).to_stablehlo()
    assert "%n = stablehlo.negate %x : tensor<2xf32>" in text
    assert "%d = func.call @called(%c) : (tensor<2xf32>) -> tensor<2xf32>" in text
    assert text.count("func.func") == 2


def test_composites_keep_their_names() -> None:
    source = """
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.composite "my.op" %x {composite_attributes = {k = 3 : i64, s = "t"}, decomposition = @impl,
          version = 2 : i32} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>
      }
      func.func private @impl(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = stablehlo.negate %x : tensor<2xf32>
        return %0 : tensor<2xf32>
      }"""
    text = xlapy.parse_stablehlo(source).to_stablehlo()
    assert (
        'stablehlo.composite "my.op" %x {composite_attributes = {k = 3 : i64, s = "t"}, decomposition = @impl, '
        "version = 2 : i32} : (tensor<2xf32>) -> tensor<2xf32>"
    ) in text
    np.testing.assert_array_equal(run(text, np.array([1, 2], np.float32)), [-1, -2])


def test_custom_calls_keep_all_attributes() -> None:
    text = xlapy.parse_hlo("""
        HloModule calls
        helper { ROOT a = f32[] parameter(0) }
        ENTRY e { t = (f32[2,3]{1,0}, s32[]) parameter(0)
          ROOT c = (f32[2,3]{0,1}, s32[]) custom-call(t), custom_call_target="do it", to_apply=helper,
            operand_layout_constraints={(f32[2,3]{1,0}, s32[])}, custom_call_has_side_effect=true,
            output_to_operand_aliasing={{1}: (0, {1})}, api_version=API_VERSION_TYPED_FFI,
            backend_config={k = 1 : i64} }
    """).to_stablehlo()
    call = next(line for line in text.splitlines() if "custom_call" in line)
    for said in (
        '%c:2 = stablehlo.custom_call @"do it"(%t.0, %t.1)',
        "api_version = 4 : i32, backend_config = {k = 1 : i64}, called_computations = [@helper], "
        "has_side_effect = true",
        "operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<> : tensor<0xindex>]",
        "output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 1, "
        "operand_tuple_indices = []>]",
        "result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]",
    ):
        assert said in call


def test_infeed_keeps_the_layouts_of_its_arrays() -> None:
    text = xlapy.parse_hlo("""
        HloModule feeds
        ENTRY e { k = token[] after-all()
          i = ((f32[2,3]{0,1}, s32[4]{0}), token[]) infeed(k), infeed_config="c"
          d = (f32[2,3]{0,1}, s32[4]{0}) get-tuple-element(i), index=0
          ROOT x = f32[2,3]{0,1} get-tuple-element(d), index=0 }
    """).to_stablehlo()
    assert 'infeed_config = "c", layout = [[0 : i64, 1 : i64], [0 : i64]]' in text
    (infeed,) = [i for i in xlapy.parse_stablehlo(text).instructions() if i.op.name == "infeed"]
    assert infeed.shape.tuple_shapes[0].tuple_shapes[0].to_text() == "f32[2,3]{0,1}"


def test_results_have_the_shardings_of_the_root() -> None:
    text = xlapy.parse_hlo("""
        HloModule cut, num_partitions=2
        ENTRY e { x = f32[4] parameter(0)
          n = f32[4] negate(x)
          ROOT t = (f32[4], f32[4]) tuple(x, n), sharding={{devices=[2]0,1}, {replicated}} }
    """).to_stablehlo()
    assert (
        '-> (tensor<4xf32> {mhlo.sharding = "{devices=[2]0,1}"}, tensor<4xf32> {mhlo.sharding = "{replicated}"})'
        in text
    )


def test_dynamic_sizes_have_bounds() -> None:
    text = xlapy.parse_hlo("""
        HloModule dynamic
        ENTRY e { x = f32[4,3] parameter(0)
          n = s32[] parameter(1)
          d = f32[<=4,3] set-dimension-size(x, n), dimensions={0}
          ROOT a = f32[<=4,3] abs(d) }
    """).to_stablehlo()
    assert "stablehlo.abs %d : tensor<?x3xf32, #stablehlo.bounds<4, ?>>" in text


def nested(depth: int, inner: str) -> str:
    """Returns a module with nested computations, each of which uses the next through `inner` with its number."""
    lines = ["HloModule deep", "f0 { ROOT a = f32[] parameter(0) }"]
    for number in range(1, depth + 1):
        body = inner.format(number - 1)
        lines.append(
            f"f{number} {{ x{number} = f32[] parameter(0)\n ROOT r{number} = {body.replace('%x', f'x{number}')} }}"
        )
    return "\n".join([*lines, f"ENTRY e {{ x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f{depth} }}"])


def test_calls_may_nest_to_any_depth() -> None:
    text = xlapy.parse_hlo(nested(600, "f32[] call(%x), to_apply=f{}")).to_stablehlo()
    assert text.count("func.func private") == 601


def test_the_nesting_depth_of_regions_is_limited() -> None:
    branch = "f32[] conditional(c, %x), branch_computations={{f{}}}"
    deep = nested(90, branch).replace("\n ROOT", "\n c = s32[] constant(0)\n ROOT")
    assert xlapy.parse_hlo(deep).to_stablehlo().count("stablehlo.case") == 90
    deeper = nested(300, branch).replace("\n ROOT", "\n c = s32[] constant(0)\n ROOT")
    with raises(UnsupportedError, codes.EXPORTED_SIZE, "100"):
        xlapy.parse_hlo(deeper).to_stablehlo()


@pytest.mark.parametrize(
    ("line", "code", "values"),
    [
        ("s = u64[2] rng-get-and-update-state(), delta=1", codes.EXPORTED_OPERATION, ("rng-get-and-update-state",)),
        ("s = f16[4] stochastic-convert(x, y)", codes.EXPORTED_OPERATION, ("stochastic-convert",)),
        ("s = s1[4] convert(x)", codes.EXPORTED_TYPE, ("s1",)),
        ("s = u1[4] parameter(2)", codes.EXPORTED_TYPE, ("u1",)),
    ],
)
def test_inexpressible_programs_are_rejected(line: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    module = xlapy.parse_hlo(
        f"HloModule m\nENTRY e {{ x = f32[4] parameter(0)\n y = u32[4] parameter(1)\n ROOT {line} }}"
    )
    with raises(UnsupportedError, code, *values) as caught:
        module.to_stablehlo()
    assert str(caught.value).startswith("s (")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("f32[2] constant({nan, -inf})", "dense<[0x7FC00000, 0xFF800000]> : tensor<2xf32>"),
        ("f32[2] constant({1e-8, 0.1})", "dense<[1.0e-08, 0.1]> : tensor<2xf32>"),
        ("f64[2] constant({0.1, 1e300})", "dense<[0.1, 1.0e+300]> : tensor<2xf64>"),
        ("bf16[3] constant({1, 1, 1})", "dense<1.0> : tensor<3xbf16>"),
        ("pred[2] constant({true, false})", "dense<[true, false]> : tensor<2xi1>"),
        ("c64[1,2] constant({{(1, -2), (0.5, 0)}})", "dense<[[(1.0,-2.0), (0.5,0.0)]]> : tensor<1x2xcomplex<f32>>"),
        ("u8[2] constant({255, 0})", "dense<[255, 0]> : tensor<2xui8>"),
        ("f32[0,2] constant({})", "dense<> : tensor<0x2xf32>"),
    ],
)
def test_constants(value: str, text: str) -> None:
    module = xlapy.parse_hlo(f"HloModule m\nENTRY e {{ ROOT c = {value} }}")
    assert f"stablehlo.constant {text}" in module.to_stablehlo()
    assert_close(run(module.to_stablehlo()), np.asarray(module.entry_computation.root_instruction.literal), rule="bits")


def test_large_constants_are_printed_as_bytes() -> None:
    values = ", ".join(str(number) for number in range(200))
    text = xlapy.parse_hlo(f"HloModule m\nENTRY e {{ ROOT c = s16[200] constant({{{values}}}) }}").to_stablehlo()
    assert 'dense<"0x000001000200' in text
    np.testing.assert_array_equal(run(text), np.arange(200))

"""jaxlib reads the portable artifacts that xlapy writes as the program that it has written itself."""

from __future__ import annotations

import dataclasses

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

from tests.raising import raises
from tests.stablehlo.bytecode.artifacts import artifact, text_of
from xlapy.base.element_types import F32
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import read_bytecode, write_bytecode

BODIES = {
    "constants": """%0 = stablehlo.constant dense<[1, -2]> : tensor<2xi4>
      %1 = stablehlo.constant dense<true> : tensor<9xi1>
      %2 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
      %3 = stablehlo.constant dense<(1.0, -2.0)> : tensor<2xcomplex<f64>>
      %4 = stablehlo.constant dense<[0.5, -1.5]> : tensor<2xf4E2M1FN>
      %5 = stablehlo.constant dense<[0.5, 448.0]> : tensor<2xf8E4M3FN>
      %6 = stablehlo.constant dense<> : tensor<0x2xui64>
      %7 = stablehlo.constant dense<3> : tensor<1000x1000xui2>""",
    "defaults": """%0 = "stablehlo.compare"(%a, %a) <{comparison_direction = #stablehlo<comparison_direction NE>}>
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %1 = stablehlo.exponential %a : tensor<4xf32>
      %2 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
      %3 = stablehlo.custom_call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
      %4 = stablehlo.custom_call @g(%a) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>""",
    "algorithm": """%0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0],
      algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32,
      lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
      allow_imprecise_accumulation = false> : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>""",
    "window": """%z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32> }) : (tensor<4xf32>, tensor<f32>) -> tensor<3xf32>""",
    "transfers": """%t = stablehlo.create_token : !stablehlo.token
      %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
        is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
      %1:2 = "stablehlo.infeed"(%t) <{infeed_config = "x"}> : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
      %2 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<4xf32>) -> tensor<4xf32>""",
    "quantized": """%0 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:3>>
      %1 = stablehlo.uniform_quantize %a
        : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32:0, {0.5:1, 1.0:2, 2.0, 4.0}>>""",
    "branches": """%i = stablehlo.constant dense<1> : tensor<i32>
      %0 = "stablehlo.case"(%i) ({ stablehlo.return %a : tensor<4xf32> }, {
        %n = stablehlo.negate %a : tensor<4xf32>
        stablehlo.return %n : tensor<4xf32> }) : (tensor<i32>) -> tensor<4xf32>""",
}


@pytest.mark.parametrize("name", BODIES)
def test_jaxlib_reads_the_output_of_xlapy(name: str) -> None:
    text = f"""module @m attributes {{mhlo.num_replicas = 2 : i32, jax.flag = true, jax.note = "a"}} {{
      func.func public @main(%a: tensor<4xf32> {{mhlo.sharding = "{{replicated}}", tf.aliasing_output = 0 : i32}}) {{
        {BODIES[name]}
        return }} }}"""
    theirs = artifact(text)
    assert text_of(write_bytecode(read_bytecode(theirs))) == text_of(theirs)


def test_a_jax_program_runs_after_it_was_written() -> None:
    def step(x: jax.Array, n: jax.Array) -> jax.Array:
        y = jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sort(jnp.sin(c[1]))), (0, x))[1]
        return jax.lax.cond(n > 2, lambda: y @ y.T, lambda: x @ x.T)[::2]

    x, n = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.int32(3)
    exported = jax.export.export(jax.jit(step))(x, n)
    written = write_bytecode(read_bytecode(exported.mlir_module_serialized))
    again = dataclasses.replace(exported, mlir_module_serialized=written)
    np.testing.assert_array_equal(np.asarray(again.call(x, n)), np.asarray(jax.jit(step)(x, n)))


def test_names_files_and_callers_are_kept() -> None:
    text = """func.func @main(%x: tensor<f32> loc("x")) -> tensor<f32> {
      %0 = stablehlo.sine %x : tensor<f32> loc("jit(f)/sin"(callsite("f"("a.py":3:4) at
        callsite("g"("b.py":7:1) at "main"("c.py":9:2)))))
      return %0 : tensor<f32> }"""
    theirs = artifact(text)
    ours = read_bytecode(write_bytecode(read_bytecode(theirs)))
    sine = next(operation for operation in ir.walk(ours) if operation.name == "stablehlo.sine")
    assert (sine.location.names, sine.location.line) == (("jit(f)/sin", "f"), 3)
    assert [(caller.names, caller.line) for caller in sine.location.callers] == [(("g",), 7), (("main",), 9)]


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ("%0 = stablehlo.negate %a : tensor<4xf32>", "1.12.0"),
        ("%0 = stablehlo.custom_call @f(%b) : (memref<2xf32>) -> tensor<4xf32>", "1.13.0"),
        (
            """%0 = "stablehlo.async_start"(%a) ({ ^bb0(%x: tensor<4xf32>):
              %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}>
                : (tensor<4xf32>) -> tensor<4xf32>
              stablehlo.return %1 : tensor<4xf32> }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>""",
            "1.15.0",
        ),
    ],
)
def test_the_oldest_sufficient_version_is_written(body: str, version: str) -> None:
    text = f"func.func @main(%a: tensor<4xf32>, %b: memref<2xf32>) {{ {body}\n return }}"
    if version == "1.12.0":
        text = text.replace(", %b: memref<2xf32>", "")
    written = write_bytecode(read_bytecode(artifact(text)))
    assert written.startswith(b"ML\xefR\x0dStableHLO_v" + version.encode() + b"\0")
    assert stablehlo.get_current_version() >= version


def test_inexpressible_programs_are_rejected() -> None:
    with raises(InvalidArgumentError, codes.ARTIFACT_MODULE, "builtin.module", "func.func"):
        write_bytecode(ir.Operation("func.func"))
    block = ir.Block()
    module = ir.Operation("builtin.module", regions=[ir.Region([block])])
    block.operations = [ir.Operation("arith.addi")]
    with raises(UnsupportedError, codes.ARTIFACT_OPERATION, "arith.addi"):
        write_bytecode(module)
    operation = ir.Operation("stablehlo.iota")
    operation.results = [ir.Value(ir.TensorType((2,), F32), operation, 0)]
    block.operations = [operation]
    with raises(UnsupportedError, codes.ARTIFACT_ATTRIBUTE, "stablehlo.iota", "iota_dimension"):
        write_bytecode(module)

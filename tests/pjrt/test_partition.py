"""Partitioned programs: the shards that the devices compute are those of the whole program's result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlapy as xla
from tests.raising import raises
from tests.stablehlo.bytecode.artifacts import artifact, mixed_artifact
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.compile.program_loader import PartitionedProgram, load_program

MESH = 'sdy.mesh @mesh = <["x"=2, "y"=2]>'


def run_parts(intake: PartitionedProgram, parts: Sequence[Sequence[Any]]) -> list[Any]:
    """The result on each of four partitions."""
    executable = xla.Client("cpu", devices=4).compile(intake.module, 1, 4)
    return list(executable.execute_sharded(parts))


def quarters(array: Any) -> list[Any]:
    """The shards, by device, of an array that is split in two along each of two dimensions."""
    return [part for half in np.split(array, 2, axis=0) for part in np.split(half, 2, axis=1)]


def test_a_product_of_sharded_matrices() -> None:
    text = f"""module {{ {MESH}
      func.func public @main(%a: tensor<4x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}},
          %b: tensor<6x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}})
          -> (tensor<4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
        %0 = stablehlo.sine %a : tensor<4x6xf32>
        %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0]
          : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
        return %1 : tensor<4x8xf32> }} }}"""
    found = load_program(mixed_artifact(text), "mlir", 4)
    assert [str(sharding) for sharding in found.placement.parameter_shardings] == [
        "{devices=[2,2]<=[4]}",
        "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    ]
    assert [str(sharding) for sharding in found.placement.result_shardings] == [
        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
    ]
    a, b = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6), np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)
    halves = [np.split(b, 2)[device % 2] for device in range(4)]
    results = run_parts(found, list(zip(quarters(a), halves, strict=True)))
    expected = np.sin(a) @ b
    for device, result in enumerate(results):
        np.testing.assert_allclose(np.asarray(result), np.split(expected, 2)[device // 2], rtol=1e-5, atol=1e-6)


def test_a_manual_computation() -> None:
    text = f"""module {{ {MESH}
      func.func public @main(%a: tensor<4x4xf32>) -> tensor<2x4xf32> {{
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
          out_shardings=[<@mesh, [{{}}, {{"y"}}]>] manual_axes={{"x", "y"}} (%p: tensor<2x2xf32>) {{
          %1 = "stablehlo.all_reduce"(%p) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}}> ({{
            ^bb0(%l: tensor<f32>, %r: tensor<f32>):
              %2 = stablehlo.add %l, %r : tensor<f32>
              stablehlo.return %2 : tensor<f32> }}) : (tensor<2x2xf32>) -> tensor<2x2xf32>
          sdy.return %1 : tensor<2x2xf32>
        }} : (tensor<4x4xf32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32> }} }}"""
    found = load_program(mixed_artifact(text), "mlir", 4)
    whole = np.arange(16, dtype=np.float32).reshape(4, 4)
    results = run_parts(found, [[part] for part in quarters(whole)])
    expected = np.split(whole[:2] + whole[2:], 2, axis=1)
    for device, result in enumerate(results):
        np.testing.assert_array_equal(np.asarray(result), expected[device % 2])


def test_asynchronous_collectives_with_control_dependencies() -> None:
    """A manual computation may start a collective and use its result later; control dependencies change no value."""
    text = f"""module {{ {MESH}
      func.func public @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {{
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
          out_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>] manual_axes={{"x", "y"}} (%p: tensor<2x2xf32>) {{
          %1 = "stablehlo.async_start"(%p) ({{
            ^bb0(%q: tensor<2x2xf32>):
              %2 = "stablehlo.collective_permute"(%q) <{{
                channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
                source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}}>
                : (tensor<2x2xf32>) -> tensor<2x2xf32>
              stablehlo.return %2 : tensor<2x2xf32> }}) : (tensor<2x2xf32>) -> !stablehlo.future<tensor<2x2xf32>>
          %3 = stablehlo.negate %p : tensor<2x2xf32>
          stablehlo.custom_call @control_dep(%p, %3) {{has_side_effect = true}}
            : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
          %4 = "stablehlo.async_done"(%1) : (!stablehlo.future<tensor<2x2xf32>>) -> tensor<2x2xf32>
          %5 = stablehlo.add %3, %4 : tensor<2x2xf32>
          sdy.return %5 : tensor<2x2xf32>
        }} : (tensor<4x4xf32>) -> tensor<4x4xf32>
        return %0 : tensor<4x4xf32> }} }}"""
    found = load_program(text.encode(), "mlir", 4)
    parts = quarters(np.arange(16, dtype=np.float32).reshape(4, 4) ** 2)
    for device, result in enumerate(run_parts(found, [[part] for part in parts])):
        np.testing.assert_array_equal(np.asarray(result), parts[device ^ 1] - parts[device])


def test_programs_for_one_device() -> None:
    text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    found = load_program(artifact(text), "mlir")
    assert (found.placement.parameter_shardings, found.placement.result_shardings) == ((), ())
    assert [parameter.shape.to_text(layout=False) for parameter in found.module.entry_computation.parameters] == [
        "f32[2]"
    ]


def test_damaged_programs() -> None:
    with raises(InvalidArgumentError, codes.PROGRAM_TEXT):
        load_program(b"ML\xefR sdy", "mlir", 4)


def test_partial_sums() -> None:
    """Each device holds a partial sum; an identity operation does not change the sharding of its operand."""
    text = f"""module {{ {MESH}
      func.func @main(%a: tensor<4xi32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}})
          -> (tensor<4xi32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}], unreduced={{"x", "y"}}>}}) {{
        %0 = stablehlo.convert %a : tensor<4xi32>
        %1 = sdy.sharding_constraint %0 <@mesh, [{{}}], unreduced={{"x"}}> : tensor<4xi32>
        %2 = sdy.sharding_constraint %1 <@mesh, [{{"y"}}], unreduced={{"x"}}> : tensor<4xi32>
        %3 = sdy.sharding_constraint %2 <@mesh, [{{}}], unreduced={{"x", "y"}}> : tensor<4xi32>
        return %3 : tensor<4xi32> }} }}"""
    found = load_program(mixed_artifact(text), "mlir", 4)
    assert [str(sharding) for sharding in found.placement.parameter_shardings] == ["{replicated}"]
    assert [str(sharding) for sharding in found.placement.result_shardings] == [
        "{devices=[1,4]<=[4] last_tile_dims={unreduced}}"
    ]
    results = run_parts(found, [[np.arange(1, 5, dtype=np.int32)]] * 4)
    assert [np.asarray(result).tolist() for result in results] == [[1, 2, 0, 0], [0, 0, 3, 4], [0] * 4, [0] * 4]

"""Shardings over meshes: annotations, constraints and manual computations."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import run
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import stablehlo_operations as codes
from xlapy.base.error_codes.formats import stablehlo_text as mlir_codes
from xlapy.base.error_codes.structure import annotations as annotations_codes
from xlapy.base.errors import ParseError

PROGRAM = """
    module @m {
      sdy.mesh @mesh = <["x"=2, "y"=4]>
      func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y", ?}p1]>},
          %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y":(1)2}, {}], replicated={"y":(2)2}>})
          -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
        %0 = sdy.sharding_constraint %a <@mesh, [{}, {"y"}]> : tensor<8x16xf32>
        %1 = stablehlo.add %0, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}, {}]>]>} : tensor<8x16xf32>
        %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
            manual_axes={"x", "y"} (%p: tensor<4x4xf32>) {
          %3 = stablehlo.negate %p : tensor<4x4xf32>
          sdy.return %3 : tensor<4x4xf32>
        } : (tensor<8x16xf32>) -> tensor<8x16xf32>
        return %2 : tensor<8x16xf32>
      }
    }"""


def test_named_shardings() -> None:
    entry = xlapy.parse_stablehlo(PROGRAM).entry_computation
    mesh = "mesh['x'=2,'y'=4]"
    assert [str(p.sharding) for p in entry.parameters] == [
        f"{{{mesh}, [{{'x'}}, {{'y', ?}}]}}",
        f"{{{mesh}, [{{'x', 'y':(1)2}}, {{}}], replicated={{'y':(2)2}}}}",
    ]
    by_op = {i.op.name: str(i.sharding) for i in entry if i.op in (xlapy.opcodes.ADD, xlapy.opcodes.RESHAPE)}
    assert by_op == {"add": f"{{{mesh}, [{{'y'}}, {{}}]}}", "reshape": f"{{{mesh}, [{{}}, {{}}]}}"}


def test_constraints_and_manual_computations_become_custom_calls() -> None:
    entry = xlapy.parse_stablehlo(PROGRAM).entry_computation
    calls = [i for i in entry if i.op is xlapy.opcodes.CUSTOM_CALL]
    assert [(i.attributes.custom_call_target, i.shape.to_text(layout=False), str(i.sharding)) for i in calls] == [
        ("Sharding", "f32[8,16]", "{mesh['x'=2,'y'=4], [{}, {'y'}]}"),
        ("Sharding", "f32[8,16]", "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}"),
        ("SPMDFullToShardShape", "f32[4,4]", "{manual}"),
        ("Sharding", "f32[4,4]", "{manual}"),
        ("SPMDShardToFullShape", "f32[8,16]", "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}"),
    ]


def test_on_a_mesh_with_one_device_shards_are_full_arrays() -> None:
    text = PROGRAM.replace('["x"=2, "y"=4]', '["x"=1, "y"=1]').replace("tensor<4x4xf32>", "tensor<8x16xf32>")
    text = text.replace('"y":(1)2', '"y"').replace(', replicated={"y":(2)2}', "")
    a, b = np.ones((8, 16), np.float32), np.full((8, 16), 2, np.float32)
    np.testing.assert_array_equal(run(text, a, b), -(a + b))


@pytest.mark.parametrize(
    ("change", "code", "values"),
    [
        (("@mesh, [{}, {}]", "@other, [{}, {}]"), codes.SHARDING_MESH, ("@other",)),
        (('[{"y"}, {}]', '[{"y"}]'), annotations_codes.SHARDING_SHAPE, ("splits 1", "rank 2")),
        (("%p: tensor<4x4xf32>", "%p: tensor<4x4xi32>"), mlir_codes.VALUE_TYPE, ("%p", "stablehlo.negate")),
    ],
)
def test_invalid_shardings_are_rejected(change: tuple[str, str], code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(ParseError, code, *values):
        xlapy.parse_stablehlo(PROGRAM.replace(*change))

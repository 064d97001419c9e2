"""Imported programs that are not executed have the same instructions and attributes as jaxlib's conversion."""

from __future__ import annotations

from typing import Any

import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import hlo_of
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.hlo.instruction import Instruction
from xlapy.testing.stablehlo.programs import function

_SUM = """({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        })"""

PROGRAMS: dict[str, str] = {
    "collectives": function(
        "%x: tensor<4x8xf32>, %y: tensor<2xf32>",
        "tensor<8x8xf32>, tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, "
        "tensor<ui32>, tensor<ui32>, tensor<4x8xf32>",
        f"""%0 = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> :
          tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, use_global_device_ids}}> :
          (tensor<4x8xf32>) -> tensor<8x8xf32>
        %1 = "stablehlo.all_reduce"(%x) <{{replica_groups = dense<[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>}}> {_SUM}
          :          (tensor<4x8xf32>) -> tensor<4x8xf32>
        %2 = "stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> {_SUM} : (tensor<4x8xf32>) -> tensor<2x8xf32>
        %3 = "stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>}}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %4 = "stablehlo.all_to_all"(%x) <{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %5 = "stablehlo.collective_broadcast"(%x) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> :
          (tensor<4x8xf32>) -> tensor<4x8xf32>
        %6 = stablehlo.replica_id : tensor<ui32>
        %7 = stablehlo.partition_id : tensor<ui32>
        %8 = "stablehlo.all_reduce"(%x) <{{replica_groups = dense<> : tensor<0x0xi64>}}> {_SUM} :
          (tensor<4x8xf32>) -> tensor<4x8xf32>
        return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<8x8xf32>, tensor<4x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>,
          tensor<4x8xf32>, tensor<4x8xf32>, tensor<ui32>, tensor<ui32>, tensor<4x8xf32>""",
    ),
    "typed FFI as JAX writes it": function(
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        """%0 = stablehlo.custom_call @f(%x) {mhlo.backend_config = {index = 3 : ui64, name = "x"}} :
          (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>""",
    ),
    "transfers": function(
        "%x: tensor<2x3xf32>, %t: !stablehlo.token",
        "tensor<2x3xf32>, tensor<2xi32>, tensor<3xf32>, !stablehlo.token",
        """%0:3 = "stablehlo.infeed"(%t) <{infeed_config = "config", layout = [[0, 1], [0]]}> :
          (!stablehlo.token) -> (tensor<2x3xf32>, tensor<2xi32>, !stablehlo.token)
        %1 = "stablehlo.outfeed"(%x, %0#1, %0#2) <{outfeed_config = "other"}> :
          (tensor<2x3xf32>, tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
        %2 = "stablehlo.send"(%x, %1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>,
          is_host_transfer = true}> : (tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token
        %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>,
          is_host_transfer = true}> : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
        %4 = stablehlo.create_token : !stablehlo.token
        %5 = stablehlo.after_all %3#1, %4 : !stablehlo.token
        return %0#0, %0#1, %3#0, %5 : tensor<2x3xf32>, tensor<2xi32>, tensor<3xf32>, !stablehlo.token""",
    ),
    "custom calls": function(
        "%x: tensor<2x3xf32>, %y: tensor<4xi32>",
        "tensor<2x3xf32>, tensor<4xi32>, tensor<2x3xf32>",
        """stablehlo.custom_call @effect(%x) {has_side_effect = true, backend_config = "text \\"quoted\\""} :
          (tensor<2x3xf32>) -> ()
        %0:2 = stablehlo.custom_call @two(%x, %y) {api_version = 2 : i32, operand_layouts = [dense<[0, 1]> :
          tensor<2xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> :
          tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1],
          operand_index = 1, operand_tuple_indices = []>]} :
          (tensor<2x3xf32>, tensor<4xi32>) -> (tensor<2x3xf32>, tensor<4xi32>)
        %1 = stablehlo.custom_call @typed(%0#0) {api_version = 4 : i32, backend_config = {a = 1 : i64, b = "x",
          c = true, d = 2.5 : f32, e = array<i64: 1, 2>}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
        return %0#0, %0#1, %1 : tensor<2x3xf32>, tensor<4xi32>, tensor<2x3xf32>""",
    ),
    "annotations": function(
        '%x: tensor<4x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}',
        'tensor<4x8xf32> {mhlo.sharding = "{replicated}"}, tensor<4x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}',
        """%0 = stablehlo.add %x, %x {mhlo.sharding = "{devices=[1,2]<=[2]}",
          mhlo.frontend_attributes = {b = "2", a = "1"}} : tensor<4x8xf32>
        %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %2 = stablehlo.exponential %1 {result_accuracy = #stablehlo.result_accuracy<mode =
          #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4x8xf32>
        return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>""",
    ),
    "precision and algorithms": function(
        "%x: tensor<4x8xf32>",
        "tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>",
        """%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [HIGH, HIGHEST] :
          (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
        %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = bf16,
          rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
          num_primitive_operations = 3, allow_imprecise_accumulation = false> :
          (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
        %2 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32,
          rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
          num_primitive_operations = 1, allow_imprecise_accumulation = false> :
          (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
        return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>""",
    ),
}
_PLUMBING = frozenset({"parameter", "tuple", "get-tuple-element", "reshape"})


def _signatures(module: xlapy.Module) -> list[tuple[Any, ...]]:
    """Returns what is compared of each instruction: everything but names, order and metadata."""
    found = [_signature(i) for c in module.computations for i in c if i.op.name not in _PLUMBING]
    return sorted(found, key=str)


def _signature(i: Instruction) -> tuple[Any, ...]:
    notes = (i.sharding, i.frontend_attributes or {}, i.result_accuracy)
    return i.op.name, str(i.shape), tuple(str(o) for o in i.operand_shapes), i.attributes, i.backend_config, notes


@pytest.mark.parametrize("name", PROGRAMS)
def test_instructions(name: str) -> None:
    ours = xlapy.parse_stablehlo(PROGRAMS[name])
    theirs = xlapy.parse_hlo(hlo_of(PROGRAMS[name]))
    assert _signatures(ours) == _signatures(theirs)
    assert _ends(ours) == _ends(theirs)


def _ends(module: xlapy.Module) -> list[Any]:
    entry = module.entry_computation
    return [each.sharding for each in (*entry.parameters, entry.root_instruction)]


def test_constants_of_other_dialects_and_the_only_public_function_as_entry() -> None:
    module = xlapy.parse_stablehlo("""
        func.func private @inner(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
        func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<i1>) {
          %0 = sdy.constant dense<1.0> : tensor<2xf32>
          %1 = arith.constant dense<true> : tensor<i1>
          %2 = stablehlo.add %x, %0 : tensor<2xf32>
          %3 = call @inner(%2) : (tensor<2xf32>) -> tensor<2xf32>
          return %3, %1 : tensor<2xf32>, tensor<i1>
        }""")
    assert module.entry_computation.program_shape.result.to_text(layout=False) == "(f32[2], pred[])"
    assert [i.op.name for i in module.instructions()].count("constant") == 2


def test_optional_attributes_of_convolutions_and_custom_calls() -> None:
    module = xlapy.parse_stablehlo("""
        func.func @main(%x: tensor<1x4x1xf32>, %k: tensor<2x1x1xf32>) -> tensor<1x3x1xf32> {
          %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {
              stride = [1], pad = [[0, 0]],
            } {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>
          %1 = stablehlo.custom_call @other(%0) {api_version = 0 : i32} : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
          return %1 : tensor<1x3x1xf32>
        }""")
    root = module.entry_computation.root_instruction
    assert (root.custom_call_target, root.api_version.name) == ("other", "ORIGINAL")
    assert root.operands[0].op.name == "convolution"


_RAGGED = """%0 = stablehlo.custom_call @ragged_all_to_all(%x, %y, %n, %n, %n, %n) {{api_version = 4 : i32{config}}} :
    (tensor<4x8xf32>, tensor<6x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>"""


def _ragged(config: str) -> Instruction:
    parameters = "%x: tensor<4x8xf32>, %y: tensor<6x8xf32>, %n: tensor<2xi32>"
    text = function(parameters, "tensor<6x8xf32>", _RAGGED.format(config=config))
    return xlapy.parse_stablehlo(text).entry_computation.root_instruction


def test_ragged_all_to_all_as_jax_writes_it() -> None:
    """StableHLO lacks this collective; jaxlib's conversion of the call ends the process."""
    groups = "replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>"
    root = _ragged(f", backend_config = {{channel_id = 1 : i64, {groups}}}")
    assert (root.op.name, root.shape.to_text(layout=False)) == ("ragged-all-to-all", "f32[6,8]")
    assert [operand.name for operand in root.operands] == ["x", "y", *["n"] * 4]
    assert (root.attributes.channel_id, root.attributes.replica_groups.to_text()) == (1, "{{1,0}}")
    assert _ragged(f", backend_config = {{{groups}}}").attributes.channel_id is None


@pytest.mark.parametrize(
    ("config", "code", "values"),
    [
        ("", codes.ATTRIBUTE_KIND, ("backend_config",)),
        (', backend_config = "groups"', codes.ATTRIBUTE_KIND, ("backend_config",)),
        (
            ", backend_config = {replica_groups = dense<[[1, 1]]> : tensor<1x2xi64>}",
            collectives_codes.GROUP_IDS,
            ("replica_groups",),
        ),
    ],
)
def test_ragged_all_to_all_without_groups_is_refused(config: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(xlapy.base.errors.ParseError, code, *values):
        _ragged(config)

"""Portable artifacts that jaxlib writes give the operations, types and attributes of the original text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.raising import raises
from tests.stablehlo.bytecode.artifacts import artifact, mixed_artifact
from xlapy.base.element_types import C64, F32, PRED, S8, S32, S64, U8, PrimitiveType
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import BytecodeError, UnsupportedError, XlaError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import read_bytecode

VERSIONS = ("0.9.0", "0.12.0", "0.14.0", "0.19.0", "1.0.0", "1.1.0", "1.4.0", "1.6.0", "1.10.0", "1.13.0", "1.17.0")

LOOP = """
module @loop {
  func.func public @main(%limit: tensor<i32>, %x: tensor<4xf32>) -> (tensor<4xf32> {jax.result_info = "result"}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %limit, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w = func.call @twice(%v) : (tensor<4xf32>) -> tensor<4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %w : tensor<i32>, tensor<4xf32>
    }
    return %r#1 : tensor<4xf32>
  }
  func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""


def find(module: ir.Operation, name: str) -> ir.Operation:
    return next(operation for operation in ir.walk(module) if operation.name == name)


def one(body: str, signature: str = "", version: str = "1.17.0") -> ir.Operation:
    """Returns the program with one function, which has this body and no results."""
    text = f"func.func @main({signature}) {{ {body}\n return }}"
    return read_bytecode(artifact(text, version))


@pytest.mark.parametrize("version", VERSIONS)
def test_regions_and_values_of_every_version(version: str) -> None:
    module = read_bytecode(artifact(LOOP, version))
    assert module.name == "builtin.module"
    assert module.attributes["sym_name"] == "loop"
    main, twice = module.regions[0].blocks[0].operations
    assert [main.attributes["sym_name"], twice.attributes["sym_name"]] == ["main", "twice"]
    assert main.attributes["res_attrs"] == ({"jax.result_info": "result"},)
    assert twice.attributes["sym_visibility"] == "private"
    body = main.regions[0].blocks[0]
    zero, one_, loop, ending = body.operations
    assert [operation.name for operation in body.operations[2:]] == ["stablehlo.while", "func.return"]
    assert loop.operands == [zero.results[0], body.arguments[1]]
    assert ending.operands == [loop.results[1]]
    condition, step = (region.blocks[0] for region in loop.regions)
    compare = condition.operations[0]
    assert compare.operands == [condition.arguments[0], body.arguments[0]]
    assert compare.attributes == {"comparison_direction": "LT", "compare_type": "SIGNED"}
    assert compare.results[0].type == ir.TensorType((), PRED)
    call, add, stop = step.operations
    assert (call.name, call.attributes["callee"]) == ("func.call", ir.SymbolReference("twice"))
    assert add.operands == [step.arguments[0], one_.results[0]]
    assert (stop.name, stop.operands) == ("stablehlo.return", [add.results[0], call.results[0]])


@pytest.mark.parametrize(
    ("constant", "type_", "values"),
    [
        ("dense<[1, -2, 3]> : tensor<3xi32>", ir.TensorType((3,), S32), [1, -2, 3]),
        ("dense<7> : tensor<2x2xui8>", ir.TensorType((2, 2), U8), [[7, 7], [7, 7]]),
        ("dense<[[1.5, -0.0]]> : tensor<1x2xf32>", ir.TensorType((1, 2), F32), [[1.5, -0.0]]),
        ("dense<(1.0, -2.0)> : tensor<complex<f32>>", ir.TensorType((), C64), 1 - 2j),
        ("dense<true> : tensor<5xi1>", ir.TensorType((5,), PRED), [True] * 5),
        ("dense<false> : tensor<9xi1>", ir.TensorType((9,), PRED), [False] * 9),
        (
            "dense<[true, false, true, true, false, false, true, false, true]> : tensor<9xi1>",
            ir.TensorType((9,), PRED),
            [True, False, True, True, False, False, True, False, True],
        ),
        ("dense<[true]> : tensor<1xi1>", ir.TensorType((1,), PRED), [True]),
        ("dense<> : tensor<0x3xi64>", ir.TensorType((0, 3), S64), np.zeros((0, 3)).tolist()),
    ],
)
def test_constants(constant: str, type_: ir.TensorType, values: Any) -> None:
    found = find(one(f"%c = stablehlo.constant {constant}"), "stablehlo.constant").attributes["value"]
    assert found.type == type_
    assert found.values.dtype == type_.element.dtype
    assert found.values.tolist() == values
    assert np.signbit(found.values.real).tolist() == np.signbit(np.asarray(values).real).tolist()


@pytest.mark.parametrize(
    ("mlir", "name", "values"),
    [("i4", "S4", [-8, 7, 0]), ("ui4", "U4", [15, 7, 0]), ("f8E4M3FN", "F8E4M3FN", [-1.5, 448.0, 0.25])],
)
def test_narrow_constants(mlir: str, name: str, values: list[float]) -> None:
    literals = ", ".join(str(value) for value in values)
    module = one(f"%c = stablehlo.constant dense<[{literals}]> : tensor<3x{mlir}>")
    found = find(module, "stablehlo.constant").attributes["value"]
    assert found.type.element is PrimitiveType.from_name(name)
    assert found.values.astype(np.float32).tolist() == values


def test_dimension_numbers_are_structs() -> None:
    convolution = """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
      window = {stride = [2], pad = [[1, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
       precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]}
      : (tensor<1x5x2xf32>, tensor<3x2x4xf32>) -> tensor<1x2x4xf32>"""
    found = find(one(convolution, "%x: tensor<1x5x2xf32>, %k: tensor<3x2x4xf32>"), "stablehlo.convolution").attributes
    assert found["dimension_numbers"] == ir.StructAttribute(
        "stablehlo.conv",
        {
            "input_batch_dimension": 0,
            "input_feature_dimension": 2,
            "input_spatial_dimensions": (1,),
            "kernel_input_feature_dimension": 1,
            "kernel_output_feature_dimension": 2,
            "kernel_spatial_dimensions": (0,),
            "output_batch_dimension": 0,
            "output_feature_dimension": 2,
            "output_spatial_dimensions": (1,),
        },
    )
    assert found["window_strides"].values.tolist() == [2]
    assert found["padding"].values.tolist() == [[1, 0]]
    assert found["precision_config"] == ("HIGH", "DEFAULT")
    assert "window_reversal" not in found


def test_gathers_before_and_after_batching_dimensions() -> None:
    gather = """%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>,
      indices_are_sorted = true}> : (tensor<4x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>"""
    signature = "%x: tensor<4x3xf32>, %i: tensor<2x1xi32>"
    for version in ("1.0.0", "1.1.0"):
        found = find(one(gather, signature, version), "stablehlo.gather").attributes
        assert found["dimension_numbers"].fields == {
            "offset_dims": (1,),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 1,
        }
        assert found["indices_are_sorted"] is True
        assert found["slice_sizes"].values.tolist() == [1, 3]


def test_custom_calls_keep_their_dictionaries_and_layouts() -> None:
    call = """%0 = stablehlo.custom_call @target(%x) {api_version = 4 : i32,
      backend_config = {n = 3 : i64, s = "a\\00b"}, has_side_effect = true,
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
      result_layouts = [dense<[1, 0]> : tensor<2xindex>], output_operand_aliases = [
      #stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}
      : (tensor<2x2xf32>) -> tensor<2x2xf32>"""
    found = find(one(call, "%x: tensor<2x2xf32>"), "stablehlo.custom_call").attributes
    assert found["call_target_name"] == "target"
    assert found["api_version"] == ir.IntegerAttribute(4, ir.ScalarType(S32))
    assert found["backend_config"] == {"n": ir.IntegerAttribute(3, ir.ScalarType(S64)), "s": "a\0b"}
    assert found["has_side_effect"] is True
    assert found["operand_layouts"][0].values.tolist() == [0, 1]
    assert found["output_operand_aliases"][0].fields == {
        "output_tuple_indices": (),
        "operand_index": 0,
        "operand_tuple_indices": (),
    }


def test_collectives_have_channels_and_flags() -> None:
    body = """%0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle =
      #stablehlo.channel_handle<handle = 3, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
      use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
      %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>}>
      : (tensor<2xf32>) -> tensor<2xf32>"""
    module = one(body, "%x: tensor<2xf32>")
    first, second = (operation for operation in ir.walk(module) if operation.name == "stablehlo.all_gather")
    assert first.attributes["channel_handle"].fields == {"handle": 3, "type": 0}
    assert first.attributes["use_global_device_ids"] == ir.Unit()
    assert first.attributes["replica_groups"].values.tolist() == [[0, 1]]
    assert not {"channel_handle", "use_global_device_ids", "channel_id"} & set(second.attributes)


def test_result_accuracy() -> None:
    for text, fields in (
        ("atol = 1.0e-5, ulps = 10, mode = TOLERANCE", {"atol": 1e-5, "ulps": 10, "mode": "TOLERANCE"}),
        ("mode = HIGHEST", {"mode": "HIGHEST"}),
    ):
        written = text.replace("mode = ", "mode = #stablehlo.result_accuracy_mode<") + ">"
        body = (
            f"%0 = stablehlo.exponential %x {{result_accuracy = #stablehlo.result_accuracy<{written}>}} : tensor<f32>"
        )
        found = find(one(body, "%x: tensor<f32>"), "stablehlo.exponential").attributes
        assert found["result_accuracy"] == ir.StructAttribute("stablehlo.result_accuracy", fields)
    assert find(one("%0 = stablehlo.tanh %x : tensor<f32>", "%x: tensor<f32>"), "stablehlo.tanh").attributes == {}


def test_types() -> None:
    signature = """%a: tensor<?x3xf32, #stablehlo.bounds<4, ?>>, %b: tuple<tensor<i1>, !stablehlo.token>,
      %c: tensor<2x!quant.uniform<i8:f32, 0.5:-3>>, %d: tensor<2x!quant.uniform<u8<1:9>:f32:0, {0.5:1, 2.0:3}>>"""
    a, b, c, d = find(one("", signature), "func.func").attributes["function_type"].inputs
    assert a == ir.TensorType((None, 3), F32, bounds=(4, None))
    assert b == ir.TupleType((ir.TensorType((), PRED), ir.TokenType()))
    assert c.element == ir.QuantizedType(S8, F32, (0.5,), (-3,), -128, 127)
    assert d.element == ir.QuantizedType(U8, F32, (0.5, 2.0), (1, 3), 1, 9, axes=(0,))


def test_locations_keep_names_files_and_callers() -> None:
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.sine %x : tensor<f32> loc("jit(f)/sin"(callsite("f"("a.py":3:4 to :9) at "main"("b.py":7:1))))
      return %0 : tensor<f32> }"""
    location = find(read_bytecode(artifact(text)), "stablehlo.sine").location
    assert (location.names, location.file, location.line, location.column) == (("jit(f)/sin", "f"), "a.py", 3, 4)
    assert [(caller.names, caller.file, caller.line) for caller in location.callers] == [(("main",), "b.py", 7)]


def test_arguments_have_locations() -> None:
    module = read_bytecode(artifact('func.func @main(%x: tensor<f32> loc("weights")) { return }'))
    assert find(module, "func.func").regions[0].blocks[0].arguments[0].location.names == ("weights",)


def test_negative_numbers_of_every_width() -> None:
    attributes = "{a = -1 : i32, b = -128 : i8, c = -9223372036854775808 : i64, d = -2 : i16, e = 255 : ui8}"
    call = f"stablehlo.custom_call @f() {{backend_config = {attributes}, api_version = 4 : i32}} : () -> tensor<f32>"
    found = find(one(f"%0 = {call}"), "stablehlo.custom_call")
    numbers = {name: value.value for name, value in found.attributes["backend_config"].items()}
    assert numbers == {"a": -1, "b": -128, "c": -(2**63), "d": -2, "e": 255}


def test_deep_call_stacks() -> None:
    chain = '"f0"("a.py":1:1)'
    for number in range(1, 200):
        chain = f'callsite("f{number}"("a.py":{number}:1) at {chain})'
    text = f"func.func @main(%x: tensor<f32>) {{ %0 = stablehlo.sine %x : tensor<f32> loc({chain})\n return }}"
    location = find(read_bytecode(artifact(text)), "stablehlo.sine").location
    assert location.line == 199
    assert [caller.line for caller in location.callers] == [*range(198, 0, -1), 1]


def test_shardings_over_meshes() -> None:
    text = """module {
      sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
      func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y":(1)2}p1]>}) {
        %0 = stablehlo.sine %a : tensor<8x8xf32>
        %1 = sdy.sharding_constraint %0 <@mesh, [{}, {?}], replicated={"y"}> : tensor<8x8xf32>
        %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
          manual_axes={"x", "y"} (%p: tensor<4x8xf32>) {
            %3 = stablehlo.negate %p : tensor<4x8xf32>
            sdy.return %3 : tensor<4x8xf32>
          } : (tensor<8x8xf32>) -> tensor<8x8xf32>
        %4 = stablehlo.cosine %2 : tensor<8x8xf32>
        return } }"""
    module = read_bytecode(mixed_artifact(text))
    names = [operation.name for operation in ir.walk(module)]
    assert "builtin.unrealized_conversion_cast" not in names
    mesh = find(module, "sdy.mesh").attributes
    assert (mesh["sym_name"], mesh["mesh"].text) == ("mesh", '["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]')
    (argument,) = find(module, "func.func").attributes["arg_attrs"]
    assert argument["sdy.sharding"] == ir.OpaqueAttribute("sdy.sharding", '@mesh, [{"x", ?}, {"y":(1)2}p1]')
    constraint = find(module, "sdy.sharding_constraint")
    assert constraint.operands == find(module, "stablehlo.sine").results
    assert constraint.attributes["sharding"].text == '@mesh, [{}, {?}], replicated={"y"}'
    manual = find(module, "sdy.manual_computation")
    assert manual.attributes["in_shardings"] == ir.OpaqueAttribute("sdy.sharding_per_value", '[<@mesh, [{"x"}, {}]>]')
    assert manual.attributes["manual_axes"] == ir.OpaqueAttribute("sdy.manual_axes", '{"x", "y"}')
    (argument_of_region,) = manual.regions[0].blocks[0].arguments
    assert find(module, "stablehlo.negate").operands == [argument_of_region]
    assert find(module, "stablehlo.cosine").operands == manual.results


def test_data_that_is_not_bytecode() -> None:
    with raises(BytecodeError, codes.BYTECODE_START, "byte 0", "b'ML\\xefR'", "b'func'"):
        read_bytecode(b"func.func @main() { return }")
    with raises(BytecodeError, codes.BYTECODE_VERSION, "version 9", "than 6"):
        read_bytecode(b"ML\xefR\x13x\0")
    with raises(BytecodeError, codes.DAMAGED_BYTECODE, "byte 7", "strings"):
        read_bytecode(b"ML\xefR\x0dx\0")


def test_damaged_artifacts_raise_only_xla_errors() -> None:
    data = artifact(LOOP)
    draw = random.Random(7)
    outcomes = {"read": 0, "rejected": 0}
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(4, len(damaged))] = draw.randrange(256)
        cut = damaged[: draw.randrange(len(damaged))] if draw.random() < 0.2 else damaged
        try:
            read_bytecode(bytes(cut))
            outcomes["read"] += 1
        except XlaError as error:
            assert isinstance(error, BytecodeError | UnsupportedError)
            outcomes["rejected"] += 1
    assert outcomes["rejected"] > 500

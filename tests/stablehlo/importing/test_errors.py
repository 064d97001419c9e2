"""Programs that break a rule or that HLO cannot express are rejected with the position, operation and reason."""

from __future__ import annotations

import pytest

import xlapy
from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ParseError, UnsupportedError, VerificationError, XlaError
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo.programs import function


def _body(operation: str, result: str = "tensor<2xf32>", more: str = "") -> str:
    return function(f"%x: tensor<2xf32>{more}", result, f"%0 = {operation}\nreturn %0 : {result}")


CASES: dict[str, tuple[str, type[XlaError], ErrorCode, tuple[str, ...]]] = {
    "a result of another shape": (
        _body("stablehlo.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>", "tensor<3xf32>"),
        ParseError,
        codes.DECLARED_RESULT,
        ("<text>:2:1", "stablehlo.add", "f32[2]", "tensor<3xf32>"),
    ),
    "operands that do not fit": (
        _body(
            '"stablehlo.concatenate"(%x, %y) <{dimension = 0 : i64}> : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>',
            more=", %y: tensor<2xi32>",
        ),
        ParseError,
        shared.SAME_ELEMENT_TYPE,
        ("stablehlo.concatenate",),
    ),
    "a missing attribute": (
        _body('"stablehlo.transpose"(%x) : (tensor<2xf32>) -> tensor<2xf32>'),
        ParseError,
        codes.REQUIRED_ATTRIBUTE,
        ("stablehlo.transpose",),
    ),
    "an attribute of another kind": (
        _body('"stablehlo.transpose"(%x) <{permutation = "a"}> : (tensor<2xf32>) -> tensor<2xf32>'),
        ParseError,
        codes.ATTRIBUTE_KIND,
        ("permutation", "'a'"),
    ),
    "an unknown operation": (
        _body('"stablehlo.none"(%x) : (tensor<2xf32>) -> tensor<2xf32>'),
        UnsupportedError,
        codes.KNOWN_OPERATION,
        ("<text>:2:1", "stablehlo.none"),
    ),
    "an unknown function": (
        _body("func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>"),
        ParseError,
        codes.FUNCTION_NAME,
        ("func.call", "@f"),
    ),
    "a function that calls itself": (
        _body("func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>"),
        UnsupportedError,
        codes.RECURSION,
        ("@main",),
    ),
    "a reducer that reads from outside": (
        _body(
            """"stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %s = stablehlo.add %a, %y : tensor<f32>
              stablehlo.return %s : tensor<f32>
            }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>""",
            "tensor<f32>",
            ", %y: tensor<f32>",
        ),
        UnsupportedError,
        codes.CAPTURED_VALUE,
        ("y f32[]",),
    ),
    "a reducer of two types": (
        _body(
            """"stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
            ^bb0(%a: tensor<f32>, %b: tensor<i32>):
              stablehlo.return %a : tensor<f32>
            }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>""",
            "tensor<f32>",
            ", %y: tensor<f32>",
        ),
        ParseError,
        codes.REGION_SIGNATURE,
        ("stablehlo.reduce", "(f32[], s32[])"),
    ),
    "a reducer that gives another type": (
        _body(
            """"stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %c = stablehlo.convert %a : (tensor<f32>) -> tensor<i32>
              stablehlo.return %c : tensor<i32>
            }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>""",
            "tensor<f32>",
            ", %y: tensor<f32>",
        ),
        ParseError,
        codes.REGION_SIGNATURE,
        ("stablehlo.reduce", "(f32[])", "(s32[])"),
    ),
    "a reducer in a narrower type": (
        _body(
            """"stablehlo.reduce"(%x, %y) <{dimensions = array<i64: 0>}> ({
            ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
              stablehlo.return %a : tensor<bf16>
            }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>""",
            "tensor<f32>",
            ", %y: tensor<f32>",
        ),
        ParseError,
        codes.REDUCTION_TYPE,
        ("stablehlo.reduce", "bf16[]", "f32[2]"),
    ),
    "groups that leave out a device": (
        _body(
            '"stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 2]]> : tensor<1x2xi64>}> ({'
            "^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32>"
            "}) : (tensor<2xf32>) -> tensor<2xf32>"
        ),
        ParseError,
        collectives_codes.GROUP_IDS,
        ("replica_groups", "0", "[[0, 2]]"),
    ),
    "a device in two groups of a broadcast": (
        _body(
            '"stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[2, 1], [1, 0]]> : tensor<2x2xi64>}> :'
            "(tensor<2xf32>) -> tensor<2xf32>"
        ),
        ParseError,
        collectives_codes.GROUP_IDS,
        ("replica_groups", "[[2, 1], [1, 0]]"),
    ),
    "sizes that contradict the declared ones": (
        _body(
            "stablehlo.dynamic_reshape %x, %s : (tensor<2xf32>, tensor<2xi64>) -> tensor<1x2xf32>", "tensor<1x2xf32>"
        ).replace("%0 =", "%s = stablehlo.constant dense<[2, 1]> : tensor<2xi64>\n%0 ="),
        ParseError,
        codes.DECLARED_RESULT,
        ("f32[1,2]", "[2, 1]"),
    ),
    "a list of as many sizes as there are none": (
        _body(
            "stablehlo.rng %a, %a, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1x1xi64>)"
            " -> tensor<2xf32>",
            more=", %a: tensor<f32>, %s: tensor<1x1xi64>",
        ),
        ParseError,
        operation_codes.SIZE_VECTOR,
        ("f32[2]", "1", "s64[1,1]"),
    ),
    "a size that is not a scalar": (
        _body("stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>").replace(
            "%x: tensor<2xf32>", "%x: tensor<2xf32>, %n: tensor<1xi32>", 1
        ),
        ParseError,
        operation_codes.SIZE_VECTOR,
        ("s32[1]",),
    ),
    "batches of different lengths": (
        function(
            "%x: tensor<4x9xi32>, %i: tensor<5xi32>",
            "tensor<5x8xi32>",
            """%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
              operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1],
              index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}>
              : (tensor<4x9xi32>, tensor<5xi32>) -> tensor<5x8xi32>
            return %0 : tensor<5x8xi32>""",
        ),
        ParseError,
        operation_codes.BATCHING_DIMENSIONS,
        ("dimensions 0", "s32[4,9]", "and 0", "s32[5]"),
    ),
    "batches that are indexed": (
        function(
            "%x: tensor<4x9xi32>, %i: tensor<4x1xi32>",
            "tensor<4x8xi32>",
            """%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
              operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [0],
              index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}>
              : (tensor<4x9xi32>, tensor<4x1xi32>) -> tensor<4x8xi32>
            return %0 : tensor<4x8xi32>""",
        ),
        ParseError,
        operation_codes.BATCHING_DIMENSIONS,
        ("[0]",),
    ),
    "no entry": (
        "module { func.func @f() { return } func.func @g() { return } }",
        ParseError,
        codes.MAIN_FUNCTION,
        ("@main", "@f", "@g"),
    ),
    "a return of another type": (
        "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> { return %x : tensor<2xf32> }",
        ParseError,
        codes.DECLARED_RESULT,
        ("@main", "(tensor<3xf32>)", "(f32[2])"),
    ),
    "an alias that names no result": (
        "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 3 : i32}) -> tensor<2xf32> "
        "{ return %x : tensor<2xf32> }",
        ParseError,
        operation_codes.ALIASED_RESULT,
        ("tf.aliasing_output", "argument 0", "1 results"),
    ),
    "an unknown memory": (
        'func.func @main(%x: tensor<2xf32> {mhlo.memory_kind = "moon"}) -> tensor<2xf32> { return %x : tensor<2xf32> }',
        UnsupportedError,
        device_codes.MEMORY_KIND,
        ("mhlo.memory_kind", "'moon'", "pinned_host"),
    ),
    "a dot algorithm that HLO lacks": (
        _body(
            "stablehlo.dot_general %x, %x, contracting_dims = [0] x [0], algorithm = <lhs_precision_type = f16, "
            "rhs_precision_type = bf16, accumulation_type = f64, lhs_component_count = 1, rhs_component_count = 1, "
            "num_primitive_operations = 7, allow_imprecise_accumulation = false> : "
            "(tensor<2xf32>, tensor<2xf32>) -> tensor<f32>",
            "tensor<f32>",
        ),
        UnsupportedError,
        codes.DOT_ALGORITHM,
        ("rhs_precision_type = bf16", "accumulation_type = f64"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rejected(name: str) -> None:
    text, kind, code, values = CASES[name]
    with raises(kind, code, *values):
        xlapy.parse_stablehlo(text)


def test_the_line_is_shown_with_a_caret() -> None:
    with raises(ParseError, codes.DECLARED_RESULT) as caught:
        xlapy.parse_stablehlo(CASES["a result of another shape"][0], filename="model.mlir")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("model.mlir:2:1: stablehlo.add: ")
    assert lines[1].strip().startswith("%0 = stablehlo.add")
    assert lines[2].strip() == "^"


def test_errors_without_text_name_the_location() -> None:
    text = CASES["a missing attribute"][0].replace("\nreturn", ' loc("layer/transpose")\nreturn')
    root = parse_text(text)
    for operation in root.regions[0].blocks[0].operations[0].regions[0].blocks[0].operations:
        operation.text_line = 0
    with raises(VerificationError, codes.REQUIRED_ATTRIBUTE, "layer/transpose", "stablehlo.transpose"):
        import_program(root)


def test_the_nesting_depth_of_regions_is_limited() -> None:
    depth = 150
    inner = "stablehlo.return %p : tensor<i1>"
    for _ in range(depth):
        inner = (
            f'%q = "stablehlo.if"(%p) ({{\n{inner}\n}}, {{\nstablehlo.return %p : tensor<i1>\n}}) : '
            "(tensor<i1>) -> tensor<i1>\nstablehlo.return %q : tensor<i1>"
        )
    text = f"func.func @main(%p: tensor<i1>) -> tensor<i1> {{\n{inner.replace('stablehlo.return %q', 'return %q')}\n}}"
    text = text[: text.rindex("return %q")].replace("return %q", "stablehlo.return %q") + "return %q : tensor<i1>\n}"
    with raises(XlaError, codes.PROGRAM_SIZE):
        xlapy.parse_stablehlo(text)

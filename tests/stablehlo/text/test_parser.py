"""Custom assembly formats and the generic form parse to the same objects, and constants to their values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir as mlir

from tests.raising import raises
from tests.stablehlo.bytecode.artifacts import artifact
from tests.stablehlo.text.comparison import same
from xlapy.base.element_types import BF16, C64, F32, F64, PRED, S4, S8, S32, S64, U8, Array, PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ParseError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode import read_bytecode
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo.forms import FORMS


def spellings(text: str) -> list[str]:
    """Returns a program as MLIR prints it: in custom form, in generic form, and with locations."""
    with jax_mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = mlir.Module.parse(text).operation
        return [
            module.get_asm(),
            module.get_asm(print_generic_op_form=True),
            module.get_asm(enable_debug_info=True),
            module.get_asm(enable_debug_info=True, print_generic_op_form=True),
        ]


def attribute(text: str) -> object:
    return parse_text(f"module attributes {{a.b = {text}}} {{}}").attributes["a.b"]


def elements(text: str) -> ir.ElementsAttribute:
    found = attribute(text)
    assert isinstance(found, ir.ElementsAttribute)
    return found


@pytest.mark.parametrize("name", FORMS)
def test_custom_and_generic_forms_parse_to_the_same_objects(name: str) -> None:
    text = FORMS[name]
    short, *others = spellings(text)
    module = parse_text(short)
    assert sum(1 for _ in ir.walk(module)) > 2
    for other in [text, *others]:
        assert same(module, parse_text(other)) == ""


@pytest.mark.parametrize("name", ["functions", "elementwise", "sources", "movement", "regions"])
def test_text_and_portable_artifacts_give_the_same_objects(name: str) -> None:
    short, *_ = spellings(FORMS[name])
    assert same(parse_text(short), read_bytecode(artifact(short))) == ""


def loss(weights: dict[str, jax.Array], inputs: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(inputs @ weights["up"])
    scores = jax.nn.softmax(hidden @ weights["down"], axis=-1)
    padded = jax.lax.reduce_window(scores, 0.0, jax.lax.add, (1, 2), (1, 1), "SAME")
    picked = jnp.take_along_axis(padded, jnp.argsort(scores, axis=-1), axis=-1)
    total = jax.lax.fori_loop(0, 3, lambda i, x: x + picked.at[i].mul(2.0), picked)
    noise = jax.random.normal(jax.random.key(0), total.shape)
    return jnp.where(total.sum() > 0, jax.lax.cond(total[0, 0] > 0, jnp.sum, jnp.max, total), (noise * total).mean())


def test_jax_programs() -> None:
    weights = {"up": jnp.ones((3, 8)), "down": jnp.ones((8, 4))}
    lowered = jax.jit(jax.value_and_grad(loss), donate_argnums=0).lower(weights, jnp.ones((5, 3)))
    short = parse_text(lowered.as_text())
    assert sum(1 for _ in ir.walk(short)) > 200
    assert same(short, parse_text(lowered.as_text(debug_info=True))) == ""
    generic = lowered.compiler_ir().operation.get_asm(print_generic_op_form=True)
    assert same(short, parse_text(generic)) == ""


def test_locations_in_jax_programs() -> None:
    text = jax.jit(lambda x: jnp.sin(x)).lower(1.0).as_text(debug_info=True)
    module = parse_text(text)
    sine = next(operation for operation in ir.walk(module) if operation.name == "stablehlo.sine")
    assert sine.location.names[0] == "jit(<lambda>)/sin"
    assert sine.location.file.endswith("test_parser.py")
    main = module.regions[0].blocks[0].operations[0]
    assert main.regions[0].blocks[0].arguments[0].location.names == ("x",)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ('loc("a.py":3:4)', ir.FileLocation("a.py", 3, 4)),
        ('loc("a.py":3:4 to 5:6)', ir.FileLocation("a.py", 3, 4)),
        ('loc("n"("m"("a.py":3:4)))', ir.FileLocation("a.py", 3, 4, ("n", "m"))),
        ("loc(unknown)", ir.UNKNOWN_LOCATION),
        ('loc(fused<"x">[unknown, "n", "m"])', ir.FileLocation(names=("n",))),
        (
            'loc(callsite("a"("a.py":1:2) at callsite("b" at "c")))',
            ir.FileLocation("a.py", 1, 2, ("a",), (ir.FileLocation(names=("b",)), ir.FileLocation(names=("c",)))),
        ),
        ("loc(#later)", ir.FileLocation(names=("l",))),
    ],
)
def test_locations(text: str, location: ir.FileLocation) -> None:
    module = parse_text(f'module {{ "a.b"() : () -> () {text} }}\n#later = loc(#last)\n#last = loc("l")')
    assert module.regions[0].blocks[0].operations[0].location == location


def test_deep_call_stacks() -> None:
    lines = ['#l0 = loc("f0")', *(f'#l{n} = loc(callsite("f{n}" at #l{n - 1}))' for n in range(1, 2000))]
    module = parse_text('"a.b"() : () -> () loc(#l1999)\n' + "\n".join(lines))
    location = module.regions[0].blocks[0].operations[0].location
    assert [caller.names[0] for caller in location.callers[:2]] == ["f1998", "f1997"]
    assert len(location.callers) == ir.MAX_CALLERS == 256
    assert location.callers[-1].names[0] == "f1743"


@pytest.mark.parametrize(
    ("text", "element", "values"),
    [
        ("dense<[[1, -2], [0x10, 4]]> : tensor<2x2xi32>", S32, np.array([[1, -2], [16, 4]], np.int32)),
        ("dense<255> : tensor<i8>", S8, np.array(-1, np.int8)),
        ("dense<[7, 15]> : tensor<2xi4>", S4, np.array([7, -1]).astype("int4")),
        ("dense<255> : tensor<2xui8>", U8, np.array([255, 255], np.uint8)),
        ("dense<[true, false]> : tensor<2xi1>", PRED, np.array([True, False])),
        ("dense<> : tensor<0x3xf32>", F32, np.empty((0, 3), np.float32)),
        ("dense<[[], []]> : tensor<2x0xf32>", F32, np.empty((2, 0), np.float32)),
        ("dense<[1.5, 0x7F800000]> : tensor<2xf32>", F32, np.array([1.5, np.inf], np.float32)),
        ("dense<1.0e-2> : tensor<f64>", F64, np.array(0.01)),
        ("dense<(1.0,-2.0)> : tensor<2xcomplex<f32>>", C64, np.array([1 - 2j] * 2, np.complex64)),
        ("dense<[(1.0,2.0), (3.0,0xFF800000)]> : tensor<2xcomplex<f32>>", C64, np.array([1 + 2j, complex(3, -np.inf)])),
        ('dense<"0x0100FEFF"> : tensor<2xi16>', PrimitiveType.S16, np.array([1, -2], np.int16)),
        ('dense<"0x0100"> : tensor<3xi16>', PrimitiveType.S16, np.array([1, 1, 1], np.int16)),
        ('dense<"0x0F07"> : tensor<2xi4>', S4, np.array([-1, 7]).astype("int4")),
        ('dense<"0x0502"> : tensor<11xi1>', PRED, np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0], np.bool_)),
        ("array<i64: 1, -2>", S64, np.array([1, -2])),
        ("array<i1: true, false>", PRED, np.array([True, False])),
        ("array<f32>", F32, np.empty(0, np.float32)),
    ],
)
def test_constant_elements(text: str, element: PrimitiveType, values: Array) -> None:
    found = elements(text)
    assert found.type == ir.TensorType(values.shape, element)
    assert found.values.dtype == element.dtype
    np.testing.assert_array_equal(found.values, values.astype(element.dtype))
    assert not found.values.flags.writeable


def test_bits_of_floats_are_kept() -> None:
    found = elements("dense<[0x7FC00001, 0xFF812345]> : tensor<2xf32>")
    assert found.values.view(np.uint32).tolist() == [0x7FC00001, 0xFF812345]
    assert elements("dense<0x7F81> : tensor<bf16>").values.view(np.uint16).tolist() == 0x7F81


def test_decimals_are_rounded_once() -> None:
    # This number is just above the midpoint of two adjacent bf16 numbers, by a digit that float32 would drop.
    found = elements("dense<1.003906250931322574615478515625> : tensor<bf16>")
    assert (found.type.element, float(found.values)) == (BF16, 1.0078125)


def test_a_splat_takes_no_memory() -> None:
    found = elements("dense<1.0> : tensor<100000000000xf32>")
    assert found.values.shape == (10**11,) and found.values[7] == 1.0


def test_resources() -> None:
    module = parse_text(
        """module attributes {a.b = dense_resource<one> : tensor<2xi32>, a.c = "{-#"} {}
        {-# external_resources: { tool: { state: "0x00" } },
            dialect_resources: { builtin: { one: "0x040000000100000002000000", "t w o": "0x08000000" } } #-}"""
    )
    found = module.attributes["a.b"]
    assert (found.values.tolist(), found.resource) == ([1, 2], "one")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("1 : i1", True),
        ("3", ir.IntegerAttribute(3, ir.ScalarType(S64))),
        ("-0x10 : i8", ir.IntegerAttribute(-16, ir.ScalarType(S8))),
        ("4 : index", ir.IntegerAttribute(4, ir.IndexType())),
        ("1.5 : bf16", ir.FloatAttribute(1.5, ir.ScalarType(BF16))),
        ("0.001 : f32", ir.FloatAttribute(float(np.float32(0.001)), ir.ScalarType(F32))),
        ("0x3FC00000 : f32", ir.FloatAttribute(1.5, ir.ScalarType(F32))),
        ('"a\\22\\E2\\82\\AC\\n"', 'a"\u20ac\n'),
        ('"\\FF"', b"\xff".decode("utf-8", "surrogateescape")),
        ("@a::@b", ir.SymbolReference("a", ("b",))),
        ('[1 : i32, "x", [unit]]', (ir.IntegerAttribute(1, ir.ScalarType(S32)), "x", ((ir.Unit(),)))),
        ('{a, "b c" = @f}', {"a": ir.Unit(), "b c": ir.SymbolReference("f")}),
        ("(i32, f32) -> ()", ir.FunctionType((ir.ScalarType(S32), ir.ScalarType(F32)), ())),
        ("#stablehlo<comparison_direction LT>", "LT"),
        ("#stablehlo<precision HIGHEST>", "HIGHEST"),
        ("#stablehlo.result_accuracy_mode<HIGHEST>", "HIGHEST"),
        (
            "#stablehlo.channel_handle<handle = 1, type = 2>",
            ir.StructAttribute("stablehlo.channel_handle", {"handle": 1, "type": 2}),
        ),
        (
            "#stablehlo<channel_handle<handle = 1, type = 2>>",
            ir.StructAttribute("stablehlo.channel_handle", {"handle": 1, "type": 2}),
        ),
        ("#stablehlo.bounds<?, 4>", ir.StructAttribute("stablehlo.type_extensions", {"bounds": (None, 4)})),
        (
            "#stablehlo.result_accuracy<atol = 1.0e-5, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>",
            ir.StructAttribute("stablehlo.result_accuracy", {"atol": 1e-5, "mode": "TOLERANCE"}),
        ),
        ('#sdy.sharding<@mesh, [{"x"}, {}]>', ir.OpaqueAttribute("sdy.sharding", '@mesh, [{"x"}, {}]')),
        ('#sdy<manual_axes{"x"}>', ir.OpaqueAttribute("sdy.manual_axes", '{"x"}')),
        ("affine_map<(d0) -> (d0 + 1)>", ir.OpaqueAttribute("builtin.affine_map", "<(d0) -> (d0 + 1)>")),
    ],
)
def test_attributes(text: str, value: object) -> None:
    assert attribute(text) == value


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("tensor<2x?xf32>", ir.TensorType((2, None), F32)),
        ("tensor<4 x f8E4M3FN>", ir.TensorType((4,), PrimitiveType.F8E4M3FN)),
        ("tensor<?xf32, #stablehlo.bounds<8>>", ir.TensorType((None,), F32, (8,))),
        ("tensor<*xcomplex<f32>>", ir.UnrankedTensorType(C64)),
        ("tensor<2xindex>", ir.TensorType((2,), ir.IndexType())),
        ("!stablehlo.token", ir.TokenType()),
        ("tuple<tensor<i1>, tuple<>>", ir.TupleType((ir.TensorType((), PRED), ir.TupleType(())))),
        ("memref<2xf32>", ir.BufferType((2,), F32)),
        ("memref<2x?xf32, 3>", ir.OpaqueType("memref<2x?xf32, 3>")),
        ("!stablehlo.future<tensor<f32>>", ir.FutureType((ir.TensorType((), F32),))),
        ("!foo.bar<1, [2]>", ir.OpaqueType("!foo.bar<1, [2]>")),
        ("tf32", ir.OpaqueType("tf32")),
        ("!quant.uniform<i8:f32, 0.5:3>", ir.QuantizedType(S8, F32, (0.5,), (3,), -128, 127)),
        ("!quant.uniform<ui8:f32, 0.5:3>", ir.QuantizedType(U8, F32, (0.5,), (3,), 0, 255)),
        (
            "!quant.uniform<u8<1:254>:f32:1, {0.5:3, 0.25}>",
            ir.QuantizedType(U8, F32, (0.5, 0.25), (3, 0), 1, 254, (1,)),
        ),
        (
            "!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:3}, {0.25}}>",
            ir.QuantizedType(S8, F32, (0.5, 0.25), (3, 0), -128, 127, (0, 1), (1, 2), (2, 1)),
        ),
    ],
)
def test_types(text: str, type_: ir.Type) -> None:
    assert attribute(text) == type_


def test_quantized_tensors() -> None:
    module = parse_text(
        """func.func @f(%a: tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>>) -> tensor<4x2xf32> {
          %0 = stablehlo.add %a, %a : tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>>
          %1 = stablehlo.uniform_dequantize %0
            : (tensor<4x2x!quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>>) -> tensor<4x2xf32>
          return %1 : tensor<4x2xf32> }"""
    )
    add = next(operation for operation in ir.walk(module) if operation.name == "stablehlo.add")
    element = ir.QuantizedType(S8, F32, (0.5, 0.25), (3, 0), -127, 127, (1,))
    assert add.results[0].type == ir.TensorType((4, 2), element)


def test_tolerances_before_a_type() -> None:
    module = parse_text(
        """func.func @f(%a: tensor<2xf64>) {
          check.expect_almost_eq %a, %a, tolerance = 0.1 : tensor<2xf64>
          return
        }"""
    )
    (check,) = [operation for operation in ir.walk(module) if operation.name == "check.expect_almost_eq"]
    assert check.attributes == {"tolerance": ir.FloatAttribute(0.1, ir.ScalarType(F64))}


def test_ulp_differences_are_unsigned() -> None:
    line = "check.expect_close %a, %a, max_ulp_difference = {}, min_ulp_difference = 0 : tensor<2xf64>, tensor<2xf64>"
    text = "func.func @f(%a: tensor<2xf64>) {{\n" + line + "\n return }}"
    (check,) = [each for each in ir.walk(parse_text(text.format(2**64 - 1))) if each.name == "check.expect_close"]
    assert check.attributes["max_ulp_difference"].value == 2**64 - 1
    with raises(ParseError, codes.INTEGER_RANGE, "max_ulp_difference", "in 64"):
        parse_text(text.format(2**64))


def test_aliases() -> None:
    module = parse_text(
        """#shift = dense<3> : tensor<i32>
        !v = tensor<4xi32>
        module { func.func @f(%a: !v) -> tuple<!v> { "a.b"() {c = #shift} : () -> ()
          %t = stablehlo.tuple %a : tuple<!v>
          return %t : tuple<tensor<4xi32>> } }"""
    )
    assert module.regions[0].blocks[0].operations[0].regions[0].blocks[0].operations[0].attributes["c"].values == 3


def test_value_names_and_text_positions() -> None:
    module = parse_text(
        'module @m {\n  func.func @f() -> i1 {\n    %a, %b:2 = "x.y"() : () -> (i1, i1, i1)\n'
        "    return %b#1 : i1\n  }\n}"
    )
    function = module.regions[0].blocks[0].operations[0]
    operation, ending = function.regions[0].blocks[0].operations
    assert [value.name for value in operation.results] == ["a", "b#0", "b#1"]
    assert ending.operands == [operation.results[2]]
    assert (operation.text_line, operation.text_column, ending.text_line) == (3, 5, 4)


def test_regions_nest_to_any_depth() -> None:
    depth = 3000
    text = '"a.b"() ({\n' * depth + '"a.c"() : () -> ()\n' + "}) : () -> ()\n" * depth
    assert sum(1 for _ in ir.walk(parse_text(text))) == depth + 2

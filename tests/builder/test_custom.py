"""The builder functions of custom calls: appended instructions and errors."""

from __future__ import annotations

from tests import xla_reference
from tests.builder.programs import instruction_texts, listing, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import Literal, Shape, ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import special as special_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaComputation
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Window
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallSchedule

ROW_MAJOR, COLUMN_MAJOR = Shape.parse("f32[2,3]{1,0}"), Shape.parse("f32[2,3]{0,1}")


def negation() -> XlaComputation:
    builder = XlaBuilder("negation")
    return builder.build(-ops.parameter(builder, 0, Shape.parse("f32[]"), "x"))


def test_custom_call() -> None:
    (x,) = parameters("f32[2,3]")
    result = ops.custom_call(x.builder, "target", [x], Shape.parse("(f32[2], token[])"))
    assert instruction_texts(result) == ['custom-call = (f32[2], token[]) custom-call(p0), custom_call_target="target"']


def test_every_argument() -> None:
    x, y = parameters("f32[2,3]", "s32[]")
    result = ops.custom_call(
        x.builder,
        "target",
        [x, y],
        Shape.parse("(s32[], f32[2,3])"),
        opaque='say "this"',
        has_side_effect=True,
        output_operand_aliasing=[((1,), (0, ())), OutputAlias((0,), 1)],
        literal=Literal.of([1, 2]),
        schedule=CustomCallSchedule.EARLIEST,
        api_version=CustomCallApiVersion.STATUS_RETURNING,
    )
    assert instruction_texts(result) == [
        'custom-call = (s32[], f32[2,3]) custom-call(p0, p1), custom_call_target="target", '
        "custom_call_has_side_effect=true, literal=s32[2]{0} {1, 2}, "
        "output_to_operand_aliasing={{1}: (0, {}), {0}: (1, {})}, schedule=SCHEDULE_EARLIEST, "
        'api_version=API_VERSION_STATUS_RETURNING, backend_config="say \\"this\\""'
    ]


def test_with_computation() -> None:
    (x,) = parameters("f32[2,3]")
    result = ops.custom_call_with_computation(x.builder, "target", [x], negation(), ROW_MAJOR, "opaque")
    assert listing(result.builder.build()) == (
        "negation (x: f32[]) -> f32[] {\n"
        "  x = f32[] parameter(0)\n"
        "  ROOT negate = f32[] negate(x)\n"
        "}\n"
        "\n"
        "ENTRY test (p0: f32[2,3]) -> f32[2,3] {\n"
        "  p0 = f32[2,3] parameter(0)\n"
        '  ROOT custom-call = f32[2,3] custom-call(p0), custom_call_target="target", called_computations={negation}, '
        'backend_config="opaque"\n'
        "}"
    )


def test_with_layout() -> None:
    (x,) = parameters("f32[2,3]")
    result = ops.custom_call_with_layout(x.builder, "target", [x], COLUMN_MAJOR, [COLUMN_MAJOR], has_side_effect=True)
    assert result.shape == COLUMN_MAJOR
    assert instruction_texts(result) == [
        'custom-call = f32[2,3] custom-call(p0), custom_call_target="target", '
        "operand_layout_constraints={f32[2,3]{0,1}}, custom_call_has_side_effect=true"
    ]


def test_without_operands_layouts_are_still_fixed() -> None:
    result = ops.custom_call_with_layout(XlaBuilder("test"), "target", [], COLUMN_MAJOR, [])
    assert result.instruction.operand_layout_constraints == ()


def test_with_computation_and_layouts() -> None:
    (x,) = parameters("f32[2,3]")
    result = ops.custom_call_with_computation_and_layouts(
        x.builder, "target", [x], negation(), ROW_MAJOR, [COLUMN_MAJOR], literal=Literal.of(1.5)
    )
    assert instruction_texts(result) == [
        'custom-call = f32[2,3] custom-call(p0), custom_call_target="target", '
        "operand_layout_constraints={f32[2,3]{0,1}}, literal=f32[] 1.5, called_computations={negation}"
    ]


def test_with_convolution_dimension_numbers() -> None:
    x, kernel = parameters("f32[1,8,4]", "f32[3,4,6]")
    given = (x.builder, "conv", [x, kernel], Shape.parse("f32[1,6,6]"))
    window, dnums = Window.make([3]), ConvDimensions.parse("b0f_0io->b0f")
    free = ops.custom_call_with_conv_dnums(*given, [], "", False, [], None, window, dnums)
    fixed = ops.custom_call_with_conv_dnums(*given, [x.shape, kernel.shape], "o", True, [], None, window, dnums)
    assert instruction_texts(ops.tuple(x.builder, [free, fixed]))[:2] == [
        "custom-call = f32[1,6,6] custom-call(p0, p1), window={size=3}, dim_labels=b0f_0io->b0f, "
        'custom_call_target="conv"',
        "custom-call.1 = f32[1,6,6] custom-call(p0, p1), window={size=3}, dim_labels=b0f_0io->b0f, "
        'custom_call_target="conv", operand_layout_constraints={f32[1,8,4]{2,1,0}, f32[3,4,6]{2,1,0}}, '
        'custom_call_has_side_effect=true, backend_config="o"',
    ]


def test_refused() -> None:
    (x,) = parameters("f32[2,3]")
    window, dnums = Window.make([3]), ConvDimensions.parse("b0f_0io->b0f")
    with raises(BuilderError, codes.CUSTOM_TARGET, "'$inner'"):
        ops.custom_call(x.builder, "$inner", [x], x.shape)
    with raises(BuilderError, codes.OPERAND_KIND):
        ops.custom_call_with_computation(x.builder, "target", [x], 1, x.shape)  # type: ignore[arg-type]
    with raises(ShapeError, special_codes.OPERAND_LAYOUTS, "operand_layout_constraints"):
        ops.custom_call_with_layout(x.builder, "target", [x], x.shape, [])
    with raises(ShapeError, special_codes.OPERAND_LAYOUTS, "operand 0"):
        bare = x.shape.without_layout()
        ops.custom_call_with_computation_and_layouts(x.builder, "target", [x], negation(), x.shape, [bare])
    with raises(ShapeError, control_codes.ALIAS_PLACE, "{}", "operand 1"):
        ops.custom_call_with_conv_dnums(
            x.builder, "target", [x], x.shape, [], "", False, [((), (1, ()))], None, window, dnums
        )


def test_jaxlib_reads_built_programs() -> None:
    (x,) = parameters("f32[2,3]")
    calls = [
        ops.custom_call(x.builder, "a", [x], x.shape, "{}", True, [((), (0, ()))], Literal.of(1)),
        ops.custom_call_with_computation(x.builder, "b", [x], negation(), x.shape),
        ops.custom_call_with_layout(x.builder, "c", [x], COLUMN_MAJOR, [COLUMN_MAJOR]),
    ]
    text = x.builder.build(ops.tuple(x.builder, calls)).as_hlo_text(print_metadata=False)
    assert xla_reference.parse_and_print(text) == text

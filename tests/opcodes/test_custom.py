"""Shape rule and attributes of custom-call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.opcodes.rules import accepts, programs, read, refused, rewritten, shapes, written
from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Precision, Window
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallSchedule, PaddingType
from xlapy.opcodes.registry import Effect

make = opcodes.CUSTOM_CALL.attributes.make


def constraints(*texts: str) -> dict[str, Any]:
    return {"custom_call_target": "f", "operand_layout_constraints": tuple(shapes(texts))}


def test_any_shape_is_accepted() -> None:
    assert accepts(opcodes.CUSTOM_CALL, "(f32[3], token[])", "s32[]", "(f32[2], token[])", custom_call_target="f")
    pin = {"custom_call_target": "Pin", "output_to_operand_aliasing": (OutputAlias((), 0),)}
    assert accepts(opcodes.CUSTOM_CALL, "b(f32[2])", "f32[2]", **pin)
    assert accepts(opcodes.CUSTOM_CALL, "f32[2]", calls=["() -> f32[]"] * 3, custom_call_target="f")
    assert accepts(opcodes.CUSTOM_CALL, "f32[2,2]{0,1}", "f32[2]", **constraints("f32[2]{0}"))
    assert accepts(
        opcodes.CUSTOM_CALL, "f32[2]", "f32[2]", custom_call_target="LayoutConstraint", operand_layout_constraints=()
    )


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        (constraints(), (codes.OPERAND_LAYOUTS, "operand_layout_constraints")),
        (constraints("f32[3]"), (codes.OPERAND_LAYOUTS, "operand 0", "f32[2]", "f32[3]")),
        (
            {"custom_call_target": "f", "api_version": CustomCallApiVersion.UNSPECIFIED},
            (codes.API_VERSION, "api_version", "API_VERSION_UNSPECIFIED"),
        ),
        (
            {"custom_call_target": "f", "output_to_operand_aliasing": (OutputAlias((), 0, (1,)),)},
            (control_codes.ALIAS_PLACE, "{}", "{1}", "f32[2]"),
        ),
        (
            {"custom_call_target": "f", "output_to_operand_aliasing": (OutputAlias((), 2),)},
            (control_codes.ALIAS_PLACE, "{}", "operand 2"),
        ),
    ],
)
def test_refusals(attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, opcodes.CUSTOM_CALL, "f32[2]", "f32[2]", **attributes)


def test_constraints_need_layouts() -> None:
    bare = Shape.parse("f32[2]").without_layout()
    attributes = make(custom_call_target="f", operand_layout_constraints=(bare,))
    with raises(ShapeError, codes.OPERAND_LAYOUTS, "operand 0"):
        opcodes.CUSTOM_CALL.verify(Shape.parse("f32[2]"), shapes(["f32[2]"]), attributes, programs([]))
    given = make(**constraints("f32[2]"))
    with raises(ShapeError, codes.OPERAND_LAYOUTS, "operand_layout_constraints"):
        opcodes.CUSTOM_CALL.verify(bare, shapes(["f32[2]"]), given, programs([]))


def test_attributes_are_written_in_the_order_of_xla() -> None:
    assert written(opcodes.CUSTOM_CALL, make(custom_call_target="")) == ["custom_call_target"]
    literal = read(opcodes.CUSTOM_CALL, "literal", "s32[2]{0} {1, 2}")
    everything = make(
        custom_call_target="f",
        window=Window.make([2]),
        dim_labels=ConvDimensions.default(1),
        feature_group_count=2,
        batch_group_count=3,
        operand_precision=(Precision.HIGH,),
        padding_type=PaddingType.SAME,
        operand_layout_constraints=(),
        custom_call_has_side_effect=True,
        literal=literal,
        output_to_operand_aliasing=(OutputAlias((), 0),),
        schedule=CustomCallSchedule.LATEST,
        api_version=CustomCallApiVersion.TYPED_FFI,
    )
    assert written(opcodes.CUSTOM_CALL, everything) == [
        "window",
        "dim_labels",
        "feature_group_count",
        "batch_group_count",
        "operand_precision",
        "padding_type",
        "custom_call_target",
        "operand_layout_constraints",
        "custom_call_has_side_effect",
        "literal",
        "output_to_operand_aliasing",
        "schedule",
        "api_version",
    ]


def test_attribute_text() -> None:
    assert rewritten(opcodes.CUSTOM_CALL, "custom_call_target", r'"a\"b"') == r'"a\"b"'
    assert rewritten(opcodes.CUSTOM_CALL, "operand_layout_constraints", "{ f32[2,3]{0,1} , (s32[]) }") == (
        "{f32[2,3]{0,1}, (s32[])}"
    )
    assert rewritten(opcodes.CUSTOM_CALL, "operand_precision", "{high, default}") == "{high,default}"
    assert rewritten(opcodes.CUSTOM_CALL, "literal", "s32[2]{0} {1, 2}") == "s32[2]{0} {1, 2}"
    for key, words in (
        ("schedule", [member.value for member in CustomCallSchedule]),
        ("api_version", [member.value for member in CustomCallApiVersion]),
        ("padding_type", [member.value for member in PaddingType]),
    ):
        assert [rewritten(opcodes.CUSTOM_CALL, key, word) for word in words] == words
    (slot,) = opcodes.CUSTOM_CALL.computation_slots
    assert (slot.key, slot.variadic, slot.optional, slot.aliases) == ("called_computations", True, True, ("to_apply",))


def test_precision_of_default_only_is_dropped() -> None:
    assert opcodes.CUSTOM_CALL.canonicalize_attributes is not None
    plain = make(custom_call_target="f", operand_precision=(Precision.DEFAULT, Precision.DEFAULT))
    mixed = make(custom_call_target="f", operand_precision=(Precision.DEFAULT, Precision.HIGH))
    result = Shape.parse("f32[2]")
    assert opcodes.CUSTOM_CALL.canonicalize_attributes(plain, [], result) == make(custom_call_target="f")
    assert opcodes.CUSTOM_CALL.canonicalize_attributes(mixed, [], result) is mixed


def test_effect() -> None:
    assert opcodes.CUSTOM_CALL.effect_of(make(custom_call_target="f")) is Effect.PURE
    assert (
        opcodes.CUSTOM_CALL.effect_of(make(custom_call_target="f", custom_call_has_side_effect=True))
        is Effect.SIDE_EFFECT
    )


def test_targets_of_xla_itself() -> None:
    assert accepts(opcodes.CUSTOM_CALL, "u64[]", custom_call_target="GetRngSeed")
    for declared, operands in (("u32[]", ()), ("u64[1]", ()), ("u64[]", ("s32[]",))):
        with raises(ShapeError, codes.SEED_TARGET, "u64[]"):
            opcodes.CUSTOM_CALL.verify(Shape.parse(declared), shapes(operands), make(custom_call_target="GetRngSeed"))
    with raises(ShapeError, codes.PIN_ALIAS, "output_to_operand_aliasing"):
        opcodes.CUSTOM_CALL.verify(Shape.parse("b(f32[2])"), shapes(("f32[2]",)), make(custom_call_target="Pin"))

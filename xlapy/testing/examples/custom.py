"""Worked examples and refusals of custom-call. The target of the example returns its operand."""

from __future__ import annotations

from xlapy.base.error_codes.operations import control as control_codes
from xlapy.base.error_codes.operations import special as codes
from xlapy.testing.examples.example import Example, Refusal, Violation

EXAMPLES = [
    Example(
        "custom-call",
        """
        x = f32[3] {1, 2, 3}
        y = f32[3] custom-call(x), custom_call_target="Sharding"
        => f32[3] {1, 2, 3}
        """,
    ),
]


def _refusal(constraint: int, violation: Violation, attributes: str, result: str = "f32[2]{0}") -> Refusal:
    text = f'{result} custom-call(f32[2]), custom_call_target="f", {attributes}'
    return Refusal("custom-call", constraint, text, violation)


REFUSALS = [
    _refusal(1, (codes.API_VERSION, "api_version", "API_VERSION_UNSPECIFIED"), "api_version=API_VERSION_UNSPECIFIED"),
    _refusal(2, (codes.OPERAND_LAYOUTS, "operand_layout_constraints"), "operand_layout_constraints={}"),
    _refusal(2, (codes.OPERAND_LAYOUTS, "operand 0", "f32[2]", "f32[3]"), "operand_layout_constraints={f32[3]{0}}"),
    _refusal(3, (control_codes.ALIAS_PLACE, "operand 1"), "output_to_operand_aliasing={{}: (1, {})}"),
    _refusal(
        3, (control_codes.ALIAS_SHAPES, "f32[3]", "f32[2]"), "output_to_operand_aliasing={{0}: (0, {})}", "(f32[3]{0})"
    ),
    Refusal(
        "custom-call",
        4,
        'b(f32[2]{0}) custom-call(f32[2]{0}), custom_call_target="Pin"',
        (codes.PIN_ALIAS, "output_to_operand_aliasing"),
    ),
    Refusal(
        "custom-call",
        5,
        'u32[] custom-call(), custom_call_target="GetRngSeed"',
        (codes.SEED_TARGET, "u64[]", "() -> u32[]"),
    ),
]

"""Worked examples and refusals of custom-call. The target of the example returns its operand."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal

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


def _refusal(constraint: int, message: str, attributes: str, result: str = "f32[2]{0}") -> Refusal:
    text = f'{result} custom-call(f32[2]), custom_call_target="f", {attributes}'
    return Refusal("custom-call", constraint, text, message)


REFUSALS = [
    _refusal(1, "api_version must not be API_VERSION_UNSPECIFIED", "api_version=API_VERSION_UNSPECIFIED"),
    _refusal(2, "has 1 operands, 0 operand_layout_constraints", "operand_layout_constraints={}"),
    _refusal(2, "operand 0 is f32[2], its layout constraint f32[3]", "operand_layout_constraints={f32[3]{0}}"),
    _refusal(3, "names operand 1, but there are 1 operands", "output_to_operand_aliasing={{}: (1, {})}"),
    _refusal(3, "pairs output f32[3] with operand f32[2]", "output_to_operand_aliasing={{0}: (0, {})}", "(f32[3]{0})"),
    Refusal(
        "custom-call",
        4,
        'b(f32[2]{0}) custom-call(f32[2]{0}), custom_call_target="Pin"',
        "custom-call to Pin needs one output_to_operand_aliasing, given 0",
    ),
    Refusal(
        "custom-call",
        5,
        'u32[] custom-call(), custom_call_target="GetRngSeed"',
        "custom-call to GetRngSeed takes no operands and returns u64[]: () -> u32[]",
    ),
]

"""Cases of the rewrites in `passes/algebra/elementwise.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "add_identity",
        """
        x = s32[3] parameter(0)
        z = s32[] constant(0)
        b = s32[3] broadcast(z), dimensions={}
        ROOT r = s32[3] add(b, x)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "add_identity",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({-0, -0, -0})
        ROOT r = f32[3] add(x, z)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "add_identity",
        """
        x = pred[3] parameter(0)
        z = pred[3] constant({0, 0, 0})
        ROOT r = pred[3] add(x, z)
        """,
        """
        ROOT x = pred[3] parameter(0)
        """,
    ),
    Rewrites(
        "add_negated",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        n = f32[3] negate(y)
        ROOT r = f32[3] add(n, x)
        """,
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT subtract = f32[3] subtract(x, y)
        """,
    ),
    Rewrites(
        "reassociate_constants",
        """
        x = s32[3] parameter(0)
        a = s32[3] constant({1, 2, 3})
        c = s32[] constant(7)
        b = s32[3] broadcast(c), dimensions={}
        s = s32[3] add(a, x)
        ROOT r = s32[3] add(s, b)
        """,
        """
        x = s32[3] parameter(0)
        a = s32[3] constant({1, 2, 3})
        c = s32[] constant(7)
        b = s32[3] broadcast(c), dimensions={}
        add = s32[3] add(a, b)
        ROOT add.1 = s32[3] add(x, add)
        """,
    ),
    Rewrites(
        "reassociate_constants",
        """
        x = u8[2] parameter(0)
        a = u8[2] constant({200, 3})
        b = u8[2] constant({5, 255})
        s = u8[2] multiply(x, a)
        ROOT r = u8[2] multiply(b, s)
        """,
        """
        x = u8[2] parameter(0)
        a = u8[2] constant({200, 3})
        b = u8[2] constant({5, 255})
        multiply = u8[2] multiply(a, b)
        ROOT multiply.1 = u8[2] multiply(x, multiply)
        """,
    ),
    Rewrites(
        "subtract_zero",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] subtract(x, z)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "subtract_from_itself",
        """
        x = s8[3] parameter(0)
        ROOT r = s8[3] subtract(x, x)
        """,
        """
        x = s8[3] parameter(0)
        constant = s8[] constant(0)
        ROOT broadcast = s8[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "subtract_from_zero",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({-0, -0, -0})
        ROOT r = f32[3] subtract(z, x)
        """,
        """
        x = f32[3] parameter(0)
        ROOT negate = f32[3] negate(x)
        """,
    ),
    Rewrites(
        "subtract_from_zero",
        """
        x = s32[3] parameter(0)
        z = s32[3] constant({0, 0, 0})
        ROOT r = s32[3] subtract(z, x)
        """,
        """
        x = s32[3] parameter(0)
        ROOT negate = s32[3] negate(x)
        """,
    ),
    Rewrites(
        "subtract_negated",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        n = f32[3] negate(y)
        ROOT r = f32[3] subtract(x, n)
        """,
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT add = f32[3] add(x, y)
        """,
    ),
    Rewrites(
        "negate_of_negate",
        """
        x = f32[3] parameter(0)
        n = f32[3] negate(x)
        ROOT r = f32[3] negate(n)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "negate_of_subtract",
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        d = s32[3] subtract(x, y)
        ROOT r = s32[3] negate(d)
        """,
        """
        y = s32[3] parameter(1)
        x = s32[3] parameter(0)
        ROOT subtract = s32[3] subtract(y, x)
        """,
    ),
    Rewrites(
        "multiply_by_zero_one_or_minus_one",
        """
        x = f32[3] parameter(0)
        o = f32[] constant(1)
        b = f32[3] broadcast(o), dimensions={}
        ROOT r = f32[3] multiply(b, x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "multiply_by_zero_one_or_minus_one",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({0, 0, 0})
        ROOT r = s32[3] multiply(x, o)
        """,
        """
        x = s32[3] parameter(0)
        ROOT o = s32[3] constant({0, 0, 0})
        """,
    ),
    Rewrites(
        "multiply_by_zero_one_or_minus_one",
        """
        x = bf16[3] parameter(0)
        o = bf16[3] constant({-1, -1, -1})
        ROOT r = bf16[3] multiply(x, o)
        """,
        """
        x = bf16[3] parameter(0)
        ROOT negate = bf16[3] negate(x)
        """,
    ),
    Rewrites(
        "multiply_by_zero_one_or_minus_one",
        """
        x = pred[3] parameter(0)
        o = pred[3] constant({1, 1, 1})
        ROOT r = pred[3] multiply(o, x)
        """,
        """
        ROOT x = pred[3] parameter(0)
        """,
    ),
    Rewrites(
        "divide_by_one",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({1, 1, 1})
        ROOT r = f32[3] divide(x, o)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "divide_float_by_power_of_two",
        """
        x = f32[3] parameter(0)
        o = f32[] constant(-8)
        b = f32[3] broadcast(o), dimensions={}
        ROOT r = f32[3] divide(x, b)
        """,
        """
        x = f32[3] parameter(0)
        constant = f32[] constant(-0.125)
        broadcast = f32[3] broadcast(constant), dimensions={}
        ROOT multiply = f32[3] multiply(x, broadcast)
        """,
    ),
    Rewrites(
        "divide_float_by_power_of_two",
        """
        x = f16[3] parameter(0)
        o = f16[3] constant({0.25, 0.25, 0.25})
        ROOT r = f16[3] divide(x, o)
        """,
        """
        x = f16[3] parameter(0)
        constant = f16[] constant(4)
        broadcast = f16[3] broadcast(constant), dimensions={}
        ROOT multiply = f16[3] multiply(x, broadcast)
        """,
    ),
    Rewrites(
        "unsigned_divide_or_remainder_by_power_of_two",
        """
        x = u32[3] parameter(0)
        o = u32[] constant(8)
        b = u32[3] broadcast(o), dimensions={}
        ROOT r = u32[3] divide(x, b)
        """,
        """
        x = u32[3] parameter(0)
        constant = u32[] constant(3)
        broadcast = u32[3] broadcast(constant), dimensions={}
        ROOT shift-right-logical = u32[3] shift-right-logical(x, broadcast)
        """,
    ),
    Rewrites(
        "unsigned_divide_or_remainder_by_power_of_two",
        """
        x = u8[3] parameter(0)
        o = u8[3] constant({128, 128, 128})
        ROOT r = u8[3] remainder(x, o)
        """,
        """
        x = u8[3] parameter(0)
        constant = u8[] constant(127)
        broadcast = u8[3] broadcast(constant), dimensions={}
        ROOT and = u8[3] and(x, broadcast)
        """,
    ),
    Rewrites(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({1, 1, 1})
        ROOT r = f32[3] power(x, o)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({2, 2, 2})
        ROOT r = f32[3] power(x, o)
        """,
        """
        x = f32[3] parameter(0)
        ROOT multiply = f32[3] multiply(x, x)
        """,
    ),
    Rewrites(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({-1, -1, -1})
        ROOT r = f32[3] power(x, o)
        """,
        """
        constant = f32[] constant(1)
        broadcast = f32[3] broadcast(constant), dimensions={}
        x = f32[3] parameter(0)
        ROOT divide = f32[3] divide(broadcast, x)
        """,
    ),
    Rewrites(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({-0, -0, -0})
        ROOT r = f32[3] power(x, o)
        """,
        """
        x = f32[3] parameter(0)
        constant = f32[] constant(1)
        ROOT broadcast = f32[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({2, 2, 2})
        ROOT r = s32[3] power(x, o)
        """,
        """
        x = s32[3] parameter(0)
        ROOT multiply = s32[3] multiply(x, x)
        """,
    ),
    Rewrites(
        "bitwise_with_all_zeros_or_ones",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({0, 0, 0})
        ROOT r = s32[3] and(x, o)
        """,
        """
        x = s32[3] parameter(0)
        ROOT o = s32[3] constant({0, 0, 0})
        """,
    ),
    Rewrites(
        "bitwise_with_all_zeros_or_ones",
        """
        x = u8[3] parameter(0)
        o = u8[3] constant({255, 255, 255})
        ROOT r = u8[3] or(x, o)
        """,
        """
        x = u8[3] parameter(0)
        ROOT o = u8[3] constant({255, 255, 255})
        """,
    ),
    Rewrites(
        "bitwise_with_all_zeros_or_ones",
        """
        x = u8[3] parameter(0)
        o = u8[3] constant({255, 255, 255})
        ROOT r = u8[3] xor(o, x)
        """,
        """
        x = u8[3] parameter(0)
        ROOT not = u8[3] not(x)
        """,
    ),
    Rewrites(
        "bitwise_with_all_zeros_or_ones",
        """
        x = pred[3] parameter(0)
        o = pred[3] constant({1, 1, 1})
        ROOT r = pred[3] and(o, x)
        """,
        """
        ROOT x = pred[3] parameter(0)
        """,
    ),
    Rewrites(
        "idempotent_operation_of_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] maximum(x, x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "idempotent_operation_of_itself",
        """
        x = s32[3] parameter(0)
        ROOT r = s32[3] and(x, x)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "xor_of_itself",
        """
        x = s32[3] parameter(0)
        ROOT r = s32[3] xor(x, x)
        """,
        """
        x = s32[3] parameter(0)
        constant = s32[] constant(0)
        ROOT broadcast = s32[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "absorb_nested_bitwise_operand",
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        o = s32[3] or(y, x)
        ROOT r = s32[3] and(x, o)
        """,
        """
        ROOT x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        """,
    ),
    Rewrites(
        "absorb_nested_bitwise_operand",
        """
        x = pred[3] parameter(0)
        y = pred[3] parameter(1)
        o = pred[3] or(y, x)
        ROOT r = pred[3] or(o, x)
        """,
        """
        y = pred[3] parameter(1)
        x = pred[3] parameter(0)
        ROOT o = pred[3] or(y, x)
        """,
    ),
    Rewrites(
        "not_of_not",
        """
        x = s32[3] parameter(0)
        n = s32[3] not(x)
        ROOT r = s32[3] not(n)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "shift_by_zero_or_at_least_width",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({0, 0, 0})
        ROOT r = s32[3] shift-left(x, o)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "shift_by_zero_or_at_least_width",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({8, 8, 8})
        ROOT r = s8[3] shift-right-logical(x, o)
        """,
        """
        x = s8[3] parameter(0)
        constant = s8[] constant(0)
        ROOT broadcast = s8[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "shift_by_zero_or_at_least_width",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({-1, -1, -1})
        ROOT r = s8[3] shift-left(x, o)
        """,
        """
        x = s8[3] parameter(0)
        constant = s8[] constant(0)
        ROOT broadcast = s8[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "maximum_or_minimum_with_type_limit",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({-inf, -inf, -inf})
        ROOT r = f32[3] maximum(o, x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "maximum_or_minimum_with_type_limit",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({-128, -128, -128})
        ROOT r = s8[3] minimum(x, o)
        """,
        """
        x = s8[3] parameter(0)
        ROOT o = s8[3] constant({-128, -128, -128})
        """,
    ),
    Rewrites(
        "maximum_or_minimum_with_type_limit",
        """
        x = u8[3] parameter(0)
        o = u8[3] constant({255, 255, 255})
        ROOT r = u8[3] minimum(x, o)
        """,
        """
        ROOT x = u8[3] parameter(0)
        """,
    ),
    Rewrites(
        "maximum_or_minimum_of_predicates",
        """
        x = pred[3] parameter(0)
        y = pred[3] parameter(1)
        ROOT r = pred[3] maximum(x, y)
        """,
        """
        x = pred[3] parameter(0)
        y = pred[3] parameter(1)
        ROOT or = pred[3] or(x, y)
        """,
    ),
    Rewrites(
        "abs_of_negate_or_abs",
        """
        x = f32[3] parameter(0)
        n = f32[3] negate(x)
        ROOT r = f32[3] abs(n)
        """,
        """
        x = f32[3] parameter(0)
        ROOT abs = f32[3] abs(x)
        """,
    ),
    Rewrites(
        "abs_of_negate_or_abs",
        """
        x = c64[3] parameter(0)
        n = c64[3] negate(x)
        ROOT r = f32[3] abs(n)
        """,
        """
        x = c64[3] parameter(0)
        ROOT abs = f32[3] abs(x)
        """,
    ),
    Rewrites(
        "abs_of_negate_or_abs",
        """
        x = s8[3] parameter(0)
        n = s8[3] abs(x)
        ROOT r = s8[3] abs(n)
        """,
        """
        x = s8[3] parameter(0)
        ROOT n = s8[3] abs(x)
        """,
    ),
    Rewrites(
        "round_of_rounded",
        """
        x = f32[3] parameter(0)
        n = f32[3] ceil(x)
        ROOT r = f32[3] round-nearest-even(n)
        """,
        """
        x = f32[3] parameter(0)
        ROOT n = f32[3] ceil(x)
        """,
    ),
    Rewrites(
        "clamp_of_clamp",
        """
        l = f32[] parameter(0)
        x = f32[3] parameter(1)
        h = f32[] parameter(2)
        c = f32[3] clamp(l, x, h)
        ROOT r = f32[3] clamp(l, c, h)
        """,
        """
        l = f32[] parameter(0)
        x = f32[3] parameter(1)
        h = f32[] parameter(2)
        ROOT c = f32[3] clamp(l, x, h)
        """,
    ),
    Rewrites(
        "real_or_imag_of_complex_or_real",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        c = c64[3] complex(x, y)
        ROOT r = f32[3] imag(c)
        """,
        """
        x = f32[3] parameter(0)
        ROOT y = f32[3] parameter(1)
        """,
    ),
    Rewrites(
        "real_or_imag_of_complex_or_real",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] real(x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "complex_of_real_and_imag",
        """
        x = c64[3] parameter(0)
        a = f32[3] real(x)
        b = f32[3] imag(x)
        ROOT r = c64[3] complex(a, b)
        """,
        """
        ROOT x = c64[3] parameter(0)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "add_identity",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] add(x, z)
        """,
    ),
    NoMatch(
        "add_identity",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({-0, 0, -0})
        ROOT r = f32[3] add(x, z)
        """,
    ),
    NoMatch(
        "add_identity",
        """
        x = c64[3] parameter(0)
        z = c64[] constant((0, 0))
        b = c64[3] broadcast(z), dimensions={}
        ROOT r = c64[3] add(x, b)
        """,
    ),
    NoMatch(
        "add_negated",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        n = f32[3] abs(y)
        ROOT r = f32[3] add(n, x)
        """,
    ),
    NoMatch(
        "reassociate_constants",
        """
        x = f32[3] parameter(0)
        a = f32[3] constant({1, 2, 3})
        b = f32[3] constant({5, 6, 7})
        s = f32[3] add(x, a)
        ROOT r = f32[3] add(s, b)
        """,
    ),
    NoMatch(
        "reassociate_constants",
        """
        a = s32[3] constant({1, 2, 3})
        b = s32[3] constant({5, 6, 7})
        s = s32[3] add(a, a)
        ROOT r = s32[3] add(s, b)
        """,
    ),
    NoMatch(
        "subtract_zero",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({-0, -0, -0})
        ROOT r = f32[3] subtract(x, z)
        """,
    ),
    NoMatch(
        "subtract_from_itself",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({-0, -0, -0})
        ROOT r = f32[3] subtract(x, z)
        """,
    ),
    NoMatch(
        "subtract_zero",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] subtract(x, x)
        """,
    ),
    NoMatch(
        "subtract_from_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] subtract(x, x)
        """,
    ),
    NoMatch(
        "subtract_negated",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] subtract(z, x)
        """,
    ),
    NoMatch(
        "subtract_from_zero",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] subtract(z, x)
        """,
    ),
    NoMatch(
        "negate_of_negate",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        d = f32[3] subtract(x, y)
        ROOT r = f32[3] negate(d)
        """,
    ),
    NoMatch(
        "negate_of_subtract",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        d = f32[3] subtract(x, y)
        ROOT r = f32[3] negate(d)
        """,
    ),
    NoMatch(
        "multiply_by_zero_one_or_minus_one",
        """
        x = f32[3] parameter(0)
        z = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] multiply(x, z)
        """,
    ),
    NoMatch(
        "multiply_by_zero_one_or_minus_one",
        """
        x = c64[3] parameter(0)
        z = c64[] constant((1, 0))
        b = c64[3] broadcast(z), dimensions={}
        ROOT r = c64[3] multiply(x, b)
        """,
    ),
    NoMatch(
        "divide_by_one",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({3, 3, 3})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_float_by_power_of_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({3, 3, 3})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_by_one",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_float_by_power_of_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({0, 0, 0})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_by_one",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({1e-38, 1e-38, 1e-38})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_float_by_power_of_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({1e-38, 1e-38, 1e-38})
        ROOT r = f32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_by_one",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({4, 4, 4})
        ROOT r = s32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "divide_float_by_power_of_two",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({4, 4, 4})
        ROOT r = s32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "unsigned_divide_or_remainder_by_power_of_two",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({4, 4, 4})
        ROOT r = s32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "unsigned_divide_or_remainder_by_power_of_two",
        """
        x = u32[3] parameter(0)
        o = u32[3] constant({6, 6, 6})
        ROOT r = u32[3] remainder(x, o)
        """,
    ),
    NoMatch(
        "unsigned_divide_or_remainder_by_power_of_two",
        """
        x = u32[3] parameter(0)
        o = u32[3] constant({0, 0, 0})
        ROOT r = u32[3] divide(x, o)
        """,
    ),
    NoMatch(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({0.5, 0.5, 0.5})
        ROOT r = f32[3] power(x, o)
        """,
    ),
    NoMatch(
        "power_with_exponent_of_minus_one_to_two",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({-1, -1, -1})
        ROOT r = s32[3] power(x, o)
        """,
    ),
    NoMatch(
        "bitwise_with_all_zeros_or_ones",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({1, 1, 1})
        ROOT r = s32[3] and(x, o)
        """,
    ),
    NoMatch(
        "bitwise_with_all_zeros_or_ones",
        """
        x = s32[3] parameter(0)
        o = s32[3] constant({0, -1, 0})
        ROOT r = s32[3] or(x, o)
        """,
    ),
    NoMatch(
        "idempotent_operation_of_itself",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT r = f32[3] maximum(x, y)
        """,
    ),
    NoMatch(
        "xor_of_itself",
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        ROOT r = s32[3] xor(x, y)
        """,
    ),
    NoMatch(
        "absorb_nested_bitwise_operand",
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        o = s32[3] xor(y, x)
        ROOT r = s32[3] and(x, o)
        """,
    ),
    NoMatch(
        "not_of_not",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        c = pred[3] compare(x, y), direction=LT
        ROOT r = pred[3] not(c)
        """,
    ),
    NoMatch(
        "shift_by_zero_or_at_least_width",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({8, 8, 8})
        ROOT r = s8[3] shift-right-arithmetic(x, o)
        """,
    ),
    NoMatch(
        "shift_by_zero_or_at_least_width",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({7, 7, 7})
        ROOT r = s8[3] shift-left(x, o)
        """,
    ),
    NoMatch(
        "maximum_or_minimum_of_predicates",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({inf, inf, inf})
        ROOT r = f32[3] maximum(x, o)
        """,
    ),
    NoMatch(
        "maximum_or_minimum_with_type_limit",
        """
        x = f32[3] parameter(0)
        o = f32[3] constant({inf, inf, inf})
        ROOT r = f32[3] maximum(x, o)
        """,
    ),
    NoMatch(
        "maximum_or_minimum_of_predicates",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({-127, -127, -127})
        ROOT r = s8[3] maximum(x, o)
        """,
    ),
    NoMatch(
        "maximum_or_minimum_with_type_limit",
        """
        x = s8[3] parameter(0)
        o = s8[3] constant({-127, -127, -127})
        ROOT r = s8[3] maximum(x, o)
        """,
    ),
    NoMatch(
        "abs_of_negate_or_abs",
        """
        x = f32[3] parameter(0)
        n = f32[3] sign(x)
        ROOT r = f32[3] abs(n)
        """,
    ),
    NoMatch(
        "round_of_rounded",
        """
        x = f32[3] parameter(0)
        n = f32[3] negate(x)
        ROOT r = f32[3] floor(n)
        """,
    ),
    NoMatch(
        "clamp_of_clamp",
        """
        l = f32[] parameter(0)
        x = f32[3] parameter(1)
        h = f32[] parameter(2)
        c = f32[3] clamp(h, x, l)
        ROOT r = f32[3] clamp(l, c, h)
        """,
    ),
    NoMatch(
        "real_or_imag_of_complex_or_real",
        """
        x = c64[3] parameter(0)
        ROOT r = f32[3] real(x)
        """,
    ),
    NoMatch(
        "real_or_imag_of_complex_or_real",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] imag(x)
        """,
    ),
    NoMatch(
        "complex_of_real_and_imag",
        """
        x = c64[3] parameter(0)
        a = f32[3] real(x)
        b = f32[3] imag(x)
        ROOT r = c64[3] complex(b, a)
        """,
    ),
]

"""Cases of the rewrites in `passes/algebra/conversion.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "convert_to_same_type",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] convert(x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = bf16[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s8[3] convert(a)
        """,
        """
        x = bf16[3] parameter(0)
        ROOT convert = s8[3] convert(x)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = s32[3] parameter(0)
        a = f64[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = pred[3] parameter(0)
        a = s8[3] convert(x)
        ROOT r = f32[3] convert(a)
        """,
        """
        x = pred[3] parameter(0)
        ROOT convert = f32[3] convert(x)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = u8[3] parameter(0)
        a = bf16[3] convert(x)
        ROOT r = f32[3] convert(a)
        """,
        """
        x = u8[3] parameter(0)
        ROOT convert = f32[3] convert(x)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = u8[3] parameter(0)
        a = s16[3] convert(x)
        ROOT r = u32[3] convert(a)
        """,
        """
        x = u8[3] parameter(0)
        ROOT convert = u32[3] convert(x)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = c64[3] parameter(0)
        a = c128[3] convert(x)
        ROOT r = c64[3] convert(a)
        """,
        """
        ROOT x = c64[3] parameter(0)
        """,
    ),
    Rewrites(
        "convert_of_convert",
        """
        x = s8[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s16[3] convert(a)
        """,
        """
        x = s8[3] parameter(0)
        ROOT convert = s16[3] convert(x)
        """,
    ),
    Rewrites(
        "bitcast_convert_to_same_type_or_of_bitcast_convert",
        """
        x = f32[3] parameter(0)
        a = s32[3] bitcast-convert(x)
        ROOT r = f32[3] bitcast-convert(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "bitcast_convert_to_same_type_or_of_bitcast_convert",
        """
        x = f32[3] parameter(0)
        a = s32[3] bitcast-convert(x)
        ROOT r = u32[3] bitcast-convert(a)
        """,
        """
        x = f32[3] parameter(0)
        ROOT bitcast-convert = u32[3] bitcast-convert(x)
        """,
    ),
    Rewrites(
        "bitcast_convert_to_same_type_or_of_bitcast_convert",
        """
        x = f32[3] parameter(0)
        a = u8[3,4] bitcast-convert(x)
        ROOT r = f32[3] bitcast-convert(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "bitcast_convert_to_same_type_or_of_bitcast_convert",
        """
        x = s32[3] parameter(0)
        ROOT r = s32[3] bitcast-convert(x)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Rewrites(
        "real_of_convert",
        """
        x = f32[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] real(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Rewrites(
        "real_of_convert",
        """
        x = f32[3] parameter(0)
        a = c128[3] convert(x)
        ROOT r = f64[3] real(a)
        """,
        """
        x = f32[3] parameter(0)
        ROOT convert = f64[3] convert(x)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(  # negative numbers become 0, not their low bits
        "convert_of_convert",
        """
        x = s8[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = u16[3] convert(a)
        """,
    ),
    NoMatch(
        "convert_of_convert",
        """
        x = s16[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s8[3] convert(a)
        """,
    ),
    NoMatch(
        "convert_to_same_type",
        """
        x = f32[3] parameter(0)
        ROOT r = s32[3] convert(x)
        """,
    ),
    NoMatch(
        "convert_of_convert",
        """
        x = s32[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
    ),
    NoMatch(
        "convert_of_convert",
        """
        x = f16[3] parameter(0)
        a = bf16[3] convert(x)
        ROOT r = f16[3] convert(a)
        """,
    ),
    NoMatch(
        "convert_of_convert",
        """
        x = s8[3] parameter(0)
        a = u8[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
    ),
    NoMatch(
        "convert_of_convert",
        """
        x = f32[3] parameter(0)
        a = s64[3] convert(x)
        ROOT r = f32[3] convert(a)
        """,
    ),
    NoMatch(
        "bitcast_convert_to_same_type_or_of_bitcast_convert",
        """
        x = f32[3] parameter(0)
        a = u8[3,4] bitcast-convert(x)
        ROOT r = s8[3,4] bitcast-convert(a)
        """,
    ),
    NoMatch(
        "real_of_convert",
        """
        x = f32[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] imag(a)
        """,
    ),
    NoMatch(
        "real_of_convert",
        """
        x = f64[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] real(a)
        """,
    ),
]

"""Cases of the rewrites in `passes/algebra/conversion.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import Fires, Rests

FIRES = [
    Fires(
        "convert_to_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] convert(x)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Fires(
        "convert_twice",
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
    Fires(
        "convert_twice",
        """
        x = s32[3] parameter(0)
        a = f64[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Fires(
        "convert_twice",
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
    Fires(
        "convert_twice",
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
    Fires(
        "convert_twice",
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
    Fires(
        "convert_twice",
        """
        x = c64[3] parameter(0)
        a = c128[3] convert(x)
        ROOT r = c64[3] convert(a)
        """,
        """
        ROOT x = c64[3] parameter(0)
        """,
    ),
    Fires(
        "convert_twice",
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
    Fires(
        "bitcast_convert_twice",
        """
        x = f32[3] parameter(0)
        a = s32[3] bitcast-convert(x)
        ROOT r = f32[3] bitcast-convert(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Fires(
        "bitcast_convert_twice",
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
    Fires(
        "bitcast_convert_twice",
        """
        x = f32[3] parameter(0)
        a = u8[3,4] bitcast-convert(x)
        ROOT r = f32[3] bitcast-convert(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Fires(
        "bitcast_convert_twice",
        """
        x = s32[3] parameter(0)
        ROOT r = s32[3] bitcast-convert(x)
        """,
        """
        ROOT x = s32[3] parameter(0)
        """,
    ),
    Fires(
        "part_of_converted",
        """
        x = f32[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] real(a)
        """,
        """
        ROOT x = f32[3] parameter(0)
        """,
    ),
    Fires(
        "part_of_converted",
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

RESTS = [
    Rests(  # negative numbers become 0, not their low bits
        "convert_twice",
        """
        x = s8[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = u16[3] convert(a)
        """,
    ),
    Rests(
        "convert_twice",
        """
        x = s16[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s8[3] convert(a)
        """,
    ),
    Rests(
        "convert_to_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = s32[3] convert(x)
        """,
    ),
    Rests(
        "convert_twice",
        """
        x = s32[3] parameter(0)
        a = f32[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
    ),
    Rests(
        "convert_twice",
        """
        x = f16[3] parameter(0)
        a = bf16[3] convert(x)
        ROOT r = f16[3] convert(a)
        """,
    ),
    Rests(
        "convert_twice",
        """
        x = s8[3] parameter(0)
        a = u8[3] convert(x)
        ROOT r = s32[3] convert(a)
        """,
    ),
    Rests(
        "convert_twice",
        """
        x = f32[3] parameter(0)
        a = s64[3] convert(x)
        ROOT r = f32[3] convert(a)
        """,
    ),
    Rests(
        "bitcast_convert_twice",
        """
        x = f32[3] parameter(0)
        a = u8[3,4] bitcast-convert(x)
        ROOT r = s8[3,4] bitcast-convert(a)
        """,
    ),
    Rests(
        "part_of_converted",
        """
        x = f32[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] imag(a)
        """,
    ),
    Rests(
        "part_of_converted",
        """
        x = f64[3] parameter(0)
        a = c64[3] convert(x)
        ROOT r = f32[3] real(a)
        """,
    ),
]

"""Expansion of shuffles and bitcasts."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_unchanged, program, rewritten


def test_a_rotation_swaps_two_slices():
    text = program("p = f32[4] parameter(0)", "ROOT r = f32[4] shuffle(p), dimensions={0}, mode=rotate, shifts={5}")
    assert rewritten(text, "expand{ops=shuffle}").splitlines()[1:] == [
        "slice = f32[3] slice(p), slice={[1:4]}",
        "slice.1 = f32[1] slice(p), slice={[0:1]}",
        "ROOT concatenate = f32[4] concatenate(slice, slice.1), dimensions={0}",
    ]


@pytest.mark.parametrize(
    "pair",
    [
        ("f32[2,3]{0,1}", "u8[3,8]{0,1}"),
        ("u8[2,3,4]{0,2,1}", "u64[3]{0}"),
        ("f64[3]{0}", "bf16[2,6]{0,1}"),
        ("s4[2,4]{0,1:E(4)}", "u16[2]{0}"),
        ("u32[1]{0}", "u2[16]{0:E(2)}"),
        ("f32[]", "s8[4]{0}"),
        ("f32[0,3]{1,0}", "s16[6,0]{0,1}"),
    ],
)
def test_bytes_are_read_as_other_elements(pair):
    source, result = pair
    text = program(f"p = {source} parameter(0)", f"ROOT r = {result} bitcast(p)")
    assert "bitcast(" not in rewritten(text, "expand{ops=bitcast}")


def test_bytes_that_are_not_whole_elements_stay():
    assert_unchanged(program("p = s4[4]{0} parameter(0)", "ROOT r = s8[4]{0} bitcast(p)"), "expand{ops=bitcast}")

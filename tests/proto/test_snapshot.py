"""Snapshots: programs with the arguments and the result of a run."""

from __future__ import annotations

import numpy as np

import xlapy
from tests.proto.modules import whole
from xlapy.proto import Snapshot


def test_round_trip():
    module = xlapy.parse_hlo("HloModule m\nENTRY e { p = f32[2] parameter(0)\n ROOT n = f32[2] negate(p) }")
    argument = xlapy.Literal.array_of(np.array([1, -2], np.float32))
    read = Snapshot.from_proto(Snapshot(module, (argument,), xlapy.Literal.array_of(-argument.array), "cpu").to_proto())
    assert whole(read.module) == whole(module)
    assert read.platform == "cpu"
    np.testing.assert_array_equal(read.arguments[0].array, [1, -2])
    assert read.result is not None
    np.testing.assert_array_equal(read.result.array, [-1, 2])


def test_without_result():
    module = xlapy.parse_hlo("HloModule m\nENTRY e { ROOT c = s32[] constant(3) }")
    read = Snapshot.from_proto(Snapshot(module).to_proto())
    assert read.result is None
    assert read.arguments == ()

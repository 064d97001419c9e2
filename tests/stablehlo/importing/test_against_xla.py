"""StableHLO programs compute the same on the interpreter and the CPU compiler as on XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.stablehlo.importing.runner import assert_matches_xla
from xlapy.testing.stablehlo.programs import PROGRAMS, function

_OWN_ARGUMENTS = {
    "one value in a loop": [np.int32(3)],
    "random bits": [np.array([1, 2], np.uint64)],
    "operations on integers": [np.array([7, -7, 0, 5, -128], np.int32), np.array([2, 3, 1, 31, 33], np.int32)],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    platforms = ["interpreter"] if name.startswith("functions of") else ["interpreter", "cpu"]
    assert_matches_xla(PROGRAMS[name], _OWN_ARGUMENTS.get(name), platforms)


def _chlo(signature: str, body: str, type_: str) -> str:
    return function(signature, type_, f"%0 = chlo.{body} -> {type_}\nreturn %0 : {type_}")


_POINTS = [-30.5, -7.25, -3.0, -0.5, -1e-3, 0.0, 0.25, 0.5, 1.0, 2.0, 4.5, 20.25, 150.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfc", "bessel_i1e", "erf_inv"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_special_functions(name: str, kind: type[np.floating]) -> None:
    x = np.array(_POINTS, kind) / (200 if name == "erf_inv" else 1)
    type_ = f"tensor<{x.size}xf{8 * x.itemsize}>"
    assert_matches_xla(_chlo(f"%x: {type_}", f"{name} %x : {type_}", type_), [x], ["interpreter"])


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("next_after", [1.0, 1.0, 0.0, -0.0, 2.0, np.inf, np.nan, 5.0], [2.0, 0.0, -1.0, 0.0, 2.0, 0.0, 1.0, np.inf]),
        ("zeta", [2.0, 3.5, 1.0, 0.5, 4.0, 2.0, 3.0, 60.0], [1.0, 2.25, 3.0, 1.0, -2.0, -1.5, 0.0, 4.0]),
        ("polygamma", [0.0, 1.0, 2.0, 3.0, 1.5, -1.0, 4.0, 1.0], [1.5, 2.5, 0.25, 4.0, 1.0, 2.0, 10.0, -0.5]),
    ],
)
def test_binary_special_functions(name: str, x: list[float], y: list[float]) -> None:
    type_ = "tensor<8xf32>"
    text = _chlo(f"%x: {type_}, %y: {type_}", f"{name} %x, %y : {type_}, {type_}", type_)
    assert_matches_xla(text, [np.array(x, np.float32), np.array(y, np.float32)], ["interpreter"])


@pytest.mark.parametrize("name", ["is_inf", "is_pos_inf", "is_neg_inf"])
def test_infinities(name: str) -> None:
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4xi1>",
        f"%0 = chlo.{name} %x : tensor<4xf32> -> tensor<4xi1>\nreturn %0 : tensor<4xi1>",
    )
    assert_matches_xla(text, [np.array([1, np.inf, -np.inf, np.nan], np.float32)], ["interpreter"])


@pytest.mark.parametrize(
    ("name", "lhs", "rhs", "dimensions", "result"),
    [
        ("add", "2x1x3", "4x1", "", "2x4x3"),
        ("multiply", "3", "2x3", "array<i64: 1>", "2x3"),
        ("power", "", "2x3", "", "2x3"),
        ("zeta", "3", "2x3", "", "2x3"),
        ("next_after", "2x3", "3", "", "2x3"),
    ],
)
def test_broadcasting(name: str, lhs: str, rhs: str, dimensions: str, result: str) -> None:
    types = [f"tensor<{sizes}{'x' if sizes else ''}f32>" for sizes in (lhs, rhs, result)]
    attributes = f"<{{broadcast_dimensions = {dimensions}}}>" if dimensions else ""
    body = f'%0 = "chlo.broadcast_{name}"(%x, %y) {attributes} : ({types[0]}, {types[1]}) -> {types[2]}'
    assert_matches_xla(function(f"%x: {types[0]}, %y: {types[1]}", types[2], f"{body}\nreturn %0 : {types[2]}"))

"""Every script in examples/ runs in its own process and prints the expected output."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))

EXPECTED = {
    "build_and_run": ["ENTRY %axpy", "[[12. 24. 36.]\n [18. 30. 42.]]", "refused: parameter 2 (y) takes f32[3]"],
    "read_hlo": ["subtract(a, b), read by absolute", "ROOT %square = f32[4]{0} multiply", "after: [9. 1. 1. 4.]"],
    "while_loop": ["square root of 2: 1.414214", "square root of 1e+06: 1000", "square root of -1: nan"],
    "numpy_backend": [
        "divide(%exponential, %add)",
        "as on the interpreter: True",
        "refused: iota does not run on numpy",
    ],
    "from_jax": ["dot", "largest difference from JAX:"],
    "from_export": [
        "refused: ",
        "f32[3,4]) -> f32[3,4]",
        "[[-4. -4. -4. -4.]",
        "stablehlo.subtract",
        "as HloModuleProto",
    ],
    "from_pytorch": [
        "124 instructions: f32[2,7,50]",
        "most likely words: 40 49 33 9 2 33 29\nas PyTorch says:   40 49",
    ],
    "pass_in_xla": ["sums rounded by a pass inside XLA", "mean: 0.500000 with sums in float32, 0.49"],
}


def test_every_script_is_tested():
    assert {script.stem for script in SCRIPTS} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_script_prints_the_expected_output(name: str):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for piece in EXPECTED[name]:
        assert piece in done.stdout


def test_the_numpy_backend_broadcasts_dimensions_in_any_order() -> None:
    runpy.run_path(str(ROOT / "examples" / "numpy_backend.py"))
    text = "HloModule m ENTRY e { x = f32[2,3] parameter(0)  ROOT b = f32[3,1,2] broadcast(x), dimensions={2,0} }"
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    result = np.asarray(xla.Client("numpy").compile(text)(x))
    assert result.tolist() == [[[1, 4]], [[2, 5]], [[3, 6]]]

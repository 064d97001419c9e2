"""The dtype that stands in for one that ml_dtypes does not have: it has the values of ml_dtypes for formats of both.

Runs in a process of its own, because NumPy keeps a dtype until the process ends.
"""

from __future__ import annotations

import subprocess
import sys

from tests.documents.pages import ROOT

PROGRAM = """
import pickle

import ml_dtypes
import numpy as np

from tests.documents.float_dtype import make_dtype
from xlapy.base.element_types import F8E3M4, F8E4M3FN, F8E5M2

codes = np.arange(256, dtype=np.uint8)
rng = np.random.default_rng(0)
x = (rng.standard_normal(10_000) * np.exp(rng.uniform(-12, 12, 10_000))).astype(np.float32)
x = np.concatenate([x, np.float32([0, -0.0, np.nan, np.inf, -np.inf])])
for t in (F8E3M4, F8E4M3FN, F8E5M2):
    dtype = np.dtype(make_dtype(f"copy_of_{t}", t.float_format))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(codes.view(dtype).astype(np.float32), codes.view(t.dtype).astype(np.float32))
        mine, theirs = x.astype(dtype), x.astype(t.dtype)
        number = ~np.isnan(theirs.astype(np.float32))
        np.testing.assert_array_equal(mine.view(np.uint8)[number], theirs.view(np.uint8)[number])
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))
        np.testing.assert_array_equal(mine.astype(ml_dtypes.bfloat16).view(np.uint16)[number],
                                      theirs.astype(ml_dtypes.bfloat16).view(np.uint16)[number])
        np.testing.assert_array_equal(mine[:-1] < mine[1:], theirs[:-1] < theirs[1:])
    element = mine[0]
    assert np.asarray(element).dtype == dtype and float(element) == float(theirs[0])
    assert np.concatenate([mine[::2], mine[1::2]]).dtype == dtype
    assert pickle.loads(pickle.dumps(mine)).tobytes() == mine.tobytes()
print("done")
"""


def test_it_computes_as_ml_dtypes() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr

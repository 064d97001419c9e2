"""`import xlapy` loads little, and other modules are loaded when they are first used."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import xlapy
import xlapy.base
import xlapy.runtime

ROOT = Path(__file__).resolve().parents[1]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_takes_little_time():
    """Importing xlapy takes at most 150 ms more than importing NumPy."""
    code = "import time, numpy; start = time.perf_counter(); import xlapy; print(time.perf_counter() - start)"
    assert statistics.median(float(run(code)) for _ in range(5)) < 0.15


@pytest.mark.parametrize("module", ["scipy", "click", "rich", "xlapy.interpreter", "xlapy.tools", "jax"])
def test_importing_does_not_load(module: str):
    assert run(f"import sys, xlapy; print({module!r} in sys.modules)") == "False"


@pytest.mark.parametrize("module", ["numpy", "xlapy.base.shape", "xlapy.opcodes", "xlapy.runtime.client"])
def test_listing_the_commands_does_not_load(module: str):
    code = (
        f"import sys; from xlapy.tools.command_line import invoke; invoke(['--help']); print({module!r} in sys.modules)"
    )
    assert run(code).splitlines()[-1] == "False"


def test_reading_text_loads_no_interpreter():
    code = (
        "import sys, xlapy; xlapy.parse_hlo('f32[] add(f32[] x, f32[] y)'); print('xlapy.interpreter' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.parametrize("name", xlapy.__all__)
def test_every_public_name_exists(name: str):
    assert getattr(xlapy, name) is not None
    assert name in dir(xlapy)


@pytest.mark.parametrize("package", [xlapy.base, xlapy.runtime], ids=lambda package: package.__name__)
def test_names_of_packages_that_load_on_first_use(package: ModuleType):
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'bogus'"):
        _ = package.bogus


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'xlapy' has no attribute 'bogus'"):
        _ = xlapy.bogus  # type: ignore[attr-defined]

"""The version is written once."""

import re
import tomllib
from pathlib import Path

import xlapy
from xlapy.base.version import VERSION

ROOT = Path(__file__).parents[2]


def test_the_package_has_the_version():
    assert xlapy.__version__ == VERSION
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


def test_the_metadata_reads_the_version_from_the_module():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in settings["project"]["dynamic"]
    assert ROOT / settings["tool"]["hatch"]["version"]["path"] == ROOT / "xlapy/base/version.py"

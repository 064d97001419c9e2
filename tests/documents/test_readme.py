"""The README is short, its links work outside of the repository, and its figures are those of the page on benchmarks.

Also the other files that a host of repositories reads: CITATION.cff and the issue forms.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from xlapy.base.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ADDRESS = PROJECT["urls"]["Documentation"].partition("/tree/")[0]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_readme_is_short_and_names_two_commands() -> None:
    assert README.count("\n") <= 90
    assert re.findall(r"^make (\w+)", README, re.MULTILINE) == ["demo", "test"]


def test_links_are_absolute_and_lead_to_files() -> None:
    """A package index shows the README without the repository's files."""
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert len(targets) > 5
    for target in targets:
        kind, _, path = target.removeprefix(f"{ADDRESS}/").partition("/main/")
        assert kind in ("tree", "blob", "raw"), target
        assert (ROOT / path).is_dir() if kind == "tree" else (ROOT / path).is_file(), target


def test_the_figures_are_those_of_the_benchmarks() -> None:
    section = (ROOT / "docs" / "explanation" / "benchmarks.md").read_text().partition("## Programs through JAX")[2]
    mean, lowest = re.findall(r"^- all: geometric mean ([\d.]+), lowest ([\d.]+)", section, re.MULTILINE)[0]
    table = section.partition("- networks:")[0]
    programs = len(re.findall(r"^\| [^|]+ \| [\d.]+ \|", table, re.MULTILINE))
    text = " ".join(README.split())
    assert f"run {mean} times as fast as on JAX's own CPU platform (geometric mean of {programs} programs" in text
    assert f"{lowest} times is the lowest" in text


def test_the_citation_has_the_version_and_the_address() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == VERSION
    assert citation["repository-code"] == ADDRESS
    assert citation["license"] == "Apache-2.0"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_an_issue_form_is_complete(form: Path) -> None:
    found = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert found == {"blank_issues_enabled": True}
        return
    assert found["name"] and found["description"]
    ids = [field["id"] for field in found["body"]]
    assert len(set(ids)) == len(ids)
    for field in found["body"]:
        assert field["type"] in ("textarea", "input", "dropdown")
        assert field["attributes"]["label"]
        assert (field["type"] == "dropdown") == ("options" in field["attributes"])
    assert any(field.get("validations", {}).get("required") for field in found["body"])

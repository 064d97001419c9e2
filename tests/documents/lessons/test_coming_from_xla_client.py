"""The table of jaxlib's old names: what it says to write here exists."""

from __future__ import annotations

import re

import pytest

import xlapy as xla
from tests.documents.lessons.page_runner import ROOT

TABLE = [
    line.strip("|\n").split("|")
    for line in (ROOT / "docs" / "how-to" / "coming-from-xla-client.md").read_text().splitlines()
    if line.startswith("| `")
][1:]
OBJECTS = {
    "executable": xla.Executable,
    "e": xla.Executable,
    "client": xla.Client("interpreter"),
    "module": xla.Module,
    "shape": xla.Shape,
    "c": xla.XlaBuilder("c"),
    "xla": xla,
    "ops": xla.ops,
}
NAME = re.compile(r"\b(executable|client|module|shape|xla|ops|e|c)((?:\.\w+)+)")


def names() -> set[tuple[str, str]]:
    return {(match[1], match[2]) for _, new in TABLE for match in NAME.finditer(new) if not match[2].endswith(".md")}


def test_the_table_was_read() -> None:
    assert len(TABLE) > 35 and len(names()) > 45


@pytest.mark.parametrize(("start", "path"), sorted(names()), ids=lambda part: part.strip("."))
def test_new_names_exist(start: str, path: str) -> None:
    found = OBJECTS[start]
    for part in path.strip(".").split("."):
        found = getattr(found, part)


def test_jaxlib_has_no_builder() -> None:
    from jaxlib import xla_client

    assert not hasattr(xla_client, "XlaBuilder") and not hasattr(xla_client, "ops")


def test_the_same_names_exist() -> None:
    assert hasattr(xla.XlaComputation, "as_hlo_text") and hasattr(xla.XlaComputation, "as_serialized_hlo_module_proto")
    device = OBJECTS["client"].devices[0]
    assert hasattr(device, "transfer_to_infeed") and hasattr(device, "transfer_from_outfeed")

"""The steps of add-a-pass.md, done on a copy of the repository, add a pass that pipelines, tests and cpu run."""

from __future__ import annotations

from pathlib import Path

from tests.documents.guides import GuideFollower

PROGRAM = """
import numpy as np
import xlapy as xla
from xlapy.cpu.compiler import passes, simplifications
from xlapy.passes import CATALOG, parse_passes
from xlapy.passes.catalog import list_passes

(row,) = [row for row in list_passes() if row.name == "replace-empty-arrays"]
assert row.aliases == ("zero-sized-hlo-elimination",) and row.options == {"keep": ""}
assert row.summary == "Replaces instructions whose results are arrays without elements by constants."
assert [each.name for each in simplifications()].count("replace-empty-arrays") == 1
program = xla.Client("cpu").compile(open("empty.hlo").read())
assert "constant({})" in program.as_hlo_text(optimized=True)
empty, x = map(np.asarray, program(np.float32([1, 2, 3])))
assert empty.shape == (0,) and x.tolist() == [1, 2, 3]
print("done")
"""


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    with GuideFollower(tmp_path) as guide:
        guide.follow("add-a-pass.md")
        assert (len(guide.files), guide.shown) == (10, 4)
        assert guide.run_program(PROGRAM) == "done\n"

"""The steps of docs/how-to/add-an-op.md, done on a copy of the package, add an operation that works everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```python title="([^"]+)"(?: after="((?:[^"\\]|\\.)*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

PROGRAM = """
import numpy as np
import xlapy as xla
from xlapy import opcodes, ops
from xlapy.testing.samples import samples_of
from xlapy.testing.examples import examples_of, refusals_of
from xlapy.tools.ops.command import support_of
from xlapy.tools.ops.ops_page import page

b = xla.XlaBuilder("m")
ops.softsign(ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x"))
text = b.build().as_hlo_text()
assert "f32[3]{0} softsign(%x)" in text, text
assert xla.parse_hlo(text).to_text() == text
for platform in ("reference", "interpreter"):
    values = np.asarray(xla.Client(platform).compile(text)(np.float32([-1, 0, 3])))
    assert values.tolist() == [-0.5, 0.0, 0.75], (platform, values)
try:
    xla.parse_hlo(text.replace("f32", "s32"))
except xla.errors.VerificationError as error:
    assert "softsign takes floating-point elements, operand is s32[3]" in str(error), error
else:
    raise AssertionError("an integer softsign was accepted")
assert any(sample.name == "softsign" for sample in samples_of("elementwise"))
assert support_of("interpreter", opcodes.SOFTSIGN) == "yes"
(example,) = [each for each in examples_of("elementwise") if each.op == "softsign"]
assert xla.Client("interpreter").compile(example.module) is not None
assert len([each for each in refusals_of("elementwise") if each.op == "softsign"]) == 2
assert "| `operand` | floating-point |" in page(opcodes.SOFTSIGN)
assert "    return a / (1 + abs(a))" in page(opcodes.SOFTSIGN)
print("done")
"""


def follow(page: str, root: Path) -> int:
    """Applies each titled block of the page to the files below `root`; returns the number of blocks."""
    blocks = BLOCK.findall(page)
    for file, after, code in blocks:
        path = root / file
        text = path.read_text()
        if after:
            line = after.replace('\\"', '"') + "\n"
            assert line in text, f"{file} has no line {line!r}"
            path.write_text(text.replace(line, line + code, 1))
        else:
            path.write_text(f"{text}\n\n{code}")
    return len(blocks)


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "xlapy", tmp_path / "xlapy", ignore=shutil.ignore_patterns("__pycache__"))
    assert follow((ROOT / "docs" / "how-to" / "add-an-op.md").read_text(), tmp_path) == 10
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"

"""The steps of add-an-op.md, done on a copy of the repository, add an operation that works everywhere."""

from __future__ import annotations

from pathlib import Path

from tests.documents.guides import GuideFollower

PROGRAM = """
import numpy as np
import xlapy as xla
from xlapy import opcodes, ops
from xlapy.analysis.cost import element_cost
from xlapy.cpu.compiler import native_opcodes
from xlapy.testing.examples import examples_of, refusals_of
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import samples_of
from xlapy.tools.formats import Format, write_module
from xlapy.tools.ops.builder_page import markdown
from xlapy.tools.ops.command import support_of
from xlapy.tools.ops.ops_page import page

b = xla.XlaBuilder("m")
ops.softsign(ops.parameter(b, 0, xla.Shape.parse("f32[3]"), "x"))
module = b.build()
text = module.as_hlo_text()
assert "f32[3]{0} softsign(%x)" in text, text
assert xla.parse_hlo(text).to_text() == text

# every platform computes it; cpu in one kernel, by a rule of its own
x = np.float32([-1, 0, 3])
for platform in ("reference", "interpreter", "cpu"):
    values = np.asarray(xla.Client(platform).compile(text)(x))
    assert values.tolist() == [-0.5, 0.0, 0.75], (platform, values)
    assert support_of(platform, opcodes.SOFTSIGN) == "yes"
assert opcodes.SOFTSIGN in native_opcodes()
assert "softsign(" in xla.Client("cpu").compile(text).as_hlo_text(optimized=True)

# StableHLO, as text and as a portable artifact, and the protobuf form
def opcode_names(module):
    return [i.op.name for i in module.instructions()]

parsed = xla.parse_hlo(text)
stablehlo = parsed.to_stablehlo()
assert 'stablehlo.composite "xlapy.softsign" %x' in stablehlo and "stablehlo.divide" in stablehlo, stablehlo
assert opcode_names(xla.parse_stablehlo(stablehlo)) == ["parameter", "softsign"]
artifact = write_module(parsed, Format.BYTECODE)
assert opcode_names(xla.parse_stablehlo(artifact)) == ["parameter", "softsign"]
assert opcode_names(xla.parse_stablehlo(stablehlo.replace('"xlapy.softsign"', '"other.name"'))).count("divide") == 1
assert xla.Module.from_proto(parsed.to_proto()).to_text() == text

# its cost is that of a quotient, and fuzzing draws it
(root,) = [i for i in parsed.instructions() if i.op is opcodes.SOFTSIGN]
assert element_cost(root) == 8
modules = [random_module(seed, instructions=60, families=("elementwise",)) for seed in range(20)]
assert sum(opcodes.SOFTSIGN in {i.op for i in module.instructions()} for module in modules) > 3

# refusals, samples and pages
try:
    xla.parse_hlo(text.replace("f32", "s32"))
except xla.errors.VerificationError as error:
    assert "softsign takes floating-point elements, operand is s32[3]" in str(error), error
else:
    raise AssertionError("an integer softsign was accepted")
assert any("softsign" in sample.name for sample in samples_of("elementwise"))
(example,) = [each for each in examples_of("elementwise") if each.op == "softsign"]
assert xla.Client("interpreter").compile(example.module) is not None
assert len([each for each in refusals_of("elementwise") if each.op == "softsign"]) == 2
shown = page(opcodes.SOFTSIGN)
assert "| `operand` | floating-point |" in shown and "    return a / (1 + abs(a))" in shown
assert "Runs on: cpu; interpreter; reference." in shown and "`ops.softsign(" in shown
assert "| `softsign(operand)` | x / (1 + \\\\|x\\\\|) of floating-point elements. |" in markdown()
print("done")
"""


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    with GuideFollower(tmp_path) as guide:
        guide.follow("add-an-op.md")
        assert (len(guide.files), guide.shown) == (21, 5)
        assert guide.run_program(PROGRAM) == "done\n"

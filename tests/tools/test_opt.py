"""`xlapy opt`: parse, verify, run passes, print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.programs import AXPY
from xlapy.base.error_codes.operations.operands import RESULT_SHAPE
from xlapy.passes import catalog
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke

WIDE = "HloModule wide\nENTRY main {\n  ROOT c = s32[12] constant({0,1,2,3,4,5,6,7,8,9,10,11})\n}\n"
WRONG = "HloModule wrong\nENTRY main {\n  a = f32[2] parameter(0)\n  ROOT r = f32[3] negate(a)\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "wide.hlo").write_text(WIDE)
    (tmp_path / "wrong.hlo").write_text(WRONG)
    return tmp_path


def opt(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert invoke(["opt", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.usefixtures("folder")
class TestOpt:
    def test_the_output_parses_to_the_same_module(self, capsys):
        output, _ = opt(capsys, "axpy.hlo")
        assert output.startswith("HloModule axpy, entry_computation_layout=")
        assert parse_hlo(output).to_text() == parse_hlo(AXPY).to_text()

    def test_forms(self, capsys):
        assert "ENTRY %main (a: f32[], x: f32[3], y: f32[3]) -> f32[3] {" in opt(capsys, "axpy.hlo")[0]
        assert "ENTRY main {" in opt(capsys, "axpy.hlo", "--form", "short")[0]
        assert "tmp_0 = f32[] parameter(0)" in opt(capsys, "axpy.hlo", "--form", "canonical")[0]

    def test_constants_are_printed_in_full_by_default(self, capsys):
        assert "constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})" in opt(capsys, "wide.hlo")[0]
        assert "constant({...})" in opt(capsys, "wide.hlo", "--elide-constants")[0]

    def test_check_prints_a_summary(self, capsys):
        assert opt(capsys, "axpy.hlo", "--check") == ("axpy: 1 computations, 6 instructions, sound\n", "")

    def test_a_broken_rule_is_named(self, capsys):
        _, error = opt(capsys, "wrong.hlo", "--check", code=1)
        message = "main: r (negate): negate of (f32[2]) has shape f32[2], declared f32[3]"
        assert error == f"xlapy: {message} [{RESULT_SHAPE}]\n"

    def test_no_verify_prints_an_invalid_module(self, capsys):
        assert "f32[3]{0} negate(%a)" in opt(capsys, "wrong.hlo", "--no-verify")[0]

    def test_output_file(self, capsys, folder):
        assert opt(capsys, "axpy.hlo", "-o", "out.hlo") == ("", "")
        assert parse_hlo((folder / "out.hlo").read_text()).to_text() == parse_hlo(AXPY).to_text()

    def test_an_existing_output_survives_a_failure(self, capsys, folder):
        (folder / "out.hlo").write_text("precious")
        opt(capsys, "wrong.hlo", "-o", "out.hlo", code=1)
        assert (folder / "out.hlo").read_text() == "precious"

    def test_check_excludes_output(self, capsys):
        assert "--check neither prints nor skips" in opt(capsys, "axpy.hlo", "--check", "-o", "x", code=2)[1]

    def test_bytes_beyond_ascii_survive(self, capsys, folder):
        text = AXPY.replace("a = f32[] parameter(0)", 'a = f32[] parameter(0), metadata={op_name="\\377é"}')
        (folder / "odd.hlo").write_text(text, encoding="utf-8-sig")
        opt(capsys, "odd.hlo", "-o", "out.hlo")
        metadata = parse_hlo((folder / "out.hlo").read_text()).entry_computation.find("a").metadata
        assert metadata is not None
        assert metadata.op_name == "\udcffé"


DEAD = """HloModule dead

ENTRY main {
  x = f32[2] parameter(0)
  idle = f32[2] negate(x)
  ROOT r = f32[2] logistic(x)
}
"""


MINE = """
from dataclasses import dataclass
from typing import ClassVar

from xlapy.passes import register_pass


@register_pass
@dataclass(frozen=True)
class RenameRoot:
    name: ClassVar[str] = "rename-root"

    def run(self, module):
        module.entry_computation.root_instruction.name = "done"
        return True
"""


@pytest.mark.usefixtures("folder")
class TestPasses:
    @pytest.fixture(autouse=True)
    def dead(self, folder):
        (folder / "dead.hlo").write_text(DEAD)

    def test_passes_run_in_order(self, capsys):
        output, _ = opt(capsys, "dead.hlo", "--passes", "dce,expand{ops=logistic}", "--verify-each", "--form", "short")
        assert "idle" not in output
        assert output.rstrip().endswith("ROOT divide = f32[2]{0} divide(exponential, add)\n}")

    def test_the_list_needs_no_file(self, capsys):
        output, _ = opt(capsys, "--list-passes")
        assert re.search(r"remove-dead-code +dce +Removes", output)
        assert re.search(r"expand +.* +platform=interpreter|expand +ops=", output)

    def test_passes_of_a_file_that_is_loaded(self, capsys, folder, monkeypatch):
        (folder / "mine.py").write_text(MINE)
        monkeypatch.setitem(catalog._known, "rename-root", None)  # the pass is unregistered when the test ends
        del catalog._known["rename-root"]
        output, _ = opt(capsys, "dead.hlo", "--load", "mine.py", "--passes", "rename-root", "--verify-each")
        assert "ROOT %done = " in output
        assert opt(capsys, "dead.hlo", "--load", "no.py", code=1)[1].startswith("xlapy: there is no file no.py to load")
        assert "there is no module 'nowhere.x' to load" in opt(capsys, "dead.hlo", "--load", "nowhere.x", code=1)[1]

    def test_changes_are_printed(self, capsys):
        _, error = opt(capsys, "dead.hlo", "--passes", "verify,dce", "--print-changed")
        assert error.startswith("// after remove-dead-code\nHloModule dead")
        assert error.count("// after") == 1

    def test_changes_are_dumped(self, capsys, folder):
        opt(capsys, "dead.hlo", "--passes", "verify,dce", "--dump-to", "dumps", "--check")
        assert sorted(p.name for p in (folder / "dumps").iterdir()) == [
            "dead.0000.before_passes.txt",
            "dead.0002.after_remove-dead-code.txt",
        ]
        assert "idle" not in (folder / "dumps" / "dead.0002.after_remove-dead-code.txt").read_text()

    def test_statistics(self, capsys):
        _, error = opt(capsys, "dead.hlo", "--passes", "fixpoint(dce)", "--statistics", "--check")
        assert re.search(r"remove-dead-code +2 +1 +[\d.]+", error)

    def test_an_unknown_pass_is_named_before_the_file_is_read(self, capsys):
        _, error = opt(capsys, "nowhere.hlo", "--passes", "dec", code=1)
        assert error.startswith("xlapy: there is no pass 'dec'; did you mean dce?; --list-passes shows all")

    @pytest.mark.parametrize("option", ["--verify-each", "--print-changed", "--statistics", "--dump-to=d"])
    def test_options_of_passes_need_passes(self, capsys, option):
        assert "go with --passes" in opt(capsys, "dead.hlo", option, code=2)[1]

"""`xlapy diff`: the differences of two modules, and of one module pass by pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.programs import AXPY, COUNT_TO_3
from xlapy.tools.command_line import invoke


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "count.hlo").write_text(COUNT_TO_3)
    return tmp_path


@pytest.mark.usefixtures("folder")
class TestDiff:
    def test_names_are_not_a_difference(self, folder, capsys):
        (folder / "other.hlo").write_text(AXPY.replace("wide", "w").replace("HloModule axpy", "HloModule other"))
        assert invoke(["diff", "axpy.hlo", "other.hlo"]) == 0
        assert capsys.readouterr().out == "no difference but in names\n"

    def test_differences_are_listed(self, folder, capsys):
        (folder / "other.hlo").write_text(AXPY.replace("add(product, y)", "subtract(product, wide)"))
        assert invoke(["diff", "axpy.hlo", "other.hlo"]) == 1
        assert capsys.readouterr().out.splitlines() == [
            "5 instructions equal, 0 changed, 1 only on the left, 1 only on the right",
            "main:",
            "  - sum = f32[3]{0} add(product, y)",
            "  + sum = f32[3]{0} subtract(product, wide)",
        ]

    def test_modified_instructions_state_the_reason(self, folder, capsys):
        (folder / "other.hlo").write_text(COUNT_TO_3.replace("constant(3)", "constant(4)"))
        assert invoke(["diff", "count.hlo", "other.hlo"]) == 1
        assert capsys.readouterr().out.splitlines() == [
            "7 instructions equal, 1 changed, 0 only on the left, 0 only on the right",
            "condition:",
            "  ~ limit = s32[] constant(3)",
            "    limit = s32[] constant(4)",
            "      literal s32[] 3 -> s32[] 4",
        ]

    def test_module_configurations_are_compared(self, folder, capsys):
        (folder / "other.hlo").write_text(AXPY.replace("HloModule axpy", "HloModule axpy, replica_count=2"))
        assert invoke(["diff", "axpy.hlo", "other.hlo"]) == 1
        assert capsys.readouterr().out == "~ replica_count: 1 -> 2\n"

    def test_pass_by_pass(self, capsys):
        assert invoke(["diff", "--passes", "axpy.hlo"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].endswith(" fuse: 3 removed, 0 changed, 7 made, 10 instructions")
        assert "  - sum = f32[3]{0} add(product, y)" in lines
        assert "  + sum.fusion = f32[3]{0} fusion(a, x, y), kind=kLoop, calls=fused_computation" in lines

    def test_user_defined_passes_that_modify_instructions(self, folder, capsys):
        (folder / "twice.hlo").write_text(
            AXPY.replace("add(product, y)", "add(product, same)").replace(
                "  ROOT", "  same = f32[3] multiply(wide, x)\n  ROOT"
            )
        )
        assert invoke(["diff", "--passes", "twice.hlo", "--pipeline", "dce,cse"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "001 merge-common-subexpressions: 1 removed, 1 changed, 0 made, 6 instructions",
            "  - same = f32[3]{0} multiply(wide, x)",
            "  ~ sum = f32[3]{0} add(product, same)",
            "    sum = f32[3]{0} add(product, product)",
        ]

    @pytest.mark.parametrize(
        "given", [["axpy.hlo"], ["--passes", "axpy.hlo", "count.hlo"], ["axpy.hlo", "count.hlo", "--pipeline", "dce"]]
    )
    def test_wrong_usage(self, given):
        assert invoke(["diff", *given]) == 2

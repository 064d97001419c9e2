"""`xlapy explain`: follows an instruction from its source to assembly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.raising import raises
from tests.tools.pages import Page
from xlapy.base.error_codes.structure.editing import NAME_IN_MODULE
from xlapy.base.errors import InvalidArgumentError
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke
from xlapy.tools.explain.command import (
    Section,
    explanation,
    explanation_of_name,
    explanation_page,
    find_instruction,
)

PROGRAM = """HloModule explained

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

twice {
  v = f32[64,256] parameter(0)
  ROOT w = f32[64,256] sine(v)
}

ENTRY main {
  x = f32[64,256] parameter(0)
  zero = f32[] constant(0)
  unused = f32[64,256] negate(x)
  n = f32[64,256] cosine(x)
  same = f32[64,256] cosine(x)
  both = f32[64,256] add(n, same)
  called = f32[64,256] call(both), to_apply=twice
  e = f32[64,256] exponential(called), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=14}
  ROOT s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
}
"""


def sections(name: str) -> dict[str, list[str]]:
    module = parse_hlo(PROGRAM)
    return {section.title: section.lines for section in explanation(module, find_instruction(module, name))}


def test_from_the_source_to_assembly():
    found = sections("e")
    assert found["instruction"] == [
        "e = f32[64,256]{1,0} exponential(called)",
        "source: f.py:14",
        "framework: jit(f)/exp",
        "in: main (entry)",
        "users: s",
    ]
    assert any(line.endswith("fuse: is computed in s.fusion") for line in found["passes"])
    assert found["fusion"] == ["e (exponential) is fused into s, which alone needs it"]
    (step,) = found["thunks"]
    assert step.startswith("kernel s.fusion(argument0:f32[64,256], result0:f32[64])")
    (loops,) = [lines for title, lines in found.items() if title.startswith("loop IR of kernel s.fusion")]
    assert loops[0] == "kernel s.fusion(in0: f32[16384], out0: f32[64] written)"
    (assembly,) = [lines for title, lines in found.items() if title.startswith("assembly of ")]
    assert any(line.strip() == "retq" for line in assembly)


def optimized_sections(name: str) -> dict[str, list[str]]:
    return {section.title: section.lines for section in explanation_of_name(parse_hlo(PROGRAM), name)}


def test_a_fusion_of_the_optimized_program_has_the_instructions_that_it_computes():
    found = optimized_sections("s.fusion")
    assert found["instruction of the optimized program"][0].startswith("s.fusion = f32[64]{0} fusion(x)")
    lines = found["instructions of the program that it computes"]
    names = [line.split(" = ")[0] for line in lines]
    assert names == ["w", "zero", "n", "same", "both", "called", "e", "s"]
    assert lines[6] == "e = f32[64,256]{1,0} exponential(called)  at f.py:14"
    assert found["thunks"][0].startswith("kernel s.fusion(")


def test_an_instruction_within_a_fusion_is_explained_as_the_one_that_it_comes_from():
    with pytest.raises(InvalidArgumentError):
        find_instruction(parse_hlo(PROGRAM), "e.1")
    found = optimized_sections("e.1")
    assert found["instruction of the optimized program"][0].startswith("e.1 = f32[64,256]{1,0} exponential(")
    assert found["instruction"] == sections("e")["instruction"]
    assert found["passes"] == sections("e")["passes"]


def test_a_name_that_neither_program_has_is_refused():
    with raises(InvalidArgumentError, NAME_IN_MODULE, "'s.fusion.9'"):
        explanation_of_name(parse_hlo(PROGRAM), "s.fusion.9")


def test_an_instruction_merged_by_cse_is_followed_to_the_survivor():
    story = sections("same")["passes"]
    at = next(n for n, line in enumerate(story) if line.endswith("merge-common-subexpressions: same is replaced by"))
    assert story[at + 1].strip() == "n = f32[64,256]{1,0} cosine(x)"


def test_an_instruction_removed_with_its_users_is_followed_to_their_replacement():
    module = parse_hlo("""HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  a = f32[8] negate(x)
  b = f32[8] negate(a)
  ROOT s = f32[8] add(b, y)
}""")
    found = {section.title: section.lines for section in explanation(module, find_instruction(module, "a"))}
    assert found["passes"][0].endswith("simplify: a and its users are replaced by")
    assert found["passes"][1].strip() == "x = f32[8]{0} parameter(0)"


def test_an_inlined_instruction_is_followed_to_its_copies():
    found = sections("w")
    assert found["passes"][0].endswith("inline-calls: w is copied")
    assert found["passes"][1].strip() == "w.1 = f32[64,256]{1,0} sine(both)"
    assert found["thunks"][0].startswith("kernel s.fusion(")


def test_an_unused_instruction_has_no_thunks():
    found = sections("unused")
    assert found["passes"][-1].endswith("unused is removed: no remaining instruction uses it")
    assert found["thunks"] == ["none: the instruction was removed"] and "fusion" not in found


def test_a_reducer_is_part_of_the_kernel_that_runs_it():
    assert sections("r")["thunks"][0].startswith("kernel s.fusion(")


def test_parameters_are_memory():
    assert sections("x")["thunks"] == ["none: it is a buffer, or part of another buffer"]


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        (tmp_path / "p.hlo").write_text(PROGRAM)
        return str(tmp_path / "p.hlo")

    def test_listings_are_truncated_by_default(self, file, capsys):
        assert invoke(["explain", "%e", file]) == 0
        short = capsys.readouterr().out
        assert invoke(["explain", "e", file, "--full"]) == 0
        full = capsys.readouterr().out
        assert "more lines (--full)" in short and "more lines" not in full and len(full) > len(short)

    def test_a_misspelled_name(self, file, capsys):
        assert invoke(["explain", "unusd", file]) == 1
        assert capsys.readouterr().err == (
            f"xlapy: explained has no instruction 'unusd'; did you mean unused? [{NAME_IN_MODULE}]\n"
        )

    def test_page(self, file, tmp_path, capsys):
        assert invoke(["explain", "e", file, "--html", str(tmp_path / "e.html")]) == 0
        assert capsys.readouterr().out == ""
        page = Page((tmp_path / "e.html").read_text("ascii"))
        assert page.title == "e" and [tag for tag, _ in page.elements].count("details") == 9

    def test_texts_are_escaped(self):
        page = Page(explanation_page("<script>", [Section("</pre>", ["<img src=x>"])]))
        assert {tag for tag, _ in page.elements} & {"script", "img"} == set() and page.title == "<script>"


def test_the_plan_of_a_dot_that_was_not_fused():
    """Shows the chosen strategy, its parameters, and why the others were not chosen."""
    module = parse_hlo(
        "HloModule m ENTRY e { a = f32[500,300] parameter(0) b = f32[300,400] parameter(1) "
        "ROOT d = f32[500,400] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    (plan,) = (s.lines for s in explanation(module, find_instruction(module, "d")) if s.title == "kernel plan of d")
    assert plan[0].startswith("packed-gemm ") and "tile_rows=" in plan[0] and "chosen, estimated" in plan[0]
    assert any(line.startswith("loops: not chosen, estimated") for line in plan)
    assert any(line.startswith("direct-gemm: not chosen, estimated") for line in plan)
    assert any(line.startswith("skinny-gemm: rejected: 500 rows are more than 128") for line in plan)

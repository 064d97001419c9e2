"""`xlapy show`: the tree, the page and its content."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.tools.pages import Page, rendered
from tests.tools.programs import COUNT_TO_3
from xlapy.runtime import Client
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.text import parse_hlo
from xlapy.text.describe import byte_text
from xlapy.tools.command_line import invoke
from xlapy.tools.native_forms import assembly_functions, llvm_functions, native_forms
from xlapy.tools.profile import session
from xlapy.tools.profile.session import profile_of, session_of
from xlapy.tools.show.page import module_page
from xlapy.tools.show.payload import MAX_LISTING_LINES, clip_lines, module_payload

ROWS = """HloModule rows

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[64,128] parameter(0)
  w = f32[128,256] parameter(1)
  d = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="jit(f)/dot" source_file="f.py" source_line=12}
  e = f32[64,256] exponential(d)
  zero = f32[] constant(0)
  ROOT s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
}
"""

HOSTILE = """HloModule hostile

ENTRY main {
  ROOT x = f32[] parameter(0),
    metadata={op_name="</script><script>alert(2)</script><!--" source_file="a&b.py" source_line=3}
}
"""

FIELDS = [
    "name", "op", "shape", "line", "operands", "called", "control",
    "bytes", "source", "framework", "decisions", "thunks", "kernels", "times",
]  # fmt: skip


def instruction(payload: Any, name: str) -> dict[str, Any]:
    return next(dict(zip(FIELDS, row, strict=True)) for row in payload["instructions"] if row[0] == name)


@pytest.fixture
def limits(monkeypatch) -> None:
    """Replaces the measured roofline by that of a fixed machine."""
    one = Roofline(1, {"f32": 1e9, "f64": 1e9}, (Bandwidth(1 << 26, 1e9, 1e9),))
    monkeypatch.setattr(session, "machine_roofline", lambda *, anew: Machine("test", one, one))


@pytest.fixture(scope="module")
def optimized() -> Page:
    native = native_forms(parse_hlo(ROWS))
    return Page(module_page(native.module, native))


class TestTree:
    def test_called_computations_are_shown_once_below_their_caller(self, tmp_path, capsys):
        (tmp_path / "count.hlo").write_text(COUNT_TO_3)
        assert invoke(["show", str(tmp_path / "count.hlo")]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "count: 3 computations, 8 instructions",
            "main: entry, 2 instructions",
            "  start = s32[] parameter(0)  # 4 B",
            "  ROOT count = s32[] while(start), condition=condition, body=body  # 4 B",
            "    condition: condition of while, 3 instructions",
            "      value = s32[] parameter(0)  # 4 B",
            "      limit = s32[] constant(3)  # 4 B",
            "      ROOT below = pred[] compare(value, limit), direction=LT  # 1 B",
            "    body: body of while, 3 instructions",
            "      before = s32[] parameter(0)  # 4 B",
            "      one = s32[] constant(1)  # 4 B",
            "      ROOT after = s32[] add(before, one)  # 4 B",
        ]

    def test_deep_calls_need_no_recursion(self, tmp_path, capsys):
        depth = 1500
        inner = "c0 { p0 = f32[] parameter(0)\n ROOT r0 = f32[] negate(p0) }\n"
        calls = "".join(
            f"c{n} {{ p{n} = f32[] parameter(0)\n ROOT r{n} = f32[] call(p{n}), to_apply=c{n - 1} }}\n"
            for n in range(1, depth)
        )
        entry = f"ENTRY e {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c{depth - 1} }}\n"
        (tmp_path / "deep.hlo").write_text(f"HloModule deep\n{inner}{calls}{entry}")
        assert invoke(["show", str(tmp_path / "deep.hlo")]) == 0
        assert capsys.readouterr().out.count("call(") == depth

    def test_optimized_shows_decisions_thunks_and_code(self, tmp_path, capsys):
        (tmp_path / "rows.hlo").write_text(ROWS)
        assert invoke(["show", str(tmp_path / "rows.hlo"), "--optimized"]) == 0
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        assert "why: d and s stay separate kernels: s needs more than one element of d (dot) at a time" in lines
        assert any(line.startswith("step: kernel s.fusion(") for line in lines)
        assert any(line.startswith("code: function kernel") and line.endswith("of assembly") for line in lines)

    def test_a_profiled_module_has_its_times(self, tmp_path, capsys, limits):
        (tmp_path / "rows.hlo").write_text(ROWS)
        assert invoke(["show", str(tmp_path / "rows.hlo"), "--profile"]) == 0
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        assert lines[1].startswith("# rows on cpu, ")
        at = next(n for n, line in enumerate(lines) if line.startswith("d = "))
        assert re.fullmatch(r"time: .* [mu]s, 1 run, .* GB/s, .* GFLOP/s, .*% of the limit \(\w+\)", lines[at + 1])
        assert lines[at + 2].startswith("why: d (dot) gets a kernel")

    def test_platforms(self, tmp_path, capsys):
        (tmp_path / "rows.hlo").write_text(ROWS)
        file = str(tmp_path / "rows.hlo")
        assert invoke(["show", file, "--platform", "cpu"]) == 0
        on_cpu = capsys.readouterr().out
        assert invoke(["show", file, "--optimized"]) == 0
        assert capsys.readouterr().out == on_cpu and "s.fusion" in on_cpu
        assert invoke(["show", file, "--platform", "interpreter", "--profile", "--random", "3"]) == 0
        found = capsys.readouterr().out
        assert "s.fusion" not in found and found.count("time: ") == 4 and "limit" not in found
        assert invoke(["show", file, "--platform", "interpreter", "--optimized"]) == 2
        assert invoke(["show", file, "--random", "3"]) == 2

    def test_sizes(self):
        assert [byte_text(n) for n in (0, 1023, 1024, 1536, 1 << 30)] == ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 GiB"]


class TestPage:
    def test_it_is_self_contained(self, optimized: Page):
        assert [tag for tag, given in optimized.elements if "src" in given or "href" in given or tag == "link"] == []

    def test_the_graph_refers_to_instructions_by_number(self):
        payload = module_payload(parse_hlo(ROWS), None)
        names = [row[0] for row in payload["instructions"]]
        dot = instruction(payload, "d")
        assert [names[i] for i in dot["operands"]] == ["x", "w"]
        assert (dot["op"], dot["shape"], dot["bytes"]) == ("dot", "f32[64,256]{1,0}", 65536)
        assert (dot["source"], dot["framework"]) == ("f.py:12", "jit(f)/dot")
        assert "metadata" not in dot["line"] and "lhs_contracting_dims={1}" in dot["line"]
        (called,) = instruction(payload, "s")["called"]
        name, kind, signature, first, count, root = payload["computations"][called]
        assert (name, kind, signature) == ("add", "to_apply of reduce", "(a: f32[], b: f32[]) -> f32[]")
        assert names[first : first + count] == ["a", "b", "r"] and names[root] == "r"
        assert payload["computations"][0][:2] == ["main", "entry"]

    def test_a_kernel_has_decisions_thunks_and_code(self, optimized: Page):
        payload, native = optimized.json("module"), optimized.json("native")
        fusion = instruction(payload, "s.fusion")
        assert fusion["decisions"] == [
            "s (reduce) gets a kernel: it is a result",
            "d and s stay separate kernels: s needs more than one element of d (dot) at a time",
        ]
        assert [step.startswith("kernel s.fusion(") for step in fusion["thunks"]] == [True]
        title, loops, function = native["kernels"][fusion["kernels"][0]]
        assert title == fusion["thunks"][0]
        assert loops.startswith("kernel s.fusion(in0: f32[16384], out0: f32[64] written)")
        llvm, behind, assembly = native["functions"][function]
        assert llvm.startswith("define ") and behind.startswith("define ") and llvm != behind
        assert f"@{function}(" in llvm and assembly.startswith(f"{function}:") and "\tret" in assembly

    def test_fused_instructions_have_their_fusion_decision(self, optimized: Page):
        payload = optimized.json("module")
        inside = [row for row in payload["instructions"] if row[1] == "exponential"]
        assert [row[FIELDS.index("decisions")] for row in inside] == [
            ["e (exponential) is fused into s, which alone needs it"]
        ]

    def test_names_are_escaped(self):
        module = parse_hlo(HOSTILE)
        module.name = "<script>alert(1)</script> é"
        text = module_page(module)
        assert text.isascii()
        page = Page(text)
        assert [tag for tag, _ in page.elements].count(
            "script"
        ) == 3  # the data, the kernels' code, the page's own script
        assert page.title == page.json("module")["name"] == module.name
        assert instruction(page.json("module"), "x")["framework"] == "</script><script>alert(2)</script><!--"
        assert "alert(2)</script>" not in text

    def test_inlined_kernels_show_the_containing_function(self):
        native = native_forms(parse_hlo(COUNT_TO_3))
        used = {kernel.function for forms in native.kernels.values() for kernel in forms}
        assert used == set(native.functions) == {"xlapy_run"}
        assert all(form.llvm and form.optimized and form.assembly for form in native.functions.values())

    def test_long_listings_are_truncated(self):
        lines = clip_lines("x\n" * (MAX_LISTING_LINES + 7)).splitlines()
        assert (len(lines), lines[-1]) == (MAX_LISTING_LINES + 1, "... 7 more lines; --dump_to writes them all")

    def test_the_page_is_written_to_the_file(self, tmp_path, capsys):
        (tmp_path / "rows.hlo").write_text(ROWS)
        assert invoke(["show", str(tmp_path / "rows.hlo"), "-o", str(tmp_path / "page.html")]) == 0
        assert capsys.readouterr().out == ""
        page = Page((tmp_path / "page.html").read_text("ascii"))
        assert page.json("native") == {"kernels": [], "functions": {}}
        assert page.json("module")["summary"] == "2 computations, 9 instructions"

    def test_the_slowest_instruction_is_selected_and_colored(self, tmp_path, limits):
        module = parse_hlo(ROWS)
        profile = profile_of(session_of(Client("cpu").compile(ROWS), (), None), 1)
        native = native_forms(module)
        for row in profile.rows:
            row.seconds = 0.75 * profile.wall if row.name == "d" else 0.1 * profile.wall
        (tmp_path / "page.html").write_text(module_page(native.module, native, profile))
        page = rendered(tmp_path / "page.html")
        times = [given["style"] for tag, given in page.elements if (tag, given.get("class")) == ("span", "time")]
        assert times == ["background: rgba(235, 96, 20, 0.58);", "background: rgba(235, 96, 20, 0.25);"]
        (picked,) = [given for _, given in page.elements if given.get("class") == "row picked"]
        names = [row[0] for row in page.json("module")["instructions"]]
        assert names[int(picked["data-id"] or -1)] == "d"


class TestListings:
    def test_functions_of_llvm(self):
        k, m = "define internal void @k(ptr %a) #0 {\n  ret void\n}", "define i32 @m() {\n  ret i32 0\n}"
        assert llvm_functions(f"declare void @f(ptr)\n\n{k}\n\n{m}\n") == {"k": k, "m": m}

    def test_functions_of_assembly_without_directives(self):
        k = "\t.text\nk:\n\t.cfi_startproc\n\tretq\n.Lfunc_end0:\n"
        m = "\t.size k\nm:\n.LBB1_1:\n\tjmp .LBB1_1\n.Lfunc_end1:\n"
        assert assembly_functions(k + m) == {"k": "k:\n\tretq", "m": "m:\n.LBB1_1:\n\tjmp .LBB1_1"}

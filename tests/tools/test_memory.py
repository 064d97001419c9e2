"""What takes the memory of a program: `xlapy explain FILE`, and the memory of a profile."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import xlapy as xla
from xlapy.tools.command_line import invoke
from xlapy.tools.memory import ProgramMemory, program_memory
from xlapy.tools.native_forms import compiled_for_cpu

ARRAY = 512 * 512 * 4
"""The bytes of f32[512,512]."""


def dot(name: str, left: str, right: str, line: int) -> str:
    return (
        f"{name} = f32[512,512] dot({left}, {right}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, "
        f'metadata={{op_name="jit(f)/{name}" source_file="f.py" source_line={line}}}'
    )


PROGRAM = f"""HloModule products
ENTRY main {{
  x = f32[512,512] parameter(0), metadata={{op_name="weights"}}
  n = f32[64] parameter(1)
  {dot("a", "x", "x", 1)}
  {dot("b", "a", "x", 2)}
  {dot("c", "b", "b", 3)}
  {dot("d", "c", "a", 4)}
  m = f32[64] negate(n)
  ROOT r = (f32[512,512], f32[64]) tuple(d, m)
}}
"""


@pytest.fixture(scope="module")
def memory() -> ProgramMemory:
    return program_memory(compiled_for_cpu(xla.parse_hlo(PROGRAM)))


def test_totals(memory: ProgramMemory):
    assert (memory.arguments, memory.results, memory.aliased) == (ARRAY + 256, ARRAY + 256, 0)
    stats = xla.Client("cpu").compile(PROGRAM).memory_analysis()
    assert memory.temporaries == stats.temp_size_in_bytes
    assert memory.total == stats.peak_memory_in_bytes


def test_the_peak_has_the_values_that_are_live_with_their_sources(memory: ProgramMemory):
    """c and b, which it reads, and a, which d reads later: c is the last product with three live ones."""
    large = {value.name: value for value in memory.live if value.bytes == ARRAY}
    assert set(large) == {"a", "b", "c"} and memory.peak_at == "c" and memory.peak_source == "f.py:3"
    assert memory.peak == sum(value.bytes for value in memory.live)
    assert [large[name].source for name in "abc"] == ["f.py:1", "f.py:2", "f.py:3"]
    assert (large["a"].first, large["a"].last) == ("a", "d") and large["a"].what == "dot"
    assert large["a"].storage == "temporary" and large["a"].shape == "f32[512,512]"


def test_arguments_have_their_names(memory: ProgramMemory):
    first, second = memory.largest_arguments
    assert (first.name, first.framework, first.storage, first.bytes) == ("x", "weights", "argument 0", ARRAY)
    assert (second.name, second.bytes) == ("n", 256)
    assert first.line(memory.arguments) == "      1 MiB 100.0%  argument 0   x f32[512,512]  weights"


def test_results_are_live_to_the_end_and_may_lie_in_arguments():
    text = PROGRAM.replace("HloModule products", "HloModule p, input_output_alias={ {0}: (0, {}, may-alias) }")
    found = program_memory(compiled_for_cpu(xla.parse_hlo(text)))
    assert found.aliased == ARRAY and found.total == found.arguments + 256 + found.temporaries
    assert "of which 1 MiB in the memory of donated arguments" in found.summary


def test_a_program_without_thunks():
    found = program_memory(compiled_for_cpu(xla.parse_hlo("HloModule m ENTRY e { ROOT c = f32[] constant(1) }")))
    assert found.total == 4 and found.temporaries == 0


class TestCommands:
    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        (tmp_path / "p.hlo").write_text(PROGRAM)
        return str(tmp_path / "p.hlo")

    def test_explain_without_an_instruction(self, file: str, capsys: pytest.CaptureFixture[str]):
        assert invoke(["explain", file]) == 0
        text = capsys.readouterr().out
        titles = [line for line in text.splitlines() if line.startswith("==")]
        assert titles == [
            "== memory of a run on one device",
            "== live bytes of results and temporaries",
            "== live at the peak, in c",
            "== arguments",
        ]
        assert re.search(r"1 MiB +33\.3%  temporary +a f32\[512,512\]  dot, f\.py:1, from a to d", text)
        assert "<- peak" in text and "in c at f.py:3" in text

    def test_explain_writes_a_page(self, file: str, tmp_path: Path):
        assert invoke(["explain", file, "--html", str(tmp_path / "p.html")]) == 0
        assert "products: memory" in (tmp_path / "p.html").read_text("ascii")

    def test_wrong_arguments(self, file: str, capsys: pytest.CaptureFixture[str]):
        assert invoke(["explain"]) == 2
        assert invoke(["explain", "a", "b", file]) == 2
        assert "not 3 arguments" in capsys.readouterr().err
        assert invoke(["explain", "a"]) == 1

    def test_profile_says_what_memory_is_for(self, file: str, capsys: pytest.CaptureFixture[str]):
        assert invoke(["profile", file, "--repeat", "2", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["memory"]["peak_at"] == "c" and found["memory"]["arguments"] == ARRAY + 256
        assert any(line.startswith("memory: ") and "in c at f.py:3" in line for line in found["summary"])

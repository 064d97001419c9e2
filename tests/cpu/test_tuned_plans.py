"""Programs that are compiled with a tuning file: which plans are followed, and what becomes of the others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen import strategies
from xlapy.codegen.extraction import kernel_fingerprint
from xlapy.codegen.plan import DemandedPlan
from xlapy.codegen.tuning import TunedKernel, tuning_text
from xlapy.cpu.compiler import Instrument, compile_module
from xlapy.cpu.llvm.processor import instruction_set
from xlapy.runtime.backends import cpu
from xlapy.runtime.instrumented import compile_instrumented
from xlapy.text import parse_hlo

CPU = xla.Client("cpu")

LAYER = """HloModule layer
ENTRY e {
  a = s32[48,64] parameter(0)
  b = s32[64,96] parameter(1)
  d = s32[48,96] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  ones = s32[48,96] broadcast(one), dimensions={}
  ROOT r = s32[48,96] add(d, ones)
}"""
OTHER = """HloModule other
ENTRY main {
  x = s32[48,64] parameter(0)
  y = s32[64,96] parameter(1)
  product = s32[48,96] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  number = s32[] constant(1)
  wide = s32[48,96] broadcast(number), dimensions={}
  ROOT sum = s32[48,96] add(product, wide)
}"""
ARGUMENTS = [np.arange(48 * 64, dtype=np.int32).reshape(48, 64), np.arange(64 * 96, dtype=np.int32).reshape(64, 96)]
EXPECTED = ARGUMENTS[0] @ ARGUMENTS[1] + 1
PACKED = DemandedPlan("packed-gemm", (("tile_rows", 3),))


def kernel_of(text: str) -> str:
    """The fingerprint of the kernel with the dot of a program."""
    module = compile_module(parse_hlo(text)).module
    (found,) = [i for i in module.entry_computation if i.op.name in ("fusion", "dot")]
    return kernel_fingerprint(found)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "plans.tuning", PACKED)
    strategies._warn_once.cache_clear()
    return tmp_path / "plans.tuning"


def write(path: Path, plan: DemandedPlan, instructions: str | None = None) -> None:
    kernel = TunedKernel(instructions or instruction_set(), kernel_of(LAYER), plan, "dot")
    path.write_text(tuning_text([kernel]))


def plan_in(executable: xla.Executable) -> dict[str, object]:
    (found,) = re.findall(r'backend_config=(\{"kernel_plan":\{.*?\}\})', executable.as_hlo_text(optimized=True))
    return json.loads(found)["kernel_plan"]


def is_packed(executable: xla.Executable) -> bool:
    np.testing.assert_array_equal(executable(*ARGUMENTS), EXPECTED)
    return plan_in(executable).items() >= {"strategy": "packed-gemm", "tile_rows": 3}.items()


def test_a_plan_is_followed_by_the_option_and_by_the_flag(file, monkeypatch):
    assert not is_packed(CPU.compile(LAYER))
    assert is_packed(CPU.compile(LAYER, tuning_file=file)) and is_packed(CPU.compile(LAYER, tuning_file=str(file)))
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"tuning_file": str(file)}))
    assert is_packed(CPU.compile(LAYER))
    assert not is_packed(CPU.compile(LAYER, tuning_file=""))


def test_the_same_kernel_of_another_module_has_the_plan(file):
    assert kernel_of(OTHER) == kernel_of(LAYER)
    assert is_packed(CPU.compile(OTHER, tuning_file=file))
    smaller = OTHER.replace("48,", "47,")
    assert plan_in(CPU.compile(smaller, tuning_file=file)) == plan_in(CPU.compile(smaller))


def test_a_plan_of_the_module_precedes(file):
    demanded = LAYER.replace("add(d, ones)", 'add(d, ones), backend_config={"kernel_plan":{"strategy":"loops"}}')
    assert plan_in(CPU.compile(demanded, tuning_file=file))["strategy"] == "loops"


def test_plans_of_other_instruction_sets_are_not_followed(file):
    write(file, PACKED, "SSE4_2" if instruction_set() != "SSE4_2" else "AVX2")
    assert not is_packed(CPU.compile(LAYER, tuning_file=file))


def test_code_for_a_level_follows_the_plans_for_it(file, monkeypatch):
    write(file, PACKED, "AVX2")
    for level, follows in (("AVX2", True), ("AVX", False)):
        monkeypatch.setattr(flags, "current", lambda level=level: flags.Flags({"max_isa": level}))
        assert instruction_set() == level
        assert is_packed(CPU.compile(LAYER, tuning_file=file)) == follows


@pytest.mark.parametrize(
    ("plan", "part"),
    [
        (DemandedPlan("magic", ()), "magic"),
        (DemandedPlan("scan", ()), "not a cumulative reduction"),
        (DemandedPlan("packed-gemm", (("tile_rows", 3), ("tile_depth", 1))), "tile_depth"),
        (DemandedPlan("packed-gemm", (("tile_rows", 33),)), "33"),
    ],
)
def test_a_stale_plan_is_ignored_with_one_line_in_the_log(file, plan, part, caplog):
    write(file, plan)
    for _ in range(2):
        assert plan_in(CPU.compile(LAYER, tuning_file=file)) == plan_in(CPU.compile(LAYER))
    (line,) = [record.getMessage() for record in caplog.records if str(file) in record.getMessage()]
    assert part in line


def test_files_that_cannot_be_read_are_errors(tmp_path):
    for content in (b"{}", b"\xff\xfe", None):
        path = tmp_path / "some.tuning"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with raises(InvalidArgumentError, codes.TUNING_FILE, "some.tuning"):
            CPU.compile(LAYER, tuning_file=path)
    with raises(InvalidArgumentError, codes.TUNING_FILE):
        CPU.compile(LAYER, tuning_file=tmp_path)
    for name in ("~no-such-user/t", "a\0b"):
        with raises(InvalidArgumentError, codes.TUNING_FILE):
            CPU.compile(LAYER, tuning_file=name)


def test_the_interpreter_does_not_read_the_file(tmp_path):
    executable = xla.Client("interpreter").compile(LAYER, tuning_file=tmp_path / "missing")
    np.testing.assert_array_equal(executable(*ARGUMENTS), EXPECTED)


def test_a_file_that_was_written_again_is_read_again(file):
    assert is_packed(CPU.compile(LAYER, tuning_file=file))
    replacement = file.with_suffix(".new")
    write(replacement, DemandedPlan("loops", ()))
    os.replace(replacement, file)
    assert plan_in(CPU.compile(LAYER, tuning_file=file))["strategy"] == "loops"


def test_threads_compile_with_different_files(file, tmp_path):
    write(tmp_path / "loops.tuning", DemandedPlan("loops", ()))
    files = [file, tmp_path / "loops.tuning", ""] * 8
    with ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(lambda path: CPU.compile(LAYER, tuning_file=path), files))
    default = plan_in(CPU.compile(LAYER))["strategy"]
    assert [plan_in(executable)["strategy"] for executable in compiled] == ["packed-gemm", "loops", default] * 8


def test_the_cache_of_compiled_programs_keeps_programs_of_other_plans_apart(file, tmp_path, monkeypatch):
    compiled: list[str] = []
    original = cpu.compile_module

    def compile_module(module, *rest, **options):
        compiled.append(module.name)
        return original(module, *rest, **options)

    monkeypatch.setattr(cpu, "compile_module", compile_module)
    copy = tmp_path / "copy.tuning"
    copy.write_text(file.read_text().replace('"dot"', '"another description"'))

    def compile_with(path: Path | str, **values: flags.Value) -> int:
        chosen = flags.Flags({"cache_dir": str(tmp_path / "cache"), **values})
        monkeypatch.setattr(flags, "current", lambda: chosen)
        options = {} if values else {"tuning_file": path}
        np.testing.assert_array_equal(CPU.compile(LAYER, **options)(*ARGUMENTS), EXPECTED)
        return len(compiled)

    assert compile_with("") == 1
    assert compile_with(file) == 2
    assert compile_with(copy) == 2, "equal plans, whatever the file"
    write(copy, DemandedPlan("loops", ()))
    assert compile_with(copy) == 3
    assert compile_with("", tuning_file=str(file)) == 4
    assert compile_with("", tuning_file=str(file)) == 4
    assert compile_with("") == 4


def test_explanations_say_where_the_plan_is_from(file, monkeypatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"tuning_file": str(file)}))
    plans = compile_module(parse_hlo(LAYER)).plans()
    assert "packed-gemm column_blocks=" in plans and "tile_rows=3" in plans and "taken from the tuning file" in plans


def test_instrumented_programs_follow_the_plans(file):
    copy, _ = compile_instrumented(CPU.compile(LAYER, tuning_file=file), Instrument.COUNTS)
    assert is_packed(copy)


@pytest.mark.slow
def test_jax_follows_the_flag(file):
    code = """
import jax, numpy as np
f = jax.jit(lambda a, b: jax.lax.dot(a, b) + 1)
a, b = np.arange(48 * 64, dtype=np.int32).reshape(48, 64), np.arange(64 * 96, dtype=np.int32).reshape(64, 96)
compiled = f.lower(a, b).compile()
np.testing.assert_array_equal(compiled(a, b), a @ b + 1)
print(compiled.runtime_executable().hlo_modules()[0].to_string())
"""
    environment = {**os.environ, "JAX_PLATFORMS": "xlapy", "XLAPY_FLAGS": f"--tuning_file={file}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    assert '"strategy":"packed-gemm"' in done.stdout and '"tile_rows":3' in done.stdout

"""The processor that code is generated for: limits by `--max_isa`, and code for each instruction set."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import ISAS, limited_to, stages_for
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.llvm.processor import LEVELS, Processor, host_processor, target_processor
from xlapy.cpu.target import host_target
from xlapy.runtime.storage.compile_cache import compile_environment

MODULE = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[9,300] parameter(0)
  w = f32[300,40] parameter(1)
  z = f32[] constant(0)
  s = f32[9,300] sine(x)
  t = f32[9] reduce(s, z), dimensions={1}, to_apply=add
  p = f32[9,40] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[9], f32[9,40]) tuple(t, p)
}"""
REGISTERS = {"zmm": 64, "ymm": 32, "xmm": 16}
WIDTHS = {"SSE4_2": 16, "AVX": 32, "AVX2": 32, "AVX512": 64}
"""The size of the widest registers of each level. With AVX, only moves of data use 32 bytes."""


@pytest.mark.parametrize("isa", WIDTHS)
def test_code_uses_the_registers_of_its_level(isa: str):
    assembly = stages_for(isa, MODULE)["s"]
    assert max(size for name, size in REGISTERS.items() if name in assembly) == WIDTHS[isa]
    assert ("vfmadd" in assembly) == (isa in ISAS)


@pytest.mark.parametrize("isa", WIDTHS)
def test_every_level_computes_the_same(isa: str):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((9, 300)).astype(np.float32), rng.standard_normal((300, 40)).astype(np.float32)
    s = np.sin(x.astype(np.float64))
    with limited_to(isa):
        sums, product = xla.Client("cpu").compile(MODULE)(x, w)
    rounding = 2.0**-24
    assert (np.abs(np.asarray(sums) - s.sum(1)) <= 300 * rounding * np.abs(s).sum(1)).all()
    assert (np.abs(np.asarray(product) - s @ w) <= 300 * rounding * (np.abs(s) @ np.abs(w))).all()


def test_a_limit_removes_all_features_beyond_it_and_names_its_own_processor():
    """Code for a level must run, and be the same, on all processors that have the level."""
    with limited_to("avx2"):
        limited = target_processor()
        assert host_target().vector_bytes <= 32
        assert compile_environment()["processor"] == [limited.name, sorted(limited.features)]
    assert limited == Processor("haswell", LEVELS["AVX2"].features & host_processor().features)
    assert not {"avx512f", "vaes", "gfni", "avxvnni", "sha"} & limited.features
    assert limited.feature_text().count(",-avx512f,") == 1
    with limited_to(""):
        assert target_processor() == host_processor()


def test_levels_contain_those_before():
    levels = list(LEVELS.values())
    assert all(before.features < after.features for before, after in itertools.pairwise(levels))
    assert all(name in host_processor().feature_text() for level in levels for name in level.features)
    assert {level: LEVELS[level].vector_bytes for level in WIDTHS} == {**WIDTHS, "AVX": 16}


def test_the_flag_of_xla_is_read():
    values = flags.Flags.from_environment({"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"})
    assert values.get("max_isa") == "AVX2"


def test_an_unknown_level_is_an_error():
    with limited_to("AVX3"), raises(InvalidArgumentError, codes.FLAG_CHOICE, "SSE4_2", "'AVX3'"):
        xla.Client("cpu").compile(MODULE)

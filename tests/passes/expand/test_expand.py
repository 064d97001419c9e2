"""expand: which operations are expanded; every expansion computes the value of the operation, on all samples."""

from __future__ import annotations

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

from tests.passes.runner import ROUNDING, assert_same_results, body, execute, program, run_passes
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError, PassError
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.opcodes.registry import OpDef
from xlapy.passes.expand import EXPANSIONS
from xlapy.passes.expand.expand import Expand
from xlapy.testing.comparison import rule_of_operation
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.samples import REFUSED_AT_RUN, samples_of
from xlapy.text import parse_hlo

TOLERANCES: dict[OpDef, str] = {
    opcodes.CLAMP: "exact",
    opcodes.TOPK: "bits",
    **dict.fromkeys((opcodes.RNG_BIT_GENERATOR, opcodes.STOCHASTIC_CONVERT, opcodes.SHUFFLE, opcodes.SCAN), "bits"),
    **dict.fromkeys(
        (opcodes.BATCH_NORM_TRAINING, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_GRAD, opcodes.LOGISTIC),
        ROUNDING,
    ),
    opcodes.ERF: ROUNDING,
    **dict.fromkeys((opcodes.RAGGED_DOT, opcodes.SCALED_DOT), "bits"),
    opcodes.SELECT_AND_SCATTER: "bits",
    **dict.fromkeys((opcodes.ASYNC_DONE, opcodes.COPY_DONE), "bits"),
    **dict.fromkeys((opcodes.CHOLESKY, opcodes.TRIANGULAR_SOLVE, opcodes.FFT), ROUNDING),
}
"""The comparison rule for an expansion, by default that of the operation. An expansion rounds at every step where the
interpreter computes the operation with one rounding.
"""

STATIC = {opcodes.CHOLESKY, opcodes.TRIANGULAR_SOLVE, opcodes.FFT}
"""Operations whose expansions leave dynamic dimensions to the pass that removes them."""

FINITE = {opcodes.FFT}
"""Operations for which infinities and overflow depend on the algorithm; they get finite arguments."""

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{sample.name}")
    for op in EXPANSIONS
    for sample in samples_of(op.family)
    if sample.note != REFUSED_AT_RUN and any(i.op is op for i in parse_hlo(sample.text).instructions())
    if op not in STATIC or "<=" not in sample.text
]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_an_expansion_computes_the_same(op, sample):
    before = parse_hlo(sample.text)
    after = clone_module(before)
    assert run_passes(after, [Expand(ops=(op.name,))])
    assert all(instruction.op is not op for instruction in after.instructions())
    first = next(i for i in before.instructions() if i.op is op)
    rule = TOLERANCES.get(op) or rule_of_operation(op.name, first.operands[0].shape.dtype)
    if runs_alone(before):
        assert_same_results(before, after, rule, special=op not in FINITE)


def runs_alone(module: Module) -> bool:
    """Whether a module takes nothing from the host or other devices, so that its values are compared."""
    outward = (opcodes.INFEED, opcodes.RECV, opcodes.RAGGED_ALL_TO_ALL)
    return all(i.op not in outward for i in module.instructions())


def test_every_expansion_has_a_sample_and_is_in_the_file_of_its_family():
    compared = {case.values[0] for case in CASES if runs_alone(parse_hlo(case.values[1].text))}
    assert compared == set(EXPANSIONS) - {opcodes.RAGGED_ALL_TO_ALL}  # whose samples are compared on several devices
    for op in EXPANSIONS:
        assert EXPANSIONS.find(op).__module__ == import_module(f"xlapy.passes.expand.{op.family}").__name__


LOGISTIC = program("x = f32[2] parameter(0)", 'ROOT r = f32[2] logistic(x), metadata={op_name="s"}')


def test_an_expansion_keeps_metadata():
    module = parse_hlo(LOGISTIC)
    assert run_passes(module, "expand{ops=logistic}")
    assert [i.metadata.op_name for i in module.entry_computation if i.op is not opcodes.PARAMETER] == ["s"] * 11
    assert body(module).splitlines()[-1] == "ROOT divide = f32[2] divide(exponential, add)"


@pytest.mark.parametrize(
    ("t", "dtype"), [("f32", np.float32), ("f64", np.float64), ("bf16", ml_dtypes.bfloat16), ("c64", np.complex64)]
)
def test_a_logistic_keeps_what_would_overflow_or_be_denormal(t: str, dtype: type):
    module = parse_hlo(program(f"x = {t}[10] parameter(0)", f"ROOT l = {t}[10] logistic(x)"))
    after = clone_module(module)
    assert run_passes(after, "expand{ops=logistic}")
    x = np.array([-np.inf, -1000, -740, -91.9, -1, -0.0, 1, 91.9, 1000, np.nan]).astype(dtype)
    program_tolerance(module, [x]).assert_close(execute(after, [x]), t)


def test_control_edges_are_transferred():
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] negate(x)",
        "l = f32[2] logistic(x), control-predecessors={a}",
        "ROOT r = f32[2] add(a, l)",
    )
    module = parse_hlo(text)
    assert run_passes(module, "expand{ops=all}")
    divide = next(i for i in module.instructions() if i.op is opcodes.DIVIDE)
    assert [i.name for i in divide.control_predecessors] == ["a"]


def test_supported_operations_are_not_expanded():
    module = parse_hlo(LOGISTIC)
    assert not run_passes(module, "expand")
    assert not run_passes(module, [Expand(runs=frozenset({opcodes.LOGISTIC}))])
    assert run_passes(module, [Expand(runs=frozenset())])


def test_wrong_options():
    with raises(InvalidArgumentError, codes.EXPANDED_OPERATION, "add"):
        Expand(ops=("add",))
    with raises(InvalidArgumentError, codes.PASS_OPTION_VALUE, "'moon'"):
        Expand(platform="moon")


def test_an_expansion_that_leads_back_is_found(monkeypatch):
    def back(write, instruction):
        return write.add(opcodes.LOGISTIC, instruction.operands[0])

    monkeypatch.setitem(EXPANSIONS.table, opcodes.LOGISTIC, back)
    with raises(PassError, codes.PASSES_END, "logistic", "51"):
        Expand(ops=("logistic",)).run(parse_hlo(LOGISTIC))

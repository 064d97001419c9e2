"""Information other than instructions is exported if StableHLO can express it, and otherwise dropped with a warning."""

from __future__ import annotations

import logging

import pytest

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import hlo_of
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import stablehlo_operations as codes

ALIASED = """HloModule m, input_output_alias={ {0}: (0, {1}, must-alias), {1}: (1, {}, may-alias) }

ENTRY main {
  p = (f32[2], f32[3]) parameter(0)
  q = f32[2] parameter(1)
  a = f32[2] get-tuple-element(p), index=0
  b = f32[3] get-tuple-element(p), index=1
  n = f32[3] negate(b)
  s = f32[2] add(a, q)
  ROOT t = (f32[3], f32[2]) tuple(n, s)
}
"""


def test_results_that_must_alias() -> None:
    text = xlapy.parse_hlo(ALIASED).to_stablehlo()
    assert 'kind = "must_alias"' in text
    module = xlapy.parse_stablehlo(text)
    assert "input_output_alias={ {0}: (1, {}, must-alias), {1}: (2, {}, may-alias) }" in module.to_text()
    assert xlapy.parse_stablehlo(module.to_stablehlo()).to_text() == module.to_text()
    assert "{0}: (1, {}, must-alias)" in hlo_of(text)


def test_one_result_that_must_alias() -> None:
    text = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }

ENTRY main {
  p = f32[2] parameter(0)
  ROOT n = f32[2] negate(p)
}
"""
    module = xlapy.parse_stablehlo(xlapy.parse_hlo(text).to_stablehlo())
    assert "input_output_alias={ {}: (0, {}, must-alias) }" in module.to_text()


@pytest.mark.parametrize(
    ("entry", "code", "values"),
    [
        ("{}", codes.ALIASED_RESULT, ()),
        (
            "{alias = {parameter_index = array<i64>, parameter_number = 3}, output_index = array<i64>}",
            codes.ALIASED_RESULT,
            ("argument 3", "1"),
        ),
        (
            '{alias = {kind = "x", parameter_index = array<i64>, parameter_number = 0}, output_index = array<i64>}',
            codes.ALIASED_RESULT,
            ("'x'",),
        ),
        (
            "{alias = {parameter_index = array<i64>, parameter_number = 0}, output_index = array<i64: 0>}",
            codes.ALIASED_RESULT,
            ("[0]", "1"),
        ),
    ],
)
def test_invalid_aliases_are_rejected(entry: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    text = f"""module attributes {{mhlo.input_output_alias = [{entry}]}} {{
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
        return %x : tensor<2xf32>
      }}
    }}"""
    with raises(xlapy.errors.ParseError, code, *values):
        xlapy.parse_stablehlo(text)


WITH_DROPPED_INFORMATION = """HloModule m, is_scheduled=true

f {
  a = f32[2,3] parameter(0), sharding={replicated}
  ROOT b = f32[2,3] negate(a)
}

ENTRY main {
  p = f32[2,3] parameter(0), sharding={replicated}
  c = f32[2,3]{0,1} copy(p), backend_config={"x":1}
  d = f32[2,3] copy(c), statistics={visualizing_index=0,s=1}
  e = f32[2,3] call(d), to_apply=f, control-predecessors={c}
  ROOT r = (f32[2,3]) tuple(e), frontend_attributes={a="b"}
}
"""


def test_dropped_information_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="xlapy"):
        xlapy.parse_hlo(WITH_DROPPED_INFORMATION, verify=False).to_stablehlo()
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("the StableHLO of m lacks ")
    for part in (
        "control dependencies of e",
        "backend_config of c",
        "layouts of c",
        "statistics of d",
        "mhlo.sharding of a",
        "mhlo.frontend_attributes of r",
        "the order of the schedule of m",
    ):
        assert part in message, part
    assert "mhlo.sharding of p" not in message


def test_nothing_is_logged_if_nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="xlapy"):
        xlapy.parse_hlo(ALIASED).to_stablehlo()
    assert not caplog.records

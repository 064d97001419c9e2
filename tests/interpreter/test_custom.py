"""Custom calls on the interpreter: refused, with the reason, before anything runs."""

from __future__ import annotations

import pytest

from xlapy.base.errors import UnsupportedError
from xlapy.runtime.interpreter_backend import InterpreterBackend
from xlapy.text import parse_hlo

CALLS = [
    'ROOT r = f32[4] custom-call(x), custom_call_target="unknown"',
    'ROOT r = f32[4] custom-call(x), custom_call_target="unknown", api_version=API_VERSION_TYPED_FFI',
    'c = () custom-call(), custom_call_target="unknown", custom_call_has_side_effect=true\n  ROOT r = f32[4] copy(x)',
]


@pytest.mark.parametrize("lines", CALLS)
def test_refused_when_compiled(lines: str) -> None:
    module = parse_hlo(f"HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n  {lines}\n}}")
    with pytest.raises(UnsupportedError, match=r"^custom-call: not executable yet .*\(needs registered targets\)"):
        InterpreterBackend().compile(module)

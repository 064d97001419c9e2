"""The code of direct calls of custom-call targets."""

from __future__ import annotations

import xlapy as xla
from tests.interpreter.runners.custom import registered

COUNT = 60


def test_few_addresses_are_live_at_a_time() -> None:
    """LLVM's time grows with the square of the number of registers that are live at once."""
    shape = ", ".join("f32[2]" for _ in range(COUNT))
    call = f'({shape}) custom-call(x), custom_call_target="target"'
    text = f"HloModule m\nENTRY e {{ x = f32[2] parameter(0) ROOT r = {call} }}"
    with registered(lambda x: [x] * COUNT):
        code = xla.Client("cpu").compile(text).program.compiled.llvm
    body = code[code.index("@xlapy_run(") :]
    loads, longest, stores = 0, 0, 0
    for line in body.splitlines():
        if "= load ptr" in line:
            loads += 1
            longest = max(longest, loads)
        elif "store ptr" in line:
            loads, stores = 0, stores + 1
    assert stores == COUNT + 1
    assert longest <= 3

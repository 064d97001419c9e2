"""Programs with thousands of parameters, results or constants: no function and no pass takes time out of proportion."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_float, c_void_p

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered
from xlapy.cpu.compiler import compile_module
from xlapy.hlo import edit

COUNT = 1000
MAX_FUNCTION_LINES = 500
"""Functions of this length take LLVM some five milliseconds."""


@CFUNCTYPE(None, POINTER(POINTER(c_float)), POINTER(POINTER(c_float)))
def numbered(out, operands):
    """Stores the sum of its operands plus 0, 1, ... in its results."""
    total = sum(operands[n][0] for n in range(COUNT))
    for n in range(COUNT):
        out[n][0] = total + n


def test_custom_calls_of_many_arrays_store_their_addresses_by_a_loop():
    shape = ", ".join(["f32[]"] * COUNT)
    operands = "\n  ".join(f"x{n} = f32[] parameter({n})" for n in range(COUNT))
    names = ", ".join(f"x{n}" for n in range(COUNT))
    text = f"""HloModule m
ENTRY e {{
  {operands}
  ROOT r = ({shape}) custom-call({names}), custom_call_target="target"
}}"""
    with registered(ctypes.cast(numbered, c_void_p).value):
        executable = xla.Client("cpu").compile(text)
        results = executable(*[np.float32(n % 7) for n in range(COUNT)])
    total = sum(n % 7 for n in range(COUNT))
    assert [float(one) for one in results] == [total + n for n in range(COUNT)]
    assert longest_function(executable.program.compiled.llvm) < MAX_FUNCTION_LINES


CONSTANTS = "f32[] constant({n})"
SUMS = "f32[] add(x{n}, x{n})"


@pytest.mark.parametrize("element", [CONSTANTS, SUMS], ids=["constants", "sums"])
def test_functions_of_many_results_stay_short(element: str):
    text = program(element)
    arguments = [np.float32(n) for n in range(COUNT)]
    results = xla.Client("cpu").compile(text)(*arguments)
    factor = 1 if element is CONSTANTS else 2
    assert [float(one) for one in results] == [factor * n for n in range(COUNT)]
    compiled = compile_module(xla.parse_hlo(text, verify=True))
    assert longest_function(compiled.llvm) < MAX_FUNCTION_LINES


def program(element: str) -> str:
    """Returns a program with a parameter and a result for each number."""
    lines = [f"x{n} = f32[] parameter({n})" for n in range(COUNT)]
    lines += [f"y{n} = {element.format(n=n)}" for n in range(COUNT)]
    shape = ", ".join(["f32[]"] * COUNT)
    names = ", ".join(f"y{n}" for n in range(COUNT))
    body = "\n  ".join(lines)
    return f"HloModule m\nENTRY e {{\n  {body}\n  ROOT r = ({shape}) tuple({names})\n}}"


def longest_function(llvm: str) -> int:
    """Returns the number of lines of the longest function of a module."""
    return max(part.split("\n}")[0].count("\n") for part in llvm.split("\ndefine ")[1:])


def test_wide_users_change_once(monkeypatch: pytest.MonkeyPatch):
    """A tuple of n fusions is rebuilt a fixed number of times, not n times."""
    lengths: list[int] = []
    swap = edit._swap_operand

    def counted(user, operand, replacement):
        lengths.append(len(user.operands))
        swap(user, operand, replacement)

    monkeypatch.setattr(edit, "_swap_operand", counted)
    text = program("f32[] add(x{n}, k{n})").replace(
        "y0 =", "\n  ".join(f"k{n} = f32[] constant({n})" for n in range(COUNT)) + "\n  y0 ="
    )
    results = xla.Client("cpu").compile(text)(*[np.float32(n) for n in range(COUNT)])
    assert [float(one) for one in results] == [2 * n for n in range(COUNT)]
    assert sum(length > 64 for length in lengths) < 10

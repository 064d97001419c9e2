"""Random programs of nested loops, branches and calls on tuples of arrays, which are updated, swapped and passed on.

All arrays have the same size, so that any of them may take the memory of any other. The buffers of a program are
verified with and without the passes before it, and its values are compared with the interpreter's.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.base import flags
from xlapy.cpu.compiler import compile_module

COUNT = 3
"""Arrays in the tuple that every computation takes and returns."""


class ProgramGenerator:
    """Writes a module whose computations take and return `(s32[], array, array, array)`. The s32[] counts upward."""

    def __init__(self, seed: int, size: int) -> None:
        self._random = random.Random(seed)
        self._array = f"s32[{size}]"
        self._tuple = f"(s32[], {', '.join([self._array] * COUNT)})"
        self._computations = [
            "less { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }",
        ]

    def module(self) -> str:
        main = self._computation(3)
        parameters = [f"x{n} = {self._array} parameter({n})" for n in range(COUNT)]
        names = ", ".join(["zero", *(f"x{n}" for n in range(COUNT))])
        entry = f"""ENTRY entry {{
  {"  ".join(parameters)}
  zero = s32[] constant(0)
  t = {self._tuple} tuple({names})
  ROOT r = {self._tuple} call(t), to_apply={main}
}}"""
        return "\n".join(["HloModule random_control_flow", *self._computations, entry])

    def _computation(self, depth: int) -> str:
        """Adds a computation, which contains control flow up to a depth; returns its name."""
        lines = [f"p = {self._tuple} parameter(0)", "i = s32[] get-tuple-element(p), index=0"]
        lines += ["one = s32[] constant(1)", "j = s32[] add(i, one)", "three = s32[] constant(3)"]
        lines += ["k = s32[] remainder(i, three)"]
        arrays = [f"a{n}" for n in range(COUNT)]
        lines += [f"{name} = {self._array} get-tuple-element(p), index={n + 1}" for n, name in enumerate(arrays)]
        for number in range(self._random.randint(0, 5)):
            lines += self._step(f"v{number}", arrays, depth)
        root = ["j", *(self._random.choice(arrays[-2 * COUNT :]) for _ in range(COUNT))]
        if self._random.random() < 0.3:
            root[1:] = self._random.sample(arrays[:COUNT], COUNT)
        lines.append(f"ROOT root = {self._tuple} tuple({', '.join(root)})")
        name = f"c{len(self._computations)}"
        self._computations.append(f"{name} {{\n  " + "\n  ".join(lines) + "\n}")
        return name

    def _step(self, name: str, arrays: list[str], depth: int) -> list[str]:
        """Returns the lines of one operation, and adds the arrays that it defines."""
        kinds = ["elementwise", "binary", "update", "update", "reverse", "sort", "reduce"]
        if depth:
            kinds += ["conditional", "conditional", "while", "call"] * 2
        kind = self._random.choice(kinds)
        if kind in ("conditional", "while", "call"):
            return self._control_flow(kind, name, arrays, depth)
        first, second = self._random.choices(arrays, k=2)
        arrays.append(name)
        made = f"{name} = {self._array}"
        if kind == "elementwise":
            return [f"{made} negate({first})"]
        if kind == "binary":
            return [f"{made} subtract({first}, {second})"]
        if kind == "reverse":
            return [f"{made} reverse({first}), dimensions={{0}}"]
        if kind == "sort":
            return [f"{made} sort({first}), dimensions={{0}}, is_stable=true, to_apply=less"]
        slice_ = f"{name}.u = s32[2] dynamic-slice({second}, i), dynamic_slice_sizes={{2}}"
        if kind == "update":
            return [slice_, f"{made} dynamic-update-slice({first}, {name}.u, k)"]
        return [
            slice_,
            f"{name}.e = s32[1] slice({name}.u), slice={{[0:1]}}",
            f"{name}.s = s32[] reshape({name}.e)",
            f"{name}.b = {self._array} broadcast({name}.s), dimensions={{}}",
            f"{made} multiply({name}.b, {first})",
        ]

    def _control_flow(self, kind: str, name: str, arrays: list[str], depth: int) -> list[str]:
        chosen = [self._random.choice(arrays) for _ in range(COUNT)]
        if self._random.random() < 0.5:
            chosen = self._random.sample(arrays, COUNT)
        if kind == "while":
            condition = self._condition()
            lines = [f"{name}.z = s32[] constant(0)", f"{name}.t = {self._tuple} tuple({name}.z, {', '.join(chosen)})"]
            rest = f"while({name}.t), condition={condition}, body={self._computation(depth - 1)}"
        else:
            lines = [f"{name}.t = {self._tuple} tuple(i, {', '.join(chosen)})"]
            rest = f"call({name}.t), to_apply={self._computation(depth - 1)}"
        if kind == "conditional":
            branches = [self._computation(depth - 1) for _ in range(self._random.randint(2, 3))]
            operands = [f"{name}.t"] * len(branches)
            if self._random.random() < 0.4:
                others = ", ".join(self._random.choice(arrays) for _ in range(COUNT))
                lines.append(f"{name}.o = {self._tuple} tuple(j, {others})")
                operands[self._random.randrange(len(branches))] = f"{name}.o"
            rest = f"conditional(k, {', '.join(operands)}), branch_computations={{{', '.join(branches)}}}"
        lines.append(f"{name} = {self._tuple} {rest}")
        for number in range(COUNT):
            lines.append(f"{name}.{number} = {self._array} get-tuple-element({name}), index={number + 1}")
            arrays.append(f"{name}.{number}")
        return lines

    def _condition(self) -> str:
        name = f"c{len(self._computations)}"
        self._computations.append(
            f"{name} {{ p = {self._tuple} parameter(0)  i = s32[] get-tuple-element(p), index=0  "
            f"n = s32[] constant({self._random.randint(0, 4)})  "
            "ROOT r = pred[] compare(i, n), direction=LT }"
        )
        return name


def check(seed: int) -> None:
    size = (5, 300)[seed % 2]
    module = xla.parse_hlo(ProgramGenerator(seed, size).module(), verify=True)
    donated = tuple(n for n in range(COUNT) if (seed >> n) & 1)
    compile_module(module, donated, optimized=True)
    compile_module(module, donated)
    arguments = [np.arange(n, n + size, dtype=np.int32) * (n + 1) % 17 for n in range(COUNT)]
    expected = leaves(xla.Client("interpreter").compile(module)(*arguments))
    for ours, theirs in zip(leaves(xla.Client("cpu").compile(module)(*arguments)), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seed", range(12))
def test_random_control_flow_agrees_with_the_interpreter(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))
    check(seed)

"""Collectives whose operands lie in memory that other arrays shared: behind reshapes, and in place of other types.

Each module is run on cpu and by the interpreter. The small size is copied to staging memory, the large one is read in
place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.program.communication.rendezvous_assignment import MAX_STAGED_BYTES

DEVICES = 2
STAGED, DIRECT = 24, 2 * MAX_STAGED_BYTES // (DEVICES * 4 * 32)
"""Rows of 32 elements of 4 bytes; with the large size, the operands of all devices are larger than staging memory."""

HEAD = """HloModule m, replica_count=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
add_integers { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
"""

GROUP = "replica_groups={{0,1}}"
PAIRS = "source_target_pairs={{1,0}}"
COLLECTIVES = {
    "all-reduce": "R = T all-reduce(O), replica_groups={}, to_apply=ADD",
    "all-reduce in reverse": "R = T all-reduce(O), replica_groups={{1,0}}, to_apply=ADD",
    "all-reduce-start": "s.R = T all-reduce-start(O), replica_groups={}, to_apply=ADD\nR = T all-reduce-done(s.R)",
    "reduce-scatter": f"R = HALF reduce-scatter(O), {GROUP}, dimensions={{D}}, to_apply=ADD",
    "collective-reduce": f"R = T collective-reduce(O), {GROUP}, to_apply=ADD",
    "all-gather": f"R = TWICE all-gather(O), {GROUP}, dimensions={{D}}",
    "all-gather-start": f"s.R = (T, TWICE) all-gather-start(O), {GROUP}, dimensions={{D}}\n"
    "R = TWICE all-gather-done(s.R)",
    "all-to-all": f"R = T all-to-all(O), {GROUP}, dimensions={{D}}",
    "all-to-all of operands": f"R = (T, T) all-to-all(O, O), {GROUP}",
    "collective-permute": f"R = T collective-permute(O), {PAIRS}",
    "collective-permute-start": f"s.R = (T, T) collective-permute-start(O), {PAIRS}\n"
    "R = T collective-permute-done(s.R)",
    "collective-broadcast": "R = T collective-broadcast(O), replica_groups={{1,0}}",
    "ragged-all-to-all": "i.R = s64[2] constant({1,0})\nn.R = s64[2] constant({1,1})\n"
    f"R = T ragged-all-to-all(O, O, i.R, n.R, i.R, n.R), {GROUP}",
}


class Operand:
    """An operand of a collective: how it is computed from `p` (f32[rows,32]), its dimensions and element type."""

    def __init__(self, text: str, element_type: str, *sizes: int) -> None:
        self.text, self.element_type, self.sizes = text, element_type, sizes

    def shape(self, dimension: int = 0, numerator: int = 1, denominator: int = 1) -> str:
        sizes = [n * numerator // denominator if d == dimension else n for d, n in enumerate(self.sizes)]
        return f"{self.element_type}[{','.join(map(str, sizes))}]"


def operands(rows: int) -> dict[str, Operand]:
    """Returns operands that are the same memory as `p`, or as an array of other dimensions or another type."""
    flat = rows * 32
    sort = f"sort.N = f32[{rows},32] sort(p), dimensions={{1}}, to_apply=less\n"
    return {
        "another dimension": Operand(f"N = f32[2,{rows // 2},32] reshape(p)", "f32", 2, rows // 2, 32),
        "fewer dimensions": Operand(f"N = f32[{flat}] reshape(p)", "f32", flat),
        "bitcast": Operand(f"N = f32[4,{flat // 4}] bitcast(p)", "f32", 4, flat // 4),
        "reshapes of a sum": Operand(
            f"a.N = f32[{rows},32] add(p, p)\nb.N = f32[{flat}] reshape(a.N)\nN = f32[8,{flat // 8}] reshape(b.N)",
            "f32", 8, flat // 8,
        ),
        "transposed": Operand(
            f"t.N = f32[32,{rows}] transpose(p), dimensions={{1,0}}\nN = f32[4,8,{rows}] reshape(t.N)",
            "f32", 4, 8, rows,
        ),
        "sliced": Operand(
            f"s.N = f32[{rows},16] slice(p), slice={{[0:{rows}],[8:24]}}\nN = f32[2,{rows},8] reshape(s.N)",
            "f32", 2, rows, 8,
        ),
        "converted in place": Operand(f"{sort}N = s32[{rows},32] convert(sort.N)", "s32", rows, 32),
        "reinterpreted": Operand(f"{sort}N = s32[{rows},32] bitcast-convert(sort.N)", "s32", rows, 32),
        "converted in place, reshaped": Operand(
            f"{sort}c.N = s32[{rows},32] convert(sort.N)\nN = s32[2,{rows // 2},32] reshape(c.N)",
            "s32", 2, rows // 2, 32,
        ),
    }  # fmt: skip


def module(collective: str, rows: int) -> str:
    """Returns a module that applies a collective to all operands, along each of the first two dimensions."""
    lines, results = [f"p = f32[{rows},32] parameter(0)"], []
    for number, operand in enumerate(operands(rows).values()):
        lines.append(operand.text.replace("N", f"o{number}"))
        ranks = range(min(2, len(operand.sizes)) if "{D}" in COLLECTIVES[collective] else 1)
        for dimension in ranks:
            name = f"r{number}.{dimension}"
            shapes = {"HALF": (dimension, 1, 2), "TWICE": (dimension, 2, 1), "T": (0,)}
            text = COLLECTIVES[collective].replace("R", name).replace("{D}", f"{{{dimension}}}")
            text = text.replace("(O", f"(o{number}").replace(", O", f", o{number}")
            text = text.replace("ADD", "add" if operand.element_type == "f32" else "add_integers")
            for word, arguments in shapes.items():
                text = text.replace(word, operand.shape(*arguments))
            lines.append(text)
            if " (" in text.splitlines()[-1].split("=")[1]:
                lines.append(f"g.{name} = {operand.shape()} get-tuple-element({name}), index=1")
                name = f"g.{name}"
            size = int(np.prod(operand.sizes)) * (2 if "TWICE" in COLLECTIVES[collective] else 1)
            size //= 2 if "HALF" in COLLECTIVES[collective] else 1
            lines.append(f"flat.{name} = {operand.element_type}[{size}] reshape({name})")
            results.append((f"flat.{name}", f"{operand.element_type}[{size}]"))
    names, shapes_ = ", ".join(name for name, _ in results), ", ".join(shape for _, shape in results)
    body = "\n".join([*lines, f"ROOT all = ({shapes_}) tuple({names})"])
    return f"{HEAD}ENTRY e {{ {body} }}"


def run(platform: str, text: str, arguments: list[list[Any]]) -> list[list[Any]]:
    results = xla.Client(platform, devices=DEVICES).compile(text).execute_sharded(arguments)
    return [[np.asarray(array) for array in result] for result in results]


@pytest.mark.parametrize("rows", [STAGED, DIRECT], ids=["staged", "direct"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_collectives_take_the_shapes_of_their_operands(collective: str, rows: int) -> None:
    text = module(collective, rows)
    generator = np.random.default_rng(0)
    arguments = [[(generator.random((rows, 32)) * 100).astype(np.float32)] for _ in range(DEVICES)]
    expected = run("interpreter", text, arguments)
    for device, found in enumerate(run("cpu", text, arguments)):
        for number, (got, want) in enumerate(zip(found, expected[device], strict=True)):
            np.testing.assert_array_equal(got, want, f"device {device}, result {number}")

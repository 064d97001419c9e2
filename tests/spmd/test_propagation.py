"""Values without a sharding get the one that their operands and users suggest, before operations are partitioned."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.sharded_runs import local_array
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.spmd import EntryShardings, partition

DEVICES = 4
ROWS, COLUMNS, WHOLE = "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "{replicated}"
HEAD = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
LOOP = f"""{HEAD}
  body {{ s = (s32[], f32[8,8], f32[8]) parameter(0)
    i = s32[] get-tuple-element(s), index=0
    x = f32[8,8] get-tuple-element(s), index=1
    v = f32[8] get-tuple-element(s), index=2
    one = s32[] constant(1)
    j = s32[] add(i, one)
    y = f32[8,8] sine(x)
    z = f32[] constant(0)
    w = f32[8] reduce(y, z), dimensions={{1}}, to_apply=sum
    u = f32[8] add(v, w)
    ROOT t = (s32[], f32[8,8], f32[8]) tuple(j, y, u) }}
  condition {{ s = (s32[], f32[8,8], f32[8]) parameter(0)
    i = s32[] get-tuple-element(s), index=0
    three = s32[] constant(3)
    ROOT p = pred[] compare(i, three), direction=LT }}
  ENTRY e {{ a = f32[8,8] parameter(0), sharding={ROWS}
    i = s32[] constant(0)
    z = f32[] constant(0)
    v = f32[8] broadcast(z), dimensions={{}}
    t = (s32[], f32[8,8], f32[8]) tuple(i, a, v)
    w = (s32[], f32[8,8], f32[8]) while(t), body=body, condition=condition
    x = f32[8,8] get-tuple-element(w), index=1
    u = f32[8] get-tuple-element(w), index=2
    ROOT r = (f32[8,8], f32[8]) tuple(x, u), sharding={{{ROWS}, {{devices=[4]<=[4]}}}} }}"""


def collectives(module: Module) -> list[str]:
    return sorted(i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands)


def check(text: str, expected: str = "") -> tuple[Module, EntryShardings]:
    """Checks the collectives, and that the devices return the tiles of the whole program's results."""
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    generator = np.random.default_rng(0)
    given = [generator.integers(-9, 9, shape.dimensions).astype(shape.dtype) for shape in shapes]
    shardings = partition(module, DEVICES)
    verify(module)
    assert " ".join(collectives(module)) == expected
    wanted = xla.Client("interpreter").compile(whole)(*given)
    leaves = [leaf for _, leaf in whole.entry_computation.root_instruction.shape.leaves()]
    parts = [
        [local_array(*each, device, DEVICES) for each in zip(given, shapes, shardings.parameters, strict=True)]
        for device in range(DEVICES)
    ]
    results = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    for device, result in enumerate(results):
        pairs = zip(_list(result), _list(wanted), leaves, shardings.results, strict=True)
        for got, one, leaf, sharding in pairs:
            tile = local_array(np.asarray(one), leaf, sharding, device, DEVICES)
            np.testing.assert_allclose(np.asarray(got), tile, rtol=1e-6, atol=1e-6)
    return module, shardings


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def shape_of(module: Module, opcode: str) -> str:
    return next(i.shape.to_text(layout=False) for i in module.instructions() if i.op.name == opcode)


def test_values_take_the_sharding_of_their_users() -> None:
    """The result is split, so that the operations before it work on tiles, although the parameter is whole."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0)
        y = f32[8,8] sine(x)
        z = f32[8,8] sort(y), dimensions={{1}}, to_apply=less
        ROOT r = f32[8,8] negate(z), sharding={ROWS} }}"""
    module, _ = check(text)
    assert shape_of(module, "sine") == shape_of(module, "sort") == "f32[2,8]"


def test_values_take_the_sharding_of_their_operands() -> None:
    """Columns of the transposed array stay split, and so does what is computed from their sums."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] transpose(x), dimensions={{1,0}}
        z = f32[] constant(0)
        s = f32[8] reduce(y, z), dimensions={{0}}, to_apply=sum
        b = f32[8,8] broadcast(s), dimensions={{1}}
        c = f32[8,8] cosine(b)
        ROOT r = f32[8,8] subtract(y, c), sharding={COLUMNS} }}"""
    module, _ = check(text)
    assert shape_of(module, "cosine") == "f32[8,2]"


def test_a_request_between_two_operations_reaches_both_sides() -> None:
    mark = f'custom-call(y), custom_call_target="Sharding", sharding={COLUMNS}'
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0)
        y = f32[8,8] sine(x)
        m = f32[8,8] {mark}
        ROOT r = f32[8,8] cosine(m), sharding={WHOLE} }}"""
    module, _ = check(text, "all-gather")
    assert shape_of(module, "sine") == shape_of(module, "cosine") == "f32[8,2]"


def test_contracted_dimensions_agree() -> None:
    """The left operand is split along the contracted dimension; so is the right one, which is computed here."""
    text = f"""{HEAD}
      ENTRY e {{ x = f32[8,8] parameter(0), sharding={COLUMNS}
        w = f32[8,8] parameter(1)
        y = f32[8,8] sine(w)
        ROOT d = f32[8,8] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={WHOLE} }}"""
    module, _ = check(text, "all-reduce")
    assert shape_of(module, "sine") == "f32[2,8]"


def test_the_state_of_a_loop_is_split_without_an_annotation() -> None:
    module, _ = check(LOOP)
    assert shape_of(module, "while") == "(s32[], f32[2,8], f32[2])"


@pytest.mark.parametrize("branch", ["on_true", "on_false"])
def test_branches_return_what_users_want(branch: str) -> None:
    text = f"""{HEAD}
      on_true {{ a = f32[8,8] parameter(0)
        ROOT b = f32[8,8] sine(a) }}
      on_false {{ a = f32[8,8] parameter(0)
        ROOT b = f32[8,8] cosine(a) }}
      ENTRY e {{ p = pred[] constant({str(branch == "on_true").lower()})
        x = f32[8,8] parameter(0)
        y = f32[8,8] conditional(p, x, x), true_computation=on_true, false_computation=on_false
        ROOT r = f32[8,8] negate(y), sharding={ROWS} }}"""
    module, _ = check(text)
    assert shape_of(module, "conditional") == "f32[2,8]"


def test_results_are_split_only_if_the_program_allows_it() -> None:
    body = f"""ENTRY e {{ x = f32[8,8] parameter(0), sharding={ROWS}
        y = f32[8,8] parameter(1)
        ROOT r = f32[8,8] add(x, y) }}"""
    _, shardings = check(f"HloModule m\n{body}", "all-gather")
    assert [str(one) for one in (*shardings.parameters, *shardings.results)] == [ROWS, WHOLE, WHOLE]
    head = "HloModule m, allow_spmd_sharding_propagation_to_parameters={true}, "
    _, shardings = check(f"{head}allow_spmd_sharding_propagation_to_output={{true}}\n{body}")
    assert [str(one) for one in (*shardings.parameters, *shardings.results)] == [ROWS, ROWS, ROWS]


def test_the_partitioned_program_does_not_depend_on_the_process() -> None:
    """Processes that run one program together must agree on its collectives, whatever order their sets have."""
    code = (
        f"import xlapy as xla\nfrom xlapy.spmd import partition\nm = xla.parse_hlo({LOOP!r})\npartition(m, 4)\nprint(m)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1

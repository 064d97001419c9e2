"""Top-k along a split dimension by each of its plans, against the whole program, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.along_dimension.partitioned import check_partitioned, collectives
from xlapy.base.element_types import BF16, F32, F64, PRED, S8, S32, U16
from xlapy.hlo.monoids import identity_value
from xlapy.interpreter.elementwise import total_order_key
from xlapy.opcodes import MAXIMUM, MINIMUM
from xlapy.spmd.along_dimension import top_k
from xlapy.spmd.along_dimension.sort_plan import MergeTiles, SearchBoundaries
from xlapy.spmd.along_dimension.top_k import TopKPlan, TopKRows, last_element


def values(element_type: str, dimensions: tuple[int, ...]) -> Any:
    """Returns few different values, so that positions of equal ones count; of floats, special ones."""
    generator = np.random.default_rng(len(dimensions))
    found = generator.integers(-3, 3, dimensions).astype(np.float64)
    if element_type[0] in "bf":
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0])
        found = np.where(generator.random(dimensions) < 0.3, special[generator.integers(0, 5, dimensions)], found)
    with np.errstate(all="ignore"):
        return found.astype(xla.Shape.parse(f"{element_type}[]").dtype)


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize(
    ("plan", "element_type", "dimensions", "k", "devices", "largest"),
    [
        (TopKPlan.SELECT, "f32", (3, 41), 7, 6, True),
        (TopKPlan.SELECT, "s8", (9,), 9, 8, False),  # three devices have no element
        (TopKPlan.MERGE, "bf16", (2, 45), 9, 8, True),
        (TopKPlan.MERGE, "u16", (30,), 30, 4, False),
        (TopKPlan.MERGE, "f64", (64,), 3, 8, False),
        (TopKPlan.EXCHANGE, "f32", (5, 23), 20, 3, True),
        (TopKPlan.EXCHANGE, "pred", (2, 4, 16), 5, 4, True),
        (TopKPlan.SORT, "f32", (45,), 20, 8, True),
        (TopKPlan.SORT, "s32", (1, 48), 48, 6, False),
    ],
    ids=str,
)
def test_plans_select_the_same(
    plan: TopKPlan,
    element_type: str,
    dimensions: tuple[int, ...],
    k: int,
    devices: int,
    largest: bool,
    platform: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TopKRows, "plan", lambda _: plan)
    monkeypatch.setattr(top_k, "choose_sort_plan", lambda *_: MergeTiles() if devices == 6 else SearchBoundaries(3))
    shape, result = [",".join(map(str, (*dimensions[:-1], size))) for size in (dimensions[-1], k)]
    split = f"{{devices=[{'1,' * (len(dimensions) - 1)}{devices}]<=[{devices}]}}"
    text = f"""HloModule m
      ENTRY e {{ x = {element_type}[{shape}] parameter(0)
        y = {element_type}[{shape}] copy(x), sharding={split}
        r = ({element_type}[{result}], s32[{result}]) topk(y), k={k}, largest={str(largest).lower()}
        a = {element_type}[{result}] get-tuple-element(r), index=0
        b = s32[{result}] get-tuple-element(r), index=1
        ROOT t = ({element_type}[{result}], s32[{result}]) tuple(a, b) }}"""
    module = check_partitioned(text, devices, [values(element_type, dimensions)], platform)
    expected = {
        TopKPlan.SELECT: ["all-gather"],
        TopKPlan.MERGE: ["collective-permute"],
        TopKPlan.EXCHANGE: ["all-gather", "all-to-all"],
    }
    assert plan is TopKPlan.SORT or collectives(module) == expected[plan]


def test_results_of_a_sorted_row_stay_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopKRows, "plan", lambda _: TopKPlan.SORT)
    monkeypatch.setattr(top_k, "choose_sort_plan", lambda *_: SearchBoundaries(7))
    split = "{devices=[4]<=[4]}"
    text = f"""HloModule m
      ENTRY e {{ x = f32[256] parameter(0), sharding={split}
        ROOT r = (f32[128], s32[128]) topk(x), k=128, largest=true, sharding={{{split}, {split}}} }}"""
    module = check_partitioned(text, 4, [values("f32", (256,))])
    assert max(i.shape.size for i in module.instructions() if i.op.name == "all-gather") < 128


def test_plans_take_the_least_time() -> None:
    assert TopKRows(16, 4096, 8, 16, 4).plan() is TopKPlan.SELECT
    assert TopKRows(1, 1 << 22, 256, 4096, 4).plan() is TopKPlan.MERGE
    assert TopKRows(16, 1 << 16, 8, 4096, 4).plan() is TopKPlan.EXCHANGE
    assert TopKRows(1, 1 << 20, 8, 1 << 19, 4, is_split=True).plan() is TopKPlan.SORT
    assert TopKRows(1, 64, 8, 40, 4).plan() is TopKPlan.GATHER


@pytest.mark.parametrize("element_type", [BF16, F32, F64, PRED, S8, S32, U16], ids=str)
def test_the_last_element_is_the_least_or_the_greatest(element_type: Any) -> None:
    least, greatest = last_element(element_type, True), last_element(element_type, False)
    assert least.dtype == greatest.dtype == xla.Shape.scalar(element_type).dtype
    if element_type.is_floating:
        keys = total_order_key(np.array([least, -np.inf, np.nan, -np.nan, np.inf, greatest], least.dtype))
        assert keys[0] <= keys.min()
        assert keys[-1] >= keys.max()
    else:
        assert least == identity_value(MAXIMUM, element_type)
        assert greatest == identity_value(MINIMUM, element_type)

"""Donated arguments: their memory is reused, and no other user of it sees a change."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError

N = 5000
UPDATE = f"""
HloModule update
ENTRY main {{
  x = f32[{N}] parameter(0)
  u = f32[2] parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[{N}] dynamic-update-slice(x, u, i)
}}
"""
STEP = f"""
HloModule step
ENTRY main {{
  weights = f32[{N}] parameter(0)
  gradients = f32[{N}] parameter(1)
  rate = f32[] constant(0.5)
  rates = f32[{N}] broadcast(rate), dimensions={{}}
  change = f32[{N}] multiply(gradients, rates)
  ROOT r = f32[{N}] subtract(weights, change)
}}
"""
X = np.arange(N, dtype=np.float32)


@pytest.fixture(params=["cpu", "interpreter"])
def client(request: pytest.FixtureRequest) -> xla.Client:
    return xla.Client(request.param)


def address(buffer: xla.Buffer) -> int:
    return np.asarray(buffer).__array_interface__["data"][0]


def updated(start: int) -> np.ndarray:
    expected = X.copy()
    expected[start : start + 2] = [7, 8]
    return expected


def refused(client: xla.Client, text: str, donate: list[int]) -> str:
    with raises(InvalidArgumentError, codes.DONATED_PARAMETER) as caught:
        client.compile(text, donate=donate)
    return caught.value.message


def test_a_donated_buffer_is_updated_in_place():
    client = xla.Client("cpu")
    update = client.compile(UPDATE, donate=[0])
    given = client.device_put(X)
    place = given.unsafe_buffer_pointer()
    result = update(given, [7, 8], 3)
    assert result.unsafe_buffer_pointer() == place
    assert np.array_equal(result, updated(3))


def test_a_result_reuses_the_memory_that_it_replaces():
    client = xla.Client("cpu")
    step = client.compile(STEP, donate=[0])
    weights, gradients = client.device_put(X), client.device_put(2 * X)
    place = weights.unsafe_buffer_pointer()
    for _ in range(3):
        weights = step(weights, gradients)
    assert weights.unsafe_buffer_pointer() == place
    assert np.array_equal(weights, -2 * X)


def test_a_donated_buffer_is_deleted(client: xla.Client):
    step = client.compile(STEP, donate=[0])
    weights, gradients = client.device_put(X), client.device_put(X)
    step(weights, gradients)
    assert (weights.is_deleted(), gradients.is_deleted()) == (True, False)
    told = f"f32[{N}] was donated to step as parameter 0 (weights)"
    with raises(InvalidArgumentError, codes.DELETED_BUFFER, "parameter 1 (gradients)", told):
        step(gradients, weights)
    with raises(InvalidArgumentError, codes.DELETED_BUFFER, told):
        np.asarray(weights)
    assert not gradients.is_deleted()  # a call that is refused takes nothing
    assert repr(weights) == f"Buffer(f32[{N}], was donated to step as parameter 0 (weights))"
    assert weights.shape == (N,)


def test_numpy_arrays_are_never_overwritten(client: xla.Client):
    update = client.compile(UPDATE, donate=[0])
    mine = X.copy()
    assert np.array_equal(update(mine, [7, 8], 3), updated(3))
    assert np.array_equal(mine, X)


@pytest.mark.parametrize("view", [np.asarray, np.from_dlpack, lambda buffer: np.asarray(buffer)[5:]])
def test_views_of_a_donated_buffer_stay_valid(client: xla.Client, view):
    update = client.compile(UPDATE, donate=[0])
    given = client.device_put(X)
    seen = view(given)
    before = seen.copy()
    assert np.array_equal(update(given, [7, 8], 10), updated(10))
    assert np.array_equal(seen, before)


def test_the_memory_of_results_is_donated_too():
    client = xla.Client("cpu")
    update = client.compile(UPDATE, donate=[0])
    first = update(X, [7, 8], 0)
    place = first.unsafe_buffer_pointer()
    second = update(first, [7, 8], 4)
    assert second.unsafe_buffer_pointer() == place
    assert np.array_equal(np.asarray(second)[:6], [7, 8, 2, 3, 7, 8])


def test_a_buffer_cannot_be_donated_and_used_in_one_call(client: xla.Client):
    step = client.compile(STEP, donate=[0])
    both = client.device_put(X)
    with raises(InvalidArgumentError, codes.DONATED_ARGUMENT, "0 (weights)", "f32[5000]"):
        step(both, both)
    assert np.array_equal(both, X)


def test_arguments_that_cannot_be_donated(client: xla.Client):
    pair = "HloModule m\nENTRY e { p = (f32[2], f32[2]) parameter(0)\n ROOT r = f32[2] get-tuple-element(p), index=0 }"
    assert refused(client, STEP, [2]) == "step: donate=[2] names parameter 2, the program has 2"
    assert refused(client, STEP, [-1]) == "step: donate=[-1] names parameter -1, the program has 2"
    assert refused(client, STEP, [0, 1, 0]) == "step: donate=[0, 1, 0] names parameter 0 twice"
    assert "parameter 0 of shape (f32[2], f32[2]); only arrays can be donated" in refused(client, pair, [0])


@pytest.mark.parametrize("config", ["input_output_alias={ {}: (0, {}, must-alias) }", "buffer_donor={ (0, {}) }"])
def test_modules_declare_donated_parameters(client: xla.Client, config: str):
    update = client.compile(UPDATE.replace("HloModule update", f"HloModule update, {config}"))
    given, other = client.device_put(X), client.device_put(np.array([7, 8], np.float32))
    assert np.array_equal(update(given, other, 3), updated(3))
    assert (given.is_deleted(), other.is_deleted()) == (True, False)


def test_leaves_of_tuples_are_donated_by_the_module(client: xla.Client):
    text = """
    HloModule m, input_output_alias={ {1}: (0, {0}) }
    ENTRY e {
      p = (f32[3], f32[3]) parameter(0)
      a = f32[3] get-tuple-element(p), index=0
      b = f32[3] get-tuple-element(p), index=1
      s = f32[3] add(a, b)
      ROOT r = (f32[3], f32[3]) tuple(s, a)
    }
    """
    a, b = client.device_put(np.ones(3, np.float32)), client.device_put(np.full(3, 2, np.float32))
    total, same = client.compile(text)((a, b))
    assert np.array_equal([total, same], [[3, 3, 3], [1, 1, 1]])
    assert (a.is_deleted(), b.is_deleted()) == (True, False)


def test_results_that_swap_memory_and_results_returned_twice(client: xla.Client):
    text = """
    HloModule m
    ENTRY e {
      a = f32[3] parameter(0)
      b = f32[3] parameter(1)
      n = f32[3] negate(a)
      ROOT r = (f32[3], f32[3], f32[3], f32[3], f32[3]) tuple(b, a, n, n, a)
    }
    """
    program = client.compile(text, donate=[1, 0])
    results = program(client.device_put(np.ones(3, np.float32)), client.device_put(np.full(3, 2, np.float32)))
    assert [float(np.asarray(result)[0]) for result in results] == [2, 1, -1, -1, 1]
    results[0].delete()
    assert float(np.asarray(results[3])[2]) == -1


def test_elements_that_are_read_at_another_index_are_not_overwritten():
    """The result at i needs the argument at 2 - i, so it gets memory of its own."""
    client = xla.Client("cpu")
    text = "HloModule m\nENTRY e { a = f32[3] parameter(0)\n ROOT r = f32[3] reverse(a), dimensions={0} }"
    given = client.device_put(np.array([1, 2, 3], np.float32))
    assert np.array_equal(client.compile(text, donate=[0])(given), [3, 2, 1])
    assert given.is_deleted()


def test_elements_of_another_size_are_not_overwritten():
    client = xla.Client("cpu")
    text = """
    HloModule m
    ENTRY e {
      a = f32[8] parameter(0)
      s = f32[4] slice(a), slice={[0:4]}
      ROOT r = f64[4] convert(s)
    }
    """
    given = client.device_put(np.arange(8, dtype=np.float32))
    assert np.array_equal(client.compile(text, donate=[0])(given), [0, 1, 2, 3])


def test_loops_work_in_donated_memory():
    client = xla.Client("cpu")
    text = f"""
    HloModule m
    below {{ s = (s32[], f32[{N}]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(10)
      ROOT r = pred[] compare(i, n), direction=LT }}
    body {{ s = (s32[], f32[{N}]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[{N}] get-tuple-element(s), index=1
      one = s32[] constant(1)
      next = s32[] add(i, one)
      f = f32[] convert(next)
      u = f32[1] reshape(f)
      y = f32[{N}] dynamic-update-slice(x, u, i)
      ROOT r = (s32[], f32[{N}]) tuple(next, y) }}
    ENTRY e {{
      x = f32[{N}] parameter(0)
      zero = s32[] constant(0)
      s = (s32[], f32[{N}]) tuple(zero, x)
      w = (s32[], f32[{N}]) while(s), condition=below, body=body
      ROOT r = f32[{N}] get-tuple-element(w), index=1
    }}
    """
    given = client.device_put(X)
    place = given.unsafe_buffer_pointer()
    result = client.compile(text, donate=[0])(given)
    assert result.unsafe_buffer_pointer() == place
    assert np.array_equal(np.asarray(result)[:11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10])


def test_sharded_runs_delete_donated_buffers_too():
    for platform in ("cpu", "interpreter"):
        client = xla.Client(platform, devices=2)
        update = client.compile(UPDATE, num_replicas=2, donate=[0])
        given = [client.device_put(X) for _ in range(2)]
        results = update.execute_sharded([[given[0], [7, 8], 0], [given[1], [7, 8], 5]])
        assert np.array_equal(results[0], updated(0))
        assert np.array_equal(results[1], updated(5))
        assert given[0].is_deleted()
        assert given[1].is_deleted()

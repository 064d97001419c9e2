"""Conversion of dynamic to static dimensions: the same elements and sizes as before, whatever the padding contains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.runner import body, execute, plain, run_passes
from tests.raising import raises
from tests.testing.test_random_dynamic import cut
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.passes.expand.expand import Expand
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules.dynamic import random_dynamic_module
from xlapy.testing.samples import all_samples
from xlapy.text import parse_hlo

BATCH_NORM = Expand(ops=("batch-norm-training", "batch-norm-inference", "batch-norm-grad"))
PASS = ResolveDynamicDimensions()


def packed(value: Any, shape: Shape) -> Any:
    """Returns arguments as the resolved module takes them: padded arrays, with sevens as padding, and sizes."""
    if shape.is_static:
        return value
    if shape.is_tuple:
        return tuple(map(packed, value, shape.tuple_shapes))
    array = np.asarray(value)
    whole = np.full(shape.dimensions, 7, shape.dtype)
    whole[tuple(map(slice, array.shape))] = array
    flags = shape.dynamic_dimensions
    return whole, *(np.int32(size) for size, dynamic in zip(array.shape, flags, strict=True) if dynamic)


def unpacked(value: Any, shape: Shape) -> Any:
    """Returns the elements within the actual sizes of a result of the resolved module."""
    if shape.is_static:
        return value
    if shape.is_tuple:
        return tuple(map(unpacked, value, shape.tuple_shapes))
    array, *given = value
    numbers = iter(given)
    rows = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    sizes = [int(next(numbers)) if dynamic else bound for bound, dynamic in rows]
    return array[tuple(map(slice, sizes))]


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [np.asarray(value)]


def resolved(module: Module) -> Module:
    copy = clone_module(module)
    assert run_passes(copy, [BATCH_NORM, PASS])
    assert all(instruction.shape.is_static for instruction in copy.instructions())
    return copy


def check(module: Module, arguments: list[Any]) -> None:
    """Checks that the module and its resolved form give the same arrays of the same sizes."""
    shape = module.entry_computation.program_shape
    expected = leaves(plain(execute(module, arguments)))
    given = [packed(argument, part) for argument, part in zip(arguments, shape.parameters, strict=True)]
    result = leaves(unpacked(plain(execute(resolved(module), given)), shape.result))
    for left, right in zip(expected, result, strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def check_text(text: str, *arguments: Any) -> None:
    check(parse_hlo(text), list(arguments))


REFUSED = ("all_gather_dynamic", "all_reduce_dynamic", "custom_call_dynamic")
"""Samples that cannot run on one device."""

DYNAMIC = [
    sample
    for sample in all_samples()
    if sample.name not in REFUSED and any(i.shape.is_dynamic for i in parse_hlo(sample.text).instructions())
]


@pytest.mark.parametrize("sample", DYNAMIC, ids=lambda sample: sample.name)
def test_a_sample_computes_the_same(sample):
    module = parse_hlo(sample.text)
    for seed in range(3):
        arguments = random_arguments(module.entry_computation.program_shape.parameters, seed, special=False)
        if "batch_norm" in sample.name:
            check_nearly(module, arguments)
        else:
            check(module, arguments)


def check_nearly(module: Module, arguments: list[Any]) -> None:
    shape = module.entry_computation.program_shape
    given = [packed(argument, part) for argument, part in zip(arguments, shape.parameters, strict=True)]
    result = leaves(unpacked(plain(execute(resolved(module), given)), shape.result))
    for left, right in zip(leaves(plain(execute(module, arguments))), result, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_modules_compute_the_same(first: int):
    for seed in range(first, first + 30):
        module = random_dynamic_module(seed)
        arguments = random_arguments(module.entry_computation.program_shape.parameters, seed)
        results = [cut(plain(execute(each, arguments))) for each in (module, resolved(module))]
        for left, right in zip(*results, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=f"seed {seed}")


def test_a_value_becomes_its_array_and_its_sizes():
    module = parse_hlo("""HloModule m
ENTRY main {
  x = f32[<=5,3] parameter(0)
  ROOT r = f32[<=5,3] add(x, x)
}
""")
    assert run_passes(module, [PASS])
    assert body(module).splitlines() == [
        "x.1 = (f32[5,3], s32[]) parameter(0)",
        "get-tuple-element.1 = f32[5,3] get-tuple-element(x.1), index=0",
        "add = f32[5,3] add(get-tuple-element.1, get-tuple-element.1)",
        "get-tuple-element = s32[] get-tuple-element(x.1), index=1",
        "ROOT tuple = (f32[5,3], s32[]) tuple(add, get-tuple-element)",
    ]


def test_static_modules_stay_as_they_are():
    module = parse_hlo("HloModule m\nENTRY main {\n  x = f32[5] parameter(0)\n  ROOT r = f32[5] add(x, x)\n}\n")
    text = module.to_text()
    assert not run_passes(module, [PASS])
    assert module.to_text() == text


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize("size", range(5))
def test_a_loop_whose_state_shrinks(size: int):
    """The body returns an array with one element less, until none is left; the shape in the condition is static."""
    check_text(
        """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
body {
  p = (f32[<=4], f32[]) parameter(0)
  x = f32[<=4] get-tuple-element(p), index=0
  t = f32[] get-tuple-element(p), index=1
  zero = f32[] constant(0)
  sum = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  next = f32[] add(t, sum)
  n = s32[] get-dimension-size(x), dimensions={0}
  one = s32[] constant(1)
  m = s32[] subtract(n, one)
  y = f32[<=4] set-dimension-size(x, m), dimensions={0}
  ROOT r = (f32[<=4], f32[]) tuple(y, next)
}
condition {
  p = (f32[<=4], f32[]) parameter(0)
  x = f32[<=4] get-tuple-element(p), index=0
  n = s32[] get-dimension-size(x), dimensions={0}
  zero = s32[] constant(0)
  ROOT r = pred[] compare(n, zero), direction=GT
}
ENTRY main {
  x = f32[<=4] parameter(0)
  zero = f32[] constant(0)
  s = (f32[<=4], f32[]) tuple(x, zero)
  ROOT w = (f32[<=4], f32[]) while(s), condition=condition, body=body
}
""",
        np.arange(1, size + 1, dtype=np.float32),
    )


@pytest.mark.parametrize("which", [0, 1])
def test_branches_that_declare_different_dimensions_dynamic(which: int):
    check_text(
        """HloModule m
first { x = f32[<=4] parameter(0)  ROOT r = f32[<=4] negate(x) }
second { x = f32[4] parameter(0)  ROOT r = f32[4] negate(x) }
ENTRY main {
  i = s32[] parameter(0)
  x = f32[<=4] parameter(1)
  y = f32[4] parameter(2)
  ROOT r = f32[<=4] conditional(i, x, y), branch_computations={first, second}
}
""",
        np.int32(which),
        floats(1, 2),
        floats(5, 6, 7, 8),
    )


SORT_PAIRS = """HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT }
ENTRY main {
  x = f32[<=6] parameter(0)
  i = s32[6] iota(), iota_dimension=0
  s = (f32[<=6], s32[<=6]) sort(x, i), dimensions={0}, to_apply=less, is_stable=true
  ROOT r = (f32[<=6], s32[<=6]) copy(s)
}
"""


@pytest.mark.parametrize("size", [0, 1, 3, 6])
def test_sort_with_another_operand(size: int):
    check_text(SORT_PAIRS.replace("copy(s)", "opt-barrier(s)"), np.array([3, 9, 1, 4, 8, 2], np.float32)[:size])


@pytest.mark.parametrize("sizes", [(0, 3), (2, 3), (4, 0), (4, 5)])
def test_a_reducer_without_identity_gets_no_padding(sizes: tuple[int, int]):
    """a - 2b depends on the order and on every value, so the padding of sevens must not be used."""
    check_text(
        """HloModule m
odd { a = s32[] parameter(0)  b = s32[] parameter(1)  two = s32[] constant(2)  c = s32[] multiply(b, two)
  ROOT r = s32[] subtract(a, c) }
ENTRY main {
  x = s32[<=4,<=5] parameter(0)
  k = s32[] constant(100)
  ROOT r = s32[<=4] reduce(x, k), dimensions={1}, to_apply=odd
}
""",
        np.arange(sizes[0] * sizes[1], dtype=np.int32).reshape(sizes),
    )


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_select_and_scatter_ignores_padding(size: int):
    check_text(
        """HloModule m
ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[<=5] parameter(0)
  s = f32[<=5] parameter(1)
  zero = f32[] constant(0.5)
  ROOT r = f32[<=5] select-and-scatter(x, s, zero), window={size=3 pad=1_1}, select=ge, scatter=add
}
""",
        np.array([3, 9, 1, 4, 8], np.float32)[:size],
        np.array([1, 2, 4, 8, 16], np.float32)[:size],
    )


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_scatter_of_partial_windows(rows: int, window: int):
    """Only the first rows of indices exist. Windows that are partly out of bounds are skipped entirely."""
    check_text(
        """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[6,5] parameter(0)
  i = s32[<=3,2] parameter(1)
  u = f32[<=3,<=4] parameter(2)
  ROOT r = f32[6,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add
}
""",
        np.zeros((6, 5), np.float32),
        np.array([[0, 0], [5, 3], [2, -1]], np.int32)[:rows],
        np.arange(12, dtype=np.float32).reshape(3, 4)[:rows, :window],
    )


@pytest.mark.parametrize("sizes", [(2, 3), (4, 3), (1, 1), (0, 2), (4, 0)])
def test_reshape_gathers_elements_within_sizes(sizes: tuple[int, int]):
    check_text(
        """HloModule m
ENTRY main {
  x = s32[<=4,<=3] parameter(0)
  merged = s32[<=12] reshape(x)
  n = s32[] get-dimension-size(merged), dimensions={0}
  one = s32[] constant(1)
  again = s32[<=12,<=1] dynamic-reshape(merged, n, one)
  ROOT r = (s32[<=12], s32[<=12,<=1]) tuple(merged, again)
}
""",
        np.arange(sizes[0] * sizes[1], dtype=np.int32).reshape(sizes),
    )


def test_a_size_beyond_the_bound_becomes_the_bound():
    text = """HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  y = f32[<=4] set-dimension-size(x, n), dimensions={0}
  ROOT r = s32[] get-dimension-size(y), dimensions={0}
}
"""
    module = resolved(parse_hlo(text))
    for size, expected in ((-3, 0), (2, 2), (9, 4)):
        assert int(plain(execute(module, [floats(1, 2, 3, 4), np.int32(size)]))) == expected


def test_control_edges_and_aliases_follow():
    module = parse_hlo("""HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }, buffer_donor={ (1, {0}) }
ENTRY main {
  x = f32[<=4] parameter(0)
  p = (f32[<=4], f32[]) parameter(1)
  a = f32[<=4] negate(x)
  b = f32[<=4] abs(x), control-predecessors={a}
  ROOT r = (f32[<=4], f32[<=4]) tuple(a, b)
}
""")
    run_passes(module, [PASS])
    (alias,), (donor,) = module.config.input_output_alias, module.config.buffer_donors
    assert (alias.output_index, alias.parameter_index, donor.parameter_index) == ((1, 0), (0,), (0, 0))
    (after,) = [i for i in module.entry_computation if i.op.name == "abs"]
    assert [i.op.name for i in after.control_predecessors] == ["negate"]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("ROOT r = f32[<=4] all-reduce(x), replica_groups={}, to_apply=add", ("all-reduce",)),
        ('ROOT r = f32[<=4] custom-call(x), custom_call_target="unknown"', ("custom-call",)),
    ],
)
def test_programs_without_a_static_form_are_rejected(line: str, values: tuple[str, ...]):
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }"
    module = parse_hlo(f"HloModule m\n{add}\nENTRY main {{\n  x = f32[<=4] parameter(0)\n  {line}\n}}\n")
    with raises(UnsupportedError, codes.RESOLVED_DYNAMIC, *values):
        PASS.run(module)

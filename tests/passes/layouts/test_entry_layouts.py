"""Parameters and results with layouts other than row-major: the same values, through transposes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.runner import arguments_of, body, execute
from xlapy.hlo.edit import clone_module
from xlapy.hlo.verify import verify
from xlapy.passes.layouts.entry_layouts import preferred_result_orders, transpose_entry_arrays, with_declared_layouts
from xlapy.text import parse_hlo

PROGRAM = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY e {
  x = f32[2,3,4] parameter(0)
  y = f32[2,3,4] parameter(1)
  s = f32[2,3,4] add(x, y)
  n = f32[2,3,4] negate(x)
  ROOT t = (f32[2,3,4], f32[2,3,4]) tuple(s, n)
}"""
ROWS, TURNED = (0, 1, 2), (2, 0, 1)


@pytest.mark.parametrize("orders", [[ROWS, ROWS], [TURNED, ROWS], [ROWS, TURNED], [TURNED, (1, 2, 0)]])
@pytest.mark.parametrize("results", [[ROWS, TURNED], [TURNED, TURNED], [(2, 1, 0), ROWS]])
def test_transposed_entry_arrays_have_the_same_values(orders, results):
    before = parse_hlo(PROGRAM)
    after = clone_module(before)
    transpose_entry_arrays(after, orders, results)
    verify(after)
    given = arguments_of(before, 1)
    lying = [np.ascontiguousarray(array.transpose(order)) for array, order in zip(given, orders, strict=True)]
    for wanted, found, order in zip(execute(before, given), execute(after, lying), results, strict=True):
        np.testing.assert_array_equal(np.transpose(wanted, order), found)
    read = with_declared_layouts(after, orders, results)
    verify(read)
    shape = read.entry_computation.program_shape
    assert [p.layout.minor_to_major[::-1] for p in shape.parameters] == orders
    assert [r.layout.minor_to_major[::-1] for r in shape.result.tuple_shapes] == results
    assert all(leaf.dimensions == (2, 3, 4) for leaf in (*shape.parameters, *shape.result.tuple_shapes))


def test_memory_is_shared_between_values_of_one_layout():
    module = parse_hlo(PROGRAM)
    transpose_entry_arrays(module, [TURNED, ROWS], [TURNED, TURNED])
    assert [alias.parameter_number for alias in module.config.input_output_alias] == [0]
    assert module.entry_computation.program_shape.to_text() == (
        "(x: f32[4,2,3], y: f32[2,3,4]) -> (f32[4,2,3], f32[4,2,3])"
    )


def test_a_parameter_that_is_the_result():
    module = parse_hlo("HloModule m ENTRY e { ROOT x = f32[2,3] parameter(0) }")
    transpose_entry_arrays(module, [(1, 0)], [(0, 1)])
    assert body(module) == "x = f32[3,2] parameter(0)\nROOT transpose = f32[2,3] transpose(x), dimensions={1,0}"


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("ROOT r = f32[4,2,3] transpose(x), dimensions={2,0,1}", (1, 2, 0)),
        ("t = f32[4,3,2] transpose(x), dimensions={2,1,0} ROOT r = f32[4,3,2] negate(t)", (2, 1, 0)),
        ("t = f32[4,3,2] transpose(x), dimensions={2,1,0} ROOT r = f32[4,3,2] reshape(t)", (2, 1, 0)),
        ("ROOT r = f32[6,4] reshape(x)", (0, 1)),
        ("ROOT r = f32[2,3,4] reverse(x), dimensions={0}", (0, 1, 2)),
        ('t = f32[2,3,4]{0,1,2} custom-call(x), custom_call_target="LayoutConstraint" ROOT r = f32[2,3,4] sine(t)',
         (2, 1, 0)),
        ("c = f32[] constant(1) ROOT r = f32[2,3,4] broadcast(c), dimensions={}", (0, 1, 2)),
    ],
)  # fmt: skip
def test_where_the_elements_of_a_result_are_found(line, order):
    module = parse_hlo(f"HloModule m ENTRY e {{ x = f32[2,3,4] parameter(0) {line} }}")
    assert preferred_result_orders(module, [ROWS]) == [order]


def test_the_order_of_a_parameter_is_found_again():
    text = "HloModule m ENTRY e { x = f32[2,3,4] parameter(0) ROOT r = f32[4,2,3] transpose(x), dimensions={2,0,1} }"
    assert preferred_result_orders(parse_hlo(text), [TURNED]) == [(0, 1, 2)]

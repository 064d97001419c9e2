"""XLA's own custom calls for dynamic dimensions: padding to static and back, SAME windows, convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.dynamic import Array, dynamic_result, module, run
from tests.raising import raises
from xlapy import ops
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.error_codes.execution import interpreting as interpreting_codes
from xlapy.base.errors import ExecutionError, UnsupportedError

V8 = np.arange(1, 9, dtype=np.float32)
KERNEL = np.array([1, 10, 100], np.float32)
CLIENT = xla.Client("interpreter")
SIZED = """x = f32[8] parameter(0)
n = s32[] parameter(1)
d = f32[<=8] set-dimension-size(x, n), dimensions={0}
zero = f32[] constant(0)
"""


def test_pad_to_static_and_slice_to_dynamic():
    body = SIZED + (
        'p = (f32[8], s32[]) custom-call(d), custom_call_target="PadToStatic"\n'
        "a = f32[8] get-tuple-element(p), index=0\n"
        "size = s32[] get-tuple-element(p), index=1\n"
        "one = s32[] constant(1)\n"
        "more = s32[] add(size, one)\n"
        'r = f32[<=8] custom-call(a, more), custom_call_target="SliceToDynamic"'
    )
    np.testing.assert_array_equal(dynamic_result(body, [V8, np.int32(3)]), [1, 2, 3, 4])
    with raises(ExecutionError, interpreting_codes.DYNAMIC_SIZE, "size 9", "dimension 0", "between 0", "bound 8"):
        dynamic_result(body, [V8, np.int32(8)])


@pytest.mark.parametrize(
    ("call", "values"),
    [
        (
            'f32[8] custom-call(d), custom_call_target="PadToStatic"',
            ("PadToStatic", "(f32[<=8])", "f32[8]"),
        ),
        (
            'f32[<=8] custom-call(x), custom_call_target="SliceToDynamic"',
            ("SliceToDynamic", "(f32[8])", "f32[<=8]"),
        ),
        (
            'f32[<=8] custom-call(d), custom_call_target="DynamicReduceWindowSamePadding"',
            ("DynamicReduceWindowSamePadding", "2 operands"),
        ),
        (
            'f32[<=8] custom-call(d, x), custom_call_target="DynamicConvolutionForward"',
            ("DynamicConvolutionForward", "2 operands"),
        ),
    ],
)
def test_calls_that_do_not_fit_are_refused_when_the_program_is_compiled(call: str, values: tuple[str, ...]):
    with raises(UnsupportedError, codes.BUILT_IN_CALL, *values):
        CLIENT.compile(module(SIZED + "ROOT r = " + call))


def test_registered_targets_refuse_dynamic_dimensions():
    xla.register_custom_call_target("of_a_user", np.negative)
    try:
        with raises(UnsupportedError, codes.DYNAMIC_CALL, "'of_a_user'"):
            CLIENT.compile(module(SIZED + 'ROOT r = f32[<=8] custom-call(d), custom_call_target="of_a_user"'))
    finally:
        xla.unregister_custom_call_target("of_a_user")


def test_sharding_annotations_keep_dynamic_sizes():
    body = SIZED + 'r = f32[<=8] custom-call(d), custom_call_target="Sharding"'
    np.testing.assert_array_equal(dynamic_result(body, [V8, np.int32(3)]), [1, 2, 3])


# -- windows: the builder computes for a dynamic array what it computes for a static one of the actual size


def program(build: Any, *shapes: str) -> xla.Executable:
    b = xla.XlaBuilder("windows")
    build(*(ops.parameter(b, i, xla.Shape.parse(shape), f"p{i}") for i, shape in enumerate(shapes)))
    return CLIENT.compile(b.build())


def scalar(function: Any) -> xla.XlaComputation:
    b = xla.XlaBuilder("scalar")
    function(*(ops.parameter(b, i, xla.Shape.parse("f32[]"), name) for i, name in enumerate("xy")))
    return b.build()


@pytest.mark.parametrize("size", range(9))
@pytest.mark.parametrize(("window", "stride"), [(3, 2), (2, 1), (4, 3), (1, 2)])
def test_reduce_window_with_same_padding(size: int, window: int, stride: int):
    def build(x: xla.XlaOp) -> None:
        ops.reduce_window(x, 0.0, scalar(ops.add), [window], [stride], "SAME")

    dynamic, static = program(build, "f32[<=8]"), program(build, f"f32[{size}]")
    np.testing.assert_array_equal(dynamic(V8[:size]), static(V8[:size]))


@pytest.mark.parametrize("size", range(1, 9))
def test_select_and_scatter_with_same_padding(size: int):
    def build(x: xla.XlaOp, source: xla.XlaOp) -> None:
        ops.select_and_scatter(x, scalar(ops.ge), [3], [2], "SAME", source, 0.0, scalar(ops.add))

    count = -(-size // 2)
    dynamic = program(build, "f32[<=8]", "f32[<=4]")
    static = program(build, f"f32[{size}]", f"f32[{count}]")
    values = np.sin(V8[:size])
    np.testing.assert_array_equal(dynamic(values, V8[:count]), static(values, V8[:count]))


# -- convolutions: gradients satisfy <conv(x, k), g> = <x, dx(g)> = <k, dk(g)>

STRIDE = 2


def volume(array: Array) -> Array:
    return array.reshape(1, 1, -1).astype(np.float32)


def same(size: int) -> tuple[int, int]:
    total = max((-(-size // STRIDE) - 1) * STRIDE + 3 - size, 0)
    return total // 2, total - total // 2


def forward(size: int, padding: str) -> Array:
    """Returns the dynamic convolution of the first elements, after checking that it equals the static one."""

    def build(x: xla.XlaOp, k: xla.XlaOp) -> None:
        pairs = [same(8) if padding == "SAME" else (0, 0)]
        ops.dynamic_conv_forward(x, k, [STRIDE], pairs, [1], [1], None, 1, 1, None, padding)

    def build_static(x: xla.XlaOp, k: xla.XlaOp) -> None:
        ops.conv(x, k, [STRIDE], padding)

    arguments = volume(V8[:size]), volume(KERNEL)
    result = np.asarray(program(build, "f32[1,1,<=8]", "f32[1,1,3]")(*arguments))
    np.testing.assert_array_equal(result, program(build_static, f"f32[1,1,{size}]", "f32[1,1,3]")(*arguments))
    return result


@pytest.mark.parametrize("size", range(3, 9))
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_of_dynamic_space_and_their_gradients(size: int, padding: str):
    result = forward(size, padding)
    gradient = np.cos(np.arange(result.size)).astype(np.float32).reshape(result.shape)
    bound = 4 if padding == "SAME" else 3
    low = same(8)[0] if padding == "SAME" else 0

    def input_gradient(sizes: xla.XlaOp, g: xla.XlaOp, k: xla.XlaOp) -> None:
        after = 8 + 2 - (2 - low) - ((bound - 1) * STRIDE + 1)
        ops.dynamic_conv_input_grad(sizes, g, k, [1], [(2 - low, after)], [STRIDE], [1], None, 1, 1, None, padding)

    def kernel_gradient(x: xla.XlaOp, g: xla.XlaOp) -> None:
        after = (bound - 1) * STRIDE + 3 - low - 8
        ops.dynamic_conv_kernel_grad(x, g, [1], [(low, after)], [1], [STRIDE], None, 1, 1, None, padding)

    backwards = program(input_gradient, "s32[3]", f"f32[1,1,<={bound}]", "f32[1,1,3]")
    dx = np.asarray(backwards(np.array([1, 1, size], np.int32), gradient, volume(KERNEL[::-1])))
    dk = np.asarray(program(kernel_gradient, "f32[1,1,<=8]", f"f32[1,1,<={bound}]")(volume(V8[:size]), gradient))
    assert dx.shape == (1, 1, size) and dk.shape == (1, 1, 3)
    whole = float((result * gradient).sum())
    assert float((dx[0, 0] * V8[:size]).sum()) == pytest.approx(whole, rel=1e-5)
    assert float((dk[0, 0] * KERNEL).sum()) == pytest.approx(whole, rel=1e-5)


def test_static_arrays_use_the_given_window():
    call = "custom-call(x, zero), window={size=3 stride=2 pad=0_1}, to_apply=add, custom_call_target="
    text = module("x = f32[8] parameter(0)\nzero = f32[] constant(0)\n"
                  f'ROOT r = f32[4] {call}"DynamicReduceWindowSamePadding"')  # fmt: skip
    np.testing.assert_array_equal(run(text, [V8]), [6, 12, 18, 15])

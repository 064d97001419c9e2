"""Custom calls on the interpreter: native code with C calling conventions, layouts, side effects, built-in targets."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_float, c_int32, c_size_t, c_void_p
from typing import Any

import numpy as np
import pytest
from jax._src.lib import xla_client

import xlapy as xla
from tests import xla_reference
from tests.interpreter.runners.custom import entry, plain, registered, run
from tests.interpreter.runners.replica import make_client
from tests.raising import raises
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import samples_of

IN = POINTER(c_void_p)
ORIGINAL = CFUNCTYPE(None, c_void_p, IN)
STATUS_RETURNING = CFUNCTYPE(None, c_void_p, IN, c_void_p)
UNIFIED = CFUNCTYPE(None, c_void_p, IN, c_char_p, c_size_t, c_void_p)
Version = xla.CustomCallApiVersion
STATUS = {"api_version": Version.STATUS_RETURNING}


def floats(address: int | None, count: int) -> Any:
    assert address is not None
    return (c_float * count).from_address(address)


# -- native code


@ORIGINAL
def myfunc(out: int, operands: Any) -> None:
    """The example of the specification: out[0][0] = x[1] + y[1][0] for f32[2] x and f32[2,3] y."""
    x, y = floats(operands[0], 2), floats(operands[1], 6)
    floats(out, 9)[0] = x[1] + y[3]


MYFUNC = """
  x = f32[2] constant({1, 2})
  y = f32[2,3] constant({{10, 20, 30}, {40, 50, 60}})
  ROOT r = f32[3,3] custom-call(x, y), custom_call_target="target"
"""


def test_the_function_of_the_specification() -> None:
    with registered(myfunc):
        assert run(entry(MYFUNC))[0, 0] == 42


def test_results_begin_as_zeros_on_the_interpreter() -> None:
    with registered(myfunc):
        result = xla.Client("interpreter").compile(entry(MYFUNC))()
    assert plain(result).tolist() == [[42, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_native_code_by_address() -> None:
    with registered(ctypes.cast(myfunc, c_void_p).value):
        assert run(entry(MYFUNC))[0, 0] == 42


def capsule(function: Any, name: bytes | None) -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
    return new(ctypes.cast(function, c_void_p), name, None)


LABEL = b"xla._CUSTOM_CALL_TARGET"


@pytest.mark.parametrize("name", [LABEL, None])
def test_native_code_in_a_capsule(name: bytes | None) -> None:
    with registered(capsule(myfunc, name)):
        assert run(entry(MYFUNC))[0, 0] == 42


@ORIGINAL
def leaves(out: int, operands: Any) -> None:
    """Maps (a, (b, token), c) of one element each to (b, (c, token), a): one pointer per leaf, none for a token."""
    results = (c_void_p * 4).from_address(out)
    assert operands[2] is None and results[2] is None
    floats(results[0], 1)[0] = floats(operands[1], 1)[0]
    floats(results[1], 1)[0] = floats(operands[3], 1)[0]
    floats(results[3], 1)[0] = floats(operands[0], 1)[0]


def test_tuples_have_a_pointer_for_each_array() -> None:
    text = entry("""
      a = f32[] constant(1)
      b = f32[1] constant({2})
      c = f32[] constant(3)
      k = token[] after-all()
      t = (f32[1], token[]) tuple(b, k)
      r = (f32[1], (f32[], token[]), f32[]) custom-call(a, t, c), custom_call_target="target"
      u = (f32[], token[]) get-tuple-element(r), index=1
      x = f32[1] get-tuple-element(r), index=0
      y = f32[] get-tuple-element(u), index=0
      z = f32[] get-tuple-element(r), index=2
      ROOT q = (f32[1], f32[], f32[]) tuple(x, y, z)
    """)
    with registered(leaves):
        assert [value.tolist() for value in run(text)] == [[2], 3, 1]


@ORIGINAL
def copy_six(out: int, operands: Any) -> None:
    floats(out, 6)[:] = floats(operands[0], 6)[:]


@pytest.mark.parametrize("before", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("after", ["{1,0}", "{0,1}"])
def test_native_code_sees_memory_in_the_declared_layouts(before: str, after: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = entry(f"""
      x = f32[2,3] parameter(0)
      ROOT r = f32[2,3]{after} custom-call(x), custom_call_target="target",
        operand_layout_constraints={{f32[2,3]{before}}}
    """)
    memory = x.ravel("C" if before == "{1,0}" else "F")
    expected = memory.reshape((2, 3), order="C" if after == "{1,0}" else "F")
    with registered(copy_six):
        assert run(text, x).tolist() == expected.tolist()


def test_without_constraints_operands_are_row_major() -> None:
    text = entry("""
      x = f32[3,2] parameter(0)
      t = f32[2,3] transpose(x), dimensions={1,0}
      ROOT r = f32[6] custom-call(t), custom_call_target="target"
    """)
    with registered(copy_six):
        result = run(text, np.arange(6, dtype=np.float32).reshape(3, 2))
    assert result.tolist() == [0, 2, 4, 1, 3, 5]


@ORIGINAL
def rotate(out: int, operands: Any) -> None:
    """Maps (a, b, c) to (c, a, b), each of six elements in memory order."""
    results = (c_void_p * 3).from_address(out)
    for number in range(3):
        floats(results[number], 6)[:] = floats(operands[(number + 2) % 3], 6)[:]


NESTED = """
  t = (f32[2,3], f32[2,3]) tuple(b, c)
  r = ((f32[2,3], f32[2,3]), f32[2,3]) custom-call(a, t), custom_call_target="rotate"
  u = (f32[2,3], f32[2,3]) get-tuple-element(r), index=0
  x = f32[2,3] get-tuple-element(u), index=0
  y = f32[2,3] get-tuple-element(u), index=1
  z = f32[2,3] get-tuple-element(r), index=1
  ROOT q = (f32[2,3], f32[2,3], f32[2,3]) tuple(x, y, z)
"""
LAID_OUT = """
  ROOT r = (f32[2,3]{0,1}, f32[2,3]{1,0}, f32[2,3]{0,1}) custom-call(a, b, c), custom_call_target="rotate",
    operand_layout_constraints={f32[2,3]{0,1}, f32[2,3]{0,1}, f32[2,3]{1,0}}
"""


@pytest.mark.parametrize("lines", [NESTED, LAID_OUT])
def test_native_code_is_called_as_xla_calls_it(lines: str) -> None:
    parameters = "\n".join(f"  {name} = f32[2,3] parameter({number})" for number, name in enumerate("abc"))
    text = entry(f"{parameters}{lines}")
    a, b, c = (np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * i for i in range(3))
    expected = [c, a, b]
    if lines is LAID_OUT:
        expected = [c.ravel().reshape((2, 3), order="F"), a.ravel("F").reshape(2, 3), b]
    xla_client.register_custom_call_target("rotate", capsule(rotate, LABEL), "cpu", 0)
    with registered(rotate, name="rotate"):
        ours = run(text, a, b, c)
    for our, theirs, wanted in zip(ours, xla_reference.run_hlo(text, [a, b, c]), expected, strict=True):
        assert our.tolist() == np.asarray(theirs).tolist() == wanted.tolist()


@pytest.mark.parametrize("layout", ["{1,0:T(2,2)}", "{1,0:E(4)}"])
def test_native_targets_reject_layouts_with_more_than_an_order(layout: str) -> None:
    text = entry(f'ROOT r = s4[2,2]{layout} custom-call(), custom_call_target="target"')
    with registered(copy_six), raises(UnsupportedError, codes.CALL_LAYOUT, "r (custom-call)"):
        make_client().compile(text)


@ORIGINAL
def add_to_first_result(out: int, operands: Any) -> None:
    """Adds its operand, which is also the buffer of the result, to the first result."""
    assert operands[0] == out and out % 64 == 0 and operands[1] % 64 == 0
    floats(out, 2)[0] += floats(operands[1], 2)[0]


ALIASED = entry("""
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  c = f32[2] custom-call(x, y), custom_call_target="target", output_to_operand_aliasing={{}: (0, {})}
  ROOT r = (f32[2], f32[2], f32[2]) tuple(x, y, c)
""")
ONE_TWO, TEN_TWENTY = np.array([1, 2], np.float32), np.array([10, 20], np.float32)


def test_aliased_results_share_a_copy_of_their_operand() -> None:
    with registered(add_to_first_result):
        values = run(ALIASED, ONE_TWO, TEN_TWENTY)
    assert [value.tolist() for value in values] == [[1, 2], [10, 20], [11, 2]]


def test_native_code_that_overwrites_operands_changes_a_copy_on_the_interpreter() -> None:
    @ORIGINAL
    def spoil(out: int, operands: Any) -> None:
        add_to_first_result(out, operands)
        floats(operands[1], 2)[0] = -1

    with registered(spoil):
        values = xla.Client("interpreter").compile(ALIASED)(ONE_TWO, TEN_TWENTY)
    assert [value.tolist() for value in plain(values)] == [[1, 2], [10, 20], [11, 2]]


# -- native code that reports a status


def status_function(name: str, *types: Any) -> Any:
    return CFUNCTYPE(None, c_void_p, *types)(xla.custom_call_status_functions()[name])


set_failure = status_function("XlaCustomCallStatusSetFailure", c_char_p, c_size_t)
set_success = status_function("XlaCustomCallStatusSetSuccess")


@STATUS_RETURNING
def refuse_negative(out: int, operands: Any, status: int) -> None:
    value = floats(operands[0], 1)[0]
    set_failure(status, b"not known yet", 3)
    if value >= 0:
        set_success(status)
        floats(out, 1)[0] = value**0.5
    elif value < -1:
        set_failure(status, b"negative: out of range", 8)


ROOT_OF_X = """
  x = f32[] parameter(0)
  ROOT r = f32[] custom-call(x), custom_call_target="target", api_version=API_VERSION_STATUS_RETURNING
"""


def test_a_status_of_success() -> None:
    with registered(refuse_negative, **STATUS):
        assert run(entry(ROOT_OF_X), np.float32(9)) == 3


@pytest.mark.parametrize(("value", "values"), [(-1, ("not",)), (-4, ("negative",))])
def test_a_status_of_failure(value: float, values: tuple[str, ...]) -> None:
    with (
        registered(refuse_negative, **STATUS),
        raises(ExecutionError, codes.FAILED_TARGET, "r (custom-call)", "'target'", *values),
    ):
        run(entry(ROOT_OF_X), np.float32(value))


def test_a_status_that_another_library_wrote() -> None:
    @STATUS_RETURNING
    def write(out: int, operands: Any, status: int) -> None:
        c_int32.from_address(status + 32).value = 1

    with registered(write, **STATUS), raises(ExecutionError, codes.FAILED_TARGET):
        run(entry(ROOT_OF_X), np.float32(1))


def test_the_unified_version_has_the_opaque_text() -> None:
    @UNIFIED
    def length(out: int, operands: Any, opaque: bytes, opaque_len: int, status: int) -> None:
        c_int32.from_address(out).value = 1000 * len(opaque) + opaque_len

    line = 'ROOT r = s32[] custom-call(), custom_call_target="target", api_version=API_VERSION_STATUS_RETURNING_UNIFIED'
    with registered(length, api_version=Version.STATUS_RETURNING_UNIFIED):
        assert run(entry(f'{line}, backend_config="ab\\000\\377d"')) == 2005
        assert run(entry(line)) == 0


def test_calls_of_another_version_are_refused() -> None:
    with (
        registered(refuse_negative, **STATUS),
        raises(
            UnsupportedError, codes.CALL_VERSION, "API_VERSION_ORIGINAL", "'target'", "API_VERSION_STATUS_RETURNING"
        ),
    ):
        run(entry(MYFUNC))


# -- effects


def test_calls_with_effects_run_once_each_in_order() -> None:
    met: list[str] = []
    call = 'custom-call(x), custom_call_target="target", custom_call_has_side_effect=true'
    text = entry(f"""
      x = f32[] parameter(0)
      a = () {call}, backend_config="first"
      b = f32[] {call}, backend_config="second"
      c = () custom-call(x), custom_call_target="target", custom_call_has_side_effect=true, backend_config="third"
      ROOT r = f32[] copy(x)
    """)

    def note(x: Any, *, opaque: str, shape: xla.Shape) -> Any:
        met.append(opaque)
        return x if shape.is_array else None

    with registered(note):
        executable = make_client().compile(text)
        assert executable(np.float32(2)).array == 2
        assert met == ["first", "second", "third"]


def test_a_loop_calls_the_target_in_every_iteration() -> None:
    computations = """
    body { i = s32[] parameter(0)
      ROOT n = s32[] custom-call(i), custom_call_target="target", custom_call_has_side_effect=true }
    condition { j = s32[] parameter(0)
      five = s32[] constant(5)
      ROOT go = pred[] compare(j, five), direction=LT }
    """
    text = entry("start = s32[] constant(0)\nROOT r = s32[] while(start), condition=condition, body=body", computations)
    met: list[int] = []

    def count(i: Any) -> Any:
        met.append(int(i))
        return i + np.int32(1)

    with registered(count):
        assert run(text) == 5
    assert met == [0, 1, 2, 3, 4]


def test_a_mapped_computation_calls_for_every_element() -> None:
    computations = 'f { a = f32[] parameter(0)\n ROOT b = f32[] custom-call(a), custom_call_target="target" }'
    text = entry("x = f32[2,2] parameter(0)\nROOT r = f32[2,2] map(x), dimensions={0,1}, to_apply=f", computations)
    shapes: list[tuple[int, ...]] = []

    def twice(a: Any) -> Any:
        shapes.append(a.shape)
        return a * np.float32(2)

    with registered(twice):
        assert run(text, np.ones((2, 2), np.float32)).tolist() == [[2, 2], [2, 2]]
    assert shapes == [()] * 4


@pytest.mark.parametrize(
    "sample", [s for s in samples_of("custom") if "<=" not in s.text], ids=lambda sample: sample.name
)
def test_every_sample_runs_with_a_target(sample: Any) -> None:
    module = xla.parse_hlo(sample.text)
    (call,) = [i for i in module.instructions() if i.op is xla.opcodes.CUSTOM_CALL]
    expected = random_arguments([call.shape], seed=2)[0]
    arguments = random_arguments([p.shape for p in module.entry_computation.parameters], seed=1)
    seen: list[Any] = []

    def target(*operands: Any, **info: Any) -> Any:
        seen.append((operands, info["shape"]))
        return expected

    with registered(target, name=call.custom_call_target):
        result = plain(make_client().compile(module)(*arguments))
    assert len(seen) == 1 and len(seen[0][0]) == len(call.operands) and seen[0][1] == call.shape
    assert_same(result, expected)


def assert_same(result: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(result) == len(expected)
        for part, wanted in zip(result, expected, strict=True):
            assert_same(part, wanted)
    elif isinstance(expected, np.ndarray):
        assert (result.dtype, result.shape, result.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


# -- built-in targets


@pytest.mark.parametrize("target", ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost"])
def test_sharding_annotations_change_nothing_on_one_partition(target: str) -> None:
    x = np.array([[1, -2], [3, np.nan]], np.float32)
    text = entry(f'x = f32[2,2] parameter(0)\nROOT r = f32[2,2] custom-call(x), custom_call_target="{target}"')
    assert run(text, x).tobytes() == x.tobytes()


def test_sharding_annotations_that_split_an_array_need_partitions() -> None:
    text = entry('x = f32[4] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape"')
    with raises(UnsupportedError, codes.BUILT_IN_CALL, "r (custom-call)", "(f32[4])", "f32[2]"):
        make_client().compile(text)


COMPARATOR = """
compare {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
"""


def top_k(result: str) -> str:
    line = f'top = {result} custom-call(x), custom_call_target="TopK", called_computations={{compare}}'
    return entry(f"x = f32[3,9] parameter(0)\nROOT {line}", COMPARATOR)


def test_top_k_agrees_with_xla() -> None:
    x = np.array([[3, -0.0, 0.0, 7, np.inf, 7, -np.inf, 1, 2], [0] * 9, [*range(8), 0.5]], np.float32)
    text = top_k("(f32[3,5], s32[3,5])")
    values, places = run(text, x)
    assert values.tolist() == [[np.inf, 7, 7, 3, 2], [0, 0, 0, 0, 0], [7, 6, 5, 4, 3]]
    assert places.tolist() == [[4, 3, 5, 0, 8], [0, 1, 2, 3, 4], [7, 6, 5, 4, 3]]
    expected = xla_reference.run_hlo(text, [x])
    assert [values.tobytes(), places.tobytes()] == [np.asarray(part).tobytes() for part in expected]


@pytest.mark.parametrize("result", ["(f32[3,10], s32[3,10])", "(f32[3,2], s64[3,2])", "(f32[3,2], s32[3,3])", "f32[3]"])
def test_top_k_of_other_shapes_is_refused(result: str) -> None:
    with raises(UnsupportedError, codes.BUILT_IN_CALL, "top (custom-call)", "t[...", "n]"):
        make_client().compile(top_k(result))


def test_a_target_may_be_bound_to_the_custom_calls_that_name_it() -> None:
    """`bind` gets what else a target would be told, and returns the function for one custom call."""

    def target(*operands: Any, opaque: str, instruction_name: str) -> Any:
        return bind(opaque=opaque, instruction_name=instruction_name)(*operands)

    def bind(*, opaque: str, instruction_name: str) -> Any:
        assert instruction_name in ("a", "b")
        return lambda x: x * np.float32(opaque)

    target.bind = bind  # type: ignore[attr-defined]
    text = entry(
        'x = f32[2] parameter(0)\na = f32[2] custom-call(x), custom_call_target="target", backend_config="2"\n'
        'ROOT b = f32[2] custom-call(a), custom_call_target="target", backend_config="5"'
    )
    with registered(target):
        np.testing.assert_array_equal(run(text, np.array([1, 3], np.float32)), [10, 30])

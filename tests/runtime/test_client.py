"""`Client` and `Executable`: programs that compile and run, and programs that are rejected."""

from __future__ import annotations

import platform as machine

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.tools.programs import AXPY, COUNT_TO_3
from xlapy import ops
from xlapy.base.error_codes.building.python_calls import ARGUMENT_TYPE
from xlapy.base.error_codes.compilation.compiling import LOWERED_INSTRUCTION
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.error_codes.operations import operands as operands_codes
from xlapy.base.errors import ArgumentTypeError
from xlapy.runtime import Backend, Buffer, backend, load_backend, platform_names
from xlapy.runtime.backends import cpu

X = np.array([1, 2, 3], np.float32)


@pytest.fixture
def client() -> xla.Client:
    return xla.Client("interpreter")


def axpy_computation() -> xla.XlaComputation:
    b = xla.XlaBuilder("axpy")
    a, x, y = (ops.parameter(b, i, xla.Shape.parse(s), n) for i, (n, s) in enumerate(
        {"a": "f32[]", "x": "f32[3]", "y": "f32[3]"}.items()
    ))  # fmt: skip
    ops.add(a * x, y)
    return b.build()


@pytest.mark.parametrize("program", [AXPY, xla.parse_hlo(AXPY), axpy_computation()], ids=["text", "module", "built"])
def test_programs_of_all_kinds_compile(client: xla.Client, program: object):
    axpy = client.compile(program)
    result = axpy(2, X, [10, 20, 30])
    assert isinstance(result, Buffer)
    assert np.array_equal(result, [12, 24, 36])


def test_the_properties_of_an_executable(client: xla.Client):
    axpy = client.compile(AXPY)
    assert (axpy.name, axpy.platform) == ("axpy", "interpreter")
    assert axpy.program_shape.to_text() == "(a: f32[], x: f32[3], y: f32[3]) -> f32[3]"
    assert repr(axpy) == "<Executable axpy on interpreter: (a: f32[], x: f32[3], y: f32[3]) -> f32[3]>"
    assert axpy.as_hlo_text().startswith("HloModule axpy")
    assert repr(client) == "<Client interpreter>"


def test_tuples_are_returned_as_tuples(client: xla.Client):
    b = xla.XlaBuilder("t")
    one = ops.constant(b, np.float32(1))
    ops.tuple(b, [one, ops.tuple(b, [one, one])])
    first, (second, _) = client.compile(b.build())()
    assert (float(first), float(second)) == (1, 1)


def test_results_feed_the_next_call(client: xla.Client):
    axpy = client.compile(AXPY)
    once = axpy(2, X, X)
    assert np.array_equal(axpy(2, once, once), 9 * X)


def test_a_parameter_that_is_returned_is_a_copy(client: xla.Client):
    same = client.compile("HloModule same\nENTRY main {\n  ROOT x = f32[3] parameter(0)\n}\n")
    given = X.copy()
    result = same(given)
    given[:] = 0
    assert np.array_equal(result, X)


def test_the_observer_sees_every_instruction(client: xla.Client):
    seen: list[tuple[str, object]] = []
    client.compile(COUNT_TO_3)(2, observer=lambda i, operands, value: seen.append((i.name, value.item())))
    steps = [("limit", 3), ("below", True), ("one", 1), ("after", 3), ("limit", 3), ("below", False), ("count", 3)]
    assert seen == steps


def test_invalid_programs(client: xla.Client):
    with pytest.raises(xla.errors.ParseError, match="unknown operation 'ad'; did you mean"):
        client.compile(AXPY.replace(" add(", " ad("))
    with raises(xla.errors.VerificationError, operands_codes.RESULT_SHAPE, "sum (add)"):
        client.compile(AXPY.replace("sum = f32[3]", "sum = f32[4]"))
    with raises(xla.errors.InvalidArgumentError, calls_codes.PROGRAM_TYPE):
        client.compile(3)  # type: ignore[arg-type]


def test_arguments_are_checked_against_the_program(client: xla.Client):
    axpy = client.compile(AXPY)
    with raises(
        xla.errors.InvalidArgumentError, calls_codes.ARGUMENT_SHAPE, "parameter 1 (x)", "f32[3] (float32)", "float32[4]"
    ):
        axpy(2, np.zeros(4, np.float32), X)
    with raises(xla.errors.InvalidArgumentError, calls_codes.ARGUMENT_COUNT, "3 arguments", "given 2"):
        axpy(2, X)


# -- platforms


def test_the_default_platform_is_cpu(monkeypatch: pytest.MonkeyPatch):
    client = xla.Client()
    axpy = client.compile(AXPY)
    assert (client.platform, axpy.platform) == ("cpu", "cpu")
    assert np.array_equal(axpy(2, X, X), 3 * X)
    monkeypatch.setattr(machine, "machine", lambda: "riscv64")
    assert xla.Client().platform == "interpreter"


def test_the_default_platform_falls_back_to_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(*_: object, **__: object) -> None:
        raise xla.errors.UnsupportedError(LOWERED_INSTRUCTION, "sum (add) does not run here")

    monkeypatch.setattr(cpu.CpuBackend, "compile", refuse)
    with caplog.at_level("INFO", "xlapy"):
        axpy = xla.Client().compile(AXPY)
    assert axpy.platform == "interpreter"
    assert np.array_equal(axpy(2, X, X), 3 * X)
    assert "axpy runs on the interpreter: sum (add) does not run here" in caplog.text
    with pytest.raises(xla.errors.UnsupportedError, match="does not run here"):
        xla.Client("cpu").compile(AXPY)


def test_the_error_for_an_unknown_platform_lists_the_known_ones():
    with raises(xla.errors.InvalidArgumentError, codes.PLATFORM, "'tpu'"):
        xla.Client("tpu")


def test_the_interpreter_is_a_backend():
    loaded: Backend = load_backend("interpreter")
    assert loaded.name == "interpreter"
    assert "interpreter" in platform_names()


def test_packages_add_platforms(monkeypatch: pytest.MonkeyPatch):
    class EntryPoint:
        name = "mine"

        def load(self):
            return lambda: load_backend("interpreter")

    monkeypatch.setattr(backend, "entry_points", lambda group: [EntryPoint()] if group == "xlapy.backends" else [])
    assert "mine" in platform_names()
    assert np.array_equal(xla.Client("mine").compile(AXPY)(1, X, X), 2 * X)


def test_a_platform_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch):
    class EntryPoint:
        name = "mine"
        value = "mine.backend:make"

        def load(self):
            raise ImportError("no module named 'mine'")

    monkeypatch.setattr(backend, "entry_points", lambda group: [EntryPoint()])
    with raises(xla.errors.InvalidArgumentError, codes.PLATFORM_PACKAGE, "'mine'", "mine.backend:make"):
        xla.Client("mine")


def test_platforms_are_registered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(backend, "_registered", {})
    xla.register_backend("mine-2", lambda: load_backend("interpreter"))
    assert "mine-2" in platform_names()
    assert np.array_equal(xla.Client("mine-2").compile(AXPY)(1, X, X), 2 * X)
    with raises(xla.errors.InvalidArgumentError, codes.PLATFORM_NAME, "'cpu'"):
        xla.register_backend("cpu", lambda: load_backend("interpreter"))
    with raises(xla.errors.InvalidArgumentError, codes.PLATFORM_NAME, "'two words'"):
        xla.register_backend("two words", lambda: load_backend("interpreter"))
    with raises(ArgumentTypeError, ARGUMENT_TYPE, "load", "None"):
        xla.register_backend("mine-3", None)
    assert "mine-3" not in platform_names()

"""Random arguments: their shapes, and shapes of which there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.raising import raises
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Shape
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.command_line import invoke


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        "f32[1000000,1000000,1000]",
        "s8[1000000000000000000]",
        "(s32[], (pred[8000000000000]))",
        "c64[<=1,1000000000000]",
    ],
)
def test_arguments_that_do_not_fit_in_memory(shape: str, special: bool) -> None:
    with raises(InvalidArgumentError, codes.OUT_OF_MEMORY, "argument 1"):
        random_arguments([Shape.parse("f32[2]"), Shape.parse(shape)], 0, special=special)


def test_allocations_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes may take the memory after it was found to be available."""

    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("xlapy.testing.random_arguments.random_array", fail)
    with raises(InvalidArgumentError, codes.OUT_OF_MEMORY, "argument 0", "f32[3]"):
        random_arguments([Shape.parse("f32[3]")], 0)


def test_shapes_that_numpy_does_not_have() -> None:
    with pytest.raises(ShapeError, match="multiply to more than 64 bits hold"):
        random_arguments([Shape.parse("f32[0,4611686018427387904]")], 0)


@pytest.mark.parametrize("command", [["run", "--random", "0"], ["bench", "--against", "nothing"]])
def test_large_arguments_of_commands(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large.hlo"
    file.write_text("ENTRY e { p = f32[1000000,1000000,1000] parameter(0) ROOT r = f32[] constant(1) }")
    assert invoke([command[0], str(file), *command[1:]]) == 1
    assert "memory" in capsys.readouterr().err


def test_equal_seeds_give_equal_arguments() -> None:
    shapes = [Shape.parse("f32[<=5,3]"), Shape.parse("(s32[], token[])")]
    first, second = (random_arguments(shapes, 7) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    assert first[0].shape[1:] == (3,) and 1 <= first[0].shape[0] <= 5
    assert first[1][0] == second[1][0] and first[1][1] is None

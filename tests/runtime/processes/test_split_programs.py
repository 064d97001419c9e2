"""Programs of several devices have the same bits at every split of the devices over processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.processes import run_job
from xlapy.base.error_codes.execution import processes as codes
from xlapy.base.error_codes.execution import running

FOLDER = Path(__file__).parent


def check(count: int, *arguments: str, timeout: float = 90) -> None:
    """Runs the driver as a number of processes, and checks that each has run programs and found no differences."""
    done = run_job(FOLDER / "driver.py", count, *arguments, timeout=timeout, XLAPY_FLAGS="--collective_timeout=60")
    found = re.findall(r"process (\d+): (\d+) runs, (\d+) refused, 0 differences", done.output)
    assert {int(process) for process, *_ in found} == set(range(count)), f"{done.output}\n{done.errors}"
    runs, refused = (sum(int(row[position]) for row in found) for position in (1, 2))
    assert runs > 2 * refused, "most programs run"


@pytest.mark.parametrize(
    ("count", "arguments"),
    [
        (2, ("samples", "0", "100", "13", "cpu")),
        (2, ("transfers", "0", "0", "1", "cpu")),
        (4, ("random", "0", "2", "1", "cpu")),
        (2, ("random", "2", "2", "1", "interpreter")),
    ],
)
def test_programs_have_the_bits_of_one_process(count: int, arguments: tuple[str, ...]) -> None:
    check(count, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("count", [2, 4])
def test_all_samples_have_the_bits_of_one_process(count: int, platform: str) -> None:
    check(count, "samples", "0", "100", "1", platform, timeout=1200)
    check(count, "transfers", "0", "0", "1", platform, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_random_programs_have_the_bits_of_one_process(count: int, first: int) -> None:
    check(count, "random", str(first), "50", "1", "cpu", timeout=1200)


# --- processes that do not do what others wait for


def errors_of(kind: str, platform: str, *arguments: str) -> dict[int, str]:
    """Returns the first error of each of three processes."""
    flags = "--collective_timeout=3"
    done = run_job(FOLDER / "stalled.py", 3, kind, platform, *arguments, XLAPY_FLAGS=flags)
    found = re.findall(r"^process (\d) after [\d.]+ s: (.*)", done.output, re.MULTILINE)
    assert found, f"{done.output}\n{done.errors}"
    return {int(process): text for process, text in found}


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_an_all_reduce_with_a_process_that_stalls_ends_in_time(platform: str) -> None:
    found = errors_of("stalls", platform, "8")
    assert set(found) == {0, 1}
    for text in found.values():
        assert "total (all-reduce)" in text and "device 2 of process 2" in text, text
        assert any(str(code) in text for code in (running.WAIT_TIMEOUT, codes.PROCESS_FAILED, codes.PROCESS_TIMEOUT))


def test_programs_that_differ_are_an_error_in_all_processes() -> None:
    found = errors_of("differs", "cpu")
    assert set(found) == {0, 1, 2}
    assert any("executes other" in text and "executes awaited" in text for text in found.values()), found


def test_a_process_that_fails_fails_the_launch_in_all_processes() -> None:
    found = errors_of("fails", "cpu")
    assert set(found) == {0, 1, 2}
    assert all("device 2 of process 2: i (infeed)" in text for text in found.values()), found

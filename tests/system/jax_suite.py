"""Runs JAX's own tests on the plugin and on JAX's CPU: `make test-jax`.

    python -m tests.system.jax_suite --jax CHECKOUT --every 8 lax_test nn_test

CHECKOUT is JAX's repository at the tag of the installed version; without it, git fetches it. Every N-th test of each
file runs, with at most `--each` of its cases; `--cases` is the number of cases that JAX generates. The plugin appears
to the tests as JAX's CPU, because the tests use the platform's name to decide what to skip and what to expect. A table
lists the numbers of passed, failed and skipped tests and the seconds. Tests that only JAX's CPU passes are listed, and
make the exit code 1. With `--failed`, JAX's CPU runs only the tests that fail on the plugin, which halves the time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

FILES = (
    "lax_test lax_numpy_test lax_numpy_operators_test lax_numpy_reducers_test lax_numpy_indexing_test "
    "lax_control_flow_test lax_autodiff_test lax_vmap_test lax_vmap_op_test random_test random_lax_test nn_test "
    "fft_test linalg_test lax_scipy_test lax_scipy_sparse_test lax_scipy_spectral_dac_test api_test export_test "
    "debugging_primitives_test python_callback_test"
)
REPOSITORY = "https://github.com/jax-ml/jax"
OUTCOME = re.compile(r"^(tests/\S.*?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)
UNFINISHED = re.compile(r"^(tests/\S+::\S+) *(?!.*(?:PASSED|FAILED|ERROR|SKIPPED))", re.MULTILINE)
KINDS = {"passed": ("PASSED",), "failed": ("FAILED", "ERROR", "DIED"), "skipped": ("SKIPPED",)}
LIMIT = 7200
"""Timeout of a test file in seconds. A hang counts as a failure."""


# -- pytest plugin, in the process of the tests


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1)
    parser.addoption("--each", type=int, default=0)


def pytest_configure(config):
    import jax
    import jax._src.test_util

    jax.config.update("jax_test_dut", "cpu")


def pytest_collection_modifyitems(config, items):
    items[:] = items[:: config.getoption("every")]
    if each := config.getoption("each"):
        seen: Counter[str] = Counter()
        for item in items:
            seen.update([test := re.sub(r"[\d_]+$", "", item.nodeid)])
            item.wanted = seen[test] <= each
        items[:] = [item for item in items if item.wanted]


# -- command line


def fetched(given: str | None) -> Path:
    if given:
        return Path(given)
    target = Path("jax-tests")
    if not target.exists():
        tag = f"jax-v{version('jax')}"
        subprocess.run(["git", "clone", "--quiet", "--depth=1", f"--branch={tag}", REPOSITORY, target], check=True)
    return target


def outcomes(options: argparse.Namespace, checkout: Path, file: str, platforms: str, *tests: str) -> dict[str, str]:
    """Returns the outcome of each test, or of the given tests of a file. If the process died, returns those of the
    tests that it started.
    """
    here = str(Path(__file__).parent)
    changes = {"JAX_PLATFORMS": platforms, "JAX_NUM_GENERATED_CASES": str(options.cases), "PYTHONPATH": here}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "jax_suite"]
    every = [f"--every={options.every}", f"--each={options.each}", f"tests/{file}.py"]
    command += [f"tests/{file}.py::{test}" for test in tests] or every
    command = ["timeout", "--signal=KILL", str(LIMIT), *command]
    done = subprocess.run(
        command, cwd=checkout, env=os.environ | changes, capture_output=True, text=True, errors="replace", check=False
    )
    found = {name.partition("::")[2]: outcome for name, outcome in OUTCOME.findall(done.stdout)}
    if done.returncode not in (0, 1):
        print(f"{file} on {platforms}: pytest ended with {done.returncode}\n{done.stderr[-1000:]}")
        found |= {name.partition("::")[2]: "DIED" for name in UNFINISHED.findall(done.stdout)[-1:]}
    return found


def counted(found: dict[str, str]) -> list[int]:
    return [sum(outcome in kinds for outcome in found.values()) for kinds in KINDS.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", help="a checkout of JAX")
    parser.add_argument("--every", type=int, default=1, help="run every N-th test")
    parser.add_argument("--each", type=int, default=0, help="run the first N cases of each test; 0: all")
    parser.add_argument("--cases", type=int, default=10, help="cases that JAX makes of a test, 10 by default")
    parser.add_argument("--failed", action="store_true", help="run on JAX's CPU only what fails on the plugin")
    parser.add_argument("files", nargs="*", default=FILES.split())
    options = parser.parse_args()
    checkout = fetched(options.jax)
    worse: list[str] = []
    print("{:28}".format("file: xlapy, then JAX's CPU"), *[f"{head:>8}" for head in [*KINDS, "seconds"] * 2])
    for file in options.files:
        started = time.monotonic()
        ours = outcomes(options, checkout, file, "xlapy,cpu")
        middle = time.monotonic()
        bad = [name for name, outcome in ours.items() if outcome in KINDS["failed"]]
        chosen = bad if options.failed else []
        theirs = outcomes(options, checkout, file, "cpu", *chosen) if chosen or not options.failed else {}
        seconds = round(middle - started), round(time.monotonic() - middle)
        row = [*counted(ours), seconds[0], *counted(theirs), seconds[1]]
        print(f"{file:28}", *[f"{number:8}" for number in row], flush=True)
        worse += [f"{file}::{name}" for name in bad if theirs.get(name) == "PASSED"]
    print("\n".join(["", "passed by JAX's CPU only:", *worse]) if worse else "\nnothing that JAX's CPU passes failed")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())

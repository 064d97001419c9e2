"""JAX's own tests on the plugin, beside JAX's CPU: `make test-jax`.

    python -m tests.system.jax_suite --jax CHECKOUT --every 8 lax_test nn_test

CHECKOUT is JAX's repository at the tag of the version that is installed; without it, it is fetched by git. Of each
file, every N-th test runs. A table tells what passed, failed and was skipped; tests that only JAX's CPU passes are
listed, and make the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FILES = (
    "lax_test lax_numpy_test lax_control_flow_test lax_autodiff_test lax_vmap_test lax_numpy_indexing_test random_test "
    "nn_test fft_test linalg_test lax_scipy_test api_test export_test debugging_primitives_test python_callback_test"
)
REPOSITORY = "https://github.com/jax-ml/jax"
OUTCOME = re.compile(r"^(tests/\S.*?) (PASSED|FAILED|ERROR|SKIPPED)\b", re.MULTILINE)


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1)


def pytest_collection_modifyitems(config, items):
    items[:] = items[:: config.getoption("every")]


def fetched(given: str | None) -> Path:
    if given:
        return Path(given)
    target = Path("jax-tests")
    if not target.exists():
        tag = f"jax-v{version('jax')}"
        subprocess.run(["git", "clone", "--quiet", "--depth=1", f"--branch={tag}", REPOSITORY, target], check=True)
    return target


def outcomes(checkout: Path, file: str, every: int, platforms: str) -> dict[str, str]:
    """What became of each test; of a process that died, of those that it had run."""
    here = str(Path(__file__).parent)
    environment = os.environ | {"JAX_PLATFORMS": platforms, "JAX_NUM_GENERATED_CASES": "1", "PYTHONPATH": here}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "jax_suite", f"--every={every}"]
    done = subprocess.run(
        [*command, f"tests/{file}.py"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    found = {name.partition("::")[2]: outcome for name, outcome in OUTCOME.findall(done.stdout)}
    if done.returncode < 0 or done.returncode > 1:
        print(f"{file} on {platforms}: pytest ended with {done.returncode}\n{done.stderr[-1000:]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", help="a checkout of JAX")
    parser.add_argument("--every", type=int, default=1, help="run every N-th test")
    parser.add_argument("files", nargs="*", default=FILES.split())
    options = parser.parse_args()
    checkout = fetched(options.jax)
    worse: list[str] = []
    heads = ("passed", "failed", "skipped")
    print("{:28} {:>14} {:>7} {:>8} {:>12} {:>7} {:>8}".format("file: xlapy, then JAX's CPU", *heads, *heads))
    for file in options.files:
        ours = outcomes(checkout, file, options.every, "xlapy,cpu")
        theirs = outcomes(checkout, file, options.every, "cpu")
        counts = [
            sum(outcome in kinds for outcome in found.values())
            for found in (ours, theirs)
            for kinds in (("PASSED",), ("FAILED", "ERROR"), ("SKIPPED",))
        ]
        print("{:28} {:14} {:7} {:8} {:12} {:7} {:8}".format(file, *counts), flush=True)
        bad = [name for name, outcome in ours.items() if outcome in ("FAILED", "ERROR")]
        worse += [f"{file}::{name}" for name in bad if theirs.get(name) == "PASSED"]
    print("\n".join(["", "passed by JAX's CPU only:", *worse]) if worse else "\nnothing that JAX's CPU passes failed")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())

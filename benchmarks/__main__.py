"""Runs all benchmarks, one after the other, each in a process of its own.

    python -m benchmarks [NAME ...] [--output bench-output]

Prints what they print, and writes it to `NAME.txt` in the folder; `cpu` also writes `cpu.md` and `cpu.svg` there. torch
and ONNX Runtime take part where they are installed (`make peers`). Takes about twenty minutes, in which nothing else
may run on the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = {
    "cpu": "operations, loops, linear algebra and transforms beside XLA:CPU, as installed and with tuned memory",
    "products": "matrix products",
    "convolutions": "layers of convolutional networks, and pooling",
    "networks": "convolutional networks, inference and training",
    "transformers": "parts of language models, and recurrent networks",
    "jax_programs": "programs through JAX",
    "multi_device": "programs through JAX on eight devices",
    "compiling": "compile times",
}


def run(name: str, folder: Path) -> int:
    """Runs one benchmark; returns its exit code."""
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    if name == "cpu":
        command += ["--output", str(folder)]
    # idle threads of OpenMP would take processors from the library that is measured next
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        (folder / f"{name}.txt").open("w") as copy,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            copy.write(line)
    return process.returncode


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Runs all benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*BENCHMARKS}):
        parser.error(f"there is no benchmark {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, what in BENCHMARKS.items():
        if not options.names or name in options.names:
            print(f"\n== {name}: {what}", flush=True)
            if run(name, options.output):
                failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

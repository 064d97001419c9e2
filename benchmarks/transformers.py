"""Measures the parts of language models on the platform cpu, XLA:CPU, torch and ONNX Runtime, alternating.

    python -m benchmarks.transformers [NAME ...] [--runs 7] [--hlo DIR]

Reports medians in milliseconds, and ratios: above 1 means that xlapy is faster. All run the same arithmetic on all
processors in one process, one after the other in every run. torch runs eagerly; torch and ONNX Runtime are measured if
they are installed, where a program has a form for them. Results are compared with those of XLA:CPU. `--hlo DIR` writes
the module of each program to DIR instead, for `xlapy profile DIR/NAME.hlo --random 0`. Nothing else may run on the
machine meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import xlapy as xla
from benchmarks.limits import Limit, ProgramCall, shortfalls
from benchmarks.transformer_programs import PROGRAMS, Program
from xlapy.runtime.machine import Machine, machine_roofline

MIN_SAMPLE_SECONDS = 1e-2
"""The minimum duration of one timed sample. Programs that take less are called several times per sample."""

PAUSE_SECONDS = 0.2
"""The pause before each timed sample, in which the threads of the implementation before stop to poll for work. After
0.02 s, those of ONNX Runtime still do: attention took 12.2 ms instead of 9.0."""

PEERS = ("XLA", "torch", "ORT")


def implementations(program: Program) -> tuple[ProgramCall, dict[str, Callable[[], Any]]]:
    """Returns xlapy's call, and a call of each implementation, with its arguments on its device."""
    arguments = program.arguments()
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    lowered = _lowered(program, arguments)
    theirs, on_device = lowered.compile(), jax.device_put(arguments)
    client = xla.Client("cpu")
    ours = client.compile(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
    call = ProgramCall(ours, [client.device_put(leaf) for leaf in leaves])
    found: dict[str, Callable[[], Any]] = {
        "ours": call,
        "XLA": lambda: jax.block_until_ready(theirs(*on_device)),
    }
    if program.torch is not None and importlib.util.find_spec("torch") is not None:
        import torch

        found["torch"] = program.torch(torch, jax.tree.map(lambda leaf: _tensor(torch, leaf), arguments))
    if program.onnx is not None and all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
        found["ORT"] = program.onnx(arguments)
    return call, found


def _lowered(program: Program, arguments: Sequence[Any]) -> Any:
    return jax.jit(lambda *given: program.function(*given), keep_unused=True).lower(*arguments)


def _module_text(program: Program) -> str:
    return _lowered(program, program.arguments()).compiler_ir("hlo").as_hlo_text(print_large_constants=True)


def _tensor(torch: Any, leaf: Any) -> Any:
    """A tensor with the elements of an array. NumPy's bfloat16 is not one that torch takes."""
    array = np.asarray(leaf)
    if array.dtype == jax.numpy.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def measure(name: str, program: Program, runs: int, machine: Machine) -> tuple[Limit, dict[str, float]]:
    """Returns the limit of xlapy's program, and the median seconds of one call of each implementation."""
    ours, calls = implementations(program)
    _compare(name, program, calls["XLA"](), calls["ours"]())
    counts: dict[str, int] = {}
    for peer, call in calls.items():
        _seconds(call, 2)
        counts[peer] = max(1, round(MIN_SAMPLE_SECONDS / max(_seconds(call, 1), 1e-7)))
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    for _ in range(runs):
        for peer, call in calls.items():
            time.sleep(PAUSE_SECONDS)
            call()  # wakes its threads, and loads its data into the cache
            times[peer].append(_seconds(call, counts[peer]))
    return ours.limit(machine), {peer: statistics.median(found) for peer, found in times.items()}


def _seconds(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def _compare(name: str, program: Program, theirs: Any, ours: Any) -> None:
    """Exits if a result differs by more than the tolerance, relative to its largest element."""
    for number, (wanted, got) in enumerate(zip(jax.tree.leaves(theirs), jax.tree.leaves(ours), strict=True)):
        wanted, got = np.asarray(wanted, np.float64), np.asarray(got).astype(np.float64)
        difference = np.abs(got - wanted).max(initial=0)
        if not difference <= program.tolerance * max(np.abs(wanted).max(initial=0), 1e-6):
            raise SystemExit(f"{name}: result {number} differs by {difference:.3g} from that of XLA:CPU")


def _row(name: str, limit: Limit, times: dict[str, float]) -> list[str]:
    cells = [name, f"{times['ours'] * 1e3:.3f}", f"{limit.share(times['ours']):.0%}"]
    for peer in PEERS:
        cells += [f"{times[peer] * 1e3:.3f}", f"{times[peer] / times['ours']:.2f}"] if peer in times else ["", ""]
    return [*cells, limit.text]


def _line(cells: Sequence[str]) -> str:
    return f"{cells[0]:22}" + "".join(f"{cell:>10}" for cell in cells[1:-1]) + f"  {cells[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--hlo", type=Path, metavar="DIR", help="write the modules instead of measuring them")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PROGRAMS]:
        parser.error(f"unknown program {unknown[0]!r}; known are {', '.join(PROGRAMS)}")
    headers = ["program", "ours ms", "of limit", *[h for peer in PEERS for h in (f"{peer} ms", "ratio")], "limit"]
    if options.hlo is None:
        print(_line(headers))
        machine = machine_roofline(anew=True)
    limits: dict[str, tuple[Limit, float]] = {}
    for name in options.names or PROGRAMS:
        if options.hlo is not None:
            options.hlo.mkdir(parents=True, exist_ok=True)
            (options.hlo / f"{name.replace(' ', '-')}.hlo").write_text(_module_text(PROGRAMS[name]))
        else:
            limit, times = measure(name, PROGRAMS[name], options.runs, machine)
            limits[name] = limit, times["ours"]
            print(_line(_row(name, limit, times)), flush=True)
    for line in shortfalls(limits) if limits else []:
        print(line)


if __name__ == "__main__":
    main()

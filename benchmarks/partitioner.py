"""Compares the partitioner with XLA's: the bytes that each of eight devices sends in a step, and the time to compile.

    python -m benchmarks.partitioner [NAME ...] [--list] [--compile]

Prints, for each program of `benchmarks.sharded_programs`, the bytes of the program as it is partitioned by xlapy and as
XLA:CPU of jaxlib compiles it for eight devices, and the number of collectives. Both are counted by the same function
from their HLO; a collective in a loop counts as often as the loop runs. `--list` prints the collectives of both,
`--compile` the time to compile a step of about 3000 instructions on both. A ratio above 1 means that xlapy sends less.
The exit code is 1 if a program sends more than XLA's.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import argparse
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax._src.interpreters import mlir
from rich.console import Console
from rich.table import Table

import xlapy as xla
from benchmarks import partly_sharded_programs
from benchmarks.sharded_programs import PROGRAMS, mesh, transformer_step
from xlapy import opcodes
from xlapy.analysis.cost import array_bytes
from xlapy.analysis.counted_loops import exact_trip_count
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.replica_groups import participants
from xlapy.opcodes.collectives import CollectivePermuteAttributes, GroupedAttributes, group_mode_of
from xlapy.pjrt.compile.program_loader import load_program

DEVICES = 8
_REGISTERED = partly_sharded_programs
"""The module whose import adds programs to `PROGRAMS`."""
_KNOWN_TRIP_COUNT = re.compile(r'"known_trip_count":\s*\{"n":\s*"(\d+)"')


@dataclass(frozen=True)
class Transfer:
    """A collective, how often it runs in a step, and the bytes that a device sends each time, the mean of all."""

    collective: Instruction
    times: int
    sent: float


def transfers(module: Module) -> list[Transfer]:
    """Returns the collectives of a step."""
    return list(_transfers(module.entry_computation, 1))


def _transfers(computation: Computation, times: int) -> Iterator[Transfer]:
    for instruction in computation:
        sent = _sent_bytes(instruction)
        if sent is not None:
            yield Transfer(instruction, times, sent)
        if instruction.op is opcodes.CONDITIONAL:
            branches = [list(_transfers(branch, times)) for branch in instruction.computations]
            yield from max(branches, key=lambda some: sum(each.times * each.sent for each in some))
        elif sent is None and instruction.op is not opcodes.FUSION:
            inner = times * (_trip_count(instruction) if instruction.op is opcodes.WHILE else 1)
            for called in instruction.computations:
                yield from _transfers(called, inner)


def _trip_count(loop: Instruction) -> int:
    known = _KNOWN_TRIP_COUNT.search(str(loop.backend_config or ""))
    count = int(known[1]) if known else exact_trip_count(loop)
    return 1 if count is None else count


def _sent_bytes(instruction: Instruction) -> float | None:
    """Returns the bytes that a device sends, the mean of all devices; None for anything but a collective."""
    op, attributes = instruction.op, instruction.attributes
    read = sum(array_bytes(operand.shape) for operand in instruction.operands)
    if isinstance(attributes, CollectivePermuteAttributes):
        moved = [pair for pair in attributes.source_target_pairs if pair[0] != pair[1]]
        return read * len(moved) / DEVICES
    if not isinstance(attributes, GroupedAttributes):
        return None
    mode = group_mode_of(attributes)
    members = len(participants(attributes.replica_groups, mode, 1, DEVICES, 0))
    if op in (opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START):
        return read * 2 * (members - 1) / members
    if op in (opcodes.ALL_GATHER, opcodes.ALL_GATHER_START):
        return read * (members - 1)
    return read * (members - 1) / members  # reduce-scatter, all-to-all, broadcast


def total_bytes(found: list[Transfer]) -> float:
    return sum(each.times * each.sent for each in found)


# -- both compilers


def lowered(name: str) -> Any:
    function, arguments = PROGRAMS[name]()
    return function.lower(*arguments)


def code_of(program: Any) -> bytes:
    return bytes(mlir.module_to_bytecode(program.compiler_ir("stablehlo")))


def ours(program: Any) -> Module:
    """Returns the program that each device runs, as xlapy partitions it."""
    return load_program(code_of(program), "mlir", DEVICES).module


def theirs(program: Any) -> Module:
    """Returns the program that each device runs, as XLA compiles it."""
    return xla.parse_hlo(program.compile().as_text(), verify=False)


def _listing(found: list[Transfer]) -> Iterator[str]:
    for each in sorted(found, key=lambda each: -each.times * each.sent):
        shapes = ", ".join(operand.shape.to_text(layout=False) for operand in each.collective.operands)
        where = each.collective.metadata.op_name if each.collective.metadata else ""
        yield f"  {each.times * each.sent:12,.0f}  {each.times} x {each.collective.op.name}({shapes})  {where}"


def compare(names: list[str], lists: bool) -> int:
    """Prints the table; returns the number of programs that send more than XLA's."""
    table = Table("program", "XLA bytes", "collectives", "xlapy bytes", "collectives", "ratio")
    worse = 0
    console = Console(width=140)
    for name in names:
        program = lowered(name)
        pair = [transfers(theirs(program)), transfers(ours(program))]
        sent = [total_bytes(found) for found in pair]
        worse += sent[1] > sent[0]
        ratio = "equal" if sent[0] == sent[1] else f"{sent[0] / sent[1]:.2f}" if sent[1] else "inf"
        cells = [cell for bytes, found in zip(sent, pair, strict=True) for cell in (f"{bytes:,.0f}", str(len(found)))]
        table.add_row(name, *cells, ratio)
        for heading, found in zip(("XLA", "xlapy"), pair if lists else (), strict=False):
            print(f"{name}, {heading}", *_listing(found), sep="\n")
    console.print(table)
    console.print(f"{len(names) - worse} of {len(names)} programs send no more than XLA's")
    return worse


# -- compile time


def compile_times(runs: int = 3) -> None:
    """Prints the time from the lowered step of a transformer to its executable, on both."""
    function, arguments = transformer_step(mesh(data=2, model=4), "data", "model", layers=12)
    program = function.lower(*arguments)
    code = code_of(program)
    client = xla.Client("cpu", devices=DEVICES)
    instructions = sum(1 for _ in load_program(code, "mlir", 1).module.instructions())
    seconds: dict[str, list[float]] = {"XLA": [], "xlapy": []}
    for _ in range(runs):
        jax.clear_caches()
        begin = time.perf_counter()
        function.lower(*arguments).compile()
        middle = time.perf_counter()
        client.compile(load_program(code, "mlir", DEVICES).module, 1, DEVICES)
        seconds["XLA"].append(middle - begin)
        seconds["xlapy"].append(time.perf_counter() - middle)
    medians = {name: statistics.median(some) for name, some in seconds.items()}
    print(f"{instructions} instructions:", *[f"{name} {each:.2f} s" for name, each in medians.items()])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.partitioner", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="words of the names of programs; all by default")
    parser.add_argument("--list", action="store_true", help="print all collectives")
    parser.add_argument("--compile", action="store_true", help="measure the time to compile a large step")
    options = parser.parse_args()
    if options.compile:
        compile_times()
        return
    names = [name for name in PROGRAMS if not options.names or any(word in name for word in options.names)]
    if compare(names, options.list):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

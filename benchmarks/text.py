"""Measures time and memory of parsing, verifying and printing HLO text: `python benchmarks/text.py [instructions ...]`.

The module is a chain of operations that are common in JAX programs, with metadata, in the long form. Prints one row per
size: the milliseconds of each step (best of three), the microseconds per instruction, and the kilobytes per instruction
that the parsed module occupies.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable

import xlapy as xla
from xlapy.hlo.verify import verify
from xlapy.text import PrintOptions, print_module

REDUCER = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""


def module_text(count: int, seed: int = 0) -> str:
    """Returns the text of a module of about `count` instructions."""
    rng = random.Random(seed)
    lines = ["HloModule benchmark", REDUCER, "ENTRY %main (x: f32[64,64], s: f32[]) -> f32[64,64] {"]
    lines += ["  %x = f32[64,64]{1,0} parameter(0)", "  %s = f32[] parameter(1)"]
    values = ["%x"]
    for i in range(0, count, 2):
        lines += _pair(i, rng, values)
    lines.append(f"  ROOT %result = f32[64,64]{{1,0}} add({values[-1]}, {values[-2]})\n}}\n")
    return "\n".join(lines)


def _pair(i: int, rng: random.Random, values: list[str]) -> list[str]:
    """Returns two instructions, the second of which is a new f32[64,64] value."""
    a, b = values[-1], rng.choice(values[-20:])
    meta = f', metadata={{op_name="jit(f)/layer{i % 7}/op{i % 11}" source_file="model.py" source_line={i % 500 + 1}}}'
    array = "f32[64,64]{1,0}"
    first, second = f"%v.{i}", f"%v.{i + 1}"
    forms = [
        (f"{array} multiply({a}, {b})", f"{array} add({first}, {b})"),
        (
            f"{array} dot({a}, {b}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"{array} tanh({first})",
        ),
        (
            f"f32[64]{{0}} reduce({a}, %s), dimensions={{1}}, to_apply=%add",
            f"{array} broadcast({first}), dimensions={{0}}",
        ),
        (f"pred[64,64]{{1,0}} compare({a}, {b}), direction=LT", f"{array} select({first}, {a}, {b})"),
        (f"{array} transpose({a}), dimensions={{1,0}}", f"{array} exponential({first})"),
        (f"f32[32,64]{{1,0}} slice({a}), slice={{[0:32], [0:64]}}", f"{array} pad({first}, %s), padding=0_32x0_0"),
    ]
    pair = rng.choice(forms)
    values.append(second)
    return [f"  {first} = {pair[0]}{meta}", f"  {second} = {pair[1]}{meta}"]


def best(function: Callable[[], object], repeats: int = 3) -> float:
    """Returns the shortest time in seconds."""
    times: list[float] = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def kilobytes_kept(text: str) -> float:
    """Returns the memory that the parsed module occupies, in kB."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    module = xla.parse_hlo(text)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return kept / 1000 if module else 0.0


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 100_000]
    print(f"{'count':>8} {'parse':>8} {'verify':>8} {'print':>8} {'total':>8}  ms   {'us/instr':>8} {'kB/instr':>8}")
    for size in sizes:
        text = module_text(size)
        parse = best(lambda text=text: xla.parse_hlo(text, verify=False))
        module = xla.parse_hlo(text)
        check = best(lambda module=module: verify(module))
        printing = best(lambda module=module: print_module(module, PrintOptions()))
        total = parse + check + printing
        count = module.instruction_count
        kept = kilobytes_kept(text) / count
        row = f"{count:8} {parse * 1e3:8.1f} {check * 1e3:8.1f} {printing * 1e3:8.1f} {total * 1e3:8.1f}"
        print(f"{row}       {total / count * 1e6:8.1f} {kept:8.2f}")


if __name__ == "__main__":
    main()

"""Compares the simulator's predictions with measurements of programs on 2 to 8 devices of this process.

    xlapy simulate --calibrate --machine this.json
    python -m benchmarks.simulation this.json [SET ...] [--measured FILE]

Prints a table of the measured and the predicted time of a step, and their ratio, for the programs below (`common`),
those of `simulation_programs` (`first`, `second`), and the JAX functions of `simulation_functions`. Each program is
measured several times; the least of the medians counts. FILE keeps the measurements, so that another description can be
compared with them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.simulation_functions import FUNCTION_SETS, Program
from benchmarks.simulation_programs import SETS
from xlapy.analysis.simulation.communication import device_counts
from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.simulator import Options
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo
from xlapy.tools.simulate.machines import find_machine
from xlapy.tools.simulate.prediction import predicted
from xlapy.tools.simulate.programs import prepared
from xlapy.tools.simulate.running import module_seconds

ROUNDS = 4
MAX_ERROR = 0.2
"""The largest part of the measured time by which a prediction may be off."""

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
MAX = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def programs() -> Iterator[tuple[str, int, str]]:
    """Yields the name, the number of devices and the entry computation (or module without its first line)."""
    yield (
        "gradients, data-parallel",
        4,
        f"""{ADD}ENTRY e {{
  x = f32[256,512] parameter(0)
  w = f32[512,512] parameter(1)
  h = f32[256,512] dot(x, w), {DOT}
  t = f32[256,512] tanh(h)
  g = f32[512,512] dot(x, t), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  s = f32[512,512] all-reduce(g), replica_groups={{}}, to_apply=add
  l = f32[] constant(0.01)
  b = f32[512,512] broadcast(l), dimensions={{}}
  d = f32[512,512] multiply(s, b)
  ROOT n = f32[512,512] subtract(w, d)
}}""",
    )
    yield (
        "layer, tensor-parallel",
        8,
        f"""{ADD}ENTRY e {{
  x = f32[256,512] parameter(0)
  v = f32[512,256] parameter(1)
  w = f32[256,512] parameter(2)
  h = f32[256,256] dot(x, v), {DOT}
  t = f32[256,256] logistic(h)
  m = f32[256,256] multiply(h, t)
  y = f32[256,512] dot(m, w), {DOT}
  r = f32[256,512] all-reduce(y), replica_groups={{}}, to_apply=add
  ROOT z = f32[256,512] add(r, x)
}}""",
    )
    yield (
        "softmax of rows, maximum of all",
        2,
        f"""{ADD}{MAX}ENTRY e {{
  x = f32[512,1024] parameter(0)
  i = f32[] constant(-inf)
  z = f32[] constant(0)
  m = f32[512] reduce(x, i), dimensions={{1}}, to_apply=max
  n = f32[512] all-reduce(m), replica_groups={{}}, to_apply=max
  b = f32[512,1024] broadcast(n), dimensions={{0}}
  d = f32[512,1024] subtract(x, b)
  e = f32[512,1024] exponential(d)
  s = f32[512] reduce(e, z), dimensions={{1}}, to_apply=add
  t = f32[512] all-reduce(s), replica_groups={{}}, to_apply=add
  c = f32[512,1024] broadcast(t), dimensions={{0}}
  ROOT q = f32[512,1024] divide(e, c)
}}""",
    )
    yield (
        "experts, all-to-all twice",
        4,
        f"""ENTRY e {{
  x = f32[4,256,256] parameter(0)
  w = f32[256,512] parameter(1)
  v = f32[512,256] parameter(2)
  a = f32[4,256,256] all-to-all(x), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}
  f = f32[1024,256] reshape(a)
  h = f32[1024,512] dot(f, w), {DOT}
  t = f32[1024,512] tanh(h)
  y = f32[1024,256] dot(t, v), {DOT}
  g = f32[4,256,256] reshape(y)
  ROOT r = f32[4,256,256] all-to-all(g), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}
}}""",
    )
    yield (
        "ring of permutes in a loop",
        4,
        f"""condition {{
  s = (s32[], f32[256,256], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT go = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[256,256], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = f32[256,256] get-tuple-element(s), index=1
  a = f32[256,256] get-tuple-element(s), index=2
  d = f32[256,256] dot(k, a), {DOT}
  t = f32[256,256] tanh(d)
  p = f32[256,256] collective-permute(k), source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
  ROOT r = (s32[], f32[256,256], f32[256,256]) tuple(j, p, t)
}}
ENTRY e {{
  z = s32[] constant(0)
  k = f32[256,256] parameter(0)
  a = f32[256,256] parameter(1)
  s = (s32[], f32[256,256], f32[256,256]) tuple(z, k, a)
  w = (s32[], f32[256,256], f32[256,256]) while(s), condition=condition, body=body
  ROOT y = f32[256,256] get-tuple-element(w), index=2
}}""",
    )
    yield (
        "large update, memory-bound",
        8,
        """ENTRY e {
  w = f32[1048576] parameter(0)
  g = f32[1048576] parameter(1)
  m = f32[1048576] parameter(2)
  a = f32[1048576] add(m, g)
  ROOT n = f32[1048576] subtract(w, a)
}""",
    )
    yield (
        "fully sharded layer",
        8,
        f"""{ADD}ENTRY e {{
  x = f32[128,512] parameter(0)
  s = f32[64,512] parameter(1)
  w = f32[512,512] all-gather(s), replica_groups={{}}, dimensions={{0}}
  h = f32[128,512] dot(x, w), {DOT}
  t = f32[128,512] tanh(h)
  g = f32[512,512] dot(x, t), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  r = f32[64,512] reduce-scatter(g), replica_groups={{}}, dimensions={{0}}, to_apply=add
  ROOT n = f32[64,512] subtract(s, r)
}}""",
    )
    yield (
        "normalized rows, product",
        4,
        f"""{ADD}ENTRY e {{
  x = f32[1024,512] parameter(0)
  w = f32[512,256] parameter(1)
  z = f32[] constant(0)
  q = f32[1024,512] multiply(x, x)
  s = f32[1024] reduce(q, z), dimensions={{1}}, to_apply=add
  i = f32[1024] rsqrt(s)
  b = f32[1024,512] broadcast(i), dimensions={{0}}
  n = f32[1024,512] multiply(x, b)
  y = f32[1024,256] dot(n, w), {DOT}
  ROOT g = f32[4096,256] all-gather(y), replica_groups={{}}, dimensions={{0}}
}}""",
    )
    yield (
        "small all-reduces in a row",
        8,
        f"""{ADD}ENTRY e {{
  x = f32[64] parameter(0)
  a = f32[64] all-reduce(x), replica_groups={{}}, to_apply=add
  b = f32[64] negate(a)
  c = f32[64] all-reduce(b), replica_groups={{}}, to_apply=add
  d = f32[64] negate(c)
  e = f32[64] all-reduce(d), replica_groups={{}}, to_apply=add
  f = f32[64] negate(e)
  ROOT g = f32[64] all-reduce(f), replica_groups={{}}, to_apply=add
}}""",
    )
    yield (
        "large all-reduce",
        2,
        f"""{ADD}ENTRY e {{
  x = f32[4194304] parameter(0)
  a = f32[4194304] all-reduce(x), replica_groups={{}}, to_apply=add
  ROOT b = f32[4194304] multiply(a, x)
}}""",
    )
    yield (
        "convolution of images",
        2,
        """ENTRY e {
  x = f32[4,56,56,64] parameter(0)
  k = f32[3,3,64,64] parameter(1)
  c = f32[4,56,56,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  z = f32[] constant(0)
  b = f32[4,56,56,64] broadcast(z), dimensions={}
  ROOT r = f32[4,56,56,64] maximum(c, b)
}""",
    )
    yield (
        "products in groups of two",
        4,
        f"""{ADD}ENTRY e {{
  x = f32[512,512] parameter(0)
  w = f32[512,512] parameter(1)
  y = f32[512,512] dot(x, w), {DOT}
  r = f32[512,512] all-reduce(y), replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add
  ROOT z = f32[512,512] dot(r, w), {DOT}
}}""",
    )


@dataclass(frozen=True)
class Case:
    """A program on some devices, and the set that it belongs to."""

    set: str
    name: str
    devices: int
    program: Program

    @property
    def key(self) -> str:
        return f"{self.name} / {self.devices}"


DEVELOPMENT = ("common", "first", "second")
"""The sets on which the model was developed. The others were held out."""


def cases() -> Iterator[Case]:
    """Yields the programs of all sets."""
    for name, rows in {"common": list(programs()), **SETS}.items():
        for title, devices, text in rows:
            yield Case(name, title, devices, partial(parse_hlo, module_text(devices, text)))
    for set_name, functions in FUNCTION_SETS.items():
        for title, devices, program in functions():
            yield Case(set_name, title, devices, program)


def random_arguments(module: Module) -> list[np.ndarray]:
    """Returns small numbers for each parameter of a module; integers, which may be indices, are below 4,096."""
    generator = np.random.default_rng(0)
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    return [
        generator.integers(0, 4096, shape.dimensions).astype(shape.element_type.dtype)
        if shape.element_type.is_integral
        else (0.1 * generator.normal(size=shape.dimensions)).astype(shape.element_type.dtype)
        for shape in shapes
    ]


def measured_seconds(case: Case) -> float:
    """Returns the least median time of a step over several rounds."""
    module = case.program()
    return min(module_seconds(module, case.devices, random_arguments(module)) for _ in range(ROUNDS))


def predicted_seconds(case: Case, machine: MachineDescription) -> float:
    module, counts = prepared(case.program(), None, None)
    assert counts == device_counts(module, case.devices)
    return predicted(module, machine, counts, Options()).seconds


def module_text(devices: int, text: str) -> str:
    return f"HloModule m, replica_count={devices}\n{text}"


def print_table(rows: Sequence[Case], measured: Mapping[str, float], machine: MachineDescription) -> None:
    """Prints the table, and how many programs of each set are within a fifth of the measured time."""
    within, count = Counter[str](), Counter[str]()
    print("| program | devices | measured ms | predicted ms | ratio | within 20% |\n|---|---:|---:|---:|---:|---|")
    for case in rows:
        seconds = predicted_seconds(case, machine)
        ratio = seconds / measured[case.key]
        is_within = abs(ratio - 1) <= MAX_ERROR
        within[case.set] += is_within
        count[case.set] += 1
        times = f"{measured[case.key] * 1e3:.3f} | {seconds * 1e3:.3f} | {ratio:.2f}"
        print(f"| {case.name} | {case.devices} | {times} | {'yes' if is_within else 'no'} |", flush=True)
    print()
    for name in count:
        kind = "development" if name in DEVELOPMENT else "held out"
        print(f"{name} ({kind}): {within[name]} of {count[name]} within 20%")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    rows = list(cases())
    names = ", ".join(dict.fromkeys(case.set for case in rows))
    parser.add_argument("machine", help="description of this machine")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {names}; all by default")
    parser.add_argument("--measured", type=Path, help="JSON file of measured seconds, to which missing ones are added")
    options = parser.parse_args()
    chosen = [case for case in rows if not options.sets or case.set in options.sets]
    path: Path | None = options.measured
    measured = json.loads(path.read_text()) if path is not None and path.exists() else {}
    for case in chosen:
        if case.key not in measured:
            measured[case.key] = measured_seconds(case)
            if path is not None:
                path.write_text(json.dumps(measured, indent=1))
    print_table(chosen, measured, find_machine(options.machine))


if __name__ == "__main__":
    main()

"""Measures how many seconds large operations take on the interpreter: `python benchmarks/interpreter.py`.

The interpreter defines the operations; it is not meant to be fast. At the sizes used here it must still be usable,
which means that each operation takes seconds at most.
"""

from __future__ import annotations

import time

import numpy as np

import xlapy as xla
from xlapy.testing.random_arguments import random_arguments

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }\n"
UNRECOGNIZED_COMPARATOR = """order {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  difference = f32[] subtract(a, b)
  zero = f32[] constant(0)
  ROOT l = pred[] compare(difference, zero), direction=LT
}
"""

CASES = {
    "dot 1024x1024x1024 f32": "ENTRY e { a = f32[1024,1024] parameter(0) b = f32[1024,1024] parameter(1) "
    "ROOT r = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "add 16M f32": "ENTRY e { a = f32[16777216] parameter(0) b = f32[16777216] parameter(1) "
    "ROOT r = f32[16777216] add(a, b) }",
    "convolution 8x56x56x64, 3x3x64x64": "ENTRY e { a = f32[8,56,56,64] parameter(0) k = f32[3,3,64,64] parameter(1) "
    "ROOT r = f32[8,56,56,64] convolution(a, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f }",
    "sort 1M f32 by less-than": LESS + "ENTRY e { a = f32[1048576] parameter(0) "
    "ROOT r = f32[1048576] sort(a), dimensions={0}, to_apply=less }",
    "sort 1M f32 by any comparator": UNRECOGNIZED_COMPARATOR + "ENTRY e { a = f32[1048576] parameter(0) "
    "ROOT r = f32[1048576] sort(a), dimensions={0}, to_apply=order }",
    "reduce-window 512x512, window 3x3": ADD + "ENTRY e { a = f32[512,512] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[512,512] reduce-window(a, z), window={size=3x3 pad=1_1x1_1}, to_apply=add }",
    "reduce-window 512x512, window 512x512": ADD + "ENTRY e { a = f32[512,512] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[512,512] reduce-window(a, z), window={size=512x512 pad=511_0x511_0}, to_apply=add }",
    "reduce 16M f32": ADD + "ENTRY e { a = f32[16777216] parameter(0) z = f32[] constant(0) "
    "ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=add }",
}

SCATTER = (
    ADD
    + """ENTRY e {
  a = f32[50000,16] parameter(0)
  i = s32[100000,1] parameter(1)
  u = f32[100000,16] parameter(2)
  ROOT r = f32[50000,16] scatter(a, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}
"""
)


def seconds(text: str, arguments: list[np.ndarray] | None = None) -> float:
    executable = xla.Client("interpreter").compile("HloModule m\n" + text)
    arguments = arguments or random_arguments(executable.program_shape.parameters, 0)
    start = time.perf_counter()
    executable(*arguments)
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    scatter = [
        rng.standard_normal((50000, 16), np.float32),
        rng.integers(0, 50000, (100000, 1)).astype(np.int32),
        rng.standard_normal((100000, 16), np.float32),
    ]
    for name, text in CASES.items():
        print(f"{name:45} {seconds(text):8.3f} s")
    print(f"{'scatter-add of 100,000 rows of 16':45} {seconds(SCATTER, scatter):8.3f} s")


if __name__ == "__main__":
    main()

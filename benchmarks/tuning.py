"""Shows what `xlapy tune` gains: times of programs of one kernel with its default and with its tuned plan.

    python -m benchmarks.tuning [NAME ...] [--time-limit 15] [--runs 5]

Prints for each program the times of a call, how many plans were tried, and the plans. The choice of the compiler is
good where nothing is gained. Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import math

import xlapy as xla
from benchmarks.product_rows import Product, hlo
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.tune.search import Settings
from xlapy.tools.tune.tuner import TunedProgram, tune_module


def _program(result: str, operation: str, *parameters: str) -> str:
    """A module that applies one operation to parameters a, b ..."""
    lines = [
        f"  {name} = {shape} parameter({n})" for n, (name, shape) in enumerate(zip("abc", parameters, strict=False))
    ]
    body = "\n".join([*lines, f"  ROOT r = {result} {operation}"])
    add = "add { x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y) }\n"
    return f"HloModule tuned\n{add}ENTRY e {{\n  zero = f32[] constant(0)\n{body}\n}}\n"


def _convolution(image: str, kernel: str, result: str, window: str, groups: int = 1) -> str:
    dimensions = f"dim_labels=b01f_01io->b01f, feature_group_count={groups}"
    operation = f"convolution(a, b), window={{size={window}}}, {dimensions}"
    return _program(f"f32[{result}]", operation, f"f32[{image}]", f"f32[{kernel}]")


def _reduction(shape: str, dimensions: str, result: str) -> str:
    return _program(f"f32[{result}]", f"reduce(a, zero), dimensions={{{dimensions}}}, to_apply=add", f"f32[{shape}]")


PRODUCTS = (
    Product(8, 2048, 2048, right_transposed=True),
    Product(2, 4, 2, 65536),
    Product(784, 1024, 128, left_transposed=True),
    Product(33, 129, 1027),
    Product(513, 511, 509),
    Product(100, 3, 11000),
    Product(3, 1000, 3000),
    Product(128, 479, 1024),
    Product(64, 64, 64, 64),
    Product(300, 300, 300, dtype="float64"),
    Product(16, 1024, 1024, dtype="bfloat16", right_transposed=True),
    Product(200, 300, 400, dtype="int8"),
)

PROGRAMS = {product.name: hlo(product) for product in PRODUCTS} | {
    "conv 3 x 3, 64 at 56 x 56": _convolution("1,56,56,64", "3,3,64,64", "1,56,56,64", "3x3 pad=1_1x1_1"),
    "conv 3 x 3, 256 at 14 x 14": _convolution("1,14,14,256", "3,3,256,256", "1,14,14,256", "3x3 pad=1_1x1_1"),
    "conv 3 x 3 / 2, 48 to 96": _convolution("2,29,29,48", "3,3,48,96", "2,15,15,96", "3x3 stride=2x2 pad=1_1x1_1"),
    "conv 1 x 1, 512 to 128 at 7 x 7": _convolution("4,7,7,512", "1,1,512,128", "4,7,7,128", "1x1"),
    "conv 7 x 7 / 2 of an image": _convolution("1,112,112,3", "7,7,3,64", "1,56,56,64", "7x7 stride=2x2 pad=3_2x3_2"),
    "depthwise, 144 at 28 x 28": _convolution("4,28,28,144", "3,3,1,144", "4,28,28,144", "3x3 pad=1_1x1_1", 144),
    "sums of columns, 1,000 x 777": _reduction("1000,777", "0", "777"),
    "sums of rows of 7": _reduction("100000,7", "1", "100000"),
    "sums of middle dimensions": _reduction("64,50,300", "1", "64,300"),
    "transpose, 700 x 1,100": _program("f32[1100,700]", "transpose(a), dimensions={1,0}", "f32[700,1100]"),
    "permute, 32 x 60 x 90": _program("f32[90,32,60]", "transpose(a), dimensions={2,0,1}", "f32[32,60,90]"),
}  # fmt: skip
"""Products of odd shapes, convolutions, reductions and transposes."""


def tuned(text: str, time_limit: float, runs: int) -> TunedProgram:
    """Tunes a program on random arguments."""
    module = xla.parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, 0)
    return tune_module(module, arguments, time_limit=time_limit, settings=Settings(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--time-limit", type=float, default=15.0, help="seconds of search for each program")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*PROGRAMS}):
        parser.error(f"there is no program {', '.join(unknown)}; known: {', '.join(PROGRAMS)}")
    print(f"{'program':34}{'before us':>11}{'after us':>11}{'gain':>7}{'tried':>7}  plan")
    gains: list[float] = []
    for name in options.names or PROGRAMS:
        found = tuned(PROGRAMS[name], options.time_limit, options.runs)
        gains.append(found.before / found.after)
        tried = sum(max(0, len(row.found.trials) - 1) for row in found.rows)
        before, after = (f"{seconds * 1e6:11.1f}" for seconds in (found.before, found.after))
        print(f"{name:34}{before}{after}{gains[-1]:7.2f}{tried:7}  {'; '.join(map(str, _plans(found)))}", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, gains)) / len(gains)):.2f}")


def _plans(found: TunedProgram) -> list[str]:
    """The plan of each kernel, after a change with the strategy that it had."""
    plans: list[str] = []
    for row in found.rows:
        default, winner = row.found.kernel.choice.plan, row.found.winner
        plans.append(f"{winner.plan} (was {default})" if row.is_kept and winner is not None else str(default))
    return plans


if __name__ == "__main__":
    main()

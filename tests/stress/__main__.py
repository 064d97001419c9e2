"""Stress tests: `python -m tests.stress [NAME ...] [--seed N] [--minutes M | --count N | --all] [--short]`.

Also `make stress`.

Without a name, all run, one after the other. Prints progress, and at the end the figures; the exit code is 1 if there
was a fault. `--list` shows the stress tests with the amounts of their short and long forms.
"""

from __future__ import annotations

import argparse
import sys

from tests.stress import harness


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description="Stress tests of xlapy.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(harness.names())}; default: all")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random choices (default: 1)")
    amounts = parser.add_mutually_exclusive_group()
    amounts.add_argument("--count", type=int, help="units to do, instead of the long form's")
    amounts.add_argument("--seconds", type=float, help="time to run, instead of the long form's")
    amounts.add_argument("--minutes", type=float, help="the same in minutes")
    amounts.add_argument("--all", action="store_true", help="all that there is, for stress tests with an end")
    parser.add_argument(
        "--files", nargs="+", default=[], metavar="FILE", help="mutations, reorderings: of these files (default: all)"
    )
    parser.add_argument("--short", action="store_true", help="the short form, which the suite runs")
    parser.add_argument("--list", action="store_true", help="shows the stress tests and ends")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(harness.names()))
    if unknown:
        parser.error(f"no stress test {', '.join(unknown)}; there are {', '.join(harness.names())}")
    if options.list:
        for name in harness.names():
            stress = harness.load(name)
            print(f"{name:<12} {stress.what}\n{'':<12} short: {stress.short}; long: {stress.long}")
        return 0
    seconds = options.seconds if options.minutes is None else 60 * options.minutes
    given = options.count is not None or seconds is not None
    amount = harness.ALL if options.all else harness.Amount(options.count, seconds) if given else None
    runs = [
        harness.perform(name, options.seed, amount, short=options.short, files=options.files)
        for name in options.names or harness.names()
    ]
    for run in runs:
        print(run.table())
    return int(any(run.faults for run in runs))


if __name__ == "__main__":
    sys.exit(main())

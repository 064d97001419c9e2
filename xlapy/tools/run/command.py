"""`xlapy run`: runs a program in any format, or a compiled one.

Responsible for the command's options, and for the order of its steps. Does not depend on how programs run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import numpy as np

from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.runtime import Executable, platform_names
from xlapy.runtime.engine.arguments import leaves
from xlapy.runtime.values import Observer
from xlapy.tools.elided_constants import elided_constants_option
from xlapy.tools.files import save_arrays
from xlapy.tools.loading import load_option
from xlapy.tools.run.arguments import arguments_of_places
from xlapy.tools.run.comparing import compare_platforms
from xlapy.tools.run.devices import LoadedProgram, files_of_devices, infeed_values, load_program, with_feeds
from xlapy.tools.run.interface import Array, ProgramInterface
from xlapy.tools.run.options import RunOptions, check_options
from xlapy.tools.run.processes import RunProcesses, is_silent, join_processes, printed
from xlapy.tools.run.showing import count_text, show_arguments, show_results, show_times
from xlapy.tools.run.single_process import compare_with_single_process
from xlapy.tools.run.unpartitioned import compare_with_unpartitioned


class _RunCommand(click.Command):
    """`--trace` without a value means every instruction. It must not take the following word, the file, as its value.
    Of several processes, one reports wrong usage."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if is_silent():
                raise SystemExit(error.exit_code) from error
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--trace=" if word == "--trace" else word for word in args])


@click.command(cls=_RunCommand)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[DEVICE=]FILE",
    help="Arguments of all devices or of one, or, if FILE is partitioned, of replicas: .npy (one array) or .npz.",
)
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    help="Seed of random arguments, which differ between devices, or, if FILE is partitioned, between replicas.",
    metavar="SEED",
)
@click.option(
    "--infeed", "infeeds", multiple=True, metavar="[DEVICE=]FILE", help="Infeed values, in order: .npy or .npz."
)
@click.option(
    "--num-replicas", "--num_replicas", type=click.IntRange(min=1), help="Number of replicas; by default the program's."
)
@click.option(
    "--num-partitions",
    "--num_partitions",
    type=click.IntRange(min=1),
    help="Number of partitions; by default the program's, or that of the devices in its shardings.",
)
@click.option(
    "--platform",
    help=f"Platform: {', '.join(platform_names())}. By default cpu, or the interpreter with --trace or if cpu does "
    "not support FILE.",
)
@load_option("platforms and targets of custom calls")
@click.option("--print", "print_values", is_flag=True, help="Print the values in full.")
@click.option("--save", type=click.Path(dir_okay=False), help="Save the results as .npz (result0, result1 ...).")
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of runs; with several, print the times.",
)
@click.option(
    "--trace", "traced", metavar="[=NAME]", help="Print each instruction's value, or those whose name matches NAME."
)
@click.option(
    "--compare",
    "compared",
    type=click.Choice(["interpreter", "single"]),
    help="interpreter: show the first instruction whose value differs there. single: compare the results of several "
    "processes with those of one, bit for bit, and those of partitions with the unpartitioned program. Exit code 1 if "
    "something differs.",
)
@click.option("--check-nans", "nans", is_flag=True, help="Stop at the first instruction that produces a NaN.")
@click.option("--check-infs", "infs", is_flag=True, help="Stop at the first instruction that produces an infinity.")
@elided_constants_option
def run(**values: Any) -> int | None:
    """Run FILE (HLO, StableHLO, or a file of `xlapy compile`; - for standard input) and show the results.

    A program with shardings that split values is partitioned first. It takes and returns global arrays.

    `mpirun -n 4 xlapy run FILE` runs it on devices of 4 processes, the same number in each.
    """
    options, processes = RunOptions(**values), join_processes()
    observer = processes.together("checking the options", lambda: check_options(options, processes))
    program = load_program(
        options.chosen_platform,
        options.file,
        options.num_replicas,
        options.num_partitions,
        options.elided_constants,
        check_nans=options.nans or None,
        check_infs=options.infs or None,
        processes=processes,
    )
    return _Run(options, processes, program, ProgramInterface(program.executable), observer).run()


@dataclass(frozen=True)
class _Run:
    """A program that is run by some processes, as options say.

    interface: what a user gives the program and receives. observer: is called after each instruction.
    """

    options: RunOptions
    processes: RunProcesses
    program: LoadedProgram
    interface: ProgramInterface
    observer: Observer | None

    @property
    def executable(self) -> Executable:
        return self.program.executable

    def run(self) -> int | None:
        """Runs the program, and prints, saves or compares its results. Returns the exit code."""
        options, processes, interface = self.options, self.processes, self.interface
        arguments, local = processes.together(
            "reading the arguments", lambda: self._arguments(interface.used_places, interface.devices)
        )
        if options.compared == "interpreter":
            return compare_platforms(self.executable, local[0], in_full=options.print_values)
        if options.seed is not None and options.shows_results:
            show = partial(show_arguments, interface, in_full=options.print_values)
            processes.print_in_order({n: printed(partial(show, n, arguments[n])) for n in interface.own_places})
        outfed: list[list[Any]] = []
        results = self._timed_results(local, outfed)
        arrays = {number: leaves(_plain(result)) for number, result in zip(interface.devices, results, strict=True)}
        if options.compared == "single":
            return self._compare_with_one(arrays)
        found = interface.results(processes, arrays)
        if options.save is not None:
            self._save(options.save, found)
        if options.shows_results:
            fed_out = {n: list(map(_plain, row)) for n, row in zip(interface.devices, outfed, strict=True)}
            show = partial(show_results, interface, in_full=options.print_values)
            processes.print_in_order({n: printed(partial(show, n, fed_out.get(n, ()), found[n])) for n in found})
        return None

    def _arguments(self, places: Sequence[int], devices: Sequence[int]) -> tuple[dict[int, list[Any]], list[list[Any]]]:
        """Returns the arguments at some places, and those of devices there."""
        arguments = arguments_of_places(self.interface, self.options.inputs, self.options.seed, places)
        return arguments, self.interface.device_arguments(arguments, devices)

    def _all_arguments(self) -> tuple[dict[int, list[Any]], list[list[Any]]]:
        """Returns the arguments at all places, and those of all devices, also of other processes."""
        return self._arguments(range(self.interface.count), range(len(self.executable.devices)))

    def _timed_results(self, arguments: Sequence[Sequence[Any]], outfed: list[list[Any]]) -> list[Any]:
        """Runs the program as often as the options say, and prints the times. Returns the result of each device."""
        executable, processes = self.executable, self.processes
        fed = processes.together("reading the infeeds", self._infeed_values)
        execute = partial(_execute, executable, arguments, fed, outfed, self.observer)
        results, times = processes.together("the run", lambda: _timed(execute, self.options.repeat))
        if processes.prints:
            show_times(times)
        return results

    def _infeed_values(self) -> list[list[Any]]:
        """Returns the values for the infeed of each device of this process."""
        files = files_of_devices("--infeed", self.options.infeeds, len(self.executable.devices))
        return infeed_values(self.executable.module, [files[number] for number in self.interface.devices])

    def _compare_with_one(self, arrays: Mapping[int, Sequence[Array]]) -> int:
        """Compares the results with those of one process, and those of a partitioned program with those of one device.
        Returns the exit code of all processes."""
        processes, executable, source = self.processes, self.executable, self.program.source
        is_partitioned = executable.entry_shardings is not None and source is not None
        code = 0
        if processes.count > 1 or not is_partitioned:
            code = compare_with_single_process(processes, executable, arrays, self._results_alone)
        if executable.entry_shardings is None or source is None:
            return code
        found = self._of_all_processes(self.interface.results(processes, arrays))

        def compare() -> int:
            if not processes.prints:
                return 0
            arguments, _ = self._all_arguments()
            try:
                return compare_with_unpartitioned(source, executable, arguments, found)
            except UnsupportedError as error:
                if processes.count == 1 or error.code != codes.SINGLE_DEVICE:
                    raise
                click.echo(f"they are not compared with those of one device: {error}")
                return 0

        other = processes.together("the run of the unpartitioned program", compare)
        return max(code, *processes.gather(other, "whether results differ"))

    def _of_all_processes(self, arrays: Mapping[int, Sequence[Array]]) -> dict[int, Sequence[Array]]:
        """Returns the results at all places, given those at the places of this process."""
        return {n: row for one in self.processes.gather(arrays, "the results") for n, row in one.items()}

    def _results_alone(self, alone: Executable) -> list[list[Any]]:
        """Returns the arrays of each device of the program in this process."""
        _, arguments = self._all_arguments()
        return [leaves(_plain(result)) for result in _execute(alone, arguments, [[]] * len(arguments), [], None)]

    def _save(self, path: str, arrays: Mapping[int, Sequence[Array]]) -> None:
        """Saves the results as result0, result1 ...; of several devices as device0_result0 ..."""
        processes, noun = self.processes, self.interface.noun
        gathered = self._of_all_processes(arrays)
        named = {
            f"{noun}{number}_result{i}" if len(gathered) > 1 else f"result{i}": _with_own_type(array)
            for number, row in sorted(gathered.items())
            for i, array in enumerate(row)
        }
        processes.together("saving the results", lambda: save_arrays(path, named) if processes.prints else None)
        if processes.prints:
            click.echo(f"saved {count_text(len(named), 'array')} to {path}")


def _execute(
    executable: Executable,
    arguments: Sequence[Sequence[Any]],
    fed: Sequence[Sequence[Any]],
    outfed: list[list[Any]],
    observer: Observer | None,
) -> list[Any]:
    """Returns the result of each device."""

    def execute() -> list[Any]:
        if len(executable.devices) == 1:
            return [executable(*arguments[0], observer=observer)]
        return executable.execute_sharded(arguments, observer=observer)

    return with_feeds(executable.addressable_devices, fed, execute, outfed)


def _with_own_type(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of another process with NumPy's own object for its type, which `save_arrays` looks for."""
    return array.view(np.dtype(array.dtype.type))


def _timed(execute: Callable[[], Any], repeat: int) -> tuple[Any, list[float]]:
    """Runs `repeat` times; returns the last result, and the times in milliseconds."""
    times: list[float] = []
    result = None
    for _ in range(repeat):
        start = time.perf_counter()
        result = execute()
        times.append((time.perf_counter() - start) * 1e3)
    return result, times


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else getattr(value, "array", value)

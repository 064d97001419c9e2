"""`xlapy show`: the command."""

from __future__ import annotations

import click

from xlapy.cpu.compiler import Compiled
from xlapy.runtime import Executable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.spmd.entry.automatic import module_of_each_device
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.loading import load_option
from xlapy.tools.native_forms import NativeForms, forms_of, native_forms
from xlapy.tools.profile.report import Profile
from xlapy.tools.profile.session import profile_of, session_of
from xlapy.tools.run.devices import compile_for_devices
from xlapy.tools.show.page import module_page
from xlapy.tools.show.tree import tree_lines


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write an HTML page instead of printing a tree.")
@click.option(
    "--optimized",
    is_flag=True,
    help="Show the module after optimization for cpu, with fusion decisions and the code of each kernel.",
)
@click.option(
    "--platform",
    type=click.Choice(["cpu", "interpreter"]),
    help="Show the module as this platform runs it; cpu is the same as --optimized.",
)
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help="Run the module like `xlapy profile`, on --platform (default cpu), and show the times.",
)
@click.option(
    "--input", "inputs", multiple=True, metavar="[DEVICE=]FILE", help="Arguments for --profile: .npy (one) or .npz."
)
@click.option(
    "--random",
    "seed",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of random arguments; 0 if there is no input.",
)
@load_option("targets of custom calls")
@elided_constants_option
def show(
    file: str,
    output: str | None,
    optimized: bool,
    platform: str | None,
    profiled: bool,
    inputs: tuple[str, ...],
    seed: int | None,
    elided_constants: str,
) -> None:
    """Show FILE (HLO or StableHLO; - for standard input): as a tree of computations, or with -o as a page with its
    graph.

    A program with shardings that split values is partitioned before it is optimized or run.
    """
    if inputs and seed is not None:
        raise click.UsageError("give --input or --random, not both")
    if (inputs or seed is not None) and not profiled:
        raise click.UsageError("--input and --random are arguments for --profile")
    if optimized and platform == "interpreter":
        raise click.UsageError("--optimized shows what runs on cpu: give --platform interpreter without it")
    if output is not None:
        check_writable(output)
    module = read_program(file)
    platform = platform or ("cpu" if optimized or profiled else None)
    native: NativeForms | None = None
    found: Profile | None = None
    if platform is not None:
        provide_elided_constants(module, elided_constants)
    if profiled and platform is not None:
        executable = compile_for_devices(platform, module, None, None)
        found, native = profile_of(session_of(executable, inputs, seed), None), _forms_of(executable)
    elif platform == "cpu":
        native = native_forms(module_of_each_device(module))
    if native is not None:
        module = native.module
    if output is None:
        for line in tree_lines(module, native, found):
            click.echo(line)
        return
    page = module_page(module, native, found)
    write_file(output, lambda sink: sink.write(page.encode("ascii")))


def _forms_of(executable: Executable) -> NativeForms | None:
    """Returns the compiler's output of a program on cpu; a program from the cache is compiled again."""
    program = executable.program
    if not isinstance(program, CpuProgram):
        return None
    compiled = program.compiled
    return forms_of(compiled) if isinstance(compiled, Compiled) else native_forms(executable.module)

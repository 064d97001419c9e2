"""`xlapy show`: the command. Must not know: how modules are described."""

from __future__ import annotations

import click

from xlapy.cpu.compiler import Compiled
from xlapy.runtime import Executable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.native_forms import NativeForms, forms_of, native_forms
from xlapy.tools.profile.report import Profile
from xlapy.tools.profile.session import profile_of, session_of
from xlapy.tools.run.devices import compile_for_devices
from xlapy.tools.show.page import module_page
from xlapy.tools.show.tree import tree_lines


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write a page (HTML, one file) instead of a tree."
)
@click.option(
    "--optimized",
    is_flag=True,
    help="The module as it runs on cpu, with what fusion decided, and each kernel's loop IR, LLVM and assembly.",
)
@click.option(
    "--platform",
    type=click.Choice(["cpu", "interpreter"]),
    help="The module as it runs there; cpu is what --optimized shows.",
)
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help="Run it (on --platform, by default cpu) as `xlapy profile` does, and show what takes the time.",
)
@click.option(
    "--input", "inputs", multiple=True, metavar="[DEVICE=]FILE", help="Arguments for --profile: .npy (one) or .npz."
)
@click.option("--random", "seed", type=click.IntRange(min=0), metavar="SEED", help="Random ones; 0 if no input.")
def show(
    file: str,
    output: str | None,
    optimized: bool,
    platform: str | None,
    profiled: bool,
    inputs: tuple[str, ...],
    seed: int | None,
) -> None:
    """Show FILE (HLO or StableHLO; - for standard input): a tree of computations, or with -o a page with its graph."""
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
    if profiled and platform is not None:
        executable = compile_for_devices(platform, module, None, None)
        found, native = profile_of(session_of(executable, inputs, seed), None), _forms_of(executable)
    elif platform == "cpu":
        native = native_forms(module)
    if native is not None:
        module = native.module
    if output is None:
        for line in tree_lines(module, native, found):
            click.echo(line)
        return
    page = module_page(module, native, found)
    write_file(output, lambda sink: sink.write(page.encode("ascii")))


def _forms_of(executable: Executable) -> NativeForms | None:
    """Those of a program on cpu, compiled once more if it comes out of the cache."""
    program = executable.program
    if not isinstance(program, CpuProgram):
        return None
    compiled = program.compiled
    return forms_of(compiled) if isinstance(compiled, Compiled) else native_forms(executable.module)

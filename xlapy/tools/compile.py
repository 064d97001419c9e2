"""`xlapy compile`: writes a program as a file of machine code, which `xlapy run` runs.

Responsible for the command. Does not depend on how programs are compiled or on the file format.
"""

from __future__ import annotations

import click

from xlapy.runtime.system_memory import format_bytes
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import check_writable, read_program, write_file
from xlapy.tools.loading import load_option
from xlapy.tools.run.devices import compile_for_devices


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="The file to write.")
@click.option(
    "--num-replicas",
    "--num_replicas",
    type=click.IntRange(min=1),
    help="Number of replicas; by default the program's.",
)
@click.option(
    "--num-partitions",
    "--num_partitions",
    type=click.IntRange(min=1),
    help="Number of partitions; by default the program's, or that of the devices in its shardings.",
)
@click.option(
    "--donate", multiple=True, type=int, metavar="NUMBER", help="A parameter whose buffer the program may overwrite."
)
@load_option("targets of custom calls")
@elided_constants_option
def compile(
    file: str,
    output: str,
    num_replicas: int | None,
    num_partitions: int | None,
    donate: tuple[int, ...],
    elided_constants: str,
) -> None:
    """Compile FILE (HLO or StableHLO; - for standard input) for processors like this one.

    A program with shardings that split values is partitioned first. It takes and returns global arrays.

    The result runs only with this version of xlapy. Running it executes the machine code in the file: only run files
    from people you trust.
    """
    check_writable(output)
    module = read_program(file)
    provide_elided_constants(module, elided_constants)
    executable = compile_for_devices("cpu", module, num_replicas, num_partitions, donate)
    data = executable.serialize()
    write_file(output, lambda sink: sink.write(data))
    click.echo(f"compiled {executable.name} to {output}, {format_bytes(len(data))}")

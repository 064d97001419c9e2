"""`xlapy convert`: converts a program to another format.

Responsible for the command. Does not depend on any format.
"""

from __future__ import annotations

import click

from xlapy.base.shape import Shape
from xlapy.tools.elided_constants import elided_constants_option, provide_elided_constants
from xlapy.tools.files import check_writable, read_bytes, write_file
from xlapy.tools.formats import (
    STABLEHLO_FORMATS,
    Format,
    format_of,
    format_of_name,
    read_module,
    read_operation,
    write_module,
    write_operation,
)

_FORMATS = click.Choice([form.value for form in Format])


@click.command()
@click.argument("source", metavar="IN", type=click.Path(dir_okay=False, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--from", "from_", type=_FORMATS, help="Format of IN; by default detected from name and contents.")
@click.option("--to", type=_FORMATS, help="Format of OUT; by default detected from its name.")
@click.option(
    "--argument-shape",
    "shapes",
    multiple=True,
    metavar="SHAPE",
    help="Shape of an argument, in order, such as 'f32[2,3]', for StableHLO with dynamic shapes.",
)
@elided_constants_option
def convert(
    source: str, target: str, from_: str | None, to: str | None, shapes: tuple[str, ...], elided_constants: str
) -> None:
    """Convert the program IN to OUT. The name of OUT selects the format; - is standard input or output.

    HLO text (.hlo, .txt), HloModuleProto (.pb), HloProto (.hlo.pb), protobuf text (.pbtxt), StableHLO as MLIR text
    (.mlir) or as a portable artifact (.mlirbc). Conversions between the two forms of StableHLO are direct; all others
    go through HLO. Only StableHLO cannot leave out the elements of constants.
    """
    wanted = format_of_name(target) if to is None else Format(to)
    if wanted is None:
        raise click.UsageError(f"the name {target} tells no format: give --to, or one of the known endings")
    if target != "-":
        check_writable(target)
    data = read_bytes(source)
    given = format_of(source, data) if from_ is None else Format(from_)
    written = _converted("<stdin>" if source == "-" else source, data, given, wanted, shapes, elided_constants)
    if target == "-":
        click.echo(written, nl=False)
    else:
        write_file(target, lambda sink: sink.write(written))


def _converted(
    name: str, data: bytes, given: Format, wanted: Format, shapes: tuple[str, ...], elided_constants: str
) -> bytes:
    """Converts between the two forms of StableHLO directly, and everything else through HLO."""
    if not shapes and {given, wanted} <= STABLEHLO_FORMATS:
        return write_operation(read_operation(name, data, given), wanted)
    module = read_module(name, data, given, argument_shapes=[Shape.parse(text) for text in shapes] or None)
    if wanted in STABLEHLO_FORMATS:
        provide_elided_constants(module, elided_constants)
    return write_module(module, wanted)

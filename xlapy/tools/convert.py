"""`xlapy convert`: a program in another format.

Owns: the command. Must not know: any format.
"""

from __future__ import annotations

import click

from xlapy.base.shape import Shape
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
@click.option("--from", "from_", type=_FORMATS, help="The format of IN; by default its name or its content tells.")
@click.option("--to", type=_FORMATS, help="The format of OUT; by default its name tells.")
@click.option(
    "--argument-shape",
    "shapes",
    multiple=True,
    metavar="SHAPE",
    help="The shape of an argument, in order, such as 'f32[2,3]': for StableHLO that leaves sizes open.",
)
def convert(source: str, target: str, from_: str | None, to: str | None, shapes: tuple[str, ...]) -> None:
    """Write the program IN to OUT, in the format of its name; - is standard input or output.

    HLO text (.hlo, .txt), HloModuleProto (.pb), HloProto (.hlo.pb), either as text (.pbtxt), StableHLO as MLIR text
    (.mlir) and as a portable artifact (.mlirbc). Between the last two a program is only rewritten; otherwise it goes
    through HLO.
    """
    wanted = format_of_name(target) if to is None else Format(to)
    if wanted is None:
        raise click.UsageError(f"the name {target} tells no format: give --to, or one of the known endings")
    if target != "-":
        check_writable(target)
    data = read_bytes(source)
    given = format_of(source, data) if from_ is None else Format(from_)
    written = _converted("<stdin>" if source == "-" else source, data, given, wanted, shapes)
    if target == "-":
        click.echo(written, nl=False)
    else:
        write_file(target, lambda sink: sink.write(written))


def _converted(name: str, data: bytes, given: Format, wanted: Format, shapes: tuple[str, ...]) -> bytes:
    """Between the two forms of StableHLO a program stays what it is; otherwise it goes through HLO."""
    if not shapes and {given, wanted} <= STABLEHLO_FORMATS:
        return write_operation(read_operation(name, data, given), wanted)
    module = read_module(name, data, given, argument_shapes=[Shape.parse(text) for text in shapes] or None)
    return write_module(module, wanted)

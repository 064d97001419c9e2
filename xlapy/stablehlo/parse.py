"""Entry point: parses a StableHLO program, as text or bytecode, into an HLO module."""

from __future__ import annotations

from xlapy.base.arguments.checking import eager_arguments
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.stablehlo.bytecode import read_bytecode
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.importing.core.module_importer import ArgumentShapes
from xlapy.stablehlo.recognition import is_bytecode
from xlapy.stablehlo.text import parse_text


@eager_arguments
def parse_stablehlo(
    source: str | bytes,
    argument_shapes: ArgumentShapes | None = None,
    *,
    filename: str | None = None,
    verify: bool = True,
) -> Module:
    """Returns the HLO module of a StableHLO program.

    The function `@main` becomes the entry computation. Several results are returned as a tuple.

    source: MLIR text, or MLIR bytecode of a portable artifact or of the StableHLO dialect itself.
    argument_shapes: the shapes of arguments, in order or by number in a mapping, where the program declares sizes as
    `?`; the shapes of all other values follow from them. filename: the name of the source in error messages.
    verify: whether to verify the module; `Client.compile` verifies it anyway.

    Raises `ParseError` with line, column and a caret for text that is not valid StableHLO, `BytecodeError` for damaged
    bytecode, `VerificationError` for bytecode of a program that breaks a rule, and `UnsupportedError` for a program
    that HLO cannot express, for example because a size stays unknown.

    >>> text = "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    >>> xla.parse_stablehlo(text).entry_computation.program_shape
    ProgramShape.parse('(x: f32[3]{0}) -> f32[3]{0}')
    >>> xla.parse_stablehlo(text.replace("3x", "?x"), [xla.Shape.parse("f32[5]")]).entry_computation.program_shape
    ProgramShape.parse('(x: f32[5]{0}) -> f32[5]{0}')
    """
    if isinstance(source, str):
        return import_program(
            parse_text(source, filename), argument_shapes, text=source, filename=filename, verify=verify
        )
    data = bytes(source)
    if is_bytecode(data):
        return import_program(read_bytecode(data), argument_shapes, filename=filename, verify=verify)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            codes.SOURCE_FORMAT,
            f"{filename or 'the program'} is neither MLIR bytecode nor text: byte {error.start} is not UTF-8",
        ) from error
    return parse_stablehlo(text, argument_shapes, filename=filename)

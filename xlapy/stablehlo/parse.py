"""StableHLO, text or bytecode, as a module of HLO.

Owns: `parse_stablehlo`. Must not know: either's grammar, operations.
"""

from __future__ import annotations

from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.stablehlo.bytecode import read_bytecode
from xlapy.stablehlo.importing import import_program
from xlapy.stablehlo.importing.core.module_importer import ArgumentShapes
from xlapy.stablehlo.recognition import is_bytecode
from xlapy.stablehlo.text import read_text


def parse_stablehlo(
    source: str | bytes,
    argument_shapes: ArgumentShapes | None = None,
    *,
    filename: str | None = None,
    verify: bool = True,
) -> Module:
    """The HLO module of a StableHLO program: MLIR text, or bytecode of a portable artifact or of StableHLO itself.

    The function `@main` is the entry; several results make a tuple. argument_shapes: the shapes of arguments (in order,
    or by number in a mapping) where the program declares sizes `?`; what follows from them is worked out.
    filename: what messages call the text. verify: whether the module is verified, as `Client.compile` does anyway.
    Raises `ParseError` with line, column and a caret for text that is no StableHLO, `BytecodeError` for damaged
    bytecode, `VerificationError` for bytecode of a program that breaks a rule, `UnsupportedError` for what has no form
    in HLO: sizes that stay unknown among it.
    """
    if isinstance(source, str):
        return import_program(
            read_text(source, filename), argument_shapes, text=source, filename=filename, verify=verify
        )
    data = bytes(source)
    if is_bytecode(data):
        return import_program(read_bytecode(data), argument_shapes, filename=filename, verify=verify)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{filename or 'the program'} is neither MLIR bytecode nor text: byte {error.start} is not UTF-8"
        ) from error
    return parse_stablehlo(text, argument_shapes, filename=filename)

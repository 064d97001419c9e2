"""Entry point of the import: converts a parsed StableHLO program to an HLO module."""

from __future__ import annotations

from xlapy.hlo.module import Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.failure import ImportFailure
from xlapy.stablehlo.importing.core.module_importer import ArgumentShapes, ModuleImporter


def import_program(
    root: ir.Operation,
    argument_shapes: ArgumentShapes | None = None,
    *,
    text: str | None = None,
    filename: str | None = None,
    verify: bool = True,
) -> Module:
    """Returns the HLO module of a `builtin.module` operation. The function `@main` becomes the entry computation.

    A function with several results returns a tuple; a function with one result returns it as it is.

    Args:
        root: the `builtin.module` operation, as `parse_text` or `read_bytecode` returns it.
        argument_shapes: the shapes of arguments by number, needed where the program declares sizes as `?`. The shapes
            of results follow from them.
        text: the source text that `root` was read from, quoted in error messages.
        filename: the name of the source in error messages.
        verify: whether to verify the module. Callers that verify it later pass False.

    Raises `ParseError` (if `text` is given) or `VerificationError` for a program that breaks a rule of StableHLO, and
    `UnsupportedError` for a program that HLO cannot express, for example because a size stays unknown.
    """
    try:
        return ModuleImporter(root).build(argument_shapes, verify)
    except ImportFailure as failure:
        raise failure.to_public_error(text, filename) from failure.error

"""The exception of a failed import, and its conversion to a public error with the position in the source text."""

from __future__ import annotations

from xlapy.base.errors import ParseError, UnsupportedError, VerificationError, XlaError
from xlapy.stablehlo import ir


class ImportFailure(Exception):
    """An operation could not be imported. `error` is the reason, without the position.

    Internal to this package: `import_program` converts it with `to_public_error`.
    """

    def __init__(self, operation: ir.Operation, error: XlaError) -> None:
        super().__init__(str(error))
        self.operation = operation
        self.error = error

    def to_public_error(self, text: str | None, filename: str | None) -> XlaError:
        """Returns the public error, which names the operation and its position.

        It is an `UnsupportedError` if the program is legal but HLO cannot express it, else a `ParseError` that quotes
        the line with a caret, or a `VerificationError` if the program was not read from text.
        """
        operation = self.operation
        code, message = self.error.code, f"{operation.name}: {self.error.message}"
        if isinstance(self.error, UnsupportedError):
            return UnsupportedError(code, f"{_position_prefix(operation, filename)}{message}")
        if text is None or not operation.text_line:
            return VerificationError(code, f"{_position_prefix(operation, filename)}{message}")
        lines = text.split("\n", operation.text_line)
        line = lines[operation.text_line - 1] if len(lines) >= operation.text_line else ""
        offset = sum(len(before) + 1 for before in lines[: operation.text_line - 1]) + operation.text_column - 1
        return ParseError(
            code,
            message,
            offset=offset,
            line=operation.text_line,
            column=max(operation.text_column, 1),
            source_line=line.rstrip("\r"),
            filename=filename,
        )


def _position_prefix(operation: ir.Operation, filename: str | None) -> str:
    """Returns `file:line:column: ` for an operation read from text, else what its location tells, or ""."""
    if operation.text_line:
        return f"{filename or '<text>'}:{operation.text_line}:{operation.text_column}: "
    location = operation.location
    if location.names:
        return f"{'/'.join(location.names)}: "
    return f"{location.file}:{location.line}: " if location.file else ""

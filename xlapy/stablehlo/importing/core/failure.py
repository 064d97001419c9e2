"""How an import fails: at an operation, for a reason, told with its place in the text.

Owns: the error that leaves the importer. Must not know: why things fail.
"""

from __future__ import annotations

from xlapy.base.errors import ParseError, UnsupportedError, VerificationError, XlaError
from xlapy.stablehlo import ir


class ImportFailure(Exception):
    """An operation could not be imported; `error` is the bare reason. Never leaves this package."""

    def __init__(self, operation: ir.Operation, error: XlaError) -> None:
        super().__init__(str(error))
        self.operation = operation
        self.error = error

    def as_error(self, text: str | None, filename: str | None) -> XlaError:
        """The public error: `UnsupportedError` for what is legal but has no form in HLO, else `ParseError` with the
        line and a caret, or `VerificationError` if the program was no text."""
        operation = self.operation
        message = f"{operation.name}: {self.error}"
        if isinstance(self.error, UnsupportedError):
            return UnsupportedError(f"{_place(operation, filename)}{message}")
        if text is None or not operation.text_line:
            return VerificationError(f"{_place(operation, filename)}{message}")
        lines = text.split("\n", operation.text_line)
        line = lines[operation.text_line - 1] if len(lines) >= operation.text_line else ""
        offset = sum(len(before) + 1 for before in lines[: operation.text_line - 1]) + operation.text_column - 1
        return ParseError(
            message,
            offset=offset,
            line=operation.text_line,
            column=max(operation.text_column, 1),
            source_line=line.rstrip("\r"),
            filename=filename,
        )


def _place(operation: ir.Operation, filename: str | None) -> str:
    if operation.text_line:
        return f"{filename or '<text>'}:{operation.text_line}:{operation.text_column}: "
    location = operation.location
    if location.names:
        return f"{'/'.join(location.names)}: "
    return f"{location.file}:{location.line}: " if location.file else ""

"""The exceptions xlapy raises, and how a parse error points at its place in a text.

Owns the classes and the caret picture; knows no types, shapes or instructions.
"""

from __future__ import annotations

_WINDOW = 160  # longest piece of a source line shown in a message, in columns
_LONGEST = 2000  # characters of a message; what names a hostile text can hold do not fit on a screen


class XlaError(Exception):
    """Base of every error raised for a user's program, data or options. Very long messages lose their middle."""

    def __init__(self, message: str = "") -> None:
        super().__init__(_shortened(message))


class ShapeError(XlaError):
    """A shape cannot exist, or shape inference found operands that do not fit together."""


class VerificationError(XlaError):
    """A module breaks an invariant of HLO (graph structure, declared shapes, schedules, aliasing)."""


class PassError(XlaError):
    """A pass left a module that is not sound, misreported whether it changed it, or never came to an end."""


class BuilderError(XlaError):
    """A builder call is not allowed (foreign operands, missing root, parameters with gaps)."""


class InvalidArgumentError(XlaError):
    """A value handed to the public interface has the wrong type, range or shape."""


class ExecutionError(XlaError):
    """A program failed while running (time-out, failed custom call, cancelled collective)."""


class UnsupportedError(XlaError):
    """A legal request that the chosen backend or format cannot serve."""


class ProtoError(XlaError):
    """Bytes or messages of protocol buffers that hold no module (or what else was asked for)."""


class BytecodeError(XlaError):
    """Bytes that are not the MLIR bytecode of a program; the message tells at which byte."""


class ParseError(XlaError):
    """Text that is not what the grammar asks for.

    `message` is the bare reason; `offset` counts characters from the start of the text, `line` and `column`
    are 1-based, `source_line` is the whole offending line and `filename` its origin, if known.
    `str()` gives `file:line:column: message`, the line and a caret under the column.
    """

    def __init__(
        self,
        message: str,
        *,
        offset: int = 0,
        line: int = 1,
        column: int = 1,
        source_line: str = "",
        filename: str | None = None,
    ) -> None:
        message = _shortened(message)
        self.message = message
        self.offset = offset
        self.line = line
        self.column = column
        self.source_line = source_line
        self.filename = filename
        place = f"{filename or '<text>'}:{line}:{column}"
        super().__init__(f"{place}: {message}\n{_picture(source_line, column)}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_parse_error, (
            self.message,
            self.offset,
            self.line,
            self.column,
            self.source_line,
            self.filename,
        )

    @classmethod
    def at(cls, text: str, offset: int, message: str, filename: str | None = None) -> ParseError:
        """The error for character `offset` of `text` (clamped to the text; its end is a legal place)."""
        offset = min(max(offset, 0), len(text))
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        source_line = text[start : len(text) if end < 0 else end].rstrip("\r")
        return cls(
            message,
            offset=offset,
            line=text.count("\n", 0, offset) + 1,
            column=offset - start + 1,
            source_line=source_line,
            filename=filename,
        )


def _shortened(message: str) -> str:
    if len(message) <= _LONGEST:
        return message
    half = _LONGEST // 2
    return f"{message[:half]} ... [{len(message) - 2 * half} characters left out] ... {message[-half:]}"


def _restore_parse_error(
    message: str, offset: int, line: int, column: int, source_line: str, filename: str | None
) -> ParseError:
    return ParseError(message, offset=offset, line=line, column=column, source_line=source_line, filename=filename)


def _picture(source_line: str, column: int) -> str:
    """The source line, cut to a window around `column` when long, and a caret below it."""
    if len(source_line) <= _WINDOW:
        shown, caret = source_line, column - 1
    else:
        start = min(max(column - 1 - _WINDOW // 2, 0), len(source_line) - _WINDOW)
        end = start + _WINDOW
        before = "..." if start else ""
        after = "..." if end < len(source_line) else ""
        shown = before + source_line[start:end] + after
        caret = column - 1 - start + len(before)
    # Tabs stay tabs under the line, so that the caret lands in the same place on any terminal.
    indent = "".join("\t" if character == "\t" else " " for character in shown[:caret])
    return f"  {shown}\n  {indent.ljust(caret)}^"

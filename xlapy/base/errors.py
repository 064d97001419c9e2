"""The exceptions that xlapy raises.

Responsible for the classes and for the source excerpt with a caret in a parse error. Does not depend on element types,
shapes or instructions.
"""

from __future__ import annotations

import traceback

from xlapy.base.error_codes.code import ErrorCode, split_code

_MAX_EXCERPT_COLUMNS = 160
"""Longest excerpt of a source line in a message."""
_MAX_MESSAGE_CHARACTERS = 2000
"""Longest message. Names in a hostile text can have millions of characters."""


class XlaError(Exception):
    """Base class of all errors in a user's program, data or options.

    code: the code of the rule that is violated, such as "E1203"; `xlapy explain-error E1203` describes it. message:
    what violates the rule; the middle of a very long message is cut out. `str()` gives `message [E1203]`.
    """

    code: ErrorCode
    message: str

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        self.message = _truncated(message.removesuffix(f" [{code}]"))
        super().__init__(f"{self.message} [{code}]")

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        if kind.__init__ is XlaError.__init__:
            return kind, (self.code, self.message)
        return _restore_error, (kind, self.args), self.__dict__


class ShapeError(XlaError):
    """A shape is not possible, or shape inference found operands whose shapes do not match."""


class VerificationError(XlaError):
    """A module violates an invariant of HLO (graph structure, declared shapes, schedules, aliasing)."""


class PassError(XlaError):
    """A pass left an invalid module, reported wrongly whether it changed the module, or did not terminate."""


class BuilderError(XlaError):
    """A builder call is not allowed (foreign operands, missing root, parameters with gaps)."""


class InvalidArgumentError(XlaError):
    """An argument of the public interface has the wrong type, range or shape."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of the public interface has the wrong Python type; the message names it and what it takes."""


class BuilderTypeError(BuilderError, ArgumentTypeError):
    """An argument of a builder function has the wrong Python type."""


class IndexRangeError(InvalidArgumentError, IndexError):
    """An index is out of range, or is not an index."""


class UnknownAttributeError(InvalidArgumentError, AttributeError):
    """An instruction has no attribute of this name, or attributes of another class."""


class UnknownNameError(InvalidArgumentError, KeyError):
    """There is no computation, instruction or attribute of the name that was asked for."""

    __str__ = Exception.__str__  # KeyError shows the quoted message


class ExecutionError(XlaError):
    """A program failed while running (time-out, failed custom call, canceled collective)."""


class FailedTargetError(ExecutionError):
    """Raised by a target of a custom call that has a code of its own; the error of the call has the same code."""


class UnsupportedError(XlaError):
    """A valid request that the chosen backend or format does not support."""


class ProtoError(XlaError):
    """Bytes or messages of protocol buffers do not encode a module, or whatever else was requested."""


class BytecodeError(XlaError):
    """Bytes are not the MLIR bytecode of a program; the message gives the offset of the first wrong byte."""


class ParseError(XlaError):
    """Text does not match the grammar.

    message: the reason alone. offset: characters from the start of the text. line, column: the position, both counted
    from 1. source_line: the whole line. filename: the file of the text, if known. `str()` gives
    `file:line:column: message [code]`, the line, and a caret under the column.

    >>> try:
    ...     xla.parse_hlo("ENTRY e { ROOT x = f32[] paramter(0) }")
    ... except xla.errors.ParseError as error:
    ...     print(error.line, error.column, error.message)
    1 26 ...unknown operation 'paramter'; did you mean parameter?
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        offset: int = 0,
        line: int = 1,
        column: int = 1,
        source_line: str = "",
        filename: str | None = None,
    ) -> None:
        super().__init__(code, message)
        self.offset = offset
        self.line = line
        self.column = column
        self.source_line = source_line
        self.filename = filename
        position = f"{filename or '<text>'}:{line}:{column}"
        self.args = (f"{position}: {self.message} [{code}]\n{_excerpt(source_line, column)}",)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_parse_error, (
            self.code,
            self.message,
            self.offset,
            self.line,
            self.column,
            self.source_line,
            self.filename,
        )

    @classmethod
    def at(
        cls,
        text: str,
        offset: int,
        code: ErrorCode,
        message: str,
        filename: str | None = None,
    ) -> ParseError:
        """The error at character `offset` of `text`; an offset outside the text is moved to its start or end."""
        offset = min(max(offset, 0), len(text))
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        source_line = text[start : len(text) if end < 0 else end].rstrip("\r")
        return cls(
            code,
            message,
            offset=offset,
            line=text.count("\n", 0, offset) + 1,
            column=offset - start + 1,
            source_line=source_line,
            filename=filename,
        )


def code_and_message(error: Exception, default: ErrorCode) -> tuple[ErrorCode, str]:
    """Returns the code and the message of an error, for a wrapper that names where it arose.

    An error of Python or of a library has the code `default`. A ParseError gives its position as well.
    """
    return (error.code if isinstance(error, XlaError) else default), message_of(error)


def message_of(error: BaseException) -> str:
    """Returns the message of an error without its code, for the message of another error, which has its own code.

    A ParseError gives its position as well. An error whose text cannot be made, because its `__str__` fails, says so.
    """
    if isinstance(error, ParseError):
        return f"line {error.line}, column {error.column}: {error.message}"
    if isinstance(error, XlaError):
        return error.message
    try:
        return str(error)
    except Exception as failure:
        return f"its text cannot be made: __str__ raised {type(failure).__name__}"


def traceback_of(error: BaseException) -> str:
    """Returns the traceback of an error, which ends with its message without the code; see `message_of`."""
    return split_code("".join(traceback.format_exception(error)).rstrip())[0]


def _truncated(message: str) -> str:
    """The message without its middle if it is longer than the limit."""
    if len(message) <= _MAX_MESSAGE_CHARACTERS:
        return message
    half = _MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} ... [{len(message) - 2 * half} characters left out] ... {message[-half:]}"


def _restore_error(kind: type[XlaError], args: tuple[object, ...]) -> XlaError:
    """Makes an error of a class whose `__init__` takes other arguments than a code and a message."""
    error: XlaError = kind.__new__(kind)
    error.args = args
    return error


def _restore_parse_error(
    code: ErrorCode, message: str, offset: int, line: int, column: int, source_line: str, filename: str | None
) -> ParseError:
    return ParseError(
        code, message, offset=offset, line=line, column=column, source_line=source_line, filename=filename
    )


def _excerpt(source_line: str, column: int) -> str:
    """The source line, or an excerpt around `column` if it is long, and a caret below the column."""
    if len(source_line) <= _MAX_EXCERPT_COLUMNS:
        shown, caret = source_line, min(column - 1, len(source_line))  # carriage returns at the end are not shown
    else:
        start = min(max(column - 1 - _MAX_EXCERPT_COLUMNS // 2, 0), len(source_line) - _MAX_EXCERPT_COLUMNS)
        end = start + _MAX_EXCERPT_COLUMNS
        before = "..." if start else ""
        after = "..." if end < len(source_line) else ""
        shown = before + source_line[start:end] + after
        caret = column - 1 - start + len(before)
    # Tabs are repeated below the line, so that the caret is under its column whatever the width of a tab.
    indent = "".join("\t" if character == "\t" else " " for character in shown[:caret])
    return f"  {shown}\n  {indent.ljust(caret)}^"

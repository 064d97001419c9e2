"""The reference implementation of the differential tests: jaxlib's HLO parser, printer and XLA:CPU.

Tests use jaxlib's HLO code only through this module, which does not depend on xlapy's HLO code, so that both sides of a
comparison stay independent. jaxlib is pinned in the `test` extra because the tests record the behavior of one version.
`xlapy/testing/xla_cpu.py` documents how programs run, and which do not.

The parser can crash the process on malformed text (unknown axes of a mesh, broken `original_value` ...): use
`accepts(text, isolated=True)` for text that was not written by hand or by a printer.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from jax._src.lib import hlo

from xlapy.testing.xla_cpu import CompiledHlo, Value, XlaCpuError, compile_hlo, dtype_of, parse, run_hlo, to_proto

__all__ = [
    "CompiledHlo",
    "XlaCpuError",
    "Value",
    "accepts",
    "compile_hlo",
    "dtype_of",
    "parse",
    "parse_and_print",
    "print_options",
    "print_proto",
    "run_hlo",
    "to_proto",
]


def print_options(*, short: bool = False, canonical: bool = False, fingerprint: bool = False, **fields: Any) -> Any:
    """Builds HloPrintOptions from one of the named presets or the default, and single fields such as
    `print_metadata=False`.
    """
    options = hlo.HloPrintOptions()
    if short:
        options = hlo.HloPrintOptions.short_parsable()
    elif canonical:
        options = hlo.HloPrintOptions.canonical()
    elif fingerprint:
        options = hlo.HloPrintOptions.fingerprint()
    for name, value in fields.items():
        if not hasattr(options, name):
            raise ValueError(f"jaxlib's HloPrintOptions has no field {name!r}")
        setattr(options, name, value)
    return options


def parse_and_print(text: str, **options: Any) -> str:
    """Returns the text that jaxlib prints for the module in `text`; `options` as in `print_options`."""
    return parse(text).to_string(print_options(**options))


def print_proto(data: bytes, **options: Any) -> str:
    """Returns the text that jaxlib prints for a serialized HloModuleProto. Raises XlaCpuError if jaxlib rejects the
    proto.
    """
    try:
        return hlo.HloModule.from_serialized_hlo_module_proto(data).to_string(print_options(**options))
    except Exception as error:
        raise XlaCpuError(str(error)) from error


def accepts(text: str, *, isolated: bool = False) -> bool:
    """Tells whether jaxlib's parser accepts `text`. `isolated` parses in a child process, where a crash counts as a
    rejection.
    """
    if isolated:
        return _Child.shared().accepts(text)
    try:
        parse(text)
    except XlaCpuError:
        return False
    return True


class _Child:
    """A process that parses on request, so that a crash of jaxlib's parser does not end the tests."""

    _shared: _Child | None = None

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @classmethod
    def shared(cls) -> _Child:
        if cls._shared is None or cls._shared._process.poll() is not None:
            cls._shared = cls()
        return cls._shared

    def accepts(self, text: str) -> bool:
        data = text.encode()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(b"%d\n" % len(data) + data)
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            self._process.wait()
            return False
        return answer == b"1\n"


def _serve() -> None:
    """The loop of the child process: reads a line with the length and then the text, writes a line `1` or `0`."""
    while header := sys.stdin.buffer.readline():
        text = sys.stdin.buffer.read(int(header)).decode()
        sys.stdout.buffer.write(b"1\n" if accepts(text) else b"0\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()

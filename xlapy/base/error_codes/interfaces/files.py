"""Flags, and the format of stored programs.

Codes E7900 to E7949.
"""

from xlapy.base.error_codes.code import ErrorCode

FLAG_NAME = ErrorCode(
    "E7900",
    "A flag that is set or read exists.",
    remedy="Correct the name; the message lists similar ones, or all.",
    python="import xlapy.base.flags\nxlapy.base.flags.get('memory_limits')",
)
FLAG_VALUE = ErrorCode(
    "E7901",
    "The value of a flag has the type of the flag.",
    remedy="Give `true` or `false`, a whole number, or text, as the message says.",
    python="from xlapy.base.flags import Flags\nFlags.from_environment({'XLAPY_FLAGS': '--num_threads=all'})",
)
FLAG_SYNTAX = ErrorCode(
    "E7902",
    "XLAPY_FLAGS is a list of words `--name=value`, separated by blanks and quoted as in a shell.",
    remedy="Write two dashes before each name, and close quotes.",
    python="from xlapy.base.flags import Flags\nFlags.from_environment({'XLAPY_FLAGS': 'num_threads=2'})",
)
MEMORY_SIZE = ErrorCode(
    "E7903",
    "A limit of memory is a number of bytes, or text with a number and a unit.",
    remedy="Write `12GB` or `800MiB`; a number without a unit in text counts MiB.",
    python="xla.Client('cpu').compile('ENTRY main { ROOT x = f32[] parameter(0) }', memory_limit='12 apples')",
)
STORED_KIND = ErrorCode(
    "E7910",
    "Stored data begins with the bytes of a container of xlapy, and holds what is asked for.",
    remedy="Check which file this is; `Executable.serialize` writes serialized programs.",
    python="from xlapy.base.container import unpack\nunpack('program', b'no program')",
)
STORED_DAMAGE = ErrorCode(
    "E7911",
    "Stored data is as it was written.",
    remedy="Copy or make the file again: it was cut, changed, or not written to its end.",
    python="from xlapy.base.container import pack, unpack\nunpack('program', pack('program', {}, [b'abc'])[:-1])",
)
STORED_VERSION = ErrorCode(
    "E7912",
    "Stored data has the format version that this version of xlapy reads.",
    remedy="Make the file again with this version.",
    python="""
        from unittest import mock
        from xlapy.base import container
        with mock.patch.object(container, "FORMAT_VERSION", 0):
            data = container.pack("program", {}, [])
        container.unpack("program", data)
    """,
)
STORED_RATIO = ErrorCode(
    "E7913",
    "Compressed data expands to at most 64 times its size.",
    remedy="Do not load data from a source that you do not trust; xlapy never writes such data.",
    python="import zlib\nfrom xlapy.base.container import expand\nexpand(zlib.compress(bytes(10**6)), 'the program')",
)

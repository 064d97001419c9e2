"""The `origin_recovery_table` of a module: which value stands in for a lost one, and the program that recovers it.

Owns: the table's text in the form in which XLA prints it. Must not know: how the programs are read and printed.

Worked example: `{"a"} : {"b"}, "HloModule m ..."` says that `a` is the result of the program `m` on `b`.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.base.hlo_cursor import HloCursor
from xlapy.text.annotations import read_original_array

Normalize = Callable[[str], str]
"""The text of a module -> its text as XLA prints it, indented by two levels."""


def read_recovery_table(reader: HloCursor, normalize: Normalize) -> str:
    """The braced text of the table, its rows sorted by the lost value, programs printed anew."""
    rows: dict[str, str] = {}
    reader.expect("{")
    while not reader.accept("}"):
        lost = read_original_array(reader)
        reader.expect(":")
        row = f"  {lost} : {read_original_array(reader)}"
        if reader.accept(","):
            program = normalize(reader.string()).replace("\\", "\\\\").replace('"', '\\"')
            row += f',\n  "\n{program}\n  "'
        rows.setdefault(lost, row)
    return f"{{\n{''.join(f'{rows[lost]}{chr(10)}' for lost in sorted(rows))}}}"

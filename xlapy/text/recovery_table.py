"""The `origin_recovery_table` of a module: how to recompute original values that passes removed.

Each row names a removed value, the value that replaces it, and optionally a module that computes the former from the
latter. Responsible for the text of the table as XLA prints it. Does not depend on how modules are read and printed.

Worked example: `{"a"} : {"b"}, "HloModule m ..."` says that `a` is the result of the module `m` on `b`.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.base.hlo_cursor import HloCursor
from xlapy.text.annotations import read_original_array

ReprintModule = Callable[[str], str]
"""Reads the text of a module and prints it as XLA does, indented by two levels."""


def read_recovery_table(cursor: HloCursor, reprint: ReprintModule) -> str:
    """Reads the table in braces; returns its canonical text: rows sorted by the removed value, modules reprinted."""
    rows: dict[str, str] = {}
    cursor.expect("{")
    while not cursor.accept("}"):
        removed = read_original_array(cursor)
        cursor.expect(":")
        row = f"  {removed} : {read_original_array(cursor)}"
        if cursor.accept(","):
            module_text = reprint(cursor.string()).replace("\\", "\\\\").replace('"', '\\"')
            row += f',\n  "\n{module_text}\n  "'
        rows.setdefault(removed, row)
    return f"{{\n{''.join(f'{rows[removed]}{chr(10)}' for removed in sorted(rows))}}}"

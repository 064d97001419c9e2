"""LLVM text with names for the words of records and of arguments.

    %data = get ptr buffer.data of %buffer          loads a field
    put ptr %data buffer.data of %buffer            stores one
    %lock = at buffer.lock of %buffer               its address

A structure is a kind of record (`buffer`) or the arguments of an entry (`Buffer_Delete`).

Owns: these three forms. Must not know: what the text does.
"""

from __future__ import annotations

import itertools
import re

from xlapy.pjrt.records import OFFSETS
from xlapy.pjrt.structs import structure

_FORM = re.compile(
    r"^ *(?:(?P<result>%[\w.]+) = )?(?P<verb>get|put|at) (?:(?P<type>\w+) )?(?:(?P<value>[%@]?[\w.]+) )?"
    r"(?P<kind>\w+)\.(?P<field>\w+) of (?P<base>[%@][\w.]+)$"
)


def expanded(text: str) -> str:
    """Plain LLVM text."""
    numbers = itertools.count()
    return "\n".join(_line(line, numbers) for line in text.splitlines())


def offset(kind: str, field: str) -> int:
    """Where a field lies in a record or in arguments, in bytes."""
    if kind in OFFSETS:
        return OFFSETS[kind][field]
    return int(getattr(structure(kind), field).offset)


def _line(line: str, numbers: itertools.count[int]) -> str:
    form = _FORM.match(line)
    if form is None:
        return line
    place = f"getelementptr inbounds i8, ptr {form['base']}, i64 {offset(form['kind'], form['field'])}"
    if form["verb"] == "at":
        return f"  {form['result']} = {place}"
    address = f"%at{next(numbers)}"
    if form["verb"] == "get":
        return f"  {address} = {place}\n  {form['result']} = load {form['type']}, ptr {address}, align 8"
    return f"  {address} = {place}\n  store {form['type']} {form['value']}, ptr {address}, align 8"

"""Macros of the LLVM text: field access by name, and counted loops.

    %data = get ptr buffer.data of %buffer          loads a field
    put ptr %data view_callback.data of %owner      stores a field
    %place = at view_callback.data of %owner        computes the address of a field
    %buffer = need Buffer_Delete.buffer of %args    loads a pointer; the function returns an error if it is null

The structure is a kind of record (`buffer`) or the arguments of an entry (`Buffer_Delete`). Of the engine's records,
the text may only load fields that do not change after publication. What threads share, it accesses through the engine's
native functions, which are checked.

    for %number below %count as row
      ...
    end row

counts a register up from 0. Inside the loop, `row.next` is the label of the next iteration and `row.end` that of the
code after the loop, where the register holds the number of completed iterations.

Responsible for these macros. Does not depend on what the text does.
"""

from __future__ import annotations

import itertools
import re

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.native.ir import NativeTypeError
from xlapy.native.records import Final
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.records import OFFSETS
from xlapy.runtime.engine.records import ENGINE_RECORDS

_FIELD_ACCESS = re.compile(
    r"^ *(?:(?P<result>%[\w.]+) = )?(?P<verb>get|put|at|need) (?:(?P<type>\w+) )?(?:(?P<value>[%@]?[\w.]+) )?"
    r"(?P<kind>\w+)\.(?P<field>\w+) of (?P<base>[%@][\w.]+)$"
)

_LOOP_START = re.compile(r"^ *for (?P<number>%[\w.]+) below (?P<count>[%\w.]+) as (?P<name>\w+)$")
_LOOP_END = re.compile(r"^ *end (?P<name>\w+)$")


def expand_macros(text: str) -> str:
    """Expands the macros of an LLVM text."""
    numbers = itertools.count()
    loops: dict[str, str] = {}
    messages: dict[str, str] = {}
    lines = [_expand_loop(line, loops) or _expand_field_access(line, numbers, messages) for line in text.splitlines()]
    lines += [f'@{name} = internal constant [{len(message)} x i8] c"{message}"' for name, message in messages.items()]
    return "\n".join(lines)


def offset(kind: str, field: str, verb: str = "get") -> int:
    """The offset of a field in a record or in the arguments of an entry, in bytes. `NativeTypeError` if the text must
    not access the field so."""
    record = ENGINE_RECORDS.get(kind)
    if record is not None and field in record.offsets():
        access = getattr(record, field)
        if verb != "get" or not isinstance(access, Final):
            raise NativeTypeError(
                f"`{verb} {kind}.{field}`: {record.__name__}.{field} is {type(access).__name__.lower()}; "
                f"text only loads final fields, native functions of the engine access the others"
            )
        return record.offsets()[field]
    if kind in OFFSETS:
        return OFFSETS[kind][field]
    return int(getattr(structure(kind), field).offset)


def _expand_loop(line: str, loops: dict[str, str]) -> str:
    """Expands the start or the end of a loop; empty for other lines. loops: the registers of open loops, by name."""
    if match := _LOOP_START.match(line):
        name, number = match["name"], match["number"]
        loops[name] = number
        return f"""  br label %{name}.from
{name}.from:
  br label %{name}.header
{name}.header:
  {number} = phi i64 [ 0, %{name}.from ], [ %{name}.following, %{name}.next ]
  %{name}.more = icmp ult i64 {number}, {match["count"]}
  br i1 %{name}.more, label %{name}.body, label %{name}.end
{name}.body:"""
    if match := _LOOP_END.match(line):
        name = match["name"]
        return f"""  br label %{name}.next
{name}.next:
  %{name}.following = add i64 {loops.pop(name)}, 1
  br label %{name}.header
{name}.end:"""
    return ""


_INVALID_ARGUMENT = 3
"""The code of the error for a null pointer."""


def _expand_field_access(line: str, numbers: itertools.count[int], messages: dict[str, str]) -> str:
    """Expands an access to a field; other lines are unchanged. messages: texts of errors, by the name of their
    constant."""
    match = _FIELD_ACCESS.match(line)
    if match is None:
        return line
    position = offset(match["kind"], match["field"], match["verb"])
    address_of_field = f"getelementptr inbounds i8, ptr {match['base']}, i64 {position}"
    if match["verb"] == "at":
        return f"  {match['result']} = {address_of_field}"
    address = f"%at{next(numbers)}"
    if match["verb"] == "need":
        name, place = match["result"][1:], f"{match['kind']}.{match['field']}"
        message = f"PJRT_{match['kind']}: {match['field']} is null [{codes.NULL_POINTER}]"
        messages[f"{place}.is_null"] = message
        return f"""  {address} = {address_of_field}
  %{name} = load ptr, ptr {address}, align 8
  %{name}.none = icmp eq ptr %{name}, null
  br i1 %{name}.none, label %{name}.missing, label %{name}.given
{name}.missing:
  %{name}.error = call ptr @make_error(i64 {_INVALID_ARGUMENT}, ptr @{place}.is_null, i64 {len(message)})
  ret ptr %{name}.error
{name}.given:"""
    if match["verb"] == "get":
        return f"  {address} = {address_of_field}\n  {match['result']} = load {match['type']}, ptr {address}, align 8"
    return f"  {address} = {address_of_field}\n  store {match['type']} {match['value']}, ptr {address}, align 8"

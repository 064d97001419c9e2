"""LLVM text with names for the words of records and of arguments.

    %data = get ptr buffer.data of %buffer          loads a field
    put ptr %data buffer.data of %buffer            stores one
    %lock = at buffer.lock of %buffer               its address
    %buffer = need Buffer_Delete.buffer of %args    loads a pointer; the function returns an error if it is null

A structure is a kind of record (`buffer`) or the arguments of an entry (`Buffer_Delete`).

    for %number below %count as row
      ...
    end row

counts a register from 0. Inside, `row.next` is the label of the next round and `row.end` that of what follows the loop,
where the register says how many rounds were done.

Owns: these forms. Must not know: what the text does.
"""

from __future__ import annotations

import itertools
import re

from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.records import OFFSETS

_FORM = re.compile(
    r"^ *(?:(?P<result>%[\w.]+) = )?(?P<verb>get|put|at|need) (?:(?P<type>\w+) )?(?:(?P<value>[%@]?[\w.]+) )?"
    r"(?P<kind>\w+)\.(?P<field>\w+) of (?P<base>[%@][\w.]+)$"
)

_FOR = re.compile(r"^ *for (?P<number>%[\w.]+) below (?P<count>[%\w.]+) as (?P<name>\w+)$")
_END = re.compile(r"^ *end (?P<name>\w+)$")


def expand_macros(text: str) -> str:
    """Plain LLVM text."""
    numbers = itertools.count()
    loops: dict[str, str] = {}
    return "\n".join(_loop(line, loops) or _line(line, numbers) for line in text.splitlines())


def offset(kind: str, field: str) -> int:
    """Where a field lies in a record or in arguments, in bytes."""
    if kind in OFFSETS:
        return OFFSETS[kind][field]
    return int(getattr(structure(kind), field).offset)


def _loop(line: str, loops: dict[str, str]) -> str:
    """The beginning or the end of a loop; empty for other lines. loops: the registers of those that have begun."""
    if form := _FOR.match(line):
        name, number = form["name"], form["number"]
        loops[name] = number
        return f"""  br label %{name}.from
{name}.from:
  br label %{name}.header
{name}.header:
  {number} = phi i64 [ 0, %{name}.from ], [ %{name}.following, %{name}.next ]
  %{name}.more = icmp ult i64 {number}, {form["count"]}
  br i1 %{name}.more, label %{name}.body, label %{name}.end
{name}.body:"""
    if form := _END.match(line):
        name = form["name"]
        return f"""  br label %{name}.next
{name}.next:
  %{name}.following = add i64 {loops.pop(name)}, 1
  br label %{name}.header
{name}.end:"""
    return ""


def _line(line: str, numbers: itertools.count[int]) -> str:
    form = _FORM.match(line)
    if form is None:
        return line
    place = f"getelementptr inbounds i8, ptr {form['base']}, i64 {offset(form['kind'], form['field'])}"
    if form["verb"] == "at":
        return f"  {form['result']} = {place}"
    address = f"%at{next(numbers)}"
    if form["verb"] == "need":
        name = form["result"][1:]
        return f"""  {address} = {place}
  %{name} = load ptr, ptr {address}, align 8
  %{name}.none = icmp eq ptr %{name}, null
  br i1 %{name}.none, label %{name}.missing, label %{name}.given
{name}.missing:
  %{name}.error = call ptr @null_handle_error()
  ret ptr %{name}.error
{name}.given:"""
    if form["verb"] == "get":
        return f"  {address} = {place}\n  {form['result']} = load {form['type']}, ptr {address}, align 8"
    return f"  {address} = {place}\n  store {form['type']} {form['value']}, ptr {address}, align 8"

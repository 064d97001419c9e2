"""Emits constants that differ from device to device as tables with one row per device.

Responsible for these tables and for finding a device's row. Does not depend on what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram


def table_text(name: str, rows: Sequence[Sequence[int]]) -> str:
    """Returns the definition of the constant table."""
    lines = ", ".join(f"[{len(row)} x i64] [{', '.join(f'i64 {n}' for n in row)}]" for row in rows)
    return f"@{name} = internal constant {_type(rows)} [{lines}]"


def _type(rows: Sequence[Sequence[int]]) -> str:
    return f"[{len(rows)} x [{len(rows[0])} x i64]]"


class Row:
    """Registers with a device's row of a table, and with the address of the memory that devices share."""

    def __init__(self, ir: IrBuilder, program: NativeProgram, name: str, rows: Sequence[Sequence[int]]) -> None:
        self.ir = ir
        self._name, self._table = name, _type(rows)
        self.shared = ir.assign(f"load ptr, ptr {self.entry(program.shared_index)}")
        self.device = ir.assign(f"load i64, ptr {self.entry(program.device_index)}")

    def entry(self, index: int) -> str:
        """Returns a register with the address of an entry of the address table."""
        return self.ir.assign(f"getelementptr inbounds ptr, ptr %table, i64 {index}")

    def number(self, position: int) -> str:
        place = f"ptr @{self._name}, i64 0, i64 {self.device}, i64 {position}"
        return self.ir.assign(f"load i64, ptr {self.ir.assign(f'getelementptr {self._table}, {place}')}")

    def address(self, base: str, offset: str) -> str:
        return self.ir.assign(f"getelementptr i8, ptr {base}, i64 {offset}")

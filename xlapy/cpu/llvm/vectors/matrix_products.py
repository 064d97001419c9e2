"""Emits the function that multiplies packed matrices of narrow numbers by the tile instructions of x86-64 (AMX).

    void @xlapy_matrix_product_NAME(ptr %left, i64 %left_pitch, ptr %right, i64 %right_pitch,
                                    ptr %sums, i64 %sums_pitch, i64 %row_tiles, i64 %column_tiles,
                                    i64 %steps, i1 %accumulates)

NAME is that of a dot instruction (`loops.dot_instructions`). A tile register holds 16 rows of 64 bytes. Pitches are in
bytes. A step multiplies 16 groups of terms: a tile of the left operand has 16 rows by 16 groups, one of the right
operand 16 groups by 16 columns. Blocks of up to 2 x 2 tiles of sums stay in registers during all steps:

    registers   0 1 2 3 sums, row by row     4 5 left     6 7 right

Responsible for the order of tiles. Does not depend on what the matrices mean.
"""

from __future__ import annotations

from typing import Final

from xlapy.cpu.llvm.processor import Processor
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.loops.dot_instructions import (
    BF16_PAIRS,
    S8_QUADS,
    S8_U8_QUADS,
    TILE_SIDE,
    U8_QUADS,
    U8_S8_QUADS,
    DotInstruction,
)

_INTRINSICS: Final = {
    BF16_PAIRS: "tdpbf16ps",
    S8_QUADS: "tdpbssd",
    S8_U8_QUADS: "tdpbsud",
    U8_S8_QUADS: "tdpbusd",
    U8_QUADS: "tdpbuud",
}

_TILE_BYTES: Final = 64
"""The bytes of a row of a tile."""

_ROWS: Final = TILE_SIDE
"""The rows of a tile."""

_SUMS, _LEFT, _RIGHT = 0, 4, 6
"""The first register of each kind."""

TILED: Final = {instruction.name: instruction for instruction in _INTRINSICS}
"""The dot instructions of tiles, by name."""


def matrix_product_name(instruction: DotInstruction) -> str:
    """Returns the name of the function for a dot instruction."""
    return f"xlapy_matrix_product_{instruction.name}"


def matrix_product_declaration(name: str) -> str:
    return f"declare void @{name}(ptr, i64, ptr, i64, ptr, i64, i64, i64, i64, i1)"


def tile_instructions(processor: Processor) -> frozenset[DotInstruction]:
    """Returns the dot instructions that a processor has for tiles."""
    if "amx-tile" not in processor.features:
        return frozenset()
    found = [i for i in _INTRINSICS if ("amx-bf16" if i.sum.is_float else "amx-int8") in processor.features]
    return frozenset(found)


_PARAMETERS: Final = "ptr %left, i64 %left_pitch, ptr %right, i64 %right_pitch, ptr %sums, i64 %sums_pitch"


def emit_matrix_product(instruction: DotInstruction) -> tuple[str, set[str]]:
    """Returns the text of the function for a dot instruction and of those that it calls, and their declarations."""
    blocks = [_Block(instruction, rows, columns) for rows in (1, 2) for columns in (1, 2)]
    declarations = {declaration for block in blocks for declaration in block.ir.declarations}
    declarations |= {"declare void @llvm.x86.ldtilecfg(ptr)", "declare void @llvm.x86.tilerelease()"}
    texts = [_configuration(), *(block.text() for block in blocks), _product_text(matrix_product_name(instruction))]
    return "\n".join(texts), declarations


def _configuration() -> str:
    """The configuration of all eight tile registers: palette 1, rows of 64 bytes, 16 rows."""
    row_bytes, rows = [_TILE_BYTES, 0] * 8 + [0] * 16, [_ROWS] * 8 + [0] * 8
    values = ", ".join(f"i8 {byte}" for byte in [1, *[0] * 15, *row_bytes, *rows])
    return f"@tiles = internal constant [64 x i8] [{values}], align 64\n"


def _product_text(name: str) -> str:
    """The exported function: two rows of tiles at once, and then an odd one."""
    head = f"define void @{name}({_PARAMETERS}, i64 %row_tiles, i64 %column_tiles, i64 %steps, i1 %accumulates) #0 {{"

    def calls(rows: int, prefix: str, row: str, after: str) -> list[str]:
        """Multiplies the tiles of some rows."""
        given = f"ptr %{prefix}left, i64 %left_pitch, ptr %right, i64 %right_pitch, ptr %{prefix}sums, i64 %sums_pitch"
        given += ", i64 %steps, i1 %accumulates"
        lines = [
            f"%{prefix}first = mul i64 {row}, {_ROWS}",
            f"%{prefix}left.offset = mul i64 %{prefix}first, %left_pitch",
            f"%{prefix}sums.offset = mul i64 %{prefix}first, %sums_pitch",
            f"%{prefix}left = getelementptr i8, ptr %left, i64 %{prefix}left.offset",
            f"%{prefix}sums = getelementptr i8, ptr %sums, i64 %{prefix}sums.offset",
            f"br i1 %is_wide, label %{prefix}wide, label %{prefix}narrow",
        ]
        for label, columns in (("wide", 2), ("narrow", 1)):
            call = f"call void @{_block_name(rows, columns)}({given})"
            lines += [f"{prefix}{label}:", call, f"br label %{after}"]
        return lines

    lines = [
        "entry:",
        "call void @llvm.x86.ldtilecfg(ptr @tiles)",
        "%is_wide = icmp eq i64 %column_tiles, 2",
        "%even = and i64 %row_tiles, -2",
        "%has_pairs = icmp ne i64 %even, 0",
        "br i1 %has_pairs, label %pairs, label %rest",
        "pairs:",
        "%row = phi i64 [ 0, %entry ], [ %next, %following ]",
        *calls(2, "two.", "%row", "following"),
        "following:",
        "%next = add nuw nsw i64 %row, 2",
        "%is_inside = icmp ult i64 %next, %even",
        "br i1 %is_inside, label %pairs, label %rest",
        "rest:",
        "%is_odd = icmp ne i64 %even, %row_tiles",
        "br i1 %is_odd, label %odd, label %done",
        "odd:",
        *calls(1, "one.", "%even", "done"),
        "done:",
        "call void @llvm.x86.tilerelease()",
        "ret void",
    ]
    return "\n".join([head, *(line if line.endswith(":") else f"  {line}" for line in lines), "}\n"])


def _block_name(rows: int, columns: int) -> str:
    return f"block_{rows}_{columns}"


class _Block:
    """The function that multiplies a block of tiles of sums, all steps."""

    def __init__(self, instruction: DotInstruction, rows: int, columns: int) -> None:
        self.ir = IrBuilder()
        self.intrinsic = _INTRINSICS[instruction]
        self.rows, self.columns = range(rows), range(columns)

    def text(self) -> str:
        ir = self.ir
        sums = [(_SUMS + 2 * row + column, row, column) for row in self.rows for column in self.columns]
        ir.cond_br("%accumulates", "load", "clear")
        ir.start_block("load")
        for register, row, column in sums:
            self.tile("tileloadd64", register, self.address("%sums", "%sums_pitch", row, column), "%sums_pitch")
        ir.br("begin")
        ir.start_block("clear")
        for register, _, _ in sums:
            self.tile("tilezero", register)
        ir.br("begin")
        ir.start_block("begin")
        ir.br("step")
        ir.start_block("step")
        number, number_line = ir.phi("i64", "0", "begin")
        left, left_line = ir.phi("ptr", "%left", "begin")
        right, right_line = ir.phi("ptr", "%right", "begin")
        for row in self.rows:
            self.tile("tileloadd64", _LEFT + row, self.address(left, "%left_pitch", row, 0), "%left_pitch")
        for column in self.columns:
            place = self.address(right, "%right_pitch", 0, column)
            self.tile("tileloadd64", _RIGHT + column, place, "%right_pitch")
        for register, row, column in sums:
            self.tile(self.intrinsic, register, _LEFT + row, _RIGHT + column)
        following = ir.assign(f"add nuw nsw i64 {number}, 1")
        ir.add_incoming(number_line, following, "step")
        ir.add_incoming(left_line, self.address(left, "%left_pitch", 0, 1), "step")
        ir.add_incoming(right_line, self.address(right, "%right_pitch", 1, 0), "step")
        ir.cond_br(ir.assign(f"icmp ult i64 {following}, %steps"), "step", "end")
        ir.start_block("end")
        for register, row, column in sums:
            self.tile("tilestored64", register, self.address("%sums", "%sums_pitch", row, column), "%sums_pitch")
        ir.emit("ret void")
        name = _block_name(len(self.rows), len(self.columns))
        head = f"define internal void @{name}({_PARAMETERS}, i64 %steps, i1 %accumulates) #0 {{\nentry:\n"
        return head + "\n".join(ir.lines) + "\n}\n"

    def address(self, base: str, pitch: str, row: int, column: int) -> str:
        """The address of a tile, given that of the first one."""
        place = self.ir.assign(f"getelementptr i8, ptr {base}, i64 {_TILE_BYTES * column}") if column else base
        if not row:
            return place
        return self.ir.assign(f"getelementptr i8, ptr {place}, i64 {self.ir.assign(f'mul i64 {pitch}, {_ROWS * row}')}")

    def tile(self, name: str, *operands: int | str) -> None:
        """Emits a tile instruction. operands: numbers of tile registers, an address, and a pitch after it."""
        pitch = 2
        arguments = [
            ("i8", str(operand)) if isinstance(operand, int) else ("i64" if n == pitch else "ptr", operand)
            for n, operand in enumerate(operands)
        ]
        self.ir.call("void", f"llvm.x86.{name}", arguments)

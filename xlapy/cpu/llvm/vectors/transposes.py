"""Emits the function that transposes a matrix in memory, in tiles of vector registers, for one element size.

    void @xlapy_transpose_BITS_PARTS_BYTES(ptr %source, i64 %source_pitch, ptr %target, i64 %target_pitch,
                                           i64 %rows, i64 %columns)

BYTES is the size of a register. Pitches are in values. A register consists of lanes of 16 bytes. With e elements per
lane, e rows become e registers: lane q of register j holds column q * e + j of these rows. The lanes of several such
groups of rows, side by side, are one row of the result. For 8 x 8 elements of 4 bytes in registers of two lanes (rows a
to h, e = 4):

    a0 a1 a2 a3 | a4 a5 a6 a7      a0 b0 c0 d0 | a4 b4 c4 d4      a0 b0 c0 d0 | e0 f0 g0 h0
    b0 b1 b2 b3 | b4 b5 b6 b7  ->  a1 b1 c1 d1 | a5 b5 c5 d5  ->  a1 b1 c1 d1 | e1 f1 g1 h1
    ...                            ...                            ...

Responsible for the shuffles. Does not depend on the matrices or on the structure of loop IR.
"""

from __future__ import annotations

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.loops.ir import tile_shape


def transpose_name(bits: int, parts: int, vector_bytes: int) -> str:
    """Returns the name of the function for elements of `parts` values of `bits` bits."""
    return f"xlapy_transpose_{bits}_{parts}_{vector_bytes}"


def transpose_declaration(name: str) -> str:
    return f"declare void @{name}(ptr, i64, ptr, i64, i64, i64)"


def emit_transpose(bits: int, parts: int, vector_bytes: int) -> tuple[str, set[str]]:
    """Returns the transpose function and its declarations."""
    return _Transpose(bits, parts, vector_bytes).text()


class _Transpose:
    def __init__(self, bits: int, parts: int, vector_bytes: int) -> None:
        self.ir = IrBuilder()
        self.bits, self.parts = bits, parts
        self.name = transpose_name(bits, parts, vector_bytes)
        element_bytes = bits // 8 * parts
        self.rows, self.columns = tile_shape(vector_bytes, element_bytes)
        self.inner = 16 // element_bytes
        """The number of elements in 16 bytes of a register."""
        self.lanes = vector_bytes // 16

    def type(self, elements: int) -> str:
        return f"<{elements * self.parts} x i{self.bits}>"

    def text(self) -> tuple[str, set[str]]:
        ir = self.ir
        with_rows = _Loop(ir, "row", "%rows", self.rows)
        with_columns = _Loop(ir, "column", "%columns", self.columns)
        registers = self.loads(with_rows.position, with_columns.position)
        self.stores(self.transposed(registers), with_rows.position, with_columns.position)
        with_columns.close()
        with_rows.close()
        ir.emit("ret void")
        parameters = "ptr %source, i64 %source_pitch, ptr %target, i64 %target_pitch, i64 %rows, i64 %columns"
        head = f"define void @{self.name}({parameters}) #0 {{\nentry:\n"
        return head + "\n".join(ir.lines) + "\n}\n", ir.declarations

    # -- memory

    def address(self, base: str, position: str) -> str:
        return self.ir.assign(f"getelementptr i{self.bits}, ptr {base}, i64 {position}")

    def scaled(self, position: str) -> str:
        return position if self.parts == 1 else self.ir.assign(f"mul i64 {position}, {self.parts}")

    def loads(self, row: str, column: str) -> list[str]:
        """Loads the rows of a tile.

        Nothing is read after the last column; missing rows are replaced by the last row.
        """
        ir = self.ir
        rows_left, columns_left = (ir.assign(f"sub i64 %{n}, {at}") for n, at in (("rows", row), ("columns", column)))
        pitched = ir.assign(f"mul i64 {row}, %source_pitch")
        address = self.address("%source", ir.assign(f"add i64 {pitched}, {self.scaled(column)}"))
        addresses = [address]
        for number in range(1, self.rows):
            exists = ir.assign(f"icmp sgt i64 {rows_left}, {number}")
            address = self.address(address, ir.assign(f"select i1 {exists}, i64 %source_pitch, i64 0"))
            addresses.append(address)
        return self.masked_loads(addresses, self.first_columns(columns_left))

    def first_columns(self, columns_left: str) -> str:
        """Returns a mask of the columns that exist."""
        ir, count = self.ir, self.columns * self.parts
        indices = f"<{count} x i32>"
        most = ir.call("i64", "llvm.smin.i64", [("i64", columns_left), ("i64", str(self.columns))])
        first = ir.assign(
            f"insertelement {indices} poison, i32 {ir.assign(f'trunc i64 {self.scaled(most)} to i32')}, i64 0"
        )
        limit = ir.assign(f"shufflevector {indices} {first}, {indices} poison, <{count} x i32> zeroinitializer")
        return ir.assign(f"icmp slt {indices} <{', '.join(f'i32 {lane}' for lane in range(count))}>, {limit}")

    def masked_loads(self, addresses: list[str], mask: str) -> list[str]:
        ir = self.ir
        count, vector = self.columns * self.parts, self.type(self.columns)
        bits = f"<{count} x i1>"
        name = f"llvm.masked.load.v{count}i{self.bits}.p0"
        ir.declarations.add(f"declare {vector} @{name}(ptr, {bits}, {vector})")
        return [
            ir.assign(
                f"call {vector} @{name}(ptr align {self.bits // 8} {address}, {bits} {mask}, {vector} zeroinitializer)"
            )
            for address in addresses
        ]

    def stores(self, registers: list[str], row: str, column: str) -> None:
        """Stores one register per column, in order: if rows of the target are short, the next store overwrites the
        excess."""
        ir = self.ir
        pitched = ir.assign(f"mul i64 {column}, %target_pitch")
        address = self.address("%target", ir.assign(f"add i64 {pitched}, {self.scaled(row)}"))
        for number, register in enumerate(registers):
            if number:
                address = self.address(address, "%target_pitch")
            ir.emit(f"store {self.type(self.rows)} {register}, ptr {address}, align {self.bits // 8}")

    # -- registers

    def shuffle(self, left: str, right: str, elements: int, chosen: list[int]) -> str:
        """Returns the chosen elements of the concatenation of two registers of `elements` elements."""
        type = self.type(elements)
        values = [element * self.parts + part for element in chosen for part in range(self.parts)]
        mask = ", ".join(f"i32 {value}" for value in values)
        return self.ir.assign(f"shufflevector {type} {left}, {type} {right}, <{len(values)} x i32> <{mask}>")

    def transposed(self, rows: list[str]) -> list[str]:
        """Returns the columns of a tile, each a register with as many elements as the tile has rows."""
        groups = [self.in_lanes(rows[first : first + self.inner]) for first in range(0, self.rows, self.inner)]
        columns = [""] * self.columns
        for place in range(self.inner):
            side_by_side = self.lanes_together([group[place] for group in groups])
            for lane, register in enumerate(side_by_side):
                columns[lane * self.inner + place] = register
        return columns

    def in_lanes(self, rows: list[str]) -> list[str]:
        """Transposes as many rows as a 16-byte lane has elements within every lane, by one perfect shuffle per bit."""
        half = len(rows) // 2
        registers, stage = rows, half
        while stage:
            pairs = zip(registers[:half], registers[half:], strict=True)
            registers = [self.interleaved(a, b, high) for a, b in pairs for high in (False, True)]
            stage //= 2
        return registers

    def interleaved(self, left: str, right: str, high: bool) -> str:
        """Interleaves, in every 16-byte lane, the elements of its low or high half from two registers."""
        first = self.inner // 2 if high else 0
        chosen = [
            lane * self.inner + first + place + side * self.columns
            for lane in range(self.lanes)
            for place in range(self.inner // 2)
            for side in (0, 1)
        ]
        return self.shuffle(left, right, self.columns, chosen)

    def lanes_together(self, registers: list[str]) -> list[str]:
        """Returns, for each 16-byte lane, that lane of all registers side by side."""
        if len(registers) == 4 and self.lanes == 4:
            return self.four_lanes_together(registers)
        if len(registers) == 1:
            return [self.lanes_of(registers[0], registers[0], [lane]) for lane in range(self.lanes)]
        left, right = registers
        return [self.lanes_of(left, right, [lane, self.lanes + lane]) for lane in range(self.lanes)]

    def four_lanes_together(self, registers: list[str]) -> list[str]:
        """Transposes 4 x 4 lanes: the even and odd lanes of pairs, then of pairs of pairs."""
        a, b, c, d = registers
        found = [""] * 4
        for odd in (0, 1):
            left, right = (self.lanes_of(x, y, [odd, odd + 2, odd + 4, odd + 6]) for x, y in ((a, b), (c, d)))
            found[odd] = self.lanes_of(left, right, [0, 2, 4, 6])
            found[odd + 2] = self.lanes_of(left, right, [1, 3, 5, 7])
        return found

    def lanes_of(self, left: str, right: str, lanes: list[int]) -> str:
        """Returns the chosen 16-byte lanes of two registers."""
        chosen = [lane * self.inner + place for lane in lanes for place in range(self.inner)]
        return self.shuffle(left, right, self.columns, chosen)


class _Loop:
    """A loop from 0 while the position is less than the end. It starts at construction and ends with `close`."""

    def __init__(self, ir: IrBuilder, name: str, end: str, step: int) -> None:
        self.ir, self.end, self.step = ir, end, step
        self.head, self.after = ir.new_label(name), ir.new_label(f"end{name}")
        before = ir.label
        ir.cond_br(ir.assign(f"icmp slt i64 0, {end}"), self.head, self.after)
        ir.start_block(self.head)
        self.position, self._line = ir.phi("i64", "0", before)

    def close(self) -> None:
        following = self.ir.assign(f"add nsw i64 {self.position}, {self.step}")
        self.ir.add_incoming(self._line, following, self.ir.label)
        self.ir.cond_br(self.ir.assign(f"icmp slt i64 {following}, {self.end}"), self.head, self.after)
        self.ir.start_block(self.after)

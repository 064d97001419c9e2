"""Emits the statements of loop IR that access memory and have no value: stores, prefetches, those on matrices, and
selections of positions.

A transposition, a product of matrices or a selection is a call of a function that all programs share.

Responsible for the calls and their checks. Does not depend on loops.
"""

from __future__ import annotations

from typing import Final

from xlapy.cpu.llvm.memory import MemoryEmitter
from xlapy.cpu.llvm.processor import vector_bytes
from xlapy.cpu.llvm.vectors.matrix_products import matrix_product_declaration, matrix_product_name
from xlapy.cpu.llvm.vectors.selections import selection_declaration, selection_name
from xlapy.cpu.llvm.vectors.transposes import transpose_declaration, transpose_name
from xlapy.loops import MatrixProduct, Prefetch, SelectPositions, Store, TransposeStatement, Value
from xlapy.loops.dot_instructions import TILE_SIDE
from xlapy.loops.ir import tile_shape

MEMORY_STATEMENTS: Final = (Store, Prefetch, TransposeStatement, MatrixProduct, SelectPositions)
"""The classes of these statements."""


class MatrixEmitter(MemoryEmitter):
    def memory_statement(
        self, statement: Store | Prefetch | TransposeStatement | MatrixProduct | SelectPositions
    ) -> None:
        """Emits one of `MEMORY_STATEMENTS`."""
        if isinstance(statement, Store):
            self.store(statement)
        elif isinstance(statement, Prefetch):
            self.prefetch(statement)
        elif isinstance(statement, TransposeStatement):
            self.transpose(statement)
        elif isinstance(statement, SelectPositions):
            self.select_positions(statement)
        else:
            self.matrix_product(statement)

    def transpose(self, statement: TransposeStatement) -> None:
        """Emits a call of the transpose function for elements of this size, which all programs share."""
        name = transpose_name(statement.source.buffer.type.bits, statement.parts, vector_bytes())
        self.ir.declarations.add(transpose_declaration(name))
        self.check_transpose(statement)
        source, target = self.address(statement.source), self.address(statement.target)
        rows, columns = (str(n) if isinstance(n, int) else self.scalar(n) for n in (statement.rows, statement.columns))
        given = f"ptr {source}, i64 {statement.source_pitch}, ptr {target}, i64 {statement.target_pitch}"
        self.ir.emit(f"call void @{name}({given}, i64 {rows}, i64 {columns})")

    def check_transpose(self, statement: TransposeStatement) -> None:
        """Checks all that a transposition reads, and the whole tiles that it writes, if accesses are checked."""
        if self.bounds is None:
            return
        ir, parts = self.ir, statement.parts
        element_bytes = statement.source.buffer.type.byte_size * parts
        tile = tile_shape(vector_bytes(), element_bytes)
        counts = [str(n) if isinstance(n, int) else self.scalar(n) for n in (statement.rows, statement.columns)]
        stored = [
            ir.assign(f"and i64 {ir.assign(f'add i64 {count}, {size - 1}')}, {-size}")
            for count, size in zip(counts, tile, strict=True)
        ]
        for verb, place, pitch, (lines, length) in (
            ("loads", statement.source, statement.source_pitch, counts),
            ("stores", statement.target, statement.target_pitch, stored[::-1]),
        ):
            before = ir.assign(f"mul i64 {ir.assign(f'sub i64 {lines}, 1')}, {pitch}")
            reach = ir.assign(f"add i64 {before}, {ir.assign(f'mul i64 {length}, {parts}')}")
            some = ir.assign(
                f"and i1 {ir.assign(f'icmp sgt i64 {lines}, 0')}, {ir.assign(f'icmp sgt i64 {length}, 0')}"
            )
            count = ir.assign(f"select i1 {some}, i64 {reach}, i64 0")
            self.bounds.check(ir, verb, place.buffer, self.address_cse.integer(place.offset), count)

    def matrix_product(self, statement: MatrixProduct) -> None:
        """Emits a call of the function that multiplies matrices by tile instructions, which all programs share."""
        ir, name = self.ir, matrix_product_name(statement.instruction)
        ir.declarations.add(matrix_product_declaration(name))
        self.check_matrix_product(statement)
        given: list[str] = []
        for place, pitch in (
            (statement.left, statement.left_pitch),
            (statement.right, statement.right_pitch),
            (statement.sums, statement.sums_pitch),
        ):
            given += [f"ptr {self.address(place)}", f"i64 {pitch * place.buffer.type.byte_size}"]
        row_tiles, steps = map(self._tiles, (statement.rows, statement.groups))
        given += [f"i64 {row_tiles}", f"i64 {statement.columns // TILE_SIDE}", f"i64 {steps}"]
        ir.emit(f"call void @{name}({', '.join(given)}, i1 {self.scalar(statement.accumulates)})")

    def _tiles(self, extent: int | Value) -> str:
        """The tiles of an extent."""
        if isinstance(extent, int):
            return str(extent // TILE_SIDE)
        return self.ir.assign(f"udiv exact i64 {self.scalar(extent)}, {TILE_SIDE}")

    def check_matrix_product(self, statement: MatrixProduct) -> None:
        """Checks all that a matrix product reads and writes, if accesses are checked."""
        if self.bounds is None:
            return
        rows, groups = (str(n) if isinstance(n, int) else self.scalar(n) for n in (statement.rows, statement.groups))
        for verb, place, pitch, (lines, length) in (
            ("loads", statement.left, statement.left_pitch, (rows, groups)),
            ("loads", statement.right, statement.right_pitch, (groups, str(statement.columns))),
            ("stores", statement.sums, statement.sums_pitch, (rows, str(statement.columns))),
        ):
            before = self.ir.assign(f"mul i64 {self.ir.assign(f'sub i64 {lines}, 1')}, {pitch}")
            count = self.ir.assign(f"add i64 {before}, {length}")
            self.bounds.check(self.ir, verb, place.buffer, self.address_cse.integer(place.offset), count)

    def select_positions(self, statement: SelectPositions) -> None:
        """Emits a call of the function that lists positions in a range, which all programs share."""
        ir, name = self.ir, selection_name(statement.source.buffer.type.bits, vector_bytes())
        ir.declarations.add(selection_declaration(name))
        count = str(statement.count) if isinstance(statement.count, int) else self.scalar(statement.count)
        if self.bounds is not None:
            for verb, place in (("loads", statement.source), ("stores", statement.target)):
                self.bounds.check(ir, verb, place.buffer, self.address_cse.integer(place.offset), count)
        first, extent = self.scalar(statement.first), self.scalar(statement.extent)
        given = f"ptr {self.address(statement.source)}, i64 {count}, i64 {first}, i64 {extent}"
        self.names[statement.result] = ir.assign(f"call i64 @{name}({given}, ptr {self.address(statement.target)})")

"""Matrices transposed in registers: machine code and evaluation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.kernel_runner import run_kernel
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.llvm.jit import listings
from xlapy.cpu.llvm.processor import vector_bytes
from xlapy.cpu.llvm.shared_code import shared_function
from xlapy.cpu.llvm.vectors.transposes import emit_transpose, transpose_declaration, transpose_name
from xlapy.loops import F32, F64, I8, I16, I64, Affine, Builder, Kernel, evaluate, print_kernel
from xlapy.loops.ir import tile_shape
from xlapy.text.parser import parse_hlo


def through_scratch(type, rows: int, columns: int, parts: int, *, dynamic: bool = False) -> Kernel:
    """Transposes x into scratch memory, which is then copied to y."""
    b = Builder("t", vector_bytes())
    tile_rows, tile_columns = tile_shape(b.vector_bytes, type.byte_size * parts)
    x = b.buffer("x", type, rows * columns * parts)
    y = b.buffer("y", type, rows * columns * parts, written=True)
    pitch = -(-rows // tile_rows) * tile_rows * parts
    scratch = b.scratch("s", type, -(-columns // tile_columns) * tile_columns * pitch)
    n = b.buffer("n", I64, 2)
    extents = (b.load(n, Affine()), b.load(n, Affine((), 1))) if dynamic else (rows, columns)
    b.transpose((x, Affine()), columns * parts, (scratch, Affine()), pitch, extents, parts)
    with b.loop(columns) as column, b.loop(rows * parts) as row:
        b.store(y, column * (rows * parts) + row, b.load(scratch, column * pitch + row))
    return b.kernel


@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (3, 50), (70, 5), (37, 91), (64, 128)], ids=str)
@pytest.mark.parametrize(("type", "parts"), [(I8, 1), (I16, 1), (F32, 1), (F64, 1), (F32, 2), (F64, 2)], ids=str)
def test_a_matrix_is_transposed(type, parts, shape):
    rows, columns = shape
    rng = np.random.default_rng(rows)
    x = rng.integers(-100, 100, rows * columns * parts).astype(type.dtype)
    expected = x.reshape(rows, columns, parts).swapaxes(0, 1).ravel()
    for dynamic in (False, True):
        kernel = through_scratch(type, rows, columns, parts, dynamic=dynamic)
        given = {"x": x, "n": np.array(shape), "y": np.zeros_like(x)}
        evaluate(kernel, given)
        np.testing.assert_array_equal(given["y"], expected)
        found = np.zeros_like(x)
        run_kernel(kernel, [x, found, np.array(shape)])
        np.testing.assert_array_equal(found, expected)


def test_it_prints():
    text = print_kernel(through_scratch(F32, 5, 20, 2))
    assert "transpose 5 x 20 of 2 values from x[0] pitch 40 to s[0] pitch" in text


def test_short_rows_overwrite_the_tail_of_the_previous_row():
    b = Builder("t", vector_bytes())
    x, y = b.buffer("x", F32, 3 * 40), b.buffer("y", F32, 3 * 40, written=True)
    scratch = b.scratch("s", F32, 3 * 48 + 16)
    b.transpose((x, Affine()), 40, (scratch, Affine()), 3, (3, 40))
    with b.loop(120) as i:
        b.store(y, i, b.load(scratch, i))
    array, found = np.arange(120, dtype=np.float32), np.zeros(120, np.float32)
    run_kernel(b.kernel, [array, found])
    assert found.reshape(40, 3).tolist() == array.reshape(3, 40).T.tolist()


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize(("bits", "parts"), [(8, 1), (16, 1), (32, 1), (64, 1), (64, 2)])
def test_it_compiles_for_registers_of_any_width(bits, parts, width):
    text, declarations = emit_transpose(bits, parts, width)
    assert "ret" in listings("\n".join([*declarations, text, "attributes #0 = { nounwind }"]))[1]


def test_programs_share_the_function():
    """Two programs call one function, which neither of them contains."""
    name = transpose_name(32, 1, vector_bytes())
    texts = [
        compile_module(
            parse_hlo(
                f"ENTRY e {{ x = f32[{size}] parameter(0) ROOT t = f32[{turned}] transpose(x), dimensions={{1,0}} }}"
            )
        ).llvm
        for size, turned in (("64,96", "96,64"), ("96,80", "80,96"))
    ]
    assert all(transpose_declaration(name) in text and "shufflevector" not in text for text in texts)
    assert shared_function(name).owner is shared_function(name).owner

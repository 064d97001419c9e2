"""Runs one kernel of loop IR as machine code; all iterations of its parallel loop run on this thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.cpu.llvm.jit import compile_text
from xlapy.cpu.llvm.kernels import emit_kernel
from xlapy.cpu.llvm.shared_code import declared_functions, shared_function
from xlapy.loops import Kernel


def run_kernel(kernel: Kernel, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Runs the kernel on these arrays, one per buffer in order; buffers that it writes are changed."""
    text = module_text(kernel)
    code = compile_text(text, ["main"], {name: shared_function(name) for name in declared_functions(text.split("\n"))})
    block = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["main"])(ctypes.addressof(block))


def module_text(kernel: Kernel) -> str:
    """Returns the LLVM text of `main(ptr %block)`, which calls the kernel with the pointers in the block."""
    function, declarations = emit_kernel(kernel, "kernel")
    loads: list[str] = []
    arguments: list[str] = []
    for number in range(len(kernel.buffers)):
        loads.append(f"  %p{number} = getelementptr ptr, ptr %block, i64 {number}")
        loads.append(f"  %a{number} = load ptr, ptr %p{number}")
        arguments.append(f"ptr %a{number}")
    if kernel.parallel_loop is not None:
        arguments += ["i64 0", f"i64 {kernel.parallel_loop.extent}"]
    body = "\n".join(loads)
    main = f"define void @main(ptr %block) {{\n{body}\n  call void @kernel({', '.join(arguments)})\n  ret void\n}}\n"
    return "\n".join([*sorted(declarations), function, main, "attributes #0 = { nounwind }"])

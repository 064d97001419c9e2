"""Functions that LLVM calls for operations that a processor lacks.

A compiler's runtime library would contain them, but a process need not. `NAMES` are all functions that LLVM calls for
the operations of loop IR on any processor, besides those of the C library: a fused multiply-add without FMA,
conversions of f16 without F16C. Code for a processor without F16C contains no such conversion (`float16`). It appears
where LLVM exceeds its limits, and the same text is compiled for a simpler processor.

Responsible for the addresses of these functions. Does not depend on the code that calls them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.conversions.float16 import emit_extension, emit_truncation
from xlapy.cpu.llvm.text import IrBuilder

NAMES = ("__extendhfsf2", "__truncdfhf2", "__truncsfhf2", "fma", "fmaf")

C_LIBRARY = frozenset({"memcmp", "memcpy", "memmove", "memset"})
"""The functions of the C library that LLVM calls for operations on memory. Every process has them."""


def called_runtime_functions(image: bytes) -> list[str]:
    """Returns the runtime functions whose names an object file contains."""
    return [name for name in NAMES if b"\0%s\0" % name.encode() in image]


@SingleFlight
def mathematical_function(name: str) -> int:
    """Returns the address of a function of the C library's mathematical part."""
    for library in (None, "libm.so.6"):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def conversion_functions() -> str:
    """Returns the LLVM text of the conversions of f16."""
    return "\n".join(_function(name) for name in CONVERSIONS)


CONVERSIONS: Mapping[str, tuple[str, str, Callable[[IrBuilder, str], str]]] = {
    "__extendhfsf2": ("half", "float", lambda ir, given: emit_extension(ir, given, 1)),
    "__truncsfhf2": ("float", "half", lambda ir, given: emit_truncation(ir, given, 1)),
    "__truncdfhf2": (
        "double",
        "half",
        lambda ir, given: emit_truncation(ir, ir.assign(f"fptrunc double {given} to float"), 1),
    ),
}
"""Each conversion: the types of its argument and its result, and what emits it."""


def _function(name: str) -> str:
    argument, result, emit = CONVERSIONS[name]
    ir = IrBuilder()
    found = emit(ir, "%given")
    lines = "\n".join([*ir.lines, f"  ret {result} {found}"])
    return f"define {result} @{name}({argument} %given) nounwind {{\nentry:\n{lines}\n}}"

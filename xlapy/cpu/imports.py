"""Where the functions lie that compiled programs call.

Must not know: who calls them.
"""

from __future__ import annotations

from xlapy.cpu.lapack.openblas import function_address, is_function
from xlapy.cpu.llvm.pool import parallel_function


def import_address(name: str) -> int:
    """The address of a function by its name in machine code; `ValueError` for a name that no program imports."""
    if name == "xlapy_parallel":
        return parallel_function()
    if is_function(name):
        return function_address(name)
    raise ValueError(f"there is no function {name} for programs to call")

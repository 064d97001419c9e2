"""Where the functions lie that compiled programs call, and which object files of the process have them.

Must not know: who calls them.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.cpu.lapack.openblas import function_address, is_function
from xlapy.cpu.llvm import shared_code
from xlapy.cpu.llvm.pool import POOL, parallel_function

_PARALLEL = "xlapy_parallel"


def import_address(name: str) -> int:
    """The address of a function by its name in machine code; `ValueError` for a name that no program imports."""
    if name == _PARALLEL:
        return parallel_function()
    if shared_code.object_name(name) is not None:
        return shared_code.function_address(name)
    if is_function(name):
        return function_address(name)
    raise ValueError(f"there is no function {name} for programs to call")


def objects_of(names: Iterable[str]) -> dict[str, bytes]:
    """The object files behind imported functions, but those of libraries."""
    found = (POOL if name == _PARALLEL else shared_code.object_name(name) for name in names)
    return shared_code.compiled_objects([name for name in found if name is not None])

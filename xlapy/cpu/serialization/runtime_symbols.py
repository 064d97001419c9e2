"""Resolves the runtime functions that compiled programs call, and finds the object files that contain them.

Does not depend on the programs that call them.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.cpu.lapack.openblas import function_address, is_function
from xlapy.cpu.llvm import shared_code
from xlapy.cpu.llvm.jit import Symbol
from xlapy.cpu.llvm.pool import AWAIT_TASK, FINISH_TASK, PARALLEL, POOL, parallel_function, task_function

_TASKS = (AWAIT_TASK, FINISH_TASK)


def resolve_symbol(name: str) -> Symbol:
    """Returns a function by its name; raises `ValueError` for a symbol that no program imports."""
    if name == PARALLEL:
        return parallel_function()
    if name in _TASKS:
        return task_function(name)
    if shared_code.object_name(name) is not None:
        return shared_code.shared_function(name)
    if is_function(name):
        return Symbol(function_address(name), owner=None)  # libraries are never unloaded
    raise ValueError(f"there is no function {name} for programs to call")


def imported_object_files(names: Iterable[str]) -> dict[str, bytes]:
    """Returns the object files that contain the imported functions, except functions of libraries."""
    found = (POOL if name in (PARALLEL, *_TASKS) else shared_code.object_name(name) for name in names)
    return shared_code.compiled_objects([name for name in found if name is not None])

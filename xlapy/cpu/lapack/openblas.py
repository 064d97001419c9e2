"""Loads OpenBLAS, which contains LAPACK, from the wheel scipy-openblas32.

The library is the compiler's own copy, not the one that SciPy has loaded. It runs every call on the calling thread, so
results do not depend on a number of threads, and the number of threads of other libraries does not change. It is loaded
when the first program needs it, without global symbols.

Does not depend on what the functions compute.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError

_PACKAGE = "scipy_openblas32"
_PREFIX = "scipy_"


def symbol_of(name: str) -> str:
    """Returns the library's symbol for a Fortran function of BLAS or LAPACK."""
    return f"{_PREFIX}{name}_"


@SingleFlight
def function_address(symbol: str) -> int:
    """Returns the address of a function. Raises `UnsupportedError` without the library, `ValueError` for an unknown
    symbol."""
    try:
        function = getattr(_library(), symbol)
    except AttributeError as error:
        raise ValueError(f"{_PACKAGE} has no function {symbol}") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def is_function(symbol: str) -> bool:
    """Whether a symbol is one of this library's functions."""
    return symbol.startswith(_PREFIX)


@SingleFlight
def _library() -> ctypes.CDLL:
    """Finds the library without running the package's own code, which would load it with global symbols."""
    package = importlib.util.find_spec(_PACKAGE)
    folders = () if package is None else package.submodule_search_locations or ()
    files = [file for folder in folders for file in sorted(Path(folder, "lib").glob("libscipy_openblas*.so"))]
    if not files:
        raise UnsupportedError(
            codes.LINEAR_ALGEBRA_LIBRARY,
            "linear algebra on cpu needs the package scipy-openblas32, which is not installed",
        )
    library = ctypes.CDLL(str(files[0]), mode=ctypes.RTLD_LOCAL)
    library.scipy_openblas_set_num_threads(1)
    return library

"""Loads Python that users name on the command line: it may register passes, back ends or custom-call targets.

Owns: which names are files, and errors of what cannot be loaded. Must not know: what the code does.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib import import_module
from pathlib import Path

from xlapy.base.errors import InvalidArgumentError


@functools.cache
def load_code(name: str) -> None:
    """Runs a file, whose name ends with `.py`, as a module of its own, or imports a module; each once in a process.

    `InvalidArgumentError` if there is none; whatever the code raises comes through.
    """
    if not name.endswith(".py"):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            raise InvalidArgumentError(f"there is no module {name!r} to load; names of files end with .py")
        import_module(name)
        return
    path = Path(name)
    if not path.is_file():
        raise InvalidArgumentError(f"there is no file {name} to load")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look up the types of their fields there
    spec.loader.exec_module(module)

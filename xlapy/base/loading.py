"""Loads the user's Python files and modules, which may register passes, back ends or custom-call targets."""

from __future__ import annotations

import importlib.util
import sys
from importlib import import_module
from pathlib import Path

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.building import python_calls as codes
from xlapy.base.errors import InvalidArgumentError


@SingleFlight
def load_user_code(name: str) -> None:
    """Runs the file `name` as a module if the name ends with `.py`, else imports the module; once per process.

    Raises InvalidArgumentError if the file or module does not exist. Exceptions of the code propagate.
    """
    if not name.endswith(".py"):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            raise InvalidArgumentError(
                codes.USER_CODE, f"there is no module {name!r} to load; names of files end with .py"
            )
        import_module(name)
        return
    path = Path(name)
    if not path.is_file():
        raise InvalidArgumentError(codes.USER_CODE, f"there is no file {name} to load")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look up the types of their fields in it
    spec.loader.exec_module(module)

"""The log of xlapy: the standard library's logger "xlapy", its level set by XLAPY_LOG.

With `XLAPY_LOG=debug` (or info, warning, error, or a number) the library logs to standard error. Without it, the
program's own configuration of logging applies.
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger("xlapy")
"""The logger that all of xlapy uses."""


def configure(level: str | None) -> None:
    """Logs records of `level` and above to standard error; None or "" changes nothing.

    An unknown level logs a warning instead of raising, so that the environment cannot stop a program.
    """
    if not level:
        return
    known = logging.getLevelNamesMapping()
    number = int(level) if level.isdecimal() else known.get(level.upper())
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    if number is None:
        names = ", ".join(name.lower() for name in known)
        logger.warning("XLAPY_LOG=%s is not a log level; the levels are %s", level, names)
        return
    logger.setLevel(number)


configure(os.environ.get("XLAPY_LOG"))

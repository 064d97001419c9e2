"""The log of xlapy: the standard library's logger "xlapy", its level set by XLAPY_LOG.

Owns that logger; knows nothing of what is logged. `XLAPY_LOG=debug` (or info, warning, error, or a number) makes
the library write to standard error; without it, records go wherever the program sends them.
"""

from __future__ import annotations

import logging
import os

logger = logging.getLogger("xlapy")
"""The logger of every part of xlapy."""


def configure(level: str | None) -> None:
    """Logs to standard error from `level` on; None or "" leaves everything to the program.

    An unknown level warns, through the logger, rather than stop a program because of its environment.
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
        logger.warning("XLAPY_LOG=%s is no log level; the levels are %s", level, names)
        return
    logger.setLevel(number)


configure(os.environ.get("XLAPY_LOG"))

"""Errors that end several processes are shown once, by the first of these processes.

A process that ends with an error tells the others a key of it, shows it, and tells them that it is shown. A process
does not show an error if one before it has shown an error with the same key.

Responsible for which process shows an error. Does not depend on how errors are shown.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.code import split_code
from xlapy.base.errors import XlaError
from xlapy.runtime.collectives.process_group import ErrorReport, ProcessGroup, current_process_group

REPORT_SECONDS: Final = 5.0
"""How long a process waits for those before it to end with the same error. Processes notice a failure within
milliseconds of each other, unless they are busy."""

SHOW_SECONDS: Final = 10.0
"""How long a process waits until one before it, which has the same error, has shown it."""

_POLL_SECONDS: Final = 0.005

_FAILED_PROCESSES: Final = "the processes have failed"
"""What the keys of all errors stand for that follow from one failure. Each process describes it as it sees it."""


def show_once(error: BaseException, show: Callable[[], object]) -> None:
    """Calls `show` for an error that ends this process, unless a process before this one shows the same error."""
    group = current_process_group()
    if group is None or group.is_forked:
        show()
        return
    key = error_key(error, has_failed=group.transport.has_failed)
    group.transport.report_error(key, is_shown=False)
    if _is_shown_before(group, key):
        return
    show()
    group.transport.report_error(key, is_shown=True)


def error_key(error: BaseException, *, has_failed: bool) -> int:
    """Returns a number that tells errors apart: by their class, their text and the line that raises them.

    has_failed: whether launches over processes have failed. Then all errors with a code count as the same.
    """
    if has_failed and (isinstance(error, XlaError) or split_code(str(error))[1] is not None):
        text = _FAILED_PROCESSES
    else:
        lines = traceback.extract_tb(error.__traceback__)
        place = (lines[-1].filename, lines[-1].lineno) if lines else ()
        text = repr((type(error).__qualname__, str(error), place))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:7], "little") | 1


def _is_shown_before(group: ProcessGroup, key: int) -> bool:
    """Whether a process before this one has shown the error. Waits for those that may do so."""
    begin = time.monotonic()
    while True:
        before = [one for one in range(group.process_index) if group.transport.is_present(one)]
        reports = [group.transport.reported_error(one) for one in range(group.process_index)]
        if ErrorReport(key, is_shown=True) in reports:
            return True
        is_announced = any(reports[one] == ErrorReport(key, is_shown=False) for one in before)
        may_come = any(reports[one] is None for one in before)
        seconds = time.monotonic() - begin
        if not (is_announced and seconds < SHOW_SECONDS) and not (may_come and seconds < REPORT_SECONDS):
            return False
        time.sleep(_POLL_SECONDS)


def show_uncaught_errors_once() -> None:
    """Applies `show_once` to the uncaught exceptions of this process. Those of threads other than the main one end no
    process: of equal ones, this process shows the first."""
    previous = sys.excepthook
    threading.excepthook = _first_of_threads(threading.excepthook)

    def hook(kind: type[BaseException], error: BaseException, lines: TracebackType | None) -> None:
        def show() -> None:
            previous(kind, error, lines)
            sys.stderr.flush()

        if isinstance(error, Exception):
            show_once(error, show)
        else:  # such as Ctrl-C
            show()

    sys.excepthook = hook


def _first_of_threads(
    previous: Callable[[threading.ExceptHookArgs], object],
) -> Callable[[threading.ExceptHookArgs], None]:
    """Returns a hook that shows an uncaught error of a thread by `previous`, unless another thread has shown it."""
    shown, lock = set[int](), fork_safe_lock()

    def hook(given: threading.ExceptHookArgs) -> None:
        group = current_process_group()
        if group is not None and not group.is_forked and isinstance(given.exc_value, Exception):
            key = error_key(given.exc_value, has_failed=group.transport.has_failed)
            with lock:
                is_first = key not in shown
                shown.add(key)
            if not is_first:
                return
        previous(given)

    return hook

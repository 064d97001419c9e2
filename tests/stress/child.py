"""A child process of `harness.call_in_child`: calls one function with keywords from standard input (JSON).

Started as `python -m tests.stress.child MODULE:FUNCTION HANDLE BYTES`; writes the result as JSON to the file descriptor
HANDLE. BYTES limits the address space; 0: no limit.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import sys


def main() -> None:
    faulthandler.enable()  # also for SIGABRT, by which a process that blocks is ended
    function, handle, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    module, _, name = function.partition(":")
    value = getattr(importlib.import_module(module), name)(**json.load(sys.stdin))
    with os.fdopen(handle, "w") as answers:
        json.dump(value, answers)


if __name__ == "__main__":
    main()

"""The child process of `worker.Worker`: runs one function on requests from standard input until the input ends.

Started as `python -m xlapy.debugging.fuzzing.server MODULE:FUNCTION`. A frame is eight bytes of length, little-endian,
and a pickle. Requests hold the arguments, the keywords, and whether the function reports progress. Replies are
`("done", result)` or `("error", message)`, preceded by `("item", value)` for each value that the function passes to its
argument `emit`. The first reply is `("ready", None)`.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any


def write_frame(stream: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Any:
    """Returns the next value. Raises EOFError at the end of the stream."""
    header = stream.read(8)
    size = int.from_bytes(header, "little")
    data = stream.read(size) if len(header) == 8 else b""
    if len(header) < 8 or len(data) < size:
        raise EOFError
    return pickle.loads(data)


def serve(function: Callable[..., Any], requests: IO[bytes], answers: IO[bytes]) -> None:
    while True:
        try:
            arguments, keywords, tells = read_frame(requests)
        except EOFError:
            return
        if tells:
            keywords["emit"] = lambda value: write_frame(answers, ("item", value))
        try:
            answer = ("done", function(*arguments, **keywords))
        except Exception as error:
            answer = ("error", f"{type(error).__name__}: {error}")
        write_frame(answers, answer)


def main() -> None:
    """Reserves standard output for frames: output of libraries is redirected to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    module, _, function = sys.argv[1].partition(":")
    served = getattr(import_module(module), function)
    write_frame(answers, ("ready", None))
    serve(served, sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()

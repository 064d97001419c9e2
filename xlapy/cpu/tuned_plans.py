"""The plans of the tuning file that programs are compiled with.

Responsible for finding and reading the file. Does not depend on its format or on plans.
"""

from __future__ import annotations

from pathlib import Path

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.logging import logger
from xlapy.codegen.tuning import NO_TUNED_PLANS, TunedKernel, TunedPlans, parse_tuning, plans_for
from xlapy.cpu.llvm.processor import instruction_set


def tuned_plans(file: str | None = None) -> TunedPlans:
    """Returns the plans of a tuning file for the instruction set of compiled code. file: by default the flag
    `tuning_file`; "" is none.

    Raises `InvalidArgumentError` for a file that cannot be read or is not in the format.
    """
    name = str(flags.get("tuning_file")) if file is None else file
    if not name:
        return NO_TUNED_PLANS
    try:
        path = Path(name).expanduser()
        state = path.stat()
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a null byte; RuntimeError: no home directory
        raise InvalidArgumentError(codes.TUNING_FILE, f"the tuning file {name} cannot be read: {error}") from error
    return _plans(path, (state.st_mtime_ns, state.st_size, state.st_ino), instruction_set())


@SingleFlight
def _plans(path: Path, state: tuple[int, int, int], instructions: str) -> TunedPlans:
    """Reads a file. state: changes when the file does."""
    del state
    kernels = read_tuning(path)
    found = plans_for(kernels, instructions, str(path))
    count = sum(kernel.instructions == instructions for kernel in kernels)
    logger.info("%s has plans of %d kernels for %s, %d others", path, count, instructions, len(kernels) - count)
    return found


def read_tuning(path: Path) -> list[TunedKernel]:
    """Returns the kernels of a tuning file, for all instruction sets. Raises `InvalidArgumentError`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(codes.TUNING_FILE, f"the tuning file {path} cannot be read: {error}") from error
    return parse_tuning(text, str(path))

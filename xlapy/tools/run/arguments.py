"""The arguments of `xlapy run`: from files, random ones, or none.

Responsible for where arguments come from. Does not depend on how programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime import Executable
from xlapy.runtime.engine.memory import value_bytes
from xlapy.runtime.system_memory import available_bytes, format_bytes
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.files import read_arguments
from xlapy.tools.run.devices import files_of_devices
from xlapy.tools.run.interface import ProgramInterface


def arguments_of(executable: Executable, inputs: Sequence[str], seed: int | None) -> list[list[Any]]:
    """Returns the arguments of each device of a program whose devices are all in this process."""
    interface = ProgramInterface(executable)
    arguments = arguments_of_places(interface, inputs, seed, range(interface.count))
    return interface.device_arguments(arguments, range(len(executable.devices)))


def arguments_of_places(
    interface: ProgramInterface, inputs: Sequence[str], seed: int | None, places: Sequence[int]
) -> dict[int, list[Any]]:
    """Returns the arguments of some places of a program: those in files, or random ones.

    inputs: the values of the option `--input`. seed: of the random arguments of place 0; others have the next seeds.
    """
    program = interface.program_shape
    of_all = files_of_devices("--input", inputs, interface.count, interface.noun)
    files = {place: tuple(of_all[place]) for place in places}
    if all(files.values()) and inputs:
        read = {paths: read_arguments(paths, program) for paths in set(files.values())}
        return {place: read[paths] for place, paths in files.items()}
    if any(files.values()):
        missing = interface.name_of(next(place for place, paths in files.items() if not paths))
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"{missing} has no input; --input FILE is for all without their own"
        )
    if seed is not None:
        _check_memory(program.parameters * len(places))
        return {place: random_arguments(program.parameters, seed + place) for place in places}
    if program.parameters:
        raise InvalidArgumentError(
            codes.INPUT_GIVEN, f"the program takes arguments, give --input FILE or --random SEED: {program.to_text()}"
        )
    return {place: [] for place in places}


def _check_memory(parameters: Sequence[Shape]) -> None:
    """Raises an error if random arguments would not fit in memory."""
    size, available = sum(map(value_bytes, parameters)), available_bytes()
    if size > available:
        raise InvalidArgumentError(
            running_codes.OUT_OF_MEMORY,
            f"out of memory: random arguments of {format_bytes(size)}, {format_bytes(available)} are available",
        )

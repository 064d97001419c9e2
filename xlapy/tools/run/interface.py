"""What a program takes and returns, as the user of `xlapy run` sees it.

A program that is written for each device has arguments and results of each device. A program that was partitioned when
it was compiled has global arrays, one set for each replica. `ProgramInterface` calls the devices, or the replicas, the
*places* of the program, and numbers them from 0.

Responsible for these places and for the conversion between their arrays and those of devices. Does not depend on files,
on how programs run, or on output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.base.errors import InvalidArgumentError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.runtime import Executable
from xlapy.runtime.collectives.device_names import device_name
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.tools.run.processes import RunProcesses

Array = np.ndarray[Any, Any]


class ProgramInterface:
    """The places of a program, the shapes of their arguments and results, and their names."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._shardings = executable.entry_shardings
        self.devices = [number for number, device in enumerate(executable.devices) if device.is_addressable]
        """The devices of this process, by their numbers among all devices of the program."""
        self.noun = "device" if self._shardings is None else "replica"

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes of the arguments and of the result at each place."""
        return self._executable.program_shape if self._shardings is None else self._shardings.program_shape

    @property
    def result_shapes(self) -> list[Shape]:
        """The shapes of the arrays of the result."""
        return [leaf for _, leaf in self.program_shape.result.leaves() if leaf.is_array]

    @property
    def count(self) -> int:
        """The number of places in all processes."""
        return len(self._executable.devices) if self._shardings is None else self._executable.num_replicas

    @property
    def own_places(self) -> list[int]:
        """The places that this process reports: those whose first device it has."""
        if self._shardings is None:
            return self.devices
        return [place for place in range(self.count) if place * self._executable.num_partitions in self.devices]

    @property
    def used_places(self) -> list[int]:
        """The places whose arguments the devices of this process take."""
        return sorted({self._place_of(device) for device in self.devices})

    def _place_of(self, device: int) -> int:
        return device if self._shardings is None else device // self._executable.num_partitions

    def name_of(self, place: int) -> str:
        """The name of a place for messages and output: `device 3` or `replica 1`."""
        if self._shardings is not None:
            return f"replica {place}"
        return device_name(place, self._executable.num_replicas, self._executable.num_partitions)

    def label(self, place: int) -> str:
        """The start of a line about a place: `device 3: `; empty if there is one place."""
        return f"{self.name_of(place)}: " if self.count > 1 else ""

    def device_arguments(self, arguments: Mapping[int, Sequence[Any]], devices: Sequence[int]) -> list[list[Any]]:
        """Returns the arguments of some devices, given those of their places.

        `InvalidArgumentError` for global arguments that do not have the shapes of the parameters.
        """
        shardings = self._shardings
        if shardings is None:
            return [list(arguments[device]) for device in devices]
        checked = {place: self._checked(place, given) for place, given in arguments.items()}
        partitions = self._executable.num_partitions
        return [shardings.local_arguments(checked[d // partitions], d % partitions) for d in devices]

    def _checked(self, place: int, arguments: Sequence[Any]) -> list[Any]:
        try:
            return check_arguments(self.program_shape, arguments)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(error.code, f"{self.label(place)}{error.message}") from error

    def results(self, processes: RunProcesses, arrays: Mapping[int, Sequence[Array]]) -> dict[int, list[Array]]:
        """Returns the arrays of the result at each of `own_places`.

        arrays: those of each device of this process. Processes send each other the parts of global arrays.
        """
        shardings = self._shardings
        if shardings is None:
            return {device: list(arrays[device]) for device in self.own_places}
        partitions = self._executable.num_partitions
        leaves = [leaf for leaf, (_, shape) in enumerate(self.program_shape.result.leaves()) if shape.is_array]
        holders = [set(shardings.holders(leaf)) for leaf in leaves]
        sent = {
            (device, number): array
            for device, row in arrays.items()
            for number, array in enumerate(row)
            if device % partitions in holders[number]
        }
        parts = {key: array for one in processes.gather(sent, "the results") for key, array in one.items()}
        return {
            place: [
                shardings.global_leaf(leaf, {p: parts[place * partitions + p, number] for p in holders[number]})
                for number, leaf in enumerate(leaves)
            ]
            for place in self.own_places
        }

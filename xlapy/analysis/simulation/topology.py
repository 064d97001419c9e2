"""Places devices in the hierarchy of links of a machine.

Device d is in unit d // s of a level, where s is the number of devices in a unit: devices with consecutive numbers are
near each other.

Responsible for `Topology` and the text of its sizes. Does not depend on collectives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xlapy.analysis.simulation.machine import Level, MachineDescription
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError

_SIZES = re.compile(r"\d+(x\d+)*")
_NAMED = re.compile(r"([^=,]+)=(\d+)")


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels that `devices` devices occupy, the innermost first. unit_sizes: the devices in a unit of each level;
    the last is at least `devices`."""

    devices: int
    levels: tuple[Level, ...]
    unit_sizes: tuple[int, ...]

    def fan_outs(self, group: Sequence[int]) -> list[int]:
        """Returns, for each level, the largest number of units of the level below with members in a unit.

        Example: with nodes of 4 devices, the group 0, 1, 4, 5 has 2 members in each of 2 nodes: [2, 2].
        """
        members: set[int] = set(group)
        below, found = 1, list[int]()
        for size in self.unit_sizes:
            counts: dict[int, int] = {}
            ratio = size // below
            for unit in members:
                counts[unit // ratio] = counts.get(unit // ratio, 0) + 1
            found.append(max(counts.values(), default=1))
            members, below = set(counts), size
        return found

    def level_between(self, source: int, target: int) -> int:
        """Returns the number of the innermost level with a unit that has both devices; -1 for the same device."""
        if source == target:
            return -1
        return next(number for number, size in enumerate(self.unit_sizes) if source // size == target // size)

    @property
    def innermost_devices(self) -> int:
        """The number of devices in a full innermost unit."""
        return min(self.devices, self.unit_sizes[0])

    def describe(self) -> str:
        """Returns, for example, `2 nodes of 8 devices`."""
        text = f"{self.innermost_devices} devices"
        for level, size, above in zip(self.levels, self.unit_sizes, self.unit_sizes[1:], strict=False):
            count = -(-min(self.devices, above) // size)
            text = f"{count} {level.name}{'s' if count > 1 else ''} of {text}"
        return text


def make_topology(machine: MachineDescription, devices: int) -> Topology:
    """Returns the levels that a number of devices occupies; `InvalidArgumentError` if there is no room for them."""
    levels, sizes = list[Level](), list[int]()
    unit = 1
    for level in machine.levels:
        # The units of a level without bound are all in one.
        unit = unit * level.size if level.size else -(-max(devices, unit) // unit) * unit
        levels.append(level)
        sizes.append(unit)
        if unit >= devices:
            return Topology(devices, tuple(levels), tuple(sizes))
    raise InvalidArgumentError(
        codes.TOPOLOGY_SIZE,
        f"{machine.name} has room for {unit} devices ({_sizes_text(machine.levels)}), {devices} are simulated",
    )


def with_topology(machine: MachineDescription, text: str) -> MachineDescription:
    """Returns a machine with the sizes of levels in a text: `8x4x16` from the innermost level, or `node=8,rack=4`.

    A size of 0 is no bound. `InvalidArgumentError` if the text does not name levels of the machine.
    """
    compact = text.replace(" ", "")
    if _SIZES.fullmatch(compact):
        sizes = dict(enumerate(map(int, compact.split("x"))))
    else:
        sizes = dict(_named_sizes(machine, text, compact))
    outermost = max(sizes)
    if outermost >= len(machine.levels) or any(not size for number, size in sizes.items() if number < outermost):
        raise _malformed(machine, text)
    return machine.with_sizes(sizes)


def _named_sizes(machine: MachineDescription, text: str, compact: str) -> Iterable[tuple[int, int]]:
    names = [level.name for level in machine.levels]
    for entry in compact.split(","):
        match = _NAMED.fullmatch(entry)
        if match is None or match[1] not in names:
            raise _malformed(machine, text)
        yield names.index(match[1]), int(match[2])


def _malformed(machine: MachineDescription, text: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        codes.TOPOLOGY,
        f"topology {text!r} does not give sizes of levels of {machine.name}: {_sizes_text(machine.levels)}",
    )


def _sizes_text(levels: Sequence[Level]) -> str:
    return ",".join(f"{level.name}={level.size}" for level in levels)

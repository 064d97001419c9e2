"""The format of a description of a machine: nested tables of numbers, as JSON and TOML have them.

```toml
name = "two nodes"
memory = 80e9                            # bytes of a device; 0 if unknown
processors = 0                           # processors that the devices of an innermost unit share; 0: their own
launch = 0.0                             # seconds that each device of an innermost unit adds to a step
wake_up = 0.0                            # seconds of a step whose devices exchange data, before they run

[rates]                                  # of a device, or of one processor, per second
elementwise = 2e13                       # operations
transcendentals = 4e12                   # functions
bandwidth = [[1e6, 8e12], [1e8, 2e12]]   # bytes, by the bytes accessed between two accesses to an array
kernel_overhead = 2e-6                   # seconds
chains = [[1, 1.0], [6, 0.4]]            # part of the rate of functions, by the functions in a row in a kernel
[rates.elements]
tanh = 4e12                              # elements of four bytes, of one opcode
sort = [[1e3, 1e11], [1e6, 2e10]]        # by the length of rows
[rates.products]
bf16 = 6e14                              # operations of matrix products
convolution-bf16 = 4e14                  # of one opcode
default = 5e13

[[levels]]                               # the innermost first
name = "node"
size = 8                                 # devices; of further levels: units of the level below; 0: any number
latency = 2e-6                           # seconds of a step
bandwidth = 4e11                         # bytes per second of a device in each direction
algorithm = "best"                       # or "ring", "halving", "shared-memory"
[levels.collectives.all-reduce]          # other figures for one kind of collective
latency = 3e-6
bandwidth = 3.5e11
```

A rate is a number, or a list of pairs of a size and the rate at that size.

Responsible for reading and writing that format. Does not depend on files.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from xlapy.analysis.simulation.collective_time import CollectiveKind
from xlapy.analysis.simulation.machine import (
    Algorithm,
    CompiledRates,
    Curve,
    DeviceRates,
    Level,
    Link,
    MachineDescription,
)
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.opcodes import REGISTRY

_MACHINE_FIELDS = ("name", "memory", "processors", "launch", "wake_up", "rates", "levels", "compiled")
_RATE_FIELDS = ("products", "elementwise", "transcendentals", "bandwidth", "kernel_overhead", "elements", "chains")
_LEVEL_FIELDS = ("name", "size", "latency", "bandwidth", "algorithm", "collectives")
_LINK_FIELDS = ("latency", "bandwidth")
_COMPILED_SECONDS = ("handover", "meeting")
_COMPILED_NUMBERS = ("division", "square_root", "pace")
_COMPILED_FIELDS = (
    "processor", "threads", "operations", "memory", "speeds", "overlap", "window", "waiting", "line",
    *_COMPILED_NUMBERS, *_COMPILED_SECONDS,
)  # fmt: skip
_MEMORY_RATES = 6
"""The rates of a working set in `compiled.memory`."""


def machine_from_tables(data: object, where: str) -> MachineDescription:
    """Returns the machine that nested tables describe; `InvalidArgumentError` that begins with `where` if they do not
    have the format."""
    try:
        return _machine(_table(data, "the description", _MACHINE_FIELDS))
    except _Malformed as error:
        raise InvalidArgumentError(codes.MACHINE_DESCRIPTION, f"{where}: {error}") from error


def tables_of_machine(machine: MachineDescription) -> dict[str, Any]:
    """Returns a machine as nested tables, which `machine_from_tables` reads."""
    rates = machine.rates
    return {
        "name": machine.name,
        "memory": machine.memory,
        "processors": machine.processors,
        "launch": machine.launch,
        "wake_up": machine.wake_up,
        **({} if machine.compiled is None else {"compiled": _compiled_table(machine.compiled)}),
        "rates": {
            "elementwise": rates.elementwise,
            "transcendentals": rates.transcendentals,
            "bandwidth": _pairs(rates.bandwidth),
            "kernel_overhead": rates.kernel_overhead,
            "chains": _pairs(rates.chains),
            "elements": {name: _pairs(curve) for name, curve in rates.elements.items()},
            "products": {name: _pairs(curve) for name, curve in rates.products.items()},
        },
        "levels": [
            {
                "name": level.name,
                "size": level.size,
                **_link_table(level.link),
                "algorithm": level.algorithm.value,
                "collectives": {kind: _link_table(link) for kind, link in level.collectives.items()},
            }
            for level in machine.levels
        ],
    }


class _Malformed(Exception):
    """Says what is wrong."""


def _machine(data: Mapping[str, Any]) -> MachineDescription:
    levels = _field(data, "levels", "")
    if not isinstance(levels, list) or not levels:
        raise _Malformed("levels are a list of at least one level")
    found = [_level(_table(one, f"levels[{number}]", _LEVEL_FIELDS), number) for number, one in enumerate(levels)]
    if any(not level.size for level in found[:-1]):
        raise _Malformed("only the last level has the size 0")
    if any(level.algorithm is Algorithm.SHARED_MEMORY for level in found[1:]):
        raise _Malformed("only the first level has the algorithm shared-memory")
    if len({level.name for level in found}) < len(found):
        raise _Malformed("levels have different names")
    return MachineDescription(
        str(_field(data, "name", "")),
        _rates(_table(_field(data, "rates", ""), "rates", _RATE_FIELDS)),
        tuple(found),
        _count(data.get("processors", 0), "processors"),
        _count(data.get("memory", 0), "memory"),
        _seconds(data.get("launch", 0.0), "launch"),
        _seconds(data.get("wake_up", 0.0), "wake_up"),
        _compiled(_table(data["compiled"], "compiled", _COMPILED_FIELDS)) if "compiled" in data else None,
    )


def _compiled(data: Mapping[str, Any]) -> CompiledRates:
    def named(field: str) -> Mapping[str, Any]:
        return _table(_field(data, field, "compiled."), f"compiled.{field}", None)

    operations = {name: _positive(rate, f"compiled.operations.{name}") for name, rate in named("operations").items()}
    if "f32" not in operations:
        raise _Malformed("compiled.operations.f32 is missing")
    if "loops" not in named("speeds"):
        raise _Malformed("compiled.speeds.loops is missing")
    numbers = {name: _positive(_field(data, name, "compiled."), f"compiled.{name}") for name in _COMPILED_NUMBERS}
    seconds = {name: _seconds(_field(data, name, "compiled."), f"compiled.{name}") for name in _COMPILED_SECONDS}
    return CompiledRates(
        processor=str(_field(data, "processor", "compiled.")),
        threads=max(1, _count(_field(data, "threads", "compiled."), "compiled.threads")),
        operations=operations,
        line=_curve(_field(data, "line", "compiled."), "compiled.line"),
        waiting=_curve(_field(data, "waiting", "compiled."), "compiled.waiting"),
        overlap=min(1.0, _amount(_field(data, "overlap", "compiled."), "compiled.overlap")),
        window=_amount(_field(data, "window", "compiled."), "compiled.window"),
        memory=_memory_rows(_field(data, "memory", "compiled.")),
        speeds={name: _curve(rate, f"compiled.speeds.{name}") for name, rate in named("speeds").items()},
        **numbers,
        **seconds,
    )


def _memory_rows(value: object) -> tuple[tuple[float, ...], ...]:
    if not isinstance(value, list) or not value:
        raise _Malformed("compiled.memory is a list of at least one working set")
    for row in value:
        if not isinstance(row, list) or len(row) != 1 + _MEMORY_RATES:
            raise _Malformed(f"compiled.memory has rows of a size and {_MEMORY_RATES} rates")
    rows = tuple(tuple(_positive(one, "compiled.memory") for one in row) for row in value)
    if any(one[0] >= two[0] for one, two in pairwise(rows)):
        raise _Malformed("the sizes of compiled.memory ascend")
    return rows


def _compiled_table(rates: CompiledRates) -> dict[str, Any]:
    return {
        "processor": rates.processor,
        "threads": rates.threads,
        "operations": dict(rates.operations),
        "memory": [list(row) for row in rates.memory],
        "division": rates.division,
        "square_root": rates.square_root,
        "window": rates.window,
        "overlap": rates.overlap,
        "pace": rates.pace,
        "waiting": _pairs(rates.waiting),
        "line": _pairs(rates.line),
        "handover": rates.handover,
        "meeting": rates.meeting,
        "speeds": {name: _pairs(curve) for name, curve in rates.speeds.items()},
    }


def _rates(data: Mapping[str, Any]) -> DeviceRates:
    products = _table(_field(data, "products", "rates."), "rates.products", None)
    if "default" not in products:
        raise _Malformed("rates.products.default is missing")
    elements = _table(data.get("elements", {}), "rates.elements", None)
    if unknown := [name for name in elements if name not in REGISTRY]:
        raise _Malformed(f"rates.elements names {unknown[0]}, which is no opcode")
    return DeviceRates(
        {name: _curve(rate, f"rates.products.{name}") for name, rate in products.items()},
        _positive(_field(data, "elementwise", "rates."), "rates.elementwise"),
        _positive(_field(data, "transcendentals", "rates."), "rates.transcendentals"),
        _curve(_field(data, "bandwidth", "rates."), "rates.bandwidth"),
        _seconds(data.get("kernel_overhead", 0.0), "rates.kernel_overhead"),
        {name: _curve(rate, f"rates.elements.{name}") for name, rate in elements.items()},
        _curve(data.get("chains", 1.0), "rates.chains"),
    )


def _level(data: Mapping[str, Any], number: int) -> Level:
    prefix = f"levels[{number}]."
    algorithms = [algorithm.value for algorithm in Algorithm]
    algorithm = data.get("algorithm", Algorithm.BEST.value)
    if algorithm not in algorithms:
        raise _Malformed(f"{prefix}algorithm is one of {', '.join(algorithms)}, given {algorithm!r}")
    kinds = tuple(kind.value for kind in CollectiveKind)
    collectives = _table(data.get("collectives", {}), f"{prefix}collectives", kinds)
    return Level(
        str(_field(data, "name", prefix)),
        _count(_field(data, "size", prefix), f"{prefix}size"),
        _link(data, prefix),
        Algorithm(algorithm),
        {
            kind: _link(_table(link, f"{prefix}collectives.{kind}", _LINK_FIELDS), f"{prefix}collectives.{kind}.")
            for kind, link in collectives.items()
        },
    )


def _link(data: Mapping[str, Any], prefix: str) -> Link:
    return Link(
        _seconds(_field(data, "latency", prefix), f"{prefix}latency"),
        _curve(_field(data, "bandwidth", prefix), f"{prefix}bandwidth"),
    )


def _table(data: object, name: str, fields: tuple[str, ...] | None) -> Mapping[str, Any]:
    """Returns a table whose fields are among `fields`, if given."""
    if not isinstance(data, dict):
        raise _Malformed(f"{name} is not a table")
    unknown = [key for key in data if fields is not None and key not in fields]
    if unknown:
        raise _Malformed(f"{name} has no field {unknown[0]}")
    return data


def _field(data: Mapping[str, Any], key: str, prefix: str) -> Any:
    if key not in data:
        raise _Malformed(f"{prefix}{key} is missing")
    return data[key]


def _curve(value: object, name: str) -> Curve:
    if not isinstance(value, list):
        return Curve.constant(_positive(value, name))
    if not value or any(not isinstance(point, list) or len(point) != 2 for point in value):
        raise _Malformed(f"{name} is a number or a list of pairs of a size and a rate")
    points = [(_positive(size, name), _positive(rate, name)) for size, rate in value]
    if any(one[0] >= two[0] for one, two in pairwise(points)):
        raise _Malformed(f"the sizes of {name} ascend")
    return Curve(tuple(points))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _positive(value: object, name: str) -> float:
    if not _is_number(value) or float(str(value)) <= 0:
        raise _Malformed(f"{name} is a positive number, given {value!r}")
    return float(str(value))


def _seconds(value: object, name: str) -> float:
    return _amount(value, name, "a number of seconds")


def _amount(value: object, name: str, what: str = "a number of at least 0") -> float:
    if not _is_number(value) or float(str(value)) < 0:
        raise _Malformed(f"{name} is {what}, given {value!r}")
    return float(str(value))


def _count(value: object, name: str) -> int:
    if not _is_number(value) or float(str(value)) < 0 or float(str(value)) % 1:
        raise _Malformed(f"{name} is a number of at least 0 without fraction, given {value!r}")
    return int(float(str(value)))


def _pairs(curve: Curve) -> float | list[list[float]]:
    if len(curve.points) == 1:
        return curve.points[0][1]
    return [[size, rate] for size, rate in curve.points]


def _link_table(link: Link) -> dict[str, Any]:
    return {"latency": link.latency, "bandwidth": _pairs(link.bandwidth)}

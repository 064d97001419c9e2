"""Kernel plans: which strategy computes a region, and with which parameters.

A strategy is one way to emit the kernels of a region. Each strategy proposes a candidate with an estimated cost, or
rejects the region with a reason; the cheapest candidate becomes the plan (`strategies`). The plan is recorded in the
`backend_config` of the instruction, as JSON, and may be written there by hand:

    backend_config={"kernel_plan":{"strategy":"transpose","block_columns":64,"block_rows":64}}

A plan names the strategy; parameters that it leaves out have the values that the strategy proposes.

Responsible for the records, their text and the checks of parameters. Does not depend on any strategy.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar, cast

from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import Kernel
from xlapy.opcodes.registry import OpDef

CONFIG_KEY = "kernel_plan"
"""The key of the plan in the JSON of a `backend_config`."""


@dataclass(frozen=True, slots=True)
class NoParameters:
    """The parameters of a strategy that has none."""


P = TypeVar("P")


def parameter(minimum: int, maximum: int = 1 << 30) -> Any:
    """Returns a field of a dataclass of parameters: an integer from `minimum` to `maximum` for every region."""
    return field(metadata={"minimum": minimum, "maximum": maximum})


@dataclass(frozen=True, slots=True)
class Candidate:
    """The answer of a strategy that proposes itself for a region."""

    cost: float
    """The estimated time in cycles of one core (`kernel_cost`)."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer of a strategy that does not propose itself for a region."""

    reason: str
    is_possible: bool = False
    """Whether the strategy can compute the region nevertheless, if the module demands it."""


class ImpossibleParameterError(Exception):
    """A strategy cannot compute a region with the value of a parameter."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason


class Strategy(ABC, Generic[P]):
    """One way to emit the kernels of a region. `P`: a frozen dataclass of integers and Booleans, its parameters."""

    name: ClassVar[str]
    required_opcodes: ClassVar[frozenset[OpDef] | None] = None
    """Opcodes of which a region must contain one; other regions are not worth a reason for the rejection. None: the
    strategy is asked about every region."""
    computes_elements: ClassVar[bool] = True
    """Whether the strategy computes every instruction of a region element by element (`lower.LOWERINGS`)."""

    @abstractmethod
    def candidate(self, region: Region) -> Candidate | Rejection:
        """The estimated cost of the strategy for a region, or why it does not propose itself."""

    @abstractmethod
    def parameters(self, region: Region) -> P:
        """The parameters that the strategy prefers for a region that it can compute."""

    def check(self, region: Region, parameters: P) -> None:
        """Raises `ImpossibleParameterError` for demanded parameters that the kernel cannot have."""
        del region, parameters

    @abstractmethod
    def emit(self, region: Region, parameters: P) -> list[Kernel]:
        """Returns the kernels that together compute the region, in order.

        Their buffers are those that `region` describes. Further buffers are temporaries: of the same sizes in all
        kernels, so that one kernel may read what an earlier one wrote.
        """


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """The strategy that computes a region, and its parameters."""

    strategy: str
    parameters: Any = NoParameters()
    """A dataclass of the strategy's parameters."""

    def to_json(self) -> str:
        """The plan as it is printed in a `backend_config`: the strategy, then its parameters in order of names."""
        return json.dumps(self._entries(), separators=(",", ":"))

    def __str__(self) -> str:
        _, *parameters = self._entries().items()
        return " ".join([self.strategy, *(f"{name}={json.dumps(value)}" for name, value in parameters)])

    @property
    def demanded(self) -> DemandedPlan:
        """The plan as a module or a tuning file states it, with all parameters."""
        return DemandedPlan(self.strategy, tuple(sorted(asdict(self.parameters).items())))

    def _entries(self) -> dict[str, str | int]:
        return {"strategy": self.strategy, **dict(sorted(asdict(self.parameters).items()))}


# -- plans in the text of a module


@dataclass(frozen=True, slots=True, order=True)
class DemandedPlan:
    """A plan as the `backend_config` of an instruction, or a tuning file, states it."""

    strategy: str
    parameters: tuple[tuple[str, int | bool], ...]


def has_plan(instruction: Instruction) -> bool:
    """Whether the `backend_config` of an instruction may contain a plan."""
    return CONFIG_KEY in instruction.backend_config


def demanded_plan(instruction: Instruction) -> DemandedPlan | None:
    """The plan in an instruction's `backend_config`; None if there is none.

    Raises `InvalidArgumentError` for an entry that is not a plan.
    """
    if not has_plan(instruction):
        return None
    try:
        return _plan_in(instruction.backend_config)
    except ValueError as error:
        raise InvalidArgumentError(codes.KERNEL_PLAN, f"{describe_instruction(instruction)}: {error}") from error


@lru_cache(maxsize=4096)
def _plan_in(config: str) -> DemandedPlan | None:
    try:
        parsed: Any = json.loads(config)
    except (ValueError, RecursionError):
        return None  # the configuration of another compiler
    if not isinstance(parsed, dict) or CONFIG_KEY not in parsed:
        return None
    return plan_of_entries(cast("dict[str, Any]", parsed)[CONFIG_KEY], CONFIG_KEY)


def plan_of_entries(entries: Any, where: str) -> DemandedPlan:
    """The plan in a JSON dictionary. Raises `ValueError`, which begins with `where`, for anything else."""
    if not isinstance(entries, dict) or not isinstance(entries.get("strategy"), str):
        raise ValueError(f'{where} must be a dictionary with a "strategy"')
    given = cast("dict[str, Any]", entries)
    parameters = {name: value for name, value in given.items() if name != "strategy"}
    for name, value in parameters.items():
        if not isinstance(value, int):
            raise ValueError(f"{where} parameter {name} must be an integer or a Boolean, not {json.dumps(value)}")
    return DemandedPlan(given["strategy"], tuple(sorted(parameters.items())))


def record_plan(instruction: Instruction, plan: KernelPlan) -> None:
    """Records a plan in an instruction's `backend_config`, next to the other entries of its JSON dictionary.

    A `backend_config` that is not a dictionary is left as it is.
    """
    config = instruction.backend_config
    if not config:
        instruction.backend_config = f'{{"{CONFIG_KEY}":{plan.to_json()}}}'
        return
    try:
        parsed: Any = json.loads(config)
    except (ValueError, RecursionError):
        return
    if isinstance(parsed, dict):
        entries = {**cast("dict[str, Any]", parsed), CONFIG_KEY: json.loads(plan.to_json())}
        instruction.backend_config = json.dumps(entries, separators=(",", ":"))


# -- parameters


def with_demanded(proposed: P, demanded: Mapping[str, int | bool]) -> P:
    """The proposed parameters with the demanded values.

    Raises `ImpossibleParameterError` for an unknown name, a value of another type or out of the range of the field.
    """
    known = {f.name: f for f in fields(cast("Any", proposed))}
    for name, value in demanded.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise ImpossibleParameterError(name, f"there is no such parameter; known: {names}")
        _check_value(known[name], value)
    return cast("P", replace(cast("Any", proposed), **demanded))


def _check_value(known: Field[Any], value: int | bool) -> None:
    is_boolean = known.type == "bool"
    if isinstance(value, bool) != is_boolean:
        wanted = "a Boolean" if is_boolean else "an integer"
        raise ImpossibleParameterError(known.name, f"it is {json.dumps(value)}, but must be {wanted}")
    low, high = known.metadata.get("minimum"), known.metadata.get("maximum")
    if low is not None and high is not None and not low <= value <= high:
        raise ImpossibleParameterError(known.name, f"it is {value}, but must be from {low} to {high}")

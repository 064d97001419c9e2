"""Donation: arguments whose memory a program may reuse for its results.

Responsible for which leaves of the parameters are donated, and for the buffers that a call gives for them. Does not
depend on how the memory is reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.storage.lazy_module import LazyModule


@dataclass(frozen=True, slots=True)
class DonatedLeaf:
    """A donated array: the leaf at `path` of a parameter. deletion_reason: why its buffer cannot be used after
    a call."""

    parameter: int
    path: tuple[int, ...]
    where: str
    deletion_reason: str


def donated_leaves(module: Module, donate: Iterable[int]) -> list[DonatedLeaf]:
    """Returns the leaves that `donate` and the module's own input_output_alias and buffer_donor donate, in order.

    `InvalidArgumentError` for unknown parameters, for tuples, and for parameters listed twice.
    """
    leaves: set[tuple[int, tuple[int, ...]]] = {(number, ()) for number in _checked(module, donate)}
    leaves |= {(alias.parameter_number, alias.parameter_index) for alias in module.config.input_output_alias}
    leaves |= {(donor.parameter_number, donor.parameter_index) for donor in module.config.buffer_donors}
    names = module.entry_computation.program_shape.parameter_names
    return [_donated(module.name, number, path, names[number]) for number, path in sorted(leaves)]


def donated_leaf(source: LazyModule, parameter: int, path: Iterable[int]) -> DonatedLeaf:
    """The donated leaf at a path of a parameter. `IndexError` or `ShapeError` if it is not an array of a parameter."""
    where = tuple(path)
    if parameter < 0 or not source.program_shape.parameters[parameter].subshape(where).is_array:
        raise IndexError(f"parameter {parameter} has no array at {list(where)}")
    return _donated(source.name, parameter, where, source.program_shape.parameter_names[parameter])


def _donated(program: str, number: int, path: tuple[int, ...], name: str) -> DonatedLeaf:
    where = f"parameter {number} ({name})" + "".join(f" element {position}" for position in path)
    return DonatedLeaf(number, path, where, f"was donated to {program} as {where}")


def _checked(module: Module, donate: Iterable[int]) -> list[int]:
    parameters = module.entry_computation.program_shape.parameters
    numbers = list(donate)
    for index, number in enumerate(numbers):
        what = f"{module.name}: donate={numbers} names"
        if not 0 <= number < len(parameters):
            raise InvalidArgumentError(
                codes.DONATED_PARAMETER, f"{what} parameter {number}, the program has {len(parameters)}"
            )
        if number in numbers[:index]:
            raise InvalidArgumentError(codes.DONATED_PARAMETER, f"{what} parameter {number} twice")
        if not parameters[number].is_array:
            raise InvalidArgumentError(
                codes.DONATED_PARAMETER,
                f"{what} parameter {number} of shape "
                f"{parameters[number].to_text(layout=False)}; only arrays can be donated",
            )
    return [int(number) for number in numbers]


def donated_buffers(donated: Sequence[DonatedLeaf], arguments: Sequence[Any]) -> list[tuple[DonatedLeaf, Buffer]]:
    """Returns the buffers that a call donates. Donated arguments that are not buffers stay the caller's.

    `InvalidArgumentError` for a buffer that is also donated_pairs for another parameter.
    """
    arguments_of_leaves = [(leaf, _leaf(arguments[leaf.parameter], leaf.path)) for leaf in donated]
    donated_pairs = [(leaf, buffer) for leaf, buffer in arguments_of_leaves if isinstance(buffer, Buffer)]
    if donated_pairs:
        _check_once(donated_pairs, arguments)
    return donated_pairs


def _leaf(argument: Any, path: Sequence[int]) -> Any:
    for position in path:
        argument = argument[position]
    return argument


def _check_once(donated_pairs: Sequence[tuple[DonatedLeaf, Buffer]], arguments: Sequence[Any]) -> None:
    uses: dict[int, int] = {}
    for buffer in _buffers(arguments):
        uses[id(buffer)] = uses.get(id(buffer), 0) + 1
    for leaf, buffer in donated_pairs:
        if uses[id(buffer)] > 1:
            raise InvalidArgumentError(
                codes.DONATED_ARGUMENT,
                f"{leaf.where} is donated, but its buffer "
                f"{buffer.xla_shape.to_text(layout=False)} is given for another parameter too",
            )


def _buffers(values: Iterable[Any]) -> Iterable[Buffer]:
    for value in values:
        if isinstance(value, Buffer):
            yield value
        elif isinstance(value, list | tuple):
            yield from _buffers(value)

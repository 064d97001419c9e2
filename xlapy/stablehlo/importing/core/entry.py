"""Attributes of the module and of the entry's arguments and results as the configuration of an HLO module.

Owns: donation and aliasing, layouts and memories of the signature, numbers of replicas and partitions. Must not know:
operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Alias, BufferDonor, Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.annotations import argument_attributes, frontend_attributes, result_attributes
from xlapy.stablehlo.importing.core.attributes import as_integer, as_integers, integer, listed, shown

_ALIAS, _DONOR, _LAYOUT_MODE, _MEMORY_KIND = (
    "tf.aliasing_output",
    "jax.buffer_donor",
    "mhlo.layout_mode",
    "mhlo.memory_kind",
)
_ALIASES = "mhlo.input_output_alias"
_MEMORY_SPACES = {"device": 0, "pinned_host": 5, "unpinned_host": 5}
"""XLA's numbers of memories by the names that frameworks use."""


def configure(module: Module, root: ir.Operation, function: ir.Operation, results: int) -> None:
    """Fills in the configuration of a module whose entry stands."""
    config = module.config
    config.replica_count = integer(root, "mhlo.num_replicas", 1)
    config.num_partitions = integer(root, "mhlo.num_partitions", 1)
    config.frontend_attributes = frontend_attributes(root.attributes) or {}
    layout = config.entry_computation_layout
    assert layout is not None
    arguments = argument_attributes(function, len(layout.parameters))
    _alias(module, arguments, results)
    if root.attributes.get(_ALIASES):
        module.config.input_output_alias = _sorted(
            [_read_alias(each, len(arguments), results) for each in listed(root, _ALIASES)]
        )
    parts = layout.result.tuple_shapes if results != 1 else (layout.result,)
    shaped = [
        _placed(shape, attributes)
        for shape, attributes in zip(parts, result_attributes(function, results), strict=True)
    ]
    config.entry_computation_layout = ProgramShape(
        [_placed(shape, attributes) for shape, attributes in zip(layout.parameters, arguments, strict=True)],
        shaped[0] if results == 1 else Shape.tuple(shaped),
    )


def _alias(module: Module, arguments: Sequence[Mapping[str, Any]], results: int) -> None:
    aliases: list[Alias] = []
    donors: list[BufferDonor] = []
    for number, attributes in enumerate(arguments):
        output = attributes.get(_ALIAS)
        if output is not None:
            if not isinstance(output, ir.IntegerAttribute) or not 0 <= output.value < results:
                raise ShapeError(f"{_ALIAS} of argument {number} must name one of {results} results: {shown(output)}")
            aliases.append(Alias(() if results == 1 else (output.value,), number, ()))
        elif attributes.get(_DONOR) is True:
            donors.append(BufferDonor(number, ()))
    module.config.input_output_alias = _sorted(aliases)
    module.config.buffer_donors = tuple(donors)


def _sorted(aliases: Sequence[Alias]) -> tuple[Alias, ...]:
    return tuple(sorted(aliases, key=lambda alias: alias.output_index))


def _read_alias(entry: Any, arguments: int, results: int) -> Alias:
    """`{alias = {kind = "must_alias", parameter_index = [], parameter_number = 0}, output_index = []}`"""
    alias = entry.get("alias") if isinstance(entry, dict) else None
    if not isinstance(alias, dict) or not {"parameter_index", "parameter_number"} <= alias.keys():
        raise ShapeError(f"an entry of {_ALIASES} names a parameter and a result, it is {shown(entry)}")
    output = as_integers(entry.get("output_index"), "output_index")
    number, inner = as_integer(alias["parameter_number"], "parameter_number"), alias["parameter_index"]
    kind = alias.get("kind", "may_alias")
    is_there = 0 <= number < arguments and not as_integers(inner, "parameter_index")
    if not is_there or kind not in ("may_alias", "must_alias"):
        raise ShapeError(f"{_ALIASES} names argument {number} of {arguments}, in the manner {shown(kind)}")
    if len(output) > (results != 1) or any(not 0 <= place < results for place in output):
        raise ShapeError(f"{_ALIASES} names the result {list(output)} of {results}")
    return Alias(output, number, (), must=kind == "must_alias")


def _placed(shape: Shape, attributes: Mapping[str, Any]) -> Shape:
    """A part of the signature in the layout and the memory that its attributes ask for."""
    mode = attributes.get(_LAYOUT_MODE, "default")
    if shape.is_array and mode not in ("default", "auto"):
        shape = shape.with_layout(Layout.parse(mode))
    kind = attributes.get(_MEMORY_KIND, "device")
    if kind not in _MEMORY_SPACES:
        raise UnsupportedError(f"{_MEMORY_KIND} {shown(kind)} is none of {', '.join(_MEMORY_SPACES)}")
    space = _MEMORY_SPACES[kind]
    if space and shape.layout is not None:
        shape = shape.with_layout(shape.layout.replace(memory_space=space))
    return shape

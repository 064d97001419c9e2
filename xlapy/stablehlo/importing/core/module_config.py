"""Imports the attributes of the module and of the entry's arguments and results into the HLO module's configuration.

Responsible for input-output aliasing and buffer donation, for the layouts and memory spaces of the entry's signature,
and for the numbers of replicas and partitions. Does not depend on operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.module import Alias, BufferDonor, Module
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.annotations import argument_attributes, frontend_attributes, result_attributes
from xlapy.stablehlo.importing.core.attributes import array, as_integer, as_integers, describe, integer

_ALIAS, _DONOR, _LAYOUT_MODE, _MEMORY_KIND = (
    "tf.aliasing_output",
    "jax.buffer_donor",
    "mhlo.layout_mode",
    "mhlo.memory_kind",
)
_MODULE_ALIASES = "mhlo.input_output_alias"
_MEMORY_SPACES = {"device": 0, "pinned_host": 5, "unpinned_host": 5}
"""XLA's memory spaces by the memory kinds of JAX."""


def configure_module(module: Module, root: ir.Operation, function: ir.Operation, results: int) -> None:
    """Sets the configuration of a module whose entry computation is complete; `results` is the entry's result count."""
    config = module.config
    config.replica_count = integer(root, "mhlo.num_replicas", 1)
    config.num_partitions = integer(root, "mhlo.num_partitions", 1)
    config.frontend_attributes = frontend_attributes(root.attributes) or {}
    layout = config.entry_computation_layout
    assert layout is not None
    arguments = argument_attributes(function, len(layout.parameters))
    _set_aliases_and_donors(module, arguments, results)
    if root.attributes.get(_MODULE_ALIASES):
        module.config.input_output_alias = _sorted_by_output(
            [_read_alias(each, len(arguments), results) for each in array(root, _MODULE_ALIASES)]
        )
    result_shapes = layout.result.tuple_shapes if results != 1 else (layout.result,)
    results_with_layout = [
        _with_layout_and_memory(shape, attributes)
        for shape, attributes in zip(result_shapes, result_attributes(function, results), strict=True)
    ]
    config.entry_computation_layout = ProgramShape(
        [
            _with_layout_and_memory(shape, attributes)
            for shape, attributes in zip(layout.parameters, arguments, strict=True)
        ],
        results_with_layout[0] if results == 1 else Shape.tuple(results_with_layout),
    )


def _set_aliases_and_donors(module: Module, arguments: Sequence[Mapping[str, Any]], results: int) -> None:
    aliases: list[Alias] = []
    donors: list[BufferDonor] = []
    for number, attributes in enumerate(arguments):
        output = attributes.get(_ALIAS)
        if output is not None:
            if not isinstance(output, ir.IntegerAttribute) or not 0 <= output.value < results:
                raise ShapeError(
                    operation_codes.ALIASED_RESULT,
                    f"{_ALIAS} of argument {number} must name one of {results} results, but is {describe(output)}",
                )
            aliases.append(Alias(() if results == 1 else (output.value,), number, ()))
        elif attributes.get(_DONOR) is True:
            donors.append(BufferDonor(number, ()))
    module.config.input_output_alias = _sorted_by_output(aliases)
    module.config.buffer_donors = tuple(donors)


def _sorted_by_output(aliases: Sequence[Alias]) -> tuple[Alias, ...]:
    return tuple(sorted(aliases, key=lambda alias: alias.output_index))


def _read_alias(entry: Any, arguments: int, results: int) -> Alias:
    """Reads `{alias = {kind = "must_alias", parameter_index = [], parameter_number = 0}, output_index = []}`."""
    alias = entry.get("alias") if isinstance(entry, dict) else None
    if not isinstance(alias, dict) or not {"parameter_index", "parameter_number"} <= alias.keys():
        raise ShapeError(
            operation_codes.ALIASED_RESULT,
            f"an entry of {_MODULE_ALIASES} must name a parameter and a result, but is {describe(entry)}",
        )
    output = as_integers(entry.get("output_index"), "output_index")
    number, inner = as_integer(alias["parameter_number"], "parameter_number"), alias["parameter_index"]
    kind = alias.get("kind", "may_alias")
    is_argument = 0 <= number < arguments and not as_integers(inner, "parameter_index")
    if not is_argument or kind not in ("may_alias", "must_alias"):
        raise ShapeError(
            operation_codes.ALIASED_RESULT,
            f"{_MODULE_ALIASES} names argument {number} of {arguments} with kind {describe(kind)}",
        )
    if len(output) > (results != 1) or any(not 0 <= index < results for index in output):
        raise ShapeError(
            operation_codes.ALIASED_RESULT, f"{_MODULE_ALIASES} names the result {list(output)} of {results}"
        )
    return Alias(output, number, (), must=kind == "must_alias")


def _with_layout_and_memory(shape: Shape, attributes: Mapping[str, Any]) -> Shape:
    """Returns the shape of an argument or result with the layout and memory space of its attributes."""
    mode = attributes.get(_LAYOUT_MODE, "default")
    if not isinstance(mode, str):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"{_LAYOUT_MODE} must be a string, but is {describe(mode)}")
    if shape.is_array and mode not in ("default", "auto"):
        shape = shape.with_layout(Layout.parse(mode))
    kind = attributes.get(_MEMORY_KIND, "device")
    if not isinstance(kind, str) or kind not in _MEMORY_SPACES:
        raise UnsupportedError(
            device_codes.MEMORY_KIND, f"{_MEMORY_KIND} {describe(kind)} is not one of {', '.join(_MEMORY_SPACES)}"
        )
    space = _MEMORY_SPACES[kind]
    if space and shape.layout is not None:
        shape = shape.with_layout(shape.layout.replace(memory_space=space))
    return shape

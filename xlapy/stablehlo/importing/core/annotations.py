"""Imports the attributes that annotate operations: shardings, frontend attributes and result accuracies.

Responsible for the names of these attributes and for the fields of HLO instructions that hold them. Does not depend on
what operations compute. A sharding is HLO text (`mhlo.sharding`), a serialized OpSharding (`mhlo.sharding` too), or
refers to the named axes of a mesh (`sdy.sharding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.codecs import FLOAT
from xlapy.proto.meshes import read_sharding
from xlapy.proto.messages import decode
from xlapy.proto.metadata import as_bytes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_integer, describe
from xlapy.stablehlo.importing.core.meshes import MeshTable

SHARDING, MESH_SHARDING = "mhlo.sharding", "sdy.sharding"
FRONTEND, ACCURACY = "mhlo.frontend_attributes", "result_accuracy"
_NAMES = frozenset({SHARDING, MESH_SHARDING, FRONTEND, ACCURACY})


class Annotations:
    """Reads the annotations of one program. `meshes` holds the meshes that its shardings refer to."""

    def __init__(self, root: ir.Operation) -> None:
        self.meshes = MeshTable(root)
        self._shardings: dict[str, Sharding] = {}

    def has_annotations(self, operation: ir.Operation) -> bool:
        """Returns whether an operation has any of these attributes."""
        return not _NAMES.isdisjoint(operation.attributes)

    def frontend_attributes(self, operation: ir.Operation) -> dict[str, str] | None:
        """Returns the frontend attributes of an operation, or None if it has none."""
        return frontend_attributes(operation.attributes)

    def annotate(self, operation: ir.Operation, results: Sequence[Instruction]) -> None:
        """Sets the sharding and the accuracy of an operation on the instructions of its results."""
        sharding = self.sharding(operation.attributes)
        if sharding is not None and results:
            self._set_sharding(results, sharding)
        accuracy = _accuracy_text(operation.attributes.get(ACCURACY))
        if accuracy:
            for result in results:
                result.result_accuracy = accuracy

    def sharding(self, attributes: Mapping[str, Any]) -> Sharding | None:
        """Returns the sharding in the attributes of an operation, an argument or a result; None without one."""
        given = attributes.get(SHARDING)
        if given is not None:
            if not isinstance(given, str):
                raise ShapeError(codes.ATTRIBUTE_KIND, f"{SHARDING} must be a string, but is {describe(given)}")
            known = self._shardings.get(given)  # one attribute may belong to many operations
            if known is None:
                known = self._shardings[given] = _parse_sharding(given)
            return known
        given = attributes.get(MESH_SHARDING)
        return None if given is None else self.meshes.sharding(given)

    def _set_sharding(self, results: Sequence[Instruction], sharding: Sharding) -> None:
        """Sets the sharding of an operation's results: a tuple sharding has one element per result.

        Any other sharding applies to every result. The instruction that the results are elements of gets the tuple.
        """
        parts = sharding.elements if sharding.kind is ShardingKind.TUPLE else (sharding,) * len(results)
        if len(results) == 1:
            results[0].sharding = sharding.for_shape(results[0].shape)
            results[0].sharding.check(results[0].shape)
            return
        if len(parts) != len(results):
            raise ShapeError(
                operation_codes.SHARDING_COUNT,
                f"sharding {sharding} has {len(parts)} elements for {len(results)} results",
            )
        for result, part in zip(results, parts, strict=True):
            part.check(result.shape)
            result.sharding = part
        producer = results[0].operands[0] if results[0].op is opcodes.GET_TUPLE_ELEMENT else None
        if producer is not None and len(producer.shape.tuple_shapes) == len(parts):
            producer.sharding = Sharding(ShardingKind.TUPLE, elements=tuple(parts))

    def annotate_arguments(self, function: ir.Operation, parameters: Sequence[Instruction]) -> None:
        """Sets the shardings, frontend attributes and replication of the entry's parameters."""
        for parameter, attributes in zip(parameters, argument_attributes(function, len(parameters)), strict=True):
            sharding = self.sharding(attributes)
            if sharding is not None:
                sharding = sharding.for_shape(parameter.shape)
                sharding.check(parameter.shape)
            parameter.sharding = sharding
            parameter.frontend_attributes = frontend_attributes(attributes)
            replication = attributes.get("mhlo.parameter_replication")
            if isinstance(replication, tuple) and replication:
                parameter.attributes = parameter.attributes.replace(
                    parameter_replication=tuple([bool(each) for each in replication])
                )


def _parse_sharding(text: str) -> Sharding:
    if text.lstrip().startswith("{"):
        return Sharding.parse(text)
    return read_sharding(decode("OpSharding", as_bytes(text)))


def argument_attributes(function: ir.Operation, count: int) -> list[Mapping[str, Any]]:
    """Returns the attributes of each argument of a function."""
    return _dictionaries(function, "arg_attrs", count)


def result_attributes(function: ir.Operation, count: int) -> list[Mapping[str, Any]]:
    """Returns the attributes of each result of a function."""
    return _dictionaries(function, "res_attrs", count)


def _dictionaries(function: ir.Operation, name: str, count: int) -> list[Mapping[str, Any]]:
    given: Any = function.attributes.get(name) or ({},) * count
    if not isinstance(given, tuple) or len(given) != count or not all(isinstance(each, dict) for each in given):
        raise ShapeError(
            codes.ATTRIBUTE_KIND, f"{name} must be a list of {count} dictionaries, but is {describe(given)}"
        )
    return list(given)


def frontend_attributes(attributes: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the strings in `mhlo.frontend_attributes` by name, or None if there are none."""
    given = attributes.get(FRONTEND)
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"{FRONTEND} must be a dictionary of strings, but is {describe(given)}")
    return {name: given[name] for name in sorted(given)} or None


def _accuracy_text(given: Any) -> str:
    """Returns the HLO text of `#stablehlo.result_accuracy<...>`, or "" for the default accuracy."""
    if not isinstance(given, ir.StructAttribute):
        return ""
    mode = given.fields.get("mode", "DEFAULT")
    if mode == "TOLERANCE":
        atol, rtol = (FLOAT.write(_as_float(given.fields.get(name, 0.0))) for name in ("atol", "rtol"))
        return f"tolerance={{atol={atol},rtol={rtol},ulps={as_integer(given.fields.get('ulps', 0), 'ulps')}}}"
    return "mode=highest" if mode == "HIGHEST" else ""


def _as_float(value: Any) -> float:
    if isinstance(value, ir.FloatAttribute):
        return value.value
    if not isinstance(value, int | float):
        raise ShapeError(codes.ATTRIBUTE_KIND, f"a tolerance must be a number, but is {describe(value)}")
    return float(value)

"""What programs say about operations beside their meaning: shardings, frontend attributes, accuracies.

Owns: `Annotations`: which attributes those are, and where HLO keeps them. Must not know: what operations compute.
Shardings come as HLO's own text (`mhlo.sharding`), as a serialized OpSharding, or over the named axes of a mesh
(`sdy.sharding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.opcodes.attributes.codecs import FLOAT
from xlapy.proto.meshes import read_sharding
from xlapy.proto.messages import decode
from xlapy.proto.metadata import as_bytes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import shown
from xlapy.stablehlo.importing.core.meshes import Meshes

if TYPE_CHECKING:
    from xlapy.stablehlo.importing.core.scope import Scope

SHARDING, MESH_SHARDING = "mhlo.sharding", "sdy.sharding"
FRONTEND, ACCURACY = "mhlo.frontend_attributes", "result_accuracy"
_NAMES = frozenset({SHARDING, MESH_SHARDING, FRONTEND, ACCURACY})


class Annotations:
    """Reads the annotations of one program."""

    def __init__(self, root: ir.Operation) -> None:
        self.meshes = Meshes(root)

    def concerns(self, operation: ir.Operation) -> bool:
        """Whether an operation is annotated at all."""
        return not _NAMES.isdisjoint(operation.attributes)

    def frontend_attributes(self, operation: ir.Operation) -> dict[str, str] | None:
        return frontend_attributes(operation.attributes)

    def annotate(self, operation: ir.Operation, results: Sequence[Instruction]) -> None:
        """Puts the sharding and the accuracy of an operation on the instructions of its results."""
        sharding = self.sharding(operation.attributes)
        if sharding is not None and results:
            self._shard(results, sharding)
        accuracy = _accuracy_text(operation.attributes.get(ACCURACY))
        if accuracy:
            for result in results:
                result.result_accuracy = accuracy

    def sharding(self, attributes: Mapping[str, Any]) -> Sharding | None:
        """The sharding in an operation's, argument's or result's attributes."""
        given = attributes.get(SHARDING)
        if given is not None:
            if not isinstance(given, str):
                raise ShapeError(f"{SHARDING} must be text, it is {shown(given)}")
            if given.lstrip().startswith("{"):
                return Sharding.parse(given)
            return read_sharding(decode("OpSharding", as_bytes(given)))
        given = attributes.get(MESH_SHARDING)
        return None if given is None else self.meshes.sharding(given)

    def _shard(self, results: Sequence[Instruction], sharding: Sharding) -> None:
        """A tuple of shardings has one for each result; one sharding is for all."""
        parts = sharding.elements if sharding.kind is ShardingKind.TUPLE else (sharding,) * len(results)
        if len(results) == 1:
            results[0].sharding = sharding.for_shape(results[0].shape)
            results[0].sharding.check(results[0].shape)
            return
        if len(parts) != len(results):
            raise ShapeError(f"sharding {sharding} has {len(parts)} elements for {len(results)} results")
        for result, part in zip(results, parts, strict=True):
            part.check(result.shape)
            result.sharding = part
        producer = results[0].operands[0] if results[0].op is opcodes.GET_TUPLE_ELEMENT else None
        if producer is not None and len(producer.shape.tuple_shapes) == len(parts):
            producer.sharding = Sharding(ShardingKind.TUPLE, elements=tuple(parts))

    def annotate_arguments(self, function: ir.Operation, parameters: Sequence[Instruction]) -> None:
        """Shardings, frontend attributes and replication of the entry's parameters."""
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

    def result(self, function: ir.Operation, results: Sequence[Instruction], scope: Scope) -> Instruction:
        """The entry's root: one result or the tuple of them, with the shardings that the function declares.

        As in XLA, one result with a sharding of its own stands behind a reshape that has it.
        """
        shardings = [self.sharding(attributes) for attributes in result_attributes(function, len(results))]
        root = scope.packed(results)
        if len(results) != 1:
            if any(shardings):
                parts = tuple([sharding or Sharding(ShardingKind.UNKNOWN) for sharding in shardings])
                root.sharding = Sharding(ShardingKind.TUPLE, elements=parts)
                root.sharding.check(root.shape)
        elif shardings[0] is not None:
            root = scope.emit(opcodes.RESHAPE, (root,), shape=root.shape)
            root.sharding = shardings[0].for_shape(root.shape)
            root.sharding.check(root.shape)
        return root


def argument_attributes(function: ir.Operation, count: int) -> list[Mapping[str, Any]]:
    """The attributes of each argument of a function."""
    return _dictionaries(function, "arg_attrs", count)


def result_attributes(function: ir.Operation, count: int) -> list[Mapping[str, Any]]:
    """The attributes of each result of a function."""
    return _dictionaries(function, "res_attrs", count)


def _dictionaries(function: ir.Operation, name: str, count: int) -> list[Mapping[str, Any]]:
    given: Any = function.attributes.get(name) or ({},) * count
    if not isinstance(given, tuple) or len(given) != count or not all(isinstance(each, dict) for each in given):
        raise ShapeError(f"{name} must be a list of {count} dictionaries, it is {shown(given)}")
    return list(given)


def frontend_attributes(attributes: Mapping[str, Any]) -> dict[str, str] | None:
    """`mhlo.frontend_attributes`: text by name; None if there are none."""
    given = attributes.get(FRONTEND)
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ShapeError(f"{FRONTEND} must be a dictionary of texts, it is {shown(given)}")
    return {name: given[name] for name in sorted(given)} or None


def _accuracy_text(given: Any) -> str:
    """`#stablehlo.result_accuracy<...>` as HLO text has it; "" for the default."""
    if not isinstance(given, ir.StructAttribute):
        return ""
    mode = given.fields.get("mode", "DEFAULT")
    if mode == "TOLERANCE":
        atol, rtol = (FLOAT.write(_as_float(given.fields.get(name, 0.0))) for name in ("atol", "rtol"))
        return f"tolerance={{atol={atol},rtol={rtol},ulps={given.fields.get('ulps', 0)}}}"
    return "mode=highest" if mode == "HIGHEST" else ""


def _as_float(value: Any) -> float:
    return value.value if isinstance(value, ir.FloatAttribute) else float(value)

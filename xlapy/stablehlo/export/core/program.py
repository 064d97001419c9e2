"""A module of HLO as a whole StableHLO program.

Owns: the entry with its arguments and results, functions for computations that are called, attributes of the module.
Must not know: particular ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.names import NameUniquer
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.annotations import SHARDING, said_by, sharding_text
from xlapy.stablehlo.export.core.attributes import integer, integers
from xlapy.stablehlo.export.core.locations import Locations
from xlapy.stablehlo.export.core.losses import Losses
from xlapy.stablehlo.export.core.scope import Scope, flat
from xlapy.stablehlo.export.core.types import leaves

_I32 = ir.ScalarType(PrimitiveType.S32)
_MAIN = "main"
_HOST_MEMORY = 5


class Program:
    """One module on its way."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.locations = Locations(module.stack_frames)
        self.losses = Losses()
        self._names = NameUniquer()
        self._names.unique(_MAIN)
        self._functions: dict[Computation, str] = {}
        self._pending: list[Computation] = []
        self._block = ir.Block()

    def export(self) -> ir.Operation:
        """The `builtin.module` of it, with the function @main first."""
        config = self.module.config
        attributes: dict[str, Any] = {
            "sym_name": self.module.name,
            "mhlo.num_partitions": ir.IntegerAttribute(config.num_partitions, _I32),
            "mhlo.num_replicas": ir.IntegerAttribute(config.replica_count, _I32),
        }
        if config.frontend_attributes:
            attributes["mhlo.frontend_attributes"] = dict(config.frontend_attributes)
        aliases = self._aliases()
        if aliases:
            attributes["mhlo.input_output_alias"] = aliases
        main = self._function(self.module.entry_computation, _MAIN, "public")
        self._sign(main)
        self._block.operations.append(main)
        while self._pending:
            computation = self._pending.pop(0)
            self._block.operations.append(self._function(computation, self._functions[computation], "private"))
        self.losses.look_at_module(self.module)
        self.losses.tell(self.module)
        return ir.Operation("builtin.module", attributes=attributes, regions=[ir.Region([self._block])])

    def signs(self, instruction: Instruction, what: str) -> bool:
        """Whether the signature says it: all of the entry's arguments, of the tuple that it gives the sharding."""
        if instruction.parent is not self.module.entry_computation:
            return False
        is_result = instruction.op is opcodes.TUPLE and instruction.is_root
        return instruction.op is opcodes.PARAMETER or (is_result and what == SHARDING)

    def function(self, computation: Computation) -> str:
        """The name of the function that a computation is, made once, when its callers stand."""
        if computation not in self._functions:
            self._functions[computation] = self._names.unique(computation.name)
            self._pending.append(computation)
        return self._functions[computation]

    def _function(self, computation: Computation, name: str, visibility: str) -> ir.Operation:
        scope = Scope(self)
        operands = [scope.arguments(parameter) for parameter in computation.parameters]
        results = scope.run(computation, operands)
        block = scope.finish("func.return", results)
        type_ = ir.FunctionType(
            tuple(argument.type for argument in block.arguments), tuple(value.type for value in flat(results))
        )
        attributes = {"sym_name": name, "sym_visibility": visibility, "function_type": type_}
        return ir.Operation("func.func", attributes=attributes, regions=[ir.Region([block])])

    # -- what the entry says of its arguments and results

    def _sign(self, main: ir.Operation) -> None:
        entry, config = self.module.entry_computation, self.module.config
        layout = config.entry_computation_layout
        block = main.regions[0].blocks[0]
        notes: list[dict[str, Any]] = []
        for number, parameter in enumerate(entry.parameters):
            shape = layout.parameters[number] if layout is not None else parameter.shape
            notes += self._argument_notes(parameter, shape, number)
        for argument, location in zip(block.arguments, self._argument_locations(), strict=True):
            argument.location = location
        self._note(main, "arg_attrs", notes)
        result = layout.result if layout is not None else entry.root_instruction.shape
        self._note(main, "res_attrs", self._result_notes(entry.root_instruction, result))

    @staticmethod
    def _result_notes(root: Instruction, result: Shape) -> list[dict[str, Any]]:
        """Placement, and of a tuple's root, which no operation stands for, the shardings."""
        parts = leaves(result)
        notes = [_placement(leaf) for leaf in parts]
        sharding = root.sharding if root.op is opcodes.TUPLE else None
        if sharding is not None:
            elements = sharding.elements if len(sharding.elements) == len(parts) else (sharding,) * len(parts)
            for note, element in zip(notes, elements, strict=True):
                note["mhlo.sharding"] = sharding_text(element)
        return notes

    def _argument_notes(self, parameter: Instruction, shape: Shape, number: int) -> list[dict[str, Any]]:
        """For each leaf: donation, placement, and what the parameter is annotated with, shardings leaf by leaf."""
        said = said_by(parameter)
        found: list[dict[str, Any]] = []
        for position, (index, leaf) in enumerate(shape.leaves()):
            note = {**_placement(leaf), **self._donation(number, index)}
            if parameter.parameter_replication:
                note["mhlo.parameter_replication"] = (parameter.parameter_replication[position],)
            if parameter.shape.is_tuple and parameter.sharding is not None:
                elements = parameter.sharding.elements
                part = elements[position] if len(elements) > position else parameter.sharding
                note["mhlo.sharding"] = sharding_text(part)
                note |= {key: value for key, value in said.items() if key != "mhlo.sharding"}
            else:
                note |= said
            found.append(note)
        return found

    def _donation(self, number: int, index: tuple[int, ...]) -> dict[str, Any]:
        config = self.module.config
        for alias in config.input_output_alias:
            if (alias.parameter_number, alias.parameter_index) == (number, index):
                return {
                    "tf.aliasing_output": ir.IntegerAttribute(self._result_places().index(alias.output_index), _I32)
                }
        if any((donor.parameter_number, donor.parameter_index) == (number, index) for donor in config.buffer_donors):
            return {"jax.buffer_donor": True}
        return {}

    def _result_places(self) -> list[tuple[int, ...]]:
        return [path for path, _ in self.module.entry_computation.root_instruction.shape.leaves()]

    def _aliases(self) -> tuple[dict[str, Any], ...]:
        """All aliases, where some must be: arguments cannot say that one by one."""
        aliases = self.module.config.input_output_alias
        if not any(alias.must for alias in aliases):
            return ()
        parameters = self.module.entry_computation.parameters
        places = [(number, path) for number, each in enumerate(parameters) for path, _ in each.shape.leaves()]
        results = self._result_places()
        found = []
        for alias in aliases:
            number = places.index((alias.parameter_number, alias.parameter_index))
            output = [results.index(alias.output_index)] if len(results) > 1 else []
            parameter = {
                "kind": "must_alias" if alias.must else "may_alias",
                "parameter_index": integers([]),
                "parameter_number": integer(number),
            }
            found.append({"alias": parameter, "output_index": integers(output)})
        return tuple(found)

    def _argument_locations(self) -> list[ir.FileLocation]:
        return [
            self.locations.of(parameter.metadata)
            for parameter in self.module.entry_computation.parameters
            for _ in leaves(parameter.shape)
        ]

    @staticmethod
    def _note(function: ir.Operation, name: str, notes: Sequence[dict[str, Any]]) -> None:
        if any(notes):
            function.attributes[name] = tuple(notes)


def _placement(shape: Shape) -> dict[str, Any]:
    """The layout and the memory of a part of the signature, where they are not the default ones."""
    layout = shape.layout
    if not shape.is_array or layout is None:
        return {}
    found: dict[str, Any] = {}
    if layout.minor_to_major != Layout.default(shape.rank).minor_to_major:
        found["mhlo.layout_mode"] = Layout(layout.minor_to_major).to_text()
    if layout.memory_space == _HOST_MEMORY:
        found["mhlo.memory_kind"] = "pinned_host"
    return found

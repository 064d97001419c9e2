"""Exports an HLO module as a StableHLO program.

Responsible for the entry function with its signature, the functions of called computations, the attributes of the
module, and the selection of export rules. Does not depend on particular opcodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.builder.mathematics.decompositions import decomposition_of
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.names import NameUniquer
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.elementwise_operations import composite_name
from xlapy.stablehlo.export.core.annotations import SHARDING, annotation_attributes, sharding_text
from xlapy.stablehlo.export.core.attributes import integer, integers
from xlapy.stablehlo.export.core.block_builder import BlockBuilder, ModuleContext, most_instructions
from xlapy.stablehlo.export.core.dropped import DroppedInformation
from xlapy.stablehlo.export.core.locations import LocationExporter
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import leaves
from xlapy.stablehlo.export.core.value_tree import ValueTree, flatten

_I32 = ir.ScalarType(PrimitiveType.S32)
_MAIN = "main"
_HOST_MEMORY_SPACE = 5
"""XLA's memory space of host memory, `pinned_host` in JAX."""


class ModuleExporter(ModuleContext):
    """Exports one module. `dropped` collects what StableHLO cannot express."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.locations = LocationExporter(module.stack_frames)
        self.dropped = DroppedInformation()
        self.instructions_left = most_instructions(module)
        self._names = NameUniquer()
        self._names.unique(_MAIN)
        self._functions: dict[Computation, str] = {}
        self._pending: list[Computation] = []
        self._decompositions: dict[tuple[OpDef, Shape], Computation] = {}
        self._block = ir.Block()

    def export(self) -> ir.Operation:
        """Returns the `builtin.module` operation, with the function @main first, and logs what was dropped."""
        config = self.module.config
        attributes: dict[str, Any] = {
            "sym_name": self.module.name,
            "mhlo.num_partitions": ir.IntegerAttribute(config.num_partitions, _I32),
            "mhlo.num_replicas": ir.IntegerAttribute(config.replica_count, _I32),
        }
        if config.frontend_attributes:
            attributes["mhlo.frontend_attributes"] = dict(config.frontend_attributes)
        aliases = self._module_aliases()
        if aliases:
            attributes["mhlo.input_output_alias"] = aliases
        main = self._export_function(self.module.entry_computation, _MAIN, "public")
        self._set_signature_attributes(main)
        self._block.operations.append(main)
        while self._pending:
            computation = self._pending.pop(0)
            name = self._functions[computation]
            self._block.operations.append(self._export_function(computation, name, "private"))
        self.dropped.check_module(self.module)
        self.dropped.log_warning(self.module)
        return ir.Operation("builtin.module", attributes=attributes, regions=[ir.Region([self._block])])

    def apply_rule(self, builder: BlockBuilder, instruction: Instruction) -> ValueTree:
        """Emits the operations of an instruction by its export rule and returns the values of its result."""
        if instruction.op not in RULES:
            reason = RULES.refusals.get(instruction.op, "StableHLO has no operation for it")
            raise UnsupportedError(codes.EXPORTED_OPERATION, f"it cannot be exported to StableHLO: {reason}")
        return RULES.find(instruction.op)(builder, instruction)

    def is_in_signature(self, instruction: Instruction, attribute: str) -> bool:
        """Returns whether an annotation of an instruction is part of the entry function's signature.

        The signature holds all annotations of the entry's parameters, and the sharding of the tuple that it returns.
        """
        if instruction.parent is not self.module.entry_computation:
            return False
        is_result = instruction.op is opcodes.TUPLE and instruction.is_root
        return instruction.op is opcodes.PARAMETER or (is_result and attribute == SHARDING)

    def function_name(self, computation: Computation) -> str:
        """Returns the name of the function that a called computation is exported as.

        The function is exported after the functions that are in progress, so that calls do not nest the export.
        """
        if computation not in self._functions:
            self._functions[computation] = self._names.unique(computation.name)
            self._pending.append(computation)
        return self._functions[computation]

    def decomposition(self, instruction: Instruction) -> Computation:
        """Returns the decomposition of a unary instruction; instructions of one opcode and shape share it."""
        op, shape = instruction.op, instruction.operands[0].shape.without_layout()
        if (op, shape) not in self._decompositions:
            self._decompositions[op, shape] = decomposition_of(op, shape, f"{composite_name(op)}.impl")
        return self._decompositions[op, shape]

    def _export_function(self, computation: Computation, name: str, visibility: str) -> ir.Operation:
        builder = BlockBuilder(self)
        operands = [builder.add_arguments(parameter) for parameter in computation.parameters]
        results = builder.export_computation(computation, operands)
        block = builder.finish("func.return", results)
        type_ = ir.FunctionType(
            tuple(argument.type for argument in block.arguments), tuple(value.type for value in flatten(results))
        )
        attributes = {"sym_name": name, "sym_visibility": visibility, "function_type": type_}
        return ir.Operation("func.func", attributes=attributes, regions=[ir.Region([block])])

    # -- attributes of the entry's arguments and results

    def _set_signature_attributes(self, main: ir.Operation) -> None:
        entry, config = self.module.entry_computation, self.module.config
        layout = config.entry_computation_layout
        block = main.regions[0].blocks[0]
        attributes: list[dict[str, Any]] = []
        for number, parameter in enumerate(entry.parameters):
            shape = layout.parameters[number] if layout is not None else parameter.shape
            attributes += self._argument_attributes(parameter, shape, number)
        for argument, location in zip(block.arguments, self._argument_locations(), strict=True):
            argument.location = location
        self._set_dictionaries(main, "arg_attrs", attributes)
        result = layout.result if layout is not None else entry.root_instruction.shape
        self._set_dictionaries(main, "res_attrs", self._result_attributes(entry.root_instruction, result))

    @staticmethod
    def _result_attributes(root: Instruction, result: Shape) -> list[dict[str, Any]]:
        """Returns the layout and memory of each result and, for a tuple as root, its sharding.

        No operation is emitted for the tuple, so that its sharding can only be part of the signature.
        """
        result_leaves = leaves(result)
        attributes = [_layout_and_memory(leaf) for leaf in result_leaves]
        sharding = root.sharding if root.op is opcodes.TUPLE else None
        if sharding is not None:
            count = len(result_leaves)
            elements = sharding.elements if len(sharding.elements) == count else (sharding,) * count
            for of_result, element in zip(attributes, elements, strict=True):
                of_result["mhlo.sharding"] = sharding_text(element)
        return attributes

    def _argument_attributes(self, parameter: Instruction, shape: Shape, number: int) -> list[dict[str, Any]]:
        """Returns the attributes of the arguments that a parameter becomes, one per leaf of its shape.

        They hold the layout and memory, donation and aliasing, replication, and the annotations of the parameter with
        the leaf's element of its sharding.
        """
        annotations = annotation_attributes(parameter)
        replication = parameter.attributes_as(ParameterAttributes).parameter_replication
        attributes: list[dict[str, Any]] = []
        for position, (index, leaf) in enumerate(shape.leaves()):
            of_leaf = {**_layout_and_memory(leaf), **self._donation(number, index)}
            if replication:
                of_leaf["mhlo.parameter_replication"] = (replication[position],)
            if parameter.shape.is_tuple and parameter.sharding is not None:
                elements = parameter.sharding.elements
                sharding = elements[position] if len(elements) > position else parameter.sharding
                of_leaf["mhlo.sharding"] = sharding_text(sharding)
                of_leaf |= {key: value for key, value in annotations.items() if key != "mhlo.sharding"}
            else:
                of_leaf |= annotations
            attributes.append(of_leaf)
        return attributes

    def _donation(self, number: int, index: tuple[int, ...]) -> dict[str, Any]:
        """Returns the attribute for aliasing or donation of the leaf at `index` of parameter `number`, if any."""
        config = self.module.config
        for alias in config.input_output_alias:
            if (alias.parameter_number, alias.parameter_index) == (number, index):
                return {
                    "tf.aliasing_output": ir.IntegerAttribute(self._result_indices().index(alias.output_index), _I32)
                }
        if any((donor.parameter_number, donor.parameter_index) == (number, index) for donor in config.buffer_donors):
            return {"jax.buffer_donor": True}
        return {}

    def _result_indices(self) -> list[tuple[int, ...]]:
        return [index for index, _ in self.module.entry_computation.root_instruction.shape.leaves()]

    def _module_aliases(self) -> tuple[dict[str, Any], ...]:
        """Returns all aliases as an attribute of the module if any is a must-alias, else ().

        Attributes of arguments can only express may-alias.
        """
        aliases = self.module.config.input_output_alias
        if not any(alias.must for alias in aliases):
            return ()
        parameters = self.module.entry_computation.parameters
        arguments = [(number, index) for number, each in enumerate(parameters) for index, _ in each.shape.leaves()]
        results = self._result_indices()
        entries = []
        for alias in aliases:
            number = arguments.index((alias.parameter_number, alias.parameter_index))
            output = [results.index(alias.output_index)] if len(results) > 1 else []
            parameter = {
                "kind": "must_alias" if alias.must else "may_alias",
                "parameter_index": integers([]),
                "parameter_number": integer(number),
            }
            entries.append({"alias": parameter, "output_index": integers(output)})
        return tuple(entries)

    def _argument_locations(self) -> list[ir.FileLocation]:
        return [
            self.locations.location_of(parameter.metadata)
            for parameter in self.module.entry_computation.parameters
            for _ in leaves(parameter.shape)
        ]

    @staticmethod
    def _set_dictionaries(function: ir.Operation, name: str, dictionaries: Sequence[dict[str, Any]]) -> None:
        if any(dictionaries):
            function.attributes[name] = tuple(dictionaries)


def _layout_and_memory(shape: Shape) -> dict[str, Any]:
    """Returns the attributes for the layout and memory space of an argument or result, if they are not the default."""
    layout = shape.layout
    if not shape.is_array or layout is None:
        return {}
    attributes: dict[str, Any] = {}
    if layout.minor_to_major != Layout.default(shape.rank).minor_to_major:
        attributes["mhlo.layout_mode"] = Layout(layout.minor_to_major).to_text()
    if layout.memory_space == _HOST_MEMORY_SPACE:
        attributes["mhlo.memory_kind"] = "pinned_host"
    return attributes

"""Loads the programs that JAX compiles: returns the HLO module that one partition runs.

JAX passes one program for all devices, with shardings of the Shardy dialect. Shardy's propagation passes, which jaxlib
contains, assign a sharding to every value. (Its partitioning passes are not used, because they abort the process on
some programs.)

Responsible for the formats of programs and for which reader handles them. Does not depend on handles, devices, or how
programs are partitioned.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from xlapy import opcodes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.logging import logger
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.interpreter.custom import IDENTITY_TARGETS
from xlapy.passes.layouts.entry_layouts import Order, preferred_result_orders, transpose_entry_arrays
from xlapy.pjrt.compile.custom_partitioning import partition_custom_call
from xlapy.pjrt.compile.inspect_sharding import inspect
from xlapy.pjrt.jax.callbacks import PARTITIONED_TARGET
from xlapy.pjrt.objects.layouts import rank_of_parameter, row_major
from xlapy.spmd import partition
from xlapy.stablehlo.parse import parse_stablehlo

_PROPAGATION_PIPELINE = "builtin.module(sdy-propagation-pipeline)"
"""Pipeline that derives a sharding for every value from those that the program declares."""

_UNWANTED_PASSES = ("sdy-save-module", "sdy-update-non-divisible-input-output-shardings")
"""Passes of that pipeline that are left out: one for debugging, and one that leaves the dimensions of arguments and
results of all functions whole unless they divide evenly. The partitioner does the latter for the entry function."""

_ARTIFACT_VERSION = "1.17.0"
"""Version of the portable artifacts that are written for xlapy's StableHLO reader."""

_PORTABLE_ARTIFACT_PREFIX = b"ML\xefR\rStableHLO_v"
"""First bytes of portable artifacts: bytecode of version 6 that StableHLO produced."""

_MANUAL_COMPUTATION = b"manual_computation"
"""Occurs in programs that define what each device does, even for a single device."""

_MEMORY_KIND_ATTRIBUTE = "mhlo.memory_kind"
"""Attribute of a result that names its memory kind."""

_LAYOUT_ATTRIBUTE = "mhlo.layout_mode"
"""Attribute of an argument or result that gives its layout: as text, or `auto`, or `default`."""

_SHARDY_PREFIX = "xla.sdy."
"""Prefix of custom-call targets that annotate a sharding and act as identities, like `IDENTITY_TARGETS`."""

_CONTROL_DEPENDENCY_TARGET = "control_dep"
"""Custom-call target that only orders the computation of its first operand before that of its second."""


@dataclass(frozen=True)
class Placement:
    """Where the arrays of a program are placed. An empty field means the default for all.

    parameter_shardings, result_shardings: how each is sharded over the partitions, None if it is not. memory_kinds,
    parameter_memory_kinds: the memory kind of each result and parameter, "" for the default. parameter_orders,
    result_orders: the order of the dimensions in memory.
    """

    parameter_shardings: tuple[Sharding | None, ...] = ()
    result_shardings: tuple[Sharding | None, ...] = ()
    memory_kinds: tuple[str, ...] = ()
    parameter_orders: tuple[Order, ...] = ()
    result_orders: tuple[Order, ...] = ()
    parameter_memory_kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartitionedProgram:
    """A loaded program: the module that each partition runs, and the placement of its arrays."""

    module: Module
    placement: Placement = field(default_factory=Placement)


def load_program(code: bytes, format: str, partitions: int = 1) -> PartitionedProgram:
    """Returns the module of a program. format: `mlir` for StableHLO (text, bytecode or portable artifact), `hlo` for an
    HloModuleProto.

    `InvalidArgumentError` for programs that cannot be read, `UnsupportedError` for other formats.
    """
    if format == "hlo":
        return PartitionedProgram(Module.from_proto(code, verify=False))
    if format != "mlir":
        raise UnsupportedError(
            codes.PROGRAM_FORMAT, f"programs of format {format!r} are not supported; mlir and hlo are"
        )
    arguments, results = (
        _requested_placements(code)
        if _MEMORY_KIND_ATTRIBUTE.encode() in code or _LAYOUT_ATTRIBUTE.encode() in code
        else ((), ())
    )
    kinds = [tuple(one.get(_MEMORY_KIND_ATTRIBUTE, "") for one in row) for row in (arguments, results)]
    placement = Placement(parameter_memory_kinds=kinds[0], memory_kinds=kinds[1])
    is_partitioned = partitions > 1 or _MANUAL_COMPUTATION in code
    module = _without_control_dependencies(_read_with_propagation(code) if is_partitioned else _read(code))
    placement = _with_orders(module, placement, arguments, results)
    if is_partitioned:
        custom_partitioner = functools.partial(partition_custom_call, _read)
        partitioned = partition(
            module, partitions, frozenset({PARTITIONED_TARGET}), inspect, custom_partitioner, propagate=False
        )
        placement = replace(placement, parameter_shardings=partitioned.parameters, result_shardings=partitioned.results)
    if placement.parameter_orders or placement.result_orders:
        transpose_entry_arrays(module, placement.parameter_orders, placement.result_orders)
    return PartitionedProgram(_without_annotations(module), placement)


def _read(code: bytes) -> Module:
    if code.startswith(_PORTABLE_ARTIFACT_PREFIX):
        try:
            return parse_stablehlo(code, verify=False)
        except UnsupportedError as error:
            logger.info("jaxlib reads a program that xlapy's reader does not support: %s", error)
    return _read_with_jaxlib(code)


def _read_with_jaxlib(code: bytes) -> Module:
    """Reads programs that are not portable artifacts or that xlapy's readers do not support."""
    try:
        with mlir.make_ir_context() as context:
            bytecode = bytes(mlir.module_to_bytecode(_parsed(code, context)))
        computation = _jax.mlir.mlir_module_to_xla_computation(bytecode, use_tuple_args=False, return_tuple=True)
    except Exception as error:
        raise InvalidArgumentError(codes.PROGRAM_TEXT, f"the program cannot be read as StableHLO: {error}") from error
    return Module.from_proto(computation.as_serialized_hlo_module_proto(), verify=False)


def _parsed(code: bytes, context: ir.Context) -> ir.Module:
    portable = code.startswith(b"ML\xefR")
    return _jax.mlir.deserialize_portable_artifact(code, context) if portable else ir.Module.parse(code, context)


def _read_with_propagation(code: bytes) -> Module:
    """Reads a program and propagates shardings to every value."""
    with mlir.make_ir_context() as context:
        try:
            artifact = stablehlo.serialize_portable_artifact(_with_shardings(code, context), _ARTIFACT_VERSION, True)
            return parse_stablehlo(artifact)
        except (UnsupportedError, ValueError) as error:
            logger.info("a program cannot be written as a portable artifact and is read as text: %s", error)
            return parse_stablehlo(str(_with_shardings(code, context)))


def _with_shardings(code: bytes, context: ir.Context) -> ir.Module:
    try:
        module = _parsed(code, context)
        _propagation_passes().run(module.operation)
        return module
    except Exception as error:
        raise InvalidArgumentError(codes.PROGRAM_TEXT, f"the program cannot be read as StableHLO: {error}") from error


def _propagation_passes() -> passmanager.PassManager:
    """Returns the passes of the propagation pipeline; all of them if another version of it cannot be taken apart."""
    pipeline = passmanager.PassManager.parse(_PROPAGATION_PIPELINE)
    wanted = str(pipeline)
    for name in _UNWANTED_PASSES:
        wanted = wanted.replace(f"{name},", "")
    try:
        return passmanager.PassManager.parse(wanted)
    except ValueError as error:
        logger.info("the passes of the propagation pipeline cannot be chosen: %s", error)
        return pipeline


_Attributes = Sequence[Mapping[str, str]]


def _requested_placements(code: bytes) -> tuple[_Attributes, _Attributes]:
    """The requested memory kinds and layouts of each argument and of each result."""
    with mlir.make_ir_context() as context:
        functions = _parsed(code, context).body
        main = next(one for one in functions if ir.StringAttr(one.operation.attributes["sym_name"]).value == "main")
        type = ir.FunctionType(ir.TypeAttr(main.operation.attributes["function_type"]).value)
        arguments = _string_attributes(main, "arg_attrs", len(type.inputs))
        return arguments, _string_attributes(main, "res_attrs", len(type.results))


def _string_attributes(function: Any, attribute: str, count: int) -> _Attributes:
    if attribute not in function.operation.attributes:
        return [{}] * count
    rows = map(ir.DictAttr, ir.ArrayAttr(function.operation.attributes[attribute]))
    return [
        {name: ir.StringAttr(row[name]).value for name in (_MEMORY_KIND_ATTRIBUTE, _LAYOUT_ATTRIBUTE) if name in row}
        for row in rows
    ]


def _with_orders(module: Module, placement: Placement, arguments: _Attributes, results: _Attributes) -> Placement:
    """Adds the requested dimension orders of parameters and results."""
    if all(one.get(_LAYOUT_ATTRIBUTE, "default") == "default" for one in (*arguments, *results)):
        return placement
    shape = module.entry_computation.program_shape
    leaves = shape.result.tuple_shapes if shape.result.is_tuple else (shape.result,)
    parameter_orders = [
        _requested_dimension_order(one.get(_LAYOUT_ATTRIBUTE, ""), rank_of_parameter(leaf))
        for one, leaf in zip(arguments, shape.parameters, strict=True)
    ]
    result_orders = [
        natural
        if one.get(_LAYOUT_ATTRIBUTE) == "auto"
        else _requested_dimension_order(one.get(_LAYOUT_ATTRIBUTE, ""), leaf.rank)
        for one, leaf, natural in zip(results, leaves, preferred_result_orders(module, parameter_orders), strict=True)
    ]
    return replace(placement, parameter_orders=tuple(parameter_orders), result_orders=tuple(result_orders))


def _requested_dimension_order(text: str, rank: int) -> Order:
    """The order that a layout requests; row-major for the default, and where any order is allowed."""
    order = Layout.parse(text).minor_to_major[::-1] if text.startswith("{") else row_major(rank)
    if sorted(order) != list(row_major(rank)):
        raise InvalidArgumentError(codes.MEMORY_LAYOUT, f"the layout {text} does not order {rank} dimensions")
    return order


def _without_control_dependencies(module: Module) -> Module:
    """Removes the custom calls that only order computations. They have no results."""
    for instruction in list(module.instructions()):
        if instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target == _CONTROL_DEPENDENCY_TARGET:
            edit.remove_control_edges(instruction)
            edit.remove(instruction)
    return module


def _without_annotations(module: Module) -> Module:
    """Removes the custom calls that only annotate a value."""
    for instruction in [one for one in module.instructions() if _is_annotation(one)]:
        edit.replace_uses(instruction, instruction.operands[0])
        edit.remove_control_edges(instruction)
        edit.remove(instruction)
    return module


def _is_annotation(instruction: Instruction) -> bool:
    if instruction.op is not opcodes.CUSTOM_CALL:
        return False
    target = instruction.custom_call_target
    return (
        (target.startswith(_SHARDY_PREFIX) or target in IDENTITY_TARGETS)
        and len(instruction.operands) == 1
        and instruction.operands[0].shape.compatible(instruction.shape)
    )

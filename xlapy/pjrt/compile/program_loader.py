"""What JAX gives to compile, as a module of HLO for one of its partitions.

JAX hands over one program for all devices, with shardings of the Shardy dialect; the passes of that dialect, which
jaxlib has, give every value one. (Those of its passes that cut programs up end the process at some of them.)

Owns: formats of programs, what is read by whom. Must not know: handles, devices, how programs are cut up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo

from xlapy import opcodes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.logging import logger
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.interpreter.custom import IDENTITY_TARGETS
from xlapy.passes.layouts.entry_layouts import Order, lay_out, natural_orders
from xlapy.pjrt.compile.inspect_sharding import inspect
from xlapy.pjrt.jax.callbacks import PARTITIONED_TARGET
from xlapy.pjrt.objects.layouts import rank_of_parameter, row_major
from xlapy.spmd import partition
from xlapy.stablehlo.parse import parse_stablehlo

_PROPAGATE = "builtin.module(sdy-propagation-pipeline)"
"""Gives every value a sharding that follows from those which the program names."""

_VERSION = "1.17.0"
"""Of the artifacts that are written for the reader of the house."""

_PORTABLE = b"ML\xefR\rStableHLO_v"
"""How portable artifacts begin: bytecode of version 6, which StableHLO made."""

_MANUAL = b"manual_computation"
"""In programs that say what each device does, be it a single one."""

_KIND = "mhlo.memory_kind"
"""The attribute of a result that is to be in a kind of memory."""

_LAYOUT = "mhlo.layout_mode"
"""The attribute of an argument or a result that says its layout: as text, or `auto`, or `default`."""

_MARK = "xla.sdy."
"""How targets of custom calls begin that say something of a sharding and do nothing, as `IDENTITY_TARGETS` do."""

_SCHEDULE = "control_dep"
"""The target of custom calls that ask for their first operand to be computed before the second."""


@dataclass(frozen=True)
class Placement:
    """Where the arrays of a program are: how parameters and results are split over the partitions (None is not at all),
    in which kind of memory results are, "" for the default, and in which order the dimensions of parameters and results
    lie. A field without elements says that all are as usual."""

    parameters: tuple[Sharding | None, ...] = ()
    results: tuple[Sharding | None, ...] = ()
    kinds: tuple[str, ...] = ()
    parameter_orders: tuple[Order, ...] = ()
    result_orders: tuple[Order, ...] = ()


@dataclass(frozen=True)
class PartitionedProgram:
    """A program that has been read."""

    module: Module
    placement: Placement = field(default_factory=Placement)


def load_program(code: bytes, format: str, partitions: int = 1) -> PartitionedProgram:
    """The module of a program: `mlir` is StableHLO, as text, bytecode or portable artifact; `hlo` an HloModuleProto.

    `InvalidArgumentError` for what cannot be read, `UnsupportedError` for other formats.
    """
    if format == "hlo":
        return PartitionedProgram(Module.from_proto(code, verify=False))
    if format != "mlir":
        raise UnsupportedError(f"programs of format {format!r} are not supported; mlir and hlo are")
    arguments, results = _signature(code) if _KIND.encode() in code or _LAYOUT.encode() in code else ((), ())
    placement = Placement(kinds=tuple(one.get(_KIND, "") for one in results))
    is_cut = partitions > 1 or _MANUAL in code
    module = _unscheduled(_propagated(code) if is_cut else _read(code))
    placement = _in_order(module, placement, arguments, results)
    if is_cut:
        parts = partition(module, partitions, frozenset({PARTITIONED_TARGET}), inspect)
        placement = replace(placement, parameters=parts.parameters, results=parts.results)
    if placement.parameter_orders or placement.result_orders:
        lay_out(module, placement.parameter_orders, placement.result_orders)
    return PartitionedProgram(_unmarked(module), placement)


def _read(code: bytes) -> Module:
    if code.startswith(_PORTABLE):
        try:
            return parse_stablehlo(code, verify=False)
        except UnsupportedError as error:
            logger.info("a program is read by jaxlib: %s", error)
    return _through_jaxlib(code)


def _through_jaxlib(code: bytes) -> Module:
    """What is no artifact, and what the readers of the house refuse."""
    try:
        with mlir.make_ir_context() as context:
            bytecode = bytes(mlir.module_to_bytecode(_parsed(code, context)))
        computation = _jax.mlir.mlir_module_to_xla_computation(bytecode, use_tuple_args=False, return_tuple=True)
    except Exception as error:
        raise InvalidArgumentError(f"the program cannot be read as StableHLO: {error}") from error
    return Module.from_proto(computation.as_serialized_hlo_module_proto(), verify=False)


def _parsed(code: bytes, context: ir.Context) -> ir.Module:
    portable = code.startswith(b"ML\xefR")
    return _jax.mlir.deserialize_portable_artifact(code, context) if portable else ir.Module.parse(code, context)


def _propagated(code: bytes) -> Module:
    """A program with a sharding on every value."""
    with mlir.make_ir_context() as context:
        try:
            artifact = stablehlo.serialize_portable_artifact(_with_shardings(code, context), _VERSION, True)
            return parse_stablehlo(artifact)
        except (UnsupportedError, ValueError) as error:
            logger.info("a program has no artifact, and is read as text: %s", error)
            return parse_stablehlo(str(_with_shardings(code, context)))


def _with_shardings(code: bytes, context: ir.Context) -> ir.Module:
    try:
        module = _parsed(code, context)
        passmanager.PassManager.parse(_PROPAGATE).run(module.operation)
        return module
    except Exception as error:
        raise InvalidArgumentError(f"the program cannot be read as StableHLO: {error}") from error


_Texts = Sequence[Mapping[str, str]]


def _signature(code: bytes) -> tuple[_Texts, _Texts]:
    """The kinds of memory and the layouts that are asked for, of each argument and of each result."""
    with mlir.make_ir_context() as context:
        functions = _parsed(code, context).body
        main = next(one for one in functions if ir.StringAttr(one.operation.attributes["sym_name"]).value == "main")
        type = ir.FunctionType(ir.TypeAttr(main.operation.attributes["function_type"]).value)
        return _texts(main, "arg_attrs", len(type.inputs)), _texts(main, "res_attrs", len(type.results))


def _texts(function: Any, attribute: str, count: int) -> _Texts:
    if attribute not in function.operation.attributes:
        return [{}] * count
    rows = map(ir.DictAttr, ir.ArrayAttr(function.operation.attributes[attribute]))
    return [{name: ir.StringAttr(row[name]).value for name in (_KIND, _LAYOUT) if name in row} for row in rows]


def _in_order(module: Module, placement: Placement, arguments: _Texts, results: _Texts) -> Placement:
    """With the orders in which parameters and results are asked to lie."""
    if all(one.get(_LAYOUT, "default") == "default" for one in (*arguments, *results)):
        return placement
    shape = module.entry_computation.program_shape
    leaves = shape.result.tuple_shapes if shape.result.is_tuple else (shape.result,)
    given = [
        _order(one.get(_LAYOUT, ""), rank_of_parameter(leaf))
        for one, leaf in zip(arguments, shape.parameters, strict=True)
    ]
    wanted = [
        natural if one.get(_LAYOUT) == "auto" else _order(one.get(_LAYOUT, ""), leaf.rank)
        for one, leaf, natural in zip(results, leaves, natural_orders(module, given), strict=True)
    ]
    return replace(placement, parameter_orders=tuple(given), result_orders=tuple(wanted))


def _order(text: str, rank: int) -> Order:
    """What a layout says; row-major without one, and where any would do."""
    order = Layout.parse(text).minor_to_major[::-1] if text.startswith("{") else row_major(rank)
    if sorted(order) != list(row_major(rank)):
        raise InvalidArgumentError(f"the layout {text} does not order {rank} dimensions")
    return order


def _unscheduled(module: Module) -> Module:
    """Without the custom calls that only say what is to be computed first: their results are nothing."""
    for instruction in list(module.instructions()):
        if instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target == _SCHEDULE:
            edit.remove_control_edges(instruction)
            edit.remove(instruction)
    return module


def _unmarked(module: Module) -> Module:
    """Without the custom calls that only say something of a value."""
    for instruction in [one for one in module.instructions() if _is_mark(one)]:
        edit.replace_uses(instruction, instruction.operands[0])
        edit.remove_control_edges(instruction)
        edit.remove(instruction)
    return module


def _is_mark(instruction: Instruction) -> bool:
    if instruction.op is not opcodes.CUSTOM_CALL:
        return False
    target = instruction.custom_call_target
    return (
        (target.startswith(_MARK) or target in IDENTITY_TARGETS)
        and len(instruction.operands) == 1
        and instruction.operands[0].shape.compatible(instruction.shape)
    )

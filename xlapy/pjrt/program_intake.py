"""What JAX gives to compile, as a module of HLO for one of its partitions.

Owns: formats of programs, what is read by whom. Must not know: handles, devices, how programs are cut up.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir

from xlapy import ops
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.base.logging import logger
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.interpreter.custom import IDENTITIES
from xlapy.pjrt.partitioning import partition
from xlapy.stablehlo.parse import parse_stablehlo

_PORTABLE = b"ML\xefR\rStableHLO_v"
"""How portable artifacts begin: bytecode of version 6, which StableHLO made."""

_MANUAL = b"manual_computation"
"""In programs that say what each device does, be it a single one."""

_MARK = "xla.sdy."
"""How targets of custom calls begin that say something of a sharding and do nothing, as `IDENTITIES` do."""


@dataclass(frozen=True)
class Intake:
    """A module, and how its parameters and results are split over the partitions: None is not at all."""

    module: Module
    parameters: tuple[Sharding | None, ...] = ()
    results: tuple[Sharding | None, ...] = ()


def read_program(code: bytes, format: str, partitions: int = 1) -> Intake:
    """The module of a program: `mlir` is StableHLO, as text, bytecode or portable artifact; `hlo` an HloModuleProto.

    `InvalidArgumentError` for what cannot be read, `UnsupportedError` for other formats.
    """
    if format == "hlo":
        return Intake(Module.from_proto(code, verify=False))
    if format != "mlir":
        raise UnsupportedError(f"programs of format {format!r} are not supported; mlir and hlo are")
    is_whole = partitions > 1 or _MANUAL in code
    if code.startswith(_PORTABLE) and not is_whole:
        try:
            return Intake(_unmarked(parse_stablehlo(code)))
        except UnsupportedError as error:
            logger.info("a program is read by jaxlib: %s", error)
    module = _through_jaxlib(code, is_whole)
    return _partitioned(module) if partitions > 1 else Intake(_unmarked(module))


def _through_jaxlib(code: bytes, is_whole: bool) -> Module:
    """What is to be partitioned by jaxlib's passes, what is no artifact, and what the readers of the house refuse."""
    try:
        computation = _jax.mlir.mlir_module_to_xla_computation(
            _bytecode(code, is_whole), use_tuple_args=False, return_tuple=True
        )
    except Exception as error:
        raise InvalidArgumentError(f"the program cannot be read as StableHLO: {error}") from error
    return Module.from_proto(computation.as_serialized_hlo_module_proto(), verify=False)


def _bytecode(code: bytes, is_whole: bool) -> bytes:
    """A program as bytecode of the StableHLO of today, partitioned if it `is_whole`."""
    with mlir.make_ir_context() as context:
        portable = code.startswith(b"ML\xefR")
        module = _jax.mlir.deserialize_portable_artifact(code, context) if portable else ir.Module.parse(code, context)
        if is_whole:
            partition(module)
        return bytes(mlir.module_to_bytecode(module))


def _partitioned(module: Module) -> Intake:
    """The module without the shardings that it was partitioned by, and those of its parameters and results."""
    entry = module.entry_computation
    parameters = tuple(parameter.sharding for parameter in entry.parameters)
    root = entry.root_instruction
    whole, count = root.sharding, len(root.shape.tuple_shapes) if root.shape.is_tuple else 1
    results = whole.elements if whole is not None and whole.elements else (whole,) * count
    for instruction in module.instructions():
        instruction.sharding = None
    return Intake(_unmarked(module), parameters, results)


def _unmarked(module: Module) -> Module:
    """Without the custom calls that only say something of a value."""
    for instruction in [one for one in module.instructions() if _is_mark(one)]:
        edit.replace_uses(instruction, instruction.operands[0])
        edit.remove_control_edges(instruction)
        edit.remove(instruction)
    return module


def _is_mark(instruction: Instruction) -> bool:
    if instruction.op is not ops.CUSTOM_CALL:
        return False
    target = instruction.custom_call_target
    return (
        (target.startswith(_MARK) or target in IDENTITIES)
        and len(instruction.operands) == 1
        and instruction.operands[0].shape.compatible(instruction.shape)
    )

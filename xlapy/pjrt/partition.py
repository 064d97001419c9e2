"""A program over arrays that are cut up among devices, as the program that each device runs on its parts.

Owns: the order of Shardy's passes, which jaxlib holds. Must not know: handles, devices, how programs run.

JAX gives a program of several partitions whole: `sdy.mesh` names the axes of the devices, `sdy.sharding` tells how an
array is cut along them. Spreading the shardings over all values, and putting collectives where they change, makes a
program of one partition's parts out of it, in plain StableHLO.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from xlapy.base.errors import InvalidArgumentError, UnsupportedError

_PASSES = (
    "sdy-propagation-pipeline",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "sdy-convert-global-to-local",
)
_SHARDING = "sdy.sharding"


@dataclass(frozen=True, slots=True)
class Partitioned:
    """`code` is the program of one partition, an artifact of StableHLO without Shardy.

    parameters, results: how the whole arrays are cut up, as `#sdy.sharding<...>`; None is not at all. meshes: what the
    names in them stand for, as `#sdy.mesh<...>`.
    """

    code: bytes
    parameters: tuple[str | None, ...]
    results: tuple[str | None, ...]
    meshes: dict[str, str]


def partition(code: bytes) -> Partitioned | None:
    """The program of one partition of a portable artifact; None for one that tells nothing of devices.

    `InvalidArgumentError` for damaged artifacts, `UnsupportedError` for what Shardy's passes refuse.
    """
    if b"sdy" not in code:
        return None
    with mlir.make_ir_context() as context:
        try:
            module = _jax.mlir.deserialize_portable_artifact(code, context)
        except Exception as error:
            raise InvalidArgumentError(f"the program cannot be read as StableHLO: {error}") from error
        meshes = [operation for operation in module.body.operations if operation.operation.name == "sdy.mesh"]
        if not meshes:
            return None
        named = {mesh.attributes["sym_name"].value: str(mesh.attributes["mesh"]) for mesh in meshes}
        _run_passes(module)
        main = next(operation for operation in module.body.operations if _name(operation) == "main")
        parameters, results = (_shardings(main, kind) for kind in ("arg_attrs", "res_attrs"))
        _strip(module)
        return Partitioned(_artifact(module), parameters, results, named)


def _run_passes(module: Any) -> None:
    try:
        PassManager.parse(f"builtin.module({','.join(_PASSES)})").run(module.operation)
    except Exception as error:
        raise UnsupportedError(f"the program cannot be cut up among devices: {error}") from error


def _name(operation: Any) -> str | None:
    attributes = operation.attributes
    return attributes["sym_name"].value if "sym_name" in attributes else None


def _shardings(function: Any, kind: str) -> tuple[str | None, ...]:
    """Those of the parameters or the results."""
    type_ = function.attributes["function_type"].value
    count = len(type_.inputs if kind == "arg_attrs" else type_.results)
    if kind not in function.attributes:
        return (None,) * count
    return tuple([str(given[_SHARDING]) if _SHARDING in given else None for given in function.attributes[kind]])


def _strip(module: Any) -> None:
    """Takes away what has told how to cut, so that plain StableHLO is left."""
    for operation in list(module.body.operations):
        if operation.operation.name == "sdy.mesh":
            operation.operation.erase()
    module.operation.walk(_strip_operation)


def _strip_operation(operation: Any) -> Any:
    if _SHARDING in operation.attributes:
        del operation.attributes[_SHARDING]
    for kind in ("arg_attrs", "res_attrs"):
        if kind in operation.attributes:
            kept = [
                ir.DictAttr.get({name.name: name.attr for name in given if not name.name.startswith("sdy.")})
                for given in operation.attributes[kind]
            ]
            operation.attributes[kind] = ir.ArrayAttr.get(kept)
    return ir.WalkResult.ADVANCE


def _artifact(module: Any) -> bytes:
    try:
        return bytes(_jax.mlir.serialize_portable_artifact(module, stablehlo.get_current_version()))
    except Exception as error:
        raise UnsupportedError(f"a partition of the program is no plain StableHLO: {error}") from error

"""`jax.experimental.custom_partitioning`: Python functions that define how a custom call is partitioned.

JAX registers the functions with the native partitioner through an extension of the C API. xlapy's partitioner is
written in Python, in the same process, and calls the functions that JAX registers directly.

Responsible for calling them, with jaxlib's shapes and shardings. Does not depend on how programs are partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax._src import custom_partitioning
from jaxlib import xla_client

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.pjrt.compile.shardings import from_jax_sharding, to_jax_sharding
from xlapy.spmd.context import CustomPartition

TARGET = custom_partitioning._CUSTOM_PARTITIONING_CALL_NAME


def partition_custom_call(
    read: Callable[[bytes], Module], call: Instruction, operands: Sequence[Sharding], results: Sequence[Sharding] | None
) -> CustomPartition | None:
    """Partitions a custom call of JAX's target by the functions of its `def_partition`; returns None for other targets.

    read: reads a program of StableHLO. Raises `ExecutionError` if a function fails, or belongs to another process.
    """
    if call.custom_call_target != TARGET:
        return None
    key = call.backend_config.encode()
    if key not in custom_partitioning._sharding_callbacks:
        raise ExecutionError(
            codes.CUSTOM_PARTITIONER,
            f"{describe_instruction(call)}: the functions that define its partitioning are not in this process, or no "
            f"longer alive; trace and compile the program again",
        )
    try:
        return _partition(read, call, key, operands, results)
    except Exception as error:
        raise ExecutionError(
            codes.CUSTOM_PARTITIONER, f"{describe_instruction(call)}: custom_partitioning failed: {error}"
        ) from error


def _partition(
    read: Callable[[bytes], Module],
    call: Instruction,
    key: bytes,
    operands: Sequence[Sharding],
    results: Sequence[Sharding] | None,
) -> CustomPartition:
    shapes = [_jax_shape(operand.shape) for operand in call.operands]
    shardings = [to_jax_sharding(sharding) for sharding in operands]
    result = _jax_shape(call.shape)
    if results is not None:
        chosen = custom_partitioning._pack_result_sharding(result, [to_jax_sharding(each) for each in results])
    elif custom_partitioning._sharding_callbacks[key].infer_sharding_from_operands is not None:
        chosen = custom_partitioning._custom_partitioning_infer_sharding_from_operands(shapes, shardings, result, key)
    else:
        whole = [xla_client.HloSharding.replicate()] * len(list(call.shape.leaves()))
        chosen = custom_partitioning._pack_result_sharding(result, whole)
    program, given, returned = custom_partitioning._custom_partitioning_partition(
        shapes, shardings, result, chosen, key
    )
    elements = returned.tuple_elements() if call.shape.is_tuple else [returned]
    return CustomPartition(read(program), tuple(map(from_jax_sharding, given)), tuple(map(from_jax_sharding, elements)))


def _jax_shape(shape: Shape) -> Any:
    if shape.is_tuple:
        return xla_client.Shape.tuple_shape([_jax_shape(element) for element in shape.tuple_shapes])
    return xla_client.Shape.array_shape(shape.dtype, shape.dimensions)

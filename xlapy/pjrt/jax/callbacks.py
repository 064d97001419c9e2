"""Python callbacks of JAX programs: pure_callback, io_callback, debug.print and the like.

A callback is a custom call whose attribute is the number of its function in this process. The function lives as long as
the lowered program.

Responsible for the functions by number, and for how a callback is lowered. Does not depend on native code.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
from jax._src import core, dtypes, ffi
from jax._src.interpreters import mlir
from jax._src.sharding_impls import SdyArray, SdyArrayList

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import FailedTargetError, traceback_of
from xlapy.custom_calls.registry import register_custom_call_target
from xlapy.pjrt.platform_name import PLATFORM_NAME

TARGET = "xla_ffi_python_xlapy_callback"
PARTITIONED_TARGET = "xla_ffi_partitioned_python_xlapy_callback"
"""Target of callbacks that each device calls with its own shards of the operands."""


class _Function:
    """A callback function and the types of its results."""

    def __init__(self, function: Callable[..., Sequence[Any]], results: Sequence[core.ShapedArray]) -> None:
        self.function = function
        self.results = [(declared.shape, np.dtype(declared.dtype)) for declared in results]

    def __call__(self, *arguments: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """Calls the function; `RuntimeError` unless the results have the declared types."""
        values = self.function(*arguments)
        if len(values) != len(self.results):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(self.results)}, Actual: {len(values)}"
            )
        return tuple(
            [
                value
                if type(value) is np.ndarray and value.dtype == dtype and value.shape == shape
                else _converted(value, shape, dtype, number)
                for number, (value, (shape, dtype)) in enumerate(zip(values, self.results, strict=True))
            ]
        )


def _converted(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], number: int) -> np.ndarray[Any, Any]:
    """Converts a result to the array that JAX makes of it; `RuntimeError` unless it has the declared type."""
    array: np.ndarray[Any, Any] = dtypes.canonicalize_value(np.asarray(value))
    for what, expected, actual in (("shape", shape, array.shape), ("dtype", dtype, array.dtype)):
        if expected != actual:
            raise RuntimeError(
                f"Incorrect output {what} for return value #{number}: Expected: {expected}, Actual: {actual}"
            )
    return array


_functions: WeakValueDictionary[int, _Function] = WeakValueDictionary()
_numbers = itertools.count(1)


def _callback_of_call(*, ffi_attributes: dict[str, Any], shape: Any) -> Callable[..., Any]:
    """Returns the implementation of one custom call. A token operand is returned unchanged.

    It does not keep the function alive, which may lead to the program that calls it.
    """
    reference, is_tuple = ref(_functions[int(ffi_attributes["index"])]), shape.is_tuple

    def call(*operands: Any) -> Any:
        tokens = operands[:1] if operands and operands[0] is None else ()
        function = reference()
        assert function is not None, "JAX keeps it as long as the program"
        try:
            arrays = function(*operands[1:] if tokens else operands)
        except Exception as error:
            raise FailedTargetError(
                codes.CALLBACK, f"CpuCallback error calling callback: {traceback_of(error)}"
            ) from error
        if is_tuple:
            return (*tokens, *arrays)
        return arrays[0] if arrays else None

    return call


def _run_callback(*operands: Any, ffi_attributes: dict[str, Any], shape: Any) -> Any:
    """The implementation of all custom calls."""
    return _callback_of_call(ffi_attributes=ffi_attributes, shape=shape)(*operands)


_run_callback.bind = _callback_of_call  # type: ignore[attr-defined]


def _with_token(sharding: Any, results: int) -> Any:
    """Adds the sharding of the token before those of the results. Without results there is one sharding for all."""
    if not isinstance(sharding, SdyArrayList) or not results:
        return sharding
    devices = sharding.shardings[0].logical_device_ids
    return SdyArrayList((SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=devices), *sharding.shardings))


def lower_callbacks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a lowering function that handles callbacks on this platform, and calls JAX's own function for other
    platforms."""
    for target in (TARGET, PARTITIONED_TARGET):
        register_custom_call_target(target, _run_callback)

    def emit_python_callback(
        ctx: mlir.LoweringRuleContext,
        callback: Any,
        token: Any | None,
        operands: Sequence[Any],
        operand_avals: Sequence[core.ShapedArray],
        result_avals: Sequence[core.ShapedArray],
        *,
        has_side_effect: bool,
        returns_token: bool = True,
        partitioned: bool = False,
        sharding: Any = None,
    ) -> tuple[Sequence[Any], Any, Any]:
        if tuple(ctx.module_context.platforms) != (PLATFORM_NAME,):
            return original(
                ctx, callback, token, operands, operand_avals, result_avals, has_side_effect=has_side_effect,
                returns_token=returns_token, partitioned=partitioned, sharding=sharding,
            )  # fmt: skip
        function = _Function(callback, result_avals)
        number = next(_numbers)
        _functions[number] = function
        ctx.module_context.add_keepalive(function)
        if token:
            operands = [token, *operands]
            sharding = _with_token(sharding, len(ctx.avals_out))
            avals_in, avals_out = [core.abstract_token, *ctx.avals_in], [core.abstract_token, *ctx.avals_out]
            ctx = dataclasses.replace(ctx, avals_in=avals_in, avals_out=avals_out)
        target = PARTITIONED_TARGET if partitioned else TARGET
        lowered = ffi.build_ffi_lowering_function(target, has_side_effect=has_side_effect)
        call = lowered(ctx, *operands, index=np.uint64(number))
        if sharding is not None:
            mlir.set_sharding(ctx.module_context, call, sharding)
        results = list(call.results)
        if token:
            token = results.pop(0)
        return results, token, function

    return emit_python_callback

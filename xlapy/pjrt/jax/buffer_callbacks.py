"""Callbacks on buffers: `jax.experimental.buffer_callback`, which writes its results in place.

Responsible for the buffers that such a callback gets, and for how it is lowered. Does not depend on native code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np
from jax._src import ffi, tree_util
from jax._src.interpreters import mlir
from jax._src.lib import ffi as ffi_lib

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import FailedTargetError, traceback_of
from xlapy.custom_calls.registry import register_custom_call_target

TARGET = "xla_ffi_python_xlapy_buffer_callback"


class Buffer:
    """An operand, which is read-only, or a result, as NumPy and DLPack see them."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    @property
    def writeable(self) -> bool:
        return bool(self._array.flags.writeable)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, Any]:
        return self._array.__dlpack_device__()


class ExecutionContext:
    """What a callback can ask about the program that calls it."""

    @property
    def stage(self) -> Any:
        return ffi_lib.ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


class _BufferFunction:
    """A callback, the structures of its operands and results, and which results begin as an operand's elements."""

    def __init__(self, function: Callable[..., Any], operands: Any, results: Any, aliases: dict[int, int]) -> None:
        self._function, self._operands, self._results, self._aliases = function, operands, results, aliases

    def __call__(self, operands: Sequence[np.ndarray[Any, Any]], results: Sequence[np.ndarray[Any, Any]]) -> None:
        """Calls the callback, which writes the results. An operand that is the alias of a result shares its memory."""
        views = list(operands)
        for operand, result in self._aliases.items():
            results[result][...] = operands[operand]
            views[operand] = results[result].view()
        for view in views:
            view.flags.writeable = False
        positional, named = tree_util.tree_unflatten(self._operands, list(map(Buffer, views)))
        outputs = tree_util.tree_unflatten(self._results, list(map(Buffer, results)))
        if self._function(ExecutionContext(), outputs, *positional, **named) is not None:
            raise ValueError("buffer_callback callback must not return any values.")


_functions: WeakValueDictionary[int, _BufferFunction] = WeakValueDictionary()
_numbers = itertools.count(1)


def _run_callback(*operands: Any, ffi_attributes: dict[str, Any], shape: Any) -> Any:
    """The implementation of the custom call."""
    function = _functions[int(ffi_attributes["index"])]
    leaves = shape.tuple_shapes if shape.is_tuple else (shape,)
    results = tuple(np.empty(leaf.dimensions, leaf.dtype) for leaf in leaves)
    try:
        function([operand.view() for operand in operands], results)
    except Exception as error:
        raise FailedTargetError(codes.CALLBACK, f"CpuCallback error calling callback: {traceback_of(error)}") from error
    return results if shape.is_tuple else results[0]


def lower_buffer_callback(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    callback: Callable[..., Any],
    in_tree: Any,
    out_tree: Any,
    has_side_effect: bool,
    input_output_aliases: Sequence[tuple[int, int]],
    **_: Any,
) -> Sequence[Any]:
    """The lowering rule of `buffer_callback` on this platform."""
    if len(ctx.module_context.platforms) > 1:
        raise NotImplementedError("multi-platform lowering for buffer_callback")
    function = _BufferFunction(callback, in_tree, out_tree, dict(input_output_aliases))
    number = next(_numbers)
    _functions[number] = function
    ctx.module_context.add_keepalive(function)
    rule: Any = ffi.ffi_lowering(TARGET, has_side_effect=has_side_effect)
    lowered: Sequence[Any] = rule(ctx, *operands, index=np.uint64(number))
    return lowered


def register_buffer_callbacks() -> None:
    """Registers the target of the custom calls."""
    register_custom_call_target(TARGET, _run_callback)

"""Runs HLO text on XLA:CPU of jaxlib, the reference implementation.

The only way from HLO text to a run in jaxlib. Does not import xlapy, so that both sides of a comparison are
independent. Intended for a child process, because jaxlib aborts the process on some programs.

The text is converted from HLO text to HloModuleProto, XlaComputation, MLIR and a PJRT executable, because the client of
jaxlib accepts only MLIR. Changes and limitations of this conversion (jaxlib 0.10.2):

- Tuple parameters and results are flattened into their leaves; `run_hlo` flattens the arguments and rebuilds the
  result. Tokens in results become None, empty tuples ().
- Layouts of parameters and results are dropped, and layouts inside are reassigned; results are logical
  arrays.
- `bitcast` is refused unless its operand and result are layouts of the same shape, so optimized HLO rarely
  runs.
- A dynamic dimension (`f32[<=4]`) works inside a module; as a result its content is undefined, so
  `run_hlo` refuses it: return the padded array and `get-dimension-size` instead.
- Not executable: `acos acosh asin asinh atanh cosh sinh` (the composite opcodes), `ragged-dot`, `copy-start`,
  `call-start` of a computation with one result, `rng-get-and-update-state`, `dynamic-slice` with a rank 1
  index, element types s1, u1 and f6. `all-to-all` in its tuple form crashes the process.
- Executable: fusion, copy, call, map, variadic reduce and reduce-window, sort, conditional (both forms),
  while, after-all, add-dependency, opt-barrier, domain, dynamic sizes, topk, scatter, select-and-scatter,
  every other elementwise operation, all collectives on one device, rng and rng-bit-generator, fft, cholesky,
  triangular-solve, batch-norm-*, stochastic-convert, element types pred s2..s64 u2..u64, all f8, f4e2m1fn,
  f16, bf16, f32, f64, c64, c128.
- Denormals are flushed in the compiled code and kept where the compiler folds constants; no option changes
  this.
- Excess precision is disabled: a chain of ops in bf16 rounds after every op, as its text says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.lib import _jax, hlo

jax.config.update("jax_enable_x64", True)

Value = Any  # np.ndarray, None for a token, or a tuple of values

_STRICT: dict[str, bool | int] = {"xla_allow_excess_precision": False}
# Compiles in a third of the time: no LLVM optimization, no MLIR fusion emitters, no split for parallel
# code generation.
_FAST: dict[str, bool | int] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


class XlaCpuError(Exception):
    """jaxlib refused the text, the compilation or the run. The message is jaxlib's."""


def parse(text: str) -> Any:
    """Returns jaxlib's HloModule of `text`. The parser does not verify it: `add(f32[2], f32[3])` passes."""
    try:
        return hlo.hlo_module_from_text(text)
    except Exception as error:
        raise XlaCpuError(str(error)) from error


def to_proto(text: str) -> bytes:
    """Returns the serialized HloModuleProto of HLO text."""
    return parse(text).as_serialized_hlo_module_proto()


def run_hlo(text: str, arguments: Sequence[Value], *, fast: bool = False, **options: bool | int | str) -> Value:
    """Runs an HLO module on one XLA:CPU device and returns its result in the tuple structure of the module.

    `arguments`: one NumPy or ml_dtypes array (scalars allowed) per entry parameter, a nested tuple for a tuple. `fast`
    compiles in about a third of the time; the program then runs slower. `options` are XLA debug options by name. Raises
    XlaCpuError with jaxlib's message.
    """
    compiled = compile_hlo(text, fast=fast, **options)
    return compiled.run(arguments)


@functools.lru_cache(maxsize=128)
def compile_hlo(text: str, *, fast: bool = False, **options: bool | int | str) -> CompiledHlo:
    """Compiles HLO text for one XLA:CPU device and keeps the last 128 programs. Raises XlaCpuError."""
    chosen = _STRICT | (_FAST if fast else {}) | options
    try:
        computation = hlo.XlaComputation(to_proto(text))
        mlir = _jax.mlir.xla_computation_to_mlir_module(computation)
        compile_options = _jax.CompileOptions()
        compile_options.env_option_overrides = list(chosen.items())
        device = jax.devices("cpu")[0]
        executable = device.client.compile_and_load(mlir, [device], compile_options)
    except XlaCpuError:
        raise
    except Exception as error:
        raise XlaCpuError(str(error)) from error
    return CompiledHlo(computation.program_shape(), executable)


class CompiledHlo:
    """A program loaded on XLA:CPU, with the parameter and result shapes that its HLO declares."""

    def __init__(self, program_shape: Any, executable: Any) -> None:
        self.parameter_shapes: list[Any] = list(program_shape.parameter_shapes())
        self.result_shape: Any = program_shape.result_shape()
        self._executable = executable
        if any(leaf.is_array() and leaf.is_dynamic() for leaf in _leaves(self.result_shape)):
            raise XlaCpuError(f"result {self.result_shape} has dynamic dimensions: their content would be undefined")

    def run(self, arguments: Sequence[Value]) -> Value:
        """Executes the program once. Copies the arguments to the device and the results back."""
        try:
            results = self._executable.execute_sharded(self._put(arguments)).disassemble_into_single_device_arrays()
            return _rebuild(self.result_shape, (shards[0] for shards in results))
        except XlaCpuError:
            raise
        except Exception as error:
            raise XlaCpuError(str(error)) from error

    def bind_arguments(self, arguments: Sequence[Value]) -> Callable[[], None]:
        """Copies the arguments to the device. Returns a function that runs the program on them and waits for its
        results.
        """
        buffers = self._put(arguments)

        def execute() -> None:
            results = self._executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
            jax.block_until_ready(results)

        return execute

    def _put(self, arguments: Sequence[Value]) -> list[jax.Array]:
        """Copies the arguments to the device, after checking them against the declared shapes."""
        if len(arguments) != len(self.parameter_shapes):
            raise XlaCpuError(f"{len(arguments)} arguments for {len(self.parameter_shapes)} entry parameters")
        buffers: list[jax.Array] = []
        for number, (shape, value) in enumerate(zip(self.parameter_shapes, arguments, strict=True)):
            buffers += [jax.device_put(leaf) for leaf in _argument_leaves(f"argument {number}", shape, value)]
        return buffers

    def live_bytes(self) -> int:
        """Returns the bytes of temporaries and results."""
        memory = self._executable.get_compiled_memory_stats()
        return int(memory.temp_size_in_bytes + memory.output_size_in_bytes)

    def text(self) -> str:
        """Returns the optimized HLO: scheduled, fused, with layouts."""
        return self._executable.get_hlo_text()


def dtype_of(shape: Any) -> np.dtype:
    """Returns the NumPy (or ml_dtypes) element type of a jaxlib array shape."""
    return np.dtype(shape.numpy_dtype())


def _leaves(shape: Any) -> Iterator[Any]:
    if not shape.is_tuple():
        yield shape
        return
    for part in shape.tuple_shapes():
        yield from _leaves(part)


def _argument_leaves(what: str, shape: Any, value: Value) -> Iterator[np.ndarray]:
    """Yields the arrays of one argument, after checking them: jaxlib accepts any array of the right size in bytes."""
    if shape.is_tuple():
        parts = shape.tuple_shapes()
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            raise XlaCpuError(f"{what}: {shape} needs a tuple of {len(parts)} values, got {type(value).__name__}")
        for index, (part, item) in enumerate(zip(parts, value, strict=True)):
            yield from _argument_leaves(f"{what}, element {index}", part, item)
        return
    array = np.asarray(value)
    if array.dtype != dtype_of(shape) or array.shape != tuple(shape.dimensions()):
        raise XlaCpuError(
            f"{what}: {shape} needs {dtype_of(shape)}{list(shape.dimensions())}, got {array.dtype}{list(array.shape)}"
        )
    yield array


def _rebuild(shape: Any, buffers: Iterator[jax.Array]) -> Value:
    if shape.is_tuple():
        return tuple(_rebuild(part, buffers) for part in shape.tuple_shapes())
    buffer = next(buffers)
    return None if shape.is_token() else np.asarray(buffer)

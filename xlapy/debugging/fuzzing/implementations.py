"""The implementations that the interpreter is compared with: XLA:CPU, and other platforms of xlapy.

Responsible for calling an implementation, for the text it is given, and for its known divergences. An implementation
runs in a child process, so that a crash is a result. Does not depend on which modules it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from xlapy.base.element_types import PrimitiveType, float_format_of
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.compiler import native_opcodes
from xlapy.debugging.fuzzing import known_divergences
from xlapy.debugging.fuzzing.unordered_sorts import with_unordered_rows_arranged
from xlapy.debugging.fuzzing.worker import Caller
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import SCALED_DOT
from xlapy.opcodes.elementwise import ATAN2, POWER, RSQRT, SQRT
from xlapy.opcodes.random import RNG, RandomDistribution, RngAttributes
from xlapy.opcodes.registry import REGISTRY, OpDef
from xlapy.passes.expand import EXPANSIONS
from xlapy.runtime import Client, platform_names
from xlapy.testing.sum_errors import Step

Array = np.ndarray[Any, Any]
Value = Any
Run = Callable[[str, Sequence[Value]], Value]
"""`(HLO text, arguments) -> result`; raises `WorkerError` if the program is rejected and `WorkerDied` if the process
dies.
"""

XLA = "xla"
_NEGATIVE_ZERO = re.compile(r"(?<![\w.])-0(?=[,)} ])")
_FUSION = re.compile(r" fusion\(([^)]*)\), kind=\w+, calls=")


def _no_known_divergence(_: Step) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Implementation:
    """An implementation and its known properties.

    without: ops that its parser does not know. text: transforms the text of a module for it. adjust: replaces numbers
    that it mishandles before they are used. compared: removes from a step and its value what must not be compared.
    known_divergence: returns the class of known divergences of a step, if any. rule: returns a comparison rule that
    replaces the operation's. draws: ops that run even if they are known to diverge, because later ops draw from the
    same state.
    """

    name: str
    function: str
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])
    without: tuple[OpDef, ...] = ()
    text: Callable[[str], str] = str
    adjust: Callable[[Array], Array] = lambda array: array
    compared: Callable[[Step, Value], tuple[Step, Value]] = lambda step, value: (step, value)
    known_divergence: Callable[[Step], str | None] = _no_known_divergence
    rule: Callable[[Step], str | None] = _no_known_divergence
    draws: tuple[OpDef, ...] = ()
    flushes_denormals: bool = False
    excess_precision: bool = False
    """Whether it may keep more bits of a value than its type has, see `testing.program_tolerance`."""

    def run(self, worker: Caller, module: Module, arguments: Sequence[Value]) -> Value:
        text = self.text(module.to_text(print_large_constants=True))
        return worker.call(text, arguments, **self.keywords)


def readable(text: str) -> str:
    """Writes -0 as -0.0, because jaxlib prints -0 but reads it as +0."""
    return _NEGATIVE_ZERO.sub("-0.0", text)


def executable(text: str) -> str:
    """Writes fusions as calls and (row-major) bitcasts as reshapes, because XLA:CPU supports both only after its own
    passes.
    """
    return _FUSION.sub(r" call(\1), to_apply=", readable(text)).replace(" bitcast(", " reshape(")


XLA_CPU = Implementation(
    "XLA:CPU",
    "xlapy.testing.xla_cpu:run_hlo",
    {"fast": True, "xla_disable_hlo_passes": "constant_folding"},
    known_divergences.NEWER_THAN_JAXLIB,
    executable,
    known_divergences.without_small_numbers,
    known_divergences.comparable,
    known_divergences.known_divergence,
    known_divergences.replacement_rule,
    flushes_denormals=True,
    excess_precision=True,
)


def without_denormals(array: Array) -> Array:
    """Flushes denormal numbers of the machine's types to 0, as cpu does."""
    if array.dtype.kind == "c":
        part = np.dtype(np.float32 if array.dtype == np.complex64 else np.float64)
        result = np.array(array)
        result.real, result.imag = (without_denormals(half.astype(part)) for half in (array.real, array.imag))
        return result
    t = PrimitiveType.from_dtype(array.dtype)
    if not t.is_floating or t.bits <= 8:
        return array
    smallest = float_format_of(array.dtype).smallest_normal
    size = np.abs(array.astype(np.float64))
    return np.where((size < smallest) & (size > 0), np.zeros((), array.dtype), array)


def cpu_known_divergence(step: Step) -> str | None:
    """Returns the class of known divergences of cpu for a step, if any."""
    instruction = step.instruction
    if instruction.op is RNG and instruction.attributes_as(RngAttributes).distribution is RandomDistribution.NORMAL:
        return "normal random numbers: NumPy rounds logarithms and cosines otherwise"
    if instruction.op is SCALED_DOT and any(map(_scales_to_denormals, step.operands[2:])):
        return "scaled numbers that are denormal"
    if instruction.op is ATAN2 and instruction.shape.element_type.is_complex:
        return "complex angles, quotients of what cancels"
    return next((reason for reason, holds in known_divergences.order_classes(step) if holds), None)


def cpu_comparable(step: Step, result: Value) -> tuple[Step, Value]:
    """Leaves out complex roots whose steps are denormal, and complex powers whose logarithms are rounded before they
    grow. Rows of sorts that NaN leaves without an order are compared as permutations."""
    step, result = with_unordered_rows_arranged(step, result)
    elements: Array | None = None
    if not all(isinstance(value, np.ndarray | np.generic) for value in (step.value, *step.operands)):
        return step, result
    if step.instruction.op in (RSQRT, SQRT) and step.instruction.shape.element_type.is_complex:
        elements = _has_tiny_parts(step.operands[0])
    elif step.instruction.op is POWER and step.instruction.shape.element_type.is_complex:
        elements = _is_large_power(*step.operands)
    ours, theirs = known_divergences.without_elements(step.value, result, elements)
    return Step(step.instruction, step.operands, ours), theirs


def _scales_to_denormals(scales: Value) -> bool:
    """Whether scales make f8 numbers denormal in f32; the smallest f8 number is 2^-9."""
    return bool(np.any(np.abs(np.asarray(scales).astype(np.float64)) < 2.0**-117))


def _has_tiny_parts(operand: Array) -> Array:
    """Whether a part of a complex number is not 0 and less than 8 times the smallest normal number."""
    parts = np.abs(np.stack([operand.real, operand.imag]))
    return np.asarray(np.any((parts < 8 * np.finfo(parts.dtype).smallest_normal) & (parts > 0), axis=0))


def _is_large_power(base: Array, exponent: Array) -> Array:
    """Whether a complex power rotates or grows by more than the logarithm is accurate to."""
    with np.errstate(all="ignore"):
        product = np.abs(exponent.astype(np.complex128) * np.log(base.astype(np.complex128)))
    return np.asarray(product > 4)


_CPU: Mapping[str, Any] = {
    "without": tuple(op for op in REGISTRY.values() if op not in native_opcodes() and op not in EXPANSIONS),
    "adjust": without_denormals,
    "compared": cpu_comparable,
    "known_divergence": cpu_known_divergence,
    "draws": (RNG,),
    "flushes_denormals": True,
}


def find_implementation(name: str) -> Implementation:
    """Returns the implementation of a name: `xla`, or a platform. Raises `InvalidArgumentError` if it is unknown or not
    installed.
    """
    if name == XLA:
        if find_spec("jaxlib") is None or find_spec("jax") is None:
            raise InvalidArgumentError(
                codes.OPTIONAL_PACKAGE,
                "XLA is not installed here: pip install 'xlapy[xla]', or compare with a platform of xlapy: "
                + ", ".join(platform_names()),
            )
        return XLA_CPU
    if name not in platform_names():
        raise InvalidArgumentError(
            codes.CHOICE, f"no implementation {name!r}; there are {', '.join([XLA, *platform_names()])}"
        )
    implementation = Implementation(name, f"{__name__}:run_on_platform", {"platform": name})
    return replace(implementation, **_CPU) if name == "cpu" else implementation


def run_on_platform(text: str, arguments: Sequence[Value], platform: str) -> Value:
    """Runs HLO text on a platform of xlapy. Returns the result as plain arrays, with None for tokens."""
    return plain(Client(platform).compile(text)(*arguments))


def plain(value: Any) -> Value:
    """Returns a result as plain arrays, with None for tokens."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return np.asarray(value) if hasattr(value, "__array__") else None

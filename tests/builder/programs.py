"""Runs built computations on the interpreter and lists their instructions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from xlapy import opcodes, ops
from xlapy.base import Shape
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp
from xlapy.interpreter import evaluate_computation
from xlapy.interpreter.core import Context

for _family in ("contraction", "control", "elementwise", "kernels.conversion", "movement", "sources", "tuples"):
    import_module(f"xlapy.interpreter.{_family}")  # registers the interpreter's rules


def parameters(*shapes: str) -> list[XlaOp]:
    """Adds parameters of these shapes to a new builder, named p0, p1 ..."""
    builder = XlaBuilder("test")
    return [ops.parameter(builder, number, Shape.parse(text)) for number, text in enumerate(shapes)]


def run(computation: XlaComputation, *arguments: Any) -> Any:
    """Returns the value of the computation for the arguments."""
    return evaluate_computation(Context(), computation.module.entry_computation, arguments)


def evaluate(op: XlaOp, *arguments: Any) -> Any:
    """Builds with `op` as root and runs it."""
    return run(op.builder.build(op), *[np.asarray(a) if not isinstance(a, tuple) else a for a in arguments])


def opcode_names(op: XlaOp) -> list[str]:
    """Returns the opcodes in the builder so far, without parameters."""
    assert op.instruction.parent is not None
    return [i.op.name for i in op.instruction.parent if i.op is not opcodes.PARAMETER]


def listing(computation: XlaComputation) -> str:
    """Returns the HLO text of the computations, without header, layouts, source lines and percent signs."""
    text = computation.as_hlo_text(print_metadata=False, print_percent=False, include_layout_in_shapes=False)
    return text.split("\n\n", 1)[1].strip()


def instruction_texts(op: XlaOp) -> list[str]:
    """Returns the HLO text of the computation with `op` as root, one instruction per entry, without parameters and
    layouts.
    """
    entry = listing(op.builder.build(op)).rpartition("ENTRY ")[2]
    lines = [line.strip().removeprefix("ROOT ") for line in entry.splitlines()[1:-1]]
    return [line for line in lines if " parameter(" not in line]

"""The programs of the demo, built with `XlaBuilder`: a two-layer classifier of 8x8 digits and its training step.

Responsible for the model and its gradients, written by hand. Does not depend on data, files or how programs run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import xlapy as xla
from xlapy import ops

PIXELS, HIDDEN, CLASSES = 64, 48, 10
PARAMETERS = ("w1", "b1", "w2", "b2")
SHAPES = {
    "w1": f"f32[{PIXELS},{HIDDEN}]",
    "b1": f"f32[{HIDDEN}]",
    "w2": f"f32[{HIDDEN},{CLASSES}]",
    "b2": f"f32[{CLASSES}]",
}
MOMENTUM = 0.9


@dataclass(frozen=True)
class Forward:
    """The values of the forward pass that the backward pass needs; rows are images."""

    hidden: xla.XlaOp
    active: xla.XlaOp
    logits: xla.XlaOp


def forward(images: xla.XlaOp, w1: xla.XlaOp, b1: xla.XlaOp, w2: xla.XlaOp, b2: xla.XlaOp) -> Forward:
    """Maps images f32[N,64] to logits f32[N,10] through one hidden layer of rectified linear units."""
    before = ops.add(ops.dot(images, w1), b1, broadcast_dimensions=[1])
    hidden = ops.max(before, 0.0)
    return Forward(hidden, before > 0.0, ops.add(ops.dot(hidden, w2), b2, broadcast_dimensions=[1]))


@cache
def reducer(name: str) -> xla.XlaComputation:
    """Returns the scalar computation `add` or `max` of two f32."""
    b = xla.XlaBuilder(name)
    scalar = xla.Shape.parse("f32[]")
    getattr(ops, name)(ops.parameter(b, 0, scalar, "a"), ops.parameter(b, 1, scalar, "b"))
    return b.build()


def total(operand: xla.XlaOp, dimensions: list[int]) -> xla.XlaOp:
    return ops.reduce(operand, 0.0, reducer("add"), dimensions)


def predictor(images: int) -> xla.XlaComputation:
    """Returns (images f32[N,64], w1, b1, w2, b2) -> class probabilities f32[N,10]."""
    b = xla.XlaBuilder("predict")
    inputs = _parameters(b, {"images": f"f32[{images},{PIXELS}]", **SHAPES})
    ops.exp(log_probabilities(forward(*inputs).logits))
    return b.build()


def log_probabilities(logits: xla.XlaOp) -> xla.XlaOp:
    """Returns the logarithm of the softmax over each row; subtracts the row's maximum to avoid overflow."""
    highest = ops.reduce(logits, float("-inf"), reducer("max"), [1])
    shifted = ops.sub(logits, highest, broadcast_dimensions=[0])
    return ops.sub(shifted, ops.log(total(ops.exp(shifted), [1])), broadcast_dimensions=[0])


def training_step(batch: int, rate: float) -> xla.XlaComputation:
    """Returns (images, labels s32[N], parameters, velocities) -> (loss, new parameters, new velocities).

    Softmax cross-entropy averaged over the batch, its gradient, and a step of gradient descent with momentum.
    """
    b = xla.XlaBuilder("training_step")
    velocities = {f"v_{name}": shape for name, shape in SHAPES.items()}
    declared = {"images": f"f32[{batch},{PIXELS}]", "labels": f"s32[{batch}]", **SHAPES, **velocities}
    images, labels, *state = _parameters(b, declared)
    weights, speeds = state[: len(SHAPES)], state[len(SHAPES) :]
    passed = forward(images, *weights)
    log_p = log_probabilities(passed.logits)
    classes = ops.iota(b, xla.Shape.parse(f"s32[{batch},{CLASSES}]"), 1)
    one_hot = ops.convert_element_type(ops.eq(classes, labels, broadcast_dimensions=[0]), xla.PrimitiveType.F32)
    loss = -total(log_p * one_hot, [0, 1]) / float(batch)
    gradients = _gradients(images, weights[2], passed, (ops.exp(log_p) - one_hot) / float(batch))
    new_speeds = [v * MOMENTUM - g * rate for v, g in zip(speeds, gradients, strict=True)]
    new_weights = [w + v for w, v in zip(weights, new_speeds, strict=True)]
    ops.tuple(b, [loss, *new_weights, *new_speeds])
    return b.build()


def _gradients(images: xla.XlaOp, w2: xla.XlaOp, passed: Forward, d_logits: xla.XlaOp) -> list[xla.XlaOp]:
    """Returns the gradients of the loss in the order of `PARAMETERS`, given its gradient with respect to the logits."""
    d_hidden = ops.dot(d_logits, ops.transpose(w2, [1, 0]))
    d_before = ops.select(passed.active, d_hidden, 0.0)
    return [
        ops.dot(ops.transpose(images, [1, 0]), d_before),
        total(d_before, [0]),
        ops.dot(ops.transpose(passed.hidden, [1, 0]), d_logits),
        total(d_logits, [0]),
    ]


def _parameters(b: xla.XlaBuilder, declared: dict[str, str]) -> list[xla.XlaOp]:
    shapes = enumerate(declared.items())
    return [ops.parameter(b, number, xla.Shape.parse(shape), name) for number, (name, shape) in shapes]

"""Import rules of transfers to and from the host and other devices: infeed, outfeed, send and recv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import U32
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.transfer import SOURCE_TARGET_PAIRS
from xlapy.opcodes.transfer import ChannelAttributes, InfeedAttributes, OutfeedAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_integers, describe, fields, flag, matrix, pairs, text
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import ONE_OR_MORE, rule


@rule("stablehlo.infeed", operands=1, results=ONE_OR_MORE, on_storage_type=True, any_operands=True)
def infeed(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Imports an infeed. HLO's infeed returns several arrays as a tuple; the results are its elements."""
    shapes = [builder.declared_shape(result) for result in operation.results[:-1]]
    shapes = _with_layouts(shapes, operation.attributes.get("layout"))
    data = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    attributes = InfeedAttributes.make(infeed_config=text(operation, "infeed_config", ""))
    shape = Shape.tuple((data, Shape.token()))
    result = builder.emit(opcodes.INFEED, builder.operands(operation), attributes, shape=shape)
    return [*builder.unpack(builder.get_tuple_element(result, 0), len(shapes)), builder.get_tuple_element(result, 1)]


def _with_layouts(shapes: list[Shape], given: Any) -> list[Shape]:
    """Returns the shapes with the layouts `[[1, 0], ...]`, minor dimensions first."""
    if given is None:
        return shapes
    if not isinstance(given, tuple) or len(given) < len(shapes):
        raise ShapeError(
            codes.ATTRIBUTE_KIND,
            f"attribute layout must list a layout for each of {len(shapes)} arrays, but is {describe(given)}",
        )
    return [
        shape.with_layout(Layout(as_integers(layout, "layout"))) for shape, layout in zip(shapes, given, strict=False)
    ]


@rule("stablehlo.outfeed", operands=ONE_OR_MORE, on_storage_type=True, any_operands=True)
def outfeed(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    *arrays, token = builder.operands(operation)
    data = builder.pack(arrays)
    attributes = OutfeedAttributes.make(outfeed_shape=data.shape, outfeed_config=text(operation, "outfeed_config", ""))
    return builder.emit(opcodes.OUTFEED, (data, token), attributes)


@rule("stablehlo.send", operands=ONE_OR_MORE, on_storage_type=True, any_operands=True)
def send(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    *arrays, token = builder.operands(operation)
    data = builder.pack(arrays)
    attributes = _channel(operation)
    sent = builder.emit(opcodes.SEND, (data, token), attributes)
    done = builder.emit(opcodes.SEND_DONE, (sent,), attributes)
    _set_source_target_pairs(operation, sent, done)
    return done


@rule("stablehlo.recv", operands=1, results=ONE_OR_MORE, on_storage_type=True, any_operands=True)
def recv(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    shapes = [builder.declared_shape(result) for result in operation.results[:-1]]
    data = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    attributes = _channel(operation)
    context = Shape.tuple((data, Shape.scalar(U32), Shape.token()))
    received = builder.emit(opcodes.RECV, builder.operands(operation), attributes, shape=context)
    done = builder.emit(opcodes.RECV_DONE, (received,), attributes)
    _set_source_target_pairs(operation, received, done)
    return [*builder.unpack(builder.get_tuple_element(done, 0), len(shapes)), builder.get_tuple_element(done, 1)]


def _channel(operation: ir.Operation) -> ChannelAttributes:
    return ChannelAttributes.make(
        channel_id=fields(operation, "channel_handle").integer("handle"),
        is_host_transfer=flag(operation, "is_host_transfer"),
    )


def _set_source_target_pairs(operation: ir.Operation, *instructions: Instruction) -> None:
    """Sets the source and target devices as a frontend attribute of both halves of the transfer, as XLA does."""
    source_target_pairs = pairs(matrix(operation, "source_target_pairs"), "source_target_pairs")
    if source_target_pairs:
        text_of_pairs = ",".join(f"{{{source},{target}}}" for source, target in source_target_pairs)
        for instruction in instructions:
            instruction.frontend_attributes = {
                **(instruction.frontend_attributes or {}),
                SOURCE_TARGET_PAIRS: f"{{{text_of_pairs}}}",
            }

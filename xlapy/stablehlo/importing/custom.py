"""Import rules: code outside of HLO, and operations that are named instead of built in.

Owns: custom_call in all its forms, composites. Must not know: what targets do, but for the names under which frameworks
hide operations that HLO has (`mhlo.topk`, composites of CHLO's operations).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import (
    as_integers,
    as_symbol,
    flag,
    integer,
    listed,
    required,
    shown,
    symbol,
    text,
)
from xlapy.stablehlo.importing.core.printing import dictionary_text
from xlapy.stablehlo.importing.core.rules import RULES, Results, rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.elementwise import PLAIN
from xlapy.stablehlo.importing.sorting import emit_top_k

Target = Callable[[Scope, ir.Operation, Mapping[str, Any]], Results]
TARGETS: dict[str, Target] = {}
"""Custom calls that stand for something else: target -> rule, given also the dictionary of their attributes."""

_VERSIONS = dict(enumerate(CustomCallApiVersion))
_HIDDEN = "mhlo.attributes"
_TYPED = "mhlo.backend_config"
_HIDDEN_ELEMENTWISE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh", "tan",
)  # fmt: skip


def target(*names: str) -> Callable[[Target], Target]:
    """Decorator: enters what a custom call of these names stands for."""

    def enter(function: Target) -> Target:
        TARGETS.update(dict.fromkeys(names, function))
        return function

    return enter


@rule("stablehlo.custom_call", results=None, stored=True)
def custom_call(scope: Scope, operation: ir.Operation) -> Results:
    name = text(operation, "call_target_name")
    known = TARGETS.get(name)
    if known is not None:
        hidden = operation.attributes.get(_HIDDEN, {})
        return known(scope, operation, hidden if isinstance(hidden, dict) else {})
    return emit_custom_call(scope, operation, name)


def emit_custom_call(scope: Scope, operation: ir.Operation, name: str) -> Sequence[Instruction]:
    """The call itself: several results make a tuple, none an empty one."""
    operands = scope.operands(operation)
    version, configuration = _interface(operation)
    shapes = [scope.declared(result) for result in operation.results]
    constraints = _constraints([operand.shape for operand in operands], operation)
    attributes = CustomCallAttributes.make(
        custom_call_target=name,
        operand_layout_constraints=constraints,
        custom_call_has_side_effect=flag(operation, "has_side_effect"),
        output_to_operand_aliasing=_aliases(operation),
        schedule=_schedule(operation),
        api_version=version,
    )
    called = [
        scope.program.computation(as_symbol(each, "called_computations"), scope.depth)
        for each in listed(operation, "called_computations")
    ]
    placed = _placed(shapes, operation)
    shape = placed[0] if len(placed) == 1 else Shape.tuple(placed)
    made = scope.emit(opcodes.CUSTOM_CALL, operands, attributes, called, shape=shape)
    made.backend_config = _configuration(configuration)
    if not shapes:
        scope.program.annotations.annotate(operation, [made])
    return scope.elements(made, len(shapes))


def _interface(operation: ir.Operation) -> tuple[CustomCallApiVersion, Any]:
    """The version of the interface and the configuration.

    Before StableHLO had dictionaries for it, calls of typed FFI were written as calls of the first version, with the
    dictionary in an attribute of its own: JAX does so still.
    """
    version, hidden = _version(operation), operation.attributes.get(_TYPED)
    if version is CustomCallApiVersion.ORIGINAL and isinstance(hidden, dict):
        return CustomCallApiVersion.TYPED_FFI, hidden
    return version, operation.attributes.get("backend_config")


def _version(operation: ir.Operation) -> CustomCallApiVersion:
    given = operation.attributes.get("api_version", 1)
    if isinstance(given, str):
        if given not in CustomCallApiVersion.__members__ and not any(v.value == given for v in _VERSIONS.values()):
            raise ShapeError(f"there is no api_version {given!r}")
        return next(v for v in _VERSIONS.values() if given in (v.value, v.name))
    number = integer(operation, "api_version", 1)
    if number not in _VERSIONS:
        raise ShapeError(f"there is no api_version {number}")
    return _VERSIONS[number or 1]  # where none is told it is the first


def _schedule(operation: ir.Operation) -> CustomCallSchedule:
    given = operation.attributes.get("custom_call_schedule", "NONE")
    return CustomCallSchedule[given] if given in CustomCallSchedule.__members__ else CustomCallSchedule.NONE


def _configuration(given: Any) -> str:
    """Text as it is, a dictionary in MLIR's syntax."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if isinstance(given, dict):
        return dictionary_text(given)
    raise ShapeError(f"backend_config must be text or a dictionary, it is {shown(given)}")


def _layouts(operation: ir.Operation, name: str, shapes: Sequence[Shape]) -> list[Shape] | None:
    """Shapes in the orders that an attribute lists, minor dimensions first; None without it."""
    given = operation.attributes.get(name)
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != len(shapes):
        raise ShapeError(f"attribute {name} must list {len(shapes)} layouts, it is {shown(given)}")
    return [_with_layout(shape, as_integers(each, name)) for shape, each in zip(shapes, given, strict=True)]


def _with_layout(shape: Shape, order: Sequence[int]) -> Shape:
    return shape.with_layout(Layout(order)) if shape.is_array else shape


def _constraints(shapes: Sequence[Shape], operation: ir.Operation) -> tuple[Shape, ...] | None:
    placed = _layouts(operation, "operand_layouts", shapes)
    return None if placed is None else tuple(placed)


def _placed(shapes: Sequence[Shape], operation: ir.Operation) -> Sequence[Shape]:
    """Results in their layouts; those of the elements where the one result is a tuple."""
    if len(shapes) == 1 and shapes[0].is_tuple:
        elements = _layouts(operation, "result_layouts", shapes[0].tuple_shapes)
        return shapes if elements is None else [Shape.tuple(elements)]
    return _layouts(operation, "result_layouts", shapes) or shapes


def _aliases(operation: ir.Operation) -> tuple[OutputAlias, ...]:
    aliases: list[OutputAlias] = []
    for each in listed(operation, "output_operand_aliases"):
        if not isinstance(each, ir.StructAttribute):
            raise ShapeError(f"an alias must be #stablehlo.output_operand_alias<...>, it is {shown(each)}")
        aliases.append(
            OutputAlias(
                as_integers(each.fields.get("output_tuple_indices", ()), "output_tuple_indices"),
                int(each.fields.get("operand_index", 0)),
                as_integers(each.fields.get("operand_tuple_indices", ()), "operand_tuple_indices"),
            )
        )
    return tuple(aliases)


# -- operations of HLO under other names


@target(*(f"{dialect}.{name}" for dialect in ("mhlo", "chlo") for name in _HIDDEN_ELEMENTWISE))
def hidden_elementwise(scope: Scope, operation: ir.Operation, _: Mapping[str, Any]) -> Instruction:
    name = text(operation, "call_target_name").partition(".")[2]
    return scope.emit(PLAIN.get(f"chlo.{name}", opcodes.TAN), scope.operands(operation))


@target("mhlo.topk")
def hidden_top_k(scope: Scope, operation: ir.Operation, hidden: Mapping[str, Any]) -> Sequence[Instruction]:
    k, largest = hidden.get("k"), hidden.get("largest", True)
    if not isinstance(k, ir.IntegerAttribute):
        raise ShapeError(f"it must tell how many elements it gives, k is {shown(k)}")
    return emit_top_k(scope, scope.operands(operation), k.value, bool(largest), is_stable=True)


@target("shape_assertion")
def shape_assertion(scope: Scope, operation: ir.Operation, _: Mapping[str, Any]) -> Sequence[Instruction]:
    """Sizes that must hold: checked here, once all of them are known."""
    condition, *values = scope.operands(operation)
    known = scope.program.constants.value_of(condition)
    if known is None:
        raise UnsupportedError("what it asserts does not follow from the shapes of the arguments")
    if not known:
        given = [scope.program.constants.value_of(value) for value in values]
        message = str(required(operation, "error_message"))
        for number, value in enumerate(given):
            message = message.replace(f"{{{number}}}", str(value))
        raise ShapeError(f"the shapes of the arguments break what the program asserts: {message}")
    return ()


# -- composites


@rule("stablehlo.composite", results=None, regions=None, stored=True)
def composite(scope: Scope, operation: ir.Operation) -> Results:
    """Those of CHLO's operations are these operations; others call their decomposition, with their name on the call."""
    name = text(operation, "name")
    attributes = operation.attributes.get("composite_attributes", {})
    if not isinstance(attributes, dict):
        raise ShapeError(f"composite_attributes must be a dictionary, they are {shown(attributes)}")
    known = RULES.get(name) if name.startswith("chlo.") else None
    if known is not None:
        stand_in = ir.Operation(name, operation.operands, operation.results, dict(attributes))
        known.check(stand_in)
        return known.rule(scope, stand_in)
    notes = {
        "composite.attributes": dictionary_text(attributes),
        "composite.name": name,
        "composite.version": str(integer(operation, "version", 0)),
    }
    return scope.program.call(scope, symbol(operation, "decomposition"), scope.operands(operation), notes)

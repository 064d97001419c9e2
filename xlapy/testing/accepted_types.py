"""Finds the element types that each operand and the result of an operation accept, by calling its shape rule.

The instructions of the samples and the examples are varied: in each, the element type of one operand is replaced by
every other type, alone or together with other operands of the same type, until the rule accepts the shapes. Responsible
for this search. Does not depend on any operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.examples import examples_of
from xlapy.testing.samples import samples_of
from xlapy.text import parse_hlo

_USES_FOR_PAIRS = 3
"""The number of uses of an op for which the types of two operands are varied independently."""

_MAX_POSITIONS_FOR_ALL_SUBSETS = 6
"""If at most this many other shapes have the same type, every subset of them is changed too; otherwise all, one or
none.
"""


@dataclass(frozen=True, slots=True)
class OpUse:
    """A legal use of an op: the shapes of its operands and its result, its attributes, and its called computations."""

    shapes: tuple[Shape, ...]
    """The shapes of the operands, then that of the result."""
    attributes: Attributes
    programs: tuple[ProgramShape, ...]


@dataclass(frozen=True, slots=True)
class AcceptedTypes:
    """What an operand or a result accepts: element types of arrays, and whether it accepts tuples and tokens."""

    types: frozenset[PrimitiveType]
    tuples: bool
    tokens: bool


def operand_names(op: OpDef, count: int) -> list[str]:
    """Returns the name of each of `count` operands. For an op with the operands `a* b*`, half of them are named `a`,
    half `b`.
    """
    names = op.operands.split()
    variadic = [name for name in names if name.endswith("*")]
    rest = count - (len(names) - len(variadic))
    share = rest // len(variadic) if variadic else 0
    found: list[str] = []
    for name in names:
        times = (
            share + (rest - share * len(variadic) if variadic and name == variadic[0] else 0) if name in variadic else 1
        )
        found += [name.removesuffix("*")] * times
    return found


@functools.lru_cache(maxsize=256)
def accepted_types(op: OpDef) -> dict[str, AcceptedTypes]:
    """Returns what each operand accepts, by its name, and what `result` accepts if the op's result is declared."""
    uses = _uses_of(op)
    types: dict[str, set[PrimitiveType]] = {}
    shape_kinds: dict[str, set[str]] = {}
    for use in uses:
        for position, name in enumerate(_names(op, use)):
            shape_kinds.setdefault(name, set()).add(_shape_kind(use.shapes[position]))
            types.setdefault(name, set()).update(_elements(use.shapes[position]))
    for use in uses:
        _add_accepted_types(op, use, types, _is_accepted)
    for use in uses[:_USES_FOR_PAIRS]:
        _add_accepted_types(op, use, types, _is_accepted_with_another)
    order = [name.removesuffix("*") for name in op.operands.split()] + ["result"]
    return {
        name: AcceptedTypes(frozenset(types[name]), "tuple" in shape_kinds[name], "token" in shape_kinds[name])
        for name in order
        if name in types
    }


def _names(op: OpDef, use: OpUse) -> list[str]:
    """Returns the names of the operands, and `result` if the result is declared."""
    return [*operand_names(op, len(use.shapes) - 1), *(["result"] if op.check is not None else [])]


def _elements(shape: Shape) -> set[PrimitiveType]:
    return {leaf.element_type for _, leaf in shape.leaves() if leaf.is_array}


AcceptanceTest = Callable[[OpDef, OpUse, int, PrimitiveType, PrimitiveType], bool]
"""(op, use, position, old type, new type) -> whether the shape at the position accepts the new type."""


def _add_accepted_types(
    op: OpDef, use: OpUse, types: dict[str, set[PrimitiveType]], is_accepted: AcceptanceTest
) -> None:
    """Adds the types that each position of a use accepts."""
    for position, name in enumerate(_names(op, use)):
        for old in _elements(use.shapes[position]):
            missing = [t for t in ARRAY_TYPES if t not in types[name]]
            types[name].update(t for t in missing if is_accepted(op, use, position, old, t))


def _shape_kind(shape: Shape) -> str:
    return "tuple" if shape.is_tuple else "token" if shape.is_token else "array"


@functools.lru_cache(maxsize=32)
def _instructions_of(family: str) -> tuple[Instruction, ...]:
    texts = [sample.text for sample in samples_of(family)] + [example.module for example in examples_of(family)]
    return tuple(chain.from_iterable(parse_hlo(text).instructions() for text in texts))


def _uses_of(op: OpDef) -> list[OpUse]:
    """Returns the distinct uses of an op in the samples and examples."""
    found: dict[OpUse, None] = {}
    for i in _instructions_of(op.family):
        if i.op is op:
            shapes = (*(operand.shape.without_layout() for operand in i.operands), i.shape.without_layout())
            programs = tuple(computation.program_shape for computation in i.computations)
            found[OpUse(shapes, i.attributes, programs)] = None
    return list(found)


def _is_accepted(op: OpDef, use: OpUse, position: int, old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether `new` can replace `old` at a position, possibly together with the same change at other positions."""

    def replaced(shape: Shape) -> Shape:
        return _with_type(shape, old, new)

    changes = [replaced(shape) for shape in use.shapes]
    others = [i for i, shape in enumerate(use.shapes) if i != position and changes[i] != shape]
    programs = tuple(_map_program(program, replaced) for program in use.programs)
    attributes = _map_attributes(use.attributes, replaced)
    calls = dict.fromkeys(((attributes, programs), (use.attributes, use.programs)))
    for subset in _subsets(others):
        chosen = {position, *subset}
        shapes = [changes[i] if i in chosen else shape for i, shape in enumerate(use.shapes)]
        if any(_is_legal(op, shapes, *call) for call in calls):
            return True
    return False


def _is_accepted_with_another(op: OpDef, use: OpUse, position: int, old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether `new` can replace `old` at a position if the array at one other position may have any type."""
    changed = _with_type(use.shapes[position], old, new)
    for other, shape in enumerate(use.shapes):
        if other == position or not shape.is_array:
            continue
        for t in ARRAY_TYPES:
            shapes = list(use.shapes)
            shapes[position], shapes[other] = changed, shape.with_element_type(t)
            if _is_legal(op, shapes, use.attributes, use.programs):
                return True
    return False


def _subsets(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yields all positions first, then smaller and smaller subsets."""
    sizes = (
        range(len(positions), -1, -1) if len(positions) <= _MAX_POSITIONS_FOR_ALL_SUBSETS else (len(positions), 1, 0)
    )
    return chain.from_iterable(combinations(positions, size) for size in sizes)


def _is_legal(op: OpDef, shapes: Sequence[Shape], attributes: Attributes, programs: tuple[ProgramShape, ...]) -> bool:
    try:
        if op.check is None:
            op.result_shape(shapes[:-1], attributes, programs)
        else:
            op.verify(shapes[-1], shapes[:-1], attributes, programs)
    except ShapeError:
        return False
    return True


def _with_type(shape: Shape, old: PrimitiveType, new: PrimitiveType) -> Shape:
    if shape.is_tuple:
        return Shape.tuple(_with_type(part, old, new) for part in shape.tuple_shapes)
    return shape.with_element_type(new) if shape.is_array and shape.element_type is old else shape


def _map_attributes(attributes: Attributes, change: Callable[[Shape], Shape]) -> Attributes:
    """Changes the shapes in attributes; literals become zeros of the changed shape."""
    changed: dict[str, Shape | Literal] = {}
    for field in attributes.fields:
        value = getattr(attributes, field.name)
        if isinstance(value, Shape):
            changed[field.name] = change(value)
        elif isinstance(value, Literal):
            changed[field.name] = Literal.zeros(change(value.shape))
    return attributes.replace(**changed) if changed else attributes


def _map_program(program: ProgramShape, change: Callable[[Shape], Shape]) -> ProgramShape:
    return ProgramShape(tuple(map(change, program.parameters)), change(program.result), program.parameter_names)


_CLASSES: tuple[tuple[str, Callable[[PrimitiveType], bool]], ...] = (
    ("pred", lambda t: t.text == "pred"),
    ("signed", lambda t: t.is_signed),
    ("unsigned", lambda t: t.is_unsigned),
    ("floating-point", lambda t: t.is_floating),
    ("complex", lambda t: t.is_complex),
)


def describe(accepted: AcceptedTypes) -> str:
    """Describes accepted types as a class or a list: `integer, floating-point`, `f32, f64` or `any`, plus tuples and
    tokens.
    """
    parts = ["token"] if accepted.tokens else []
    parts += ["tuple"] if accepted.tuples else []
    return ", ".join([*_type_words(accepted.types), *parts]) or "nothing"


def _type_words(types: frozenset[PrimitiveType]) -> list[str]:
    """Returns the names of the classes whose types are all present, and the names of the remaining types."""
    if types >= set(ARRAY_TYPES):
        return ["any"]
    words: list[str] = []
    for name, test in _CLASSES:
        members = [t for t in ARRAY_TYPES if test(t)]
        present = [t for t in members if t in types]
        words += [name] if len(present) == len(members) else [t.text for t in present]
    if "signed" in words and "unsigned" in words:
        words[words.index("signed")] = "integer"
        words.remove("unsigned")
    return words

"""Which element types the operands and the result of an operation may have, found by asking its shape rule.

Owns: the search. Its material are the instructions of the samples and the examples: in each of them the element type of
one operand is replaced by every other, alone or together with the other places that have the same type, until the rule
agrees. Must not know: any operation.
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

_ALMOST_ALIKE = 3
"""In how many uses pairs of types are tried."""

_MOST_TOGETHER = 6
"""How many places of one type are tried in every combination; of more, all together or one alone."""


@dataclass(frozen=True, slots=True)
class Use:
    """One legal use of an op: the shapes of its operands and its result, and what else the rule judges."""

    shapes: tuple[Shape, ...]
    """The operands, then the result."""
    attributes: Attributes
    programs: tuple[ProgramShape, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """What may stand in one place: element types of arrays, and whether tuples and tokens may."""

    types: frozenset[PrimitiveType]
    tuples: bool
    tokens: bool


def operand_names(op: OpDef, count: int) -> list[str]:
    """The name of each of `count` operands; those of `a* b*` take turns in equal shares."""
    names = op.operands.split()
    stars = [name for name in names if name.endswith("*")]
    rest = count - (len(names) - len(stars))
    share = rest // len(stars) if stars else 0
    found: list[str] = []
    for name in names:
        times = share + (rest - share * len(stars) if stars and name == stars[0] else 0) if name in stars else 1
        found += [name.removesuffix("*")] * times
    return found


@functools.lru_cache(maxsize=256)
def accepted_types(op: OpDef) -> dict[str, Accepted]:
    """For each operand by name, and for `result` where it is declared: what may stand there."""
    uses = _uses_of(op)
    types: dict[str, set[PrimitiveType]] = {}
    kinds: dict[str, set[str]] = {}
    for use in uses:
        for place, name in enumerate(_names(op, use)):
            kinds.setdefault(name, set()).add(_kind(use.shapes[place]))
            types.setdefault(name, set()).update(_elements(use.shapes[place]))
    for use in uses:
        _extend(op, use, types, _fits)
    for use in uses[:_ALMOST_ALIKE]:
        _extend(op, use, types, _fits_with_another)
    order = [name.removesuffix("*") for name in op.operands.split()] + ["result"]
    return {
        name: Accepted(frozenset(types[name]), "tuple" in kinds[name], "token" in kinds[name])
        for name in order
        if name in types
    }


def _names(op: OpDef, use: Use) -> list[str]:
    """The names of the operands, and of the result where it is declared."""
    return [*operand_names(op, len(use.shapes) - 1), *(["result"] if op.check is not None else [])]


def _elements(shape: Shape) -> set[PrimitiveType]:
    return {leaf.element_type for _, leaf in shape.leaves() if leaf.is_array}


Fits = Callable[[OpDef, Use, int, PrimitiveType, PrimitiveType], bool]
"""(op, use, place, old type, new type) -> whether the new type may stand there."""


def _extend(op: OpDef, use: Use, types: dict[str, set[PrimitiveType]], fits: Fits) -> None:
    """Adds to the types of each place those that fit there in this use."""
    for place, name in enumerate(_names(op, use)):
        for old in _elements(use.shapes[place]):
            missing = [t for t in ARRAY_TYPES if t not in types[name]]
            types[name].update(t for t in missing if fits(op, use, place, old, t))


def _kind(shape: Shape) -> str:
    return "tuple" if shape.is_tuple else "token" if shape.is_token else "array"


@functools.lru_cache(maxsize=32)
def _instructions_of(family: str) -> tuple[Instruction, ...]:
    texts = [sample.text for sample in samples_of(family)] + [example.module for example in examples_of(family)]
    return tuple(chain.from_iterable(parse_hlo(text).instructions() for text in texts))


def _uses_of(op: OpDef) -> list[Use]:
    """The uses in samples and examples, each once."""
    found: dict[Use, None] = {}
    for i in _instructions_of(op.family):
        if i.op is op:
            shapes = (*(operand.shape.without_layout() for operand in i.operands), i.shape.without_layout())
            programs = tuple(computation.program_shape for computation in i.computations)
            found[Use(shapes, i.attributes, programs)] = None
    return list(found)


def _fits(op: OpDef, use: Use, place: int, old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether `new` may stand for `old` in a place, if need be together with other places."""

    def replaced(shape: Shape) -> Shape:
        return _with_type(shape, old, new)

    changes = [replaced(shape) for shape in use.shapes]
    others = [i for i, shape in enumerate(use.shapes) if i != place and changes[i] != shape]
    programs = tuple(_map_program(program, replaced) for program in use.programs)
    attributes = _map_attributes(use.attributes, replaced)
    calls = dict.fromkeys(((attributes, programs), (use.attributes, use.programs)))
    for together in _subsets(others):
        chosen = {place, *together}
        shapes = [changes[i] if i in chosen else shape for i, shape in enumerate(use.shapes)]
        if any(_legal(op, shapes, *call) for call in calls):
            return True
    return False


def _fits_with_another(op: OpDef, use: Use, place: int, old: PrimitiveType, new: PrimitiveType) -> bool:
    """Whether `new` may stand for `old` in a place once the array of one other place has some other type too."""
    changed = _with_type(use.shapes[place], old, new)
    for other, shape in enumerate(use.shapes):
        if other == place or not shape.is_array:
            continue
        for t in ARRAY_TYPES:
            shapes = list(use.shapes)
            shapes[place], shapes[other] = changed, shape.with_element_type(t)
            if _legal(op, shapes, use.attributes, use.programs):
                return True
    return False


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All of the places first, then ever fewer."""
    sizes = range(len(places), -1, -1) if len(places) <= _MOST_TOGETHER else (len(places), 1, 0)
    return chain.from_iterable(combinations(places, size) for size in sizes)


def _legal(op: OpDef, shapes: Sequence[Shape], attributes: Attributes, programs: tuple[ProgramShape, ...]) -> bool:
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
    """Shapes changed, and literals made literals of the changed shape."""
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


def describe(accepted: Accepted) -> str:
    """`integer, floating-point`, `f32, f64`, `any`; with tuples and tokens where they may stand."""
    parts = ["token"] if accepted.tokens else []
    parts += ["tuple"] if accepted.tuples else []
    return ", ".join([*_type_words(accepted.types), *parts]) or "nothing"


def _type_words(types: frozenset[PrimitiveType]) -> list[str]:
    """Classes of types that are there whole, and single ones."""
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

"""Op generators for tuples and for instructions that call computations: calls, fusions, bounded loops, conditionals.

The called computations are random too, and contain only exact operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32, U32
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes import control as ops
from xlapy.opcodes.attributes.domain import DomainSides
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.elementwise import ADD, COMPARE, NEGATE, CompareAttributes, ComparisonDirection
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import GET_TUPLE_ELEMENT, TUPLE, GetTupleElementAttributes
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator, SkipDraw

_DEEPEST = 2
_FUSIBLE = ("elementwise", "movement")


def _values(generator: ModuleGenerator, least: int, most: int) -> list[Instruction]:
    """Returns values from the pool, including tuples but not tokens."""
    values = [i for i in generator.pool if not i.shape.is_token]
    return [generator.choice(values) for _ in range(generator.integer(least, most))]


def tuple_(generator: ModuleGenerator) -> None:
    generator.add(TUPLE, _values(generator, 0, 4))


def element(generator: ModuleGenerator, value: Instruction, index: int) -> Instruction:
    return generator.add(GET_TUPLE_ELEMENT, (value,), GetTupleElementAttributes.make(index=index))


def get_tuple_element(generator: ModuleGenerator) -> None:
    value = generator.choice([i for i in generator.pool if i.shape.is_tuple and i.shape.tuple_shapes])
    element(generator, value, generator.integer(0, len(value.shape.tuple_shapes) - 1))


def opt_barrier(generator: ModuleGenerator) -> None:
    generator.add(opcodes.OPT_BARRIER, _values(generator, 1, 1))


def after_all(generator: ModuleGenerator) -> None:
    """Adds an after-all of tokens and of other values, which XLA accepts too."""
    waited = [i for i in generator.pool if i.shape.is_token or i.shape.is_array]
    generator.add(opcodes.AFTER_ALL, generator.shuffled(waited)[: generator.integer(0, 3)])


def domain(generator: ModuleGenerator) -> None:
    sides = DomainSides("sharding", "{replicated}", "{maximal device=0}")
    generator.add(opcodes.DOMAIN, _values(generator, 1, 1), ops.DomainAttributes.make(domain=sides))


def asynchronous(generator: ModuleGenerator) -> None:
    """Adds an asynchronous start, possibly updates, and a done of one operation, often a call."""
    operands = [generator.array(lambda _: True, lambda _: True) for _ in range(generator.integer(1, 3))]
    shapes = [operand.shape for operand in operands]
    if len(operands) == 1 and shapes[0].element_type is not PRED and generator.chance(0.5):
        wrapper = generator.nested("asynchronous", shapes)
        computation = wrapper.finish(wrapper.add(NEGATE, wrapper.pool[:1]))
    else:
        called = _result(_inside(generator, "called", shapes))
        wrapper = generator.nested("asynchronous", shapes)
        computation = wrapper.finish(wrapper.add(opcodes.CALL, tuple(wrapper.pool), None, (called,)))
    whole = [Shape.tuple([operand.shape for operand in operands]), computation.program_shape.result, Shape.scalar(U32)]
    chain = generator.add(opcodes.ASYNC_START, operands, None, (computation,), Shape.tuple(whole))
    generator.remove_last_from_pool()
    for _ in range(generator.choice((0, 0, 1, 2))):
        chain = generator.add(opcodes.ASYNC_UPDATE, (chain,), shape=chain.shape)
        generator.remove_last_from_pool()
    generator.add(opcodes.ASYNC_DONE, (chain,))


def add_dependency(generator: ModuleGenerator) -> None:
    """Adds an add-dependency of a value on another."""
    value = generator.array(lambda _: True, lambda _: True)
    tokens = [i for i in generator.pool if i.shape.is_token]
    token = generator.choice(tokens) if tokens else edit.create(generator.computation, opcodes.AFTER_ALL, ())
    generator.add(opcodes.ADD_DEPENDENCY, (value, token))


def _inside(
    generator: ModuleGenerator, name: str, parameters: Sequence[Shape], families: Sequence[str] = ()
) -> ModuleGenerator:
    """Returns a generator for a computation with a few instructions. Elements of its tuple parameters are in the
    pool."""
    if generator.depth >= _DEEPEST or generator.scalars:
        raise SkipDraw
    inner = generator.nested(name, parameters, families)
    for parameter in tuple(inner.pool):
        for index in range(len(parameter.shape.tuple_shapes)):
            element(inner, parameter, index)
    inner.add_random_instructions(generator.integer(1, 6))
    return inner


def _result(inner: ModuleGenerator) -> Computation:
    """Returns a value, or a tuple of values that includes the last one added."""
    last = inner.pool[-1]
    if inner.chance(0.6):
        return inner.finish(last)
    return inner.finish(inner.add(TUPLE, [*_values(inner, 0, 2), last]))


def call(generator: ModuleGenerator) -> None:
    operands = _values(generator, 0, 3)
    inner = _inside(generator, "called", [operand.shape for operand in operands])
    generator.add(opcodes.CALL, operands, None, (_result(inner),))


def fusion(generator: ModuleGenerator) -> None:
    """Adds a fusion. Every value in it is used or returned, because XLA's verifier demands it."""
    operands = [generator.array(lambda _: True, lambda _: True) for _ in range(generator.integer(1, 3))]
    inner = _inside(generator, "fused", [operand.shape for operand in operands], _FUSIBLE)
    unused = [i for i in inner.pool if not i.has_users]
    root = unused[0] if len(unused) == 1 else inner.add(TUPLE, unused)
    generator.add(opcodes.FUSION, operands, FusionAttributes.make(kind=FusionKind.LOOP), (inner.finish(root),))


def while_(generator: ModuleGenerator) -> None:
    """Adds a loop that counts from a constant to a limit, for at most four iterations. The counter's index in the tuple
    is random.
    """
    values = [generator.array(lambda _: True, lambda _: True) for _ in range(generator.integer(0, 3))]
    counter = generator.integer(0, len(values))
    start = generator.constant(np.array(generator.integer(0, 2), np.int32))
    values.insert(counter, start)
    shape = Shape.tuple([value.shape for value in values])
    inner = _inside(generator, "body", [shape])
    condition = generator.nested("condition", [shape], scalars=True)
    limit = condition.constant(np.array(generator.integer(0, 4), np.int32))
    below = CompareAttributes.make(direction=ComparisonDirection.LT)
    current = element(condition, condition.pool[0], counter)
    condition.finish(condition.add(COMPARE, (current, limit), below))
    results = [inner.value(value.shape) for value in values]
    before = element(inner, inner.computation.parameters[0], counter)
    results[counter] = inner.add(ADD, (before, inner.constant(np.array(1, np.int32))))
    body = inner.finish(inner.add(TUPLE, results))
    init = generator.add(TUPLE, values)
    generator.add(opcodes.WHILE, (init,), None, (condition.computation, body))


def conditional(generator: ModuleGenerator) -> None:
    """Adds a conditional on a pred, with two branches, or on a number that may be out of range, with one to four."""
    by_pred = generator.chance(0.5)
    operands = _values(generator, *((2, 2) if by_pred else (1, 4)))
    first = _inside(generator, "branch", [operands[0].shape])
    branches = [_result(first)]
    shape = branches[0].program_shape.result
    for operand in operands[1:]:
        inner = _inside(generator, "branch", [operand.shape])
        branches.append(inner.finish(_of_shape(inner, shape)))
    index = generator.value(Shape.scalar(PRED)) if by_pred else generator.indices((), len(branches))
    if not by_pred and index.shape.element_type is not S32:
        index = generator.constant(np.array(generator.integer(-1, len(branches)), np.int32))
    generator.add(opcodes.CONDITIONAL, (index, *operands), None, branches)


def _of_shape(generator: ModuleGenerator, shape: Shape) -> Instruction:
    if shape.is_tuple:
        return generator.add(TUPLE, [_of_shape(generator, part) for part in shape.tuple_shapes])
    return generator.value(shape)


TUPLE_OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (TUPLE, tuple_),
    (GET_TUPLE_ELEMENT, get_tuple_element),
    (GET_TUPLE_ELEMENT, get_tuple_element),
    (GET_TUPLE_ELEMENT, get_tuple_element),
)
OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (opcodes.OPT_BARRIER, opt_barrier),
    (opcodes.AFTER_ALL, after_all),
    (opcodes.ADD_DEPENDENCY, add_dependency),
    (opcodes.DOMAIN, domain),
    (opcodes.ASYNC_START, asynchronous),
    (opcodes.ASYNC_UPDATE, asynchronous),
    (opcodes.ASYNC_DONE, asynchronous),
    (opcodes.CALL, call),
    (opcodes.CALL, call),
    (opcodes.FUSION, fusion),
    (opcodes.FUSION, fusion),
    (opcodes.WHILE, while_),
    (opcodes.WHILE, while_),
    (opcodes.CONDITIONAL, conditional),
    (opcodes.CONDITIONAL, conditional),
)

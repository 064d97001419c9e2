"""The strategy for loops that treat each element of their state separately: each vector runs all iterations.

Such loops come from functions on one number that run on arrays, as under `jax.vmap`. Instead of one kernel per
iteration on whole arrays, one kernel keeps a vector of each array of the state in registers through all iterations. A
loop that runs while a condition holds for any element runs, for each vector, until it holds for none of its elements:

    w = (f32[N], f32[N]) while(t): condition: reduce-or(p(x)); body: x <- select(p(x), f(x, c), x), c

    for i in N vector(16)
      while any lane of p(x): x = select p(x), f(x, c[i]), x

The strategy finds out by emitting the body whether it reads other elements of the state. Does not depend on which loops
become kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.constants import literal_value
from xlapy.analysis.counted_loops import exact_trip_count
from xlapy.analysis.loops import TupleLoop
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, flat_loops
from xlapy.codegen.plan import Candidate, ImpossibleParameterError, Rejection, Strategy, parameter
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.loops import I1, Affine, For, Kernel, Value, While
from xlapy.loops.ir import Block, inner_blocks
from xlapy.loops.lane_dependence import varying_values
from xlapy.lower import LOWERINGS, ComplexElement, Element, Lowering, components, storage_type, store_element
from xlapy.lower.core import Index, delinear, flatten_elements, linear
from xlapy.lower.sources import uniform_value

MIN_ELEMENTS = 16
"""Smaller arrays stay in registers in a loop around short kernels, too."""

MAX_INSTRUCTIONS = 400
"""The largest number of instructions of a loop, with those of the loops in it: LLVM's time grows faster than the length
of a function."""

MAX_STATE_REGISTERS = 8
"""State that fills more vector registers runs one vector at a time, otherwise two, which do not wait for each other."""

MIN_TASKS = 64
"""The tasks of a large state, at least: their elements may need different numbers of iterations."""

_MOVEMENTS = frozenset(
    {
        opcodes.BITCAST,
        opcodes.BROADCAST,
        opcodes.CONCATENATE,
        opcodes.CONSTANT,
        opcodes.COPY,
        opcodes.DYNAMIC_SLICE,
        opcodes.GATHER,
        opcodes.GET_TUPLE_ELEMENT,
        opcodes.IOTA,
        opcodes.PAD,
        opcodes.PARAMETER,
        opcodes.RESHAPE,
        opcodes.REVERSE,
        opcodes.SLICE,
        opcodes.TRANSPOSE,
        opcodes.TUPLE,
        opcodes.WHILE,
    }
)
"""What a body may contain besides elementwise operations: an element of each costs little."""


class NotElementwiseError(Exception):
    """A loop does not treat each element of its state separately. The message is the reason."""


@dataclass(frozen=True, slots=True)
class ElementwiseLoopParameters:
    """How the elements of the state are divided."""

    lanes: int = parameter(1, 64)
    """The elements that run in the lanes of one vector."""


class ElementwiseLoopStrategy(Strategy[ElementwiseLoopParameters]):
    """Runs all iterations of a loop for one vector of the state after the other."""

    name = "elementwise-loop"
    required_opcodes = frozenset({opcodes.WHILE})
    computes_elements = False

    def candidate(self, region: Region) -> Candidate | Rejection:
        reason = region.derived(reason_against_elementwise_loop)
        return Rejection(reason) if reason else Candidate(float(_elements(region)))

    def parameters(self, region: Region) -> ElementwiseLoopParameters:
        return ElementwiseLoopParameters(_lanes(region))

    def check(self, region: Region, parameters: ElementwiseLoopParameters) -> None:
        if parameters.lanes & (parameters.lanes - 1):
            raise ImpossibleParameterError("lanes", f"it is {parameters.lanes}, but must be a power of two")

    def emit(self, region: Region, parameters: ElementwiseLoopParameters) -> list[Kernel]:
        return [_kernel(region, parameters.lanes)]


def reason_against_elementwise_loop(region: Region) -> str:
    """Why a region is not a loop that the strategy computes; "" if it is one."""
    loops = [i for i in region.instructions if i.op is opcodes.WHILE]
    others = {opcodes.WHILE, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.BROADCAST, opcodes.CONSTANT}
    if len(loops) != 1 or any(i.op not in others for i in region.instructions):
        return "it is not a loop alone"
    reason = reason_of_instructions(loops[0])
    if reason:
        return reason
    try:
        kernel = _kernel(region, _lanes(region))
    except NotElementwiseError as error:
        return str(error)
    return _reason_of_scalars(kernel)


def reason_of_instructions(loop: Instruction, *, may_have_tables: bool = False) -> str:
    """Why a loop cannot be elementwise, as far as its shapes and opcodes tell; "" otherwise.

    may_have_tables: whether the bodies may contain constants in memory, which are to become operands of the kernel.
    """
    if not loop.shape.is_tuple or loop.shape.is_dynamic or TupleLoop.of(loop) is None:
        return "its state is not a tuple of arrays"
    if not all(leaf.is_array for _, leaf in loop.shape.leaves()):
        return "its state contains tokens"
    if all(shape.size < MIN_ELEMENTS for shape in _changing_shapes(loop)):
        return "its state has few elements"
    count = 0
    for instruction in _all_instructions(loop):
        count += 1
        is_any = instruction.op is opcodes.REDUCE and instruction.is_root and instruction.shape.element_type is PRED
        if not (instruction.op.elementwise or instruction.op in _MOVEMENTS or is_any):
            return f"{instruction.name} ({instruction.op.name}) is not elementwise"
        if instruction.op is opcodes.WHILE and TupleLoop.of(instruction) is None:
            return f"the state of {instruction.name} is not a tuple of arrays"
        if instruction.op is not opcodes.WHILE and instruction.op not in LOWERINGS and not is_parameter(instruction):
            return f"{instruction.name} ({instruction.op.name}) has no element"
        if not may_have_tables and is_table(instruction):
            return f"{instruction.name} is a constant in memory"
        if instruction.has_control_edges or instruction.shape.is_dynamic:
            return f"{instruction.name} ({instruction.op.name}) has an order or dynamic dimensions"
    return f"it has more than {MAX_INSTRUCTIONS} instructions" if count > MAX_INSTRUCTIONS else ""


def is_table(instruction: Instruction) -> bool:
    """Whether an instruction is a constant of several elements that differ, which kernels load from memory."""
    return instruction.op is opcodes.CONSTANT and uniform_value(instruction) is None


def _all_instructions(loop: Instruction) -> Iterator[Instruction]:
    """Yields the instructions of condition and body, and of the loops in them."""
    for computation in loop.computations:
        for instruction in computation:
            yield instruction
            if instruction.op is opcodes.WHILE:
                yield from _all_instructions(instruction)


def _reason_of_scalars(kernel: Kernel) -> str:
    """Why a kernel would spend most of its time on numbers that are equal for all elements, for each vector again."""
    vector = next(s for s in kernel.statements() if isinstance(s, For) and s.width > 1)
    varying = varying_values(vector)
    inner = [value for loop in _inner_loops(vector.body) for value in _values(loop) if value.op != "affine"]
    scalars = [value for value in inner if value not in varying]
    return "most of its operations are on scalars" if len(scalars) > 8 + len(inner) // 2 else ""


def _inner_loops(block: Block) -> Iterator[For | While]:
    return (statement for statement in block.statements if isinstance(statement, (For, While)))


def _values(loop: For | While) -> Iterator[Value]:
    stack = list(inner_blocks(loop))
    while stack:
        for statement in stack.pop().statements:
            if isinstance(statement, Value):
                yield statement
            stack += inner_blocks(statement)


# -- the kernel


def _loop(region: Region) -> Instruction:
    return next(i for i in region.instructions if i.op is opcodes.WHILE)


def _changing(view: TupleLoop) -> list[int]:
    """Returns the numbers of the elements of the state that are not invariant."""
    return [number for number in range(view.element_count) if not view.is_invariant(number)]


def _changing_shapes(loop: Instruction) -> list[Shape]:
    view = TupleLoop.of(loop)
    return [] if view is None else [loop.shape.tuple_shapes[number] for number in _changing(view)]


def _elements(region: Region) -> int:
    return max(shape.size for shape in _changing_shapes(_loop(region)))


def _lanes(region: Region) -> int:
    """Returns the lanes of a vector: those of the narrowest state, or twice as many if it fills few registers."""
    state = [shape for shape in _changing_shapes(_loop(region)) if shape.size > 1]
    sizes = [max(2, storage_type(s.element_type).byte_size) * components(s.element_type) for s in state]
    lanes = region.target.vector_bytes // max(4, min(sizes, default=4))
    registers = sum(max(1, size * lanes // region.target.vector_bytes) for size in sizes)
    return min(64, lanes * 2) if registers <= MAX_STATE_REGISTERS else lanes


def _kernel(region: Region, lanes: int) -> Kernel:
    builder = kernel_builder(region.name, region.target)
    sources = {operand: operand_source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
    shapes = [leaf for _, leaf in region.root.shape.leaves()]
    outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    size, loop = _elements(region), _loop(region)
    task = min(TASK_ELEMENTS, max(1, size // (MIN_TASKS * lanes)) * lanes)
    with flat_loops(builder, lanes, size, task) as position:
        state = emit_loop(Lowering(builder, sources), loop, position, size)
        for buffer, result, shape in zip(outputs, region.results, shapes, strict=True):
            place = position if shape.size > 1 else Affine()
            store_element(builder, buffer, place, state[result.tuple_index], shape.element_type)
    if any(shape.size == 1 for shape in shapes):
        builder.kernel.stores_repeatedly = True
    return builder.kernel


def emit_loop(outer: Lowering, loop: Instruction, position: Affine, elements: int) -> dict[int, Element]:
    """Emits all iterations of a loop for the elements at one row-major position of its state.

    Returns the final elements of the state that changes. outer: computes elements of the initial state. elements: the
    number of positions. Raises `NotElementwiseError` if an iteration needs other elements of the state.
    """
    view, (initial,) = TupleLoop.of(loop), loop.operands
    if view is None or initial.op is not opcodes.TUPLE:
        raise NotElementwiseError(f"the state of {loop.name} is not a tuple of arrays")
    state = _State(outer, view, position, elements)
    builder = outer.builder
    starts = flatten_elements([state.initial(number) for number in state.changing])
    count = exact_trip_count(loop)
    if count is not None:
        after = builder.reduce(count, starts, lambda _, values: state.next(values, None))
    else:
        found: list[Value] = []

        def test(values: Sequence[Value]) -> Value:
            found[:] = [state.condition(values)]
            return builder.op("any", I1, found[0]) if state.tested is not None else found[0]

        after = builder.while_loop(starts, test, lambda values: state.next(values, found[0]), is_bounded=False)
    return state.elements(after)


class _State:
    """The state of a loop, of which one element of each array is in registers."""

    def __init__(self, outer: Lowering, view: TupleLoop, position: Affine, elements: int) -> None:
        self.outer, self.view, self.position, self.lane_elements = outer, view, position, elements
        self.shapes = view.loop.shape.tuple_shapes
        self.changing = _changing(view)
        sizes = {self.shapes[number].size for number in self.changing} - {1}
        if sizes - {elements}:
            raise NotElementwiseError(f"the arrays of the state of {view.loop.name} have different sizes")
        self.size = elements if sizes else 1
        self.tested = _tested(view, self.size)
        if self.tested is not None and any(self.shapes[number].size == 1 for number in self.changing):
            raise NotElementwiseError(f"{view.loop.name} counts the iterations of all elements")
        invariant = (number for number in range(view.element_count) if number not in self.changing)
        self.invariant = {n: self.initial(n) for n in invariant if self.shapes[n].size in (1, self.size)}
        """Elements that every iteration reads, loaded before the loop."""

    def initial(self, number: int) -> Element:
        (operand,) = self.view.loop.operands
        return self.outer.element(operand.operands[number], self.index(self.shapes[number]))

    def index(self, shape: Shape) -> Index:
        """The index of the element in registers in an array of a shape."""
        place = self.position if shape.size > 1 else Affine()
        return delinear(self.outer.builder, place, shape.dimensions)

    def elements(self, values: Sequence[Value]) -> dict[int, Element]:
        """The elements of the changing state, given their values."""
        rest = iter(values)
        types = ((number, self.shapes[number].element_type) for number in self.changing)
        return {n: ComplexElement(next(rest), next(rest)) if t.is_complex else next(rest) for n, t in types}

    def condition(self, values: Sequence[Value]) -> Value:
        lowering = _Iteration(self, self.elements(values))
        root = self.tested or self.view.condition.root_instruction
        return lowering.value(root, self.index(root.shape))

    def next(self, values: Sequence[Value], condition: Value | None) -> list[Value]:
        """Emits an iteration. condition: that of this element, if the loop runs while one of some element holds."""
        lowering = _Iteration(self, self.elements(values))
        if self.tested is not None and condition is not None:
            predicate = _common_predicate(self)
            lowering.known[predicate, self.index(predicate.shape)] = condition
        for instruction in post_order(self.view.body):  # so that expressions do not nest deeply
            if instruction.op.elementwise and instruction.shape.size in (1, self.size):
                lowering.elements(instruction, self.index(instruction.shape))
        following = [self.view.next_element(number) for number in self.changing]
        return flatten_elements([lowering.element(i, self.index(i.shape)) for i in following])


class _Iteration(Lowering):
    """Computes elements of the condition or the body of a loop, of whose state one element is in registers."""

    def __init__(self, state: _State, current: dict[int, Element]) -> None:
        super().__init__(state.outer.builder, {})
        self.state, self.current = state, current
        self.known: dict[tuple[Instruction, Index], Element] = {}
        self._loops: dict[tuple[Instruction, Block], dict[int, Element]] = {}

    def elements(self, instruction: Instruction, index: Index) -> object:
        found = self.known.get((instruction, index))
        if found is not None:
            return found
        if instruction.op is not opcodes.GET_TUPLE_ELEMENT:
            return super().elements(instruction, index)
        source, number = instruction.operands[0], instruction.tuple_index
        if source.op is opcodes.WHILE:
            return self.inner_state(source, number, index)
        if number in self.current:
            self.check(instruction.shape, index)
            return self.current[number]
        if number in self.state.invariant and index == self.state.index(instruction.shape):
            return self.state.invariant[number]
        (initial,) = self.state.view.loop.operands
        outer = self.state.outer
        before, outer.mask = outer.mask, self.mask
        result = outer.elements(initial.operands[number], index)
        outer.mask = before
        return result

    def inner_state(self, loop: Instruction, number: int, index: Index) -> Element:
        """An element of the state after an inner loop, which is emitted when its first element is needed."""
        key = loop, self.builder.block
        if key not in self._loops:
            if self.mask is not None:
                raise NotElementwiseError(f"some elements do not need {loop.name}")
            self._loops[key] = emit_loop(self, loop, self.state.position, self.state.lane_elements)
        found = self._loops[key].get(number)
        if found is None:  # it does not change
            (initial,) = loop.operands
            return self.element(initial.operands[number], index)
        self.check(loop.shape.tuple_shapes[number], index)
        return found

    def check(self, shape: Shape, index: Index) -> None:
        """Raises `NotElementwiseError` unless an index is that of the element in registers."""
        if shape.size > 1 and linear(index, shape.dimensions) != self.state.position:
            raise NotElementwiseError(f"an iteration of {self.state.view.loop.name} reads other elements of its state")

    def bound_values(self) -> list[Value]:
        return [*self.state.outer.bound_values(), *flatten_elements(list(self.current.values()))]


# -- loops that run while a condition holds for any element


def _tested(view: TupleLoop, size: int) -> Instruction | None:
    """Returns the predicates of the elements if the condition is that any of them holds; None for another condition."""
    root = view.condition.root_instruction
    if root.op is not opcodes.REDUCE:
        return None
    tested, initial = root.operands
    combine = root.to_apply.root_instruction
    is_any = combine.op in (opcodes.OR, opcodes.MAXIMUM) and all(map(is_parameter, combine.operands))
    is_false = initial.op is opcodes.CONSTANT and not literal_value(initial.literal)
    if not (is_any and len(set(combine.operands)) == 2 and is_false and tested.shape.size == size):
        raise NotElementwiseError(f"{view.loop.name} ends by another reduction")
    return tested


def _common_predicate(state: _State) -> Instruction:
    """Returns the predicates of the body, by which it selects all elements: those that the condition tests.

    So an element stays as it is from the iteration on in which its predicate is false.
    """
    body = state.view.body
    found: set[Instruction] = set()
    for number in state.changing:
        following = state.view.next_element(number)
        is_select = following.op is opcodes.SELECT and _is_element(following.operands[2], body, number)
        if not is_select:
            raise NotElementwiseError(f"{following.name} changes elements for which the condition is false")
        found.add(following.operands[0])
    predicate = found.pop()
    assert state.tested is not None
    if found or not _are_equal(predicate, state.tested):
        raise NotElementwiseError(f"{state.view.loop.name} tests other predicates than those that select its state")
    return predicate


def _is_element(instruction: Instruction, body: Computation, number: int) -> bool:
    is_element = instruction.op is opcodes.GET_TUPLE_ELEMENT and instruction.tuple_index == number
    return is_element and instruction.operands[0] is body.parameters[0]


def _are_equal(left: Instruction, right: Instruction) -> bool:
    """Whether two instructions of computations with the same parameters are the same expression."""
    stack, seen = [(left, right)], set[tuple[Instruction, Instruction]]()
    while stack:
        pair = stack.pop()
        if pair in seen:
            continue
        seen.add(pair)
        one, other = pair
        is_same = one.op is other.op and one.attributes == other.attributes and one.shape == other.shape
        if not is_same or one.computations or other.computations or len(one.operands) != len(other.operands):
            return False
        stack += zip(one.operands, other.operands, strict=True)
    return True

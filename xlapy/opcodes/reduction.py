"""Definitions of the operations that combine elements with a computation on scalars.

Responsible for reduce, reduce-window, select-and-scatter, map, scan.
Does not depend on the IR or on values.
Source: Reduce, ReduceWindow, SelectAndScatter, Map, Scan of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.element_types import PRED
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.base.errors import ShapeError
from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import UNBOUNDED
from xlapy.opcodes.attributes.codecs import BOOL, INTEGER, INTEGERS, Attributes, attribute, attributes
from xlapy.opcodes.attributes.dimensions import WINDOW, Window
from xlapy.opcodes.movement import DimensionsAttributes
from xlapy.opcodes.registry import CalledComputationSlot, OpDef, ProgramShapes, at_least, constraint, exactly
from xlapy.opcodes.requirements import (
    compatible_ignoring_dynamic,
    elements_of,
    require_arrays,
    require_dimension,
    require_distinct,
    require_programs,
)


def check_reducer(name: str, values: Sequence[Shape], inits: Sequence[Shape], program: ProgramShape) -> None:
    """Requires a reducer of N accumulators and N values that returns N accumulators, all scalars."""
    count = len(values)
    if len(program.parameters) != 2 * count:
        raise ShapeError(
            codes.REDUCER_COUNT,
            f"{name}: the reducer takes {2 * count} parameters for {count} arrays, given {program.to_text()}",
        )
    results = elements_of(program.result)
    if len(results) != count:
        raise ShapeError(codes.REDUCER_COUNT, f"{name}: the reducer returns {count} scalars, given {program.to_text()}")
    for i, result in enumerate(results):
        accumulator, element = program.parameters[i], program.parameters[count + i]
        if not result.is_scalar:
            raise ShapeError(
                codes.REDUCER_SCALARS,
                f"{name}: result {i} of the reducer must be a scalar, given {result.to_text(layout=False)}",
            )
        outcome = f"{name}: the reducer's result {i} is {result.to_text(layout=False)}"
        if not compatible_ignoring_dynamic(result, accumulator):
            raise ShapeError(
                codes.REDUCER_TYPES,
                f"{outcome}, its parameter {i} (accumulator {i}) is {accumulator.to_text(layout=False)}",
            )
        if not compatible_ignoring_dynamic(result, inits[i]):
            raise ShapeError(codes.REDUCER_TYPES, f"{outcome}, initial value {i} is {inits[i].to_text(layout=False)}")
        if not compatible_ignoring_dynamic(result, element):
            raise ShapeError(
                codes.REDUCER_TYPES,
                f"{outcome}, its parameter {count + i} (value {i}) is {element.to_text(layout=False)}",
            )
        if result.element_type is not values[i].element_type:
            raise ShapeError(codes.REDUCER_TYPES, f"{outcome}, operand {i} is {values[i].to_text(layout=False)}")


def _split(name: str, operands: Sequence[Shape]) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Splits operands into arrays, which must have equal dimensions, and initial values."""
    require_arrays(name, operands)
    values, inits = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    for i, value in enumerate(values):
        if value.dimensions != values[0].dimensions:
            raise ShapeError(
                shared.SAME_DIMENSIONS,
                f"{name}: operand {i} is {value.to_text(layout=False)}, operand "
                f"0 is {values[0].to_text(layout=False)}; dimensions must be equal",
            )
    return values, inits


# -- reduce


@attributes
class ReduceAttributes(DimensionsAttributes):
    dimensions: tuple[int, ...] = attribute(INTEGERS, default=(), always=True)


def _infer_reduce(operands: Sequence[Shape], attrs: ReduceAttributes, programs: ProgramShapes) -> Shape:
    require_programs("reduce", programs, 1)
    values, inits = _split("reduce", operands)
    for dimension in attrs.dimensions:
        require_dimension("reduce", "dimension", dimension, values[0])
    require_distinct("reduce", "dimensions", attrs.dimensions)
    check_reducer("reduce", values, inits, programs[0])
    kept = [d for d in range(values[0].rank) if d not in attrs.dimensions]
    results = [_keep(value, kept) for value in values]
    return Shape.tuple(results) if programs[0].result.is_tuple else results[0]


def _keep(shape: Shape, kept: Sequence[int]) -> Shape:
    dimensions = tuple(shape.dimensions[d] for d in kept)
    return Shape.array(shape.element_type, dimensions, tuple(shape.dynamic_dimensions[d] for d in kept))


REDUCE = OpDef(
    name="reduce",
    family="reduction",
    summary="Combines all elements along `dimensions` with a computation, starting from the initial values.",
    result="The dimensions of the operand that are not reduced, in their order. N arrays give a tuple of N.",
    operands="operands* init_values*",
    constraints=(
        constraint("Operands and initial values are arrays.", shared.ARRAY_OPERAND),
        constraint("Operands have equal dimensions.", shared.SAME_DIMENSIONS),
        constraint(
            "`dimensions` are distinct dimensions of the operands.", shared.DIMENSION_NUMBER, shared.DISTINCT_DIMENSIONS
        ),
        constraint(
            "The computation takes 2N parameters for N operands: the accumulators, then the elements.",
            codes.REDUCER_COUNT,
        ),
        constraint(
            "The computation returns N scalars; result i has the type of accumulator i, element i and initial value i.",
            codes.REDUCER_COUNT,
            codes.REDUCER_SCALARS,
            codes.REDUCER_TYPES,
        ),
        constraint("Each result has the element type of its operand.", codes.REDUCER_TYPES),
    ),
    arity=at_least(2, multiple=2),
    attributes=ReduceAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_reduce,
)


# -- windows


@attributes
class WindowAttributes(Attributes):
    """`window` is empty for operands of rank 0."""

    window: Window = attribute(WINDOW, default=Window())


def window_output(name: str, base: Shape, window: Window) -> Shape:
    """The shape of the window positions over an array, with the element type of the array."""
    if len(window.dimensions) != base.rank:
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"{name}: the window has {len(window.dimensions)} dimensions, "
            f"operand {base.to_text(layout=False)} has {base.rank}",
        )
    window.check(f"{name}: window")
    pairs = zip(base.dimensions, window.dimensions, strict=True)
    sizes = tuple([size if size == UNBOUNDED else d.output_size(size) for size, d in pairs])
    return Shape.array(base.element_type, sizes, base.dynamic_dimensions)


def _infer_reduce_window(operands: Sequence[Shape], attrs: WindowAttributes, programs: ProgramShapes) -> Shape:
    require_programs("reduce-window", programs, 1)
    values, inits = _split("reduce-window", operands)
    check_reducer("reduce-window", values, inits, programs[0])
    results = [window_output("reduce-window", value, attrs.window) for value in values]
    return Shape.tuple(results) if programs[0].result.is_tuple else results[0]


REDUCE_WINDOW = OpDef(
    name="reduce-window",
    family="reduction",
    summary=(
        "Combines the elements under a window with a computation, at every position of the window; padding "
        "and the holes of dilation are skipped."
    ),
    result=(
        "Each dimension: `floor((size + low + high - window) / stride) + 1`, with dilated sizes. N arrays give a tuple."
    ),
    operands="operands* init_values*",
    constraints=(
        constraint("Operands and initial values are arrays.", shared.ARRAY_OPERAND),
        constraint("Operands have equal dimensions.", shared.SAME_DIMENSIONS),
        constraint(
            "The computation takes 2N parameters for N operands and returns N scalars; result i has the type of "
            "accumulator i, element i, initial value i and operand i.",
            codes.REDUCER_COUNT,
            codes.REDUCER_SCALARS,
            codes.REDUCER_TYPES,
        ),
        constraint("The window has one dimension per dimension of the operands.", shared.ENTRY_PER_DIMENSION),
        constraint("The sizes, strides and dilations of the window are positive.", attributes_codes.WINDOW_POSITIVE),
    ),
    arity=at_least(2, multiple=2),
    attributes=WindowAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_reduce_window,
)


def _infer_select_and_scatter(operands: Sequence[Shape], attrs: WindowAttributes, programs: ProgramShapes) -> Shape:
    name = "select-and-scatter"
    require_programs(name, programs, 2)
    require_arrays(name, operands)
    operand, source, init = operands
    select, scatter = programs
    element = Shape.scalar(operand.element_type)
    if len(select.parameters) != 2 or not all(compatible_ignoring_dynamic(p, element) for p in select.parameters):
        raise ShapeError(
            codes.SELECT_COMPUTATION,
            f"{name}: select takes two {element.to_text(layout=False)}, given {select.to_text()}",
        )
    if not compatible_ignoring_dynamic(select.result, Shape.scalar(PRED)):
        raise ShapeError(codes.SELECT_COMPUTATION, f"{name}: select returns pred[], given {select.to_text()}")
    check_reducer(name, [source], [init], scatter)
    positions = window_output(name, operand, attrs.window)
    if not compatible_ignoring_dynamic(source, positions):
        raise ShapeError(
            codes.SOURCE_POSITIONS,
            f"{name}: the source is {source.to_text(layout=False)}, but the window has "
            f"{positions.to_text(layout=False)} positions over {operand.to_text(layout=False)}",
        )
    return operand


SELECT_AND_SCATTER = OpDef(
    name="select-and-scatter",
    family="reduction",
    summary=(
        "Selects one operand element at each position of a window with `select`, and combines the value of "
        "`source` for the position into the result at the selected element with `scatter`."
    ),
    result="The shape of the operand.",
    operands="operand source init_value",
    constraints=(
        constraint("Operands are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "`select` takes two scalars of the operand's element type and returns pred[].", codes.SELECT_COMPUTATION
        ),
        constraint(
            "`scatter` takes two scalars and returns one; all have the type of the initial value and of `source`.",
            codes.REDUCER_COUNT,
            codes.REDUCER_SCALARS,
            codes.REDUCER_TYPES,
        ),
        constraint("The window has one dimension per dimension of the operand.", shared.ENTRY_PER_DIMENSION),
        constraint("`source` has one element per position of the window over the operand.", codes.SOURCE_POSITIONS),
        constraint("The sizes, strides and dilations of the window are positive.", attributes_codes.WINDOW_POSITIVE),
    ),
    arity=exactly(3),
    attributes=WindowAttributes,
    computation_slots=(CalledComputationSlot("select"), CalledComputationSlot("scatter")),
    infer=_infer_select_and_scatter,
)


# -- map


@attributes
class MapAttributes(DimensionsAttributes):
    """`dimensions` are all dimensions of the operands in order; HLO text may omit them."""

    dimensions: tuple[int, ...] = attribute(INTEGERS, default=(), always=True)


def _infer_map(operands: Sequence[Shape], attrs: MapAttributes, programs: ProgramShapes) -> Shape:
    require_programs("map", programs, 1)
    require_arrays("map", operands)
    mapped, (program,) = _mapped_operand(operands), programs
    if attrs.dimensions != tuple(range(mapped.rank)):
        raise ShapeError(
            codes.MAP_DIMENSIONS,
            f"map: dimensions must be 0 to rank-1 of {mapped.to_text(layout=False)}, given {list(attrs.dimensions)}",
        )
    if len(program.parameters) != len(operands):
        raise ShapeError(
            codes.MAP_COMPUTATION, f"map: {len(operands)} operands, the computation is {program.to_text()}"
        )
    for i, (operand, parameter) in enumerate(zip(operands, program.parameters, strict=True)):
        if not compatible_ignoring_dynamic(parameter, Shape.scalar(operand.element_type)):
            raise ShapeError(
                codes.MAP_COMPUTATION,
                f"map: parameter {i} of the computation is {parameter.to_text(layout=False)}, "
                f"operand {i} is {operand.to_text(layout=False)}",
            )
    if not program.result.is_scalar:
        raise ShapeError(codes.MAP_COMPUTATION, f"map: the computation must return a scalar, given {program.to_text()}")
    return Shape.array(program.result.element_type, mapped.dimensions, mapped.dynamic_dimensions)


def _mapped_operand(operands: Sequence[Shape]) -> Shape:
    """The operand with the result's dimensions; the others have equal dimensions or are scalars of its type."""
    mapped = operands[0]
    for i, operand in enumerate(operands):
        if operand.dimensions == mapped.dimensions:
            continue
        if operand.element_type is not mapped.element_type or (operand.rank and mapped.rank):
            raise ShapeError(
                shared.SAME_DIMENSIONS,
                f"map: operand {i} is {operand.to_text(layout=False)}, an operand "
                f"before it {mapped.to_text(layout=False)}; dimensions must be equal",
            )
        mapped = mapped if mapped.rank else operand
    return mapped


def _canonicalize_map_attributes(attrs: MapAttributes, operands: Sequence[Shape], _: Shape) -> MapAttributes:
    """Fills in the dimensions, which HLO text may omit."""
    if attrs.dimensions or not operands:
        return attrs
    return MapAttributes.make(dimensions=tuple(range(max(operand.rank for operand in operands))))


MAP = OpDef(
    name="map",
    family="reduction",
    summary="Applies a computation on scalars to the elements at each index.",
    result="The dimensions of the operands, with the element type that the computation returns.",
    operands="operands*",
    constraints=(
        constraint(
            "Operands are arrays of equal dimensions; scalars may stand for arrays of the same element type.",
            shared.ARRAY_OPERAND,
            shared.SAME_DIMENSIONS,
        ),
        constraint("`dimensions` are all dimensions, in order.", codes.MAP_DIMENSIONS),
        constraint(
            "The computation takes one scalar per operand, with the operand's element type, and returns a scalar.",
            codes.MAP_COMPUTATION,
        ),
    ),
    arity=at_least(1),
    attributes=MapAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_map,
    canonicalize_attributes=_canonicalize_map_attributes,
)


# -- scan


@attributes
class ScanAttributes(DimensionsAttributes):
    """`is_associative` is None if it is unspecified, which HLO text cannot express: without the key it is false."""

    num_carries: int = attribute(INTEGER)
    is_reverse: bool = attribute(BOOL, default=False)
    is_associative: bool | None = attribute(BOOL, default=False, always=True)


def scan_shape(
    operands: Sequence[Shape], attrs: ScanAttributes, program: ProgramShape, size: int | None = None
) -> Shape:
    """The result of a scan: the body's outputs with the scanned dimension, of the given size or of the inputs' size."""
    carries = attrs.num_carries
    if size is None:
        if len(attrs.dimensions) != 1 or len(operands) <= carries:
            raise ShapeError(
                codes.SCAN_SIZE_GIVEN,
                "scan without inputs along one dimension has no size to infer; give the dimension's size",
            )
        require_dimension("scan", "dimension", attrs.dimensions[0], operands[0])
        size = operands[0].dimensions[attrs.dimensions[0]]
    roots = elements_of(program.result)
    outputs = len(roots) - carries
    results = [_with_dimension(s, attrs.dimensions[0], size) if i < outputs else s for i, s in enumerate(roots)]
    return Shape.tuple(results) if program.result.is_tuple else results[0]


def _with_dimension(shape: Shape, dimension: int, size: int) -> Shape:
    if not shape.is_array or not 0 <= dimension <= shape.rank:
        raise ShapeError(
            codes.SCAN_BODY_SHAPES,
            f"scan: the body's output {shape.to_text(layout=False)} cannot have dimension {dimension} added",
        )
    sizes, dynamic = list(shape.dimensions), list(shape.dynamic_dimensions)
    sizes.insert(dimension, size)
    dynamic.insert(dimension, False)
    return Shape.array(shape.element_type, tuple(sizes), tuple(dynamic))


def _infer_scan(operands: Sequence[Shape], attrs: ScanAttributes, programs: ProgramShapes) -> Shape:
    require_programs("scan", programs, 1)
    require_arrays("scan", operands[: len(operands) - attrs.num_carries])
    shape = scan_shape(operands, attrs, programs[0])
    _check_scan(shape, operands, attrs, programs)
    return shape


def _check_scan(shape: Shape, operands: Sequence[Shape], attrs: ScanAttributes, programs: ProgramShapes) -> None:
    """Requires operands (inputs, carries), results (outputs, carries), and a body on slices of inputs and outputs."""
    require_programs("scan", programs, 1)
    require_arrays("scan", operands[: len(operands) - attrs.num_carries])
    (program,) = programs
    results = elements_of(shape)
    roots = elements_of(program.result)
    _check_scan_counts(operands, results, attrs, program, roots)
    dimension, carries = attrs.dimensions[0], attrs.num_carries
    inputs, outputs = len(operands) - carries, len(results) - carries
    size = (*operands[:inputs], *results[:outputs])[0].dimensions[dimension : dimension + 1]
    for i, (operand, parameter) in enumerate(zip(operands, program.parameters, strict=True)):
        expected = _scan_slice(operand, dimension, size, f"operand {i}") if i < inputs else operand
        if not compatible_ignoring_dynamic(parameter, expected):
            raise ShapeError(
                codes.SCAN_BODY_SHAPES,
                f"scan: parameter {i} of the body is {parameter.to_text(layout=False)}, "
                f"operand {i} gives {expected.to_text(layout=False)}",
            )
    for i, (result, root) in enumerate(zip(results, roots, strict=True)):
        expected = _scan_slice(result, dimension, size, f"result {i}") if i < outputs else result
        if not compatible_ignoring_dynamic(root, expected):
            raise ShapeError(
                codes.SCAN_BODY_SHAPES,
                f"scan: result {i} of the body is {root.to_text(layout=False)}, "
                f"result {i} needs {expected.to_text(layout=False)}",
            )
    for i in range(carries):
        if not compatible_ignoring_dynamic(program.parameters[inputs + i], roots[outputs + i]):
            raise ShapeError(
                codes.SCAN_BODY_SHAPES,
                f"scan: carry {i} enters the body as {program.parameters[inputs + i].to_text(layout=False)} "
                f"and leaves it as {roots[outputs + i].to_text(layout=False)}",
            )


def _check_scan_counts(
    operands: Sequence[Shape],
    results: Sequence[Shape],
    attrs: ScanAttributes,
    program: ProgramShape,
    roots: Sequence[Shape],
) -> None:
    carries = attrs.num_carries
    if len(attrs.dimensions) != 1:
        raise ShapeError(codes.SCAN_DIMENSION, f"scan runs along exactly one dimension, given {list(attrs.dimensions)}")
    if not 0 <= carries <= min(len(operands), len(results)):
        raise ShapeError(
            codes.SCAN_CARRIES, f"scan has {carries} carries, but {len(operands)} operands and {len(results)} results"
        )
    if len(operands) == carries == len(results):
        raise ShapeError(codes.SCAN_CARRIES, "scan needs an input or an output besides its carries")
    if len(program.parameters) != len(operands) or len(roots) != len(results):
        raise ShapeError(
            codes.SCAN_BODY_COUNTS,
            f"scan has {len(operands)} operands and {len(results)} results, its body is {program.to_text()}",
        )


def _scan_slice(shape: Shape, dimension: int, size: tuple[int, ...], what: str) -> Shape:
    require_dimension("scan", "dimension", dimension, shape)
    if shape.dimensions[dimension : dimension + 1] != size:
        raise ShapeError(
            codes.SCAN_SIZE,
            f"scan: {what} is {shape.to_text(layout=False)}, dimension "
            f"{dimension} must have size {size[0] if size else 0}",
        )
    return _keep(shape, [d for d in range(shape.rank) if d != dimension])


SCAN = OpDef(
    name="scan",
    family="reduction",
    summary=(
        "Iterates along one dimension: the body takes a slice of each input and the carries, and returns a "
        "slice of each output and the next carries."
    ),
    result="The outputs, with the scanned dimension, then the carries: a tuple if the body returns one.",
    operands="inputs* carries*",
    constraints=(
        constraint("Inputs are arrays.", shared.ARRAY_OPERAND),
        constraint(
            "There is exactly one dimension, and all inputs and outputs have the same size in it.",
            shared.DIMENSION_NUMBER,
            codes.SCAN_DIMENSION,
            codes.SCAN_SIZE,
        ),
        constraint(
            "There is at least one input or output besides the carries, and there are not more carries than operands.",
            codes.SCAN_CARRIES,
        ),
        constraint("The body takes one value per operand and returns one value per result.", codes.SCAN_BODY_COUNTS),
        constraint(
            "The body's parameters have the shapes of the inputs without that dimension, and of the carries.",
            codes.SCAN_BODY_SHAPES,
        ),
        constraint(
            "The body's results have the shapes of the outputs without that dimension, and of the carries.",
            codes.SCAN_BODY_SHAPES,
        ),
    ),
    arity=at_least(1),
    attributes=ScanAttributes,
    computation_slots=(CalledComputationSlot("to_apply"),),
    infer=_infer_scan,
    check=_check_scan,
)

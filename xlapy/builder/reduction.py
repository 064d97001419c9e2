"""Builder functions of reductions, windows, maps and scans, which combine elements by a scalar computation.

Responsible for the builder functions of `opcodes/reduction.py` and the custom calls for SAME padding of dynamic
dimensions. Does not depend on the order in which elements are combined. Source: Reduce, ReduceWindow, SelectAndScatter,
Map, Scan of the specification; ReduceAll and the forms WithGeneralPadding of xla_builder.h.

Arguments that several forms share:
`operands`, `init_values`: one array and its scalar initial value, or several of both, reduced together. Arrays have
equal dimensions. Initial values may be plain numbers, which become constants of their operand's element type.
`computation`: for N arrays, takes N accumulators and N values, all scalars, and returns the new accumulators, as a
tuple for N > 1. It should be associative, and the initial values its identities: elements may be combined in any
grouping, and the initial value may be omitted where there is a single element.
`window_dimensions`, `window_strides`, `base_dilations`, `window_dilations`: one per dimension (empty: all 1).
`padding`: SAME, VALID or pairs (low, high), one per dimension; negative padding removes elements.
Every function raises `BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as reduction_codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.shape import Shape
from xlapy.builder.core.broadcasting import as_ints, broadcast_scalar, constant_of
from xlapy.builder.core.builder import XlaBuilder, append, builder_of
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.builder.core.padding import Padding, PaddingLike, dilated_sizes, make_padding
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension
from xlapy.opcodes.custom import CUSTOM_CALL, CustomCallAttributes
from xlapy.opcodes.reduction import (
    MAP,
    REDUCE,
    REDUCE_WINDOW,
    SCAN,
    SELECT_AND_SCATTER,
    MapAttributes,
    ReduceAttributes,
    ScanAttributes,
    WindowAttributes,
    scan_shape,
)

Arrays: TypeAlias = XlaOp | Sequence[XlaOp]
InitValues: TypeAlias = Operand | Sequence[Operand]


def _arrays(operands: Arrays) -> list[XlaOp]:
    return [operands] if isinstance(operands, XlaOp) else list(operands)


def _values(given: InitValues) -> list[Operand]:
    return list(given) if isinstance(given, Sequence) else [given]


def _with_inits(builder: XlaBuilder, arrays: Sequence[XlaOp], init_values: InitValues) -> list[XlaOp]:
    """Returns the arrays, followed by their initial values as ops."""
    inits = _values(init_values)
    if len(inits) != len(arrays):
        raise ShapeError(
            codes.INITIAL_VALUES, f"takes one initial value per array, given {len(inits)} for {len(arrays)}"
        )
    for array in arrays:
        if not array.shape.is_array:
            raise ShapeError(
                shared.ARRAY_OPERAND, f"takes arrays, operand {array.name} is {array.shape.to_text(layout=False)}"
            )
    return [*arrays, *[constant_of(builder, i, a.element_type) for i, a in zip(inits, arrays, strict=True)]]


# -- reduce


def reduce(
    operands: Arrays, init_values: InitValues, computation: XlaComputation, dimensions_to_reduce: Sequence[int]
) -> XlaOp:
    """Combines the elements along `dimensions_to_reduce` (in any order, each once); the other dimensions remain.

    The result is an array, or a tuple of arrays if the computation returns a tuple.

    >>> b, f = xla.XlaBuilder("row_sums"), xla.Shape.parse("f32[]")
    >>> s = b.create_sub_builder("sum")
    >>> sum = s.build(ops.parameter(s, 0, f, "a") + ops.parameter(s, 1, f, "b"))
    >>> ops.reduce(ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x"), 0.0, sum, [1])
    <XlaOp reduce = f32[2] reduce>
    """
    arrays = _arrays(operands)
    builder = builder_of("reduce", arrays)
    with builder.building("reduce"):
        attributes = ReduceAttributes.make(dimensions=as_ints("dimensions_to_reduce", dimensions_to_reduce))
        return builder.append(REDUCE, _with_inits(builder, arrays, init_values), attributes, (computation,))


def reduce_all(operand: XlaOp, init_value: Operand, computation: XlaComputation) -> XlaOp:
    """A reduction over all dimensions, to a scalar."""
    return reduce(operand, init_value, computation, range(operand.shape.rank))


# -- reduce-window, select-and-scatter


def reduce_window(
    operands: Arrays,
    init_values: InitValues,
    computation: XlaComputation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (),
) -> XlaOp:
    """Combines the elements of each window: one result element per window position.

    Dilation by d puts d - 1 holes between adjacent elements of the operand or of the window; holes and padding do not
    contribute. SAME padding of a dynamic dimension creates the custom call "DynamicReduceWindowSamePadding".
    """
    arrays = _arrays(operands)
    builder = builder_of("reduce-window", arrays)
    with builder.building("reduce-window"):
        combined = _with_inits(builder, arrays, init_values)
        window = _window(arrays[0].shape, window_dimensions, window_strides, padding, base_dilations, window_dilations)
        if not _is_dynamic_same(arrays[0].shape, window, padding):
            return builder.append(REDUCE_WINDOW, combined, WindowAttributes.make(window=window), (computation,))
        shape = REDUCE_WINDOW.result_shape(
            [op.shape for op in combined], WindowAttributes.make(window=window), [computation.program_shape]
        )
        return _same_padding_call("DynamicReduceWindowSamePadding", combined, window, (computation,), shape)


def reduce_window_with_general_padding(
    operands: Arrays,
    init_values: InitValues,
    computation: XlaComputation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    base_dilations: Sequence[int],
    window_dilations: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> XlaOp:
    """`reduce_window` with dilations, and with padding as pairs (low, high)."""
    return reduce_window(
        operands, init_values, computation, window_dimensions, window_strides, padding, base_dilations, window_dilations
    )


def _window(
    operand: Shape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (),
) -> Window:
    sizes = as_ints("window_dimensions", window_dimensions)
    strides = as_ints("window_strides", window_strides)
    base, inner = as_ints("base_dilations", base_dilations), as_ints("window_dilations", window_dilations)
    pairs = make_padding(dilated_sizes(operand.dimensions, base), dilated_sizes(sizes, inner), strides, padding)
    return Window.make(sizes, strides, pairs, base, inner)


def _is_dynamic_same(operand: Shape, window: Window, padding: PaddingLike) -> bool:
    """Whether the padding depends on the run-time size of a dimension."""
    if not isinstance(padding, Padding | str) or Padding(padding) is not Padding.SAME:
        return False
    pairs = zip(operand.dynamic_dimensions, window.dimensions, strict=True)
    return any(is_dynamic and dimension != WindowDimension(1) for is_dynamic, dimension in pairs)


def _same_padding_call(
    target: str, operands: Sequence[XlaOp], window: Window, computations: Sequence[XlaComputation], shape: Shape
) -> XlaOp:
    attributes = CustomCallAttributes.make(window=window, custom_call_target=target)
    return append(CUSTOM_CALL, operands, attributes, computations, shape=shape)


def select_and_scatter(
    operand: XlaOp,
    select: XlaComputation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
    source: Operand,
    init_value: Operand,
    scatter: XlaComputation,
) -> XlaOp:
    """The gradient of pooling: each window of the operand selects one element, which receives the window's value of
    `source`.

    `select` takes two elements of a window, the one with the lower index first, and returns whether to keep the first;
    it must be transitive. Padding is never selected. `source` has one element per window position. The result has the
    operand's shape and starts as `init_value`; `scatter` takes the current value and the source value. SAME padding of
    a dynamic dimension creates the custom call "DynamicSelectAndScatterSamePadding".
    """
    builder = builder_of("select-and-scatter", (operand,))
    with builder.building("select-and-scatter"):
        window = _window(operand.shape, window_dimensions, window_strides, padding)
        values = [constant_of(builder, value, operand.element_type) for value in (operand, source, init_value)]
        attributes = WindowAttributes.make(window=window)
        if not _is_dynamic_same(operand.shape, window, padding):
            return builder.append(SELECT_AND_SCATTER, values, attributes, (select, scatter))
        programs = [select.program_shape, scatter.program_shape]
        shape = SELECT_AND_SCATTER.result_shape([value.shape for value in values], attributes, programs)
        return _same_padding_call("DynamicSelectAndScatterSamePadding", values, window, (select, scatter), shape)


def select_and_scatter_with_general_padding(
    operand: XlaOp,
    select: XlaComputation,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    source: Operand,
    init_value: Operand,
    scatter: XlaComputation,
) -> XlaOp:
    """`select_and_scatter` with the padding as pairs (low, high)."""
    return select_and_scatter(operand, select, window_dimensions, window_strides, padding, source, init_value, scatter)


# -- map


def map(
    operands: Sequence[Operand],
    computation: XlaComputation,
    dimensions: Sequence[int],
    static_operands: Sequence[Operand] = (),
) -> XlaOp:
    """Applies `computation` to the elements of all operands at each index; the result has the operands' dimensions.

    `dimensions` lists all dimensions, 0 to rank-1. `operands` have equal dimensions and may differ in element type;
    scalars among them are broadcast, and plain numbers become constants of the type of their parameter.
    `static_operands`, which HLO no longer has, follow the operands and are broadcast likewise: `map([a, b, c, par1], f,
    [0])` and `map([a, b, c], f, [0], [par1])` are equivalent.
    """
    values = [*operands, *static_operands]
    builder = builder_of("map", values)
    with builder.building("map"):
        if len(values) != len(computation.program_shape.parameters):
            raise ShapeError(
                reduction_codes.MAP_COMPUTATION,
                f"{len(values)} operands, the computation is {computation.program_shape.to_text()}",
            )
        pairs = zip(values, computation.program_shape.parameters, strict=True)
        given = [constant_of(builder, value, parameter.element_type) for value, parameter in pairs]
        sizes = next((op.shape.dimensions for op in given if op.shape.is_array and op.shape.rank), ())
        mapped = [broadcast_scalar(op, sizes) if sizes and op.shape.is_scalar else op for op in given]
        attributes = MapAttributes.make(dimensions=as_ints("dimensions", dimensions))
        return builder.append(MAP, mapped, attributes, (computation,))


# -- scan


def scan(
    inputs: Arrays,
    inits: InitValues,
    to_apply: XlaComputation,
    scan_dimension: int,
    is_reverse: bool = False,
    is_associative: bool | None = None,
    scan_dimension_size: int | None = None,
) -> XlaOp:
    """Applies `to_apply` along a dimension of m inputs, carrying k values from each iteration to the next.

    `to_apply` takes the m slices (without the scan dimension) and k carries, and returns a tuple of n outputs and the k
    new carries. The result is a tuple of the n outputs of all iterations, with the scan dimension, and the last
    carries. `is_reverse`: from the last slice to the first. `is_associative`: a promise to the compiler; None makes
    none. `scan_dimension_size` is required only without inputs. Plain numbers among `inits` take the type of their
    parameter.
    """
    arrays = _arrays(inputs)
    given = _values(inits)
    builder = builder_of("scan", [*arrays, *given])
    with builder.building("scan"):
        operands = [*arrays, *_carries(builder, given, to_apply, len(arrays))]
        attributes = ScanAttributes.make(
            dimensions=as_ints("scan_dimension", (scan_dimension,)),
            num_carries=len(given),
            is_reverse=is_reverse,
            is_associative=is_associative,
        )
        size = None if arrays else scan_dimension_size
        shape = scan_shape([op.shape for op in operands], attributes, to_apply.program_shape, size)
        if arrays and scan_dimension_size not in (None, arrays[0].shape.dimensions[scan_dimension]):
            raise InvalidArgumentError(
                reduction_codes.SCAN_SIZE,
                f"scan_dimension_size is {scan_dimension_size}, input 0 is {arrays[0].shape.to_text(layout=False)}, "
                f"scanned along dimension {scan_dimension}",
            )
        shape = shape if shape.is_tuple else Shape.tuple([shape])
        return builder.append(SCAN, operands, attributes, (to_apply,), shape=shape)


def _carries(builder: XlaBuilder, inits: Sequence[Operand], body: XlaComputation, skipped: int) -> list[XlaOp]:
    parameters = body.program_shape.parameters[skipped:]
    if len(parameters) != len(inits):
        raise ShapeError(
            reduction_codes.SCAN_BODY_COUNTS,
            f"{skipped} inputs and {len(inits)} initial carries, the computation is {body.program_shape.to_text()}",
        )
    return [constant_of(builder, init, p.element_type) for init, p in zip(inits, parameters, strict=True)]

"""Builder functions of custom calls, which run code outside of HLO.

Responsible for the builder functions of `opcodes/custom.py`. Does not depend on which targets exist, except for the
targets that begin and end manual partitioning.
Source: CustomCall of the specification; its forms and ConvertSpmd... in xla_builder.h.

Arguments that all forms share:
`call_target_name`: the name of the code.
`operands`, `shape`: any values, and the shape of the result.
`opaque`: a text passed to the code.
`has_side_effect`: whether the call is kept, in order, even if its result is unused.
`output_operand_aliasing`: results that use the buffer of an operand, as pairs `(output index, (operand number, index in
the operand))` of tuple indices, or as `OutputAlias`. `[((0,), (1, ()))]` puts element 0 of the result in operand 1.
`literal`: a constant passed to the code. `schedule`: where to place the call. `api_version`: the calling convention.
Every function raises `BuilderError` at the caller's line if the arguments do not fit, and for targets that start with
`$`, which are internal to the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xlapy.base.error_codes.building import builder as codes
from xlapy.base.errors import InvalidArgumentError, ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.builder.core.annotations import ShardingLike, as_sharding
from xlapy.builder.core.broadcasting import as_ints
from xlapy.builder.core.builder import XlaBuilder
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled_sharding
from xlapy.opcodes.attributes.aliasing import OutputAlias
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Window
from xlapy.opcodes.custom import CUSTOM_CALL, CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, require_array

Alias: TypeAlias = OutputAlias | tuple[Sequence[int], tuple[int, Sequence[int]]]


def _alias(given: Alias) -> OutputAlias:
    if isinstance(given, OutputAlias):
        return given
    output, (operand, index) = given
    return OutputAlias(as_ints("output index", output), operand, as_ints("operand index", index))


def _append(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    opaque: str,
    output_operand_aliasing: Sequence[Alias],
    computations: Sequence[XlaComputation] = (),
    **attributes: Any,
) -> XlaOp:
    with builder.building("custom-call"):
        if call_target_name.startswith("$"):
            raise InvalidArgumentError(
                codes.CUSTOM_TARGET, f"targets that start with $ are internal, given {call_target_name!r}"
            )
        aliases = tuple([_alias(alias) for alias in output_operand_aliasing])
        made = CustomCallAttributes.make(
            custom_call_target=call_target_name, output_to_operand_aliasing=aliases, **attributes
        )
        result = builder.append(CUSTOM_CALL, operands, made, computations, shape=shape)
        result.instruction.backend_config = opaque
        return result


def custom_call(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """Calls the code `call_target_name` on the operands, in layouts that the compiler chooses."""
    return _append(
        builder,
        call_target_name,
        operands,
        shape,
        opaque,
        output_operand_aliasing,
        custom_call_has_side_effect=has_side_effect,
        literal=literal,
        schedule=schedule,
        api_version=api_version,
    )


def custom_call_with_computation(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    computation: XlaComputation,
    shape: Shape,
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of code that applies a computation."""
    return _append(
        builder,
        call_target_name,
        operands,
        shape,
        opaque,
        output_operand_aliasing,
        (computation,),
        custom_call_has_side_effect=has_side_effect,
        literal=literal,
        schedule=schedule,
        api_version=api_version,
    )


def custom_call_with_layout(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape_with_layout: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of code with fixed layouts: one shape with layout per operand, and the layout of `shape`."""
    return _append(
        builder,
        call_target_name,
        operands,
        shape_with_layout,
        opaque,
        output_operand_aliasing,
        operand_layout_constraints=tuple(operand_shapes_with_layout),
        custom_call_has_side_effect=has_side_effect,
        literal=literal,
        schedule=schedule,
        api_version=api_version,
    )


def custom_call_with_computation_and_layouts(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    computation: XlaComputation,
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str = "",
    has_side_effect: bool = False,
    output_operand_aliasing: Sequence[Alias] = (),
    literal: Literal | None = None,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call_with_layout` of code that applies a computation."""
    return _append(
        builder,
        call_target_name,
        operands,
        shape,
        opaque,
        output_operand_aliasing,
        (computation,),
        operand_layout_constraints=tuple(operand_shapes_with_layout),
        custom_call_has_side_effect=has_side_effect,
        literal=literal,
        schedule=schedule,
        api_version=api_version,
    )


def custom_call_with_conv_dnums(
    builder: XlaBuilder,
    call_target_name: str,
    operands: Sequence[XlaOp],
    shape: Shape,
    operand_shapes_with_layout: Sequence[Shape],
    opaque: str,
    has_side_effect: bool,
    output_operand_aliasing: Sequence[Alias],
    literal: Literal | None,
    window: Window,
    dnums: ConvDimensions,
    schedule: CustomCallSchedule = CustomCallSchedule.NONE,
    api_version: CustomCallApiVersion = CustomCallApiVersion.ORIGINAL,
) -> XlaOp:
    """`custom_call` of a convolution with its window and dimension numbers.

    Layouts are fixed if `operand_shapes_with_layout` is not empty.
    """
    return _append(
        builder,
        call_target_name,
        operands,
        shape,
        opaque,
        output_operand_aliasing,
        window=window,
        dim_labels=dnums,
        operand_layout_constraints=tuple(operand_shapes_with_layout) or None,
        literal=literal,
        custom_call_has_side_effect=has_side_effect,
        schedule=schedule,
        api_version=api_version,
    )


# -- manual partitioning


def convert_spmd_full_to_shard_shape(
    builder: XlaBuilder,
    input: XlaOp,
    single_dim: int,
    manual_sharding: ShardingLike,
    unspecified_dims: Sequence[int] = (),
) -> XlaOp:
    """Begins manual partitioning: returns the shard, the tile of one partition, of an array that `manual_sharding`
    splits.

    With `single_dim` >= 0 only that dimension is split manually, with -1 all dimensions are. If tiles do not divide a
    dimension, the size of the shard is rounded up. `unspecified_dims`: dimensions whose tiling the partitioner may
    still choose.
    """
    with builder.building("convert_spmd_full_to_shard_shape"):
        shape = builder.get_shape(input)
        sharding = _manual_input(manual_sharding, single_dim, shape)
        shard = _shard_shape(shape, sharding, single_dim)
        whole = _marked(builder, "Sharding", input, shape, sharding, unspecified_dims)
        by_hand = _by_hand(sharding, single_dim)
        return _marked(builder, "SPMDFullToShardShape", whole, shard, by_hand, unspecified_dims)


def convert_spmd_shard_to_full_shape(
    builder: XlaBuilder,
    input: XlaOp,
    output_shape: Shape,
    single_dim: int,
    manual_sharding: ShardingLike,
    unspecified_dims: Sequence[int] = (),
) -> XlaOp:
    """Ends manual partitioning: returns the whole array, of `output_shape`, of which `input` is the shard of one
    partition.

    The arguments are those of `convert_spmd_full_to_shard_shape`. Raises BuilderError if the shapes are inconsistent.
    """
    with builder.building("convert_spmd_shard_to_full_shape"):
        sharding = _manual_input(manual_sharding, single_dim, output_shape)
        shard = _shard_shape(output_shape, sharding, single_dim)
        given = builder.get_shape(input)
        if not compatible_ignoring_dynamic(given, shard):
            what = f"{sharding} splits {output_shape.to_text(layout=False)} into {shard.to_text(layout=False)}"
            raise ShapeError(codes.SHARD_SHAPE, f"{what}, the input is {given.to_text(layout=False)}")
        by_hand = _by_hand(sharding, single_dim)
        annotated = _marked(builder, "Sharding", input, given, by_hand, unspecified_dims)
        return _marked(builder, "SPMDShardToFullShape", annotated, output_shape, sharding, unspecified_dims)


def _marked(
    builder: XlaBuilder, target: str, operand: XlaOp, shape: Shape, sharding: Sharding, unspecified_dims: Sequence[int]
) -> XlaOp:
    dims = ",".join(map(str, as_ints("unspecified_dims", unspecified_dims)))
    with builder.sharding(sharding):
        return custom_call(builder, target, [operand], shape, f"unspecified_dims=[{dims}]" if dims else "")


def _manual_input(given: ShardingLike, single_dim: int, whole: Shape) -> Sharding:
    """Returns the manual sharding of one whole array."""
    require_array("partitioning by hand", whole)
    sharding = as_sharding(given)
    sharding.check(whole)
    if sharding.kind is ShardingKind.NAMED:
        raise InvalidArgumentError(codes.MANUAL_SHARDING, f"takes a sharding with tile counts, given {sharding}")
    if not -1 <= single_dim < whole.rank:
        raise InvalidArgumentError(
            codes.MANUAL_SHARDING,
            f"single_dim is a dimension of {whole.to_text(layout=False)}, or -1 for all, given {single_dim}",
        )
    return sharding


def _shard_shape(whole: Shape, sharding: Sharding, single_dim: int) -> Shape:
    """Returns the shape of one tile of a whole array, split along one dimension or all."""
    if sharding.tiles is None:
        return whole
    split = [tiles if single_dim in (-1, d) else 1 for d, tiles in enumerate(sharding.tiles.dimensions[: whole.rank])]
    sizes = [-(-size // tiles) for size, tiles in zip(whole.dimensions, split, strict=True)]
    return whole.with_dimensions(sizes, whole.dynamic_dimensions)


def _by_hand(sharding: Sharding, single_dim: int) -> Sharding:
    """Returns the manual sharding, or the sharding with the tiles of one dimension made a manual subgroup.

    Example, dimension 1 of `{devices=[2,4]<=[8]}`: `{devices=[2,1,4]<=[8] last_tile_dims={manual}}`.
    """
    if single_dim < 0 or sharding.tiles is None:
        return Sharding(ShardingKind.MANUAL)
    sizes = sharding.tiles.dimensions
    places = range(len(sizes) + 1)
    apart = sharding.tiles.reshape([*sizes[: single_dim + 1], 1, *sizes[single_dim + 1 :]])
    tiles = apart.transpose([*(place for place in places if place != single_dim), single_dim])
    replicated = ("replicated",) if sharding.replicate_on_last_tile_dim else ()
    return tiled_sharding(tiles, (*sharding.subgroup_types, *replicated, "manual"))

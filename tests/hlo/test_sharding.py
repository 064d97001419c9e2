"""Shardings: parsing and printing, canonical forms compared with XLA's, and errors."""

from __future__ import annotations

import itertools

import pytest

from tests import xla_reference
from tests.raising import Wanted, raises
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.hlo.sharding import SHARDING, Sharding, ShardingKind
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import Iota

FORMS = [
    "{replicated}",
    "{manual}",
    "{unknown}",
    "{unreduced}",
    "{maximal device=2}",
    "{devices=[2,4]<=[8]}",
    "{devices=[2,2]0,1,2,3}",
    "{devices=[2,4]<=[4,2]T(1,0)}",
    "{devices=[1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,2,2]<=[8] last_tile_dims={manual}}",
    "{devices=[2,1,2,2]<=[8] last_tile_dims={replicated, manual}}",
    "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, manual}}",
    "{devices=[2,1,1]<=[2] last_tile_dims={manual, replicated}}",
    "{devices=[2,2,2]3,1,0,2,4,5,7,6 last_tile_dim_replicate}",
    "{devices=[1,4]<=[4] last_tile_dim_replicate}",
    "{devices=[2,2,2,3]<=[24] last_tile_dims={replicated, manual}}",
    "{devices=[4,1]<=[4] last_tile_dim_replicate}",
    "{devices=[3,2,2,2]<=[4,6]T(1,0) last_tile_dims={replicated, manual}}",
    "{devices=[2,3]<=[1,6]T(0,1)}",
    "{unknown shard_like 0}",
    '{replicated shard_as 3 metadata={{op_name="a"}, {op_name="b"}}}',
    '{devices=[2,1]<=[2] metadata={op_type="t" op_name="a"}}',
    "{}",
    "{{replicated}, {manual}}",
    "{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}",
    "{mesh['x'=2,'y'=4], [{'0'}, {'y':(1)2}]}",
    "{mesh['x'=2], replicated}",
    "{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{'x'}, {}], replicated={'y'}}",
    "{mesh['x'=2], manual}",
    "{mesh['a'=2,'b'=2], device_ids=(3,1,2,0), [{'a'}, {?}], manual={'b'}, metadata={op_name=\"x\"}}",
    "{mesh['x'=2], unreduced}",
    "{mesh['x'=2], [], unreduced={'x'}}",
    "{maximal_mesh[device_id=3]}",
    "{mesh[], [{},{}]}",
]


def read(text: str) -> Sharding:
    return SHARDING.read(HloCursor(text))


def of_xla(text: str, shape: str = "f32[8,8]") -> str:
    printed = xla_reference.parse_and_print(
        f"HloModule m\nENTRY e {{ ROOT a = {shape} parameter(0), sharding={text} }}"
    )
    return next(line for line in printed.split("\n") if "sharding=" in line).partition("sharding=")[2]


@pytest.mark.parametrize("text", FORMS)
def test_text_is_xlas(text: str) -> None:
    sharding = read(text)
    assert str(sharding) == of_xla(text)
    assert read(str(sharding)) == sharding


def test_metadata_can_be_left_out() -> None:
    assert read('{replicated shard_as 1 metadata={op_name="a"}}').to_text(metadata=False) == "{replicated shard_as 1}"


@pytest.mark.parametrize("shape", ["(f32[2], (f32[2], s32[]))", "()", "(f32[1],f32[2],f32[3],f32[4],f32[5],f32[6])"])
def test_one_sharding_for_a_tuple_means_one_a_leaf(shape: str) -> None:
    assert str(read("{maximal device=1}").for_shape(Shape.parse(shape))) == of_xla("{maximal device=1}", shape)
    listed = read("{{replicated}}")
    assert listed.for_shape(Shape.parse(shape)) is listed


def test_fields() -> None:
    sharding = read("{devices=[2,1,2,2]<=[8] last_tile_dims={replicated, manual}}")
    assert sharding.kind is ShardingKind.TILED
    assert sharding.subgroup_types == ("manual", "replicated")
    assert sharding.tiles is not None
    assert sharding.tiles.device_ids() == (0, 2, 1, 3, 4, 6, 5, 7)


@pytest.mark.parametrize("sizes", [(2, 6, 4), (3, 1, 8), (6, 4), (5, 7)])
def test_transposing_tiles_moves_the_devices(sizes: tuple[int, ...]) -> None:
    tiles = TileAssignment.make(sizes)
    listed = TileAssignment.make(sizes, tiles.device_ids())
    for perm in itertools.permutations(range(len(sizes))):
        assert tiles.transpose(perm).device_ids() == listed.transpose(perm).device_ids()
        assert isinstance(tiles.transpose(perm).devices, Iota)
        again = tiles.transpose(perm).transpose([perm.index(d) for d in range(len(sizes))])
        assert again == tiles


def test_tiles_that_cut_a_factor_fall_back_to_a_list() -> None:
    tiles = TileAssignment.make((2, 3), Iota.make((3, 2), (1, 0))).reshape((3, 2))
    assert tiles.device_ids() == (0, 2, 4, 1, 3, 5)
    assert tiles.transpose((1, 0)).devices == (0, 4, 3, 2, 1, 5)


def test_tiles_and_devices_must_agree_in_number() -> None:
    with raises(ShapeError, annotation_codes.SHARDING_DEVICES, "[2,3]", "6", "given 4"):
        TileAssignment.make((2, 3), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{devices=[3]<=[4]}", (annotation_codes.SHARDING_DEVICES, "[3]", "given 4")),
        ("{devices=[2,2]0,1,2}", (annotation_codes.SHARDING_DEVICES, "[2,2]", "given 3")),
        ("{devices=[1]0}", (annotation_codes.SHARDING_DEVICES, "more than one")),
        ("{maximal}", (annotation_codes.SHARDING_PARTS, "device=")),
        ("{replicated devices=[2]<=[2]}", (annotation_codes.SHARDING_PARTS, "replicated")),
        ("{shard_as 1}", (annotation_codes.SHARDING_PARTS, "devices=")),
        (
            "{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
            (annotation_codes.SHARDING_PARTS, "2 subgroup types", "1 tile"),
        ),
        ("{devices=[2,1]<=[2] last_tile_dims={bogus}}", (text_codes.TOKEN, "'bogus'")),
        ("{bogus}", (text_codes.TOKEN, "replicated, manual")),
        ("{mesh['x'=2], [{'x'}, {'x'}]}", (attributes_codes.AXES_OVERLAP, "'x'")),
        ("{mesh['x'=2], [" + "{'x'}, " * 1024 + "{'x'}]}", (attributes_codes.DEVICE_LIMIT, "1024", "1025")),
        ("{mesh['x'=2], [{'x'}], replicated={}, replicated={}}", (text_codes.REPEATED_KEY, "replicated=")),
        ("{mesh['x'=2], [{?, 'x'}]}", (annotation_codes.SHARDING_PARTS, "?")),
        ("{{replicated}", (text_codes.TOKEN, "the end of the text")),
    ],
)
def test_refusals(text: str, expected: Wanted) -> None:
    with raises(ParseError, *expected):
        read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{devices=[2,4]<=[4,2]}", r"T\("),
        ("{devices=[2,4]<=[4,2]T(1,1)}", r"T\(1,1\).*\[4,2\]"),
        ("{mesh['x'=2], [{'z'}]}", "'z'.*'x'=2"),
        ("{mesh['x'=4], [{'x'}], replicated={'x':(1)2, 'x'}}", r"'x':\(1\)2"),
    ],
)
def test_refusals_of_meshes_and_device_ids(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read(text)

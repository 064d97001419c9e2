"""`Sharding`: how the result of an instruction is distributed over devices, in every form that HLO text has.

Responsible for the value, its canonical form and its text. Does not depend on partitioning.
Source: sharding attributes of HLO text (OpSharding, tile assignments V1 and V2, named meshes).
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from enum import Enum

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.hlo.metadata import METADATA, OpMetadata, metadata_text
from xlapy.hlo.named_sharding import NamedForm, NamedSharding, read_metadata_list, read_named, read_named_over
from xlapy.hlo.tiles import TileAssignment, read_tiles
from xlapy.opcodes.attributes.codecs import AttributeCodec, entries, int64_from_text
from xlapy.opcodes.attributes.mesh import Mesh


class ShardingKind(Enum):
    """The form of a sharding."""

    REPLICATED = "replicated"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"
    MAXIMAL = "maximal"
    TILED = "tiled"
    NAMED = "named"
    TUPLE = "tuple"


_KIND_OF_WORD = {
    k.value: k for k in (ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.UNKNOWN, ShardingKind.UNREDUCED)
}
_WHOLE_KINDS = frozenset({ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.MAXIMAL})
_SUBGROUP_ORDER = ("maximal", "manual", "unreduced", "replicated")


@checked_class
@dataclass(frozen=True, slots=True)
class Sharding:
    """A sharding; only the fields of its kind are set.

    tiles: the devices of a TILED sharding. Its last dimensions are subgroups of `subgroup_types`, or replicas of the
    same tile if `replicate_on_last_tile_dim`. device: the device of a MAXIMAL sharding. elements: one sharding per
    leaf of the shape, for a TUPLE. shard_group: `("shard_as", 3)` or `("shard_like", 3)`.

    >>> xla.Sharding.parse("{devices=[2,1]0,1}").kind.value
    'tiled'
    """

    kind: ShardingKind
    device: int = 0
    tiles: TileAssignment | None = None
    subgroup_types: tuple[str, ...] = ()
    replicate_on_last_tile_dim: bool = False
    named: NamedSharding | None = None
    elements: tuple[Sharding, ...] = ()
    shard_group: tuple[str, int] | None = None
    metadata: tuple[OpMetadata, ...] = ()

    @staticmethod
    def parse(text: str) -> Sharding:
        """Parses `{devices=[2,1]<=[2]}`, including the braces; raises `ParseError` if malformed."""
        cursor = HloCursor(text)
        sharding = SHARDING.read(cursor)
        cursor.expect_end("sharding")
        return sharding

    @staticmethod
    def over_mesh(mesh: Mesh, text: str) -> Sharding:
        """Parses what follows the mesh in a named sharding, `[{'x'}, {}]}` with the closing brace.

        Many shardings share a mesh, whose devices may be many. Raises `ParseError` if the text is malformed.
        """
        cursor = HloCursor(text)
        named = read_named_over(cursor, mesh)
        cursor.expect_end("sharding")
        return Sharding(ShardingKind.NAMED, named=named)

    def check(self, shape: Shape) -> None:
        """Raises `ShapeError` unless a value of this shape can have the sharding.

        A tuple needs one sharding per leaf, an array one tile count per dimension, and a list of devices a distinct
        device per tile. A token can have any sharding.
        """
        if shape.is_token:
            return
        if (self.kind is ShardingKind.TUPLE) != shape.is_tuple:
            raise ShapeError(
                annotation_codes.SHARDING_SHAPE,
                f"sharding {self} of {'one array' if shape.is_tuple else 'a tuple'} on {shape.to_text(layout=False)}",
            )
        if not shape.is_tuple:
            self._check_array(shape)
            return
        leaves = list(shape.leaves())
        if len(self.elements) != len(leaves) and (leaves or len(self.elements) > 1):  # () takes one sharding, or none
            raise ShapeError(
                annotation_codes.SHARDING_SHAPE,
                f"sharding {self} has {len(self.elements)} elements, "
                f"{shape.to_text(layout=False)} has {len(leaves)} leaves",
            )
        for element, (_, leaf) in zip(self.elements, leaves, strict=False):
            element.check(leaf)

    def _check_array(self, shape: Shape) -> None:
        if self.kind is ShardingKind.MAXIMAL and self.device < 0:
            raise ShapeError(annotation_codes.SHARDING_DEVICES, f"sharding {self} names a negative device")
        if self.named is not None:
            rank = len(self.named.dimensions) if self.named.form is NamedForm.DIMENSIONS else shape.rank
        elif self.tiles is not None:
            rank = self.data_rank
            devices = self.tiles.devices
            if isinstance(devices, tuple) and (len(set(devices)) != len(devices) or min(devices) < 0):
                raise ShapeError(
                    annotation_codes.SHARDING_DEVICES, f"sharding {self} does not name a distinct device for each tile"
                )
        else:
            return
        if rank != shape.rank:
            raise ShapeError(
                annotation_codes.SHARDING_SHAPE,
                f"sharding {self} splits {rank} dimensions, {shape.to_text(layout=False)} has rank {shape.rank}",
            )

    @property
    def data_rank(self) -> int:
        """The number of leading tile dimensions that are dimensions of the value; the others are subgroups."""
        tiles = 0 if self.tiles is None else len(self.tiles.dimensions)
        return tiles - len(self.subgroup_types) - self.replicate_on_last_tile_dim

    @property
    def is_whole(self) -> bool:
        """Whether each device holds the whole value, or the program itself says which part (manual sharding)."""
        if self.kind is ShardingKind.TUPLE:
            return all(element.is_whole for element in self.elements)
        if self.named is not None:
            return self.named.is_whole
        if self.tiles is None:
            return self.kind in _WHOLE_KINDS
        data = self.tiles.dimensions[: self.data_rank]
        return all(size == 1 for size in data) and "unreduced" not in self.subgroup_types

    def for_shape(self, shape: Shape) -> Sharding:
        """The sharding for a value of this shape: on a tuple, a sharding of one array applies to every leaf."""
        if not shape.is_tuple or self.kind is ShardingKind.TUPLE:
            return self
        leaves = sum(1 for _ in shape.leaves())  # an empty tuple counts as one leaf
        return Sharding(ShardingKind.TUPLE, elements=(self,) * max(leaves, 1))

    def to_text(self, metadata: bool = True) -> str:
        """XLA's text, including the braces; `metadata` tells whether to print the metadata."""
        if self.kind is ShardingKind.TUPLE:
            return f"{{{_listed([element.to_text(metadata) for element in self.elements])}}}"
        if self.named is not None:
            return f"{{{self.named.to_text(metadata)}}}"
        parts = [self._head()]
        if self.replicate_on_last_tile_dim:
            parts.append("last_tile_dim_replicate")
        if self.subgroup_types:
            parts.append(f"last_tile_dims={{{', '.join(self.subgroup_types)}}}")
        if self.shard_group is not None:
            parts.append(f"{self.shard_group[0]} {self.shard_group[1]}")
        if metadata and self.metadata:
            parts.append(f"metadata={{{self._metadata_text()}}}")
        return f"{{{' '.join(parts)}}}"

    def _head(self) -> str:
        if self.tiles is not None:
            return f"devices={self.tiles.to_text()}"
        return f"maximal device={self.device}" if self.kind is ShardingKind.MAXIMAL else self.kind.value

    def _metadata_text(self) -> str:
        if len(self.metadata) == 1:
            return metadata_text(self.metadata[0])
        return ", ".join(map(METADATA.write, self.metadata))

    def __str__(self) -> str:
        return self.to_text()


def _listed(texts: list[str]) -> str:
    """Joins texts with commas and marks every fifth one with its index, as XLA does."""
    marked = [f"/*index={i}*/{text}" if i and i % 5 == 0 else text for i, text in enumerate(texts)]
    return ", ".join(marked)


def tiled_sharding(tiles: TileAssignment, subgroup_types: tuple[str, ...] = ()) -> Sharding:
    """The canonical sharding of tiles whose last dimensions are subgroups of the given types.

    As in XLA, subgroups of a single type over untiled data become a sharding of that type, subgroup dimensions of size
    1 are removed, dimensions of the same type are merged, and the types are ordered with `replicated` last.
    """
    if not subgroup_types:
        return Sharding(ShardingKind.TILED, tiles=tiles)
    data = len(tiles.dimensions) - len(subgroup_types)
    first = subgroup_types[0]
    if len(set(subgroup_types)) == 1 and math.prod(tiles.dimensions[:data]) == 1 and first in _KIND_OF_WORD:
        return Sharding(_KIND_OF_WORD[first])
    by_type: dict[str, list[int]] = {}
    for dimension, subgroup in enumerate(subgroup_types, data):
        if tiles.dimensions[dimension] != 1:
            by_type.setdefault(subgroup, []).append(dimension)
    if len(by_type) > 1 or sum(map(len, by_type.values())) != len(subgroup_types) or _has_repeated_type(by_type):
        tiles, subgroup_types = _merge_subgroups(tiles, data, by_type)
    return _sharding_with_subgroups(tiles, subgroup_types)


def _has_repeated_type(by_type: dict[str, list[int]]) -> bool:
    return any(len(dimensions) > 1 for dimensions in by_type.values())


def _merge_subgroups(
    tiles: TileAssignment, data: int, by_type: dict[str, list[int]]
) -> tuple[TileAssignment, tuple[str, ...]]:
    """Merges the subgroup dimensions of each type into one and orders them by type."""
    types = tuple(subgroup for subgroup in _SUBGROUP_ORDER if subgroup in by_type)
    kept = [dimension for subgroup in types for dimension in by_type[subgroup]]
    removed = [dimension for dimension in range(data, len(tiles.dimensions)) if dimension not in kept]
    sizes = [math.prod(tiles.dimensions[dimension] for dimension in by_type[subgroup]) for subgroup in types]
    moved = tiles.transpose([*range(data), *kept, *removed])
    return moved.reshape([*tiles.dimensions[:data], *sizes]), types


def _sharding_with_subgroups(tiles: TileAssignment, types: tuple[str, ...]) -> Sharding:
    if not types:
        return Sharding(ShardingKind.TILED, tiles=tiles)
    if types == ("replicated",):
        return _partially_replicated(tiles)
    if types == ("manual",) and tiles.size == tiles.dimensions[-1]:
        return Sharding(ShardingKind.MANUAL)
    if types[-1] == "replicated":
        partial = _partially_replicated(tiles)
        return dataclasses.replace(partial, replicate_on_last_tile_dim=False, subgroup_types=types)
    return Sharding(ShardingKind.TILED, tiles=tiles, subgroup_types=types)


def _partially_replicated(tiles: TileAssignment) -> Sharding:
    """The sharding of tiles whose last dimension holds replicas of the same tile."""
    if len(tiles.dimensions) == 1 or tiles.dimensions[-1] == tiles.size:
        return Sharding(ShardingKind.REPLICATED)
    if tiles.dimensions[-1] == 1:
        return Sharding(ShardingKind.TILED, tiles=tiles.reshape(tiles.dimensions[:-1]))
    return Sharding(ShardingKind.TILED, tiles=tiles.sort_last_dimension(), replicate_on_last_tile_dim=True)


_NAMED = re.compile(r"(?=(?:maximal_)?mesh\s*\[)")
_ENTRY = re.compile(
    r"(?P<word>replicated|manual|unknown|unreduced|maximal|last_tile_dim_replicate)\b"
    r"|(?P<group>shard_as|shard_like)\s+(?P<id>-?\d+)|(?P<key>device|devices|metadata|last_tile_dims)\s*="
)
_TUPLE = re.compile(r"(?=\{|\})")


class ShardingCodec(AttributeCodec[Sharding]):
    """`sharding={devices=[2,1]<=[2]}`, `sharding={{replicated}, {maximal device=0}}`"""

    def read(self, cursor: HloCursor) -> Sharding:
        cursor.expect("{")
        if cursor.match(_TUPLE) is None:
            return _read_one(cursor)
        elements: list[Sharding] = []
        for _ in entries(cursor, opening=""):
            cursor.expect("{")
            elements.append(_read_one(cursor))
        return Sharding(ShardingKind.TUPLE, elements=tuple(elements))

    def write(self, value: Sharding) -> str:
        return value.to_text()


def _read_one(cursor: HloCursor) -> Sharding:
    """Reads one sharding after its opening brace."""
    if cursor.match(_NAMED):
        named = read_named(cursor)
        return Sharding(ShardingKind.NAMED, named=named)
    entries = _ShardingEntries()
    while not cursor.accept("}"):
        match = cursor.match(_ENTRY)
        if match is None:
            cursor.fail(
                text_codes.TOKEN,
                "expected replicated, manual, unknown, unreduced, maximal, device=, devices=, metadata=, "
                "last_tile_dims=, last_tile_dim_replicate, shard_as, shard_like, mesh[ or }",
            )
        entries.read(cursor, match)
    return entries.sharding(cursor)


class _ShardingEntries:
    """The entries between the braces of one sharding, which may be in any order."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self.device: int | None = None
        self.tiles: TileAssignment | None = None
        self.types: tuple[str, ...] = ()
        self.group: tuple[str, int] | None = None
        self.metadata: tuple[OpMetadata, ...] = ()

    def read(self, cursor: HloCursor, match: re.Match[str]) -> None:
        if match["word"]:
            self.words.add(match["word"])
        elif match["group"]:
            self.group = (match["group"], int64_from_text(match["id"]))
        elif match["key"] == "device":
            self.device = cursor.integer()
        elif match["key"] == "devices":
            self.tiles = read_tiles(cursor)
        elif match["key"] == "metadata":
            self.metadata = read_metadata_list(cursor)
        else:
            self.types = _read_types(cursor)

    def sharding(self, cursor: HloCursor) -> Sharding:
        try:
            base = self._base(cursor)
        except ShapeError as error:
            cursor.fail(error.code, error.message)
        return dataclasses.replace(base, shard_group=self.group, metadata=self.metadata)

    def _base(self, cursor: HloCursor) -> Sharding:
        for word in ("replicated", "maximal", "manual", "unknown", "unreduced"):
            if word not in self.words:
                continue
            if word == "maximal":
                if self.device is None:
                    cursor.fail(annotation_codes.SHARDING_PARTS, "a maximal sharding needs device=")
                return Sharding(ShardingKind.MAXIMAL, device=self.device)
            if self.device is not None or self.tiles is not None:
                cursor.fail(annotation_codes.SHARDING_PARTS, f"a {word} sharding takes no devices")
            return Sharding(_KIND_OF_WORD[word])
        if self.tiles is None:
            cursor.fail(
                annotation_codes.SHARDING_PARTS,
                "a sharding needs devices= or one of replicated, manual, unknown, unreduced and maximal",
            )
        types = ("replicated",) if "last_tile_dim_replicate" in self.words else self.types
        if len(types) > len(self.tiles.dimensions):
            cursor.fail(
                annotation_codes.SHARDING_PARTS,
                f"{len(types)} subgroup types for {len(self.tiles.dimensions)} tile dimensions",
            )
        if isinstance(self.tiles.devices, tuple) and self.tiles.size < 2:
            cursor.fail(annotation_codes.SHARDING_DEVICES, "a tiled sharding needs more than one device")
        return tiled_sharding(self.tiles, types)


def _read_types(cursor: HloCursor) -> tuple[str, ...]:
    types: list[str] = []
    for _ in entries(cursor):
        word = cursor.word()
        if word not in _SUBGROUP_ORDER:
            cursor.fail(text_codes.TOKEN, f"expected one of {', '.join(_SUBGROUP_ORDER)}; found {word!r}")
        types.append(word)
    return tuple(types)


SHARDING = ShardingCodec()

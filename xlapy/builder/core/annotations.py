"""What a builder writes on every op it makes: sharding, frontend attributes, metadata, original value.

Owns: these settings, the ways to set them (`Annotated`, a base of `XlaBuilder`), their merge with the user's line.
Must not know: ops, computations under construction. Source: SetSharding, SetFrontendAttributes, SetOpMetadata ... and
the XlaScoped... classes of xla_builder.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from xlapy.base.errors import BuilderError, ParseError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.builder.core.source import located
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.metadata import OpMetadata
from xlapy.hlo.sharding import Sharding
from xlapy.text.annotations import frontend_attributes_text, read_frontend_attributes, read_original_value

ShardingLike: TypeAlias = Sharding | str
"""A sharding, or its text such as `{devices=[2,1]<=[2]}`."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the next op is given. `one_shot_op_metadata` stands for `op_metadata` on one op and is then forgotten."""

    sharding: Sharding | None = None
    frontend_attributes: Mapping[str, str] | None = None
    op_metadata: OpMetadata | None = None
    one_shot_op_metadata: OpMetadata | None = None
    original_value: str = ""

    @property
    def given_metadata(self) -> OpMetadata | None:
        return self.one_shot_op_metadata or self.op_metadata

    @property
    def instruction_name(self) -> str | None:
        """What XLA names an instruction by: the last part of the framework's name of it, if that is given."""
        given = self.given_metadata
        return (given.op_name.rpartition("/")[2] or None) if given is not None else None

    def metadata(self, line: OpMetadata | None) -> OpMetadata | None:
        """The metadata given, with the user's line unless it names a source file itself."""
        given = self.given_metadata
        if given is None or line is None:
            return given or line
        if given.source_file:
            return given
        return replace(given, source_file=line.source_file, source_line=line.source_line)

    @property
    def after_one_op(self) -> Annotations:
        return self if self.one_shot_op_metadata is None else replace(self, one_shot_op_metadata=None)

    def check(self, shape: Shape) -> None:
        """Raises ShapeError if an op of this shape cannot be sharded as the settings say."""
        if self.sharding is not None:
            self.sharding.for_shape(shape).check(shape)

    def write_on(self, instruction: Instruction) -> None:
        """Puts all but the metadata on an instruction that `check` has passed."""
        if self.sharding is not None:
            instruction.sharding = self.sharding.for_shape(instruction.shape)
        instruction.frontend_attributes = self.frontend_attributes
        instruction.original_value = self.original_value


PLAIN = Annotations()
"""Nothing but the user's line."""


class Annotated:
    """The settings of a builder. Each holds for the ops that follow: until cleared, or inside a `with` statement.

    All methods raise BuilderError at the caller's line if a value cannot stand in HLO text.
    """

    def __init__(self) -> None:
        self._annotations = PLAIN

    @property
    def annotations(self) -> Annotations:
        """What the next op is given."""
        return self._annotations

    # -- sharding

    def set_sharding(self, sharding: ShardingLike) -> None:
        """Shards the ops that follow; an op whose shape does not fit is refused."""
        self._annotate(sharding=as_sharding(sharding))

    def clear_sharding(self) -> None:
        """Leaves the sharding of the ops that follow to the partitioner."""
        self._annotate(sharding=None)

    def sharding(self, sharding: ShardingLike | None) -> AbstractContextManager[None]:
        """`with builder.sharding("{devices=[2,1]<=[2]}"):` shards the ops made inside, None leaves them free."""
        return self._scope(sharding=None if sharding is None else as_sharding(sharding))

    # -- frontend attributes

    def set_frontend_attributes(self, attributes: Mapping[str, str]) -> None:
        """Gives the ops that follow these attributes, in place of those set before."""
        self._annotate(frontend_attributes=checked_attributes(attributes))

    def clear_frontend_attributes(self) -> None:
        self._annotate(frontend_attributes=None)

    def frontend_attributes(self, attributes: Mapping[str, str]) -> AbstractContextManager[None]:
        """`with builder.frontend_attributes({"layer": "3"}):` gives the ops made inside these attributes, only."""
        return self._scope(frontend_attributes=checked_attributes(attributes))

    # -- metadata

    def set_op_metadata(self, metadata: OpMetadata) -> None:
        """Gives the ops that follow this metadata; where it names no source file, the user's line is added.

        Ops are then named by the last part of `op_name`: `jit(f)/add` makes `add`, `add.1`.
        """
        self._annotate(op_metadata=metadata)

    def set_one_shot_op_metadata(self, metadata: OpMetadata) -> None:
        """`set_op_metadata` for the next instruction alone; a function that makes several gives it to the first."""
        self._annotate(one_shot_op_metadata=metadata)

    def clear_op_metadata(self) -> None:
        """Leaves only the user's line to the ops that follow."""
        self._annotate(op_metadata=None)

    def op_metadata(self, metadata: OpMetadata | None) -> AbstractContextManager[None]:
        """`with builder.op_metadata(OpMetadata(op_name="f/add")):` gives the ops made inside this metadata."""
        return self._scope(op_metadata=metadata)

    # -- original value

    def set_original_value(self, original_value: str) -> None:
        """Says of the ops that follow which value of an earlier program they are.

        The text is that of HLO's `origin={...}` without the outer braces: `{"p0"}`, of a tuple `({"a"}, {"b" {1}})`.
        """
        self._annotate(original_value=checked_original_value(original_value))

    def clear_original_value(self) -> None:
        self._annotate(original_value="")

    def original_value(self, original_value: str) -> AbstractContextManager[None]:
        """`with builder.original_value('{"p0"}'):` is `set_original_value` for the ops made inside."""
        return self._scope(original_value=checked_original_value(original_value))

    def _annotate(self, **changes: Any) -> None:
        self._annotations = replace(self._annotations, **changes)

    @contextmanager
    def _scope(self, **changes: Any) -> Iterator[None]:
        saved = {name: getattr(self._annotations, name) for name in changes}
        self._annotate(**changes)
        try:
            yield
        finally:
            self._annotate(**saved)


def as_sharding(given: ShardingLike) -> Sharding:
    """The sharding, read if it is a text. Raises BuilderError."""
    if isinstance(given, Sharding):
        return given
    if not isinstance(given, str):
        raise BuilderError(located(f"a sharding is a Sharding or its text, given {type(given).__name__} {given!r}"))
    try:
        return Sharding.parse(given)
    except ParseError as error:
        raise BuilderError(located(f"{given!r} is no sharding: {error.message}")) from None


def checked_attributes(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """A copy of frontend attributes. Raises BuilderError unless HLO text gives them back as they are."""
    copy = dict(attributes)
    for key, value in copy.items():
        if not isinstance(key, str) or not isinstance(value, str):  # type: ignore[redundant-expr]
            raise BuilderError(located(f"frontend attributes map strings to strings, given {key!r}: {value!r}"))
    try:
        again = read_frontend_attributes(HloCursor(frontend_attributes_text(copy)))
    except ParseError as error:
        raise BuilderError(located(f"frontend attributes {copy} have no HLO text: {error.message}")) from None
    if again != copy:
        raise BuilderError(located(f"frontend attributes {copy} would be read back from HLO text as {again}"))
    return copy


def checked_original_value(text: str) -> str:
    """The text as XLA writes it. Raises BuilderError if it is none."""
    reader = HloCursor(f"{{{text}}}")
    try:
        value = read_original_value(reader)
        if not reader.at_end():
            reader.fail(f"expected its end, found {reader.describe_next()}")
    except ParseError as error:
        raise BuilderError(located(f"{text!r} is no original value: {error.message}")) from None
    return value

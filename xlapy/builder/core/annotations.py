"""The annotations that a builder puts on every op it creates: sharding, frontend attributes, metadata, original value.

Responsible for these settings, for the methods that set them (`Annotated`, a base class of `XlaBuilder`), and for
adding the user's source line. Does not depend on ops or on computations under construction.
Source: SetSharding, SetFrontendAttributes, SetOpMetadata ... and the XlaScoped... classes of xla_builder.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from xlapy.base.arguments.checking import eager_class
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
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
    """The annotations of the next op. `one_shot_op_metadata` replaces `op_metadata` for one op and is then cleared."""

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
        """The name that XLA gives the instruction: the last component of `op_name`; empty if there is none."""
        given = self.given_metadata
        return (given.op_name.rpartition("/")[2] or None) if given is not None else None

    def metadata(self, line: OpMetadata | None) -> OpMetadata | None:
        """The metadata that was set, with the user's source line unless the metadata names a source file itself."""
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
        """Raises ShapeError if the sharding that is set does not fit an op of this shape."""
        if self.sharding is not None:
            self.sharding.for_shape(shape).check(shape)

    def write_on(self, instruction: Instruction) -> None:
        """Writes all annotations except the metadata to an instruction. The caller has called `check`."""
        if self.sharding is not None:
            instruction.sharding = self.sharding.for_shape(instruction.shape)
        instruction.frontend_attributes = self.frontend_attributes
        instruction.original_value = self.original_value


PLAIN = Annotations()
"""Annotations with the user's source line only."""


@eager_class
class Annotated:
    """The annotation settings of a builder. Each applies to the following ops until it is cleared, or inside a `with`
    statement.

    All methods raise BuilderError at the caller's line if HLO text cannot represent a value.
    """

    def __init__(self) -> None:
        self._annotations = PLAIN

    @property
    def annotations(self) -> Annotations:
        """The annotations of the next op."""
        return self._annotations

    # -- sharding

    def set_sharding(self, sharding: ShardingLike) -> None:
        """Sets the sharding of the following ops. An op whose shape does not fit the sharding is an error."""
        self._annotate(sharding=as_sharding(sharding))

    def clear_sharding(self) -> None:
        """Leaves the sharding of the ops that follow to the partitioner."""
        self._annotate(sharding=None)

    def sharding(self, sharding: ShardingLike | None) -> AbstractContextManager[None]:
        """`with builder.sharding("{devices=[2,1]<=[2]}"):` shards the ops created inside; None leaves them
        unsharded."""
        return self._scope(sharding=None if sharding is None else as_sharding(sharding))

    # -- frontend attributes

    def set_frontend_attributes(self, attributes: Mapping[str, str]) -> None:
        """Sets the frontend attributes of the following ops, replacing those set before."""
        self._annotate(frontend_attributes=checked_attributes(attributes))

    def clear_frontend_attributes(self) -> None:
        self._annotate(frontend_attributes=None)

    def frontend_attributes(self, attributes: Mapping[str, str]) -> AbstractContextManager[None]:
        """`with builder.frontend_attributes({"layer": "3"}):` sets the frontend attributes of the ops created
        inside."""
        return self._scope(frontend_attributes=checked_attributes(attributes))

    # -- metadata

    def set_op_metadata(self, metadata: OpMetadata) -> None:
        """Sets the metadata of the following ops. If it names no source file, the user's line is added.

        The ops are named by the last component of `op_name`: `jit(f)/add` gives `add`, `add.1`.
        """
        self._annotate(op_metadata=metadata)

    def set_one_shot_op_metadata(self, metadata: OpMetadata) -> None:
        """Sets the metadata of the next instruction only. If a function creates several instructions, the first gets
        it.
        """
        self._annotate(one_shot_op_metadata=metadata)

    def clear_op_metadata(self) -> None:
        """Clears the metadata; the following ops get only the user's line."""
        self._annotate(op_metadata=None)

    def op_metadata(self, metadata: OpMetadata | None) -> AbstractContextManager[None]:
        """`with builder.op_metadata(OpMetadata(op_name="f/add")):` sets the metadata of the ops created inside."""
        return self._scope(op_metadata=metadata)

    # -- original value

    def set_original_value(self, original_value: str) -> None:
        """Sets the original value of the following ops: the value of an earlier program that they represent.

        The text is that of HLO's `origin={...}` without the outer braces: `{"p0"}`, or for a tuple `({"a"}, {"b"
        {1}})`.
        """
        self._annotate(original_value=checked_original_value(original_value))

    def clear_original_value(self) -> None:
        self._annotate(original_value="")

    def original_value(self, original_value: str) -> AbstractContextManager[None]:
        """`with builder.original_value('{"p0"}'):` applies `set_original_value` to the ops created inside."""
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
    """Returns the sharding, parsed if it is given as text. Raises BuilderError if the text is not a sharding."""
    if isinstance(given, Sharding):
        return given
    if not isinstance(given, str):
        raise BuilderError(
            codes.SHARDING_ARGUMENT,
            located(f"a sharding is a Sharding or its text, given {type(given).__name__} {given!r}"),
        )
    try:
        return Sharding.parse(given)
    except ParseError as error:
        raise BuilderError(error.code, located(f"{given!r} is not a sharding: {error.message}")) from None


def checked_attributes(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Returns a copy of frontend attributes. Raises BuilderError unless HLO text round-trips them."""
    copy = dict(attributes)
    for key, value in copy.items():
        if not isinstance(key, str) or not isinstance(value, str):  # type: ignore[redundant-expr]
            raise BuilderError(
                codes.FRONTEND_ATTRIBUTES,
                located(f"frontend attributes map strings to strings, given {key!r}: {value!r}"),
            )
    try:
        again = read_frontend_attributes(HloCursor(frontend_attributes_text(copy)))
    except ParseError as error:
        raise BuilderError(
            codes.FRONTEND_ATTRIBUTES, located(f"frontend attributes {copy} have no HLO text: {error.message}")
        ) from None
    if again != copy:
        raise BuilderError(
            codes.FRONTEND_ATTRIBUTES,
            located(f"frontend attributes {copy} would be read back from HLO text as {again}"),
        )
    return copy


def checked_original_value(text: str) -> str:
    """Returns the text as XLA writes it. Raises BuilderError if it is not an original value."""
    reader = HloCursor(f"{{{text}}}")
    try:
        value = read_original_value(reader)
        if not reader.at_end():
            reader.fail(attributes_codes.ATTRIBUTE_FORM, f"expected its end, found {reader.describe_next()}")
    except ParseError as error:
        raise BuilderError(error.code, located(f"{text!r} is not an original value: {error.message}")) from None
    return value

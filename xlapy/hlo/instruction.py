"""`Instruction`: one operation of an HLO computation.

Responsible for the data of an instruction. Only `xlapy.hlo.edit` changes its edges: operands, users, control edges and
called computations. Does not depend on text or on evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, TypeVar

from xlapy.base.arguments.checking import checked_class
from xlapy.base.arguments.copying import not_copied
from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.errors import IndexRangeError, UnknownAttributeError, UnknownNameError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.metadata import shown_path
from xlapy.opcodes.attributes.codecs import NO_ATTRIBUTES, Attributes
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.movement import DimensionAttributes, DimensionsAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ConstantAttributes, ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes

if TYPE_CHECKING:
    from xlapy.hlo.computation import Computation
    from xlapy.hlo.metadata import OpMetadata
    from xlapy.hlo.sharding import Sharding


A = TypeVar("A", bound=Attributes)


@not_copied("it belongs to a computation; copy the module, which copies its instructions")
@checked_class
class Instruction:
    """An operation applied to operands; a node of a `Computation`.

    `op` is the `OpDef`; `attributes` the op's frozen attribute object; `computations` the called computations in the
    order of the op's called-computation slots. `attributes_as` gives the attributes with the type that the op declares.
    In interactive use, attributes can also be read from the instruction: `i.dimensions` is `i.attributes.dimensions`.

    >>> module = xla.parse_hlo("ENTRY e { x = f32[2,3] parameter(0)  ROOT y = transpose(x), dimensions={1,0} }")
    >>> y = module.entry_computation.root_instruction
    >>> y.op, y.shape.dimensions, y.dimensions, y.operands[0].name
    (opcodes.TRANSPOSE, (3, 2), (1, 0), 'x')
    """

    __slots__ = (
        "_control_predecessors",
        "_control_successors",
        "_users",
        "attributes",
        "backend_config",
        "computations",
        "frontend_attributes",
        "metadata",
        "name",
        "op",
        "operands",
        "original_value",
        "parent",
        "proto_fields",
        "result_accuracy",
        "shape",
        "sharding",
        "statistics",
    )

    def __init__(
        self,
        op: OpDef,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        computations: Sequence[Computation] = (),
        name: str = "",
        metadata: OpMetadata | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.shape = shape
        self.operands: tuple[Instruction, ...] = tuple(operands)
        self.attributes: Attributes = attributes
        self.computations: tuple[Computation, ...] = tuple(computations)
        self.parent: Computation | None = None
        self.metadata = metadata
        self.sharding: Sharding | None = None
        self.frontend_attributes: Mapping[str, str] | None = None
        self.backend_config: str = ""
        self.original_value: str = ""
        self.statistics: str = ""
        self.result_accuracy: str = ""
        self.proto_fields: bytes = b""  # fields of the HloInstructionProto it was read from that have no attribute here
        self._users: dict[Instruction, None] | None = None
        self._control_predecessors: dict[Instruction, None] | None = None
        self._control_successors: dict[Instruction, None] | None = None

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that have this one as an operand, each once, in the order in which they were added."""
        return tuple(self._users) if self._users else ()

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    @property
    def user_count(self) -> int:
        return len(self._users) if self._users else 0

    def users_in(self, instructions: Set[Instruction] | Mapping[Instruction, Any]) -> list[Instruction]:
        """The users among `instructions`. Takes time in proportion to the smaller number, because a
        constant may have a user in each of thousands of kernels."""
        if self.user_count > len(instructions):
            return [user for user in instructions if self in user.operands]
        return [user for user in self._users or () if user in instructions]

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """Instructions that must run before this one although it does not read their results."""
        return tuple(self._control_predecessors) if self._control_predecessors else ()

    @property
    def control_successors(self) -> tuple[Instruction, ...]:
        """Instructions that must run after this one although they do not read its result."""
        return tuple(self._control_successors) if self._control_successors else ()

    @property
    def has_control_edges(self) -> bool:
        return bool(self._control_predecessors or self._control_successors)

    @property
    def operand_shapes(self) -> tuple[Shape, ...]:
        return tuple([operand.shape for operand in self.operands])

    @property
    def is_root(self) -> bool:
        return self.parent is not None and self.parent.root is self

    def operand(self, index: int) -> Instruction:
        try:
            return self.operands[index]
        except IndexError as error:
            raise IndexRangeError(
                codes.OPERAND_NUMBER,
                f"{self.name} ({self.op.name}) has {len(self.operands)} operands, asked for operand {index}",
            ) from error

    def attributes_as(self, attributes_class: type[A]) -> A:
        """The attributes as an instance of the class that the op declares: `i.attributes_as(DotAttributes)`.

        Raises `UnknownAttributeError` if the instruction's attributes are of another class.
        """
        attributes = self.attributes
        if not isinstance(attributes, attributes_class):
            name = attributes_class.__name__
            raise UnknownAttributeError(
                codes.ATTRIBUTE_NAME, f"{self.name} ({self.op.name}) has {type(attributes).__name__}, not {name}"
            )
        return attributes

    # Attributes that many rules read, under the names that XLA's HloInstruction gives them.

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The `dimensions` of a broadcast, transpose, reverse, reduce, map, scan or shuffle."""
        return self.attributes_as(DimensionsAttributes).dimensions

    @property
    def dimension(self) -> int:
        """The dimension of a concatenate, sort, get-dimension-size or set-dimension-size."""
        return self.attributes_as(DimensionAttributes).dimension

    @property
    def literal(self) -> Literal:
        """The literal of a constant."""
        return self.attributes_as(ConstantAttributes).literal

    @property
    def parameter_number(self) -> int:
        """The number of a parameter."""
        return self.attributes_as(ParameterAttributes).number

    @property
    def tuple_index(self) -> int:
        """The index of a get-tuple-element."""
        return self.attributes_as(GetTupleElementAttributes).index

    @property
    def custom_call_target(self) -> str:
        """The name of the function that a custom-call calls."""
        return self.attributes_as(CustomCallAttributes).custom_call_target

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Python calls this only for names that are not found otherwise: the attributes of the op.
            attributes = object.__getattribute__(self, "attributes")
            if not name.startswith("_") and hasattr(attributes, name):
                return getattr(attributes, name)
            op: OpDef = object.__getattribute__(self, "op")
            raise UnknownAttributeError(codes.ATTRIBUTE_NAME, f"{op.name} has no attribute {name!r}")

    def computation(self, key: str) -> Computation:
        """The called computation in the slot with this key (`to_apply`, `condition`, `body`, `calls`, `select` ...)."""
        for slot_key, computation in zip(self.computation_keys, self.computations, strict=False):
            if slot_key == key:
                return computation
        raise UnknownNameError(codes.NAME_IN_MODULE, f"{self.name} ({self.op.name}) calls no computation as {key!r}")

    @property
    def computation_keys(self) -> tuple[str, ...]:
        """The key of the slot of each called computation, in order; a variadic slot repeats its key."""
        keys: list[str] = []
        for slot in self.op.computation_slots_for(self.operand_shapes):
            keys.extend([slot.key] * (len(self.computations) - len(keys) if slot.variadic else 1))
        return tuple(keys[: len(self.computations)])

    @property
    def to_apply(self) -> Computation:
        """The called computation in the slot `to_apply`, for example the reducer of a reduce."""
        return self.computation("to_apply")

    def __repr__(self) -> str:
        operands = ", ".join(operand.name for operand in self.operands)
        return f"<{self.name} = {self.shape} {self.op.name}({operands})>"


def source_of(instruction: Instruction) -> str:
    """Returns the file and line of the user's program that the instruction comes from, `f.py:12`; "" if unknown."""
    return _position(*_file_and_line(instruction))


def describe_instruction(instruction: Instruction) -> str:
    """Names an instruction, its op and the user's line in error messages: `all-reduce.1 (all-reduce) at model.py:12`.

    Without a line in the metadata of the instruction: `all-reduce.1 (all-reduce)`.
    """
    file, line = _file_and_line(instruction)
    source = f" at {_position(shown_path(file), line)}" if file else ""
    return f"{instruction.name} ({instruction.op.name}){source}"


def _position(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file


def _file_and_line(instruction: Instruction) -> tuple[str, int]:
    metadata = instruction.metadata
    if metadata is None:
        return "", 0
    if metadata.source_file:
        return metadata.source_file, metadata.source_line
    module = instruction.parent.module if instruction.parent is not None else None
    frames = module.stack_frames if module is not None else None
    if frames is None or not 0 < metadata.stack_frame_id <= len(frames.frames):
        return "", 0
    location = frames.file_locations[frames.frames[metadata.stack_frame_id - 1].file_location_id - 1]
    return frames.file_names[location.file_name_id - 1], location.line

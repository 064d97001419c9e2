"""A whole program in HLO: `Module`, its computations and its configuration.

Responsible for the data of a module and the uniqueness of the names in it. Does not depend on evaluation or on what ops
mean. The methods that convert to and from text, protos and StableHLO call the functions that the top-level package
registers in `xlapy.hlo.conversions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.error_codes.structure import modules as module_codes
from xlapy.base.errors import UnknownNameError, VerificationError
from xlapy.base.program_shape import ProgramShape
from xlapy.hlo.computation import Computation
from xlapy.hlo.conversions import find_conversion
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.names import NameUniquer

ShapeIndex = tuple[int, ...]
"""A path into nested tuples: () is the whole value, (1, 0) is element 0 of element 1."""


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that may or must share the buffer of a parameter."""

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    must: bool = False


@dataclass(frozen=True, slots=True)
class BufferDonor:
    """A leaf of a parameter whose buffer the program may reuse for any purpose."""

    parameter_number: int
    parameter_index: ShapeIndex


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location in a source file; the ids are 1-based indices into the tables of `StackFrames`."""

    file_name_id: int
    function_name_id: int
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A location and the frame that called it (0 if there is none), both as 1-based ids."""

    file_location_id: int
    parent_frame_id: int


@dataclass(slots=True)
class StackFrames:
    """The tables to which `OpMetadata.stack_frame_id` refers."""

    file_names: list[str] = field(default_factory=list[str])
    function_names: list[str] = field(default_factory=list[str])
    file_locations: list[FileLocation] = field(default_factory=list[FileLocation])
    frames: list[StackFrame] = field(default_factory=list[StackFrame])


@dataclass(slots=True)
class ModuleConfig:
    """The attributes of a module that HLO text gives in the `HloModule` line.

    `other` holds, in order, the attributes that are read and written without being interpreted (key -> text of the
    value). `proto_fields` holds the fields of an HloModuleProto that are passed through in the same way.
    """

    entry_computation_layout: ProgramShape | None = None
    is_scheduled: bool = False
    replica_count: int = 1
    num_partitions: int = 1
    alias_passthrough_params: bool = False
    allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = (False,)
    allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = (False,)
    input_output_alias: tuple[Alias, ...] = ()
    buffer_donors: tuple[BufferDonor, ...] = ()
    frontend_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    other: Mapping[str, str] = field(default_factory=dict[str, str])
    proto_fields: bytes = b""


@checked_class
class Module:
    """A program: named computations, one of them the entry.

    >>> module = xla.parse_hlo("HloModule double  ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }")
    >>> module
    <Module double: 1 computations, 2 instructions>
    >>> module.entry_computation.root_instruction.op.name
    'add'
    >>> xla.Module.from_proto(module.to_proto()).to_text() == module.to_text()
    True
    """

    __slots__ = ("_computations", "computation_names", "config", "entry", "instruction_names", "name", "stack_frames")

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = ModuleConfig()
        self.entry: Computation | None = None
        self.stack_frames: StackFrames | None = None
        self.computation_names = NameUniquer()
        self.instruction_names = NameUniquer()
        self._computations: dict[Computation, None] = {}

    @property
    def computations(self) -> tuple[Computation, ...]:
        return tuple(self._computations)

    @property
    def entry_computation(self) -> Computation:
        """The entry computation; raises VerificationError if the module is being built and has none yet."""
        if self.entry is None:
            raise VerificationError(module_codes.ENTRY_COMPUTATION, f"module {self.name} has no entry computation")
        return self.entry

    @property
    def instruction_count(self) -> int:
        return sum(len(computation) for computation in self._computations)

    def instructions(self) -> Iterator[Instruction]:
        """Iterates over the instructions of all computations."""
        for computation in self._computations:
            yield from computation

    def find(self, name: str) -> Computation:
        """The computation with this name; raises UnknownNameError if there is none."""
        for computation in self._computations:
            if computation.name == name:
                return computation
        raise UnknownNameError(codes.NAME_IN_MODULE, f"module {self.name} has no computation {name!r}")

    def to_text(self, **options: Any) -> str:
        """The module as HLO text; the options are the fields of `xlapy.text.PrintOptions`."""
        text: str = find_conversion("to_text")(self, **options)
        return text

    def to_proto(self) -> bytes:
        """The module as a serialized HloModuleProto; raises `ProtoError` if it has no entry computation."""
        data: bytes = find_conversion("to_proto")(self)
        return data

    @staticmethod
    def from_proto(data: bytes, verify: bool = True) -> Module:
        """Reads a module from a serialized HloModuleProto; raises as `xlapy.proto.from_proto` does."""
        module: Module = find_conversion("from_proto")(data, verify)
        return module

    def __copy__(self) -> Module:
        copy: Module = find_conversion("clone")(self)
        return copy

    def __deepcopy__(self, memo: dict[int, object]) -> Module:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        return Module.from_proto, (self.to_proto(), False)

    def to_stablehlo(self, locations: bool = True) -> str:
        """The module as a StableHLO program in MLIR text; raises as `xlapy.stablehlo.export.to_stablehlo` does."""
        text: str = find_conversion("to_stablehlo")(self, locations)
        return text

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        """The module as notebooks show it: computations that fold, at most some hundred instructions."""
        text: str = find_conversion("to_html")(self)
        return text

    def __repr__(self) -> str:
        return f"<Module {self.name}: {len(self._computations)} computations, {self.instruction_count} instructions>"
